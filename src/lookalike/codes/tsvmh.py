"""Transductive SVM hashing: a bit is a hyperplane between two groups of classes, found at a node of a class tree.

`Tsvmh` computes codes; `TsvmPlanes` is a transform to the distances from the hyperplanes. `class_tree` builds the tree
from the similarities of the classes, and `RobustTsvm` fits the hyperplane of each node. Cevikalp, Elmas &
Ozkan, "Large-scale image retrieval using transductive support vector machines", 2017 (tsvm-hashing): trees in §2.2
(Eq. 9–11), codes in §2.3 (TSVMH-BHT).
"""

from collections import deque
from numbers import Integral
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.svm import SVC
from sklearn.utils import Tags
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from lookalike.codes.bits import check_bits
from lookalike.codes.hyperplanes import Itq
from lookalike.codes.labels import read_labels, sharing
from lookalike.codes.robust_tsvm import RobustTsvm
from lookalike.codes.signs import SignCoder
from lookalike.encode.check import float32_out
from lookalike.errors import InputError
from lookalike.limits import COST, COST_OR_ZERO, COUNT, COUNT_OR_ZERO, check_number
from lookalike.types import Vectors

PASSES = 10
"""Passes of stochastic gradients over a node's rows in each round."""
LEAST_UNLABELLED = 20
"""Minimum number of unlabelled rows for a node to use them: the mean score of fewer is unreliable."""
HULL_ROWS = 30
"""Maximum number of rows for the hull of a class: each pair of classes costs an SVM on twice that number."""
HARD = 1e3
"""C of these SVMs, for rows of mean squared length one: large, because the margin between hulls is a hard margin."""
LEAST_SIMILARITY = 1e-9
"""Lower bound of similarities: the cut of classes without similarities is undefined."""


class Tsvmh(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SignCoder):
    """Transductive SVM hashing on binary class trees.

    A tree over C classes has C − 1 nodes, and the hyperplane between the two groups of a node is one bit. For more
    bits, more trees are built, each on its own sample of the labelled rows, so that they differ. Each tree has its own
    seed, so codes are nested: the first 64 of 256 bits are the 64-bit code. Unlabelled rows descend a tree on their
    side of each hyperplane; a node with fewer than 20 of them ignores them.

    With more than bits + 1 classes, the first nodes of a tree would not separate all of them. Then `Itq` encodes the
    distances from all C − 1 hyperplanes of one tree, as at the end of §2.3, and codes are not nested.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    C, C_unlabelled : weights of labelled and unlabelled rows at a node, as in `RobustTsvm`, for rows that are centred
        and scaled to a mean squared length of one: the scale of X does not matter.
    sample : maximum number of labelled rows per class in a tree, sampled at random; the unlabelled rows of a tree are
        limited to this number times the classes. A smaller sample makes trees differ more: worse short codes, better
        long ones.
    random_state : seed, a whole number.
    n_jobs : processes that build trees, as in joblib. The codes do not depend on it.

    Attributes
    ----------
    W_ : (bits, d) float32, b_ : (bits,) float32: the hyperplanes.
    sides_ : (bits, C) int8, the side of each class in each bit: −1, +1, or 0 if the bit does not separate it. With more
        than bits + 1 classes, the side of the mean of the class.
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
        """Learn from rows (n, d) and labels: (n,), with −1, NaN, None or "" for unlabelled rows, or (n, L) bool."""
        self._check()
        X = validate_data(self, X, dtype=(np.float32, np.float64), order="C", ensure_min_samples=2)
        self.classes_, codes = read_labels(y, len(X))
        C = len(self.classes_)
        normals, offsets, self.sides_ = self._fit_planes(X, codes, max(self.bits, C - 1))
        if self.bits < C - 1:  # the first bits of a tree would not separate all classes
            lengths = np.maximum(np.linalg.norm(normals, axis=1), 1e-12)
            normals, offsets = normals / lengths[:, None], offsets / lengths  # of distances, (C - 1, d) and (C - 1,)
            itq = Itq(self.bits, self.random_state).fit((X @ normals.T + offsets).astype(np.float32))
            normals, offsets = itq.W_ @ normals, itq.W_ @ offsets + itq.b_  # (bits, d), (bits,)
            means = np.stack([X[codes == c].mean(axis=0, dtype=np.float64) for c in range(C)])  # (C, d)
            self.sides_ = np.where(normals @ means.T + offsets[:, None] > 0, 1, -1).astype(np.int8)
        return self._set_planes(normals, offsets, float(np.linalg.norm(X, axis=1).max()))

    def planes(self, X: Any, y: Any, count: int | None = None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Normals (count, d) and offsets (count,) of the nodes of class trees; None: those of one tree."""
        self._check()
        self.classes_, codes = read_labels(y, len(X))
        return self._fit_planes(X, codes, len(self.classes_) - 1 if count is None else count)[:2]

    def _fit_planes(
        self, X: NDArray[Any], codes: NDArray[np.int64], count: int
    ) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int8]]:
        """Normals (count, d), offsets (count,) and sides (count, C) of the nodes of as many trees as needed."""
        C = len(self.classes_)
        shared = sharing(self.classes_) if self.classes_.ndim == 2 else None
        mean = X.mean(axis=0, dtype=np.float64)
        centred = (X - mean).astype(np.float32)  # (n, d)
        length = float(np.sqrt(np.einsum("ij,ij->", centred, centred, dtype=np.float64) / len(X))) or 1.0
        centred /= np.float32(length)
        trees = -(-count // (C - 1))
        counts = [min(C - 1, count - (C - 1) * k) for k in range(trees)]  # nodes of each tree
        svm = RobustTsvm(self.C, self.C_unlabelled, self.loss, "scores", PASSES)
        seeds = np.random.SeedSequence(self.random_state).spawn(
            trees
        )  # the first seeds do not depend on the number of trees
        found = Parallel(n_jobs=self.n_jobs)(
            delayed(_fit_tree)(centred, codes, shared, svm, self.sample, nodes, seed)
            for nodes, seed in zip(counts, seeds, strict=True)
        )
        planes = [plane for tree in found for plane in tree]
        normals = np.array([plane.w for plane in planes]) / length  # (count, d)
        offsets = np.array([plane.b for plane in planes]) - normals @ mean  # (count,)
        return normals, offsets, np.array([plane.sides for plane in planes], np.int8)

    def transform(self, X: Any) -> Vectors:
        """Signed distances from the hyperplanes, (n, bits) float32, which another coder can encode."""
        return np.asarray(self.project(X) / np.maximum(np.linalg.norm(self.W_, axis=1), np.float32(1e-12)))

    @property
    def _n_features_out(self) -> int:
        return len(self.W_)

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
    """`Tsvmh` with the hinge loss on labelled rows (Eq. 2), to measure the cost of wrong labels without the ramp loss.

    Library only: it is not in the registry.
    """

    loss = "hinge"


class TsvmPlanes(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Signed distances from the hyperplanes of `Tsvmh`, for another coder or for search.

    The paper uses this if there are more classes than bits (end of §2.3): embed by the normals of all nodes, then hash
    in the embedded space.

    Parameters
    ----------
    dim : number of hyperplanes, from as many trees as needed; None uses one tree, one hyperplane fewer than classes.
    C, C_unlabelled, sample, random_state : as in `Tsvmh`.

    Attributes
    ----------
    W_ : (dim, d) float32, normals of length one, b_ : (dim,) float32.

    Examples
    --------
    >>> X = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1], [0, 9], [1, 9]])
    >>> embedding = TsvmPlanes().fit(X, ["owl", "owl", "cat", "cat", "fox", None])
    >>> embedding.transform(X).shape
    (6, 2)

    """

    labels = True  # fit needs y
    W_: Vectors
    b_: Vectors

    def __init__(
        self,
        dim: int | None = None,
        C: float = 10.0,
        C_unlabelled: float = 2.0,
        sample: int = 5_000,
        random_state: int = 0,
    ):
        self.dim = dim
        self.C = C
        self.C_unlabelled = C_unlabelled
        self.sample = sample
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows (n, d) and labels, as in `Tsvmh.fit`."""
        if self.dim is not None:
            check_number("dim", self.dim, Integral, "None or a whole number of at least 1", 1, np.inf)
        X = validate_data(self, X, dtype=(np.float32, np.float64), ensure_min_samples=2)
        coder = Tsvmh(8, self.C, self.C_unlabelled, self.sample, self.random_state)
        W, b = coder.planes(X, y, self.dim)
        lengths = np.maximum(np.linalg.norm(W, axis=1), 1e-12)
        self.W_, self.b_ = (W / lengths[:, None]).astype(np.float32), (b / lengths).astype(np.float32)
        return self

    def transform(self, X: Any) -> Vectors:
        """Distances (n, dim) float32 of rows X (n, d)."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=(np.float32, np.float64), reset=False, ensure_min_samples=0)
        return np.asarray(X @ self.W_.T + self.b_, np.float32)

    @property
    def _n_features_out(self) -> int:
        return len(self.W_)

    def __sklearn_tags__(self) -> Tags:
        tags = float32_out(super().__sklearn_tags__())
        tags.target_tags.required = True
        return tags


class Node(NamedTuple):
    """A node of a class tree: two groups of classes."""

    left: NDArray[np.int64]  # classes with bit 0, sorted
    right: NDArray[np.int64]  # classes with bit 1, sorted
    parent: int  # index among the nodes, -1 for the root


def class_tree(similarity: NDArray[np.float64]) -> list[Node]:
    """The C − 1 nodes of a binary tree over C classes, level by level, from the similarities (C, C) of the classes.

    Similar classes stay together as long as possible; every class is one leaf.

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
    """Similarities (C, C): exp(−distance / t), 0 on the diagonal (Eq. 9), t the mean distance; 1 for `shared` labels.

    >>> similarities(np.array([[0.0, 2.0], [2.0, 0.0]])).round(2)
    array([[0.  , 0.37],
           [0.37, 0.  ]])
    """
    C = len(distances)
    t = distances.sum() / max(1, C * (C - 1)) or 1.0
    W = np.maximum(np.exp(-distances / t), LEAST_SIMILARITY)
    if shared is not None:
        W[shared] = 1.0
    np.fill_diagonal(W, 0.0)
    return W


def hull_distances(X: NDArray[Any], codes: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float64]:
    """Distances (C, C) between the convex hulls of classes: the margin 2/‖w‖ of a linear SVM for each pair.

    Each hull is that of at most 30 random rows of the class. Hulls that overlap have distance 0.

    >>> hull_distances(np.array([[0.0], [1.0], [4.0]]), np.array([0, 0, 1]), np.random.default_rng(0)).round(3)
    array([[0., 3.],
           [3., 0.]])
    """
    counts = np.bincount(codes)
    if not counts.all():
        raise InputError(f"Every class must have at least one row. Class {np.argmin(counts)} has none.")
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


def _margin(gram: NDArray[np.float64], one: NDArray[np.int64], other: NDArray[np.int64]) -> float:
    """2/‖w‖ of the SVM between two sets of rows; 0 if it does not separate them."""
    rows = np.concatenate([one, other])
    K = gram[np.ix_(rows, rows)]  # (m, m)
    signs = np.repeat([1.0, -1.0], [len(one), len(other)])
    svm = SVC(C=HARD, kernel="precomputed").fit(K, signs)
    if (svm.decision_function(K) * signs <= 0).any():
        return 0.0
    support, dual = svm.support_, svm.dual_coef_[0]
    return float(2 / np.sqrt(dual @ K[np.ix_(support, support)] @ dual))


def _cut(W: NDArray[np.float64]) -> NDArray[np.bool_]:
    """The normalised cut of classes, (C,) bool: signs of the second eigenvector of La = λDa (Eq. 10–11)."""
    D = np.diag(W.sum(axis=1))
    a = scipy.linalg.eigh(D - W, D)[1][:, 1]
    a *= np.sign(a[np.argmax(np.abs(a) > np.abs(a).max() / 2)])  # the sign of an eigenvector is arbitrary
    right = a < 0  # Eq. 11
    if right.all() or not right.any():  # rounding only: a is orthogonal to D1 > 0
        right = np.arange(len(a)) == np.argmax(np.abs(a))
    return np.asarray(right)


class _Plane(NamedTuple):
    w: NDArray[np.float64]  # (d,)
    b: float
    sides: NDArray[np.int8]  # (C,)


def _fit_tree(
    X: Vectors,
    codes: NDArray[np.int64],
    shared: NDArray[np.bool_] | None,
    svm: RobustTsvm,
    sample: int,
    count: int,
    seed: np.random.SeedSequence,
) -> list[_Plane]:
    """The hyperplanes of the first `count` nodes of one tree. codes: the classes of rows, −1 for unlabelled rows."""
    random = np.random.default_rng(seed)
    C = int(codes.max()) + 1
    labelled = np.sort(np.concatenate([random.permutation(np.flatnonzero(codes == c))[:sample] for c in range(C)]))
    unlabelled = np.flatnonzero(codes < 0)
    if len(unlabelled) > C * sample:
        unlabelled = np.sort(random.choice(unlabelled, C * sample, replace=False))
    rows = np.concatenate([labelled, unlabelled])
    X, codes = X[rows], codes[rows]
    with threadpool_limits(1):  # so that sums do not depend on the number of processes
        nodes = class_tree(similarities(hull_distances(X[codes >= 0], codes[codes >= 0], random), shared))[:count]
        planes: list[_Plane] = []
        here: list[NDArray[np.int64]] = []  # the rows at each node
        for node in nodes:
            sides = np.zeros(C + 1, np.int8)  # the last entry is for unlabelled rows
            sides[node.left], sides[node.right] = -1, 1
            if node.parent < 0:
                inside = np.arange(len(X))
            else:  # labelled rows descend by their class, others by the hyperplane of the parent
                above, plane = here[node.parent], planes[node.parent]
                side = plane.sides[node.left[0]]
                descends = np.where(X[above] @ plane.w + plane.b >= 0, 1, -1) == side
                inside = above[np.where(codes[above] < 0, descends, sides[codes[above]] != 0)]
            here.append(inside)
            if (codes[inside] < 0).sum() < LEAST_UNLABELLED:
                inside = inside[codes[inside] >= 0]
            svm.set_params(random_state=int(random.integers(2**31)))
            svm.fit(X[inside], sides[codes[inside]])
            planes.append(_Plane(svm.coef_, svm.intercept_, sides[:C]))
    return planes
