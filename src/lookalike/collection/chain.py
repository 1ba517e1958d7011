"""`Chain`: a feature and the fitted steps after it, which are transforms and optionally a coder.

A chain turns pictures, or vectors of the feature, into (n, D) float32 vectors of a space or (n, bits / 8) uint8 codes.
`describe_pool` reads pictures in several processes and extracts their features; `PicturePool` is its protocol.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lookalike.arrays import chunks, to_numpy
from lookalike.collection.specs import is_coder, is_text, kind_of_step, step_class, takes_labels, takes_negatives
from lookalike.devices import to_device
from lookalike.errors import InputError
from lookalike.images.sources import Entry
from lookalike.images.workers import Outcome, Read, ReadPool
from lookalike.index.queries import CodedQuery, PointQuery
from lookalike.limits import collect_fewer
from lookalike.registry import (
    create,
    parse,
    restore,
    spec_of,
    state_of,
)
from lookalike.scaled_rows import Rows, ScaledRows
from lookalike.types import (
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
"""Memory limit for the rows that a step is fitted on. If rows are long, only the first ones are used."""

DESCRIBE_BATCH = 16
"""Pictures per batch of feature extraction; measured as the fastest for the default network on two cores."""


class Labelled(NamedTuple):
    """The rows that steps which learn from labels are fitted on."""

    ids: Ids  # (m,), ascending
    X: Vectors  # (m, d), of a space's feature
    y: NDArray[Any]  # (m,), one label each; or (m, C), ones and zeros, for steps that use several labels
    unlabelled: Vectors | None = None  # (u, d), for coders that also learn from pictures without labels


class Chain:
    """The steps from pictures to the vectors of one space.

    Parameters
    ----------
    specs : the spec of a feature, then those of transforms; the last can be that of a coder.
    load : loads the fitted steps when they are first needed; None while the chain is not fitted.
    load_feature : loads the feature if it was fitted.
    notes : what the user should know about the fit.
    """

    def __init__(
        self,
        specs: Sequence[str],
        load: Callable[[], Sequence[Any]] | None = None,
        load_feature: Callable[[], Feature] | None = None,
        notes: Sequence[str] = (),
    ):
        self.specs = list(specs)
        self.notes = list(notes)
        self._load = load if len(self.specs) > 1 else list[Any]
        self._load_feature = load_feature

    @property
    def fitted(self) -> bool:
        """Whether all steps are fitted."""
        return self._load is not None

    @cached_property
    def feature(self) -> Feature:
        """The chain's feature. Cheap, because weights are loaded by its first `describe`."""
        feature: Feature = self._load_feature() if self._load_feature else create("feature", self.specs[0])
        return feature

    @cached_property
    def steps(self) -> Sequence[Any]:
        """The fitted steps: the transforms, then the coder if the chain has one."""
        assert self._load is not None, "the chain is not fitted"
        return self._load()

    @property
    def coder(self) -> Coder | None:
        """The fitted coder at the end of the chain; None if the chain has no coder."""
        return self.steps[-1] if self.fitted and is_coder(self.specs[-1]) else None

    @property
    def transforms(self) -> Sequence[Transform]:
        """The fitted transforms."""
        return self.steps if self.coder is None else self.steps[:-1]

    def transform(self, X: Vectors) -> Vectors:
        """Transform vectors (n, d) of the feature to (n, D) float32: the space's vectors, or the input of its coder."""
        if len(X) < 2:
            return self._apply_transforms(X)
        # In chunks, because rows can be much longer between the first step and the last (dfk, then pca).
        parts = chunks(len(X), 4 * self.widest(X[:1]))
        return np.concatenate([self._apply_transforms(X[part]) for part in parts])

    def widest(self, X: Vectors) -> int:
        """The largest number of columns at any step, for rows like X (1, d)."""
        widest = int(X.shape[1])
        for step in self.transforms:
            X = step.transform(X)
            widest = max(widest, int(X.shape[1]))
        return widest

    def _apply_transforms(self, X: Vectors) -> Vectors:
        for step in self.transforms:
            X = step.transform(X)
        return to_numpy(X)

    def encode(self, X: Vectors) -> Rows:
        """Turn vectors of the feature into the rows that the space stores.

        These are codes, or the result of `transform`: as scaled rows, unless the space has its own measure, which can
        depend on small differences.
        """
        X = self.transform(X)
        if self.coder is not None:
            return self.coder.encode(X)
        return X if self.has_own_measure else ScaledRows.encode(X)

    def extract(self, images: Sequence[Pixels]) -> Vectors:
        """Compute vectors of pictures, (n, D) float32: of the space, or of the feature if the chain is not fitted."""
        return self.finish(self.feature.extract(images))

    @property
    def takes_text(self) -> bool:
        """Whether it also computes vectors of texts: its step after the feature is `text`."""
        return takes_text(self.specs)

    def embed_text(self, texts: Sequence[str]) -> Vectors:
        """Compute the vectors of texts, (n, D) float32, comparable to those of pictures; see `extract`."""
        if not self.takes_text:
            raise InputError(f"The chain {' | '.join(self.specs)} has no step for texts. See: lookalike clip --help")
        X: Vectors = self._text_step.encode(texts)
        for step in self.transforms[1:] if self.fitted else ():
            X = step.transform(X)
        return to_numpy(X)

    @cached_property
    def _text_step(self) -> Any:
        return self.steps[0] if self.fitted else create("transform", self.specs[1])

    @property
    def has_own_measure(self) -> bool:
        """Whether the last transform has its own measure, which replaces the Euclidean distance."""
        return self.fitted and len(self.specs) > 1 and hasattr(step_class(self.specs[-1]), "compare")

    def query(self, rows: Vectors) -> Query:
        """The query that finds the nearest neighbours of rows (q, D) of the space."""
        if self.coder is not None:
            return CodedQuery(rows, self.coder.query(rows))
        query: Query = self.transforms[-1].compare(rows) if self.has_own_measure else PointQuery(rows)  # type: ignore[attr-defined]
        return query

    def finish(self, X: Vectors) -> Vectors:
        """Turn vectors (n, d) of the feature into those of `extract`."""
        return self.transform(X) if self.fitted else X


def takes_text(specs: Sequence[str]) -> bool:
    """Whether a chain of specs also computes vectors of texts."""
    return len(specs) > 1 and is_text(specs[1])


ON_GPU = ("dfk", "kernelslem", "lmnn", "ncmc", "ncmml", "pq", "slem")
"""Steps that a GPU fits, because they accept PyTorch tensors and take long."""


def fit(
    specs: Sequence[str],
    X: Vectors,
    negatives: Vectors | None = None,
    labelled: Labelled | None = None,
    gpu: str | None = None,
) -> Chain:
    """Fit the steps of a chain, one after the other, on vectors X (n, d) of its feature.

    Steps that need a pool of negatives are fitted on `negatives` (m, d) if given, steps that learn from labels on the
    `labelled` rows. `gpu` fits the steps in `ON_GPU`. Steps with fewer dimensions than requested add to the `notes` of
    the chain.
    """
    with collect_fewer() as notes:
        fitted = _fit_steps(specs, X, negatives, labelled, gpu)
    return Chain(specs, lambda: fitted, notes=notes)


def _fit_steps(
    specs: Sequence[str], X: Vectors, negatives: Vectors | None, labelled: Labelled | None, gpu: str | None
) -> list[Any]:
    """Fit the steps of `fit`."""
    fitted: list[Any] = []
    for spec in specs[1:]:
        if labelled is not None and takes_labels(spec):
            known = _with_unlabelled(labelled) if is_coder(spec) else (labelled.X, labelled.y)
            step = fit_step(spec, *known, gpu=gpu)
        else:
            step = fit_step(spec, negatives if negatives is not None and takes_negatives(spec) else X, gpu=gpu)
        fitted.append(step)
        if len(fitted) < len(specs) - 1:
            max_rows = max(2, STEP_BYTES // (4 * step.transform(X[:1]).shape[1]))
            X = step.transform(X[:max_rows])
            negatives = None if negatives is None else step.transform(negatives[:max_rows])
            if labelled is not None:
                ids, rows, y, unlabelled = labelled
                unlabelled = None if unlabelled is None else step.transform(unlabelled[:max_rows])
                labelled = Labelled(ids[:max_rows], step.transform(rows[:max_rows]), y[:max_rows], unlabelled)
    return fitted


def fit_step(spec: str, X: Vectors, *y: NDArray[Any], gpu: str | None = None) -> Any:
    """Create a step and fit it, on a GPU if it can; what it has learned is in NumPy arrays."""
    kind = kind_of_step(spec)
    step = create(kind, spec)
    if gpu is None or parse(spec).name not in ON_GPU:
        return step.fit(X, *y)
    step.fit(to_device(X, gpu), *y)
    return restore(kind, spec, state_of(step))


def _with_unlabelled(labelled: Labelled) -> tuple[Vectors, NDArray[Any]]:
    """All rows and their labels, with "" for rows without a label."""
    if labelled.unlabelled is None or not len(labelled.unlabelled):
        return labelled.X, labelled.y
    no_label = np.full(len(labelled.unlabelled), "")
    return np.concatenate([labelled.X, labelled.unlabelled]), np.concatenate([labelled.y.astype(str), no_label])


class PicturePool(Protocol):
    """A pool that reads pictures and extracts their features, on this machine or on others."""

    def map(self, entries: Iterable[Entry]) -> Iterator[Outcome]:
        """Yield the outcome of each entry, in any order.

        The `parts` of a picture that was read are its vectors (d,), one per feature.
        """
        ...


@contextmanager
def read_pool(prepare: Any, *, side: int, workers: int | None) -> Iterator[ReadPool]:
    """Start processes that read pictures at a shorter side of at least `side` and call `prepare` on each.

    Meanwhile BLAS uses one thread in this process: idle BLAS threads spin, and would slow down the readers.
    """
    with SINGLE_BLAS_THREAD, ReadPool(prepare, side=side, workers=workers) as pool:
        yield pool


@contextmanager
def describe_pool(prepare: "Prepare", *, side: int, workers: int | None) -> Iterator[PicturePool]:
    """Start processes that read pictures; this process completes the extraction of their features."""
    with read_pool(prepare, side=side, workers=workers) as pool:
        yield _DescribePool(prepare, pool)


class _DescribePool:
    """Implements `PicturePool` on this machine."""

    def __init__(self, prepare: "Prepare", pool: ReadPool):
        self._prepare, self._pool = prepare, pool

    def map(self, entries: Iterable[Entry]) -> Iterator[Outcome]:
        prepared: list[Read] = []
        for outcome in self._pool.map(entries):
            if not isinstance(outcome, Read):
                yield outcome
                continue
            prepared.append(outcome)
            if len(prepared) == DESCRIBE_BATCH:
                yield from self._describe(prepared)
                prepared = []
        if prepared:
            yield from self._describe(prepared)

    def _describe(self, prepared: Sequence[Read]) -> Iterator[Read]:
        columns = self._prepare.finish([read.parts for read in prepared])
        return (replace(read, parts=list(rows)) for read, *rows in zip(prepared, *columns, strict=True))


class Prepare:
    """The part of feature extraction that runs in the reading processes, for several features.

    It calls `prepare`, and also `describe` if a feature processes pictures one by one. A feature is sent to a process
    as its spec and its learned arrays.

    Parameters
    ----------
    features : the features to extract.
    recognizer : one of them, which also returns the kinds of a picture; None: no kinds.

    """

    def __init__(self, features: Sequence[Feature], recognizer: Feature | None = None):
        self._features = list(features)
        self._recognizer = recognizer

    def __call__(self, image: Pixels) -> list[Prepared]:
        """Return the input of `finish` for one picture, for each feature."""
        prepared = [feature.prepare(image) for feature in self._features]
        return [
            feature.describe([part])[0] if feature.by_picture else part
            for feature, part in zip(self._features, prepared, strict=True)
        ]

    def finish(self, parts: Sequence[Sequence[Prepared]]) -> list[Vectors]:
        """Complete the extraction in the calling process: from n prepared pictures to (n, dim) for each feature.

        The kinds (n, 48) follow if there is a recognizer.
        """
        found, kinds = [], []
        for feature, column in zip(self._features, zip(*parts, strict=True), strict=True):
            if feature is self._recognizer:
                rows, codes = feature.recognize(column)  # type: ignore[attr-defined]
                found.append(rows)
                kinds.append(codes)
            else:
                found.append(np.stack(column) if feature.by_picture else feature.describe(column))
        return found + kinds

    def __reduce__(self) -> tuple[Any, ...]:
        place = None if self._recognizer is None else self._features.index(self._recognizer)
        return _restore_prepare, ([(spec_of(feature), state_of(feature)) for feature in self._features], place)


def _restore_prepare(specs_and_states: list[tuple[str, dict[str, NDArray[Any]]]], recognizer: int | None) -> Prepare:
    features: list[Feature] = [restore("feature", spec, state) for spec, state in specs_and_states]
    return Prepare(features, None if recognizer is None else features[recognizer])


class _SingleBlasThread:
    """A context in which BLAS uses one thread. The limit belongs to the process, so nested contexts are counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = threadpool_limits(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


SINGLE_BLAS_THREAD = _SingleBlasThread()
"""The only instance; several threads can be inside at the same time."""
