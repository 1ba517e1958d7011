"""The rows of `Leaves` as bytes, sorted into cells and leaves: the structure in memory and in the file.

`LeafCodes.build` puts similar rows next to each other: cells by k-means, split into leaves by bisecting 2-means. A tree
without cells splits clusters: on 1,000 Gaussian clusters, two thirds of the rows of a leaf did not belong to its main
cluster, and a search had to visit five times more leaves.

The codes of a leaf are 8 KB of consecutive bytes (64 rows of 128 dimensions). They can stay in a file that is mapped
into memory, from which a search reads the leaves that it visits. Rows are written directly to a place of their cell,
and each cell is then sorted in place, so that a build hardly needs memory besides the arrays, which can be in a file.
`Build` records how far a build into a file is, so that it can resume after its process was killed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from lookalike import __version__, mapped_arrays
from lookalike.arrays import chunks, expand
from lookalike.compiler import njit
from lookalike.errors import DamagedError, InputError
from lookalike.features.clustering import kmeans
from lookalike.index.compiled import BLOCK, GROUP
from lookalike.index.exact import Mask
from lookalike.index.flat import Flat
from lookalike.index.ids import without
from lookalike.index.leaf_recall import RECORD, Recall, uncalibrated
from lookalike.index.leaf_scores import (
    Codes,
    Plane,
    Steps,
    f_leaves,
    in_blocks,
    spreads,
)
from lookalike.index.threads import share
from lookalike.scaled_rows import as_stored
from lookalike.types import Ids, Progress, Vectors

faiss: Any = _faiss  # its type stubs are incomplete

MIN_ROWS = 1_000
"""With fewer rows, no leaves are built."""

STEPS_SAMPLE = 20_000
"""Rows from which the step size of the bytes is computed."""

CELL, CELLS = 500, 4_096
"""Average number of rows per cell, and the maximum number of cells."""

KMEANS_ROWS, KMEANS_ROUNDS = 128, 10
"""Rows per cell for k-means, and its iterations."""

CUT_SAMPLE, CUT_ROUNDS = 512, 6
"""Rows for 2-means, and its iterations."""

CUT_LEAST = 0.1
"""Minimum share of the leaves for each side of a cut, which limits the depth."""

CHUNK_BYTES = 2**23
"""Size of the rows as floats that are converted to bytes at a time."""

WRITE_BYTES = 2**25
"""Size of the rows as bytes that are written to their cells at a time: about two pages of the file per cell. With
fewer, a file larger than the memory would be written many times."""

CELLS_AT_ONCE = 64
"""Cells that are sorted into leaves between two reports of progress."""

CENTRES, ASSIGNED, WRITTEN, STARTED, SORTED, MEASURED = range(6)
"""Places in `Build.done`: whether the centres of the cells are known, the number of rows with a cell, of rows written
to their cells, of cells whose sorting has started, of sorted cells, and of recorded numbers of the calibration."""


class Build:
    """The progress of a build. For a build into a file, it is stored in `{path}.part`, so that a later build resumes.

    A count is written after what it counts, so that the process can be killed at any time. The files are reused only
    for the same rows, which are compared by a digest of all ids and vectors. The end of a `with` block removes
    `{path}.part` if the leaves are complete or if a file is damaged.
    """

    def __init__(self, truth: Flat, size: int, path: Path | None, progress: Progress):
        n, d = len(truth), truth.dim or 0
        k = min(CELLS, max(1, n // CELL))
        self.size, self.path, self.progress = size, path, progress
        self._part = None if path is None else path.with_name(f"{path.name}.part")
        self._key = "" if path is None else self._digest(truth)
        self._used = 0
        shapes = {
            "done": ("<i8", (6,)),
            "centres": ("<f4", (k, d + -d % GROUP)),
            "cell": ("<i4", (n,)),
            "record": ("<f8", (RECORD,)),
        }
        arrays, self._resumed = mapped_arrays.resume(shapes, self._part, self._key)
        self.done, self.centres, self.cell, self.record = arrays.values()
        if path is not None and not self._resumed:
            path.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        damaged = self._resumed and isinstance(error, DamagedError | LookupError | ValueError)
        damaged &= not isinstance(error, InputError)  # of vectors that cannot be queries
        if self._part is not None and (error is None or damaged):
            self._part.unlink(missing_ok=True)
        if damaged:
            raise DamagedError(
                f"The unfinished file {self.path} is damaged. Try again; the build will start from the beginning."
            ) from error

    def allocate(self, shapes: mapped_arrays.Shapes) -> mapped_arrays.Arrays:
        """The arrays of the leaves: zeros, or partly filled by an earlier build."""
        arrays, resumed = mapped_arrays.resume(shapes, self.path, self._key)
        if not resumed:
            self.done[WRITTEN:] = 0
        return arrays

    def parts(self, count: int, title: str, n: int, row_bytes: int, max_bytes: int) -> Iterator[slice]:
        """Yield the parts of n rows that are not done; report each before it, and count it after."""
        for part in chunks(n, row_bytes, max_bytes):
            if part.start >= self.done[count]:
                self.progress(title, part.start, n)
                yield part
                self.done[count] = part.stop

    def once(self, n: int, compute: Callable[[], NDArray[Any]]) -> NDArray[np.float64]:
        """Compute the next n numbers of the calibration, unless they are recorded."""
        start, stop = self._used, self._used + n
        if self.done[MEASURED] < stop:
            self.record[start:stop] = compute()
            self.done[MEASURED] = stop
        self._used = stop
        return self.record[start:stop]

    def _digest(self, truth: Flat) -> str:
        """A digest of everything that determines the leaves."""
        digest = blake2b(repr((__version__, self.size)).encode(), digest_size=16)
        digest.update(truth.row_ids.data)
        digest.update(truth.alive.data)
        for block in truth.blocks:
            for part in chunks(len(block.X), block.X.nbytes // len(block.X)):
                self.progress("checking vectors", block.start + part.start, len(truth.alive))
                digest.update(np.ascontiguousarray(as_stored(block.X[part])).data.cast("B"))
        return digest.hexdigest()


class Centres(NamedTuple):
    """The means of sets of rows, plus and minus their mean deviations, as codes: blocks of 16 sets."""

    upper: Codes  # mean + mean deviation
    lower: Codes  # mean − mean deviation

    def put(self, first: int, mean: Vectors, deviation: Vectors) -> Vectors:
        """Store means and mean deviations, (m, d padded) each, of the sets from number `first` on; return their widths.

        The width of a set is twice the length of its mean deviation, in steps, (m,).
        """
        sets = first + np.arange(len(mean))
        ends = np.rint(np.clip([mean + deviation, mean - deviation], 0, 255)).astype(np.uint8)  # (2, m, d padded)
        for codes, rows in zip(self, ends, strict=True):
            codes[sets // BLOCK, :, sets % BLOCK] = rows.reshape(len(rows), -1, GROUP)
        widths: Vectors = np.linalg.norm(ends[0].astype(np.float32) - ends[1], axis=1)
        return np.maximum(widths, np.float32(1))

    def f(self, blocks: Ids, plane: Plane) -> Vectors:
        """Approximate mean of f in the sets of these blocks, (16 m,).

        It differs from f of the mean, because rows are farther from any point than their mean is. With u and v one mean
        deviation above and below the mean, the mean of |u − s| and |v − s| equals that of |x − s| for s at the mean or
        far away.
        """
        return f_leaves(self.upper, blocks, 1, plane, self.lower).ravel()

    def spreads(self, sets: Ids, plane: Plane) -> Vectors:
        """Approximate standard deviation of f in these sets, (m,)."""
        return np.maximum(spreads(self.upper, self.lower, sets, plane), np.float32(1e-9))


class Passed(NamedTuple):
    """The rows that pass the filters of a search."""

    keep: Mask  # (leaves, size) the rows that pass, and those at `excluded`
    excluded: Ids  # (m,) places
    counts: Ids  # (leaves,) the number of rows that pass

    def mask(self, leaves: Ids, scores: Vectors) -> None:
        """Replace the scores (m, size) of rows that do not pass, in these leaves, ascending (m,), with infinity."""
        scores[~self.keep[leaves]] = np.inf
        leaf, column = np.divmod(self.excluded, self.keep.shape[1])
        row = np.minimum(np.searchsorted(leaves, leaf), len(leaves) - 1)
        found = leaves[row] == leaf
        scores[row[found], column[found]] = np.inf


@dataclass(slots=True)
class LeafCodes:
    """Places 0 … leaves · size - 1, each with the code and id of a row; id -1 pads the last leaf of a cell.

    The arrays of a file are mapped into memory, and read-only.
    """

    size: int  # rows of a leaf
    steps: Steps
    codes: Codes  # (leaves · size / 16, groups, 16, 8)
    leaves: Centres
    cells: Centres
    starts: Ids  # (cells + 1,) the first leaf of each cell
    ids: Ids  # (places,)
    alive: Mask  # (places,)
    counts: Ids  # (leaves,) the number of places with a row
    narrow: Vectors  # (leaves,) the width of a leaf relative to that of its cell
    known: Ids  # (n,) the ids of all rows, ascending
    place: NDArray[np.int32]  # (n,) the place of each of them
    recall: Recall

    @classmethod
    def build(cls, truth: Flat, build: Build) -> Self:
        """Sort all rows of `truth` into leaves: in memory, or in a file, for `complete`."""
        ids = truth.ids
        steps = Steps.of(truth.vectors(ids[:: max(1, len(ids) // STEPS_SAMPLE)]))
        cell = _assign(truth, steps, build)
        counts = np.bincount(cell)
        starts = np.append(0, np.cumsum(-(-counts // build.size)))
        arrays = build.allocate(_shapes(build.size, len(steps.low), starts, len(ids)))
        arrays["low"][:], arrays["starts"][:], arrays["known"][:] = steps.low, starts, ids
        made = cls._over(arrays, build.size, steps.step, uncalibrated())
        free = made._free(np.bincount(cell[: build.done[WRITTEN]], minlength=len(counts)))
        for part in build.parts(WRITTEN, "writing cells", len(ids), steps.wide, WRITE_BYTES):
            made._write(truth, cell, np.arange(part.start, part.stop), free)
        for part in build.parts(SORTED, "sorting into leaves", len(counts), 1, CELLS_AT_ONCE):
            if build.done[STARTED] > part.start:  # an interrupted build has changed these cells
                made._write_again(truth, cell, part)
            build.done[STARTED] = part.stop

            def work(start: int, stop: int, first: int = part.start) -> None:
                for number in range(first + start, first + stop):
                    made._sort_cell(number, int(counts[number]))

            share(work, part.stop - part.start)
        if not np.array_equal(made.ids[made.place], ids):  # damage of a resumed file
            raise DamagedError("Not every row has a place.")
        return made

    @classmethod
    def _over(cls, arrays: mapped_arrays.Arrays, size: int, step: float, recall: Recall) -> Self:
        """Create an object from the arrays of `_shapes`."""
        rest = dict(arrays)
        steps = Steps(rest.pop("low"), step)
        leaves, cells = (Centres(rest.pop(f"{name}_upper"), rest.pop(f"{name}_lower")) for name in ("leaves", "cells"))
        return cls(size=size, steps=steps, leaves=leaves, cells=cells, recall=recall, **rest)

    def _free(self, written: Ids | int) -> Ids:
        """The first free place of each cell if this number of its rows is written."""
        return self.starts[:-1] * self.size + written

    def _write(self, truth: Flat, cell: NDArray[np.int32], numbers: Ids, free: Ids) -> None:
        """Write the bytes of these rows of `truth` to the next places of their cells, and their numbers to `ids`."""
        rows = self.codes.reshape(len(self.ids), -1)  # not in blocks until the cell is sorted
        order = np.argsort(cell[numbers], kind="stable")
        counts = np.bincount(cell[numbers], minlength=len(free))
        places = expand(free, counts)
        free += counts
        rows[places] = _encode(truth, self.known[numbers], self.steps)[order]
        self.ids[places] = numbers[order]

    def _write_again(self, truth: Flat, cell: NDArray[np.int32], cells: slice) -> None:
        """Write all rows of these cells."""
        numbers, free = np.flatnonzero((cell >= cells.start) & (cell < cells.stop)), self._free(0)
        for part in chunks(len(numbers), row_bytes=self.steps.wide, max_bytes=WRITE_BYTES):
            self._write(truth, cell, numbers[part], free)

    def _sort_cell(self, cell: int, n: int) -> None:
        """Sort the n rows of a cell into leaves, and compute everything about them."""
        start, stop = (int(leaf) for leaf in self.starts[cell : cell + 2])
        first, last, wide = start * self.size, stop * self.size, self.steps.wide
        rows = self.codes.reshape(-1, wide)[first : first + n].copy()
        order = np.arange(n)
        _cut_all(rows, order, self.size)
        full = rows[np.append(order, np.repeat(order[-1], last - first - n))]  # padded with the last row
        self.codes[first // BLOCK : last // BLOCK] = in_blocks(full)
        numbers = self.ids[first : first + n][order]
        self.place[numbers] = np.arange(first, first + n)
        self.ids[first : first + n], self.ids[first + n : last] = self.known[numbers], -1
        self.alive[first : first + n] = True
        self.counts[start:stop] = self.size
        self.counts[stop - 1] = n - self.size * (stop - start - 1)
        leaves = full.reshape(-1, self.size, wide)
        mean, mean_of_cell = leaves.mean(1, dtype=np.float32), full.mean(0, dtype=np.float32, keepdims=True)
        width = self.leaves.put(start, mean, np.abs(leaves - mean[:, None]).mean(1))
        self.narrow[start:stop] = width / self.cells.put(
            cell, mean_of_cell, np.abs(full - mean_of_cell).mean(0, keepdims=True)
        )

    @property
    def nbytes(self) -> int:
        """Bytes of memory, without those of a mapped file."""
        return sum(array.nbytes for array in self._arrays().values() if not mapped_arrays.is_mapped(array))

    @property
    def removed(self) -> int:
        """Number of removed rows."""
        return len(self.known) - int(self.counts.sum())

    def places(self, ids: Ids) -> Ids:
        """The places of these ids; ids without a place are skipped."""
        found = np.minimum(np.searchsorted(self.known, ids), len(self.known) - 1)
        places: Ids = self.place[found[self.known[found] == ids]].astype(np.int64)
        return places

    def remove(self, ids: Ids) -> None:
        """Mark the rows with these ids as removed."""
        removed = self.filter(exclude=ids)
        self.alive, self.counts = self.alive.copy(), removed.counts
        self.alive[removed.excluded] = False

    def filter(self, among: Ids | None = None, exclude: Ids | None = None) -> Passed:
        """The rows that pass these filters, which are ascending ids, and were not removed."""
        keep, counts, excluded = self.alive, self.counts, np.empty(0, np.int64)
        if among is not None:
            keep = np.zeros_like(keep)
            places = self.places(among)
            keep[places] = self.alive[places]
            counts = np.count_nonzero(keep.reshape(-1, self.size), axis=1)
        if exclude is not None:  # without a copy of the mask: every round excludes the marked rows
            excluded = self.places(exclude)
            excluded = excluded[keep[excluded]]
            counts = counts - np.bincount(excluded // self.size, minlength=len(counts))
        return Passed(keep.reshape(-1, self.size), excluded, counts)

    def f_centres(self, leaves: Ids, plane: Plane) -> Vectors:
        """Approximate mean of f in each of these leaves, ascending, (m,)."""
        blocks, where = np.unique(leaves // BLOCK, return_inverse=True)
        f: Vectors = self.leaves.f(blocks, plane)[where * BLOCK + leaves % BLOCK]
        return f

    def f(self, leaves: Ids, plane: Plane) -> Vectors:
        """f of the rows of these leaves, (m, size)."""
        return f_leaves(self.codes, leaves, self.size // BLOCK, plane)

    def save(self, path: Path) -> None:
        """Write everything to a new file, without the removed rows."""
        arrays, live = self._arrays(), self.alive[self.place]
        arrays |= {"known": self.known[live], "place": self.place[live]}
        shapes = {name: (array.dtype.str, array.shape) for name, array in arrays.items()}
        for name, target in mapped_arrays.allocate(shapes, path).items():
            target[...] = arrays[name]
        mapped_arrays.seal(arrays, path, self._values())

    def complete(self, path: Path) -> None:
        """Complete the file in which `build` has created the arrays."""
        mapped_arrays.seal(self._arrays(), path, self._values())

    @classmethod
    def load(cls, path: Path, truth: Flat) -> Self:
        """Map a file over the current rows of `truth`. Raises DamagedError if the file is not complete."""
        arrays, values = mapped_arrays.open_arrays(path, scattered="ids")
        try:
            recall = Recall.from_lists(values["recall"])
            made = cls._over(arrays, int(values["size"]), float(values["step"]), recall)
            shapes = _shapes(made.size, len(made.steps.low), made.starts, len(made.known))
            if {name: array.shape for name, array in arrays.items()} != {name: shapes[name][1] for name in shapes}:
                raise ValueError("its arrays do not belong together")
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise DamagedError(f"Cannot read {path}: {error}. Delete it; the index will be rebuilt.") from error
        if len(removed := without(made.known, truth.ids)):
            made.remove(removed)
        return made

    def _arrays(self) -> mapped_arrays.Arrays:
        """The arrays of the file."""
        return {
            "low": self.steps.low,
            "starts": self.starts,
            "counts": self.counts,
            "narrow": self.narrow,
            "cells_upper": self.cells.upper,
            "cells_lower": self.cells.lower,
            "leaves_upper": self.leaves.upper,
            "leaves_lower": self.leaves.lower,
            "known": self.known,
            "place": self.place,
            "alive": self.alive,
            "ids": self.ids,
            "codes": self.codes,
        }

    def _values(self) -> dict[str, Any]:
        """The other values of the file."""
        return {"size": self.size, "step": self.steps.step, "recall": self.recall.to_lists()}


def _shapes(size: int, d: int, starts: Ids, n: int) -> mapped_arrays.Shapes:
    """The arrays of n rows of d bytes in leaves of `size` rows, for the first leaf of each cell (cells + 1,)."""
    leaves, cells, wide = int(starts[-1]), len(starts) - 1, d + -d % GROUP

    def blocks(rows: int) -> tuple[str, tuple[int, ...]]:
        return "|u1", (-(-rows // BLOCK), wide // GROUP, BLOCK, GROUP)

    return {
        "low": ("<f4", (d,)),
        "starts": ("<i8", (cells + 1,)),
        "counts": ("<i8", (leaves,)),
        "narrow": ("<f4", (leaves,)),
        "cells_upper": blocks(cells),
        "cells_lower": blocks(cells),
        "leaves_upper": blocks(leaves),
        "leaves_lower": blocks(leaves),
        "known": ("<i8", (n,)),
        "place": ("<i4", (n,)),
        "alive": ("|b1", (leaves * size,)),
        "ids": ("<i8", (leaves * size,)),
        "codes": blocks(leaves * size),
    }


def _encode(truth: Flat, ids: Ids, steps: Steps) -> NDArray[np.uint8]:
    """The rows of these ids as bytes, (n, d padded)."""
    rows = np.empty((len(ids), steps.wide), np.uint8)
    for part in chunks(len(ids), row_bytes=4 * steps.wide, max_bytes=CHUNK_BYTES):
        rows[part] = steps.encode(truth.vectors(ids[part]))
    return rows


def _nearest(index: Any, rows: Vectors) -> Ids:
    """The nearest row of a faiss index to each of these, (n,), in this thread only."""
    threads = faiss.omp_get_max_threads()  # of searches that this thread starts
    faiss.omp_set_num_threads(1)
    try:
        nearest: Ids = index.search(rows, 1)[1][:, 0]
    finally:
        faiss.omp_set_num_threads(threads)
    return nearest


def _assign(truth: Flat, steps: Steps, build: Build) -> NDArray[np.int32]:
    """The cell of each row of `truth` by ascending id, (n,); no cell is empty."""
    ids, cell, k = truth.ids, build.cell, len(build.centres)
    if k == 1:
        return cell
    if not build.done[CENTRES]:
        build.progress("finding cells", 0, None)
        sample = np.sort(np.random.default_rng(0).choice(len(ids), min(len(ids), KMEANS_ROWS * k), replace=False))
        rows = _encode(truth, ids[sample], steps).astype(np.float32)
        build.centres[:] = kmeans(rows, k, iterations=KMEANS_ROUNDS)[0]
        build.done[CENTRES] = 1
    index = faiss.IndexFlatL2(steps.wide)
    index.add(build.centres)
    for part in build.parts(ASSIGNED, "assigning cells", len(ids), steps.wide, CHUNK_BYTES):

        def work(start: int, stop: int, first: int = part.start) -> None:
            some = slice(first + start, first + stop)
            cell[some] = _nearest(index, _encode(truth, ids[some], steps).astype(np.float32))

        share(work, part.stop - part.start)
    if not 0 <= cell.min() <= cell.max() < k:  # damage of a resumed file
        raise DamagedError("Some rows have no cell.")
    number = np.cumsum(np.bincount(cell, minlength=k) > 0, dtype=np.int32) - np.int32(1)
    found: NDArray[np.int32] = number[cell]
    return found


@njit(cache=True, nogil=True)
def _cut_all(codes: Any, order: Any, size: int) -> None:
    """Split the rows of a cell into leaves by reordering `order`."""
    stack = [(0, len(order))]
    while len(stack):
        start, stop = stack.pop()
        if stop - start > size:
            middle = start + _cut(codes, order[start:stop], size)
            stack.append((start, middle))
            stack.append((middle, stop))


@njit(cache=True, fastmath=True)
def _cut(codes: Any, order: Any, size: int) -> int:
    """Reorder `order` (m,) along the line between two means of its rows; return where the second side starts."""
    m, d = len(order), codes.shape[1]
    step = max(1, m // CUT_SAMPLE)
    sample = order[::step]
    centres = np.empty((2, d), np.float32)
    centres[0] = codes[sample[0]]
    for side in (1, 0, 1):  # start with two distant rows
        centres[side] = codes[sample[_farthest(codes, sample, centres[1 - side])]]
    direction, level = np.empty(d, np.float32), np.float32(0)
    for _ in range(CUT_ROUNDS):
        level = _between(centres, direction)
        sums, counts = np.zeros((2, d), np.float32), np.zeros(2, np.int64)
        for row in sample:
            side = 1 if _product(codes[row], direction) > level else 0
            counts[side] += 1
            for e in range(d):
                sums[side, e] += codes[row, e]
        if counts.min() == 0:
            break
        for side in range(2):
            centres[side] = sums[side] / counts[side]
    level = _between(centres, direction)
    along = np.empty(m, np.float32)
    for i in range(m):
        along[i] = _product(codes[order[i]], direction)
    sort = np.argsort(along)
    order[:] = order[sort]
    leaves = (m + size - 1) // size
    least = max(1, int(CUT_LEAST * leaves))
    cut = round(np.count_nonzero(along <= level) / size)
    return size * min(max(cut, least), leaves - least)


@njit(cache=True, fastmath=True)
def _product(row: Any, direction: Any) -> Any:
    total = np.float32(0)
    for e in range(len(direction)):
        total += np.float32(row[e]) * direction[e]
    return total


@njit(cache=True, fastmath=True)
def _between(centres: Any, direction: Any) -> Any:
    """Write the direction from the first centre to the second; return the position of the middle along it."""
    level = np.float32(0)
    for e in range(len(direction)):
        direction[e] = centres[1, e] - centres[0, e]
        level += direction[e] * (centres[1, e] + centres[0, e]) / 2
    return level


@njit(cache=True, fastmath=True)
def _farthest(codes: Any, rows: Any, centre: Any) -> int:
    best, at = np.float32(-1), 0
    for i in range(len(rows)):
        total = np.float32(0)
        for e in range(len(centre)):
            difference = np.float32(codes[rows[i], e]) - centre[e]
            total += difference * difference
        if total > best:
            best, at = total, i
    return at
