"""DFK as a feature of pictures: Fisher scores of their local descriptors, learned from labels.

Training is done by `Dfk`, which is imported only when a feature is fitted: processes that only extract features do not
need scikit-learn. Vectors have unit length, and Euclidean distance is the learned distance.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import principal, unit_rows
from lookalike.devices import to_device
from lookalike.errors import InputError
from lookalike.features.aggregate import PICTURES, Aggregate, Aggregator, project
from lookalike.features.clustering import Mixture
from lookalike.learn.fisher_scores import FisherScores, root
from lookalike.learn.labels import join_names
from lookalike.limits import report_fewer
from lookalike.types import FIT_BYTES, LabelledFeature, LocalSpec, Patches, Prepared, Progress, Vectors, silent

PCA_SHARE = 4
"""`max_bytes` divided by this is the memory limit for the raw patches to which the PCA is fitted."""


class DfkPictures(Aggregate, LabelledFeature):
    """Discriminative Fisher kernel of local descriptors, reduced by PCA, learned from labelled pictures.

    Training uses a random sample of the patches of each picture, as large as `max_bytes` allows. The vector of a
    picture is computed from all of its patches.

    Parameters
    ----------
    local : spec of a local descriptor.
    k : number of Gaussians.
    patch_dim : dimension of patches after PCA; more than that of the local descriptor gives a warning.
    max_iterations : maximum number of training steps; 0 gives the plain Fisher kernel.
    random_state : random seed of the sample of patches and of `Dfk`.

    Attributes
    ----------
    center_ : (dim of the local descriptor,) float32, the mean patch.
    components_ : (patch_dim, dim of the local descriptor) float32, the PCA.
    roots_ : (k · (2 · patch_dim + 1),) float32, alphas_ : (k,), means_ and deviations_ : (k, patch_dim) float64, as in
        `Dfk`.

    """

    labels = True

    patch_dim: int
    center_: Vectors
    components_: Vectors
    roots_: Vectors
    alphas_: NDArray[np.float64]
    means_: NDArray[np.float64]
    deviations_: NDArray[np.float64]

    def __init__(
        self,
        local: LocalSpec = "sift()",
        k: int = 60,
        patch_dim: int = 64,
        max_iterations: int = 500,
        random_state: int = 0,
    ):
        if not isinstance(local, str):
            raise InputError(f"local must be the spec of a local descriptor, such as 'sift()'. Got {local!r}.")
        if not isinstance(max_iterations, int) or max_iterations < 0:
            raise InputError(f"max_iterations must be a whole number of at least 0. Got {max_iterations!r}.")
        self.local = local
        self.max_iterations = max_iterations
        super().__init__([local], k, patch_dim, "1x1", random_state)

    @property
    def dim(self) -> int:
        """Number of dimensions of a vector."""
        return self.k * (2 * self._lengths()[0] + 1)

    def fit(
        self,
        labelled: Iterable[tuple[Prepared, Sequence[str]]],
        *,
        max_bytes: int = FIT_BYTES,
        progress: Progress = silent,
        gpu: str | None = None,
    ) -> Self:
        """Fit to a stream of prepared pictures, each with the names of its labels."""
        from lookalike.learn.dfk import Dfk  # loads scikit-learn
        from lookalike.learn.sets import Sets

        (D,), random = self._lengths(), np.random.default_rng(self.random_state)
        report_fewer("patch_dim", self.patch_dim, D, f"{self.local} has {D}-dimensional patches")
        names: list[Sequence[str]] = []
        patches = self._patches(labelled, names, random)
        first: list[Vectors] = []
        while sum(map(len, first)) < max(max_bytes // (4 * self._locals[0].dim * PCA_SHARE), D, 2):
            if (rows := next(patches, None)) is None:
                break
            first.append(rows)
        seen, least = sum(map(len, first)), max(self.k, D, 2)
        if seen < least:
            raise InputError(
                f"DFK with k={self.k} and patch_dim={self.patch_dim} needs at least {least} patches. Got {seen}. Label"
                " more pictures, or reduce k or patch_dim."
            )
        center, components, _ = (part.astype(np.float32) for part in principal(np.concatenate(first), D))
        sample = _Sample(max_bytes // (2 * D))
        for rows in _then(first, patches):
            sample.add(project(rows, center, components).astype(np.float16))
        starts = np.cumsum([0, *map(len, sample.items)])
        progress("fitting", 0, None)
        dfk = Dfk(k=self.k, max_iterations=self.max_iterations, random_state=self.random_state)
        dfk.fit(
            Sets(to_device(np.concatenate(sample.items), gpu), starts),
            join_names(names),
            callback=lambda step, *_: progress("learning from labels", step, self.max_iterations),
        )
        self.center_, self.components_, self.roots_ = center, components, dfk.roots_
        self.alphas_, self.means_, self.deviations_ = dfk.alphas_, dfk.means_, dfk.deviations_
        self._at_work = None
        return self

    def _patches(
        self, labelled: Iterable[tuple[Prepared, Sequence[str]]], names: list[Sequence[str]], random: Any
    ) -> Iterator[Vectors]:
        """Yield the patches of each picture, (m, d), in random order, and append its labels to `names`."""
        stream = iter(labelled)
        while batch := list(islice(stream, PICTURES)):
            described = self._describe([prepared for prepared, _ in batch])
            for ((rows, _),), (_, labels) in zip(described, batch, strict=True):
                names.append(labels)
                yield rows[random.permutation(len(rows))]

    def _lengths(self) -> list[int]:
        return [min(self.patch_dim, self._locals[0].dim)]

    def _aggregator(self) -> Aggregator:
        center, components, roots = self.center_, self.components_, self.roots_
        fisher = FisherScores(Mixture(self.alphas_, self.means_, self.deviations_**2), roots[:0], roots)

        def aggregate(channels: Sequence[Patches]) -> Vectors:
            ((X, _),) = channels
            scores = fisher.scores(project(X, center, components), np.array([0, len(X)]))  # (1, dim)
            return unit_rows(root(scores))[0]  # type: ignore[no-any-return]

        return aggregate


class _Sample:
    """Items with a limited total number of rows: above the limit, each item keeps the first half of its rows."""

    def __init__(self, most: int):
        self.items: list[Any] = []
        self._most, self._rows, self._each = most, 0, 2**62

    def add(self, rows: Any) -> None:
        self.items.append(rows[: self._each].copy())
        self._rows += len(self.items[-1])
        while self._rows > self._most and self._each > 1:
            self._each = min(self._each, max(map(len, self.items))) // 2 or 1
            self.items = [item[: self._each].copy() for item in self.items]
            self._rows = sum(map(len, self.items))


def _then(first: list[Vectors], rest: Iterator[Vectors]) -> Iterator[Vectors]:
    """Yield the first arrays, then the remaining ones; free each array after use."""
    while first:
        yield first.pop(0)
    yield from rest
