"""A hierarchy of classes, and prior means for classes with few images or none.

Mensink et al., "Large scale metric learning for distance-based image classification on open ended data sets", 2013
(ncm), Eq. 33 and 34. SciPy takes a third of a second to import, so it is imported on first use.
"""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, like
from lookalike.errors import InputError
from lookalike.types import Array

DENSE = 0.05
"""Share of non-zero entries above which a matrix is stored as dense: in long chains of classes it is a half."""
BRANCHES = 4
"""Average number of children of a group of `cluster_hierarchy`."""


class Ancestry(NamedTuple):
    """The ancestors of C classes, A names in total."""

    of: NDArray[np.int64]  # (p,) the class of each pair
    above: NDArray[np.int64]  # (p,) an ancestor of it
    below: Any  # (A, C) 1 for the ancestor itself and the classes below it


class Hierarchy:
    """A hierarchy of classes: a tree, or any acyclic graph, in which a child can have several parents.

    Parameters
    ----------
    pairs : (child, parent) names, in any order. A class can be an inner node, and need not occur in a pair.

    Examples
    --------
    >>> Hierarchy([("cat", "animal"), ("dog", "animal"), ("animal", "thing")]).ancestors("cat")
    ['animal', 'thing']
    >>> Hierarchy.from_names(["animal/cat", "animal/dog/spaniel"]).ancestors("animal/dog/spaniel")
    ['animal/dog', 'animal']

    """

    def __init__(self, pairs: Iterable[tuple[str, str]]):
        self.parents: dict[str, list[str]] = {}
        try:
            named = [(str(child), str(parent)) for child, parent in pairs]
        except (TypeError, ValueError):
            raise InputError(
                f"A hierarchy must consist of pairs of names, (child, parent). Got {pairs!r:.80}."
            ) from None
        for child, parent in named:
            known = self.parents.setdefault(child, [])
            if parent not in known:
                known.append(parent)
        self._ancestry: tuple[list[str], Ancestry] | None = None  # cached for the labels of the last call
        self._check_cycles()

    @classmethod
    def from_names(cls, names: Iterable[str], separator: str = "/") -> Self:
        """Create a hierarchy from nested names, such as folders: "a/b/c" is a kind of "a/b", which is a kind of "a"."""
        pairs = {}
        for name in names:
            parts = str(name).split(separator)
            for i in range(len(parts) - 1, 0, -1):
                pairs[separator.join(parts[: i + 1])] = separator.join(parts[:i])
        return cls(pairs.items())

    @classmethod
    def from_csv(cls, path: str | Path) -> Self:
        """Create a hierarchy from a CSV file with lines child,parent; the header line is optional."""
        with Path(path).open(newline="", encoding="utf-8-sig") as stream:
            rows = [(i, [cell.strip() for cell in row]) for i, row in enumerate(csv.reader(stream), 1) if any(row)]
        if rows and [cell.lower() for cell in rows[0][1]] == ["child", "parent"]:
            rows = rows[1:]
        for i, row in rows:
            if len(row) != 2 or not all(row):
                raise InputError(f"Each line of {path} must be child,parent. Got {','.join(row)!r} on line {i}.")
        return cls((row[0], row[1]) for _, row in rows)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """All pairs (child, parent)."""
        return [(child, parent) for child, found in self.parents.items() for parent in found]

    def ancestors(self, name: str) -> list[str]:
        """Return the ancestors of this class, nearest first."""
        found: dict[str, None] = {}
        level = self.parents.get(str(name), [])
        while level:
            found.update(dict.fromkeys(level))
            level = [parent for one in level for parent in self.parents.get(one, []) if parent not in found]
        return list(found)

    def ancestry(self, labels: Sequence[str]) -> Ancestry:
        """Return the ancestors of these C classes; cached for the next call with the same labels."""
        if self._ancestry is None or self._ancestry[0] != list(labels):
            lines = [self.ancestors(label) for label in labels]
            place = {name: i for i, name in enumerate(dict.fromkeys(name for line in lines for name in line))}
            above = np.fromiter((place[name] for line in lines for name in line), np.int64)
            of = np.repeat(np.arange(len(labels)), [len(line) for line in lines])
            own = np.array([(place[name], c) for c, name in enumerate(labels) if name in place], np.int64).reshape(
                -1, 2
            )
            rows, columns = np.concatenate([above, own[:, 0]]), np.concatenate([of, own[:, 1]])
            below = _matrix(rows, columns, np.ones(len(rows)), (len(place), len(labels)))
            self._ancestry = list(labels), Ancestry(of, above, below)
        return self._ancestry[1]

    def renamed(self, old: str, new: str) -> "Hierarchy":
        """Return a copy with another name for one class."""
        return Hierarchy(tuple(new if name == old else name for name in pair) for pair in self.pairs)  # type: ignore[misc]

    def _check_cycles(self) -> None:
        done: set[str] = set()
        for start in self.parents:
            path: list[str] = []  # from `start` to `name`
            stack = [(start, 0)]
            while stack:
                name, depth = stack.pop()
                del path[depth:]
                if name in path:
                    raise InputError(f"A hierarchy must have no cycle. Got {' → '.join([*path, name])}.")
                if name not in done:
                    done.add(name)
                    path.append(name)
                    stack += [(parent, depth + 1) for parent in self.parents.get(name, [])]


def prior_means(
    hierarchy: Hierarchy, labels: Sequence[str], means: Array, counts: NDArray[np.int64]
) -> tuple[Array, NDArray[np.bool_]]:
    """Return the zero-shot mean μ_z of each class (Eq. 33), (C, d), and whether each class has one, (C,).

    μ_z is the average of the means of the ancestors of the class. The mean of an ancestor is the average of the means
    of the classes with images below it, and of its own if it has images. A class does not contribute to its own prior,
    and ancestors without another class below them are not used.

    >>> tree = Hierarchy.from_names(["animal/cat", "animal/dog", "animal/fox"])
    >>> means, known = prior_means(tree, ["animal/cat", "animal/dog", "animal/fox"], np.array([[1.0], [3.0], [0.0]]),
    ...                            np.array([5, 5, 0]))
    >>> means.ravel().tolist(), known.tolist()
    ([3.0, 1.0, 2.0], [True, True, True])
    """
    C, seen = len(labels), (counts > 0).astype(np.float64)
    kept = as_numpy(means) * seen[:, None]  # (C, d)
    of, above, below = hierarchy.ancestry(labels)
    others = (below @ seen)[above] - seen[of]
    share = np.where(others > 0, 1 / np.maximum(others, 1), 0.0)
    # Sum over ancestors, (A, d), then back to classes, (C, d), minus the share of the class itself.
    total = _matrix(of, above, share, below.shape[::-1]) @ (below @ kept) - np.bincount(of, share, C)[:, None] * kept
    counted = np.bincount(of[others > 0], minlength=C)  # number of ancestors used
    return like(means, total / np.maximum(counted, 1)[:, None]), counted > 0


def _matrix(
    rows: NDArray[np.int64], columns: NDArray[np.int64], values: NDArray[np.float64], shape: tuple[int, int]
) -> Any:
    """Return the matrix with these entries, zero elsewhere; dense or sparse, whichever multiplies faster."""
    if len(rows) <= DENSE * shape[0] * shape[1]:
        from scipy.sparse import csr_array

        return csr_array((values, (rows, columns)), shape=shape)
    made = np.zeros(shape)
    made[rows, columns] = values
    return made


def map_means(means: Array, counts: NDArray[np.int64], prior: Array, weight: float) -> Array:
    """Return the MAP mean μ_p = (n μ_s + m μ_z) / (n + m) of Eq. 34, (C, d); `weight`, above 0, is m, in images.

    >>> map_means(np.array([[4.0], [4.0]]), np.array([0, 30]), np.array([[0.0], [0.0]]), weight=10.0).ravel().tolist()
    [0.0, 3.0]
    """
    share = like(means, counts / (counts + weight))[:, None]  # (C, 1)
    return share * means + (1 - share) * prior


def cluster_hierarchy(means: Array, labels: Sequence[str]) -> Hierarchy:
    """Cluster classes by their means (C, d) with Ward's method, and return the clusters as a hierarchy.

    Each level is a cut of the same tree, with a quarter as many groups as the level below, up to a single group. O(C²).

    >>> means = np.array([[0.0], [1.0], [8.0], [9.0], [20.0], [21.0], [30.0], [31.0]])
    >>> tree = cluster_hierarchy(means, list("abcdefgh"))
    >>> tree.ancestors("a"), tree.ancestors("h")
    (['group 1.1', 'group 2.1'], ['group 1.2', 'group 2.1'])
    """
    from scipy.cluster.hierarchy import fcluster, linkage

    C = len(labels)
    if tuple(means.shape[:1]) != (C,) or C < 2:
        raise InputError(
            f"means must have one row per label, for at least 2 labels. Got shape {tuple(means.shape)} for {C} labels."
        )
    tree = linkage(as_numpy(means).astype(np.float64), "ward")
    pairs, names, groups = [], [str(label) for label in labels], C
    level = 0
    while groups > 1:
        level, groups = level + 1, max(1, groups // BRANCHES)
        cut = fcluster(tree, groups, "maxclust")  # (C,)
        above = [f"group {level}.{g}" for g in cut]
        pairs += list(dict.fromkeys(zip(names, above, strict=True)))
        names = above
    return Hierarchy(pairs)
