"""Named arrays in one file that is mapped into memory: the operating system reads only the parts that are used.

`allocate` creates the file and returns its arrays, to be filled; `resume` returns those of an unfinished file. `seal`
writes the header last, so that a file that is not complete cannot be opened. `open_arrays` maps a file, without reading
the arrays. `MappedRows` reads scattered rows of any mapped array without the parts between them.
"""

import json
import mmap
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import DamagedError
from lookalike.system import boot_id, reserve, sync_file

MAGIC = b"lookalike arrays 1\n"
UNFINISHED = b"lookalike unfinished arrays 1\n"

HEADER_BYTES = 2**16
"""Size of the header: the magic number, JSON with the types and shapes of the arrays and other values, and zeros."""

ALIGNMENT = 64
"""Arrays start at multiples of this number of bytes, a cache line."""

CLOSE_BYTES = 2**15
"""Rows at this average distance or less are close together: reading the parts between them takes no longer."""

Shapes: TypeAlias = Mapping[str, tuple[str, tuple[int, ...]]]
"""Type and shape of each array."""

Arrays: TypeAlias = dict[str, NDArray[Any]]


def allocate(shapes: Shapes, path: Path | None) -> Arrays:
    """Return arrays of zeros: in a new file, which takes their space on the disk, or in memory if `path` is None."""
    if path is None:
        return {name: np.zeros(shape, kind) for name, (kind, shape) in shapes.items()}
    size = _ends(shapes)[-1]
    path.unlink(missing_ok=True)  # not truncated, because another process may have mapped it
    try:
        with path.open("wb") as file:
            reserve(file.fileno(), size)  # else a full disk would kill the process that fills the arrays
            file.truncate(size)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    return _views(np.memmap(path, np.uint8, "r+"), shapes)


def resume(shapes: Shapes, path: Path | None, key: str) -> tuple[Arrays, bool]:
    """Return the arrays of the unfinished file with this key, or else those of `allocate`; and whether there was one.

    What a killed process has written to a mapped file is in the memory of the operating system, from which it is
    written to the disk later. A file from before the last start of the machine can be incomplete, and so can a copy of
    a file that was changing; both are not used.
    """
    if path is None:
        return allocate(shapes, None), False
    with suppress(FileNotFoundError), path.open("r+b") as file:
        if file.read(HEADER_BYTES) == _unfinished(shapes, file, key) and file.seek(0, 2) == _ends(shapes)[-1]:
            return _views(np.memmap(file, np.uint8, "r+"), shapes), True
    arrays = allocate(shapes, path)
    with path.open("r+b") as file:
        file.write(_unfinished(shapes, file, key))
    return arrays, False


def seal(arrays: Arrays, path: Path, values: Mapping[str, Any]) -> None:
    """Complete the file of these arrays with a header that also contains these values."""
    shapes = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
    with path.open("r+b") as file:
        sync_file(file.fileno())  # else a power cut could leave a header without the arrays
        file.write(_header(MAGIC, shapes, values))


def open_arrays(path: Path, scattered: str | None = None) -> tuple[Arrays, dict[str, Any]]:
    """Map the arrays of a file, read-only; return them and the values. Raises DamagedError if it is not complete.

    The array `scattered` and those after it are read page by page, without read-ahead.
    """
    try:
        with path.open("rb") as file:
            header = file.read(HEADER_BYTES)
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        if not header.startswith(MAGIC):
            raise ValueError("it is incomplete, or an older version wrote it")
        content = json.loads(header[len(MAGIC) :].rstrip(b"\0"))
        shapes = {name: (kind, tuple(shape)) for name, (kind, shape) in content["arrays"].items()}
        if not {np.dtype(kind).kind for kind, _ in shapes.values()} <= {*"biuf"}:
            raise ValueError("it contains other types than numbers")
        ends = _ends(shapes)
        if len(mapped) != ends[-1]:
            raise ValueError(f"it has {len(mapped)} bytes instead of {ends[-1]}")
        if scattered is not None:
            start = ends[list(shapes).index(scattered)] // mmap.PAGESIZE * mmap.PAGESIZE
            mapped.madvise(mmap.MADV_RANDOM, start)
        return _views(mapped, shapes), content["values"]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedError(f"Cannot read {path}: {error}. Delete it; the index will be rebuilt.") from error


def is_mapped(X: Any) -> bool:
    """Whether X is a view of a memory map, including plain arrays that are based on one."""
    return _map_of(X) is not None


class MappedRows(NamedTuple):
    """Where an array of rows (m, d) is in a memory map."""

    file: mmap.mmap
    start: int  # the place of the first row, in bytes
    row_bytes: int

    @classmethod
    def of(cls, X: NDArray[Any]) -> Self | None:
        """Where this array is; None if it is not mapped, or not contiguous."""
        file = _map_of(X)
        if file is None or not X.flags.c_contiguous:
            return None
        start = X.ctypes.data - np.frombuffer(file, np.uint8).ctypes.data
        return cls(file, start, X.strides[0])

    def prefetch(self, rows: NDArray[np.int64]) -> None:
        """Start to read rows with these numbers (m,) from the disk, unless they are close together.

        Without this, the first use of each page would read the megabytes around it, one page after the other.
        """
        if len(rows) > 1 and int(np.ptp(rows)) * self.row_bytes <= len(rows) * CLOSE_BYTES:
            return
        places = self.start + rows * self.row_bytes  # (m,)
        offsets = places % mmap.PAGESIZE
        for place, length in zip((places - offsets).tolist(), (offsets + self.row_bytes).tolist(), strict=True):
            self.file.madvise(mmap.MADV_WILLNEED, place, length)


def _map_of(X: Any) -> mmap.mmap | None:
    while isinstance(X, np.ndarray):
        X = X.base
    return X if isinstance(X, mmap.mmap) else None


def _unfinished(shapes: Shapes, file: BinaryIO, key: str) -> bytes:
    """The header of an unfinished file. It contains the identity of the file, which a copy does not have."""
    found = os.fstat(file.fileno())
    return _header(UNFINISHED, shapes, {"key": key, "boot": boot_id(), "file": (found.st_dev, found.st_ino)})


def _header(magic: bytes, shapes: Shapes, values: Mapping[str, Any]) -> bytes:
    """The header of a file of arrays."""
    header = magic + json.dumps({"arrays": shapes, "values": values}).encode()
    if len(header) > HEADER_BYTES:
        raise ValueError(f"The header must have at most {HEADER_BYTES} bytes. Got {len(header)}.")
    return header.ljust(HEADER_BYTES, b"\0")


def _ends(shapes: Shapes) -> list[int]:
    """The aligned offsets of the ends of the header and of each array."""
    ends = [HEADER_BYTES]
    for kind, shape in shapes.values():
        size = np.dtype(kind).itemsize
        for length in shape:
            size *= length
        ends.append(ends[-1] + size + -size % ALIGNMENT)
    return ends


def _views(file: NDArray[np.uint8] | mmap.mmap, shapes: Shapes) -> Arrays:
    """The arrays of a file, as plain arrays."""
    arrays: Arrays = {}
    for start, (name, (kind, shape)) in zip(_ends(shapes)[:-1], shapes.items(), strict=True):
        arrays[name] = np.ndarray(shape, kind, file, start)
    return arrays
