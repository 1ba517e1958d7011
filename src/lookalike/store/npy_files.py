"""Arrays in .npy files: the rows and ids of a segment, their digests, and safe reading of headers.

A segment consists of two files, `<name>.npy` (rows, d) and `<name>.ids.npy` (rows,). `RowWriter` writes them in chunks.
Each file gets its name when it is complete and on disk. `map_rows` opens them as memory maps.
"""

import hashlib
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
from lookalike.system import sync_file, sync_folder
from lookalike.types import Ids

DIGEST_BYTES = 16
MAGIC = b"\x93NUMPY\x01\x00"
HEADER = re.compile(
    rb"\{'descr': '([<>|](?:b1|[iu][1248]|f[248]|c8|c16|[SU][0-9]{1,6}))', 'fortran_order': (True|False), "
    rb"'shape': \((|[0-9]{1,18},|[0-9]{1,18}(?:, [0-9]{1,18}){1,31})\), \} *\n"
)
"""The header of a .npy file of version 1.0, as NumPy writes it for plain arrays."""


class RowWriter:
    """Writer of one segment. Call `close` at the end, or `discard` after an error.

    Parameters
    ----------
    target : path of the file of rows; the ids are written next to it.
    rows, dim, dtype : shape and type of the rows.

    """

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
        """Append rows: ids (m,) ascending, and X (m, d)."""
        for part, rows in zip(self._parts, (ids, X), strict=True):
            part.add(rows)

    def close(self) -> bytes:
        """Rename the files into place; return the digest of their content."""
        for part in self._parts:
            part.close()
        sync_folder(self.target.parent)
        return b"".join(part.digest.digest() for part in self._parts)

    def discard(self) -> None:
        """Remove the unfinished files."""
        for part in self._parts:
            with suppress(OSError):  # on a full disk, closing cannot write the buffer
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
        sync_file(self.stream.fileno())
        self.stream.close()
        self.temp.rename(self.target)


def ids_file(target: Path) -> Path:
    """Return the path of the ids of the segment at `target`."""
    return target.with_suffix(".ids.npy")


def map_rows(target: Path, shape: tuple[int, int], dtype: str) -> tuple[Ids, NDArray[Any]]:
    """Return a segment's ids and rows as memory maps. Raises DamagedError if their shape or type is wrong."""
    return _map(ids_file(target), shape[:1], "int64"), _map(target, shape, dtype)


def digest(ids: Ids, X: NDArray[Any]) -> bytes:
    """Return the digest of a segment's content."""
    return b"".join(blake2b(_bytes_of(part), digest_size=DIGEST_BYTES).digest() for part in (ids, X))


def digest_file(file: Path) -> bytes:
    """Return the digest of a file's bytes."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, partial(blake2b, digest_size=DIGEST_BYTES)).digest()


def read_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any], Literal["C", "F"]]:
    """Return the shape, type and order of a .npy file. Raises ValueError if it has no header of a plain array.

    NumPy's own reader fails in many ways on a damaged header. It also uses Python's parser, which in 3.11 sometimes
    fails if several threads use it.
    """
    start = stream.read(len(MAGIC) + 2)
    header = HEADER.fullmatch(stream.read(int.from_bytes(start[-2:], "little")))
    if not start.startswith(MAGIC) or header is None:
        raise ValueError("it contains no .npy array of numbers or text")
    descr, fortran, shape = (part.decode() for part in header.groups())
    numbers = tuple(int(number) for number in re.findall("[0-9]+", shape))
    return numbers, np.dtype(descr), "F" if fortran == "True" else "C"


def _map(file: Path, shape: tuple[int, ...], dtype: str) -> NDArray[Any]:
    with file.open("rb") as stream:
        try:
            found, kind, order = read_header(stream)
            if (found, kind, order) != (shape, np.dtype(dtype), "C"):
                raise ValueError(f"it should contain {dtype} of shape {shape}, not {kind} of shape {found}")
            return np.memmap(stream, kind, "r", stream.tell(), shape).view(np.ndarray)
        except ValueError as error:  # also raised if the file is shorter than declared
            raise DamagedError(f"{file} is damaged: {error}.") from None


def _bytes_of(rows: NDArray[Any]) -> memoryview:
    return rows.data.cast("B")
