"""Boosted trees of equal questions: fitted and asked fast, with nothing but arrays.

In: rows as bins, (d, n) uint8, column by column, and signs (n,). Out: trees as arrays; scores (n,). All nodes of one
level of a tree ask the same question, so that a tree is `depth` questions and a table of 2^depth answers (Kohavi & Li
1995; Prokhorenkova et al. 2018); boosting of the logistic loss by Newton steps (Friedman et al. 2000).
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

BINS = 32
"""Values that a column is told apart by."""
EDGE_ROWS = 10_000
"""Rows that the edges between bins are read from, at most."""
RIDGE = 1.0
"""Added to the curvature in a leaf: a leaf of few rows answers with little."""


def bin_edges(X: NDArray[Any], random: np.random.Generator) -> NDArray[np.float32]:
    """Edges (d, BINS − 1) between bins, equally many rows in each as far as values allow; inf beyond the last."""
    rows = X if len(X) <= EDGE_ROWS else X[np.sort(random.choice(len(X), EDGE_ROWS, replace=False))]
    edges = np.full((X.shape[1], BINS - 1), np.inf, np.float32)
    for j in range(X.shape[1]):
        values, counts = np.unique(rows[:, j].astype(np.float32), return_counts=True)
        if len(values) > BINS:  # one of its bins for each 1/BINS of the rows, or for a value that has more of them
            place = (np.cumsum(counts) - counts / 2) * BINS // counts.sum()
            cuts = np.flatnonzero(np.diff(place))
        else:
            cuts = np.arange(len(values) - 1)
        edges[j, : len(cuts)] = values[cuts]
    return edges


def bin_rows(X: NDArray[Any], edges: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Bins (d, n) of rows (n, d): how many edges of its column a value is above."""
    out = np.empty(X.shape[::-1], np.uint8)
    for j, column in enumerate(np.ascontiguousarray(X.T, np.float32)):
        out[j] = np.searchsorted(edges[j], column)
    return out


@njit(cache=True, nogil=True)
def fit_trees(
    bins: Any, signs: Any, candidates: Any, rate: float, columns: Any, cuts: Any, answers: Any, scores: Any
) -> None:
    """Fit trees, one after the other, to signs (n,) of bins (d, n).

    candidates (trees, depth, m): the columns a level may ask about. Fills columns and cuts (trees, depth): the question
    is whether a bin is above the cut; answers (trees, 2^depth), and scores (n,).
    """
    n = bins.shape[1]
    depth = columns.shape[1]
    leaf = np.zeros(n, np.uint8)
    slope, bend = np.empty(n, np.float32), np.empty(n, np.float32)
    table = np.empty((1 << depth, BINS, 2), np.float32)
    scores[:] = 0
    for tree in range(len(columns)):
        for i in range(n):
            p = 1 / (1 + np.exp(-signs[i] * scores[i]))
            slope[i] = signs[i] * (1 - p)
            bend[i] = p * (1 - p)
        leaf[:] = 0
        for level in range(depth):
            best, column, cut = -1.0, candidates[tree, level, 0], 0
            for j in candidates[tree, level]:
                gain, place = _best_cut(bins[j], leaf, slope, bend, 1 << level, table)
                if gain > best:
                    best, column, cut = gain, j, place
            columns[tree, level], cuts[tree, level] = column, cut
            row = bins[column]
            for i in range(n):
                leaf[i] |= np.uint8(row[i] > cut) << level
        table[:, 0] = 0
        for i in range(n):
            table[leaf[i], 0, 0] += slope[i]
            table[leaf[i], 0, 1] += bend[i]
        for k in range(1 << depth):
            answers[tree, k] = rate * table[k, 0, 0] / (table[k, 0, 1] + RIDGE)
        for i in range(n):
            scores[i] += answers[tree, leaf[i]]


@njit(cache=True, nogil=True)
def ask_trees(bins: Any, columns: Any, cuts: Any, answers: Any, scores: Any) -> None:
    """Scores (bits, n) of bins (d, n): the sum of the answers of the trees of each bit, (bits, trees, …)."""
    n = bins.shape[1]
    leaf = np.empty(n, np.uint8)
    for bit in range(len(columns)):
        total = scores[bit]
        total[:] = 0
        for tree in range(columns.shape[1]):
            leaf[:] = 0
            for level in range(columns.shape[2]):
                row, cut = bins[columns[bit, tree, level]], cuts[bit, tree, level]
                for i in range(n):
                    leaf[i] |= np.uint8(row[i] > cut) << np.uint8(level)
            answer = answers[bit, tree]
            for i in range(n):
                total[i] += answer[leaf[i]]


@njit(cache=True, nogil=True)
def _best_cut(row: Any, leaf: Any, slope: Any, bend: Any, leaves: int, table: Any) -> Any:
    """How much one question to all leaves lowers the loss, at the best of all cuts of a column, and that cut."""
    table[:leaves] = 0
    for i in range(len(row)):
        cell = table[leaf[i], row[i]]
        cell[0] += slope[i]
        cell[1] += bend[i]
    gains = np.zeros(BINS - 1)
    for k in range(leaves):
        slopes, bends = 0.0, 0.0
        for bin_ in range(BINS):
            slopes += table[k, bin_, 0]
            bends += table[k, bin_, 1]
        left, left_bend = 0.0, 0.0
        for cut in range(BINS - 1):
            left += table[k, cut, 0]
            left_bend += table[k, cut, 1]
            right, right_bend = slopes - left, bends - left_bend
            gains[cut] += left * left / (left_bend + RIDGE) + right * right / (right_bend + RIDGE)
    cut = int(np.argmax(gains))
    return gains[cut], cut
