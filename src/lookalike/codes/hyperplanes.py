"""Unsupervised coders whose bits are sides of hyperplanes, the signs of XWᵀ + b: `Lsh`, `PcaRR`, `Itq`.

They differ in the normals W: random vectors, randomly rotated principal components, and principal components with a
rotation that brings the projections as near as possible to their signs.
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, chunks, principal
from lookalike.codes.signs import RowSummary, UnsupervisedCoder, draw_rows
from lookalike.limits import COUNT, check_number
from lookalike.types import Array, Vectors


class Lsh(UnsupervisedCoder):
    """Locality-sensitive hashing: signs of products with random normals.

    On average, the share of bits in which two rows differ is their angle divided by π. Any number of bits; nested:
    longer codes start with the shorter ones.

    Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the normals.
    centre : whether the hyperplanes pass through the mean of the rows instead of the origin. Rows without
        negative values all lie on one side of the origin, so most bits of hyperplanes through it are nearly constant.

    Attributes
    ----------
    W_ : (bits, d) float32, the normals. b_ : (bits,) float32.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 16))
    >>> coder = Lsh(bits=64).fit(X)
    >>> coder.encode(X).shape, bool((coder.encode(X)[:, :4] == Lsh(bits=32).fit(X).encode(X)).all())
    ((100, 8), True)

    """

    def __init__(self, bits: int = 64, random_state: int = 0, centre: bool = True):
        self.bits = bits
        self.random_state = random_state
        self.centre = centre

    def _learn(
        self, X: Array, summary: RowSummary, random: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        W = random.normal(size=(self.bits, X.shape[1]))
        return W, -W @ summary.mean * bool(self.centre)


class PcaRR(UnsupervisedCoder):
    """Signs of randomly rotated principal components, one component per bit.

    The rotation spreads the variance evenly over the bits. Without it, the many directions of small variance would
    count as much as the few of large variance. Not nested: another length has another rotation. With more bits than
    directions (bits > min(d, n - 1)), the bits are spread evenly over the directions; see `_random_frame`.

    Jégou et al., "Aggregating local descriptors into a compact image representation", CVPR 2010; PCA-RR in Gong &
    Lazebnik, CVPR 2011.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the rotation.

    Attributes
    ----------
    W_ : (bits, d) float32. b_ : (bits,) float32, so that the mean is projected to 0.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 16))
    >>> PcaRR(bits=16).fit(X).encode(X).shape
    (100, 2)

    """

    def __init__(self, bits: int = 64, random_state: int = 0):
        self.bits = bits
        self.random_state = random_state

    def _learn(
        self, X: Array, summary: RowSummary, random: np.random.Generator
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        components = _components(X, self.bits)
        W = _random_frame(len(components), self.bits, random).T @ components  # (bits, d)
        return W, -W @ summary.mean


class Itq(UnsupervisedCoder):
    """Iterative quantisation: PCA, then a rotation learned so that projections are near their signs.

    Not nested: the first 64 of 256 bits are not the 64-bit code. With more bits than directions (bits > min(d, n - 1)),
    a frame with one direction per bit is learned in the same way; see `_random_frame`.

    Gong & Lazebnik, "Iterative quantization: a Procrustean approach to learning binary codes", CVPR 2011, §2.2.

    Parameters
    ----------
    bits : length of the codes, a multiple of 8.
    random_state : seed of the initial rotation and of the sample of at most 100,000 rows to learn from.
    iterations : number of alternations between signs and rotation.

    Attributes
    ----------
    W_ : (bits, d) float32. b_ : (bits,) float32, so that the mean is projected to 0.
    losses_ : (iterations,) float64, ‖B − VR‖² / n before each change of the rotation; it never increases.

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
        components = _components(X, self.bits)  # (D, d)
        R = _random_frame(len(components), self.bits, random)  # (D, bits)
        V = (draw_rows(X, random) - summary.mean.astype(np.float32)) @ components.T.astype(np.float32)  # (m, D)
        self.losses_ = np.empty(self.iterations)
        for i in range(self.iterations):
            R, self.losses_[i] = _improve_rotation(V, R)
        W = R.T @ components  # (bits, d)
        return W, -W @ summary.mean


def _components(X: Array, bits: int) -> NDArray[np.float64]:
    """The first principal components of the rows X (n, d), (D, d), D = min(bits, d, n − 1)."""
    n, d = X.shape
    return as_numpy(principal(X, min(bits, d, n - 1))[1])


def _random_frame(D: int, bits: int, random: np.random.Generator) -> NDArray[np.float64]:
    """A random R (D, bits), bits ≥ D, with RRᵀ = I: a rotation of D principal components if bits = D.

    If bits > D, its columns are one direction per bit, spread evenly over the D dimensions.
    """
    return np.linalg.qr(random.normal(size=(bits, D)))[0].T


def _improve_rotation(V: Vectors, R: NDArray[np.float64]) -> tuple[NDArray[np.float64], float]:
    """The R that brings V nearest to the signs of VR (§2.2, steps 1 and 2), and the loss of the given R."""
    products, loss = np.zeros(R.shape), 0.0  # VᵀB
    for part in chunks(len(V), row_bytes=12 * R.shape[1]):
        Z = V[part] @ R.astype(np.float32)  # (m, bits)
        B = np.where(Z > 0, np.float32(1), np.float32(-1))
        loss += float(np.square(B - Z).sum(dtype=np.float64))
        products += V[part].T @ B
    U, _, Wt = np.linalg.svd(products, full_matrices=False)
    return U @ Wt, loss / len(V)
