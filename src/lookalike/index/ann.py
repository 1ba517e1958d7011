"""Approximate search for large collections: faiss proposes a shortlist, which is re-ranked by vectors.

`Ann` answers point queries over vectors; `Shortlisted` does the same for the rows of kernel SLEM. Both search a
`Structure`: the compressed rows in faiss, as a graph or as lists of codes. HNSW: Malkov and Yashunin 2018 (arXiv
1603.09320); IVF-PQ: Jégou, Douze, Schmid 2011, fast scan: André et al. 2016.
"""

from collections.abc import Callable
from functools import lru_cache
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks, to_numpy, unit_rows
from lookalike.encode.kernel_slem import SlemQuery
from lookalike.errors import DamagedError, InputError, StoreError, UnknownNameError
from lookalike.index.choice import TIE, measure_recall, shortlist_size
from lookalike.index.exact import AcceleratedIndex
from lookalike.index.flat import Flat
from lookalike.index.ids import IdTable, without
from lookalike.index.queries import PointQuery, check_search
from lookalike.index.topk import Which, keep_best, pick
from lookalike.scaled_rows import Rows, ScaledRows
from lookalike.types import Array, Hits, Ids, Progress, Query, Vectors

faiss: Any = _faiss  # its type stubs are incomplete

KINDS = ("hnsw", "ivfpq")

BREADTHS: dict[str, dict[str, int]] = {
    "hnsw": {"fast": 48, "balanced": 192},
    "ivfpq": {"fast": 16, "balanced": 64},
}
"""Breadth of a search by effort: candidates that HNSW keeps (efSearch), lists that IVF-PQ reads (nprobe).

These are the breadths of indexes that were saved before `build` calibrated them, and of `Shortlisted`.
"""

RECALL: dict[str, float] = {"fast": 0.95, "balanced": 0.98}
"""Recall of the ten nearest neighbours for which `build` calibrates each effort."""

CALIBRATED_ROWS, CALIBRATED_K = 500, 10
"""Own rows, and neighbours per row, that are searched for calibration."""

MAX_BREADTH = 1_024
"""Largest breadth that `build` chooses."""

SHORTLIST: dict[str, tuple[int, int]] = {"hnsw": (1, 10), "ivfpq": (4, 60)}
"""(times, plus): the k hits are the best of times · k + plus proposals, by exact scores."""

EXACT_ROWS, EXACT_SHARE = 20_000, 0.02
"""A search among fewer rows, or a smaller share of all rows, is a scan, which is faster and exact."""

MIN_ROWS = 1_000
"""With fewer rows no structure is built."""

REBUILD_SHARE = 0.25
"""A structure with a larger share of removed rows is rebuilt, not extended."""

SLEM_LENGTH = 3.0
"""Length of the query points of `Shortlisted`; rows have length 1. With longer points, the rounding of rows matters
less compared with their inner products."""

MAGIC = int.from_bytes(b"lookann1", "little")
"""The last word of a structure's file before the checksum, in files without a calibration."""

CALIBRATED_MAGIC = int.from_bytes(b"lookann2", "little")
"""The same in files with a calibration: three words precede it."""

Bits = NDArray[np.uint8]
"""One bit per position; 1 = passes the filter."""


class Ann(AcceleratedIndex[Flat]):
    """A faiss structure over the vectors of a `Flat`; scores are exact, but a search can miss some hits.

    `add` and `remove` take effect immediately: a search scans the rows added since `build` and never proposes removed
    rows. `build` makes the search fast again.

    Parameters
    ----------
    kind : "hnsw" or "ivfpq"
        A graph over 8-bit rows (fastest, d + 144 bytes per row), or lists of 4-bit codes (smallest, d / 4 + 24 bytes).
    links : neighbours of a node in the graph
    breadth : breadth of the searches that build the graph (efConstruction)

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
    >>> index = Ann("hnsw")
    >>> index.add(np.arange(2_000), X)
    >>> index.build().search(PointQuery(X[7:8]), k=1).ids
    array([[7]])

    """

    extra = 0  # columns of the structure in addition to those of the vectors

    def __init__(self, kind: str = "hnsw", links: int = 16, breadth: int = 80):
        self.kind = kind
        self.links = links
        self.breadth = breadth
        super().__init__(Flat())
        self._structure: Structure | None = None
        self._rows: Ids = np.empty(0, np.int64)  # the row number in `truth` of each position of the structure

    def build(self, truth: Flat | None = None, progress: Progress | None = None) -> Self:
        """Add new rows to the structure; rebuild it if too much has changed, or over another `truth`.

        An interrupted build leaves a correct index, which scans the rows that were not added yet.
        """
        if self.kind not in KINDS:
            raise UnknownNameError("kind of ANN index", self.kind, KINDS)
        if truth is not None:
            self.truth, self._structure, self._tail = truth, None, truth.ids
        old, total = self._structure, len(self._tail)
        if old is None or old.live < (1 - REBUILD_SHARE) * len(old) or total > len(old):
            self._structure, self._rows, self._tail, total = self._trained(), self._rows[:0], self.ids, len(self)
        if self._structure is None:
            return self

        def report(done: int) -> None:
            if progress is not None:
                progress("indexing", done, total)

        held = self._held_out()
        self._extend(self._structure, without(self._tail, held), held, report)
        if len(held):  # rows that the structure does not have yet are like new queries
            self._structure.calibration = self._calibrate(held)
            self._extend(self._structure, held, held[:0], lambda _: report(total - len(held)))
        return self

    def _extend(self, structure: "Structure", rows: Ids, held: Ids, report: Callable[[int], None]) -> None:
        """Add these rows of the tail to the structure, but not the rows held out."""
        done = 0
        try:
            for part in chunks(len(rows), row_bytes=4 * structure.dim, max_bytes=2**23):
                report(part.start)
                structure.add(rows[part], self._encoded(rows[part]))
                self._rows = np.concatenate([self._rows, self.truth.rows(rows[part])])
                done = part.stop
        finally:
            self._tail = np.sort(np.concatenate([rows[done:], held]))

    @property
    def measured_recall(self) -> float | None:
        """Recall of the effort "balanced", measured by `build` on own rows; None if it was not measured."""
        calibration = None if self._structure is None else self._structure.calibration
        return None if calibration is None else calibration.recall

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """Return the k best hits for this effort: "fast", "balanced" (default), "exact", or a breadth (see `BREADTHS`).

        Queries other than points, and searches among few rows, are answered by a scan.
        """
        among, exclude = check_search(query, k, among, exclude, effort, self.dim)
        structure = self._structure
        points = self._points(query)
        if structure is None or effort == "exact" or points is None:
            return self.truth.search(query, k, among=among, exclude=exclude)
        bits, count = structure.bits(among, exclude)
        if count < max(EXACT_ROWS, EXACT_SHARE * len(structure)):
            return self.truth.search(query, k, among=among, exclude=exclude)
        size, breadth = self._plan(k, effort)
        # The filter rejects a share of the rows that the search visits, so it must visit more.
        breadth = min(len(structure), ceil(breadth * len(structure) / count))
        positions, scored = structure.search(points, size, breadth, bits)  # (q, s)
        scores = self._scores(query, positions)  # (q, s)
        scored += scores.size
        is_complete = positions.min(initial=0) >= 0
        if not is_complete:  # the structure returned fewer rows than requested
            scores[positions < 0] = np.inf
            scored -= int(np.count_nonzero(positions < 0))
        if size > 2 * k:  # a partition is cheaper than a sort
            positions, scores = pick(scores.argpartition(k - 1, axis=1)[:, :k], positions, scores)  # (q, k)
        ids = structure.ids[positions]
        if not is_complete:
            ids[positions < 0] = -1
        if len(self._tail):
            tail = self._search_tail(query, k, among, exclude)
            ids, scores = np.hstack([ids, tail.ids]), np.hstack([scores, tail.scores])  # (q, s + k)
            scored += tail.scored
        ids, scores = keep_best(ids, scores, k)
        if not is_complete and ids[:, : min(k, count)].min(initial=0) < 0:
            # The search did not reach the rows that the filter accepts.
            return self.truth.search(query, k, among=among, exclude=exclude)
        return Hits(ids, scores, scored)

    def save(self, path: str | Path) -> None:
        """Write the structure, without the vectors, to one file, for `load`."""
        if self._structure is None:
            raise InputError(f"There is nothing to save. Build the index first, with at least {MIN_ROWS} rows.")
        self._structure.save(Path(path))

    @classmethod
    def load(cls, path: str | Path, truth: Flat) -> Self:
        """Load a structure over the current vectors; some can have been added or removed since it was saved."""
        structure = Structure.load(Path(path))
        if truth.dim is not None and not 0 <= structure.dim - truth.dim - cls.extra <= 1:
            raise DamagedError(
                f"{path} has {structure.dim} dimensions, but the vectors have {truth.dim}. Delete it; the index will"
                " be rebuilt."
            )
        index = cls(structure.kind)
        index.truth, index._structure = truth, structure
        rows = truth.rows(structure.ids)
        structure.remove(structure.ids[rows < 0])
        index._rows = np.maximum(rows, 0)  # removed positions are never proposed, so any row number works
        index._tail = without(truth.ids, np.sort(structure.ids))
        return index

    def _forget(self, ids: Ids) -> None:
        if self._structure is not None:
            self._structure.remove(ids)

    def _n_removed(self) -> int:
        return 0 if self._structure is None else len(self._structure) - self._structure.live

    def _encoded(self, ids: Ids) -> Vectors:
        """The rows of these ids in the structure, (m, d + extra)."""
        return self.vectors(ids)

    def _points(self, query: Query) -> Vectors | None:
        """The points to search for, (q, d + extra); None for queries that only a scan can answer."""
        return query.vectors if isinstance(query, PointQuery) else None

    def _plan(self, k: int, effort: float | str | None) -> tuple[int, float]:
        """The size of the shortlist and the breadth of the search."""
        times, plus = SHORTLIST[self.kind]
        size = times * k + plus
        if not isinstance(effort, str | None):
            return size, effort
        calibration = None if self._structure is None else self._structure.calibration
        if calibration is None:
            return size, BREADTHS[self.kind][effort or "balanced"]
        breadth = calibration.fast if effort == "fast" else calibration.balanced
        return size, breadth * max(1.0, size / (times * CALIBRATED_K + plus))

    def _scores(self, query: Any, positions: Ids) -> Vectors:
        """Exact scores of proposed positions (q, s), (q, s); undefined for position -1."""
        q, size = positions.shape
        which, rows = np.arange(q).repeat(size), self._rows[positions.ravel()]
        scores = np.empty(q * size, np.float32)
        for block, local, places in self.truth.find(rows):
            scores[places] = _distances(query.vectors, which[places], block.X, local)
        return scores.reshape(q, size)

    def _trained(self) -> "Structure | None":
        """A trained structure without rows; None if there are too few rows to train it."""
        n = len(self)
        if n < MIN_ROWS:
            return None
        size = min(n, max(65_536, int(64 * n**0.5)))
        sample = self._encoded(self.ids[:: n // size][:size])
        return Structure.train(self.kind, sample, n, self.links, self.breadth)

    def _held_out(self) -> Ids:
        """Rows of the tail for `_calibrate`, ascending; none if there are too few."""
        few = len(self) < EXACT_ROWS or len(self._tail) < 2 * CALIBRATED_ROWS
        return self._tail[:0] if few else self._tail[:: len(self._tail) // CALIBRATED_ROWS][:CALIBRATED_ROWS]

    def _calibrate(self, held: Ids) -> "Calibration":
        """Choose the breadth of each effort on half of these rows, and measure the recall of "balanced" on the others.

        The rows are in the tail: a search finds them in any case, so the query itself does not count.
        """
        query, k = PointQuery(self.vectors(held)), CALIBRATED_K + 1
        kth = self.truth.search(query, k).scores[:, -1:] * np.float32(1 + TIE)  # (q, 1)

        def recalls(half: slice, breadth: int) -> NDArray[np.float64]:
            found = self.search(PointQuery(query.vectors[half]), k, effort=float(breadth)).scores
            shares: NDArray[np.float64] = (np.count_nonzero(found <= kth[half], axis=1) - 1) / CALIBRATED_K
            return shares

        breadths: dict[str, int] = {}
        candidates = iter(_breadths(self._plan(CALIBRATED_K, 1.0)[0] if self.kind == "hnsw" else 1))
        breadth = next(candidates)
        for name, target in sorted(RECALL.items(), key=lambda item: item[1]):
            while breadth < MAX_BREADTH:
                sample = recalls(slice(0, None, 2), breadth)
                if sample.mean() - sample.std() / len(sample) ** 0.5 >= target:
                    break
                breadth = next(candidates)
            breadths[name] = breadth
        return Calibration(**breadths, recall=float(recalls(slice(1, None, 2), breadths["balanced"]).mean()))


def _breadths(least: int) -> list[int]:
    """The breadths among which `build` chooses: a quarter apart, up to MAX_BREADTH.

    >>> _breadths(1)[:9], _breadths(600)
    ([1, 2, 3, 4, 5, 6, 7, 8, 10], [600, 750, 937, 1024])
    """
    found = [least]
    while found[-1] < MAX_BREADTH:
        found.append(min(MAX_BREADTH, max(found[-1] + 1, int(found[-1] * 1.25))))
    return found


class Calibration(NamedTuple):
    """The breadth of each effort, and the recall of "balanced"."""

    fast: int
    balanced: int
    recall: float


class Encoder(Protocol):
    """The encoder of the rows, such as a `KernelSlem`."""

    def shortlist(self, rows: Array, length: float | None = None) -> Vectors:
        """Convert rows (m, D) to (m, D + 1) for Euclidean distance."""
        ...

    def compare(self, rows: Array) -> SlemQuery:
        """Query for the nearest neighbours of rows (q, D)."""
        ...


class Shortlisted(Ann):
    """`Ann` for the rows of kernel SLEM, as `KernelSlem.transform` returns them.

    faiss proposes a shortlist by inner products with the tangent of the kernel (`KernelSlem.shortlist`), which is
    re-ranked by exact scores. `build` always rebuilds the structure, because all its rows must have the same length.
    A scan answers weighted sums of several examples: far from an example, the tangent is a poor approximation.

    Examples
    --------
    >>> from lookalike.encode.kernel_slem import KernelSlem
    >>> X = np.random.default_rng(0).normal(size=(2_000, 8))
    >>> slem = KernelSlem(gamma=0.1, rank=16).fit(X[:200])
    >>> index = Shortlisted("hnsw")
    >>> index.add(np.arange(2_000), slem.transform(X))
    >>> index.build(encoder=slem).search(slem.query(X[7:8]), k=1).ids
    array([[7]])

    """

    extra = 1
    _encoder: Encoder | None = None
    _length = 0.0

    def build(
        self, truth: Flat | None = None, progress: Progress | None = None, encoder: Encoder | None = None
    ) -> Self:
        """Rebuild the structure, over another `truth` if given; without an `encoder`, build nothing."""
        truth = self.truth if truth is None else truth
        if encoder is None:
            self.truth, self._structure, self._tail = truth, None, truth.ids
            return self
        lengths = [float(np.finfo(np.float32).tiny)]
        for part in chunks(len(truth), row_bytes=12 * (truth.dim or 1)):
            rows = encoder.shortlist(truth.vectors(truth.ids[part]))  # all as long as the longest of the part
            lengths.append(float(np.linalg.norm(rows[0])))
        self._encoder, self._length = encoder, max(lengths)
        return super().build(truth, progress)

    def recall(self, encoder: Encoder, effort: float | str | None = None) -> float:
        """Share of the nearest neighbours that a search with this effort finds (see `measure_recall`)."""
        return measure_recall(self, encoder.compare, effort)

    def _encoded(self, ids: Ids) -> Vectors:
        """Rows of length 1."""
        assert self._encoder is not None
        return self._encoder.shortlist(self.vectors(ids), self._length) / np.float32(self._length)

    def _points(self, query: Query) -> Vectors | None:
        if not isinstance(query, SlemQuery):
            return None
        return SLEM_LENGTH * to_numpy(unit_rows(query.shortlist()))  # (q, D + 1)

    def _plan(self, k: int, effort: float | str | None) -> tuple[int, float]:
        name = effort if isinstance(effort, str) else "balanced"
        return shortlist_size(k, effort), BREADTHS[self.kind][name]

    def _held_out(self) -> Ids:
        """None: the efforts of this index are sizes of shortlists."""
        return self._tail[:0]

    def _scores(self, query: Any, positions: Ids) -> Vectors:
        asked = [SlemQuery(row[None], kernel=query.kernel, gamma=query.gamma, d=query.d) for row in query.rows]
        scores = np.empty(positions.shape, np.float32)
        for one, places, out in zip(asked, positions, scores, strict=True):
            for block, local, where in self.truth.find(self._rows[places]):
                out[where] = one.score(np.asarray(block.X[local], np.float32))[0]
        return scores


class Structure:
    """A faiss structure: positions 0 … n - 1, each with a compressed row and an id; removed ones have id -1.

    faiss writes the file, including the ids. A checksum follows, because faiss does not check the files it reads.
    """

    def __init__(self, index: Any):  # faiss.IndexIDMap
        self._index = index
        self._inner = faiss.downcast_index(index.index)
        self.dim = int(index.d)  # the number of columns; even for IVF-PQ
        self.kind = KINDS[isinstance(self._inner, faiss.IndexIVF)]
        self._refer_to_ids()
        live = np.flatnonzero(self.ids >= 0)
        self._table = IdTable()
        self._table.add(self.ids[live], live)
        self._bits: Bits = np.packbits(self.ids >= 0, bitorder="little")
        self.live = len(live)
        self.calibration: Calibration | None = None

    @classmethod
    def train(cls, kind: str, sample: Vectors, n: int, links: int, breadth: int) -> Self:
        """Train a structure without rows on a sample, for about n rows."""
        d = sample.shape[1]
        if kind == "hnsw":
            index = faiss.index_factory(d, f"IDMap,HNSW{links}_SQ8")
            faiss.downcast_index(index.index).hnsw.efConstruction = breadth
        else:
            lists = max(1, min(int(n**0.5), len(sample) // 40))  # more lists take minutes of k-means and gain little
            index = faiss.index_factory(d + d % 2, f"IDMap,IVF{lists},PQ{(d + 1) // 2}x4fs")
        structure = cls(index)
        index.train(structure._padded(sample))
        return structure

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file. Raises DamagedError if it was not written by `save`."""
        remedy = "Delete it; the index will be rebuilt from the vectors."
        try:
            words = np.memmap(path, np.uint64, "r")
            if len(words) < 6 or words[-2] not in (MAGIC, CALIBRATED_MAGIC) or words[:-1].sum() != words[-1]:
                raise DamagedError(f"{path} is incomplete or damaged. {remedy}")
            structure = cls(faiss.read_index(str(path)))
            if words[-2] == CALIBRATED_MAGIC:
                fast, balanced, millionths = words[-5:-2].tolist()
                structure.calibration = Calibration(fast, balanced, millionths / 1e6)
            return structure
        except (OSError, ValueError, RuntimeError) as error:
            raise DamagedError(f"Cannot read {path}: {error}. {remedy}") from error

    def save(self, path: Path) -> None:
        """Write the structure to one file."""
        try:
            faiss.write_index(self._index, str(path))
            with path.open("r+b") as file:
                size = file.seek(0, 2)
                file.write(bytes(-size % 8))
                if self.calibration is not None:
                    fast, balanced, recall = self.calibration
                    file.write(np.array([fast, balanced, round(1e6 * recall)], "<u8").tobytes())
                file.write((MAGIC if self.calibration is None else CALIBRATED_MAGIC).to_bytes(8, "little"))
            total = np.memmap(path, np.uint64, "r").sum()
            with path.open("ab") as file:
                file.write(total.tobytes())
        except (OSError, RuntimeError) as error:
            raise StoreError(f"Cannot write {path}: {error}. Is the disk full?") from error

    def __len__(self) -> int:
        return len(self.ids)

    def add(self, ids: Ids, X: Vectors) -> None:
        """Append rows X (m, d) under new ids (m,)."""
        first = len(self)
        self._index.add_with_ids(self._padded(X), ids)
        self._refer_to_ids()
        self._table.add(ids, np.arange(first, len(self)))
        self._bits = np.packbits(self.ids >= 0, bitorder="little")
        self.live += len(ids)

    def remove(self, ids: Ids) -> None:
        """Never propose these ids (m,) again. Their positions stay, because faiss cannot remove rows."""
        removed = self._table.remove(ids)
        self.ids[removed] = -1
        self._bits = _without(self._bits, removed)
        self.live -= len(removed)

    def bits(self, among: Ids | None, exclude: Ids | None) -> tuple[Bits | None, int]:
        """The positions that pass the filters, None = all, and their number."""
        if among is not None:
            keep = np.zeros(len(self), np.bool_)
            keep[self._positions(among)] = True
            if exclude is not None:
                keep[self._positions(exclude)] = False
            return np.packbits(keep, bitorder="little"), int(np.count_nonzero(keep))
        if exclude is not None:
            excluded = self._positions(exclude)
            return _without(self._bits, excluded), self.live - len(excluded)
        return (None if self.live == len(self) else self._bits), self.live

    def search(self, points: Vectors, size: int, breadth: int, bits: Bits | None) -> tuple[Ids, int]:
        """Return positions of `size` likely neighbours of each point, (q, size), -1 = none, and the comparisons."""
        if self.kind == "hnsw":
            stats, centres, breadth = faiss.cvar.hnsw_stats, 0, max(breadth, size)
        else:
            stats, centres, breadth = faiss.cvar.indexIVF_stats, self._inner.nlist, min(breadth, self._inner.nlist)
        if bits is None:
            params = _plain_params(self.kind, breadth)
        else:
            params = _params(self.kind, breadth, sel=faiss.IDSelectorBitmap(bits))
        before = stats.ndis
        _, positions = self._inner.search(self._padded(points), size, params=params)
        return positions, int(stats.ndis - before + len(points) * centres)

    def _positions(self, ids: Ids) -> Ids:
        positions = self._table.rows(ids)
        return positions[positions >= 0]

    def _refer_to_ids(self) -> None:
        """Update the reference to faiss's array of ids, which moves when it grows."""
        n = self._index.ntotal
        self.ids: Ids = faiss.rev_swig_ptr(self._index.id_map.data(), n) if n else np.empty(0, np.int64)

    def _padded(self, X: Vectors) -> Vectors:
        return X if X.shape[1] == self.dim else np.pad(X, ((0, 0), (0, self.dim - X.shape[1])))


def _distances(points: Vectors, which: Which, X: Rows, rows: Ids) -> Vectors:
    """Squared distances in float32, (m,), of row `rows[i]` of X to point `which[i]`."""
    found, at = np.empty(len(rows), np.float32), faiss.swig_ptr
    if len(points) == 1:  # in this thread: on a busy machine, waiting for others takes longer than the work
        shortlist = X.take(rows, axis=0).astype(np.float32, copy=False)
        faiss.fvec_L2sqr_ny(at(found), at(points), at(shortlist), shortlist.shape[1], len(shortlist))
        return found
    if isinstance(X, ScaledRows) or X.dtype != np.float32:
        X, rows = X.take(rows, axis=0).astype(np.float32, copy=False), np.arange(len(rows))
    faiss.pairwise_indexed_L2sqr(X.shape[1], len(rows), at(points), at(which), at(X), at(rows), at(found))
    return found


def _params(kind: str, breadth: int, **selector: Any) -> Any:
    if kind == "hnsw":
        return faiss.SearchParametersHNSW(efSearch=breadth, **selector)
    return faiss.SearchParametersIVF(nprobe=breadth, **selector)


_plain_params = lru_cache(_params)  # creating parameters takes a tenth of a short search


def _without(bits: Bits, positions: Ids) -> Bits:
    bits = bits.copy()
    np.bitwise_and.at(bits, positions >> 3, ~(1 << (positions & 7)).astype(np.uint8))
    return bits
