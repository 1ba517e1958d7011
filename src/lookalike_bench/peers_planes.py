"""Hyperplane queries beside a scan by scikit-learn's SVC, plain scans and a BC-tree: rows of the `peers` bench.

In: a `Place`. Out: a `Compared` each; quality is the share of the 50 best, by a scan in double precision, that was
found. Ours is `Leaves`, balanced; where the row's name has "exact", `FsmTree` and the whole BC-tree.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import SVC

from lookalike.index.flat import Flat
from lookalike.index.fsm_tree import FsmTree
from lookalike.index.hyperplane import HyperplaneQuery, Kind
from lookalike.index.leaves import Leaves
from lookalike.kernels import typical_gamma
from lookalike.types import Ids, Progress, Vectors
from lookalike_bench.bc_tree import BcTree
from lookalike_bench.hyperplane import C, K, pick, train
from lookalike_bench.peers_sets import Place, grouped
from lookalike_bench.scans import scan_float32
from lookalike_bench.turns import Compared, clocked, in_turns

TURNS, TUNED = 15, 6
"""Queries that are timed, after one that compiles; and those that the BC-tree's effort is chosen on."""
LIMITS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
"""Shares of the rows that the BC-tree may score."""
KERNELS = {"sklearn-svc": "gaussian", "scan-laplace": "laplace"}
"""What a row's queries are; linear where nothing is said."""


class Asked(NamedTuple):
    """A hyperplane, the same one by scikit-learn's own kernel where it has that, and the best rows."""

    query: HyperplaneQuery
    svm: SVC | None
    best: Ids  # (K,)


@dataclass
class World:
    """Rows, and what finds the best of them."""

    X: Vectors  # (n, d)
    leaves: Leaves
    rival: BcTree
    tree: FsmTree | None = None


@cache
def world(place: Place) -> World:
    """Built once a process."""
    X = grouped(place).X
    flat = Flat()
    flat.add(np.arange(len(X)), X)
    return World(X, Leaves().build(flat), BcTree(X, seed=place.seed))


@cache
def queries(place: Place, kernel: str) -> dict[Kind, list[Asked]]:
    """Marks as in the `hyperplane` bench, for as many hyperplanes as are needed; each asked both ways."""
    X, y = grouped(place)
    numbers = np.unique(y)
    y = np.searchsorted(numbers, y)
    centres = np.stack([X[y == number].mean(axis=0) for number in range(len(numbers))])
    random = np.random.default_rng(place.seed + 1)
    gamma = typical_gamma(kernel, X)
    made: dict[Kind, list[Asked]] = {"frontier": [], "maximum": []}
    for _ in range(TURNS + 1 + TUNED):
        marked, sides = pick(X, y, centres, random)
        query, svm = train(marked, sides, kernel, gamma), None
        if kernel == "gaussian":
            svm = SVC(C=C, kernel="rbf", gamma=gamma, class_weight="balanced").fit(marked, sides)
        f = query.distance(X)  # (n,)
        for kind, some in made.items():
            some.append(Asked(query.of_kind(kind), svm, order(f, kind)))
    return made


def direction(query: HyperplaneQuery) -> tuple[Vectors, float]:
    """W (d,) and b of a linear hyperplane, ‖w‖ = 1."""
    return (query.a @ query.X.astype(np.float64) / query.length).astype(np.float32), query.b / query.length


def order(f: NDArray[Any], kind: Kind) -> Ids:
    """The K best rows of a kind by their f (n,), in any order."""
    best: Ids = np.argpartition(np.abs(f) if kind == "frontier" else -f, K)[:K]
    return best


def by_svc(made: World, asked: Asked) -> Ids:
    """SVC.decision_function of every row."""
    assert asked.svm is not None
    return order(asked.svm.decision_function(made.X), asked.query.kind)


def by_laplace(made: World, asked: Asked) -> Ids:
    """The scan that the `hyperplane` bench measures by."""
    return order(scan_float32(made.X, asked.query), asked.query.kind)


def by_product(made: World, asked: Asked) -> Ids:
    """One matrix product."""
    w, b = direction(asked.query)
    return order(made.X @ w + np.float32(b), asked.query.kind)


def by_tree(made: World, asked: Asked, limit: int | None = None) -> Ids:
    """The BC-tree."""
    ids: Ids = made.rival.search(*direction(asked.query), K, kind=asked.query.kind, limit=limit).ids[0]
    return ids


def leaves(made: World, asked: Asked) -> Ids:
    """Ours."""
    ids: Ids = made.leaves.search(asked.query, K).ids[0]
    return ids


def fsm_tree(made: World, asked: Asked) -> Ids:
    """Ours, exactly."""
    assert made.tree is not None
    ids: Ids = made.tree.search(asked.query, K).ids[0]
    return ids


def found(asked: Asked, ids: Ids) -> float:
    """The share of the best that was found."""
    return float(np.isin(asked.best, ids).mean())


def case(peer: str, kind: Kind, place: Place, progress: Progress) -> Compared:
    """One peer, one kind of query."""
    progress("building", 0, None)
    made = world(place)
    everything = queries(place, KERNELS.get(peer, "linear"))[kind]
    tuned, asked = everything[:TUNED], everything[TUNED:]
    ours, theirs = leaves, PEERS[peer]
    if peer == "bc-tree-exact":
        ours = fsm_tree
        if made.tree is None:
            made.tree = FsmTree(norm=2)
            made.tree.add(np.arange(len(made.X)), made.X)
    elif peer == "bc-tree":
        goal = np.mean([found(one, leaves(made, one)) for one in tuned])
        shares = (
            share
            for share in LIMITS
            if np.mean([found(one, by_tree(made, one, int(share * len(made.X)))) for one in tuned]) >= goal
        )
        theirs = partial(by_tree, limit=int(next(shares, 1.0) * len(made.X)))
    ours(made, asked[0]), theirs(made, asked[0])
    return in_turns(clocked(partial(ours, made)), clocked(partial(theirs, made)), asked[1:], found)


PEERS: dict[str, Callable[[World, Asked], Ids]] = {
    "sklearn-svc": by_svc,
    "scan-laplace": by_laplace,
    "scan-linear": by_product,
    "bc-tree": by_tree,
    "bc-tree-exact": by_tree,
}
CASES: dict[str, Callable[[Place, Progress], Compared]] = {
    f"{peer}-{kind}": partial(case, peer, kind) for peer, kind in product(PEERS, get_args(Kind))
}
