"""Index and hyperplane searches of Lookalike, faiss, scikit-learn and others: rows of the `peers` benchmark.

Nearest neighbours: quality is the recall of the 10 nearest, by a scan in double precision. Queries come one at a time,
unless the name of the row ends in a number. Hyperplanes: quality is the recall of the 50 best, by a scan in double
precision. Ours is `Leaves`, balanced; in rows with "exact", ours is `FsmTree` and theirs a BC-tree without a limit. If
the effort of the other library can be chosen, it gets the lowest effort that finds as much as ours, chosen on separate
queries, or its highest effort if none does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple, get_args

import faiss as _faiss
import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC

from lookalike.arrays import chunks
from lookalike.codes.bits import Codes
from lookalike.codes.hyperplanes import Itq
from lookalike.codes.queries import CodeQuery
from lookalike.index.ann import SHORTLIST, Ann
from lookalike.index.flat import Flat
from lookalike.index.fsm_tree import FsmTree
from lookalike.index.hamming import Hamming
from lookalike.index.leaves import Leaves
from lookalike.index.multi_hash import MultiHash
from lookalike.index.queries import HyperplaneQuery, Kind, PointQuery
from lookalike.kernels import typical_gamma
from lookalike.types import Ids, Progress, Vectors
from lookalike_bench.bc_tree import BcTree
from lookalike_bench.hyperplane import C, K, pick, scan_float32, train
from lookalike_bench.side_by_side import DRAWN, Compared, Place, Timed, clocked, grouped, in_turns, spread

faiss: Any = _faiss  # its type stubs are incomplete

NEAREST = 10
TURNS, BATCHES = 31, 11
"""Turns with one query and with several queries at a time."""
TUNING_QUERIES = 50
"""Queries on which the effort of the other library is chosen."""
BREADTHS = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16, 20, 25, 32, 40, 50, 64, 80, 100, 128, 160, 200, 256, 320, 400, 512)
FAISS = {"hnsw": "HNSW16,Flat", "ivf": "IVF{lists},Flat", "pq": "IVF{lists},PQ{half}x4fs,RFlat"}
"""Specs for `faiss.index_factory`; HNSW is built with the same effort as ours."""
CODES, BITS = 10_000_000, 64
CODE_SAMPLE = 20_000
"""Rows of a dataset that codes are learned from."""
PLANE_TURNS, PLANE_TUNING = 15, 6
"""Hyperplanes that are timed, after one that compiles, and hyperplanes on which the BC-tree's effort is chosen."""
LIMITS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the rows that the BC-tree may score."""
PLANE_KERNELS = {"sklearn-svc": "gaussian", "scan-laplace": "laplace"}
"""Kernels of a row's queries; others are linear."""

Search = Callable[[Vectors], Ids]


def _split_queries(place: Place, queries: int) -> tuple[Vectors, Vectors]:
    """Split the rows at random into rows to search and queries."""
    X = spread(place)
    order = np.random.default_rng(place.seed).permutation(len(X))
    return np.ascontiguousarray(X[order[queries:]]), np.ascontiguousarray(X[order[:queries]])


def _nearest(X: Vectors, points: Vectors) -> Ids:
    """The NEAREST nearest rows of each point, (q, NEAREST), by a scan in double precision."""
    rows = X.astype(np.float64)
    squares = np.einsum("ij,ij->i", rows, rows)  # (n,)
    found: list[Ids] = []
    for part in chunks(len(points), row_bytes=8 * len(rows)):
        scores = squares - 2 * (points[part].astype(np.float64) @ rows.T)  # (m, n)
        found.append(np.argpartition(scores, NEAREST, axis=1)[:, :NEAREST])
    return np.concatenate(found)


def _recall(found: Ids, true: Ids) -> float:
    """The share of `true` (q, NEAREST) that is in `found`, row by row."""
    return float(np.mean([np.isin(one, other).mean() for one, other in zip(true, found, strict=True)]))


def _turns_of(q: int) -> int:
    """Number of turns with q queries each."""
    return TURNS if q == 1 else BATCHES


def _compare_batches(ours: Search, theirs: Search, batches: Sequence[tuple[Vectors, Ids]]) -> Compared:
    """Compare both on batches of points with their true neighbours; the first batch is a warm-up."""
    ours(batches[0][0]), theirs(batches[0][0])
    return in_turns(
        clocked(lambda batch: ours(batch[0])),
        clocked(lambda batch: theirs(batch[0])),
        batches[1:],
        lambda batch, found: _recall(found, batch[1]),
    )


def exact_search(make: Callable[[Vectors, Vectors], Search], q: int, place: Place, progress: Progress) -> Compared:
    """`Flat` against another scan, q queries at a time."""
    progress("scanning", 0, None)
    X, points = _split_queries(place, q * (1 + _turns_of(q)))
    index = Flat()
    index.add(np.arange(len(X)), X)
    true = _nearest(X, points)
    batches = [(points[i : i + q], true[i : i + q]) for i in range(0, len(points), q)]
    return _compare_batches(lambda some: index.search(PointQuery(some), NEAREST).ids, make(X, points[:q]), batches)


def _faiss_flat(X: Vectors, points: Vectors) -> Search:
    """IndexFlatL2 with the BLAS threshold that is fastest for these queries, best of two trials."""
    index = faiss.IndexFlatL2(X.shape[1])
    index.add(X)

    def search(points: Vectors, blas: int) -> Ids:
        before = faiss.cvar.distance_compute_blas_threshold
        faiss.cvar.distance_compute_blas_threshold = blas
        found: Ids = index.search(points, NEAREST)[1]
        faiss.cvar.distance_compute_blas_threshold = before
        return found

    took = {blas: min(clocked(partial(search, blas=blas))(points)[0] for _ in range(2)) for blas in (1, 20, 1_000)}
    return partial(search, blas=min(took, key=lambda blas: took[blas]))


def _sklearn_brute(X: Vectors, points: Vectors) -> Search:  # noqa: ARG001 (nothing to tune)
    """scikit-learn's NearestNeighbors, which also scans every row at this dimension."""
    index = NearestNeighbors(n_neighbors=NEAREST, n_jobs=1).fit(X)

    def search(points: Vectors) -> Ids:
        found: Ids = index.kneighbors(points, return_distance=False)
        return found

    return search


def approximate_search(peer: str, place: Place, progress: Progress) -> Compared:
    """`Ann`, balanced, against a faiss index with the lowest effort that finds as much on other queries."""
    progress("building", 0, None)
    X, points = _split_queries(place, TUNING_QUERIES + TURNS + 1)
    true, flat = _nearest(X, points), Flat()
    flat.add(np.arange(len(X)), X)
    index = Ann("hnsw" if peer == "hnsw" else "ivfpq").build(flat)
    rival = faiss.index_factory(X.shape[1], FAISS[peer].format(lists=int(len(X) ** 0.5), half=(X.shape[1] + 1) // 2))
    inner = faiss.downcast_index(rival.base_index) if peer == "pq" else rival
    if peer == "hnsw":
        rival.hnsw.efConstruction = index.breadth
    rival.train(X)
    rival.add(X)
    if peer == "pq":
        times, plus = SHORTLIST["ivfpq"]
        rival.k_factor = times + plus / NEAREST  # it re-ranks the same number of rows as ours

    def theirs(points: Vectors, breadth: int) -> Ids:
        if peer == "hnsw":
            inner.hnsw.efSearch = breadth
        else:
            inner.nprobe = breadth
        found: Ids = rival.search(points, NEAREST)[1]
        return found

    ours: Search = lambda points: index.search(PointQuery(points), NEAREST).ids  # noqa: E731
    goal = _recall(ours(points[:TUNING_QUERIES]), true[:TUNING_QUERIES])
    enough = (b for b in BREADTHS if _recall(theirs(points[:TUNING_QUERIES], b), true[:TUNING_QUERIES]) >= goal)
    breadth = next(enough, BREADTHS[-1])
    batches = [(points[i : i + 1], true[i : i + 1]) for i in range(TUNING_QUERIES, len(points))]
    return _compare_batches(ours, lambda points: theirs(points, breadth), batches)


def code_search(tables: bool, q: int, place: Place, progress: Progress) -> Compared:
    """Search codes, against IndexBinaryFlat: quality is the share of ranks with the same distance as a scan's."""
    progress("generating codes", 0, None)
    random = np.random.default_rng(place.seed)
    if place.name == DRAWN:
        codes = random.integers(0, 256, (CODES, BITS // 8), np.uint8)
        asked = random.integers(0, 256, (_turns_of(q) + 1, q, BITS // 8), np.uint8)
    else:
        X = spread(place)
        codes = Itq(bits=BITS).fit(X[:CODE_SAMPLE]).encode(X)
        asked = codes[random.integers(len(codes), size=(_turns_of(q) + 1, q))]
    scan, rival = Hamming(), faiss.IndexBinaryFlat(BITS)
    scan.add(np.arange(len(codes)), codes)
    rival.add(codes)
    index = MultiHash().build(scan) if tables else scan
    ours: Timed[Codes] = clocked(lambda batch: index.search(CodeQuery(batch), NEAREST).scores)
    theirs: Timed[Codes] = clocked(lambda batch: rival.search(batch, NEAREST)[0])
    ours(asked[0]), theirs(asked[0])  # compiles
    return in_turns(
        ours,
        theirs,
        list(asked[1:]),
        lambda batch, found: float(np.mean(found == scan.search(CodeQuery(batch), NEAREST).scores)),
    )


class PlaneQuery(NamedTuple):
    """A hyperplane, the same hyperplane as an SVC if scikit-learn has its kernel, and the best rows."""

    plane: HyperplaneQuery
    svm: SVC | None
    best: Ids  # (K,)


@dataclass
class PlaneIndexes:
    """Rows and their indexes."""

    X: Vectors  # (n, d)
    leaves: Leaves
    rival: BcTree
    tree: FsmTree | None = None


@cache
def plane_indexes(place: Place) -> PlaneIndexes:
    """Indexes of the rows of a dataset, built once per process."""
    X = grouped(place).X
    flat = Flat()
    flat.add(np.arange(len(X)), X)
    return PlaneIndexes(X, Leaves().build(flat), BcTree(X, seed=place.seed))


@cache
def plane_queries(place: Place, kernel: str) -> dict[Kind, list[PlaneQuery]]:
    """Hyperplanes from marks as in the `hyperplane` benchmark, each as a query of both kinds."""
    X, y = grouped(place)
    numbers = np.unique(y)
    y = np.searchsorted(numbers, y)
    centres = np.stack([X[y == number].mean(axis=0) for number in range(len(numbers))])
    random = np.random.default_rng(place.seed + 1)
    gamma = typical_gamma(kernel, X)
    made: dict[Kind, list[PlaneQuery]] = {"frontier": [], "maximum": []}
    for _ in range(PLANE_TURNS + 1 + PLANE_TUNING):
        marked, sides = pick(X, y, centres, random)
        query, svm = train(marked, sides, kernel, gamma), None
        if kernel == "gaussian":
            svm = SVC(C=C, kernel="rbf", gamma=gamma, class_weight="balanced").fit(marked, sides)
        f = query.distance(X)  # (n,)
        for kind, some in made.items():
            some.append(PlaneQuery(query.of_kind(kind), svm, _best_rows(f, kind)))
    return made


def _direction(query: HyperplaneQuery) -> tuple[Vectors, float]:
    """The normal w (d,) and b of a linear hyperplane, ‖w‖ = 1."""
    return (query.a @ query.X.astype(np.float64) / query.length).astype(np.float32), query.b / query.length


def _best_rows(f: NDArray[Any], kind: Kind) -> Ids:
    """The K best rows of a kind by their f (n,), in any order."""
    best: Ids = np.argpartition(np.abs(f) if kind == "frontier" else -f, K)[:K]
    return best


def _by_svc(made: PlaneIndexes, query: PlaneQuery) -> Ids:
    """SVC.decision_function of every row."""
    assert query.svm is not None
    return _best_rows(query.svm.decision_function(made.X), query.plane.kind)


def _by_laplace(made: PlaneIndexes, query: PlaneQuery) -> Ids:
    """The float32 scan of the `hyperplane` benchmark."""
    return _best_rows(scan_float32(made.X, query.plane), query.plane.kind)


def _by_product(made: PlaneIndexes, query: PlaneQuery) -> Ids:
    """One matrix product."""
    w, b = _direction(query.plane)
    return _best_rows(made.X @ w + np.float32(b), query.plane.kind)


def _by_bc_tree(made: PlaneIndexes, query: PlaneQuery, limit: int | None = None) -> Ids:
    """The BC-tree."""
    ids: Ids = made.rival.search(*_direction(query.plane), K, kind=query.plane.kind, limit=limit).ids[0]
    return ids


def _by_leaves(made: PlaneIndexes, query: PlaneQuery) -> Ids:
    """`Leaves`, balanced."""
    ids: Ids = made.leaves.search(query.plane, K).ids[0]
    return ids


def _by_fsm_tree(made: PlaneIndexes, query: PlaneQuery) -> Ids:
    """`FsmTree`, exact."""
    assert made.tree is not None
    ids: Ids = made.tree.search(query.plane, K).ids[0]
    return ids


def _found(query: PlaneQuery, ids: Ids) -> float:
    """The share of the best rows that was found."""
    return float(np.isin(query.best, ids).mean())


def hyperplane_search(peer: str, kind: Kind, place: Place, progress: Progress) -> Compared:
    """Compare with one other search on one kind of query."""
    progress("building", 0, None)
    made = plane_indexes(place)
    everything = plane_queries(place, PLANE_KERNELS.get(peer, "linear"))[kind]
    tuned, asked = everything[:PLANE_TUNING], everything[PLANE_TUNING:]
    ours, theirs = _by_leaves, PLANE_PEERS[peer]
    if peer == "bc-tree-exact":
        ours = _by_fsm_tree
        if made.tree is None:
            made.tree = FsmTree(norm=2)
            made.tree.add(np.arange(len(made.X)), made.X)
    elif peer == "bc-tree":
        goal = np.mean([_found(one, _by_leaves(made, one)) for one in tuned])
        shares = (
            share
            for share in LIMITS
            if np.mean([_found(one, _by_bc_tree(made, one, int(share * len(made.X)))) for one in tuned]) >= goal
        )
        theirs = partial(_by_bc_tree, limit=int(next(shares, 1.0) * len(made.X)))
    ours(made, asked[0]), theirs(made, asked[0])
    return in_turns(clocked(partial(ours, made)), clocked(partial(theirs, made)), asked[1:], _found)


PLANE_PEERS: dict[str, Callable[[PlaneIndexes, PlaneQuery], Ids]] = {
    "sklearn-svc": _by_svc,
    "scan-laplace": _by_laplace,
    "scan-linear": _by_product,
    "bc-tree": _by_bc_tree,
    "bc-tree-exact": _by_bc_tree,
}
SEARCH_PEERS: dict[str, Callable[[Place, Progress], Compared]] = {
    "faiss-flat": partial(exact_search, _faiss_flat, 1),
    "faiss-flat-64": partial(exact_search, _faiss_flat, 64),
    **{f"faiss-{peer}": partial(approximate_search, peer) for peer in FAISS},
    "faiss-binary": partial(code_search, False, 1),
    "faiss-binary-32": partial(code_search, False, 32),
    "faiss-binary-tables": partial(code_search, True, 1),
    "faiss-binary-tables-32": partial(code_search, True, 32),
    "sklearn-neighbours": partial(exact_search, _sklearn_brute, 1),
    "sklearn-neighbours-64": partial(exact_search, _sklearn_brute, 64),
    **{f"{peer}-{kind}": partial(hyperplane_search, peer, kind) for peer, kind in product(PLANE_PEERS, get_args(Kind))},
}
"""Rows of the benchmark by name."""
