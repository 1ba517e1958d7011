"""When a probably approximately correct search may stop: r_δ, below which k answers are hardly to be hoped for.

In: n items, k, δ, and how a random sample of the items scores. Out: r with P(at least k of the n lie within r) ≤ δ.
Ciaccia and Patella, "PAC nearest neighbor queries" (ICDE 2000); fsm-tree, §2.3, leaves open how r_δ is estimated.
"""

from collections.abc import Callable
from math import ceil, inf

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, fdtri

SAMPLE = 500, 2_000
"""A twentieth of the items is scored to see how scores are distributed, but at least and at most so many."""

SHARE = 0.2
"""A larger sample than this share of the items would cost more than it saves: then the search does without r_δ."""

NEAR = 0.03
"""The share of a sample of frontier scores, those nearest to 0, that tells the density there."""


def stop_radius(
    n: int, k: int, delta: float, linear: bool, draw: Callable[[int], NDArray[np.float64]]
) -> tuple[float, int]:
    """r_δ, −inf where there is none, and how many items were scored for it.

    Where the sample is large enough to hold some of the k best, its j-th score will do, whatever the distribution: it
    lies beyond the k-th of all only if fewer than j of the k − 1 best came into the sample, a binomial tail. Else, for
    scores whose density near 0 is constant (`linear`), the j-th of the sample and the k-th of all are sums of j and of
    k exponential waits, m and n to the unit: their ratio has an F distribution, sampling error and binomial tail in one.

    >>> stop_radius(100, 50, 0.05, False, lambda m: np.arange(m) / m)
    (0.4, 100)
    """
    if not 0 < delta < 1 or n < 2:
        return -inf, 0
    enough = ceil(n * (1 - delta ** (1 / (k - 1)))) if k > 1 else n  # one of the k - 1 best is in it, but for δ
    size = min(n, SAMPLE[1], max(SAMPLE[0], n // 20))
    if not linear and enough <= SHARE * n:
        size = max(size, enough)
    beyond = int(np.count_nonzero(bdtr(np.arange(size), size, min(1.0, (k - 1) / n)) <= delta))
    if not beyond and not linear:
        return -inf, 0
    scores = np.sort(draw(size))  # (m,)
    if beyond:
        return float(scores[beyond - 1]), size
    near = np.array([ceil(NEAR * size / part) for part in (1, 2, 4)])  # j, three times: scores may crowd about 0
    ratios = size * k / (n * near) * fdtri(2 * k, 2 * near, delta)
    return float(np.min(scores[near - 1] * ratios)), size
