"""Codes whose bits are planes between groups of classes: robust transductive SVMs at the nodes of class trees.

In: rows (n, d), NumPy, with labels for some of them. Out: (n, bits/8) uint8 codes, (n, bits) float32 scores, whose
signs they are. Cevikalp et al. 2017 (tsvm-hashing), §2.3, TSVMH-BHT.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import validate_data
from threadpoolctl import threadpool_limits

from lookalike.codes.bits import check_bits
from lookalike.codes.class_tree import class_tree, hull_distances, sharing, similarities
from lookalike.codes.labels import read_labels
from lookalike.codes.rtsvm import RobustTsvm
from lookalike.codes.signs import SignCoder
from lookalike.encode.check import float32_out
from lookalike.limits import COST, COST_OR_ZERO, COUNT, COUNT_OR_ZERO, check_number
from lookalike.types import Vectors

PASSES = 10
"""Of stochastic gradients over a node's rows, in each round."""
FEWEST = 20
"""Unlabelled rows at a node that its plane heeds: the mean score of fewer would be held at what it cannot be."""


class Tsvmh(TransformerMixin, SignCoder):
    """Transductive SVM hashing on binary class trees.

    A tree over C classes has C − 1 nodes; the plane that tells a node's two groups apart is one bit. Where more bits
    are wanted, more trees are made, each on its own part of the labelled rows, so that they differ. Trees are numbered
    and each has its own seed: the first 64 of 256 bits are the 64-bit code. Unlabelled rows go down a tree on the side
    of the planes that they fall on; at nodes with fewer than 20 of them they are left out.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    C, C_unlabelled : weights of labelled and unlabelled rows at a node, as in `RobustTsvm`, for rows that are centred
        and scaled to a mean squared length of one: the scale of X does not matter.
    sample : labelled rows of each class that a tree learns from, by lot, and C times as many unlabelled ones, at most.
        Fewer make trees differ more: worse short codes, better long ones.
    random_state : seed, a whole number.
    n_jobs : processes that make trees, as in joblib. The codes do not depend on it.

    Attributes
    ----------
    W_ : (bits, d) float32, b_ : (bits,) float32: the planes.
    sides_ : (bits, C) int8, the classes each bit tells apart: −1, +1, and 0 for those it does not.
    classes_ : (C,) sorted labels, or (C, L) label combinations.

    Examples
    --------
    >>> X = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1], [0, 9], [1, 9]])
    >>> coder = Tsvmh(bits=8).fit(X, ["owl", "owl", "cat", "cat", "fox", None])
    >>> codes = coder.encode(X)
    >>> codes.shape, codes[0].tolist() == codes[1].tolist(), codes[0].tolist() == codes[2].tolist()
    ((6, 1), True, False)

    """

    labels = True  # fit needs y
    loss = "ramp"

    sides_: NDArray[np.int8]
    classes_: NDArray[Any]

    def __init__(
        self,
        bits: int = 64,
        C: float = 10.0,
        C_unlabelled: float = 2.0,
        sample: int = 5_000,
        random_state: int = 0,
        n_jobs: int | None = None,
    ):
        self.bits = bits
        self.C = C
        self.C_unlabelled = C_unlabelled
        self.sample = sample
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows (n, d) and labels: (n,) with −1, NaN, None or "" for none, or (n, L) bool, several a row."""
        self._check()
        X = validate_data(self, X, dtype=(np.float32, np.float64), order="C", ensure_min_samples=2)
        self.classes_, codes = read_labels(y, len(X))
        C = len(self.classes_)
        shared = sharing(self.classes_) if self.classes_.ndim == 2 else None
        mean = X.mean(axis=0, dtype=np.float64)
        centred = (X - mean).astype(np.float32)  # (n, d)
        length = float(np.sqrt(np.einsum("ij,ij->", centred, centred, dtype=np.float64) / len(X))) or 1.0
        centred /= np.float32(length)
        trees = -(-self.bits // (C - 1))
        wanted = [min(C - 1, self.bits - (C - 1) * k) for k in range(trees)]  # nodes of each tree
        machine = RobustTsvm(self.C, self.C_unlabelled, self.loss, "scores", PASSES)
        seeds = np.random.SeedSequence(self.random_state).spawn(trees)  # the first ones do not depend on how many
        found = Parallel(n_jobs=self.n_jobs)(
            delayed(_tree)(centred, codes, shared, machine, self.sample, count, seed)
            for count, seed in zip(wanted, seeds, strict=True)
        )
        planes = [plane for tree in found for plane in tree]
        normals = np.array([plane.w for plane in planes])  # (bits, d)
        offsets = np.array([plane.b for plane in planes]) - normals / length @ mean  # (bits,)
        self.sides_ = np.array([plane.sides for plane in planes], np.int8)
        return self._keep(normals / length, offsets, float(np.linalg.norm(X, axis=1).max()))

    def transform(self, X: Any) -> Vectors:
        """Distances from the planes, with sign, (n, bits) float32: for many classes, rows for another coder."""
        return np.asarray(self.project(X) / np.maximum(np.linalg.norm(self.W_, axis=1), np.float32(1e-12)))

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags

    def _check(self) -> None:
        check_bits(self.bits)
        check_number("C", self.C, *COST)
        check_number("C_unlabelled", self.C_unlabelled, *COST_OR_ZERO)
        check_number("sample", self.sample, *COUNT)
        check_number("random_state", self.random_state, *COUNT_OR_ZERO)


class HingeTsvmh(Tsvmh):
    """The same with the hinge loss on labelled rows (Eq. 2): what noisy labels cost without the ramp."""

    loss = "hinge"


class _Plane(NamedTuple):
    w: NDArray[np.float64]  # (d,)
    b: float
    sides: NDArray[np.int8]  # (C,)


def _tree(
    X: Vectors,
    codes: NDArray[np.int64],
    shared: NDArray[np.bool_] | None,
    machine: RobustTsvm,
    sample: int,
    count: int,
    seed: np.random.SeedSequence,
) -> list[_Plane]:
    """The planes of the first `count` nodes of one tree. codes: the classes of rows, −1 without one."""
    random = np.random.default_rng(seed)
    C = int(codes.max()) + 1
    labelled = np.sort(np.concatenate([random.permutation(np.flatnonzero(codes == c))[:sample] for c in range(C)]))
    unlabelled = np.flatnonzero(codes < 0)
    if len(unlabelled) > C * sample:
        unlabelled = np.sort(random.choice(unlabelled, C * sample, replace=False))
    rows = np.concatenate([labelled, unlabelled])
    X, codes = X[rows], codes[rows]
    with threadpool_limits(1):  # so that sums come out the same in any number of processes
        nodes = class_tree(similarities(hull_distances(X[codes >= 0], codes[codes >= 0], random), shared))[:count]
        planes: list[_Plane] = []
        here: list[NDArray[np.int64]] = []  # the rows at each node
        for node in nodes:
            sides = np.zeros(C + 1, np.int8)  # the last is for rows without a class
            sides[node.left], sides[node.right] = -1, 1
            if node.parent < 0:
                inside = np.arange(len(X))
            else:  # labelled rows as their class says, others as the plane above does
                above, up = here[node.parent], planes[node.parent]
                side = up.sides[node.left[0]]
                free = codes[above] < 0
                fallen = np.where(X[above] @ up.w + up.b >= 0, 1, -1) == side
                inside = above[np.where(free, fallen, sides[codes[above]] != 0)]
            here.append(inside)
            if (codes[inside] < 0).sum() < FEWEST:
                inside = inside[codes[inside] >= 0]
            machine.set_params(random_state=int(random.integers(2**31)))
            machine.fit(X[inside], sides[codes[inside]])
            planes.append(_Plane(machine.coef_, machine.intercept_, sides[:C]))
    return planes
