"""Sets with a training and a test part, as vectors: what classifiers are measured on.

In: a name such as "corel5k-deep", the data folder. Out: rows of length one (pixels of mnist: from 0 to 1) and labels of
both parts. Features are the first stage of the recipe of that name; vocabularies of fisher are learned, without labels,
from a sample of all pictures of the set, as a collection does.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.encode.whiten import L2
from lookalike.errors import UnknownNameError
from lookalike.types import Progress, Vectors, silent
from lookalike_bench import datasets
from lookalike_bench.described import base, describe

Labels = NDArray[np.str_]
Rows = NDArray[np.intp]
SETS = ("mnist", "cifar10-deep", "cifar10-fisher", "corel5k-deep", "corel5k-fisher")


class Parts(NamedTuple):
    """What is learned from, and what is asked."""

    X: Vectors  # (n, d)
    y: Labels  # (n,)
    X_test: Vectors  # (m, d)
    y_test: Labels  # (m,)


def parts(name: str, folder: Path, progress: Progress = silent) -> Parts:
    """Of a set of `SETS`: mnist and cifar10 have their own test, of corel5k it is a half of each class by lot."""
    if name not in SETS:
        raise UnknownNameError("set", name, SETS)
    if name == "mnist":
        return Parts(*datasets.mnist(folder), *datasets.mnist(folder, test=True))
    X, y, names = rows(name, folder, progress)
    if name.startswith("corel5k"):
        train, test = halves(y)
    else:
        train, test = (np.flatnonzero(np.char.startswith(names, part)) for part in ("train/", "test/"))
    return Parts(X[train], y[train], X[test], y[test])


def rows(name: str, folder: Path, progress: Progress = silent) -> tuple[Vectors, Labels, Labels]:
    """Rows (n, d) of length one, labels and names of all pictures of a set such as "ukbench2000-deep", by name."""
    kind, _, recipe = name.rpartition("-")
    X, labels, names = describe(kind, base(recipe), folder, progress)
    order = np.argsort(names)
    return L2().transform(X)[order], labels[order], names[order]


def halves(y: Labels) -> tuple[Rows, Rows]:
    """Row numbers of two halves of each class, by a lot that is always the same; the first has the odd one.

    >>> [len(half) for half in halves(np.array(["a"] * 3 + ["b"] * 2))]
    [3, 2]
    """
    random = np.random.default_rng(0)
    first, second = [], []
    for label in datasets.classes(y):
        members = random.permutation(np.flatnonzero(y == label))
        at = (len(members) + 1) // 2
        first.append(members[:at])
        second.append(members[at:])
    return np.sort(np.concatenate(first)), np.sort(np.concatenate(second))


def check(name: str, folder: Path) -> None:
    """Refuse a set that is not below the folder."""
    kind = name.split("-")[0]
    datasets.check(kind, folder)
    if kind == "mnist":
        datasets.check("mnist-test", folder)
