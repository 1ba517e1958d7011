"""Linear SLEM: each row becomes the weights of the ridge classifier that separates it from a pool of negatives.

Rezende et al., "Kernel square-loss exemplar machines for image retrieval", CVPR 2017 (slem), Eq. 1–7.
"""

from typing import Any, NamedTuple, Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from lookalike.arrays import as_numpy, check_rows, chunks, held_bytes, like, namespace, unit_rows
from lookalike.encode.check import check_matrix, float32_out
from lookalike.errors import InputError
from lookalike.limits import NOT_NEGATIVE, POSITIVE, check_number
from lookalike.types import Array

ROWS_BYTES = 16 * 2**20
"""Size of the chunks of `transform`: large enough for a product at full speed, small enough for the caches."""
SAFE = 1e30
"""Squared lengths between 1 / SAFE and SAFE fit into float32; other rows are computed again in float64."""


class Slem(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The square-loss exemplar machine, linear: ω/‖ω‖ with ω ∝ (Σ + λI)⁻¹ (x − μ), one matrix product per batch.

    μ and Σ are the mean and the covariance of the negatives. The weight θ of the exemplar in Eq. 1 only scales ω
    (Eq. 6), so it is not a parameter. The limit of small `lam` is linear discriminant analysis (Eq. 7):
    `Slem(lam=1e-6)` is that baseline. A row equal to μ has no direction and becomes zero.

    Parameters
    ----------
    lam : λ of Eq. 1, at least 0, in units of the squared rows: 1e-4 to 0.1 for rows of length one, below 0.01 only if
        the pool has no other views of the objects that are searched for. 0 requires negatives that span all d
        dimensions and is an error otherwise: a pseudo-inverse would ignore the directions without negatives, while the
        limit of small λ depends only on those.

    Attributes
    ----------
    Arrays have the type and the device of the rows in `fit`; `transform` accepts rows of any type.

    n_ : the number of negatives.
    mean_ : (d,) float64, of the negatives.
    covariance_ : (d, d) float64, of the negatives, divided by n.
    inverse_ : (d, d) float64, (covariance_ + lam · I)⁻¹.

    Examples
    --------
    >>> negatives = np.random.default_rng(0).normal(size=(500, 2)) * [3, 1]
    >>> Slem(lam=0.01).fit(negatives).transform([[5, 5]]).round(1)  # directions in which negatives vary count less
    array([[0.1, 1. ]], dtype=float32)

    """

    negatives = True  # fit expects a pool of negatives

    n_: int
    mean_: Array
    covariance_: Array
    inverse_: Array

    def __init__(self, lam: float = 0.01):
        self.lam = lam

    def fit(self, X: Array, y: Array | None = None) -> Self:  # noqa: ARG002 (scikit-learn passes y)
        """Learn the pool of negatives, X (n, d). A memory-mapped X is read once in chunks, never copied as a whole."""
        X = check_matrix(self, X, reset=True)
        xp, d = namespace(X), X.shape[1]
        kind = {"dtype": xp.float64, "device": array_api_compat.device(X)}
        return self._learn(_merge(_Pool(0, xp.zeros((d,), **kind), xp.zeros((d, d), **kind)), X, 1))

    def add(self, X: Array) -> Self:
        """Add rows (m, d) to the pool. The result equals a new fit; merging the moments takes O(md²), for any n.

        The inverse is computed again, in O(d³): one more negative changes the weight of Σ relative to λI, a change of
        full rank, so that no low-rank update is exact.
        """
        return self._learn(_merge(*self._pool_and(X), 1))

    def remove(self, X: Array) -> Self:
        """Remove rows (m, d), m < n, from the pool; they must be in it. Takes as long as `add`."""
        pool, X = self._pool_and(X)
        if X.shape[0] >= self.n_:
            raise InputError(
                f"X must leave at least 1 of the {self.n_} negatives in the pool. Got {X.shape[0]} rows to remove."
            )
        smaller = _merge(pool, X, -1)
        xp = namespace(X)
        before, after = (xp.linalg.diagonal(part.covariance) for part in (pool, smaller))  # (d,)
        rounding = 1e-9 * self.n_ / smaller.n * (xp.max(before) + xp.max(pool.mean**2))
        if bool(xp.any(after < -rounding)):
            raise InputError(
                "X must contain only rows of the pool. Got different rows: removing them would make a variance"
                " negative."
            )
        return self._learn(smaller)

    def transform(self, X: Array) -> Array:
        """Encode rows (m, d) as (m, d) float32 unit rows ω/‖ω‖ (Eq. 6). The product runs at the precision of X."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        xp, device = namespace(X), array_api_compat.device(X)
        precision = xp.float64 if X.dtype == xp.float64 else xp.float32
        out = xp.empty(tuple(X.shape), dtype=xp.float32, device=device)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):  # such rows are computed again
            W, mean = (xp.astype(like(X, a), precision, copy=False) for a in (self.inverse_, self.mean_))
            parts = list(chunks(X.shape[0], 4 * X.shape[1], held_bytes(X, ROWS_BYTES)))
            rows = parts[0].stop if parts else 0
            # Buffers are reused because newly allocated memory is slow. NumPy and torch both support `out`.
            space, products = (xp.empty((rows, X.shape[1]), dtype=precision, device=device) for _ in range(2))
            for part in parts:
                m = part.stop - part.start
                # Subtracting first takes as long as a bias, and is more accurate if the mean is long.
                centred = xp.subtract(X[part], mean, out=space[:m])  # (m, d)
                omega = xp.matmul(centred, W, out=products[:m])  # (m, d)
                squares = xp.vecdot(omega, omega)  # (m,)
                xp.multiply(omega, 1 / xp.sqrt(squares)[:, None], out=out[part])
                odd = ~((squares > 1 / SAFE) & (squares < SAFE))  # NaN is odd, too
                if bool(xp.any(odd)):
                    out[part][odd] = xp.astype(unit_rows(self._centred(check_rows(X[part])[odd])[1]), xp.float32)
        return out

    def weights(self, X: Array, theta: float = 1.0) -> tuple[Array, Array]:
        """Solve Eq. 1 with each row as the exemplar: ω (m, d) and ν (m,), float64, not scaled to length one.

        `theta`, above 0, is the exemplar's weight relative to all negatives together.
        """
        check_is_fitted(self)
        check_number("theta", theta, *POSITIVE)
        X = check_matrix(self, X, reset=False, min_rows=0)
        xp = namespace(X)
        centred, direction = self._centred(X)  # (m, d) both
        q = xp.vecdot(centred, direction)  # (m,)
        omega = (2 * theta / (theta * q + theta + 1))[:, None] * direction  # Eq. 6, slem
        mean = like(X, self.mean_)
        nu = (theta - 1 - xp.vecdot(theta * (centred + mean) + mean, omega)) / (theta + 1)  # Eq. 3, slem
        return omega, nu

    def pushes(self, X: Array, negatives: Array) -> NDArray[np.float64]:
        """Influence (m, n) of each of the pool's rows `negatives` (n, d) on the classifier of each row of X (m, d).

        The influence of negative i is p_i = 1 + (x_i − μ)ᵀA⁻¹(x − μ). Where the derivative of Eq. 1 is zero,
        λA⁻¹(x − μ) = (x − μ) − mean_i p_i (x_i − μ): the direction of ω is the row minus its weighted negatives.
        Up to a common factor, p_i is also the residual 1 + ωᵀx_i + ν. The mean over the pool is 1. A negative that the
        classifier confuses with the row has more influence; one with a value below 0 attracts it.
        """
        check_is_fitted(self)
        X, negatives = (check_matrix(self, rows, reset=False, min_rows=0) for rows in (X, negatives))
        direction = as_numpy(self._centred(X)[1])  # (m, d)
        xp = namespace(negatives)
        others = as_numpy(xp.astype(check_rows(negatives), xp.float64)) - as_numpy(self.mean_)  # (n, d)
        pushes: NDArray[np.float64] = 1 + direction @ others.T
        return pushes

    @property
    def _n_features_out(self) -> int:
        return int(self.n_features_in_)

    def __sklearn_tags__(self) -> Tags:
        return float32_out(super().__sklearn_tags__())

    def _learn(self, pool: "_Pool") -> Self:
        """Store a pool and its inverse; an error changes nothing."""
        check_number("lam", self.lam, *NOT_NEGATIVE)
        inverse = _invert(pool.covariance, float(self.lam))
        self.n_, self.mean_, self.covariance_, self.inverse_ = pool.n, pool.mean, pool.covariance, inverse
        return self

    def _pool_and(self, X: Array) -> tuple["_Pool", Array]:
        """The pool as arrays of the type of X, and X, checked."""
        check_is_fitted(self)
        X = check_matrix(self, X, reset=False, min_rows=0)
        return _Pool(self.n_, like(X, self.mean_), like(X, self.covariance_)), X

    def _centred(self, X: Array) -> tuple[Array, Array]:
        """x − μ and A⁻¹(x − μ) of each row, (m, d) float64 both."""
        xp = namespace(X)
        centred = xp.astype(check_rows(X), xp.float64) - like(X, self.mean_)
        return centred, centred @ like(X, self.inverse_)


class _Pool(NamedTuple):
    """The moments of a pool of negatives, float64."""

    n: int
    mean: Array  # (d,)
    covariance: Array  # (d, d), divided by n


def _merge(pool: _Pool, X: Array, sign: int) -> _Pool:
    """The moments with rows X (m, d) added (sign 1) or removed (-1): Chan, Golub & LeVeque, COMPSTAT 1982."""
    xp = namespace(X)
    n, mean, covariance = pool
    for part in chunks(X.shape[0], row_bytes=16 * X.shape[1]):
        rows = xp.astype(check_rows(X[part]), xp.float64)  # (m, d)
        m = rows.shape[0]
        n += sign * m
        share = sign * m / n
        centre = xp.mean(rows, axis=0)  # (d,)
        rows, step = rows - centre, centre - mean
        covariance = covariance + share * (rows.T @ rows / m - covariance + (1 - share) * step[:, None] * step)
        mean = mean + share * step
    return _Pool(n, mean, covariance)


def _invert(covariance: Array, lam: float) -> Array:
    """A⁻¹ = (Σ + λI)⁻¹, (d, d), exactly symmetric."""
    xp, d = namespace(covariance), covariance.shape[0]
    A: Any = covariance + lam * xp.eye(d, dtype=xp.float64, device=array_api_compat.device(covariance))
    least = d * np.finfo(np.float64).eps * float(xp.max(xp.linalg.diagonal(A)))
    try:
        pivot = float(xp.min(xp.linalg.diagonal(xp.linalg.cholesky(A)))) ** 2
    except (np.linalg.LinAlgError, RuntimeError) as error:  # torch's LinAlgError is a RuntimeError
        if "LinAlgError" not in type(error).__name__:
            raise
        pivot = 0.0
    if not pivot > least:
        raise InputError(
            f"lam must be larger: these negatives do not span all {d} dimensions (too few, or constant or dependent"
            f" columns). Got {lam:g}; {max(1e3 * least, 1e-12):.1g} or more works."
        )
    inverse = xp.linalg.inv(A)
    return (inverse + inverse.T) / 2
