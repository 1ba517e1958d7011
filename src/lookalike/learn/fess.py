"""FESS: the pieces that an item's free energy is the sum of, under a mixture of Gaussians, as its coordinates.

In: (n, d) rows, or n sets of descriptors, NumPy or torch. Out: (n, k(d + 2)) float32. Perina, Cristani, Castellani,
Murino & Jojic, "Free energy score spaces", PAMI 2012, for a mixture with diagonal covariances.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, chunks, like, namespace, unit_rows
from lookalike.encode.check import float32_out
from lookalike.features.clustering import Mixture, Products
from lookalike.learn.sets import check_items, fit_items, take
from lookalike.limits import COUNT, check_number
from lookalike.types import Array


class Moments(NamedTuple):
    """What items are to a mixture, means over their rows; g are posteriors, z rows in units of all rows."""

    counts: Array  # (n, k), Σ g
    off: Array  # (n, k, d), Σ g (z − m)
    squares: Array  # (n, k, d), Σ g (z − m)²
    entropies: Array  # (n, k), −Σ g log g


class Gaussians(NamedTuple):
    """A mixture, float64, of the kind of the rows, in the same units as `Moments`."""

    alpha: Array  # (k,)
    variances: Array  # (k, d), of z
    units: Array  # (d,), the deviation of all rows: z times it is in units of the rows


class Fess(TransformerMixin, BaseEstimator):
    """Free energy score space: how well an item fits each Gaussian, and how sure the mixture is of it.

    A row's log-likelihood is the sum over Gaussians of −g log g, of g log α, and, number by number, of g log N(x).
    These are its coordinates; an item's are the mean over its rows. Each column is centred and brought to variance 1,
    as the pieces are of very different size, then each item to one length. Labels are not used.

    Parameters
    ----------
    k : Gaussians; no more than rows there are.
    random_state : seed of the mixture.

    Attributes
    ----------
    alphas_ : (k,), means_ and deviations_ : (k, d) float64, the mixture. All NumPy.
    items_ : int, how many items it was fitted on.
    centre_, spreads_ : (P,) float64, the mean and the standard deviation of each column over those items.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> pictures = [random.normal(size=(random.integers(5, 9), 3)) for _ in range(50)]
    >>> Fess(k=2).fit(pictures).transform(pictures).shape
    (50, 10)

    """

    alphas_: NDArray[np.float64]
    means_: NDArray[np.float64]
    deviations_: NDArray[np.float64]
    items_: int
    centre_: NDArray[np.float64]
    spreads_: NDArray[np.float64]

    def __init__(self, k: int = 60, random_state: int = 0):
        self.k = k
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002 (scikit-learn's signature)
        """Learn from a matrix (n, d), a list of n matrices (m, d), or `Sets`."""
        check_number("k", self.k, *COUNT)
        X = check_items(self, X, reset=True, min_items=1)
        mixture, _ = fit_items(X, int(self.k), self.random_state, np.random.default_rng(self.random_state))
        self.alphas_, self.means_, self.deviations_ = mixture.weights, mixture.means, np.sqrt(mixture.variances)
        self.items_ = int(X.shape[0])
        sums = squares = 0.0
        for pieces in self._parts(X):
            some = as_numpy(pieces).astype(np.float64)
            sums, squares = sums + some.sum(axis=0), squares + (some**2).sum(axis=0)
        self.centre_ = np.asarray(sums / self.items_)
        variances = np.maximum(squares / self.items_ - self.centre_**2, 0)
        still = variances <= 1e-12 * (1 + self.centre_**2)  # a column that is the same for all stays as small as it is
        self.spreads_ = np.where(still, 1.0, np.sqrt(np.where(still, 1.0, variances)))
        return self

    def transform(self, X: Any) -> Array:
        """Items to (n, P) float32, of their own kind."""
        check_is_fitted(self)
        X = check_items(self, X, reset=False, min_items=0)
        out = []
        for pieces in self._parts(X):
            xp = namespace(pieces)
            centre, spreads = like(pieces, self.centre_), like(pieces, self.spreads_)
            out.append(xp.astype(unit_rows((pieces - centre) / spreads), xp.float32))
        if not out:  # no items
            rows, _ = take(X, np.arange(0))
            return namespace(rows).zeros((0, len(self.centre_)), dtype=namespace(rows).float32)
        return namespace(out[0]).concat(out)

    def _pieces(self, gaussians: Gaussians, moments: Moments) -> Array:
        """(n, k(d + 2)): of the densities, of the weights, of the entropies."""
        xp, (alpha, _, _), (counts, _, _, entropies) = namespace(moments.counts), gaussians, moments
        densities = log_densities(gaussians, moments, gaussians.variances)
        return xp.concat([xp.reshape(densities, (counts.shape[0], -1)), counts * xp.log(alpha), entropies], axis=1)

    def _parts(self, X: Any) -> Any:
        """The pieces (m, P) of all items, some at a time."""
        mixture = Mixture(self.alphas_, self.means_, self.deviations_**2)
        n, (k, d) = X.shape[0], self.means_.shape
        for part in chunks(n, row_bytes=64 * k * (2 * d + 3)):
            yield self._pieces(*summarise(mixture, *take(X, np.arange(n)[part])))

    def __sklearn_tags__(self) -> Tags:
        return float32_out(super().__sklearn_tags__())


def summarise(mixture: Mixture, rows: Array, starts: NDArray[np.int64]) -> tuple[Gaussians, Moments]:
    """The mixture and what items are to it; the rows of item i are those from starts[i] to starts[i + 1]."""
    xp, products = namespace(rows), Products(mixture, rows)
    d, scale = mixture.means.shape[1], products.scale
    gaussians = Gaussians(*(like(rows, a) for a in (mixture.weights, mixture.variances / scale**2, scale)))
    m = like(rows, (mixture.means - products.shift) / scale)
    sums, entropies = [], []
    for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        E, Y, _ = products.weigh(rows[begin:end])
        sums.append(E.T @ Y / (end - begin))  # (k, 2d + 1)
        g = E / xp.sum(E, axis=1, keepdims=True)
        entropies.append(-xp.mean(g * xp.log(g), axis=0))
    total = xp.astype(xp.stack(sums), xp.float64)
    counts, first = total[:, :, -1], total[:, :, d:-1]
    off = first - counts[:, :, None] * m
    squares = total[:, :, :d] - m * (first + off)
    return gaussians, Moments(counts, off, squares, xp.astype(xp.stack(entropies), xp.float64))


def log_densities(gaussians: Gaussians, moments: Moments, variances: Array) -> Array:
    """Σ g log N(x; u, σ²), number by number, for Gaussians of these variances (of z): (n, k, d)."""
    xp, counts = namespace(moments.counts), moments.counts[:, :, None]
    return -(counts * xp.log(2 * math.pi * variances * gaussians.units**2) + moments.squares / variances) / 2
