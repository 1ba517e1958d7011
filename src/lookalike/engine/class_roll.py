"""Who is in which class, in arrays: what people said of pictures that are here, and of those that are not.

In: pairs of item and class as they come and go. Out: the same, sorted, in a form that a file can hold and that costs
little to change: a million labels are two arrays, not a million sets.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.types import Ids

Codes = NDArray[np.int64]
Pair = tuple[int, int]
"""An item and the number of a class."""


class Pairs(NamedTuple):
    """Some (item, class), one a row."""

    items: Ids
    codes: Codes

    def __len__(self) -> int:
        return len(self.items)


class Roll:
    """All that people said, sorted by item and class, and which of it counts: of pictures that are here.

    Parameters
    ----------
    items, codes : (n,) int64 each, as numbers of classes; sorted, each pair once.
    here : (n,) bool, whether a row of the item is in the model.
    names : of the classes by their number, and of what else has one; a number is never used again.

    Examples
    --------
    >>> roll = Roll.of([(7, "owl"), (3, "cat"), (7, "cat")])
    >>> roll.items.tolist(), [roll.names[code] for code in roll.codes]
    ([3, 7, 7], ['cat', 'owl', 'cat'])
    >>> roll.hear([(3, "cat", False), (9, "fox", True), (9, "fox", True)])  # was not in the model
    Pairs(items=array([], dtype=int64), codes=array([], dtype=int64))
    >>> roll.items.tolist()
    [7, 7, 9]

    """

    def __init__(self, items: Ids, codes: Codes, here: NDArray[np.bool_], names: Sequence[str]):
        self.items = items
        self.codes = codes
        self.here = here
        self.names = list(names)
        self._numbers = {name: code for code, name in enumerate(self.names)}

    def __len__(self) -> int:
        return len(self.items)

    @classmethod
    def of(cls, pairs: Iterable[tuple[int, str]]) -> Self:
        """What was said, (item, name) each; none of it is in a model yet."""
        none = np.empty(0, np.int64)
        roll = cls(none, none, np.empty(0, bool), [])
        roll._put([(item, roll.code(name)) for item, name in pairs])
        return roll

    def code(self, name: str) -> int:
        """The number of a class, or of a name of the hierarchy; the same for good."""
        if name not in self._numbers:
            self._numbers[name] = len(self.names)
            self.names.append(name)
        return self._numbers[name]

    def said(self) -> set[int]:
        """The classes that any picture is said to be of, here or not."""
        return set(np.flatnonzero(np.bincount(self.codes)).tolist())

    def counted(self, sizes: Codes, classes: Codes, most: int) -> Pairs:
        """What is in the model, of classes with two pictures or more: so many at most, those with the smallest ids.

        `sizes` are those of `classes`. Ids are digests, so that this is a sample that any process would draw. Where all
        classes have one picture, a single one.
        """
        rows = np.flatnonzero(self.here & np.isin(self.codes, classes[sizes > 1]))
        rows = rows if len(rows) else np.flatnonzero(self.here)[:1]
        rows = rows[self.items[rows] <= self.items[rows[:most][-1]]]  # all of the last one's classes, for their order
        # By name: the number of a class is what this process happened to give it.
        rows = np.array(sorted(rows.tolist(), key=lambda at: (self.items[at], self.names[self.codes[at]]))[:most])
        return Pairs(self.items[rows], self.codes[rows])

    def hear(self, changes: Iterable[tuple[int | None, str | None, bool]]) -> Pairs:
        """Take in what was said, in order; what goes and was in the model. What comes is not in it yet."""
        last = {(item, self.code(label)): added for item, label, added in changes if item is not None and label}
        places = {pair: self._find(*pair) for pair in last}
        gone = np.array(sorted(at for pair, at in places.items() if at >= 0 and not last[pair]), np.int64)
        old = gone[self.here[gone]]
        out = Pairs(self.items[old], self.codes[old])
        left = np.ones(len(self), bool)
        left[gone] = False
        self.items, self.codes, self.here = self.items[left], self.codes[left], self.here[left]
        self._put([pair for pair, at in places.items() if at < 0 and last[pair]])
        return out

    def look(self, ids: Ids, anew: bool) -> tuple[Pairs, Pairs]:
        """What comes into the model and what goes out, where `ids`, ascending, are those of all pictures that are here.

        Without `anew`, only of what was said since.
        """
        there = self.here.copy()
        rows = np.arange(len(self)) if anew else np.flatnonzero(~there)
        place = np.minimum(np.searchsorted(ids, self.items[rows]), max(len(ids) - 1, 0))
        there[rows] = ids[place] == self.items[rows] if len(ids) else False
        come, gone = np.flatnonzero(there & ~self.here), np.flatnonzero(self.here & ~there)
        self.here = there
        return Pairs(self.items[come], self.codes[come]), Pairs(self.items[gone], self.codes[gone])

    def _find(self, item: int, code: int) -> int:
        """Where a pair is; −1 where it is not."""
        low, high = (int(np.searchsorted(self.items, item, side)) for side in ("left", "right"))
        at = np.flatnonzero(self.codes[low:high] == code)
        return low + int(at[0]) if len(at) else -1

    def _put(self, pairs: Sequence[Pair]) -> None:
        new = np.array(pairs, np.int64).reshape(-1, 2)
        items, codes = np.concatenate([self.items, new[:, 0]]), np.concatenate([self.codes, new[:, 1]])
        here = np.concatenate([self.here, np.zeros(len(new), bool)])
        if len(new):
            order = np.argsort(items, kind="stable")
            items, codes, here = items[order], codes[order], here[order]
        self.items, self.codes, self.here = items, codes, here
