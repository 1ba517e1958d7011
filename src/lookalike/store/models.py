"""Saved models: fitted components as spec strings and arrays, in one .npz file without pickle.

In: registered components. Out: a file that holds only a JSON header and plain arrays, the same bytes for the same
model; and the components back from it. Loading runs no code from the file and refuses what is not exactly this.
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
from lookalike.errors import DamagedError, FormatError, InputError, LookalikeError
from lookalike.registry import kind_of, restore, spec_of, state_of
from lookalike.store.files import DIGEST_BYTES, read_header
from lookalike.store.schema import translated
from lookalike.store.whole import whole

FORMAT = 1
MAX_HEADER = 2**20
"""Bytes the header may have."""

_ARRAY = re.compile(r"(\d{1,6})\.([A-Za-z]\w*_)\.npy")


def save(path: str | Path, *parts: object) -> None:
    """Write fitted components to one file; it is complete or not there.

    >>> save("model.npz", PCA(dim=64).fit(X), L2())  # doctest: +SKIP
    """
    if not parts:
        raise InputError("A model has at least one part. Got none.")
    path = Path(path)
    specs = [spec_of(part) for part in parts]  # refuses what is not registered
    kinds = [kind_of(part)[0] for part in parts]
    arrays = {}
    for i, part in enumerate(parts):
        for name, value in state_of(part).items():
            if value.dtype.hasobject:
                raise InputError(f"{name} of {specs[i]} must be a plain array to be saved. Got objects.")
            arrays[f"{i}.{name}"] = value
    _save(path, kinds, specs, arrays)


def save_arrays(path: str | Path, arrays: dict[str, NDArray[Any]]) -> None:
    """Write plain arrays of no component, by names that end in `_`, to such a file; it is complete or not there."""
    _save(Path(path), [], [], {f"0.{name}": value for name, value in arrays.items()})


def load(path: str | Path, expected: bytes | None = None) -> list[Any]:
    """The components that `save` wrote, fitted as they were; only those with the `expected` digest, where given."""
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
            raise FormatError(f"{path} cannot be used here: {error}") from error
    return parts


def load_arrays(path: str | Path) -> dict[str, NDArray[Any]]:
    """What `save_arrays` wrote."""
    return {name.removeprefix("0."): value for name, value in _load(Path(path), None)[1].items()}


def _save(path: Path, kinds: list[str], specs: list[str], arrays: dict[str, NDArray[Any]]) -> None:
    header = {"format": FORMAT, "lookalike": lookalike.__version__, "kinds": kinds, "specs": specs}
    with whole(path) as part:
        _write(part, {"header": np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays})


def _load(path: Path, expected: bytes | None) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and the arrays of a file."""
    with translated(path):
        data = path.read_bytes()
    if expected is not None and blake2b(data, digest_size=DIGEST_BYTES).digest() != expected:
        raise DamagedError(f"{path} does not match its digest.")
    try:
        arrays = _read(path, data)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, ValueError) as error:  # what zipfile stumbles over
        raise DamagedError(f"{path} is damaged: {error}.") from None
    return _header(path, arrays), arrays


def _write(file: Path, arrays: dict[str, NDArray[Any]]) -> None:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, value in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy")  # dated 1980: the same model gives the same bytes
            with archive.open(member, "w", force_zip64=True) as stream:
                npy.write_array(stream, np.asarray(value, order="C"), version=(1, 0), allow_pickle=False)


def _read(file: Path, data: bytes) -> dict[str, NDArray[Any]]:
    """Every array of the file, by name."""
    if not data.startswith(b"PK"):
        raise FormatError(f"{file} is not a saved model.")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = archive.infolist()
        # `save` never compresses, so what the members claim to hold cannot exceed the file itself.
        if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members):
            raise FormatError(f"{file} was not written by Lookalike: it is compressed or encrypted.")
        if sum(member.file_size for member in members) > len(data):
            raise DamagedError(f"{file} is damaged: it claims to hold more than it does.")
        arrays = {}
        for member in members:
            if member.filename == "header.npy" and member.file_size <= MAX_HEADER:
                arrays["header"] = _array(archive.read(member))
            elif _ARRAY.fullmatch(member.filename):
                arrays[member.filename.removesuffix(".npy")] = _array(archive.read(member))
            else:
                raise FormatError(f"{file} was not written by Lookalike: it has {member.filename[:80]!r}.")
    return arrays


def _array(data: bytes) -> NDArray[Any]:
    """The array of a .npy file whose header fits what follows it, else ValueError."""
    stream = io.BytesIO(data)
    shape, dtype, order = read_header(stream)
    if math.prod(shape) * dtype.itemsize != len(data) - stream.tell():
        raise ValueError("an array does not hold what its header says")
    return np.ndarray(shape, dtype, bytearray(memoryview(data)[stream.tell() :]), order=order)


def _header(file: Path, arrays: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """The header, checked."""
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
        raise FormatError(
            f"{file} was written by a newer Lookalike (format {version}, this one reads up to {FORMAT})."
            " Update Lookalike."
        )
    return {"kinds": kinds, "specs": specs}
