"""Save and load fitted components as spec strings and arrays, in one .npz file without pickle.

A file contains a JSON header and plain arrays. The same model gives the same bytes. Loading runs no code from the file
and rejects all other content.
"""

import io
import json
import math
import re
import zipfile
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

import lookalike
from lookalike.atomic_files import atomic_write, file_errors
from lookalike.errors import DamagedError, FormatError, InputError, LookalikeError, NewerFormatError
from lookalike.registry import kind_of, restore, spec_of, state_of
from lookalike.store.npy_files import DIGEST_BYTES, read_header

FORMAT = 1
MAX_HEADER = 2**20
"""Maximum size of the header in bytes."""

_ARRAY = re.compile(r"(\d{1,6})\.([A-Za-z]\w*_)\.npy")


def save(path: str | Path, *parts: object) -> None:
    """Write fitted components to one file, atomically.

    >>> save("model.npz", PCA(dim=64).fit(X), L2())  # doctest: +SKIP
    """
    if not parts:
        raise InputError("save needs at least one component. Got none.")
    path = Path(path)
    specs = [spec_of(part) for part in parts]  # raises if one is not registered
    kinds = [kind_of(part)[0] for part in parts]
    arrays = {}
    for i, part in enumerate(parts):
        for name, value in state_of(part).items():
            if value.dtype.hasobject:
                raise InputError(f"{name} of {specs[i]} must be a plain array. Arrays of objects cannot be saved.")
            arrays[f"{i}.{name}"] = value
    _save(path, kinds, specs, arrays)


def save_arrays(path: str | Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write plain arrays, without a component, to such a file, atomically. Their names must end in `_`."""
    _save(Path(path), [], [], {f"0.{name}": value for name, value in arrays.items()})


def load(path: str | Path, expected: bytes | None = None) -> list[Any]:
    """Return the components that `save` wrote. Raises DamagedError if the file does not have the `expected` digest."""
    path = Path(path)
    header, arrays = _load(path, expected)
    parts = []
    for i, (kind, spec) in enumerate(zip(header["kinds"], header["specs"], strict=True)):
        state = {}
        for name, value in arrays.items():
            number, _, attribute = name.partition(".")
            if number == str(i):
                state[attribute] = value
        try:
            parts.append(restore(kind, spec, state))
        except (LookalikeError, AttributeError, TypeError) as error:
            raise FormatError(f"Cannot load {path}: {error}") from error
    return parts


def load_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """Return the arrays that `save_arrays` wrote."""
    return {name.removeprefix("0."): value for name, value in _load(Path(path), None)[1].items()}


def _save(path: Path, kinds: list[str], specs: list[str], arrays: dict[str, NDArray[Any]]) -> None:
    header = {"format": FORMAT, "lookalike": lookalike.__version__, "kinds": kinds, "specs": specs}
    with atomic_write(path) as part:
        _write(part, {"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays})


def _load(path: Path, expected: bytes | None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the header and the arrays of a file."""
    with file_errors(path):
        data = path.read_bytes()
    if expected is not None and blake2b(data, digest_size=DIGEST_BYTES).digest() != expected:
        raise DamagedError(f"{path} is damaged: it does not match its digest.")
    try:
        arrays = _read(path, data)
    except (
        zipfile.BadZipFile,
        EOFError,
        NotImplementedError,
        ValueError,
    ) as error:  # zipfile raises these for damaged files
        raise DamagedError(f"{path} is damaged: {error}.") from None
    return _header(path, arrays), arrays


def _write(file: Path, arrays: dict[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, value in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # its date is fixed, so the same model gives the same bytes
            with archive.open(member, "w", force_zip64=True) as stream:
                npy.write_array(stream, np.asarray(value, order="C"), version=(1, 0), allow_pickle=False)


def _read(file: Path, data: bytes) -> dict[str, NDArray[Any]]:
    """Return every array of the file by name."""
    if not data.startswith(b"PK"):
        raise FormatError(f"{file} is not a saved model.")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        # `save` never compresses, so members cannot be larger than the file.
        if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members):
            raise FormatError(f"{file} was not written by Lookalike: it is compressed or encrypted.")
        if sum(member.file_size for member in members) > len(data):
            raise DamagedError(f"{file} is damaged: it is smaller than its directory declares.")
        arrays = {}
        for member in members:
            if member.filename == "header.npy" and member.file_size <= MAX_HEADER:
                arrays["header"] = _array(archive.read(member))
            elif _ARRAY.fullmatch(member.filename):
                arrays[member.filename.removesuffix(".npy")] = _array(archive.read(member))
            else:
                raise FormatError(f"{file} was not written by Lookalike: it contains {member.filename[:80]!r}.")
    return arrays


def _array(data: bytes) -> NDArray[Any]:
    """Return the array of a .npy file. Raises ValueError if its header does not match its size."""
    stream = io.BytesIO(data)
    shape, dtype, order = read_header(stream)
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("the header of an array does not match its size")
    return np.ndarray(shape, dtype, bytearray(memoryview(data)[stream.tell() :]), order=order)


def _header(file: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return the header. Raises FormatError if it is not valid."""
    try:
        header = json.loads(arrays.pop("header").tobytes())
        version, kinds, specs = header["format"], header["kinds"], header["specs"]
        if (
            not isinstance(version, int)
            or version < 1
            or len(kinds) != len(specs)
            or not all(map(str.isprintable, kinds + specs))
        ):
            raise TypeError
    except (KeyError, TypeError, ValueError, RecursionError):
        raise FormatError(f"{file} is not a saved model.") from None
    if version > FORMAT:
        raise NewerFormatError.of(file, version, FORMAT)
    return {"kinds": kinds, "specs": specs}
