"""A mixture of Gaussians as a scikit-learn estimator. No feature uses it.

`Fisher` and DFK call `clustering.fit_mixture`, which this class wraps. It has its own module so that processes that
compute vectors do not load scikit-learn.
"""

from typing import Self

import array_api_compat
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import check_rows, namespace
from lookalike.features.clustering import Mixture, Moments, Products, fit_mixture
from lookalike.limits import COUNT, NOT_NEGATIVE, POSITIVE, check_limits
from lookalike.types import Array, Progress, silent


class Gmm(BaseEstimator):
    """A mixture of k Gaussians with diagonal covariances, fitted by EM to millions of rows, NumPy or torch.

    Variances stay at or above a floor and weights at or above a thousandth of 1 / k. Each M step is optimal under these
    two fixed limits, so the likelihood can decrease only by rounding errors. Such a step is discarded and ends the fit,
    so `likelihoods_` never decreases. A Gaussian without rows keeps its mean and its variances.

    Dempster, Laird & Rubin, "Maximum likelihood from incomplete data via the EM algorithm", J. R. Stat. Soc. B 1977.

    Parameters
    ----------
    k : number of Gaussians.
    max_iterations : maximum number of passes over the rows.
    tolerance : the fit ends when a step gains less than this fraction of the total gain so far.
    floor : minimum variance, as a fraction of the variance of its column over all rows.
    random_state : random seed of the k-means that gives the initial means.

    Attributes
    ----------
    weights_ : (k,) float64.
    means_, variances_ : (k, d) float64.
    likelihoods_ : (passes,) float64, the mean log-likelihood per row before each step; the last one is that of the fit.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(500, 2)) + np.repeat([[0], [9]], 250, axis=0)
    >>> gmm = Gmm(k=2).fit(X)
    >>> gmm.weights_.round(3), gmm.posteriors(X[:1]).max().round(3)
    (array([0.5, 0.5]), np.float64(1.0))

    """

    weights_: Moments
    means_: Moments
    variances_: Moments
    likelihoods_: Moments

    def __init__(
        self,
        k: int = 256,
        max_iterations: int = 30,
        tolerance: float = 1e-3,
        floor: float = 1e-3,
        random_state: int = 0,
    ):
        self.k = k
        self.max_iterations = max_iterations
        self.tolerance = tolerance
        self.floor = floor
        self.random_state = random_state

    def fit(self, X: Array, y: Array | None = None, *, progress: Progress = silent) -> Self:  # noqa: ARG002
        """Fit the mixture to rows X (n, d), n ≥ k. For float32 rows, products are float32 and sums float64."""
        check_limits(self, {"k": COUNT, "max_iterations": COUNT, "tolerance": NOT_NEGATIVE, "floor": POSITIVE})
        X = check_rows(X)
        (self.weights_, self.means_, self.variances_), self.likelihoods_ = fit_mixture(
            X,
            self.k,
            max_iterations=self.max_iterations,
            tolerance=self.tolerance,
            floor=self.floor,
            random_state=self.random_state,
            progress=progress,
        )
        return self

    def posteriors(self, X: Array) -> Array:
        """Return the probability of each Gaussian for each row of X (n, d): (n, k), dtype of X; each row sums to 1."""
        X = self._check_rows(X)
        xp = namespace(X)
        out = xp.empty((X.shape[0], len(self.weights_)), dtype=X.dtype, device=array_api_compat.device(X))
        products = Products(self.mixture, X)
        for part in products.parts(X.shape[0]):
            shares = products.weigh(X[part])[0]
            out[part] = shares / xp.sum(shares, axis=1, keepdims=True)
        return out

    def log_likelihood(self, X: Array) -> Array:
        """Return the log density of the mixture at each row of X (n, d), (n,) float64."""
        X = self._check_rows(X)
        xp = namespace(X)
        out = xp.empty((X.shape[0],), dtype=xp.float64, device=array_api_compat.device(X))
        products = Products(self.mixture, X)
        for part in products.parts(X.shape[0]):
            out[part] = products.weigh(X[part])[2]
        return out

    @property
    def mixture(self) -> Mixture:
        """The learned parameters."""
        check_is_fitted(self)
        return Mixture(self.weights_, self.means_, self.variances_)

    def _check_rows(self, X: Array) -> Array:
        return check_rows(X, dim=self.mixture.means.shape[1])
