"""Binary trees over classes: alike classes stay together as long as possible.

In: rows (n, d) with the numbers of their classes. Out: the tree's nodes, the root first, two groups of classes each.
Cevikalp et al. 2017 (tsvm-hashing), §2.2: hull distances, similarities (Eq. 9), normalised cuts (Eq. 10–11).
"""

from collections import deque
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.svm import SVC

from lookalike.errors import InputError

HULL_ROWS = 30
"""Rows of a class that its hull is made of, at most: each pair of classes costs a machine on twice as many."""
HARD = 1e3
"""C of these machines, for rows of mean squared length one: large, for the margin between hulls is a hard one."""
LEAST = 1e-9
"""No similarity is below it: classes without any would leave a cut nothing to go by."""


class Node(NamedTuple):
    """Two groups of classes, and the nodes that divide them further."""

    left: NDArray[np.int64]  # classes with bit 0, sorted
    right: NDArray[np.int64]  # classes with bit 1, sorted
    parent: int  # its place among the nodes, -1 for the root


def class_tree(similarity: NDArray[np.float64]) -> list[Node]:
    """C − 1 nodes over C classes, from their similarities (C, C), level by level: every class is one leaf.

    >>> [(node.left.tolist(), node.right.tolist()) for node in class_tree(np.eye(4)[[1, 0, 3, 2]] + 0.1)]
    [([0, 1], [2, 3]), ([0], [1]), ([2], [3])]
    """
    nodes: list[Node] = []
    waiting = deque([(np.arange(len(similarity)), -1)])
    while waiting:
        classes, parent = waiting.popleft()
        if len(classes) == 1:
            continue
        right = _cut(similarity[np.ix_(classes, classes)])
        nodes.append(Node(classes[~right], classes[right], parent))
        waiting.extend((side, len(nodes) - 1) for side in nodes[-1][:2])
    return nodes


def similarities(distances: NDArray[np.float64], shared: NDArray[np.bool_] | None = None) -> NDArray[np.float64]:
    """exp(−distance / t) (C, C), zero on the diagonal (Eq. 9), with t the mean distance; 1 where labels are `shared`.

    >>> similarities(np.array([[0.0, 2.0], [2.0, 0.0]])).round(2)
    array([[0.  , 0.37],
           [0.37, 0.  ]])
    """
    C = len(distances)
    t = distances.sum() / max(1, C * (C - 1)) or 1.0
    W = np.maximum(np.exp(-distances / t), LEAST)
    if shared is not None:
        W[shared] = 1.0
    np.fill_diagonal(W, 0.0)
    return W


def hull_distances(X: NDArray[Any], codes: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float64]:
    """Distances (C, C) between the convex hulls of classes: 2/‖w‖ of the linear machine between each two.

    From up to 30 rows of each class by lot. Hulls that overlap, where the machine errs, have distance 0.

    >>> hull_distances(np.array([[0.0], [1.0], [4.0]]), np.array([0, 0, 1]), np.random.default_rng(0)).round(3)
    array([[0., 3.],
           [3., 0.]])
    """
    counts = np.bincount(codes)
    if not counts.all():
        raise InputError(f"Every class must have a row. Got none of class {np.argmin(counts)}.")
    C = len(counts)
    chosen = [random.permutation(np.flatnonzero(codes == c))[:HULL_ROWS] for c in range(C)]
    rows = X[np.concatenate(chosen)].astype(np.float64)
    rows -= rows.mean(axis=0)
    gram = rows @ rows.T
    unit = np.trace(gram) / len(gram) or 1.0  # the mean squared length
    gram /= unit
    ends = np.cumsum([len(part) for part in chosen])
    places = [np.arange(end - len(part), end) for end, part in zip(ends, chosen, strict=True)]
    distances = np.zeros((C, C))
    for i in range(C):
        for j in range(i):
            distances[i, j] = distances[j, i] = np.sqrt(unit) * _margin(gram, places[i], places[j])
    return distances


def categories(y: NDArray[Any]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Label combinations as categories of their own: from (n, L) bool, which labels each has, to (C, L) and (n,).

    >>> combinations, codes = categories(np.array([[1, 0], [1, 1], [1, 0]], bool))
    >>> combinations.tolist(), codes.tolist()
    ([[True, False], [True, True]], [0, 1, 0])
    """
    combinations, codes = np.unique(y, axis=0, return_inverse=True)
    return combinations, codes.reshape(-1).astype(np.int64)


def sharing(combinations: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which categories (C, L) have a label in common, (C, C)."""
    numbers = combinations.astype(np.int64)
    return np.asarray(numbers @ numbers.T > 0)


def _margin(gram: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """2/‖w‖ of the machine between two sets of rows, 0 where it errs."""
    rows = np.concatenate([one, other])
    K = gram[np.ix_(rows, rows)]  # (m, m)
    signs = np.repeat([1.0, -1.0], [len(one), len(other)])
    machine = SVC(C=HARD, kernel="precomputed").fit(K, signs)
    if (machine.decision_function(K) * signs <= 0).any():
        return 0.0
    support, dual = machine.support_, machine.dual_coef_[0]
    return float(2 / np.sqrt(dual @ K[np.ix_(support, support)] @ dual))


def _cut(W: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The normalised cut of classes, (C,) bool: signs of the second eigenvector of La = λDa."""
    D = np.diag(W.sum(axis=1))
    a = scipy.linalg.eigh(D - W, D)[1][:, 1]
    a *= np.sign(a[np.argmax(np.abs(a) > np.abs(a).max() / 2)])  # eigenvectors come with either sign
    right = a < 0  # Eq. 11
    if right.all() or not right.any():  # rounding only: a is orthogonal to D1 > 0
        right = np.arange(len(a)) == np.argmax(np.abs(a))
    return np.asarray(right)
