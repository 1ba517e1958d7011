"""Files that are whole or not there: the rows of a segment, and what makes a name outlast a power cut.

In: ids and vectors, a chunk at a time. Out: `<name>.npy` (rows, d) and `<name>.ids.npy` (rows,), which any tool
reads, and a digest of what they hold. A file gets its name only when it is complete and on the disk.
"""

import hashlib
import os
import re
from contextlib import suppress
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from lookalike.errors import DamagedError
from lookalike.types import Ids

DIGEST_BYTES = 16
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '([<>|](?:b1|[iu][1248]|f[248]|c8|c16|[SU][0-9]{1,6}))', 'fortran_order': (True|False), "
    rb"'shape': \((|[0-9]{1,18},|[0-9]{1,18}(?:, [0-9]{1,18}){1,31})\), \} *\n"
)
"""How a .npy file of version 1.0 begins, the one for plain arrays."""


class RowWriter:
    """Writes one segment. Leave it by `close`, or by `discard` when something went wrong."""

    def __init__(self, target: Path, rows: int, dim: int, dtype: np.dtype[Any]):
        self.target = target
        self.dtype = dtype
        self._parts: list[_Npy] = []
        try:
            self._parts.append(_Npy(ids_file(target), (rows,), np.dtype(np.int64)))
            self._parts.append(_Npy(target, (rows, dim), dtype))
        except BaseException:
            self.discard()
            raise

    def add(self, ids: Ids, X: NDArray[Any]) -> None:
        """The next rows, ids ascending: (m,) and (m, d)."""
        for part, rows in zip(self._parts, (ids, X), strict=True):
            part.add(rows)

    def close(self) -> bytes:
        """Put the files in place; returns the digest of what they hold."""
        for part in self._parts:
            part.close()
        sync_folder(self.target.parent)
        return b"".join(part.digest.digest() for part in self._parts)

    def discard(self) -> None:
        """Leave nothing behind."""
        for part in self._parts:
            with suppress(OSError):  # a full disk does not take what is left to write either
                part.stream.close()
            part.temp.unlink(missing_ok=True)
            part.target.unlink(missing_ok=True)


class _Npy:
    """A .npy file that grows by rows under a temporary name."""

    def __init__(self, target: Path, shape: tuple[int, ...], dtype: np.dtype[Any]):
        self.target = target
        self.temp = target.with_name(f"{target.name}.part")
        self.digest = blake2b(digest_size=DIGEST_BYTES)
        self._dtype = dtype
        self.stream = self.temp.open("wb")
        header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": False, "shape": shape}
        npy.write_array_header_1_0(self.stream, header)

    def add(self, rows: NDArray[Any]) -> None:
        data = _bytes_of(np.ascontiguousarray(rows, self._dtype))
        self.stream.write(data)
        self.digest.update(data)

    def close(self) -> None:
        self.stream.flush()
        os.fsync(self.stream.fileno())
        self.stream.close()
        self.temp.rename(self.target)


def ids_file(target: Path) -> Path:
    """Where the ids of the segment at `target` are."""
    return target.with_suffix(".ids.npy")


def map_rows(target: Path, shape: tuple[int, int], dtype: str) -> tuple[Ids, NDArray[Any]]:
    """A segment's ids and rows as memory maps; DamagedError where they are not of this shape and type."""
    return _map(ids_file(target), shape[:1], "int64"), _map(target, shape, dtype)


def digest(ids: Ids, X: NDArray[Any]) -> bytes:
    """The digest of what a segment holds."""
    return b"".join(blake2b(_bytes_of(part), digest_size=DIGEST_BYTES).digest() for part in (ids, X))


def digest_file(file: Path) -> bytes:
    """Return the digest of a file's bytes."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, partial(blake2b, digest_size=DIGEST_BYTES)).digest()


def settle(temp: Path, target: Path) -> None:
    """Give a complete file its name, for good."""
    with temp.open("rb") as stream:
        os.fsync(stream.fileno())
    temp.rename(target)
    sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder where there is none, and those above it; their names outlast a power cut."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)  # another process may be faster
        sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """New names in a folder outlast a power cut."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], Literal["C", "F"]]:
    """Shape, type and order of a .npy file; ValueError where its header is not as NumPy writes those of plain arrays.

    NumPy's own reader stumbles over a damaged one in many ways, and goes through Python's parser, which in 3.11 fails
    now and then when several threads are in it.
    """
    start = stream.read(len(MAGIC) + 2)
    header = HEADER.fullmatch(stream.read(int.from_bytes(start[-2:], "little")))
    if not start.startswith(MAGIC) or header is None:
        raise ValueError("no .npy array of numbers or texts where one should be")
    descr, fortran, shape = (part.decode() for part in header.groups())
    numbers = tuple(int(number) for number in re.findall("[0-9]+", shape))
    return numbers, np.dtype(descr), "F" if fortran == "True" else "C"


def _map(file: Path, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    with file.open("rb") as stream:
        try:
            found, kind, order = read_header(stream)
            if (found, kind, order) != (shape, np.dtype(dtype), "C"):
                raise ValueError(f"it should hold {dtype} of shape {shape}, not {kind} of {found}")
            return np.memmap(stream, kind, "r", stream.tell(), shape).view(np.ndarray)
        except ValueError as error:  # also: shorter than its header says
            raise DamagedError(f"{file} is damaged: {error}.") from None


def _bytes_of(rows: NDArray[Any]) -> memoryview:
    return rows.data.cast("B")
