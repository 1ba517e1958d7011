"""Fisher vectors: the gradient of the log-likelihood of a picture's patches under a mixture of Gaussians.

Perronnin, Sánchez & Mensink, "Improving the Fisher kernel for large-scale image classification", ECCV 2010.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import principal, to_numpy, unit_rows
from lookalike.errors import InputError
from lookalike.features.aggregate import Aggregator, Levels, Pyramid, Vocabulary, count_cells, project, split_cells
from lookalike.features.clustering import Mixture, Products, fit_mixture
from lookalike.types import Array, LocalSpec, Patches, Progress, Vectors


class Fisher(Vocabulary):
    """Fisher vectors of one or more local descriptors. Each descriptor is a channel with its own mixture.

    The patches of a channel are reduced by PCA. The gradients of the mean log-likelihood of the patches in a cell, with
    respect to means and standard deviations, are divided by the square root of their Fisher information. Each value is
    replaced by its signed square root. Then each cell, each channel and the whole vector are scaled to unit length, in
    this order. The vector has 2 · k · patch_dim · channels · cells dimensions.

    Parameters
    ----------
    local : spec of a local descriptor, or several specs, one per channel.
    k : number of Gaussians per channel; with two channels, 16 give 4,096 dimensions and 256 give 65,536.
    patch_dim : dimensions of a patch after PCA.
    pyramid : levels of cells, columns x rows, such as "1x1,2x2"; an empty cell gives zeros.
    random_state : random seed of the sample of patches and of the mixtures.

    Attributes
    ----------
    centers_ : (sum of the locals' dims,) float32, the mean patch of each channel, concatenated.
    components_ : (patch_dim, sum of the locals' dims) float32, the PCA of each channel.
    weights_ : (channels, k) float64.
    means_, variances_ : (channels, k, patch_dim) float64.

    """

    centers_: Vectors
    components_: Vectors
    patch_dim: int
    weights_: NDArray[np.float64]
    means_: NDArray[np.float64]
    variances_: NDArray[np.float64]

    def __init__(
        self,
        local: LocalSpec | Sequence[LocalSpec] = ("sift()", "colorstats()"),
        k: int = 16,
        patch_dim: int = 64,
        pyramid: Pyramid = "1x1",
        random_state: int = 0,
    ):
        specs = (local,) if isinstance(local, str) else local
        if not isinstance(specs, list | tuple) or not specs or not all(isinstance(spec, str) for spec in specs):
            raise InputError(
                f"local must be the spec of a local descriptor, such as 'sift()', or a list of specs. Got {local!r}."
            )
        self.local = local if isinstance(local, str) else tuple(local)
        super().__init__(specs, k, patch_dim, pyramid, random_state)

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return 2 * self.k * self.patch_dim * len(self._locals) * count_cells(self._levels)

    def _lengths(self) -> list[int]:
        least = min(local.dim for local in self._locals)
        if self.patch_dim > least:
            raise InputError(
                f"patch_dim must be at most {least}, the dimensions of the shortest patch of {self.local}."
                f" Got {self.patch_dim}."
            )
        return [self.patch_dim] * len(self._locals)

    def _fit(self, samples: list[Array], progress: Progress) -> None:
        centers, components, mixtures = [], [], []
        for rows in samples:
            mean, directions, _ = map(to_numpy, principal(rows, self.patch_dim))
            reduced = project(rows, mean, directions)
            mixtures.append(fit_mixture(reduced, self.k, random_state=self.random_state, progress=progress)[0])
            centers.append(mean)
            components.append(directions)
        self.centers_ = np.concatenate(centers)
        self.components_ = np.concatenate(components, axis=1)
        self.weights_, self.means_, self.variances_ = map(np.stack, zip(*mixtures, strict=True))

    def _aggregator(self) -> Aggregator:
        ends = np.cumsum([local.dim for local in self._locals])[:-1]
        spaces = list(zip(np.split(self.centers_, ends), np.split(self.components_, ends, axis=1), strict=True))
        mixtures = zip(self.weights_, self.means_, self.variances_, strict=True)
        gradients = [Gradients(Mixture(*mixture)) for mixture in mixtures]

        def aggregate(channels: Sequence[Patches]) -> Vectors:
            vectors = np.empty((len(channels), self.dim // len(channels)), np.float32)
            for i, (X, places) in enumerate(channels):
                cells = gradients[i].compute(project(X, *spaces[i]), places, self._levels)  # (cells, 2kD)
                vectors[i] = unit_rows(np.copysign(np.sqrt(np.abs(cells)), cells)).ravel()
            return unit_rows(unit_rows(vectors).reshape(1, -1))[0]  # type: ignore[no-any-return]

        return aggregate


class Gradients:
    """Fisher vectors of sets of rows under one mixture, before square roots and normalisation."""

    def __init__(self, mixture: Mixture):
        self._products = Products(mixture, np.empty(0, np.float32))
        self._m = (mixture.means - self._products.shift) / self._products.scale  # (k, d), of z as in `Products`
        self._s = np.sqrt(mixture.variances) / self._products.scale
        self._roots = np.sqrt(mixture.weights)[:, None]

    def compute(self, X: Vectors, places: Vectors, levels: Levels) -> Vectors:
        """Return gradients (cells, 2kd) float32 for rows X (m, d) at places (m, 2): means, then standard deviations.

        With posteriors g, they are Σ g (x - μ) / σ / (n √w) and Σ g ((x - μ)² / σ² - 1) / (n √(2w)): Eq. 17 and 18 of
        Sánchez, Perronnin, Mensink & Verbeek, "Image classification with the Fisher vector", IJCV 2013.
        """
        k, d = self._m.shape
        sums = np.zeros((count_cells(levels), k, 2 * d + 1))
        for part in self._products.parts(len(X)):
            E, Y, _ = self._products.weigh(X[part])
            for cell, rows in enumerate(split_cells(places[part], levels)):
                sums[cell] += E[rows].T @ Y[rows]
        squares, firsts, counts = np.split(sums, [d, 2 * d], axis=2)  # (cells, k, d), (cells, k, d), (cells, k, 1)
        n = np.maximum(counts.sum(axis=1, keepdims=True), 1e-9)  # an empty cell gives zeros
        means = (firsts - counts * self._m) / (self._s * self._roots * n)
        spread = (squares - 2 * self._m * firsts + counts * self._m**2) / self._s**2 - counts
        spread /= np.sqrt(2) * self._roots * n
        return np.concatenate([means, spread], axis=1).reshape(len(sums), -1).astype(np.float32)
