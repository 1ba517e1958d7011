"""Principal components, randomly rotated, and their signs.

In: rows (n, d). Out: codes (n, bits / 8) uint8. The rotation spreads the variance evenly over the bits: without it, the
many directions of little variance would count as much as the few of large variance. Jégou et al., "Aggregating local
descriptors into a compact image representation", CVPR 2010; PCA-RR in Gong & Lazebnik, CVPR 2011.
"""

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, principal
from lookalike.codes.signs import RowSummary, Unsupervised, principal_frame
from lookalike.types import Array


class PcaRR(Unsupervised):
    """As many principal components as bits, turned by a random rotation. Not nested: another length, another rotation.

    More bits than directions (bits > min(d, n - 1)) are spread evenly over the directions there are; see
    `principal_frame`.

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
        n, d = X.shape
        _, components, _ = map(as_numpy, principal(X, min(self.bits, d, n - 1)))
        W = principal_frame(len(components), self.bits, random).T @ components  # (bits, d)
        return W, -W @ summary.mean
