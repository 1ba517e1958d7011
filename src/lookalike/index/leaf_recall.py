"""The recall of `Leaves`, measured when they are built: how far a search has to go to find the promised results.

A search expects hits in a leaf from the mean and the spread of f there. How many there are, depends on the collection:
real rows are farther from the mean than in a normal distribution. So `calibrate` measures two things on hyperplanes
between rows of the collection: the share of hits by the position of a leaf, its law, and the recall of searches by the
limit at which they stop. It chooses limits whose recall is at least that of `PROMISED`.
"""

from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr
from sklearn.isotonic import isotonic_regression
from sklearn.svm import SVC

from lookalike.errors import DamagedError, NoDirectionError
from lookalike.index.queries import HyperplaneQuery, Kind
from lookalike.kernels import KERNELS, typical_gamma
from lookalike.mapped_arrays import open_arrays
from lookalike.types import Ids, Progress, Vectors

Numbers = NDArray[np.float64]

PROMISED = {"fast": 0.85, "balanced": 0.95}
"""Recall that each effort promises: the share of the k best rows."""

KINDS: tuple[Kind, ...] = ("frontier", "maximum")

FAMILIES = ("gaussian", "laplace")
"""Kernels that are measured: a smooth one, and one with a peak at each support vector."""

PEAKED = ("laplace", "angular")
"""Kernels with a peak at each support vector, without the norm in their name."""

QUERIES, K = 32, 50
"""Number of hyperplanes per family, and of hits per query."""

POSITIVE, NEGATIVE, C = 15, 35, 10.0
"""Similar rows, and others, that a hyperplane separates; and the cost of a row on the wrong side."""

LIMITS = (0.25, 0.2, 0.15, 0.1, 0.07, 0.05, 0.03, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Candidates for the share of the hits that a search expects to miss, in descending order."""

POSITIONS = np.linspace(-24, 24, 193)
"""Positions of leaves for which a law is stored."""

SAMPLE = 2 * len(POSITIONS) + 1
"""Length of a `Sample` as numbers."""

RECORD = len(FAMILIES) * QUERIES * (POSITIVE + len(KINDS) * (SAMPLE + len(LIMITS) * K))
"""Maximum length of the record of a calibration, from which an interrupted build resumes."""

HITS = {"frontier": 1_000, "maximum": 200}
"""Number of rows of a query that count as hits for the law."""

Z = 1.96
"""Standard errors on each side of a 95 % interval."""


class Limit(NamedTuple):
    """The end of a search for one family, kind and effort."""

    missed: float  # share of the hits that are expected in the remaining leaves
    recall: float  # measured; NaN if it was not
    low: float  # of a 95 % interval
    high: float


class Recall(NamedTuple):
    """The calibration of an index: (families, kinds, …) arrays."""

    laws: Numbers  # (families, kinds, positions) see `expect`
    limits: Numbers  # (families, kinds, efforts, 4) the fields of `Limit`

    def law(self, query: HyperplaneQuery) -> Numbers:
        """The law of a query, (positions,), for `expect`."""
        law: Numbers = self.laws[_family(query.kernel), KINDS.index(query.kind)]
        return law

    def limit(self, query: HyperplaneQuery, effort: str) -> Limit:
        """The end of a search."""
        row = self.limits[_family(query.kernel), KINDS.index(query.kind), list(PROMISED).index(effort)]
        return Limit(*map(float, row))

    def lowest(self) -> dict[str, float] | None:
        """The measured recall of each effort, the lowest over families and kinds; None if it was not measured."""
        lowest = self.limits[..., 1].min(axis=(0, 1))
        return None if np.isnan(lowest).any() else dict(zip(PROMISED, map(float, lowest), strict=True))

    def to_lists(self) -> list[Any]:
        """The numbers, for JSON."""
        return [self.laws.tolist(), self.limits.tolist()]

    @classmethod
    def from_lists(cls, lists: list[Any]) -> Self:
        """Read the result of `to_lists`."""
        return cls(*(np.array(one, np.float64) for one in lists))


def uncalibrated(recall: float = np.nan) -> Recall:
    """Laws of normally distributed rows, and limits that were used before recall was measured."""
    density = np.exp(-(POSITIONS**2) / 2) / np.sqrt(2 * np.pi)
    laws = np.stack([density, ndtr(-POSITIONS)])  # (kinds, positions)
    limits = np.full((len(FAMILIES), len(KINDS), len(PROMISED), len(Limit._fields)), recall)
    limits[..., 0] = [0.1, 0.03]
    return Recall(np.stack([laws] * len(FAMILIES)), limits)


def read_recall(path: Path) -> dict[str, float] | None:
    """The measured recall of each effort of saved leaves; None if the file is missing, or of an older version."""
    with suppress(DamagedError, ValueError, KeyError, TypeError, IndexError):
        return Recall.from_lists(open_arrays(path)[1]["recall"]).lowest()
    return None


def place(kind: Kind, kth: float, f: Vectors, spread: Vectors) -> tuple[Vectors, Vectors | float]:
    """Positions of leaves with this mean and spread of f relative to the k-th score, and the factors of their law.

    The share of the rows of a leaf that are hits is its law times its factor. At the frontier, the law is the density
    of f at 0, in spreads; the factor is the width of the range of hits. For the maximum, it is the share beyond the
    k-th score.
    """
    if kind == "frontier":
        return f / spread, np.float32(2 * kth) / spread
    return (np.float32(-kth) - f) / spread, 1.0


def expect(law: Numbers, kind: Kind, kth: float, f: Vectors, spread: Vectors) -> Numbers:
    """The expected share of the rows of leaves with this mean and spread of f that are better than the k-th score.

    >>> law = uncalibrated().laws[0, 1]
    >>> expect(law, "maximum", -1.0, np.float32([1.0]), np.float32([0.5])).tolist()
    [0.5]
    """
    positions, factors = place(kind, kth, f, spread)
    expected: Numbers = np.minimum(np.interp(positions, POSITIONS, law) * factors, 1.0)
    return expected


class Sample(NamedTuple):
    """What a calibration needs to know about a query."""

    hits: Numbers  # (positions,) number of hits in leaves at this position
    base: Numbers  # (positions,) the number if all rows were hits, times the factor of the leaf
    kth: float  # the score of the last hit of an exact search

    @classmethod
    def of(cls, kind: Kind, kth: float, scores: Vectors, f: Vectors, spread: Vectors, counts: Ids) -> "Sample":
        """Count the rows of leaves, scores (m, size), where f has this mean and spread, (m,) each."""
        limit = float(np.partition(scores, HITS[kind], axis=None)[HITS[kind]]) if scores.size > HITS[kind] else kth
        positions, factors = place(kind, limit, f, spread)
        step = POSITIONS[1] - POSITIONS[0]
        bins = np.rint((np.clip(positions, POSITIONS[0], POSITIONS[-1]) - POSITIONS[0]) / step).astype(np.int64)
        found = np.count_nonzero(scores < limit, axis=1)
        hits, base = (np.bincount(bins, part, len(POSITIONS)) for part in (found, counts * factors))
        return cls(hits.astype(np.float64), base.astype(np.float64), kth)

    @classmethod
    def from_numbers(cls, numbers: Numbers) -> "Sample":
        """Read the result of `to_numbers`."""
        hits, base = numbers[:-1].reshape(2, -1)
        return cls(hits, base, float(numbers[-1]))

    def to_numbers(self) -> Numbers:
        """All numbers, (SAMPLE,), for the record of a calibration."""
        return np.hstack(self)


class Measured(NamedTuple):
    """A query of a calibration, with its sample of each kind."""

    query: HyperplaneQuery
    is_broad: bool  # whether it separates a broad group of rows, not only the nearest ones
    samples: dict[Kind, Sample]


class Calibrated(Protocol):
    """The parts of an index that `calibrate` needs."""

    def draw(self, random: np.random.Generator, *, broad: bool) -> tuple[Vectors, Vectors]:
        """Draw the nearest rows to a random one, or rows of its cell, and random rows of the whole collection."""
        ...

    def examine(self, query: HyperplaneQuery) -> dict[Kind, Sample]:
        """Score all rows; return a sample of each kind."""
        ...

    def scores(self, query: HyperplaneQuery, recall: Recall) -> Vectors:
        """Return the scores of the `K` hits of a search with the effort "balanced" and this calibration."""
        ...


def calibrate(index: Calibrated, progress: Progress) -> Recall:
    """Measure laws and choose limits."""
    made = uncalibrated()
    for family, kernel in enumerate(FAMILIES):
        measured: list[Measured] = []
        for query, is_broad in _hyperplanes(kernel, index):
            progress("measuring recall", family * QUERIES + len(measured), len(FAMILIES) * QUERIES)
            measured.append(Measured(query, is_broad, index.examine(query)))
        for kind, name in enumerate(KINDS):
            if not measured:  # all rows are equal, and equally good
                made.limits[family, kind, :, 1:] = 1
            else:
                made.laws[family, kind] = _law(name, [one.samples[name] for one in measured])
                made.limits[family, kind] = _choose(index, measured, name, made, family)
    return made


def _choose(index: Calibrated, measured: list[Measured], kind: Kind, made: Recall, family: int) -> list[Limit]:
    """The largest limit of each effort with the promised recall for near and for broad groups of rows."""

    @cache
    def measure(missed: float) -> Limit:
        """The recall of the harder of both groups."""
        made.limits[family, KINDS.index(kind), :, 0] = missed
        groups: list[list[float]] = [[], []]
        for one in measured:
            scores = index.scores(one.query.of_kind(kind), made)
            groups[one.is_broad].append(_recall(scores, one.samples[kind].kth))
        shares = min((group for group in groups if group), key=np.mean)
        mean, error = float(np.mean(shares)), float(np.std(shares)) / len(shares) ** 0.5
        return Limit(missed, mean, max(0.0, mean - Z * error), min(1.0, mean + Z * error))

    return [
        next((limit for limit in map(measure, LIMITS) if limit.low >= promised), None) or measure(LIMITS[-1])
        for promised in PROMISED.values()
    ]


def _hyperplanes(kernel: str, index: Calibrated) -> Iterator[tuple[HyperplaneQuery, bool]]:
    """SVMs of similar rows against others, as in feedback; every second group is broad."""
    random = np.random.default_rng(0)
    for i in range(QUERIES):
        broad = i % 2 > 0
        near, others = index.draw(random, broad=broad)
        X = np.concatenate([near, others]).astype(np.float64)  # (m, d)
        gamma = typical_gamma(kernel, X) * (2.0 if kernel == "gaussian" else 1.0)
        svm = SVC(C=C, kernel="precomputed", class_weight="balanced")
        svm.fit(KERNELS[kernel].pairs(X, X, gamma), np.repeat([1, -1], [len(near), len(others)]))
        with suppress(NoDirectionError):  # all rows are equal
            bias = float(svm.intercept_[0])
            yield HyperplaneQuery(X[svm.support_], svm.dual_coef_[0], bias, kernel=kernel, gamma=gamma), broad


def _law(kind: Kind, samples: list[Sample]) -> Numbers:
    """The share of hits by position: it falls with the distance from the hyperplane, or from the k-th score."""
    hits, base = (np.sum([getattr(sample, name) for sample in samples], axis=0) for name in ("hits", "base"))
    shares, weights = hits / np.maximum(base, 1e-9), base + 1e-9
    middle = 0 if kind == "maximum" else len(POSITIONS) // 2
    rising = isotonic_regression(shares[:middle], sample_weight=weights[:middle]) if middle else []
    falling = isotonic_regression(shares[middle:], sample_weight=weights[middle:], increasing=False)
    return np.append(rising, falling)


def _recall(scores: Vectors, kth: float) -> float:
    """The share of the scores that are at most the k-th of an exact search; equal rows are equally good."""
    return float(np.mean(scores <= kth + 1e-6 * abs(kth)))


def _family(kernel: str) -> int:
    return int(kernel.partition("-")[0] in PEAKED)
