"""Groups of things that belong to one of them: stars, not chains.

In: rows to compare, the order in which they may be centres, and a second opinion on pairs. Out: stars: a centre and the
members that were each compared with it. Single linkage (union-find) would chain a beach to a desert by way of a hundred
dunes; complete linkage would part two crops of a photo that share nothing but the photo. In a star, the photo is
the centre, each copy belongs to it directly, and nothing is further than one step from what is shown first.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import CHUNK_BYTES, chunks
from lookalike.store.judgements import Pair
from lookalike.types import Ids, Vectors

BATCH = 512
"""Centres that are compared with all others at a time."""

Near = tuple[Ids, Vectors]
"""Items near another one, nearest first, and their squared distances."""

Rows = Callable[[Ids], Vectors]
"""ids (m,) to their rows (m, d)."""


@dataclass
class Star:
    """A centre and what belongs to it, nearest first."""

    centre: int
    members: list[int] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)


Judge = Callable[[int, Ids, Vectors], Iterator[tuple[int, float]]]
"""Of a centre, and what is near it: those that belong to it, with their distances."""


def stars(
    ids: Ids,
    rows: Rows,
    radius: float,
    judge: Judge,
    apart: set[Pair],
    *,
    prepare: Callable[[list[tuple[int, Ids]]], None] | None = None,
    progress: Callable[[int], None] | None = None,
    max_bytes: int = CHUNK_BYTES,
) -> Iterator[Star]:
    """Every star of more than one, centres in the order of `ids` (n,).

    An item is in one star at most: that of the first centre that takes it. Pairs that are `apart` are never in the same
    one. `prepare` is told, a batch at a time, what may be judged next.
    """
    free = np.ones(len(ids), bool)
    for start in range(0, len(ids), BATCH):
        batch = start + np.flatnonzero(free[start : start + BATCH])
        left = start + np.flatnonzero(free[start:])  # who was a centre before belongs to nobody else
        found = list(near(ids[batch], ids[left], rows, radius, max_bytes))
        if prepare is not None:
            prepare([(int(ids[at]), others) for at, (others, _) in zip(batch, found, strict=True)])
        place = dict(zip(ids[left].tolist(), left.tolist(), strict=True))
        for at, (others, distances) in zip(batch.tolist(), found, strict=True):
            if not free[at]:
                continue
            star = Star(int(ids[at]))
            there = np.array([free[place[item]] and place[item] > at for item in others.tolist()], bool)
            for item, distance in judge(star.centre, others[there], distances[there]):
                if not any(_pair(item, known) in apart for known in (star.centre, *star.members)):
                    star.members.append(item)
                    star.distances.append(distance)
                    free[place[item]] = False
            free[at] = False
            if star.members:
                yield star
        if progress is not None:
            progress(min(start + BATCH, len(ids)))


def near(centres: Ids, others: Ids, rows: Rows, radius: float, max_bytes: int = CHUNK_BYTES) -> Iterator[Near]:
    """What of `others` is within a squared distance of each centre, itself left out, nearest first."""
    if not len(centres):
        return
    Q = rows(centres)  # (q, d)
    squares = np.einsum("ij,ij->i", Q, Q)
    found: list[list[Near]] = [[] for _ in centres]
    for part in chunks(len(others), row_bytes=4 * (Q.shape[1] + 3 * len(Q)), max_bytes=max_bytes):
        X = rows(others[part])  # (m, d)
        D = squares[:, None] + np.einsum("ij,ij->i", X, X) - 2 * Q @ X.T  # (q, m)
        which, where = np.nonzero((radius >= D) & (centres[:, None] != others[part]))
        bounds = np.searchsorted(which, np.arange(len(centres) + 1))
        for number, (first, last) in enumerate(pairwise(bounds)):
            if last > first:
                columns = where[first:last]
                found[number].append((others[part][columns], np.maximum(D[number, columns], 0)))
    for parts in found:
        items = np.concatenate([np.empty(0, np.int64), *(items for items, _ in parts)])
        distances = np.concatenate([np.empty(0, np.float32), *(distances for _, distances in parts)])
        order = np.lexsort((items, distances))
        yield items[order], distances[order]


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)


def typical(ids: Ids, rows: Rows, pairs: int = 4_096) -> float:
    """The median squared distance of two rows that were drawn at random; always the same ones."""
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, len(ids), (2, pairs))
    different = one != other
    if not different.any():
        return 0.0
    distances: NDArray[np.float32] = ((rows(ids[one[different]]) - rows(ids[other[different]])) ** 2).sum(axis=1)
    return float(np.median(distances))
