"""The feature-space M-tree: exact and approximate search for hyperplane, point and range queries.

Crucianu, Estevez, Oria, Tarel, "Hyperplane queries in a feature-space M-tree for speeding up active learning"
(fsm-tree), Algorithms 1–3. Library only, as a baseline; collections use `Leaves`. In many dimensions, an exact search
scores nearly every row, as in the paper.

A search visits the nodes of an `MTree` in the order of their `Bound`, the lowest score that a ball can contain. A
radial kernel maps distances of the input space to those of its feature space, so one tree works for every γ.
"""

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import ceil, e, inf, log, log1p
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, fdtri

from lookalike.arrays import check_rows, to_numpy
from lookalike.errors import InputError
from lookalike.index.flat import Flat
from lookalike.index.ids import IdTable, check_ids, sort_ids
from lookalike.index.m_tree import MTree
from lookalike.index.queries import CentreQuery, HyperplaneQuery, PointQuery, check_search
from lookalike.kernels import KERNELS
from lookalike.types import Hits, Ids, Query, Vectors

Numbers: TypeAlias = NDArray[np.float64]

SLACK = 1e-6
"""Relative tolerance of bounds, larger than the rounding of scores to float32."""

DISTANCES: dict[str, Callable[[Numbers, float], Numbers]] = {
    "angular": lambda r, gamma: np.sqrt(2 * r),  # noqa: ARG005
    "angular-l2": lambda r, gamma: np.sqrt(2 * r),  # noqa: ARG005
    "gaussian": lambda r, gamma: np.sqrt(-2 * np.expm1(-gamma * r * r)),
    "laplace": lambda r, gamma: np.sqrt(-2 * np.expm1(-gamma * r)),
    "laplace-l2": lambda r, gamma: np.sqrt(-2 * np.expm1(-gamma * r)),
    "linear": lambda r, gamma: r,  # noqa: ARG005
}
"""‖φ(x) − φ(y)‖ as a function of r = ‖x − y‖ and γ, increasing in r. gaussian-l1 has no feature space."""

STOP_SAMPLE = 500, 2_000
"""The smallest and largest sample for `stop_radius`, otherwise a twentieth of the items."""

STOP_SHARE = 0.2
"""If the sample would be a larger share of the items, it costs more than it saves, and the search has no r_δ."""

STOP_NEAR = 0.03
"""Share of a sample of frontier scores, the nearest to 0, from which the density at 0 is estimated."""


class FsmTree:
    """An M-tree in the feature space of every kernel of its norm. Library only.

    Radii are stored in the input space and mapped through the kernel's distance, so one tree works for every γ, and the
    ball of a radial kernel is never larger than the paper's. A tree of one norm also answers kernels of the other norm
    exactly, but prunes less. A scan answers queries without a bound (the poly kernel, unknown classes). Searches are
    thread-safe while no other thread calls `add` or `remove`.

    Parameters
    ----------
    norm : 1 for the kernels laplace, angular and gaussian-l1; 2 for gaussian, laplace-l2, angular-l2 and linear.
    capacity : maximum number of members of a node.
    utilisation : minimum share of the members for each half of a split node, up to 0.5.
    sampling : share of the members that a split tries as new centres.
    random_state : seed of these samples, and of the sample of a search with δ.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(2_000, 8)).astype(np.float32)
    >>> tree = FsmTree()
    >>> tree.add(np.arange(2_000), X)
    >>> query = HyperplaneQuery(X[:2], [1.0, -1.0], 0.0, kernel="laplace", gamma=0.1, kind="maximum")
    >>> tree.search(query, k=1).ids, tree.search(query, k=1, exclude=np.array([0])).ids != 0
    (array([[0]]), array([[ True]]))

    """

    def __init__(
        self,
        norm: int = 1,
        capacity: int = 64,
        utilisation: float = 0.4,
        sampling: float = 0.1,
        random_state: int = 0,
    ):
        if norm not in (1, 2):
            raise InputError(f"norm must be 1 or 2. Got {norm}.")
        if capacity < 3:
            raise InputError(f"capacity must be at least 3. Got {capacity}.")
        if not 0 < utilisation <= 0.5:
            raise InputError(f"utilisation must be above 0 and at most 0.5. Got {utilisation}.")
        if not 0 < sampling <= 1:
            raise InputError(f"sampling must be above 0 and at most 1. Got {sampling}.")
        self.norm, self.capacity, self.utilisation = norm, capacity, utilisation
        self.sampling, self.random_state = sampling, random_state
        self._tree: MTree | None = None
        self._table = IdTable()
        self._id_of: Ids = np.empty(0, np.int64)  # (slots,)
        self._longest = 0.0  # the largest ‖x‖₁ of the rows added so far

    def __len__(self) -> int:
        return 0 if self._tree is None else int(np.count_nonzero(self._tree.leaf_of >= 0))

    def __contains__(self, item: int) -> bool:
        return item in self._table

    @property
    def dim(self) -> int | None:
        """The number of columns; None until the first `add`."""
        return None if self._tree is None else self._tree.X.shape[1]

    @property
    def ids(self) -> Ids:
        """All ids, ascending."""
        return self._table.ids()

    def add(self, ids: Ids, X: Vectors) -> None:
        """Add copies of rows X (m, d) under new ids (m,), one after the other."""
        ids, X = check_ids(ids), to_numpy(check_rows(X, dim=self.dim))
        if len(ids) != len(X):
            raise InputError(f"ids and X must have the same length. Got {len(ids)} ids and {len(X)} rows.")
        self._table.check_new(ids)
        tree = self._tree = self._tree or self._empty(X.shape[1])
        slots = tree.take_slots(X)
        self._table.add(ids, slots)
        self._id_of = np.concatenate([self._id_of, np.empty(len(tree.X) - len(self._id_of), np.int64)])
        self._id_of[slots] = ids
        self._longest = max(self._longest, float(np.abs(X).sum(axis=1, dtype=np.float64).max(initial=0.0)))
        for slot in slots.tolist():
            tree.insert(slot)

    def remove(self, ids: Ids) -> int:
        """Remove these ids; return how many were present. Their memory is reused."""
        slots = self._table.remove(sort_ids(ids))
        for slot in slots.tolist():
            assert self._tree is not None  # it contains the slots
            self._tree.delete(slot)
        return len(slots)

    def vectors(self, ids: Ids) -> Vectors:
        """The rows of these ids, (m, d) float32."""
        slots = self._table.find(ids)
        return np.empty((0, 0), np.float32) if self._tree is None else self._tree.X[slots]

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
        epsilon: float = 0.0,
        delta: float = 0.0,
        within: float = inf,
    ) -> Hits:
        """Return the k best, by default exactly; `effort` is checked and ignored.

        epsilon : AC-NN: the k-th hit can be farther than the true one by this share. If scores are below 0 (a maximum
            query), it can be less positive by this share.
        delta : PAC-NN: with this probability, the k-th hit can be even farther. It affects frontier queries, and other
            queries if k is large enough for a sample of the items to contain some of the k best.
        within : a range query: only scores up to this value.
        `scored` counts rows, centres and the sample of PAC-NN.
        """
        among, exclude = check_search(query, k, among, exclude, effort, self.dim)
        if not 0 <= epsilon < inf or not 0 <= delta < 1 or np.isnan(within):
            raise InputError(
                "epsilon must be at least 0, delta at least 0 and below 1, and within not NaN."
                f" Got epsilon={epsilon}, delta={delta}, within={within}."
            )
        keep = self._allowed(among, exclude)  # (slots,)
        queries = [PointQuery(row[None]) for row in query.vectors] if isinstance(query, PointQuery) else [query]
        parts = [self._search_one(one, keep, _Goal(k, within, epsilon), delta) for one in queries]
        ids = np.concatenate([np.empty((0, k), np.int64), *(hits.ids for hits in parts)])
        scores = np.concatenate([np.empty((0, k), np.float32), *(hits.scores for hits in parts)])
        return Hits(ids, scores, sum(hits.scored for hits in parts))

    def _search_one(self, query: Query, keep: NDArray[np.bool_], goal: "_Goal", delta: float) -> Hits:
        tree, bound = self._tree, bound_of(query, self.norm, self._longest)
        if tree is None or tree.root < 0 or bound is None:
            return self._scan(query, keep, goal)
        random = np.random.default_rng(self.random_state)
        slots = np.flatnonzero(keep)

        def draw(size: int) -> NDArray[np.float64]:
            return bound.u(bound.score(tree.X[random.choice(slots, size, replace=False)]))

        stop, sampled = stop_radius(len(slots), goal.k, delta, bound.linear_at_0, draw)
        ids, scores, scored = _walk(tree, self._id_of, keep, bound, goal._replace(stop=stop))
        short = goal.k - len(ids)
        ids = np.append(ids, np.full(short, -1))[None]  # (1, k)
        return Hits(ids, np.append(scores, np.full(short, np.inf, np.float32))[None], scored + sampled)

    def _scan(self, query: Query, keep: NDArray[np.bool_], goal: "_Goal") -> Hits:
        """Scan all rows: for queries without a bound, and for an empty tree."""
        flat, slots = Flat(), np.flatnonzero(keep)
        if self._tree is not None:
            flat.add(self._id_of[slots], self._tree.X[slots])
        hits = flat.search(query, goal.k)
        far = hits.scores > goal.within
        return Hits(np.where(far, -1, hits.ids), np.where(far, np.float32(inf), hits.scores), hits.scored)

    def _allowed(self, among: Ids | None, exclude: Ids | None) -> NDArray[np.bool_]:
        """Mask (slots,) of the slots whose rows pass the filters; filters ascending."""
        if self._tree is None:
            return np.empty(0, np.bool_)
        keep: NDArray[np.bool_] = self._tree.leaf_of >= 0
        if among is not None:
            slots = self._table.rows(among)
            keep = np.zeros_like(keep)
            keep[slots[slots >= 0]] = True
        if exclude is not None:
            slots = self._table.rows(exclude)
            keep[slots[slots >= 0]] = False
        return keep

    def _empty(self, dim: int) -> MTree:
        members = self.capacity + 1
        least = max(1, int(self.utilisation * members))
        tried = min(members, max(2, ceil(self.sampling * members)))
        return MTree(dim, self.norm, self.capacity, least, tried, np.random.default_rng(self.random_state))


@dataclass(frozen=True)
class Bound:
    """A query as u, a distance in the feature space (signed for a maximum query), and limits of how u can change.

    Crucianu et al., §3: the pruning rules.
    """

    score: Callable[[Vectors], Numbers]
    """Maps rows (m, d) to scores, (m,) float64; rounded to float32 they equal the query's scores."""

    spread: Callable[[Numbers], Numbers]
    """Maps a distance in the tree's norm to the largest change of u over it."""

    least_distance: Callable[[Numbers], Numbers] | None = None
    """Maps a distance in the tree's norm to the smallest in the feature space; None if u is not such a distance."""

    noise: float = 0.0
    """The largest rounding error of u."""

    squared: bool = False
    """Whether scores are squares of u."""

    least: float = 0.0
    """The smallest possible u."""

    linear_at_0: bool = False
    """Whether the density of u is about constant near 0, so that it can be estimated from a wider range."""

    def u(self, scores: Numbers) -> Numbers:
        """Convert scores to u."""
        return np.sqrt(scores) if self.squared else scores

    def lower(self, u: Numbers, reach: Numbers) -> Numbers:
        """Lowest u of rows within `reach` of a row with this u: d(p, H) − r for the ball (p, r), §3, fsm-tree."""
        spread = self.spread(reach)
        low: Numbers = u - spread - SLACK * (np.abs(u) + spread) - self.noise
        return low

    def lower_by_parent(self, u: float, gaps: Numbers, radii: Numbers) -> Numbers:
        """Lowest u in balls of these radii, `gaps` away from a parent with this u, before d(p, H) is computed.

        One-sided for a hyperplane, because two points far from each other can both lie on it. A distance to a point
        has a second bound: rows far from the parent are far from a point near the parent.
        """
        low = self.lower(np.full(len(gaps), u), gaps + radii)
        if self.least_distance is not None:
            away = self.least_distance(np.maximum(gaps - radii, 0.0))
            np.maximum(low, away - u - SLACK * (u + away) - self.noise, out=low)
        return low


def bound_of(query: Query, norm: int, longest: float) -> Bound | None:
    """Bound of a query in a tree of this norm whose longest row (L1) is `longest`; None if it has no bound."""
    if isinstance(query, PointQuery) and len(query.vectors) == 1:
        point = query.vectors[0].astype(np.float64)
        wide, narrow = _between(norm, 2, query.dim)

        def squares(X: Vectors) -> Numbers:
            differences = X - point  # (m, d)
            found: Numbers = np.einsum("ij,ij->i", differences, differences)
            return found

        return Bound(squares, lambda r: wide * r, lambda r: narrow * r, squared=True)
    if isinstance(query, HyperplaneQuery) and query.kernel != "poly":
        return _hyperplane_bound(query, norm, longest)
    if isinstance(query, CentreQuery) and query.kernel != "poly":
        return _centre_bound(query, norm, longest)
    return None


def _hyperplane_bound(query: HyperplaneQuery, norm: int, longest: float) -> Bound:
    size, error, weight = _rounding(query, longest)
    missing = abs(query.a.sum()) if KERNELS[query.kernel].balanced else 0.0  # the sum should be 0
    # Largest possible ‖w‖ relative to the computed one, which is inaccurate if support vectors nearly cancel.
    stretch = (1 + (error * weight**2 + 3 * missing * weight) * size / query.length**2) ** 0.5
    wide, _ = _between(norm, KERNELS[query.kernel].norm or 2, query.dim)

    def score(X: Vectors) -> Numbers:
        distance = query.distance(X)
        return np.abs(distance) if query.kind == "frontier" else -distance

    def spread(r: Numbers) -> Numbers:
        change: Numbers
        if query.kernel == "gaussian-l1":  # no feature space: the slope of each kernel instead of ‖w‖
            change = weight / query.length * _gaussian_change(wide * r, query.gamma)
        else:  # |f(p) − f(q)| ≤ ‖w‖ ‖φ(p) − φ(q)‖
            change = stretch * DISTANCES[query.kernel](wide * r, query.gamma) + missing / query.length * wide * r
        return change

    noise = 2 * error * (weight * size + abs(query.b)) / query.length
    frontier = query.kind == "frontier"
    return Bound(score, spread, noise=noise, least=0.0 if frontier else -inf, linear_at_0=frontier)


def _centre_bound(query: CentreQuery, norm: int, longest: float) -> Bound:
    size, error, weight = _rounding(query, longest)
    missing = abs(query.a.sum() - 1) if KERNELS[query.kernel].balanced else 0.0
    off = (error * (1 + weight) ** 2 + 4 * missing * (1 + weight)) * size  # the largest error of the squares
    noise = 2 * off**0.5
    wide, narrow = _between(norm, KERNELS[query.kernel].norm or 2, query.dim)
    gamma = query.gamma
    if query.kernel == "gaussian-l1":  # no triangle inequality; a root changes by √ of the change of its square
        return Bound(query.distance, lambda r: np.sqrt(2 * weight * _gaussian_change(wide * r, gamma)), noise=noise)
    distance = DISTANCES[query.kernel]
    return Bound(query.distance, lambda r: distance(wide * r, gamma), lambda r: distance(narrow * r, gamma), noise)


def _between(norm: int, other: int, dim: int) -> tuple[float, float]:
    """Factors that make the tree's norm an upper and a lower bound of another norm: ‖x‖₂ ≤ ‖x‖₁ ≤ √d ‖x‖₂."""
    if norm == other:
        return 1.0, 1.0
    return (1.0, dim**-0.5) if norm == 1 else (dim**0.5, 1.0)


def _gaussian_change(r: Numbers, gamma: float) -> Numbers:
    """Largest change of exp(−γt²) while t changes by r; the steepest slope is √(2γ/e)."""
    change: Numbers = np.minimum(1.0, (2 * gamma / e) ** 0.5 * r)
    return change


def _rounding(query: HyperplaneQuery | CentreQuery, longest: float) -> tuple[float, float, float]:
    """Largest value of the kernel and its sums, relative error of such float64 sums, and Σ|aᵢ|."""
    far = longest + float(np.abs(query.X.astype(np.float64)).sum(axis=1).max(initial=0.0))
    if KERNELS[query.kernel].balanced:
        size = far
    elif query.kernel == "linear":
        size = far * far
    else:
        size = 1 + (query.gamma * far * far if query.kernel == "gaussian" else 0.0)
    error = 8 * (query.dim + len(query.X) + 16) * float(np.finfo(np.float64).eps)
    return size, error, float(np.abs(query.a).sum())


def stop_radius(
    n: int, k: int, delta: float, linear: bool, draw: Callable[[int], NDArray[np.float64]]
) -> tuple[float, int]:
    """Estimate r_δ with P(at least k of n items have a score within r_δ) ≤ δ; return it, or −inf, and the sample size.

    A probably approximately correct search can stop at r_δ. Ciaccia and Patella, "PAC nearest neighbor queries" (ICDE
    2000); fsm-tree, §2.3, leaves open how r_δ is estimated. `draw(m)` returns the scores of m random items.

    For scores whose density near 0 is constant (`linear`), the j-th of m sampled scores and the k-th of all n are sums
    of j and of k exponential waiting times, with rates m and n. Their ratio has an F distribution, which covers the
    binomial tail and the sampling error. For any distribution, the j-th score of a sample that is large enough to
    contain some of the k best also works: the k-th of all is below it only if fewer than j of the k − 1 best are in the
    sample, a binomial tail. If both exist, the larger one is used, at δ / 2 each: the second is much larger if the
    hyperplane lies outside the data.

    >>> stop_radius(100, 50, 0.05, False, lambda m: np.arange(m) / m)
    (0.4, 100)
    """
    if not 0 < delta < 1 or n < 2:
        return -inf, 0
    size = min(n, STOP_SAMPLE[1], max(STOP_SAMPLE[0], n // 20))
    linear = linear and k <= STOP_NEAR * n
    risk = delta / 2 if linear else delta
    # A sample of this size contains one of the k − 1 best with probability 1 − risk.
    enough = ceil(log(risk) / log1p(-(k - 1) / n)) if 1 < k <= n else n + 1
    any_shape = enough <= min(n, max(STOP_SAMPLE[0], STOP_SHARE * n))
    if not any_shape and not linear:
        return -inf, 0
    size, risk = (max(size, enough), risk) if any_shape else (size, delta)
    scores = np.sort(draw(size))  # (m,)
    r = -inf
    if any_shape:
        beyond = np.count_nonzero(bdtr(np.arange(size), size, (k - 1) / n) <= risk)  # j
        r = float(scores[beyond - 1])
    if linear:
        near = np.array([ceil(STOP_NEAR * size), ceil(STOP_NEAR * size / 2)])  # two j, in case many scores are near 0
        r = max(r, float(np.min(scores[near - 1] * size * k / (n * near) * fdtri(2 * k, 2 * near, risk))))
    return r, size


class _Goal(NamedTuple):
    """The target of a search."""

    k: int
    within: float = inf  # scores above it are ignored
    epsilon: float = 0.0  # the share by which the k-th hit can be farther than the true one
    stop: float = -inf  # r_δ: k scores below it are improbable, so a search that reaches it stops


def _walk(tree: MTree, ids: Ids, keep: NDArray[np.bool_], bound: Bound, goal: _Goal) -> tuple[Ids, Vectors, int]:
    """Visit the best node first; return ids (≤ k,), scores (≤ k,), best first, and the number of scored rows.

    The number includes centres. `ids` and `keep` (slots,) are the id of each slot and whether it passes the filters.
    """
    found = np.empty(0, np.int64), np.empty(0, np.float32)
    limit = float(bound.u(np.maximum(goal.within, 0.0 if bound.squared else -inf)))  # larger u are ignored
    # (lowest u below a node, u of its centre, node). Most balls overlap the hyperplane, where the first is 0; then the
    # node whose centre is nearest to the hyperplane comes first.
    queue = [(-inf, -inf, tree.root)]
    scored = 0
    while queue and queue[0][0] <= limit:
        _, u, node = heappop(queue)
        members, gaps = tree.entries(node)
        radii = tree.reaches(node, members)
        promising = keep[members] if tree.is_leaf[node] else np.ones(len(members), np.bool_)
        if node != tree.root:
            promising = promising & (bound.lower_by_parent(u, gaps, radii) <= limit)  # before d(p, H) is computed
        members, radii = members[promising], radii[promising]
        if not len(members):
            continue
        scores = bound.score(tree.points(node, members))  # (m,)
        scored += len(members)
        if tree.is_leaf[node]:
            found = _merge(found, (ids[members], scores), goal)
            if len(found[0]) == goal.k:
                limit = _relaxed(float(bound.u(found[1][-1].astype(np.float64))), goal.epsilon)
                if limit <= goal.stop:
                    break
        else:
            us = bound.u(scores)
            lows = np.maximum(bound.lower(us, radii), bound.least)
            for place in np.flatnonzero(lows <= limit):
                heappush(queue, (lows[place], us[place], int(members[place])))
    return *found, scored


def _merge(found: tuple[Ids, Vectors], more: tuple[Ids, NDArray[np.float64]], goal: _Goal) -> tuple[Ids, Vectors]:
    """Merge two sets of hits into the k best, with scores in float32."""
    with np.errstate(over="ignore"):  # too far for float32 becomes inf, never a hit
        new = more[1].astype(np.float32)
    near = (new <= goal.within) & (new < inf)
    ids, scores = np.concatenate([found[0], more[0][near]]), np.concatenate([found[1], new[near]])
    order = np.lexsort((ids, scores))[: goal.k]
    return ids[order], scores[order]


def _relaxed(u: float, epsilon: float) -> float:
    """The limit for a k-th hit u that can be off by the share ε: d_k / (1 + ε)."""
    return u / (1 + epsilon) if u > 0 else u * (1 + epsilon)
