"""FastHash: each bit is a sum of boosted decision trees that separates half of the classes from the others.

`divide_classes` chooses the classes on each side of a bit; `fit_trees` fits the trees of a bit, and `score_trees`
applies them. All nodes on one level of a tree make the same comparison, so a tree is `depth` comparisons and a table
of 2^depth outputs (Kohavi & Li 1995; Prokhorenkova et al. 2018). Boosting minimises the logistic loss by Newton
steps (Friedman et al. 2000).

Lin, Shen, Shi, van den Hengel & Suter, "Fast supervised hashing with decision trees for high-dimensional data", CVPR
2014.
"""

from numbers import Integral, Real
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from lookalike.arrays import chunks
from lookalike.codes.bits import check_bits
from lookalike.codes.labels import read_labels, sharing
from lookalike.codes.signs import BitCoder
from lookalike.compiler import njit
from lookalike.limits import COUNT, COUNT_OR_ZERO, check_number
from lookalike.types import Vectors

ROWS = 20_000
"""Maximum number of rows, sampled at random, for the trees of a bit."""
STARTS = 20
"""Random divisions of the classes from which the search for a bit's division starts."""
PART_BYTES = 2**20
"""Bytes of bins scored at a time: they stay in the cache."""
BINS = 32
"""Maximum number of bins of a column."""
EDGE_ROWS = 10_000
"""Maximum number of rows for the edges between bins."""
RIDGE = 1.0
"""Added to the curvature in a leaf, so that leaves with few rows have small outputs."""


class FastHash(BitCoder):
    """FastHash: choose the bits that labelled rows should have, then fit trees that predict these bits for any row.

    Bits are learned one after the other. Step 1 divides the classes into two groups that separate the pairs of classes
    that earlier bits separated least. This is the paper's block search with a class as a block, because all rows of a
    class should have the same bit. Step 2 fits boosted trees to the division. Bits do not depend on later bits, so
    codes are nested: the first 64 of 256 bits are the 64-bit code. Unlabelled rows are ignored.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    trees : number of trees for each bit.
    depth : comparisons of a tree, 1 to 8.
    rate : learning rate, by which each tree's output is multiplied; above 0, at most 1.
    random_state : seed, a whole number.
    n_jobs : threads that fit bits, as in joblib. The codes do not depend on it.

    Attributes
    ----------
    edges_ : (d, 31) float32, edges between the bins of each column.
    columns_, cuts_ : (bits, trees, depth) int32, uint8: the comparisons. Is the value of this column above this edge?
    answers_ : (bits, trees, 2^depth) float32, the contribution of each leaf to the score.
    sides_ : (bits, C) int8, −1 or +1: the target of each bit for each class.
    classes_ : (C,) sorted labels, or (C, L) label combinations.

    Examples
    --------
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)  # no line separates these
    >>> codes = FastHash(bits=8, trees=20, depth=3).fit(X, y).encode([[0.2, 0.2], [0.8, 0.8], [0.2, 0.8]])
    >>> codes[0].tolist() == codes[1].tolist(), codes[0].tolist() == codes[2].tolist()
    (True, False)

    """

    labels = True  # fit needs y

    edges_: Vectors
    columns_: NDArray[np.int32]
    cuts_: NDArray[np.uint8]
    answers_: Vectors
    sides_: NDArray[np.int8]
    classes_: NDArray[Any]

    def __init__(
        self,
        bits: int = 64,
        trees: int = 100,
        depth: int = 8,
        rate: float = 0.3,
        random_state: int = 0,
        n_jobs: int | None = None,
    ):
        self.bits = bits
        self.trees = trees
        self.depth = depth
        self.rate = rate
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows (n, d) and labels: (n,), with −1, NaN, None or "" for unlabelled rows, or (n, L) bool."""
        self._check()
        X = validate_data(self, X, dtype=np.float32, ensure_min_samples=2)
        self.classes_, codes = read_labels(y, len(X))
        labelled = codes >= 0
        X, codes = X[labelled], codes[labelled]
        shared = sharing(self.classes_) if self.classes_.ndim == 2 else np.eye(len(self.classes_), dtype=bool)
        seeds = np.random.SeedSequence(self.random_state).spawn(self.bits + 1)
        first, *others = seeds  # one for the columns, one for each bit
        self.sides_ = divide_classes(np.bincount(codes), shared, [seed.spawn(1)[0] for seed in others])
        self.edges_ = bin_edges(X, np.random.default_rng(first))
        bins = bin_rows(X, self.edges_)
        found = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(_fit_bit)(bins, sides[codes].astype(np.float32), self.trees, self.depth, self.rate, seed)
            for sides, seed in zip(self.sides_, others, strict=True)
        )
        self.columns_, self.cuts_, self.answers_ = (np.stack(part) for part in zip(*found, strict=True))
        return self

    def project(self, X: Any) -> Vectors:
        """Scores (n, bits) float32: bit j is 1 if score j is positive."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False, ensure_min_samples=0)
        out = np.empty((len(X), self.bits), np.float32)
        for part in chunks(len(X), X.shape[1], PART_BYTES):
            scores = np.empty((self.bits, part.stop - part.start), np.float32)
            score_trees(bin_rows(X[part], self.edges_), self.columns_, self.cuts_, self.answers_, scores)
            out[part] = scores.T
        return out

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _check(self) -> None:
        check_bits(self.bits)
        check_number("trees", self.trees, *COUNT)
        check_number("depth", self.depth, Integral, "a whole number from 1 to 8", 1, 8)
        check_number("rate", self.rate, Real, "a number above 0, at most 1", np.finfo(np.float64).tiny, 1)
        check_number("random_state", self.random_state, *COUNT_OR_ZERO)


def divide_classes(
    counts: NDArray[np.int64], shared: NDArray[np.bool_], seeds: list[np.random.SeedSequence]
) -> NDArray[np.int8]:
    """A division of the C classes for each seed, (bits, C) −1 or +1, neither side empty.

    counts (C,): rows of each class; shared (C, C): classes that share a label and count as the same. Each bit minimises
    Σ a_cd s_c s_d over pairs of classes, weighted by their rows, in a search by single changes. For classes to be
    separated, a_cd is twice the number of earlier bits in which they are equal; for classes that count as the same, it
    is minus twice the number of bits in which they differ; ±1 is added so that a_cd is not 0 for the first bit.
    """
    C = len(counts)
    shares = counts / counts.sum()
    pairs = np.outer(shares, shares) * ~np.eye(C, dtype=bool)
    sides = np.empty((len(seeds), C), np.int8)
    agreed = np.zeros((C, C))  # Σ of s_c s_d over the bits so far
    for r, seed in enumerate(seeds):
        target = np.where(shared, -r, r)  # of the sum over the bits so far
        A = pairs * (agreed + target + np.where(shared, -1, 1))
        sides[r] = min((_descend(A, start) for start in _starts(C, seed)), key=lambda s: float(s @ A @ s))
        agreed += np.outer(sides[r], sides[r])
    return sides


def _starts(C: int, seed: np.random.SeedSequence) -> NDArray[np.float64]:
    """Random divisions into halves, (STARTS, C)."""
    random = np.random.default_rng(seed)
    return random.permuted(np.tile(np.where(np.arange(C) < C / 2, -1.0, 1.0), (STARTS, 1)), axis=1)


def _descend(A: NDArray[np.float64], s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Move the class whose move lowers sᵀAs most to the other side, until none does; no side becomes empty."""
    while True:
        gains = s * (A @ s)  # a change of class c lowers sᵀAs by 4 gains[c]
        gains[[int((s == side).argmax()) for side in (-1, 1) if (s == side).sum() == 1]] = 0
        worst = int(np.argmax(gains))
        if gains[worst] <= 1e-12:
            return s
        s[worst] = -s[worst]


def _fit_bit(
    bins: NDArray[np.uint8], signs: Vectors, trees: int, depth: int, rate: float, seed: np.random.SeedSequence
) -> tuple[NDArray[np.int32], NDArray[np.uint8], Vectors]:
    """The trees of one bit; each level chooses among √d random columns."""
    random = np.random.default_rng(seed)
    some = np.sort(random.permutation(len(signs))[:ROWS])
    bins, signs = np.ascontiguousarray(bins[:, some]), signs[some]
    d, n = bins.shape
    candidates = random.integers(d, size=(trees, depth, max(1, round(d**0.5))), dtype=np.int32)
    columns, cuts = np.empty((trees, depth), np.int32), np.empty((trees, depth), np.uint8)
    answers, scores = np.empty((trees, 2**depth), np.float32), np.empty(n, np.float32)
    fit_trees(bins, signs, candidates, float(rate), columns, cuts, answers, scores)
    return columns, cuts, answers


def bin_edges(X: NDArray[Any], random: np.random.Generator) -> NDArray[np.float32]:
    """Edges (d, BINS − 1) between bins, with equally many rows in each as far as values allow; inf after the last."""
    rows = X if len(X) <= EDGE_ROWS else X[np.sort(random.choice(len(X), EDGE_ROWS, replace=False))]
    edges = np.full((X.shape[1], BINS - 1), np.inf, np.float32)
    for j in range(X.shape[1]):
        values, counts = np.unique(rows[:, j].astype(np.float32), return_counts=True)
        if len(values) > BINS:  # one bin for each 1/BINS of the rows, or for a more frequent value
            place = (np.cumsum(counts) - counts / 2) * BINS // counts.sum()
            cuts = np.flatnonzero(np.diff(place))
        else:
            cuts = np.arange(len(values) - 1)
        edges[j, : len(cuts)] = values[cuts]
    return edges


def bin_rows(X: NDArray[Any], edges: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Bins (d, n) of rows (n, d): the number of edges of its column below each value."""
    out = np.empty(X.shape[::-1], np.uint8)
    for j, column in enumerate(np.ascontiguousarray(X.T, np.float32)):
        out[j] = np.searchsorted(edges[j], column)
    return out


@njit(cache=True, nogil=True)
def fit_trees(
    bins: Any, signs: Any, candidates: Any, rate: float, columns: Any, cuts: Any, answers: Any, scores: Any
) -> None:
    """Fit trees, one after the other, to signs (n,) of bins (d, n).

    candidates (trees, depth, m): the columns that a level may compare. Fills columns and cuts (trees, depth), where a
    comparison tests whether a bin is above the cut, answers (trees, 2^depth) and scores (n,).
    """
    n = bins.shape[1]
    depth = columns.shape[1]
    leaf = np.zeros(n, np.uint8)
    gradient, hessian = np.empty(n, np.float32), np.empty(n, np.float32)
    table = np.empty((1 << depth, BINS, 2), np.float32)
    scores[:] = 0
    for tree in range(len(columns)):
        for i in range(n):
            p = 1 / (1 + np.exp(-signs[i] * scores[i]))
            gradient[i] = signs[i] * (1 - p)
            hessian[i] = p * (1 - p)
        leaf[:] = 0
        for level in range(depth):
            best, column, cut = -1.0, candidates[tree, level, 0], 0
            for j in candidates[tree, level]:
                gain, place = _best_cut(bins[j], leaf, gradient, hessian, 1 << level, table)
                if gain > best:
                    best, column, cut = gain, j, place
            columns[tree, level], cuts[tree, level] = column, cut
            row = bins[column]
            for i in range(n):
                leaf[i] |= np.uint8(row[i] > cut) << level
        table[:, 0] = 0
        for i in range(n):
            table[leaf[i], 0, 0] += gradient[i]
            table[leaf[i], 0, 1] += hessian[i]
        for k in range(1 << depth):
            answers[tree, k] = rate * table[k, 0, 0] / (table[k, 0, 1] + RIDGE)
        for i in range(n):
            scores[i] += answers[tree, leaf[i]]


@njit(cache=True, nogil=True)
def score_trees(bins: Any, columns: Any, cuts: Any, answers: Any, scores: Any) -> None:
    """Write the scores (bits, n) of bins (d, n): the sums of the answers of the trees of each bit, (bits, trees, …)."""
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
def _best_cut(row: Any, leaf: Any, gradient: Any, hessian: Any, leaves: int, table: Any) -> Any:
    """The gain of splitting all leaves by one column at its best cut, and that cut."""
    table[:leaves] = 0
    for i in range(len(row)):
        cell = table[leaf[i], row[i]]
        cell[0] += gradient[i]
        cell[1] += hessian[i]
    gains = np.zeros(BINS - 1)
    for k in range(leaves):
        gradients, hessians = 0.0, 0.0
        for bin_ in range(BINS):
            gradients += table[k, bin_, 0]
            hessians += table[k, bin_, 1]
        left, left_hessian = 0.0, 0.0
        for cut in range(BINS - 1):
            left += table[k, cut, 0]
            left_hessian += table[k, cut, 1]
            right, right_hessian = gradients - left, hessians - left_hessian
            gains[cut] += left * left / (left_hessian + RIDGE) + right * right / (right_hessian + RIDGE)
    cut = int(np.argmax(gains))
    return gains[cut], cut
