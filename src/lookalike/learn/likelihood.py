"""The likelihood of the right class, and its gradient by W, from projections alone.

In: W (D, d), a batch (b, d), labels (b,), class means (C, d) or centroids (K, d). Out: the loss −mean ln p(y|x) and its
gradient (D, d). No difference of a row and a mean is formed: a step costs O(D · d · (b + C)). Paper: ncm, Eq. 5–10,
21–25 and 27. A `centre`, any point amid the rows, changes no result but for rounding.
"""

from typing import Any

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import like, namespace
from lookalike.learn.sgd import Step
from lookalike.types import Array


def euclidean(means: Array, centre: Array) -> Step:
    """NCMML: p(c|x) ∝ exp(−½‖Wx − Wμ_c‖²), Eq. 5."""
    return mixture(means, None, centre)


def mixture(centroids: Array, owners: Array | None, centre: Array) -> Step:
    """NCMC: p(c|x) is the sum of what its centroids, those whose `owners` (K,) is c, have of a softmin, Eq. 21–22.

    Without owners each centroid is a class.
    """
    means = centroids - centre

    def step(W: Array, rows: Array, labels: Array) -> tuple[Any, Array]:
        xp = namespace(W)
        P, M = rows @ W.T - W @ centre, means @ W.T  # (b, D), (K, D)
        loss, A = _residuals(P @ M.T - xp.sum(M * M, axis=1) / 2, labels, owners)  # −½d but for what all have, (b, K)
        # Σ α Wzzᵀ, z = m − x, Eq. 10 and 24; Σ_c α = 0 takes away the term in xxᵀ.
        S, T = A @ M, xp.sum(A, axis=0)[:, None] * M - A.T @ P  # (b, D), (K, D)
        return loss, S.T @ rows - xp.sum(S, axis=0)[:, None] * centre - T.T @ means

    return step


def inner(means: Array, centre: Array, unit: float) -> Step:
    """NCMML with inner products: p(c|x) ∝ exp(xᵀWᵀWμ_c + s_c), Eq. 27; for batches smaller than D.

    W and s are one vector, `pack(W, s / unit)`. Class means are not projected where rows are fewer than D.
    """
    means = means - centre
    C, d = means.shape

    def step(packed: Array, rows: Array, labels: Array) -> tuple[Any, Array]:
        xp = namespace(packed)
        W, t = unpack(packed, d, C)
        P = rows @ W.T - W @ centre  # (b, D)
        if P.shape[0] < P.shape[1]:  # twice projected rows against means, Table 1
            loss, A = _residuals((P @ W) @ means.T + unit * t, labels, None)  # (b, C)
            B = A @ means  # (b, d)
            S, gradient = B @ W.T, P.T @ B  # (b, D), (D, d)
        else:
            M = means @ W.T  # (C, D)
            loss, A = _residuals(P @ M.T + unit * t, labels, None)
            S, gradient = A @ M, (A.T @ P).T @ means
        gradient = gradient + S.T @ rows - xp.sum(S, axis=0)[:, None] * centre
        return loss, pack(gradient, unit * xp.sum(A, axis=0))

    return step


def pack(W: Array, t: Array) -> Array:
    """A matrix and a vector as one vector."""
    xp = namespace(W)
    return xp.concat([xp.reshape(W, (-1,)), t])


def unpack(packed: Array, d: int, C: int) -> tuple[Array, Array]:
    """The matrix (D, d) and the vector (C,) of a packed pair."""
    return namespace(packed).reshape(packed[:-C], (-1, d)), packed[-C:]


def class_scores(P: Array, M: Array, owners: NDArray[np.int64] | None = None) -> Array:
    """ln p(c|x) but for what all classes share, (n, C), from projected rows (n, D) and projected centroids (K, D).

    `owners` (K,) rise, and none of them is left out: the centroids of a class follow each other.
    """
    xp = namespace(P)
    scores = P @ M.T - xp.sum(M * M, axis=1) / 2  # (n, K)
    if owners is None:
        return scores
    counts = np.bincount(owners)  # (C,)
    place = np.arange(counts.max())  # (k,)
    there = place < counts[:, None]  # (C, k): a class may have fewer than k centroids
    columns = np.where(there, (np.cumsum(counts) - counts)[:, None] + place, 0)
    own = xp.where(like(P, there), scores[:, like(P, columns)], -xp.inf)  # (n, C, k)
    highest = xp.max(own, axis=2, keepdims=True)
    return highest[:, :, 0] + xp.log(xp.sum(xp.exp(own - highest), axis=2))


def _residuals(scores: Array, labels: Array, owners: Array | None) -> tuple[Any, Array]:
    """The loss, and α of Eq. 10 or 25 over the size of the batch, (b, K); `scores` are overwritten."""
    xp, b = namespace(scores), scores.shape[0]
    scores -= xp.max(scores, axis=1, keepdims=True)
    if owners is None:
        at = xp.arange(b, device=array_api_compat.device(scores))
        own = scores[at, labels]  # (b,)
    else:
        inside = xp.where(owners[None, :] == labels[:, None], scores, -xp.inf)  # (b, K)
        highest = xp.max(inside, axis=1, keepdims=True)
        inside = xp.exp(inside - highest)
        among = xp.sum(inside, axis=1, keepdims=True)
        own = (highest + xp.log(among))[:, 0]
    p = xp.exp(scores, out=scores)
    total = xp.sum(p, axis=1, keepdims=True)  # (b, 1)
    loss = xp.mean(xp.log(total)[:, 0] - own)
    p /= b * total
    if owners is None:
        p[at, labels] -= 1 / b
    else:
        p -= inside / (b * among)
    return loss, p
