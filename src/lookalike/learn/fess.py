"""FESS and PD: scores of items under a mixture of Gaussians, without labels.

FESS: Perina, Cristani, Castellani, Murino & Jojic, "Free energy score spaces", PAMI 2012. PD: Li, Lee & Liu, "Hybrid
generative-discriminative classification using posterior divergence", CVPR 2011. PD uses the terms of the likelihood of
incremental EM; we derived the formulas from that idea. Covariances are diagonal. An item is one row, or a set of rows
such as the local descriptors of a picture.
"""

import math
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, chunks, like, namespace, unit_rows
from lookalike.encode.check import float32_out
from lookalike.features.clustering import Mixture, Products
from lookalike.learn.sets import check_items, fit_items, take
from lookalike.limits import COUNT, check_number
from lookalike.types import Array


class Fess(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Free energy score space: the coordinates of an item are the terms of its free energy under a Gaussian mixture.

    The log-likelihood of a row is the sum over Gaussians of −g log g, g log α and, column by column, g log N(x). These
    terms are its coordinates; those of an item are the mean over its rows. Columns are standardised, because the terms
    differ in size, and items are scaled to unit length. Labels are not used.

    Parameters
    ----------
    k : number of Gaussians; at most the number of rows.
    random_state : random seed of the mixture.

    Attributes
    ----------
    alphas_ : (k,), means_ and deviations_ : (k, d) float64, the mixture. All NumPy.
    items_ : int, number of items it was fitted on.
    centre_, spreads_ : (P,) float64, mean and standard deviation of each column over those items.

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
        """Fit to a matrix (n, d), a list of n matrices (m, d), or `Sets`."""
        check_number("k", self.k, *COUNT)
        X = check_items(self, X, reset=True, min_items=1)
        mixture, _ = fit_items(X, int(self.k), self.random_state, np.random.default_rng(self.random_state))
        self.alphas_, self.means_, self.deviations_ = mixture.weights, mixture.means, np.sqrt(mixture.variances)
        self.items_ = int(X.shape[0])
        sums = squares = 0.0
        for terms in self._parts(X):
            some = as_numpy(terms).astype(np.float64)
            sums, squares = sums + some.sum(axis=0), squares + (some**2).sum(axis=0)
        self.centre_ = np.asarray(sums / self.items_)
        variances = np.maximum(squares / self.items_ - self.centre_**2, 0)
        still = variances <= 1e-12 * (1 + self.centre_**2)  # constant columns are only centred
        self.spreads_ = np.where(still, 1.0, np.sqrt(np.where(still, 1.0, variances)))
        return self

    def transform(self, X: Any) -> Array:
        """Transform items to (n, P) float32, of their own type."""
        check_is_fitted(self)
        X = check_items(self, X, reset=False, min_items=0)
        out = []
        for terms in self._parts(X):
            xp = namespace(terms)
            centre, spreads = like(terms, self.centre_), like(terms, self.spreads_)
            out.append(xp.astype(unit_rows((terms - centre) / spreads), xp.float32))
        if not out:  # no items
            rows, _ = take(X, np.arange(0))
            return namespace(rows).zeros((0, len(self.centre_)), dtype=namespace(rows).float32)
        return namespace(out[0]).concat(out)

    def terms(self, gaussians: "Gaussians", moments: "Moments") -> Array:
        """Return the terms of densities, weights and entropies, (n, k(d + 2))."""
        xp, (alpha, _, _), (counts, _, _, entropies) = namespace(moments.counts), gaussians, moments
        densities = log_densities(gaussians, moments, gaussians.variances)
        return xp.concat([xp.reshape(densities, (counts.shape[0], -1)), counts * xp.log(alpha), entropies], axis=1)

    def _parts(self, X: Any) -> Any:
        """Yield the terms (m, P) of all items, in chunks."""
        mixture = Mixture(self.alphas_, self.means_, self.deviations_**2)
        n, (k, d) = X.shape[0], self.means_.shape
        for part in chunks(n, row_bytes=64 * k * (2 * d + 3)):
            yield self.terms(*summarise(mixture, *take(X, np.arange(n)[part])))

    @property
    def _n_features_out(self) -> int:
        return len(self.centre_)

    def __sklearn_tags__(self) -> Tags:
        return float32_out(super().__sklearn_tags__())


class Pd(Fess):
    """Posterior divergence: the effect of an item on the mixture in one step of incremental EM.

    N is the number of training items, θ the mixture, θ⁺ the mixture after the step, and g the posteriors of the item.
    The coordinates for each Gaussian are the effect on the other items, Nα log(α⁺ / α) and, column by column,
    −Nα KL(N(u, σ²) ‖ N(u⁺, σ⁺²)); the fit of the item, g log α⁺ and g log N(x; u⁺, σ⁺²); and −g log g. Their sum is the
    increase of the bound on the log-likelihood of all items. Everything else is as in `Fess`.

    Examples
    --------
    >>> random = np.random.default_rng(0)
    >>> pictures = [random.normal(size=(random.integers(5, 9), 3)) for _ in range(50)]
    >>> Pd(k=2).fit(pictures).transform(pictures).shape
    (50, 18)

    """

    def terms(self, gaussians: "Gaussians", moments: "Moments") -> Array:
        """Return effect and fit of densities and weights, and the entropies, (n, k(2d + 3))."""
        xp, (alpha, old, _), (counts, off, squares, entropies) = namespace(moments.counts), gaussians, moments
        rows = self.items_ * alpha  # (k,), items per Gaussian before the step
        now = rows + counts  # (n, k)
        new_alpha = now / (self.items_ + 1)
        shift = off / now[:, :, None]  # (n, k, d), u⁺ − u
        new = (rows[:, None] * old + squares) / now[:, :, None] - shift * shift  # σ⁺²
        effects = -rows[:, None] * (xp.log(new / old) + (old + shift * shift) / new - 1) / 2
        about = squares - shift * (2 * off - counts[:, :, None] * shift)  # Σ g (z − m⁺)²
        fits = log_densities(gaussians, moments._replace(squares=about), new)
        flat = (xp.reshape(part, (counts.shape[0], -1)) for part in (effects, fits))
        weights = rows * xp.log(new_alpha / alpha), counts * xp.log(new_alpha)
        return xp.concat([*flat, *weights, entropies], axis=1)


class Moments(NamedTuple):
    """Moments of items under a mixture, averaged over their rows; g are posteriors, z standardised rows."""

    counts: Array  # (n, k), Σ g
    off: Array  # (n, k, d), Σ g (z − m)
    squares: Array  # (n, k, d), Σ g (z − m)²
    entropies: Array  # (n, k), −Σ g log g


class Gaussians(NamedTuple):
    """A mixture, float64, of the type of the rows, in the units of `Moments`."""

    alpha: Array  # (k,)
    variances: Array  # (k, d), of z
    units: Array  # (d,), the standard deviation of all rows, which z is divided by


def summarise(mixture: Mixture, rows: Array, starts: NDArray[np.int64]) -> tuple[Gaussians, Moments]:
    """Return the mixture and the moments of items; the rows of item i are those from starts[i] to starts[i + 1]."""
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
    """Return Σ g log N(x; u, σ²), column by column, for Gaussians of these variances (of z): (n, k, d)."""
    xp, counts = namespace(moments.counts), moments.counts[:, :, None]
    return -(counts * xp.log(2 * math.pi * variances * gaussians.units**2) + moments.squares / variances) / 2
