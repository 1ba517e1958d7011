"""When a probably approximately correct search may stop: r_δ, below which k answers are hardly to be hoped for.

In: n items, k, δ, and how a random sample of the items scores. Out: r with P(at least k of the n lie within r) ≤ δ.
Ciaccia and Patella, "PAC nearest neighbor queries" (ICDE 2000); fsm-tree, §2.3, leaves open how r_δ is estimated.
"""

from collections.abc import Callable
from math import ceil, inf, log, log1p

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

    For scores whose density near 0 is constant (`linear`), the j-th of m sampled ones and the k-th of all n are sums of
    j and of k exponential waits, m and n to the unit: their ratio has an F distribution, which is the binomial tail and
    the error of sampling in one. Whatever the distribution, the j-th of a sample that is large enough to hold some of
    the k best will do, too: the k-th of all is below it only if fewer than j of the k − 1 best came into the sample, a
    binomial tail. Where both can be had, the larger counts, at δ / 2 each: the latter is much the larger where the
    frontier lies outside the data.

    In: `draw(m)` scores m items, chosen at random.

    >>> stop_radius(100, 50, 0.05, False, lambda m: np.arange(m) / m)
    (0.4, 100)
    """
    if not 0 < delta < 1 or n < 2:
        return -inf, 0
    size = min(n, SAMPLE[1], max(SAMPLE[0], n // 20))
    linear = linear and k <= NEAR * n
    risk = delta / 2 if linear else delta
    enough = ceil(log(risk) / log1p(-(k - 1) / n)) if 1 < k <= n else n + 1  # one of the k − 1 best is in it, but for δ
    any_shape = enough <= min(n, max(SAMPLE[0], SHARE * n))
    if not any_shape and not linear:
        return -inf, 0
    size, risk = (max(size, enough), risk) if any_shape else (size, delta)
    scores = np.sort(draw(size))  # (m,)
    r = -inf
    if any_shape:
        beyond = np.count_nonzero(bdtr(np.arange(size), size, (k - 1) / n) <= risk)  # j
        r = float(scores[beyond - 1])
    if linear:
        near = np.array([ceil(NEAR * size), ceil(NEAR * size / 2)])  # j, twice: in case that scores crowd about 0
        r = max(r, float(np.min(scores[near - 1] * size * k / (n * near) * fdtri(2 * k, 2 * near, risk))))
    return r, size
