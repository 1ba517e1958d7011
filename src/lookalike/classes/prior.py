"""A hierarchy of classes, and the means it lends to classes with few images or none.

In: pairs child, parent or nested names; class means and counts. Out: means. Mensink et al., "Large scale metric
learning for distance-based image classification on open ended data sets", 2013 (ncm), Eq. 33 and 34.
"""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

import array_api_compat
import numpy as np
from numpy.typing import NDArray
from scipy.cluster.hierarchy import fcluster, linkage

from lookalike.arrays import as_numpy, like, namespace
from lookalike.classes.moments import sum_groups
from lookalike.errors import InputError
from lookalike.types import Array

BRANCHES = 4
"""How many groups a group of `cluster_hierarchy` has, about: each level has a fourth of the groups of the one below."""


class Hierarchy:
    """Which class is a kind of which: a tree, or any graph without circles, where a child has several parents.

    Parameters
    ----------
    pairs : (child, parent) names, in any order. A class need not be a leaf, nor be in any pair.

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
            raise InputError(f"A hierarchy must be pairs of names, (child, parent). Got {pairs!r:.80}.") from None
        for child, parent in named:
            known = self.parents.setdefault(child, [])
            if parent not in known:
                known.append(parent)
        self._check_circles()

    @classmethod
    def from_names(cls, names: Iterable[str], separator: str = "/") -> Self:
        """From nested names, as a tree of folders has them: "a/b/c" is a kind of "a/b", and that one of "a"."""
        pairs = {}
        for name in names:
            parts = str(name).split(separator)
            for i in range(len(parts) - 1, 0, -1):
                pairs[separator.join(parts[: i + 1])] = separator.join(parts[:i])
        return cls(pairs.items())

    @classmethod
    def from_csv(cls, path: str | Path) -> Self:
        """From a file with the lines child,parent; a first line that says just that is passed over."""
        with Path(path).open(newline="", encoding="utf-8-sig") as stream:
            rows = [(i, [cell.strip() for cell in row]) for i, row in enumerate(csv.reader(stream), 1) if any(row)]
        if rows and [cell.lower() for cell in rows[0][1]] == ["child", "parent"]:
            rows = rows[1:]
        for i, row in rows:
            if len(row) != 2 or not all(row):
                raise InputError(f"Each line of {path} must be child,parent. Got {','.join(row)!r} in line {i}.")
        return cls((row[0], row[1]) for _, row in rows)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every (child, parent)."""
        return [(child, parent) for child, found in self.parents.items() for parent in found]

    def ancestors(self, name: str) -> list[str]:
        """All that this class is a kind of, nearest first."""
        found: dict[str, None] = {}
        level = self.parents.get(str(name), [])
        while level:
            found.update(dict.fromkeys(level))
            level = [parent for one in level for parent in self.parents.get(one, []) if parent not in found]
        return list(found)

    def renamed(self, old: str, new: str) -> "Hierarchy":
        """The same with another name for one class."""
        return Hierarchy(tuple(new if name == old else name for name in pair) for pair in self.pairs)  # type: ignore[misc]

    def _check_circles(self) -> None:
        done: set[str] = set()
        for start in self.parents:
            path: list[str] = []  # from `start` to where we are
            stack = [(start, 0)]
            while stack:
                name, depth = stack.pop()
                del path[depth:]
                if name in path:
                    raise InputError(f"A hierarchy must have no circle. Got {' → '.join([*path, name])}.")
                if name not in done:
                    done.add(name)
                    path.append(name)
                    stack += [(parent, depth + 1) for parent in self.parents.get(name, [])]


def prior_means(
    hierarchy: Hierarchy, labels: Sequence[str], means: Array, counts: NDArray[np.int64]
) -> tuple[Array, NDArray[np.bool_]]:
    """The zero-shot mean μ_z of each class (Eq. 33), (C, d), and which classes have one, (C,).

    It is the average of the means of all ancestors of the class, and the mean of an ancestor that of the means of the
    classes with images below it, and its own where it has images. A class never counts for its own prior; ancestors
    with no other class below say nothing.

    >>> tree = Hierarchy.from_names(["animal/cat", "animal/dog", "animal/fox"])
    >>> means, known = prior_means(tree, ["animal/cat", "animal/dog", "animal/fox"], np.array([[1.0], [3.0], [0.0]]),
    ...                            np.array([5, 5, 0]))
    >>> means.ravel().tolist(), known.tolist()
    ([3.0, 1.0, 2.0], [True, True, True])
    """
    xp = namespace(means)
    lines = [hierarchy.ancestors(label) for label in labels]
    place = {name: i for i, name in enumerate(dict.fromkeys(name for line in lines for name in line))}
    A, C = len(place), len(labels)
    seen = counts > 0
    kept = means * like(means, seen.astype(np.float64))[:, None]  # (C, d)
    below = np.zeros(A + 1, np.int64)  # the last one stands for no ancestor
    sums = xp.zeros((A + 1, means.shape[1]), dtype=means.dtype, device=array_api_compat.device(means))
    up = np.full((C, 1 + max(map(len, lines), default=0)), A)  # (C, depth): the class itself, then its ancestors
    for c, (label, line) in enumerate(zip(labels, lines, strict=True)):
        up[c, : 1 + len(line)] = [place.get(label, A), *map(place.__getitem__, line)]
    for level in up.T:  # means travel up
        sums = sums + sum_groups(kept, level, A + 1)
        below += np.bincount(level, seen, A + 1).astype(np.int64)
    total, voices = xp.zeros_like(kept), np.zeros(C, np.int64)
    for level in up.T[1:]:  # and come down
        others = np.where(level < A, below[level] - seen, 0)  # (C,)
        share = like(means, (others > 0) / np.maximum(others, 1))
        total = total + (sums[like(means, level)] - kept) * share[:, None]
        voices += others > 0
    return total / like(means, np.maximum(voices, 1).astype(np.float64))[:, None], voices > 0


def map_means(means: Array, counts: NDArray[np.int64], prior: Array, weight: float) -> Array:
    """The MAP mean μ_p = (n μ_s + m μ_z) / (n + m) of Eq. 34, (C, d); `weight`, above 0, is m, in images.

    >>> map_means(np.array([[4.0], [4.0]]), np.array([0, 30]), np.array([[0.0], [0.0]]), weight=10.0).ravel().tolist()
    [0.0, 3.0]
    """
    share = like(means, counts / (counts + weight))[:, None]  # (C, 1)
    return share * means + (1 - share) * prior


def cluster_hierarchy(means: Array, labels: Sequence[str]) -> Hierarchy:
    """A hierarchy for classes that come without: groups of near means (C, d), by Ward's method, and groups of groups.

    Each level is a cut of one tree, with a fourth of the groups of the level below, up to one group of all. O(C²).

    >>> means = np.array([[0.0], [1.0], [8.0], [9.0], [20.0], [21.0], [30.0], [31.0]])
    >>> tree = cluster_hierarchy(means, list("abcdefgh"))
    >>> tree.ancestors("a"), tree.ancestors("h")
    (['group 1.1', 'group 2.1'], ['group 1.2', 'group 2.1'])
    """
    C = len(labels)
    if tuple(means.shape[:1]) != (C,) or C < 2:
        raise InputError(f"means must be those of at least 2 labels. Got {tuple(means.shape)} for {C}.")
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
