"""A metric for classes that it was not fitted on: whitening within classes, shrunk towards the identity.

Whitening divides each direction by the standard deviation within classes, (Σ + λI)^−½: directions in which the pictures
of a class differ count less (within-class covariance normalisation, Hatch, Kajarekar & Stolcke 2006). The larger λ, the
closer it is to the identity. λ is chosen on held-out classes. If no λ is clearly better there than plain vectors, the
rows are not whitened. In both cases they are centred and reduced by PCA first, because whitening enlarges the
directions of small variance, which are mostly noise.
"""

from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, check_rows, namespace, principal, unit_rows
from lookalike.learn.measures import ranked_precisions
from lookalike.learn.rows import Rows, means_by_label
from lookalike.learn.training import START_BYTES, spread_within
from lookalike.types import Array

STRENGTHS = (10.0, 3.0, 1.0, 0.3)
"""Candidates for λ, as a share of the mean variance within classes; steps of about √10."""
FOLDS = 5
"""Groups of classes that are held out in turn."""
CLEARLY = 2.0
"""Minimum gain over plain vectors, in standard errors: the 95 % interval of the difference excludes 0."""
MIN_CLASSES = 4
"""Minimum number of classes with two rows or more, two in each of two folds; with fewer, rows are not whitened."""
MAX_DIM = 256
"""Maximum output dimension, that of the recipe `deep`."""


class Metric(NamedTuple):
    """The map x ↦ Wx + b, before rows are scaled to unit length."""

    W: Array  # (D, d) float32
    bias: Array  # (D,) float32; it maps the mean to zero
    strength: float  # λ as in STRENGTHS; infinity for plain vectors
    trials: NDArray[np.float64]  # (t, 3): λ, mAP on held-out classes, standard error of its difference to plain vectors


def choose_metric(X: Rows, y: NDArray[np.int64], random: np.random.Generator) -> Metric:
    """Choose the strength of the whitening on held-out classes, and fit it to rows (n, d) of classes y (n,).

    At most 32 MB of the rows are used, sampled at random.

    >>> y = np.arange(200) // 20
    >>> X = np.random.default_rng(0).normal(size=(200, 8)) * [1, 1, 1, 1, 5, 5, 5, 5]  # noise in the last four columns
    >>> X[:, :4] += 2 * np.random.default_rng(1).normal(size=(10, 4))[y]
    >>> bool(choose_metric(X, y, np.random.default_rng(0)).strength < 1)
    True
    """
    n, d = X.shape
    most = max(START_BYTES // (4 * d), 2)
    chosen: Any = np.arange(n) if n <= most else np.sort(random.choice(n, most, replace=False))
    rows = check_rows(X[chosen])
    device, xp = array_api_compat.device(rows), namespace(rows)
    sample, codes = as_numpy(rows).astype(np.float64), np.unique(y[chosen], return_inverse=True)[1]
    mean, V, _ = principal(sample, max(1, min(MAX_DIM, d, len(sample) - 1)))
    Z = (sample - mean) @ V.T  # (m, D)
    trials = _compare(Z, codes, random)
    best = int(np.argmax(trials[:, 1])) if len(trials) else 0
    better = len(trials) > 0 and trials[best, 1] - trials[0, 1] > CLEARLY * trials[best, 2]
    strength = float(trials[best, 0]) if better else np.inf
    W = _Whitening(Z, codes)(np.eye(len(V)), strength) @ V  # (D, d); whitening is symmetric
    like_rows = {"dtype": xp.float32, "device": device}
    return Metric(xp.asarray(W, **like_rows), xp.asarray(-W @ mean, **like_rows), strength, trials)


def describe(strength: float, trials: NDArray[np.float64]) -> str:
    """Describe the chosen metric and the precision on held-out classes, from `Metric`."""
    if not len(trials):
        return f"plain vectors (fewer than {MIN_CLASSES} labels with two pictures, too few to choose a metric)"
    plain, best = trials[0, 1], trials[1:][np.argmax(trials[1:, 1])]
    if strength == np.inf:
        return f"plain vectors: no metric was clearly better on held-out labels (mAP {best[1]:.3f}, plain {plain:.3f})"
    return f"whitened within labels, λ = {strength:g} (mAP on held-out labels {best[1]:.3f}, plain {plain:.3f})"


def _compare(Z: NDArray[np.float64], y: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.float64]:
    """The trials of centred rows (n, d), as in `Metric`: plain vectors first; empty if there are too few classes."""
    several = random.permutation(np.flatnonzero(np.bincount(y) > 1))
    if len(several) < MIN_CLASSES:
        return np.empty((0, 3))
    strengths = (np.inf, *STRENGTHS)
    found: list[NDArray[np.float64]] = []
    for fold in np.array_split(several, min(FOLDS, len(several) // 2)):
        held = np.isin(y, fold)
        whiten = _Whitening(Z[~held], np.unique(y[~held], return_inverse=True)[1])
        labels = y[held]
        found.append(np.stack([_by_class(whiten(Z[held], strength), labels) for strength in strengths]))
    precisions = np.concatenate(found, axis=1)  # (t, C)
    gains = precisions - precisions[0]
    errors = gains.std(axis=1, ddof=1) / np.sqrt(gains.shape[1])
    return np.stack([np.array(strengths), precisions.mean(axis=1), errors], axis=1)


def _by_class(Z: NDArray[np.float64], y: NDArray[np.int64]) -> NDArray[np.float64]:
    """Mean average precision of each class, (C,), with each row as a query for the others, by cosine."""
    unit = unit_rows(Z)
    precisions = ranked_precisions(lambda part: -(unit[part] @ unit.T), y)  # (n,): each class has several rows
    codes = np.unique(y, return_inverse=True)[1]
    return np.asarray(np.bincount(codes, precisions) / np.bincount(codes))


class _Whitening:
    """Whitening within the classes y (n,) of rows (n, d)."""

    def __init__(self, Z: NDArray[np.float64], y: NDArray[np.int64]):
        C = int(y.max()) + 1
        self._U, self._spread, self._unit = spread_within(Z - means_by_label(Z, y, C)[y], C)

    def __call__(self, Z: NDArray[np.float64], strength: float) -> NDArray[np.float64]:
        """Whiten rows, scaled such that a direction without variance keeps its length."""
        if strength == np.inf:
            return Z
        lam = strength * self._unit
        shrunk = np.sqrt(lam / (self._spread + lam))  # (r,)
        return np.asarray(Z - ((Z @ self._U.T) * (1 - shrunk)) @ self._U)
