"""Supervised trees: each bit is a sum of boosted decision trees that tells half of the classes from the others.

In: rows (n, d), NumPy, with labels for some. Out: (n, bits/8) uint8 codes, (n, bits) float32 scores, whose signs they
are. Lin et al., "Fast supervised hashing with decision trees for high-dimensional data", CVPR 2014 (FastHash).
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
from lookalike.codes.class_tree import sharing
from lookalike.codes.labels import read_labels
from lookalike.codes.signs import BitCoder
from lookalike.limits import COUNT, COUNT_OR_ZERO, check_number
from lookalike.types import Vectors

ROWS = 20_000
"""Rows that the trees of a bit learn from, by lot, at most."""
STARTS = 20
"""Random divisions of the classes that the search for a bit's division starts from."""
PART_BYTES = 2**20
"""Bins that are asked about at a time: they stay in the cache."""


class FastHash(BitCoder):
    """FastHash: first the bits that labelled rows should have, then trees that give these bits to any row.

    Bits come one after the other. Step 1 divides the classes in two so that the pairs of classes which earlier bits
    told apart least are told apart now: the paper's block search with a class as a block, for rows of one class all
    want the same bit. Step 2 fits boosted trees to the division. A bit depends on none that follow: the first 64 of 256
    bits are the 64-bit code. Rows without a label are not used.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    trees : for each bit.
    depth : questions a tree asks, 1 to 8.
    rate : the share of each tree's answer that is believed, above 0, at most 1.
    random_state : seed, a whole number.
    n_jobs : threads that fit bits, as in joblib. The codes do not depend on it.

    Attributes
    ----------
    edges_ : (d, 31) float32 values that columns are cut at.
    columns_, cuts_ : (bits, trees, depth) int32, uint8: the questions. Is the column's value above this edge of it?
    answers_ : (bits, trees, 2^depth) float32, what each combination of answers adds to the score.
    sides_ : (bits, C) int8, −1 or +1: what each bit should be for each class.
    classes_ : (C,) sorted labels, or (C, L) label combinations.

    Examples
    --------
    >>> X = np.random.default_rng(0).random((300, 2))
    >>> y = (X[:, 0] > 0.5) ^ (X[:, 1] > 0.5)  # no line tells these apart
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
        """Learn from rows (n, d) and labels: (n,) with −1, NaN, None or "" for none, or (n, L) bool, several a row."""
        from lookalike.codes.boosted_trees import bin_edges, bin_rows  # numba takes a second to load

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
        """Scores (n, bits) float32: bit j is 1 where score j is above 0."""
        from lookalike.codes.boosted_trees import ask_trees, bin_rows

        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False, ensure_min_samples=0)
        out = np.empty((len(X), self.bits), np.float32)
        for part in chunks(len(X), X.shape[1], PART_BYTES):
            scores = np.empty((self.bits, part.stop - part.start), np.float32)
            ask_trees(bin_rows(X[part], self.edges_), self.columns_, self.cuts_, self.answers_, scores)
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
    """For each seed a division of the C classes, (bits, C) −1 or +1, neither side empty.

    counts (C,): rows of each class; shared (C, C): classes that count as the same, since they share a label. Each bit
    lowers Σ a_cd s_c s_d over pairs of classes, weighted by their rows, as far as a search by single changes can: a_cd
    is twice the number of earlier bits that were equal, for classes to be told apart, and minus twice those that were
    not, for others; ±1 so that the first bit, too, has something to go by.
    """
    C = len(counts)
    shares = counts / counts.sum()
    pairs = np.outer(shares, shares) * ~np.eye(C, dtype=bool)
    sides = np.empty((len(seeds), C), np.int8)
    agreed = np.zeros((C, C))  # Σ of s_c s_d over the bits so far
    for r, seed in enumerate(seeds):
        wanted = np.where(shared, -r, r)  # the residue of the loss: what the bits so far should have summed to
        A = pairs * (agreed + wanted + np.where(shared, -1, 1))
        sides[r] = min((_descend(A, start) for start in _starts(C, seed)), key=lambda s: float(s @ A @ s))
        agreed += np.outer(sides[r], sides[r])
    return sides


def _starts(C: int, seed: np.random.SeedSequence) -> NDArray[np.float64]:
    """Random divisions in halves, (STARTS, C)."""
    random = np.random.default_rng(seed)
    return random.permuted(np.tile(np.where(np.arange(C) < C / 2, -1.0, 1.0), (STARTS, 1)), axis=1)


def _descend(A: NDArray[np.float64], s: NDArray[np.float64]) -> NDArray[np.float64]:
    """Change the class whose change lowers sᵀAs most, while one does and no side becomes empty."""
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
    """The trees of one bit; each of their levels asks about one of √d columns by lot."""
    from lookalike.codes.boosted_trees import fit_trees

    random = np.random.default_rng(seed)
    some = np.sort(random.permutation(len(signs))[:ROWS])
    bins, signs = np.ascontiguousarray(bins[:, some]), signs[some]
    d, n = bins.shape
    candidates = random.integers(d, size=(trees, depth, max(1, round(d**0.5))), dtype=np.int32)
    columns, cuts = np.empty((trees, depth), np.int32), np.empty((trees, depth), np.uint8)
    answers, scores = np.empty((trees, 2**depth), np.float32), np.empty(n, np.float32)
    fit_trees(bins, signs, candidates, float(rate), columns, cuts, answers, scores)
    return columns, cuts, answers
