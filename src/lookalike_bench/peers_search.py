"""Nearest neighbours beside faiss's and scikit-learn's: rows of the `peers` bench.

In: a `Place`. Out: a `Compared` each; quality is the share of the 10 nearest, by a
scan in double precision, that was found. One query at a time unless the row's name ends in a number.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import faiss as _faiss
import numpy as np
from sklearn.neighbors import NearestNeighbors

from lookalike.arrays import chunks
from lookalike.codes.bits import Codes
from lookalike.codes.itq import Itq
from lookalike.codes.queries import CodeQuery
from lookalike.index.ann import Ann
from lookalike.index.flat import Flat
from lookalike.index.hamming import Hamming
from lookalike.index.multi_hash import MultiHash
from lookalike.index.queries import PointQuery
from lookalike.types import Ids, Progress, Vectors
from lookalike_bench.peers_sets import DRAWN, Place, spread
from lookalike_bench.turns import Compared, Timed, clocked, in_turns

faiss: Any = _faiss  # its stubs know only a part of it

K = 10
TURNS, BATCHES = 31, 11
"""Of one query and of several at a time."""
CODES, BITS = 10_000_000, 64
LEARNED = 20_000
"""Rows that codes of a set are learned from."""
TUNED = 50
"""Queries that a peer's effort is chosen on."""
BREADTHS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
PEERS = {"hnsw": "HNSW16,Flat", "ivf": "IVF{lists},Flat", "pq": "IVF{lists},PQ{half}x4fs,RFlat"}
"""As `faiss.index_factory` has them; HNSW is built as carefully as ours is."""

Search = Callable[[Vectors], Ids]


def parted(place: Place, queries: int) -> tuple[Vectors, Vectors]:
    """Rows to search and rows to ask with, by lot, no row both."""
    X = spread(place)
    order = np.random.default_rng(place.seed).permutation(len(X))
    return np.ascontiguousarray(X[order[queries:]]), np.ascontiguousarray(X[order[:queries]])


def nearest(X: Vectors, points: Vectors) -> Ids:
    """The K nearest rows of each point, (q, K), by a scan in double precision."""
    rows = X.astype(np.float64)
    squares = np.einsum("ij,ij->i", rows, rows)  # (n,)
    found: list[Ids] = []
    for part in chunks(len(points), row_bytes=8 * len(rows)):
        scores = squares - 2 * (points[part].astype(np.float64) @ rows.T)  # (m, n)
        found.append(np.argpartition(scores, K, axis=1)[:, :K])
    return np.concatenate(found)


def recall(found: Ids, true: Ids) -> float:
    """The share of `true` (q, K) that is in `found`, row by row."""
    return float(np.mean([np.isin(one, other).mean() for one, other in zip(true, found, strict=True)]))


def turns_of(q: int) -> int:
    """How many turns of q queries."""
    return TURNS if q == 1 else BATCHES


def turns(ours: Search, theirs: Search, batches: Sequence[tuple[Vectors, Ids]]) -> Compared:
    """Batches of points with their true neighbours, the first of which only warms up."""
    ours(batches[0][0]), theirs(batches[0][0])
    return in_turns(
        clocked(lambda batch: ours(batch[0])),
        clocked(lambda batch: theirs(batch[0])),
        batches[1:],
        lambda batch, found: recall(found, batch[1]),
    )


def exact(make: Callable[[Vectors, Vectors], Search], q: int, place: Place, progress: Progress) -> Compared:
    """`Flat` against another scan, q queries at a time."""
    progress("scanning", 0, None)
    X, points = parted(place, q * (1 + turns_of(q)))
    index = Flat()
    index.add(np.arange(len(X)), X)
    true = nearest(X, points)
    batches = [(points[i : i + q], true[i : i + q]) for i in range(0, len(points), q)]
    return turns(lambda some: index.search(PointQuery(some), K).ids, make(X, points[:q]), batches)


def faiss_flat(X: Vectors, points: Vectors) -> Search:
    """IndexFlatL2, from as many queries on by BLAS as is quickest for these: the better of two tries."""
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)

    def search(points: Vectors, blas: int) -> Ids:
        before = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = blas
        found: Ids = index.search(points, K)[1]
        faiss.cvar.distance_compute_blas_threshold = before
        return found

    took = {blas: min(clocked(partial(search, blas=blas))(points)[0] for _ in range(2)) for blas in (1, 20, 1_000)}
    return partial(search, blas=min(took, key=lambda blas: took[blas]))


def brute(X: Vectors, points: Vectors) -> Search:  # noqa: ARG001 (there is nothing to set)
    """scikit-learn's NearestNeighbors: at so many dimensions it looks at every row, too."""
    index = NearestNeighbors(n_neighbors=K, n_jobs=1).fit(X)

    def search(points: Vectors) -> Ids:
        found: Ids = index.kneighbors(points, return_distance=False)
        return found

    return search


def approximate(peer: str, place: Place, progress: Progress) -> Compared:
    """`Ann`, balanced, against an index of faiss with the least effort that finds as much on other queries."""
    progress("building", 0, None)
    X, points = parted(place, TUNED + TURNS + 1)
    true, flat = nearest(X, points), Flat()
    flat.add(np.arange(len(X)), X)
    index = Ann("hnsw" if peer == "hnsw" else "ivfpq").build(flat)
    rival = faiss.index_factory(X.shape[1], PEERS[peer].format(lists=int(len(X) ** 0.5), half=(X.shape[1] + 1) // 2))
    inner = faiss.downcast_index(rival.base_index) if peer == "pq" else rival
    if peer == "hnsw":
        rival.hnsw.efConstruction = index.breadth
    rival.train(X)
    rival.add(X)
    if peer == "pq":
        rival.k_factor = 14.0  # as many are scored exactly as by ours: 4 K + 100

    def theirs(points: Vectors, breadth: int) -> Ids:
        if peer == "hnsw":
            inner.hnsw.efSearch = breadth
        else:
            inner.nprobe = breadth
        found: Ids = rival.search(points, K)[1]
        return found

    ours: Search = lambda points: index.search(PointQuery(points), K).ids  # noqa: E731
    goal = recall(ours(points[:TUNED]), true[:TUNED])
    enough = (b for b in BREADTHS if recall(theirs(points[:TUNED], b), true[:TUNED]) >= goal)
    breadth = next(enough, BREADTHS[-1])
    batches = [(points[i : i + 1], true[i : i + 1]) for i in range(TUNED, len(points))]
    return turns(ours, lambda points: theirs(points, breadth), batches)


def binary(tables: bool, q: int, place: Place, progress: Progress) -> Compared:
    """Codes, against IndexBinaryFlat: quality is the share of answers as near as a scan's, place by place."""
    progress("drawing codes", 0, None)
    random = np.random.default_rng(place.seed)
    if place.name == DRAWN:
        codes = random.integers(0, 256, (CODES, BITS // 8), np.uint8)
        asked = random.integers(0, 256, (turns_of(q) + 1, q, BITS // 8), np.uint8)
    else:
        X = spread(place)
        codes = Itq(bits=BITS).fit(X[:LEARNED]).encode(X)
        asked = codes[random.integers(len(codes), size=(turns_of(q) + 1, q))]
    scan, rival = Hamming(), faiss.IndexBinaryFlat(BITS)
    scan.add(np.arange(len(codes)), codes)
    rival.add(codes)
    index = MultiHash().build(scan) if tables else scan
    ours: Timed[Codes] = clocked(lambda batch: index.search(CodeQuery(batch), K).scores)
    theirs: Timed[Codes] = clocked(lambda batch: rival.search(batch, K)[0])
    ours(asked[0]), theirs(asked[0])  # compiles
    return in_turns(
        ours,
        theirs,
        list(asked[1:]),
        lambda batch, found: float(np.mean(found == scan.search(CodeQuery(batch), K).scores)),
    )


CASES: dict[str, Callable[[Place, Progress], Compared]] = {
    "faiss-flat": partial(exact, faiss_flat, 1),
    "faiss-flat-64": partial(exact, faiss_flat, 64),
    **{f"faiss-{peer}": partial(approximate, peer) for peer in PEERS},
    "faiss-binary": partial(binary, False, 1),
    "faiss-binary-32": partial(binary, False, 32),
    "faiss-binary-tables": partial(binary, True, 1),
    "faiss-binary-tables-32": partial(binary, True, 32),
    "sklearn-neighbours": partial(exact, brute, 1),
    "sklearn-neighbours-64": partial(exact, brute, 64),
}
