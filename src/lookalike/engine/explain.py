"""Which negatives push a picture away most: what an encoder with a pool tells it from.

In: a fitted space whose chain has such an encoder, and a picture's vector (1, d) of the space's feature. Out: pictures
of the pool with their pushes. `encode.slem.Slem.pushes` says what a push is.
"""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.engine.spaces import Spaces
from lookalike.engine.specs import takes_negatives
from lookalike.errors import InputError, NoCollectionError
from lookalike.limits import check_count
from lookalike.store.directory import Store
from lookalike.types import Ids, Transform, Vectors


@dataclass(frozen=True, slots=True)
class Push:
    """A negative, and how much it pushes."""

    id: int
    path: str | None
    push: float  # 1 is the mean over the pool; the more, the more it is mistaken for the picture; below 0 it pulls
    collection: str | None = None  # the one it is from, where that is another


def pooled(spaces: Spaces) -> str:
    """The first space that tells pictures from a pool."""
    for name in spaces.recipes():
        if _place(spaces.chain(name).specs):
            return name
    raise InputError("No space of the collection tells pictures from negatives. Make one: lookalike fit 'slem()'")


def explain(spaces: Spaces, name: str, X: Vectors, k: int) -> list[Push]:
    """The k negatives of a space that push a row of its feature, X (1, d), away most, hardest first."""
    check_count("k", k)
    chain = spaces.chain(name)
    place = _place(chain.specs)
    if not place:
        raise InputError(f"Space '{name}' tells pictures from no negatives: its chain is {' | '.join(chain.specs)}.")
    pools = spaces.store.vectors.pools(name)
    if not chain.fitted or not pools:
        raise InputError(f"It is not known what '{name}' was fitted on. Run: lookalike fit {name}")
    machine = _Machine(chain.transforms[:place], X)
    found: list[Push] = []
    for source, ids in pools:
        if source is None:
            found += _hardest(spaces, chain.specs[0], ids, machine, k)
            continue
        with closing(_open(name, source)) as store:
            theirs = _hardest(Spaces(store), chain.specs[0], ids, machine, k)
        found += [replace(push, collection=source) for push in theirs]
    if not found:
        raise InputError(f"None of the negatives of '{name}' is there any more. Run: lookalike fit {name}")
    return sorted(found, key=lambda push: (-push.push, push.id))[:k]


class _Machine:
    """The transforms of a chain up to the one with a pool, and the picture's row on its way through them."""

    def __init__(self, steps: Sequence[Transform], X: Vectors):
        self._earlier = steps[:-1]
        self._step: Any = steps[-1]
        self._row = self._bring(X)  # (1, D)

    def pushes(self, negatives: Vectors) -> NDArray[np.float64]:
        """Rows of the feature, (n, d), to (n,)."""
        return np.asarray(self._step.pushes(self._row, self._bring(negatives))[0], np.float64)

    def _bring(self, X: Vectors) -> Any:
        for step in self._earlier:
            X = step.transform(X)
        return X


def _hardest(spaces: Spaces, base: str, ids: Ids, machine: _Machine, k: int) -> list[Push]:
    """The k hardest of these items; those that were removed since have nothing to say."""
    if base not in spaces.all():
        return []
    index = spaces.index(base)
    ids = np.intersect1d(ids, index.ids, assume_unique=True)
    parts = chunks(len(ids), row_bytes=32 * (index.dim or 1))
    pushes = np.concatenate([np.empty(0), *(machine.pushes(index.vectors(ids[part])) for part in parts)])  # (n,)
    best = np.argsort(-pushes, kind="stable")[:k]
    paths = spaces.store.items.first_paths(ids[best].tolist())
    return [Push(int(ids[i]), paths.get(int(ids[i])), float(pushes[i])) for i in best]


def _place(specs: Sequence[str]) -> int:
    """The number of the last spec that wants a pool, 0 where none does."""
    return max((number for number, spec in enumerate(specs[1:], 1) if takes_negatives(spec)), default=0)


def _open(name: str, source: str) -> Store:
    try:
        return Store(Path(source))
    except NoCollectionError:
        raise InputError(
            f"The negatives of '{name}' were {source}, which is no collection: their vectors are not there. Make it one"
            f" and fit against that: lookalike -c POOL add {source} and lookalike fit {name} --negatives POOL"
        ) from None
