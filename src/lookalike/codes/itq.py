"""Iterative quantisation: principal components, turned so that they are as near to their signs as they can be.

In: rows (n, d). Out: codes (n, bits / 8) uint8. Gong & Lazebnik, "Iterative quantization: a Procrustean approach to
learning binary codes", CVPR 2011, §2.2.
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks, principal
from lookalike.codes.signs import RowSummary, Unsupervised, draw_rows, principal_frame
from lookalike.limits import COUNT, check_number
from lookalike.types import Array, Vectors


class Itq(Unsupervised):
    """PCA, then a learned rotation. Not nested: the first 64 of 256 bits are not the 64-bit code.

    More bits than directions (bits > min(d, n - 1)): the rotation becomes a frame of as many directions as bits,
    learned in the same way; see `principal_frame`.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the rotation that learning starts from, and of the 100,000 rows it learns from, at most.
    iterations : of the alternation between signs and rotation.

    Attributes
    ----------
    W_ : (bits, d) float32. b_ : (bits,) float32, so that the mean is projected to 0.
    losses_ : (iterations,) float64, ‖B − VR‖² / n before each change of the rotation: it never rises.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 16)) * np.arange(1, 17)
    >>> coder = Itq(bits=8).fit(X)
    >>> coder.encode(X).shape, bool(coder.losses_[-1] < coder.losses_[0])
    ((200, 1), True)

    """

    losses_: NDArray[np.float64]

    def __init__(self, bits: int = 64, random_state: int = 0, iterations: int = 50):
        self.bits = bits
        self.random_state = random_state
        self.iterations = iterations

    def _learn(
        self, X: Array, summary: RowSummary, random: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_number("iterations", self.iterations, *COUNT)
        n, d = X.shape
        _, components, _ = map(as_numpy, principal(X, min(self.bits, d, n - 1)))  # (D, d)
        R = principal_frame(len(components), self.bits, random)  # (D, bits)
        V = (draw_rows(X, random) - summary.mean.astype(np.float32)) @ components.T.astype(np.float32)  # (m, D)
        self.losses_ = np.empty(self.iterations)
        for i in range(self.iterations):
            R, self.losses_[i] = _turn(V, R)
        W = R.T @ components  # (bits, d)
        return W, -W @ summary.mean


def _turn(V: Vectors, R: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The R that brings V nearest to its present signs (§2.2, steps 1 and 2), and the loss of the present one."""
    products, loss = np.zeros(R.shape), 0.0  # VᵀB
    for part in chunks(len(V), row_bytes=12 * R.shape[1]):
        Z = V[part] @ R.astype(np.float32)  # (m, bits)
        B = np.where(Z > 0, np.float32(1), np.float32(-1))
        loss += float(np.square(B - Z).sum(dtype=np.float64))
        products += V[part].T @ B
    U, _, Wt = np.linalg.svd(products, full_matrices=False)
    return U @ Wt, loss / len(V)
