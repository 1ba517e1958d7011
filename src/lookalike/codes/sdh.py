"""Supervised discrete hashing: codes from which a linear classifier predicts the labels, optimised bit by bit.

Shen, Shen, Liu & Shen, "Supervised discrete hashing", CVPR 2015 (SDH), Eq. 2–12, Algorithm 1.
"""

from typing import Any, Self

import numpy as np
import scipy.linalg
from numpy.typing import NDArray
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from lookalike.arrays import chunks
from lookalike.codes.bits import check_bits
from lookalike.codes.labels import read_labels
from lookalike.codes.signs import BitCoder
from lookalike.limits import COST, COST_OR_ZERO, COUNT, COUNT_OR_ZERO, check_number
from lookalike.types import Vectors

ROWS = 60_000
"""Maximum number of labelled rows, sampled at random: their kernel values are held in memory."""
SWEEPS = 5
"""Maximum number of sweeps over all bits in one iteration."""
UNCLEAR = 1e-11
"""Scores smaller than this share of the terms they sum could be rounding errors."""
RIDGE = 1e-4
"""Added to the diagonal of the kernel's moments, as a share of its mean, because anchors can be equal."""


class Sdh(BitCoder):
    """SDH: min ‖Y − BW‖² + λ‖W‖² + ν‖B − φ(X)P‖² over codes B of ±1, φ(x) = exp(−‖x − a‖²/σ²) for anchors a.

    Y (n, L) are the labels of the rows. W, P and B are optimised in turn, B one bit at a time (discrete cyclic
    coordinate descent), starting from a random code for each class; new rows get the signs of φ(x)P. Unlabelled rows
    are ignored. Not nested: bits depend on one another, and the first 64 of 256 are not the 64-bit code.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    anchors : number of random rows to compare with; limited to the number of labelled rows.
    lam : λ, above 0. nu : ν, at least 0.
    iterations : number of rounds of the three updates.
    random_state : seed, a whole number.

    Attributes
    ----------
    anchors_ : (m, d) float32. width_ : float, σ²: the mean squared distance between rows and anchors.
    P_ : (m, bits) float32, b_ : (bits,) float32: scores are φ(x)P + b.
    losses_ : (iterations,) the objective after each iteration; it never increases.
    classes_ : (C,) sorted labels, or (C, L) label combinations.

    Examples
    --------
    >>> X = np.array([[0.0, 0], [0, 1], [9, 0], [9, 1]])
    >>> codes = Sdh(bits=8).fit(X, ["owl", "owl", "cat", "cat"]).encode(X)
    >>> codes[0].tolist() == codes[1].tolist(), codes[0].tolist() == codes[2].tolist()
    (True, False)

    """

    labels = True  # fit needs y

    anchors_: Vectors
    width_: float
    P_: Vectors
    b_: Vectors
    losses_: NDArray[np.float64]
    classes_: NDArray[Any]

    def __init__(
        self,
        bits: int = 64,
        anchors: int = 1_000,
        lam: float = 1.0,
        nu: float = 1e-5,
        iterations: int = 5,
        random_state: int = 0,
    ):
        self.bits = bits
        self.anchors = anchors
        self.lam = lam
        self.nu = nu
        self.iterations = iterations
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from rows (n, d) and labels: (n,), with −1, NaN, None or "" for unlabelled rows, or (n, L) bool."""
        self._check()
        X = validate_data(self, X, dtype=np.float32, ensure_min_samples=2)
        self.classes_, codes = read_labels(y, len(X))
        random = np.random.default_rng(self.random_state)
        chosen = np.sort(random.permutation(np.flatnonzero(codes >= 0))[:ROWS])
        X, codes = X[chosen], codes[chosen]
        labels = self.classes_ if self.classes_.ndim == 2 else np.eye(len(self.classes_))
        Y = labels.astype(np.float64)[codes]  # (n, L)
        self.anchors_ = X[random.permutation(len(X))[: self.anchors]]  # (m, d)
        self.width_ = _mean_distance(X, self.anchors_)
        phi = self._kernel(X)  # (n, m)
        mean = phi.mean(axis=0, dtype=np.float64)  # (m,)
        phi -= mean.astype(np.float32)
        moments = sum(
            (part.T @ part for part in (phi[rows].astype(np.float64) for rows in chunks(len(phi), 8 * len(mean)))),
            np.zeros((len(mean), len(mean))),
        )
        moments[np.diag_indices_from(moments)] += RIDGE * (np.trace(moments) / len(moments) or 1.0)
        factor = scipy.linalg.cho_factor(moments)
        start = random.choice(np.array([-1, 1], np.float32), (len(self.classes_), self.bits))
        B = start[codes]  # (n, bits): one code per class, because W can fit any codes of a few rows
        losses = []
        P = np.zeros((phi.shape[1], self.bits))
        for _ in range(self.iterations):
            W = _regress(B, Y, self.lam)  # Eq. 7
            P = scipy.linalg.cho_solve(factor, phi.T @ B)  # Eq. 8
            F = phi @ P.astype(np.float32)  # (n, bits)
            update_bits(B, Y, W, self.nu * F)  # Eq. 10–12
            errors = np.square(Y - B @ W).sum() + self.lam * np.square(W).sum()
            losses.append(float(errors + self.nu * np.square(B - F, dtype=np.float64).sum()))
        self.P_ = scipy.linalg.cho_solve(factor, phi.T @ B).astype(np.float32)
        self.b_ = (B.mean(axis=0, dtype=np.float64) - mean @ self.P_).astype(np.float32)
        self.losses_ = np.array(losses)
        return self

    def project(self, X: Any) -> Vectors:
        """Scores (n, bits) float32: bit j is 1 if score j is positive.

        A row has the same signs by itself and in a batch: scores are computed in float64, and computed again row by
        row, in one order of summation, if even that rounding could change a sign.
        """
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float32, reset=False, ensure_min_samples=0)
        out = np.empty((len(X), self.bits), np.float32)
        noise = UNCLEAR * (np.abs(self.P_).sum(axis=0, dtype=np.float64) + np.abs(self.b_))  # (bits,)
        for part in chunks(len(X), 8 * len(self.anchors_)):
            scores = self._kernel(X[part].astype(np.float64)) @ self.P_ + self.b_
            for row in np.flatnonzero((np.abs(scores) <= noise).any(axis=1)):
                squared = np.square(X[part][row].astype(np.float64) - self.anchors_).sum(axis=1)  # (m,)
                scores[row] = (np.exp(-squared / self.width_)[:, None] * self.P_).sum(axis=0) + self.b_
            out[part] = scores
        return out

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def _kernel(self, X: Vectors) -> Vectors:
        """φ(X), (n, m)."""
        out = _squared(X, self.anchors_)
        out /= -self.width_
        return np.exp(out, out=out)

    def _check(self) -> None:
        check_bits(self.bits)
        check_number("anchors", self.anchors, *COUNT)
        check_number("lam", self.lam, *COST)
        check_number("nu", self.nu, *COST_OR_ZERO)
        check_number("iterations", self.iterations, *COUNT)
        check_number("random_state", self.random_state, *COUNT_OR_ZERO)


def _squared(X: Vectors, anchors: Vectors) -> Vectors:
    """Squared distances (n, m)."""
    middle = anchors.mean(axis=0)  # subtracted first to lose less to rounding
    X, anchors = X - middle, anchors - middle
    out = X @ anchors.T
    out *= -2
    out += np.einsum("ij,ij->i", X, X)[:, None]
    out += np.einsum("ij,ij->i", anchors, anchors)
    return np.asarray(np.maximum(out, 0, out=out))


def _mean_distance(X: Vectors, anchors: Vectors) -> float:
    """The mean squared distance between rows and anchors, from at most 1,000 rows."""
    return float(_squared(X[:: max(1, len(X) // 1_000)], anchors).mean(dtype=np.float64)) or 1.0


def _regress(B: Vectors, Y: NDArray[np.float64], lam: float) -> NDArray[np.float64]:
    """W (bits, L): the ridge regression of labels on codes."""
    moments = (B.T @ B).astype(np.float64)
    moments[np.diag_indices_from(moments)] += lam
    W: NDArray[np.float64] = scipy.linalg.solve(moments, B.T @ Y, assume_a="pos")
    return W


def update_bits(B: Vectors, Y: NDArray[np.float64], W: NDArray[np.float64], pull: NDArray[Any]) -> None:
    """Set each bit of B (n, bits) to its best value given the others, in sweeps until no bit changes; pull: ν φ(X)P."""
    residual = Y - B @ W  # (n, L)
    for _ in range(SWEEPS):
        changed = False
        for j, w in enumerate(W):
            old = B[:, j].copy()
            # the terms of ‖residual + (old − b)w‖² − 2b · pull that depend on b = ±1
            score = residual @ w + old * (w @ w) + pull[:, j]
            B[:, j] = np.where(score == 0, old, np.sign(score))
            residual += np.outer(old - B[:, j], w)
            changed |= bool((old != B[:, j]).any())
        if not changed:
            break
