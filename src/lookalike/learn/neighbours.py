"""Soft nearest neighbours: how much like its neighbours each item is, and what would make it more so.

In: (n, P) scores, a weight w ≥ 0 for each column, labels, NumPy or torch. Out: the objective and its gradients. Wang,
Li & Liu 2013, "Learning discriminative Fisher kernel" (dfk), Eq. 8–11, derived anew: the printed label similarity is
negative throughout and Eq. 10–11 lose a factor. With one label an item it is NCA's objective (Goldberger et al. 2004).
"""

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import namespace
from lookalike.learn.measures import retrieval_precision
from lookalike.types import Array


def likeness(y: Array, dtype: object) -> Array:
    """(n, n), of the kind of y: 2 / (1 + exp(1 − 2c)) − 1 for items with c labels in common.

    y is (n,), a label each, or (n, C), ones and zeros.

    >>> likeness(np.array([[1, 1], [1, 1], [0, 0]]), np.float64)[0].round(2).tolist()
    [0.91, 0.91, -0.46]
    """
    xp = namespace(y)
    common = xp.astype(y[:, None] == y[None, :], dtype) if y.ndim == 1 else xp.astype(y, dtype) @ xp.astype(y, dtype).T
    return xp.tanh(common - 0.5)


def shares(Z: Array) -> Array:
    """The normalised Fisher kernel of weighted scores Z (n, P), n ≥ 2: (n, n), rows sum to 1, none with itself (Eq. 8).

    >>> shares(np.array([[0.0], [1.0], [1.0]]))[0].tolist()
    [0.0, 0.5, 0.5]
    """
    return _shares(Z @ Z.T)


def objective(scores: Array, w: Array, y: Array) -> tuple[Array, Array, Array]:
    """The mean over items of Σ_j s_ij p_ij (Eq. 9), and its gradients by w (P,) and by scores (n, P).

    Scores (n, P), w (P,), labels y as for `likeness`. Costs two products of n × n × P; holds n × n, never n × n × P.
    """
    xp = namespace(scores)
    centred = scores - xp.mean(scores, axis=0)  # differences stay, rounding is less
    weighted = centred * xp.sqrt(w)
    value, L = pulls(weighted @ weighted.T, y)
    pulled = L @ centred  # (n, P)
    return value, xp.sum(centred * pulled, axis=0), 2 * pulled * w


def pulls(products: Array, y: Array) -> tuple[Array, Array]:
    """The same objective from the products (n, n) of weighted scores with each other, and L (n, n).

    L is the Laplacian of ∂O/∂D: 2L times weighted scores is the gradient by these; its rows sum to 0.
    """
    xp, n = namespace(products), products.shape[0]
    p, s = _shares(products), likeness(y, products.dtype)
    means = xp.sum(s * p, axis=1, keepdims=True)  # (n, 1)
    by_distance = p * (means - s) / n  # ∂O/∂D
    L = -(by_distance + by_distance.T)
    own = xp.arange(n, device=array_api_compat.device(L))
    L[own, own] = -xp.sum(L, axis=1)  # none with itself: the diagonal was zero
    return xp.mean(means), L


def _shares(products: Array) -> Array:
    """`shares`, from the products (n, n) of rows with each other."""
    xp = namespace(products)
    squares = xp.linalg.diagonal(products)
    D = squares[:, None] + squares[None, :] - 2 * products
    own = xp.arange(products.shape[0], device=array_api_compat.device(D))
    D[own, own] = xp.inf
    p = xp.exp(xp.min(D, axis=1, keepdims=True) - D)
    return p / xp.sum(p, axis=1, keepdims=True)


def retrieval(Z: Array, y: NDArray[np.int64]) -> float:
    """Each row of Z (n, P) in turn asks for its like among the others, by distance: mean average precision.

    Like are rows with a label in common; y as for `likeness`. Rows without their like ask nothing.

    >>> retrieval(np.array([[0.0], [1.0], [5.0], [6.0]]), np.array([0, 0, 1, 1]))
    1.0
    """
    squares = namespace(Z).sum(Z * Z, axis=1)
    return retrieval_precision(lambda part: squares[None, :] - 2 * (Z[part] @ Z.T), y)
