"""The loss of large-margin nearest neighbours over the triplets of a batch, and its gradient, by one sort a query.

In: W (D, d) and rows (m, d) of a batch, NumPy or torch. Out: numbers, (D, d). Mensink et al. 2013 (ncm), Eq. 35–43 and
Algorithm 1; Eq. 42 and the algorithm disagree about signs, those here are what finite differences of Eq. 36 confirm.
"""

from typing import Any, NamedTuple, TypeAlias

import array_api_compat
import numpy as np

from lookalike.arrays import namespace
from lookalike.types import Array

Targets: TypeAlias = Array | int | None
"""A query's positives. None: all of its class. A number k: the k nearest by W. (q, k) row numbers: those, no -1."""


class Loss(NamedTuple):
    """What `triplet_loss` finds; the first and the third are arrays without dimensions."""

    loss: Any  # mean of Eq. 35 over all triplets
    gradient: Array  # (D, d), of that mean
    active: Any  # the share of triplets that have a loss at all


def triplet_loss(W: Array, X: Array, q: int, targets: Targets) -> Loss:
    """The mean of Eq. 35 over the triplets of a batch, and its gradient by W: no triplet and no difference is formed.

    The first q rows of X (m, d) are of one class, each a query, and a positive for others; the rest are negatives.

    >>> X = np.array([[0.0], [0.1], [0.5]])  # 1 + 0.01 − 0.25 and 1 + 0.01 − 0.16
    >>> float(triplet_loss(np.eye(1), X, 2, None).loss.round(3))
    0.805
    """
    xp = namespace(X)
    X = X - xp.mean(X, axis=0)  # the gradient does not change, its rounding does
    Z = X @ W.T  # (m, D)
    squares = xp.vecdot(Z, Z)  # (m,)
    distances = squares[:q, None] + squares - 2 * (Z[:q] @ Z.T)  # (q, m)
    which = _targets(distances[:, :q], targets)  # (q, k)
    there = which >= 0
    near = xp.take_along_axis(distances, xp.where(there, which, xp.zeros_like(which)), axis=1)  # (q, k)
    far = distances[:, q:]  # (q, m − q)
    pulled, pushed = count_triplets(xp.where(there, near, xp.full_like(near, -xp.inf)), far)
    # Each triplet adds 1 + d_p − d_n: the counts give the loss itself, too, which the paper does without.
    loss = xp.sum(pulled * (1 + near)) - xp.sum(pushed * far)
    # Eq. 40 with A = diag(S1 + Sᵀ1) − S − Sᵀ: S counts, for each query, pairs to pull (+) and to push (−).
    S = xp.concat([_spread(which, pulled, q), -pushed], axis=1)  # (q, m)
    AZ = xp.sum(S, axis=0)[:, None] * Z - S.T @ Z[:q]  # (m, D)
    AZ[:q] += xp.sum(S, axis=1)[:, None] * Z[:q] - S @ Z
    triplets = xp.clip(xp.sum(xp.astype(there, Z.dtype)) * far.shape[1], 1, None)
    return Loss(loss / triplets, (2 / triplets) * (AZ.T @ X), xp.sum(pulled) / triplets)


def count_triplets(near: Array, far: Array) -> tuple[Array, Array]:
    """In how many triplets with a loss each target and each negative is, (q, k) and (q, b): Algorithm 1.

    In: distances of each query to its targets (q, k), -inf where there is none, and to the negatives (q, b). A sort
    of a query's k + b distances stands for its k · b triplets.

    >>> count_triplets(np.array([[0.5, 2.0]]), np.array([[1.0, 2.0, 9.0]]))
    (array([[1., 2.]]), array([[2., 1., 0.]]))
    """
    xp, device, k = namespace(near), array_api_compat.device(near), near.shape[1]
    counts = xp.zeros((near.shape[0], k + far.shape[1]), dtype=near.dtype, device=device)
    if not 0 < k < counts.shape[1]:
        return counts[:, :k], counts[:, k:]
    # Late in training most queries are at peace: their farthest target is nearer than any negative, by the margin.
    busy = xp.nonzero(xp.min(far, axis=1) < 1 + xp.max(near, axis=1))[0]
    both = xp.concat([near[busy] + 1, far[busy]], axis=1)  # (p, k + b)
    # Stable: a target comes before a negative at the same place, where the loss is zero.
    order = xp.argsort(both, axis=1, stable=True)
    negative = order >= k
    before = xp.cumulative_sum(xp.astype(negative, xp.int32), axis=1)  # C_n: negatives up to each place
    places = xp.arange(1, both.shape[1] + 1, dtype=xp.int32, device=device)
    after = k - (places - before)  # C_p: targets after each place
    counts[busy[:, None], order] = xp.astype(xp.where(negative, after, before), near.dtype)
    return counts[:, :k], counts[:, k:]


def _targets(distances: Array, targets: Targets) -> Array:
    """The row numbers of each query's targets, (q, k), -1 where there is none. In: distances within a class, (q, q)."""
    if targets is not None and not isinstance(targets, int):
        return targets
    xp, q, device = namespace(distances), distances.shape[0], array_api_compat.device(distances)
    own = xp.arange(q, device=device)
    if targets is None:
        every = xp.broadcast_to(own, (q, q))
        return xp.where(every == own[:, None], -xp.ones_like(every), every)
    k = min(targets, q - 1)
    others = xp.where(own == own[:, None], xp.full_like(distances, xp.inf), distances)
    if array_api_compat.is_torch_array(others):
        return xp.topk(others, k, dim=1, largest=False).indices
    return np.argpartition(others, max(0, k - 1), axis=1)[:, :k]


def _spread(which: Array, values: Array, q: int) -> Array:
    """A matrix (q, q) of these values (q, k) in these columns, 0 elsewhere."""
    xp, device = namespace(values), array_api_compat.device(values)
    out = xp.zeros((q, q), dtype=values.dtype, device=device)
    rows = xp.arange(q, device=device)[:, None]
    out[rows, xp.where(which >= 0, which, rows)] = values  # no target counts 0, at a query's own place
    return out
