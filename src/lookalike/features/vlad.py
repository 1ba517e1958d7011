"""VLAD: the residuals of a picture's patches relative to the words of a vocabulary.

Jégou, Douze, Schmid & Pérez, "Aggregating local descriptors into a compact image representation", CVPR 2010; rotations:
Delhumeau et al., ACM MM 2013; normalisation by word: Arandjelović & Zisserman, CVPR 2013.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import (
    CACHE_BYTES,
    as_numpy,
    chunks,
    held_bytes,
    like,
    namespace,
    principal,
    to_numpy,
    unit_rows,
)
from lookalike.errors import InputError
from lookalike.features.aggregate import Aggregator, Pyramid, Vocabulary, count_cells, project, split_cells
from lookalike.features.clustering import kmeans
from lookalike.limits import report_fewer
from lookalike.types import Array, LocalSpec, Patches, Progress, Vectors

MAX_PATCH_DIM = 128
"""The largest dimension of patches if none is requested."""

ROUNDING = 1e-5
"""A sum of residuals shorter than this fraction of its two terms is a rounding error and is set to 0."""


class Vlad(Vocabulary):
    """Residuals of local descriptors from their nearest word, summed per word: k · D dimensions per cell.

    The sum of each word is rotated to the principal axes of the residuals around that word and scaled to unit length.
    (The order does not matter, because a rotation preserves lengths.) Then each value is replaced by its signed square
    root. Finally, cells and the whole vector are scaled to unit length.

    Parameters
    ----------
    local : spec of a local descriptor.
    k : number of words.
    patch_dim : longer patches, such as those of networks, are reduced to this length by PCA; None: to at most 128. More
        than the dim of the local descriptor gives a warning.
    pyramid : levels of cells, columns x rows, such as "1x1,2x2"; an empty cell gives zeros.
    random_state : random seed of the sample of patches and of the words.

    Attributes
    ----------
    words_ : (k, D) float32, where D is the smaller of patch_dim and the dim of the local descriptor.
    rotations_ : (k, D, D) float32, the axes of each word as rows, by decreasing variance.
    center_, components_ : (d,) and (D, d) float32, the PCA, if patches are reduced.

    """

    words_: Vectors
    rotations_: Vectors
    center_: Vectors
    components_: Vectors

    def __init__(
        self,
        local: LocalSpec = "sift()",
        k: int = 64,
        patch_dim: int | None = None,
        pyramid: Pyramid = "1x1",
        random_state: int = 0,
    ):
        if not isinstance(local, str):
            raise InputError(f"local must be the spec of a local descriptor, such as 'sift()'. Got {local!r}.")
        self.local = local
        super().__init__([local], k, patch_dim, pyramid, random_state)

    @property
    def dim(self) -> int:
        """Number of dimensions."""
        return self.k * self._lengths()[0] * count_cells(self._levels)

    def _lengths(self) -> list[int]:
        return [min(MAX_PATCH_DIM if self.patch_dim is None else self.patch_dim, self._locals[0].dim)]

    def _fit(self, samples: list[Array], progress: Progress) -> None:
        (rows,), (D,) = samples, self._lengths()
        report_fewer("patch_dim", self.patch_dim, D, f"{self.local} has {D}-dimensional patches")
        pca: tuple[Vectors, Vectors] | None = None
        if rows.shape[1] > D:
            center, components, _ = map(to_numpy, principal(rows, D))
            pca, rows = (center, components), project(rows, center, components)
        words, _ = kmeans(rows, self.k, self.random_state)
        xp, on_device = namespace(rows), like(rows, words)
        parts = chunks(len(rows), 4 * self.k, held_bytes(rows))
        nearest = np.concatenate([_nearest(rows[part], on_device) for part in parts])
        rotations = np.empty((self.k, D, D), np.float32)
        for word in range(self.k):
            progress("fitting the vocabulary", word, self.k)
            residuals = rows[nearest == word] - on_device[word]
            few = max(0, D + 1 - len(residuals))  # too few for D axes: pad with zeros
            padded = xp.concat([residuals, like(rows, np.zeros((few, D), np.float32))])
            rotations[word] = to_numpy(principal(padded, D)[1])
        progress("fitting the vocabulary", self.k, self.k)
        if pca is not None:
            self.center_, self.components_ = pca
        self.words_, self.rotations_ = words, rotations

    def _reduce(self, X: Vectors) -> Vectors:
        return project(X, self.center_, self.components_) if X.shape[1] > self._lengths()[0] else X

    def _aggregator(self) -> Aggregator:
        words, rotations = self.words_, self.rotations_
        lengths = np.linalg.norm(words, axis=1)  # (k,)

        def aggregate(channels: Sequence[Patches]) -> Vectors:
            ((X, places),) = channels
            sums = np.zeros((count_cells(self._levels), *words.shape))  # (cells, k, D)
            counts = np.zeros((*sums.shape[:2], 1))
            for part in chunks(len(X), 8 * self.k, CACHE_BYTES):
                rows = self._reduce(X[part])
                belongs = (_nearest(rows, words)[:, None] == np.arange(self.k)).astype(np.float32)  # (m, k)
                for cell, inside in enumerate(split_cells(places[part], self._levels)):
                    sums[cell] += belongs[inside].T @ rows[inside]
                    counts[cell, :, 0] += belongs[inside].sum(axis=0)
            residuals = (sums - counts * words).astype(np.float32)
            length = np.linalg.norm(residuals, axis=2, keepdims=True)  # (cells, k, 1)
            noise = ROUNDING * counts * lengths[:, None]
            rotated = np.matmul(rotations, residuals[..., None])[..., 0]  # (cells, k, D) float32
            rotated = np.where(length > noise, rotated / np.where(length > 0, length, 1), 0)
            rooted = np.copysign(np.sqrt(np.abs(rotated)), rotated).reshape(len(sums), -1)  # (cells, kD)
            return unit_rows(unit_rows(rooted).reshape(1, -1))[0].astype(np.float32)  # type: ignore[no-any-return]

        return aggregate


def _nearest(X: Array, words: Array) -> NDArray[np.int64]:
    """Return the index of the word nearest to each row, (m,)."""
    xp = namespace(X)
    return as_numpy(xp.argmax(X @ words.T - 0.5 * xp.sum(words * words, axis=1), axis=1))
