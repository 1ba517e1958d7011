"""A chain: a feature and the steps after it, built from spec strings: transforms, and perhaps a coder as the last one.

In: pictures, or the feature's vectors. Out: (n, D) float32 vectors of the space that the chain makes, or codes of them,
(n, bits / 8) uint8.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks, to_numpy
from lookalike.engine.specs import is_coder, kind_of_step, takes_labels, takes_negatives
from lookalike.index.queries import CodedQuery, PointQuery
from lookalike.registry import create, restore, spec_of, state_of
from lookalike.types import (
    Box,
    Coder,
    Feature,
    Ids,
    Pixels,
    Prepared,
    Query,
    Transform,
    Vectors,
)

STEP_BYTES = 2**30
"""What a step may make of the rows that the next one is fitted on: of long rows, it sees fewer, the first ones."""


class Labelled(NamedTuple):
    """What steps that learn from labels are fitted on."""

    ids: Ids  # (m,), ascending
    X: Vectors  # (m, d), of a space's feature
    y: NDArray[Any]  # (m,), one label each; or (m, C), ones and zeros, for steps that take several
    free: Vectors | None = None  # (f, d), rows without a label, for a coder: some learn from these, too


class Chain:
    """The way from pictures to the vectors of one space.

    Parameters
    ----------
    specs : a feature's spec, then those of transforms; the last may be a coder's.
    load : how to get the fitted steps, when they are first needed; None where they wait to be fitted.
    load_feature : how to get the feature, where it is one that learned something.
    """

    def __init__(
        self,
        specs: Sequence[str],
        load: Callable[[], Sequence[Any]] | None = None,
        load_feature: Callable[[], Feature] | None = None,
    ):
        self.specs = list(specs)
        self._load = load if len(self.specs) > 1 else list[Any]
        self._load_feature = load_feature

    @property
    def fitted(self) -> bool:
        """Whether the chain leads all the way to its space."""
        return self._load is not None

    @cached_property
    def feature(self) -> Feature:
        """The chain's feature. Cheap: weights are loaded by its first `describe`."""
        made: Feature = self._load_feature() if self._load_feature else create("feature", self.specs[0])
        return made

    @cached_property
    def steps(self) -> Sequence[Any]:
        """All that was fitted: the transforms, and the coder where there is one."""
        assert self._load is not None, "an unfitted chain has no space of its own"
        return self._load()

    @property
    def coder(self) -> Coder | None:
        """The fitted coder at the end of the chain, where there is one."""
        return self.steps[-1] if self.fitted and is_coder(self.specs[-1]) else None

    @property
    def transforms(self) -> Sequence[Transform]:
        """The fitted transforms."""
        return self.steps if self.coder is None else self.steps[:-1]

    def transform(self, X: Vectors) -> Vectors:
        """The feature's vectors to those that are compared, (n, d) to (n, D) float32: the space's, or what is coded."""
        if len(X) < 2:
            return self._through(X)
        # A few at a time: between the first step and the last, rows may be many times as long (dfk, then pca).
        parts = chunks(len(X), 4 * self.widest(X[:1]))
        return np.concatenate([self._through(X[part]) for part in parts])

    def widest(self, X: Vectors) -> int:
        """The most numbers that there are of a row at any step, for rows like X (1, d)."""
        widest = int(X.shape[1])
        for step in self.transforms:
            X = step.transform(X)
            widest = max(widest, int(X.shape[1]))
        return widest

    def _through(self, X: Vectors) -> Vectors:
        for step in self.transforms:
            X = step.transform(X)
        return to_numpy(X)

    def store(self, X: Vectors) -> NDArray[Any]:
        """The feature's vectors to what the space keeps of them: vectors as by `transform`, or their codes."""
        X = self.transform(X)
        return X if self.coder is None else self.coder.encode(X)

    def extract(self, images: Sequence[Pixels]) -> Vectors:
        """Pictures to (n, D) float32: the space's vectors, or the feature's while the chain is not fitted."""
        return self._finish(self.feature.extract(images))

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Parts of a picture to (len(boxes), D) float32, as `extract` does whole ones."""
        return self._finish(self.feature.regions(image, boxes))

    @property
    def compares(self) -> bool:
        """Whether the space is compared by a measure of its last transform's own, not by Euclidean distance."""
        return self.fitted and len(self.transforms) > 0 and hasattr(self.transforms[-1], "compare")

    def query(self, rows: Vectors) -> Query:
        """What is nearest to rows (q, D) of the space."""
        if self.coder is not None:
            return CodedQuery(rows, self.coder.query(rows))
        query: Query = self.transforms[-1].compare(rows) if self.compares else PointQuery(rows)  # type: ignore[attr-defined]
        return query

    def _finish(self, X: Vectors) -> Vectors:
        return self.transform(X) if self.fitted else X


def fit(specs: Sequence[str], X: Vectors, negatives: Vectors | None = None, labelled: Labelled | None = None) -> Chain:
    """A chain whose steps are fitted, one after the other, on its feature's vectors X (n, d).

    Those that tell rows from a pool of negatives are fitted on `negatives` (m, d), where there are any, and those that
    learn from labels on the rows that are `labelled`.
    """
    fitted: list[Any] = []
    for spec in specs[1:]:
        step = create(kind_of_step(spec), spec)
        if labelled is not None and takes_labels(spec):
            step.fit(*(_with_free(labelled) if is_coder(spec) else (labelled.X, labelled.y)))
        else:
            step.fit(negatives if negatives is not None and takes_negatives(spec) else X)
        fitted.append(step)
        if len(fitted) < len(specs) - 1:
            most = max(2, STEP_BYTES // (4 * step.transform(X[:1]).shape[1]))
            X = step.transform(X[:most])
            negatives = None if negatives is None else step.transform(negatives[:most])
            if labelled is not None:
                ids, rows, y, free = labelled
                free = None if free is None else step.transform(free[:most])
                labelled = Labelled(ids[:most], step.transform(rows[:most]), y[:most], free)
    return Chain(specs, lambda: fitted)


def _with_free(labelled: Labelled) -> tuple[Vectors, NDArray[Any]]:
    """Rows and labels, with "" for those without one."""
    if labelled.free is None or not len(labelled.free):
        return labelled.X, labelled.y
    none = np.full(len(labelled.free), "")
    return np.concatenate([labelled.X, labelled.free]), np.concatenate([labelled.y.astype(str), none])


class Prepare:
    """The part of extraction that runs in the reading processes, for several features at once.

    That is `prepare`, and of a feature that goes by single pictures `describe` too. A feature goes to a process as its
    spec and what it learned.
    """

    def __init__(self, features: Sequence[Feature]):
        self._features = list(features)

    def __call__(self, image: Pixels) -> list[Prepared]:
        """For each feature what `finish` wants of a picture."""
        prepared = [feature.prepare(image) for feature in self._features]
        return [
            feature.describe([part])[0] if feature.by_picture else part
            for feature, part in zip(self._features, prepared, strict=True)
        ]

    def finish(self, parts: Sequence[Sequence[Prepared]]) -> list[Vectors]:
        """The rest, in the caller's process: of n pictures to (n, dim) for each feature."""
        columns = zip(*parts, strict=True)
        return [
            np.stack(column) if feature.by_picture else feature.describe(column)
            for feature, column in zip(self._features, columns, strict=True)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_prepare, ([(spec_of(feature), state_of(feature)) for feature in self._features],)


def _restore_prepare(made_of: list[tuple[str, dict[str, NDArray[Any]]]]) -> Prepare:
    return Prepare([restore("feature", spec, state) for spec, state in made_of])
