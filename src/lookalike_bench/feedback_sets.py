"""The sets of the feedback bench, as vectors.

In: a name of `SETS`, the data folder. Out: vectors and labels, made once a process. The paper's 52 hardest COIL objects
are not named: ours are those with the lowest leave-one-out mAP by the classic descriptor.
"""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from lookalike.encode.whiten import PCA
from lookalike.types import Progress, silent
from lookalike_bench import datasets, retrieval
from lookalike_bench.datasets import Described
from lookalike_bench.described import describe

HARDEST = 52
"""Objects of COIL-100 that are kept."""
_MADE: dict[tuple[Path, str], Described] = {}


def vectors(name: str, folder: Path, progress: Progress = silent) -> Described:
    """A set of `SETS`."""
    if (folder, name) not in _MADE:
        _MADE[folder, name] = SETS[name](folder, progress)
    return _MADE[folder, name]


def _corel(recipe: str) -> Callable[[Path, Progress], Described]:
    return lambda folder, progress: Described(*describe("corel5k", recipe, folder, progress)[:2])


def _coil(recipe: str) -> Callable[[Path, Progress], Described]:
    def make(folder: Path, progress: Progress) -> Described:
        hardest = _hardest(folder, progress)
        X, labels, _ = describe("coil100", recipe, folder, progress)
        kept = np.isin(labels, hardest)
        return Described(X[kept], labels[kept])

    return make


def _hardest(folder: Path, progress: Progress) -> list[str]:
    X, labels, _ = describe("coil100", "classic", folder, progress)
    rows = np.arange(len(X))
    value = retrieval.COLUMNS["corel1k"].value  # mAP with the query left out
    values = retrieval.rank(X, labels, value, progress, queries=rows, database=rows)
    objects = np.unique(labels)
    by_object = np.array([values[labels == name].mean() for name in objects])
    return [str(name) for name in objects[np.argsort(by_object, kind="stable")[:HARDEST]]]


def _mnist(folder: Path, progress: Progress) -> Described:  # noqa: ARG001
    X, labels = datasets.mnist(folder)
    return Described(PCA(dim=64).fit(X).transform(X), labels)


SETS: dict[str, Callable[[Path, Progress], Described]] = {
    "coil100": _coil("deep"),
    "corel5k": _corel("deep"),
    "mnist": _mnist,
    "coil100-classic": _coil("classic"),
    "corel5k-classic": _corel("classic"),
}
"""By their default or by their classic recipe; of mnist, 64 dimensions of its pixels by PCA."""
