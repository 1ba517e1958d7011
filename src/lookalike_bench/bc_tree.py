"""A ball tree with cones in its leaves (BC-tree), the baseline for linear hyperplanes in the input space. Library only.

Huang and Tung, "Lightweight-Yet-Efficient: Revitalizing Ball-Tree for Point-to-Hyperplane Nearest Neighbor Search"
(ICDE 2023), §III and IV; for maximum the bound of Ram and Gray (KDD 2012).
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import check_rows, to_numpy
from lookalike.compiler import njit
from lookalike.errors import InputError
from lookalike.index.queries import Kind
from lookalike.limits import check_count
from lookalike.types import Array, Hits, Ids, Vectors

SLACK = 1e-5
"""Rounding error of a bound, as a share of it."""
TINY = 1e-30
"""Replaces the length of a centre at the origin, which has no direction."""
FAST = {"contract", "reassoc"}
"""Floating-point flags that let the compiler vectorise sums."""


class BcTree:
    """Balls of nearby rows, each split in two until it is small; a linear hyperplane query skips balls by a bound.

    Finds the k rows with the smallest |wᵀx + b| (frontier) or the largest wᵀx + b (maximum). Inside a leaf, two bounds
    skip rows: that of the ball around the centre through the row (rows are sorted by it, so the first skipped row ends
    the leaf) and that of the cone, by the angle between row and centre. The paper appends a 1 to each row to hold b;
    here b is added to the product, so balls do not grow. One query at a time, one thread.

    Parameters
    ----------
    X : (n, d) rows, at least one.
    leaf : Maximum number of rows of a leaf.
    seed : Seed of the first row of each split.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    >>> w = np.array([1.0, 0, 0, 0], np.float32)
    >>> bool(BcTree(X).search(w, 0.0, 1, kind="maximum").ids[0, 0] == X[:, 0].argmax())
    True

    """

    def __init__(self, X: Array, leaf: int = 100, seed: int = 0):
        check_count("leaf", leaf)
        rows: Vectors = to_numpy(check_rows(X, name="X"))
        check_count("the number of rows", len(rows))
        self.ids, self._nodes, self._balls = _grow(rows, leaf, np.random.default_rng(seed))
        self.X = np.ascontiguousarray(rows[self.ids])  # (n, d), leaf after leaf
        self._cones = np.empty((len(rows), 3), np.float32)
        for node, (start, stop, left, _) in enumerate(self._nodes.tolist()):
            if left < 0:
                self._sort(slice(start, stop), self._balls[node, :-1].astype(np.float64))

    def search(self, w: Vectors, b: float, k: int, *, kind: Kind = "frontier", limit: int | None = None) -> Hits:
        """The exact k best; with a `limit`, the best found after scoring about `limit` rows."""
        check_count("k", k)
        if np.shape(w) != self.X.shape[1:]:
            raise InputError(f"w must have shape {self.X.shape[1:]}. Got {np.shape(w)}.")
        k, most = min(k, len(self.X)), len(self.X) if limit is None else limit
        scores, places = np.full(k, np.inf, np.float32), np.full(k, -1)
        tree = (self.X, self._nodes, self._balls, self._cones)
        scored = _search(tree, np.asarray(w, np.float32), float(b), kind == "frontier", most, scores, places)
        return Hits(np.where(places >= 0, self.ids[places], -1)[None], scores[None], scored)

    def _sort(self, part: slice, centre: NDArray[np.float64]) -> None:
        """Sort a leaf, farthest first, and store for each row: its distance, its length along the centre and across."""
        X = self.X[part].astype(np.float64)  # (m, d)
        far = np.linalg.norm(X - centre, axis=1)  # (m,)
        along = X @ centre / max(float(np.linalg.norm(centre)), TINY)
        across = np.sqrt(np.maximum((X * X).sum(axis=1) - along * along, 0))
        order = np.argsort(-far, kind="stable")
        self.X[part], self.ids[part] = self.X[part][order], self.ids[part][order]
        self._cones[part] = np.stack([far, along, across], axis=1)[order]


def _grow(X: Vectors, leaf: int, random: np.random.Generator) -> tuple[Ids, NDArray[np.int64], Vectors]:
    """The order of rows (n,); nodes (m, 4): start, stop, left, right (-1: a leaf); balls (m, d + 1): centre and radius.

    A ball is split as in the paper, between the row farthest from a random one and the row farthest from that; each row
    is assigned to the nearer of the two.
    """
    ids: Ids = np.arange(len(X))
    nodes, balls = [[0, len(X), -1, -1]], list[Vectors]()
    for node in nodes:  # the loop appends nodes
        start, stop = node[:2]
        rows = X[ids[start:stop]]  # (m, d)
        centre = rows.mean(axis=0, dtype=np.float64).astype(np.float32)
        balls.append(np.append(centre, _far(rows, centre).max()))
        if len(rows) <= leaf:
            continue
        one = rows[_far(rows, rows[random.integers(len(rows))]).argmax()]
        other = rows[_far(rows, one).argmax()]
        nearer = _far(rows, one) < _far(rows, other)  # (m,)
        if not nearer.any():  # all rows are the same
            nearer = np.arange(len(rows)) < len(rows) // 2
        ids[start:stop] = np.concatenate([ids[start:stop][nearer], ids[start:stop][~nearer]])
        middle = start + int(np.count_nonzero(nearer))
        node[2:] = len(nodes), len(nodes) + 1
        nodes += [[start, middle, -1, -1], [middle, stop, -1, -1]]
    return ids, np.array(nodes), np.array(balls, np.float32)


def _far(X: Vectors, x: Vectors) -> Vectors:
    far: Vectors = np.linalg.norm(X - x, axis=1)
    return far


@njit(cache=True, fastmath=FAST)
def _dot(x: Any, y: Any) -> Any:
    total = np.float32(0)
    for i in range(len(y)):
        total += x[i] * y[i]
    return total


@njit(cache=True)
def _least(f: Any, reach: Any, frontier: Any) -> Any:
    """Lower bound of the score of rows whose f differs from this one by at most `reach`. Theorems 1 to 3."""
    reach += SLACK * (reach + abs(f))
    return max(0.0, abs(f) - reach) if frontier else -f - reach


@njit(cache=True)
def _search(tree: Any, w: Any, b: Any, frontier: Any, limit: Any, scores: Any, places: Any) -> int:
    """Fill scores and places (k,), best first, visiting promising balls first; return the number of rows scored."""
    X, nodes, balls, cones = tree
    d, k, scored, top = X.shape[1], len(scores), 0, 1
    length = math.sqrt(_dot(w, w))
    stack, products = np.zeros(len(nodes), np.int64), np.zeros(len(nodes))  # nodes to visit, wᵀcentre of each
    products[0] = _dot(balls[0], w)
    while top and scored < limit:
        top -= 1
        node, s = stack[top], products[top]
        if _least(s + b, length * balls[node, d], frontier) >= scores[k - 1]:
            continue
        start, stop, left, right = nodes[node]
        if left >= 0:  # the paper derives one product from the other; computing both is exact and cheap
            s_left, s_right = _dot(balls[left], w), _dot(balls[right], w)
            if _least(s_left + b, 0.0, frontier) < _least(s_right + b, 0.0, frontier):
                left, right, s_left, s_right = right, left, s_right, s_left
            stack[top], products[top] = left, s_left
            stack[top + 1], products[top + 1] = right, s_right
            top += 2
            continue
        along = s / max(math.sqrt(_dot(balls[node], balls[node, :d])), TINY)
        across = math.sqrt(max(length * length - along * along, 0.0))
        for p in range(start, stop):
            if _least(s + b, length * cones[p, 0], frontier) >= scores[k - 1]:
                break  # the other rows are nearer to the centre
            if _least(along * cones[p, 1] + b, across * cones[p, 2], frontier) >= scores[k - 1]:
                continue
            f = _dot(X[p], w) + b
            score = np.float32(abs(f) if frontier else -f)
            scored += 1
            if score < scores[k - 1]:
                at = k - 1
                while at and scores[at - 1] > score:
                    scores[at], places[at] = scores[at - 1], places[at - 1]
                    at -= 1
                scores[at], places[at] = score, p
    return scored
