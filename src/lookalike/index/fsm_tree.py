"""The feature-space M-tree: exact and approximate answers to hyperplane, point and range queries.

In: ids (n,) and rows X (n, d), copied; hyperplane, centre and point queries. Out: `Hits`. Crucianu, Estevez, Oria,
Tarel, "Speeding up active relevance feedback with approximate kNN retrieval for hyperplane queries" (fsm-tree),
Algorithms 1–3. The honest baseline: exact search scores nearly every row, as it did in the paper.
"""

from math import ceil, inf

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, to_numpy
from lookalike.errors import InputError
from lookalike.index.flat import Flat, check_search
from lookalike.index.fsm_bounds import bound_of
from lookalike.index.fsm_nodes import Nodes
from lookalike.index.fsm_stop import stop_radius
from lookalike.index.fsm_walk import Aim, walk
from lookalike.index.ids import IdTable, check_ids, sort_ids
from lookalike.index.queries import PointQuery
from lookalike.types import Hits, Ids, Query, Vectors


class FsmTree:
    """An M-tree in the feature space of every kernel that takes its norm.

    Radii are kept in the input space and mapped through the kernel's own distance, so that one tree serves every γ, and
    the ball of a radial kernel is never larger than the paper's. A tree of one norm answers kernels of the other, too,
    exactly, but prunes less. Queries without a bound (the poly kernel; what the tree does not know) are answered by
    looking at every row. Searches may run side by side in threads; `add` and `remove` want to be alone.

    Parameters
    ----------
    norm : 1 for the kernels laplace, angular and gaussian-l1; 2 for gaussian, laplace-l2, angular-l2 and linear.
    capacity : members that a node may have.
    utilisation : the share of the members that each half of a split node gets at the least, up to 0.5.
    sampling : the share of the members that a split tries as new centres.
    random_state : seeds those samples, and that of a search with δ.

    Examples
    --------
    >>> from lookalike.index.hyperplane import HyperplaneQuery
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
        self._nodes: Nodes | None = None
        self._table = IdTable()
        self._id_of: Ids = np.empty(0, np.int64)  # (slots,)
        self._longest = 0.0  # ‖x‖₁ of any row so far

    def __len__(self) -> int:
        return 0 if self._nodes is None else int(np.count_nonzero(self._nodes.leaf_of >= 0))

    def __contains__(self, item: int) -> bool:
        return item in self._table

    @property
    def dim(self) -> int | None:
        """d, once something was added."""
        return None if self._nodes is None else self._nodes.X.shape[1]

    @property
    def ids(self) -> Ids:
        """The ids of all vectors, ascending."""
        return self._table.ids()

    def add(self, ids: Ids, X: Vectors) -> None:
        """Add rows X (n, d) under new ids (n,), one after the other."""
        ids, X = check_ids(ids), to_numpy(check_rows(X, dim=self.dim))
        if len(ids) != len(X):
            raise InputError(f"ids and X must have the same length. Got {len(ids)} ids and {len(X)} rows.")
        IdTable().add(ids, ids)  # refused before anything has changed: an id twice
        known = ids[self._table.rows(ids) >= 0]
        if len(known):
            raise InputError(f"ids must be new. Got {len(known)} the index has, such as {known[0]}; remove them first.")
        nodes = self._nodes = self._nodes or self._empty(X.shape[1])
        slots = nodes.take_slots(X)
        self._table.add(ids, slots)
        self._id_of = np.concatenate([self._id_of, np.empty(len(nodes.X) - len(self._id_of), np.int64)])
        self._id_of[slots] = ids
        self._longest = max(self._longest, float(np.abs(X).sum(axis=1, dtype=np.float64).max(initial=0.0)))
        for slot in slots.tolist():
            nodes.insert(slot)

    def remove(self, ids: Ids) -> int:
        """Forget these ids; returns how many of them were there. Their places are used again."""
        slots = self._table.remove(sort_ids(ids))
        for slot in slots.tolist():
            assert self._nodes is not None  # it has the ids
            self._nodes.delete(slot)
        return len(slots)

    def vectors(self, ids: Ids) -> Vectors:
        """The rows of these ids, (m, d) float32."""
        slots = self._table.find(ids)
        return np.empty((0, 0), np.float32) if self._nodes is None else self._nodes.X[slots]

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
        """The k best, exactly unless told otherwise, whatever the effort.

        epsilon : AC-NN: the k-th answer may be farther by this share than the true one. Where scores are below 0 (a
            maximum query), it may be less wanted by this share.
        delta : PAC-NN: and it may be farther still with this probability. For frontier queries, and others where k is
            large enough for a sample of the items to hold some of the k best; elsewhere it changes nothing.
        within : a range query: only scores up to this one.
        `scored` counts rows, centres and the sample of PAC-NN.
        """
        check_search(query, k, effort, self.dim)
        if not 0 <= epsilon < inf or not 0 <= delta < 1 or np.isnan(within):
            raise InputError(
                "epsilon must be at least 0, delta at least 0 and below 1, within a number."
                f" Got epsilon={epsilon}, delta={delta}, within={within}."
            )
        keep = self._allowed(among, exclude)  # (slots,)
        queries = [PointQuery(row[None]) for row in query.vectors] if isinstance(query, PointQuery) else [query]
        parts = [self._search_one(one, keep, Aim(k, within, epsilon), delta) for one in queries]
        ids = np.concatenate([np.empty((0, k), np.int64), *(hits.ids for hits in parts)])
        scores = np.concatenate([np.empty((0, k), np.float32), *(hits.scores for hits in parts)])
        return Hits(ids, scores, sum(hits.scored for hits in parts))

    def _search_one(self, query: Query, keep: NDArray[np.bool_], aim: Aim, delta: float) -> Hits:
        nodes, bound = self._nodes, bound_of(query, self.norm, self._longest)
        if nodes is None or nodes.root < 0 or bound is None:
            return self._scan(query, keep, aim)
        random = np.random.default_rng(self.random_state)
        slots = np.flatnonzero(keep)

        def draw(size: int) -> NDArray[np.float64]:
            return bound.u(bound.score(nodes.X[random.choice(slots, size, replace=False)]))

        stop, sampled = stop_radius(len(slots), aim.k, delta, bound.linear_at_0, draw)
        ids, scores, scored = walk(nodes, self._id_of, keep, bound, aim._replace(stop=stop))
        short = aim.k - len(ids)
        ids = np.append(ids, np.full(short, -1))[None]  # (1, k)
        return Hits(ids, np.append(scores, np.full(short, np.inf, np.float32))[None], scored + sampled)

    def _scan(self, query: Query, keep: NDArray[np.bool_], aim: Aim) -> Hits:
        """The answer of a plain scan, for queries without a bound and for an empty tree."""
        flat, slots = Flat(), np.flatnonzero(keep)
        if self._nodes is not None:
            flat.add(self._id_of[slots], self._nodes.X[slots])
        hits = flat.search(query, aim.k)
        far = hits.scores > aim.within
        return Hits(np.where(far, -1, hits.ids), np.where(far, np.float32(inf), hits.scores), hits.scored)

    def _allowed(self, among: Ids | None, exclude: Ids | None) -> NDArray[np.bool_]:
        """Which slots hold rows that may be answers."""
        if self._nodes is None:
            return np.empty(0, np.bool_)
        keep: NDArray[np.bool_] = self._nodes.leaf_of >= 0
        if among is not None:
            slots = self._table.rows(sort_ids(among, "among"))
            keep = np.zeros_like(keep)
            keep[slots[slots >= 0]] = True
        if exclude is not None:
            slots = self._table.rows(sort_ids(exclude, "exclude"))
            keep[slots[slots >= 0]] = False
        return keep

    def _empty(self, dim: int) -> Nodes:
        members = self.capacity + 1
        least = max(1, int(self.utilisation * members))
        tried = min(members, max(2, ceil(self.sampling * members)))
        return Nodes(dim, self.norm, self.capacity, least, tried, np.random.default_rng(self.random_state))
