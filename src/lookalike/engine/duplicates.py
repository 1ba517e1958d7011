"""Pictures that are there more than once: the same bytes, the same photo, or look-alikes.

In: a store and one of its spaces. Out: groups in three tiers. *identical*: one item at several paths. *same*: the same
photo re-encoded, resized, lightly cropped or lit: near in the space, and confirmed by laying one small copy over the
other (`images.same_photo`). *alike*: nearer than a share of the collection's own typical distance. Nothing is deleted.
"""

from collections import OrderedDict
from collections.abc import Container, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from lookalike.engine.spaces import Spaces
from lookalike.engine.stars import Star, stars, typical
from lookalike.errors import UnknownNameError
from lookalike.images.same_photo import SAME, SIDE, Small, difference, shrink
from lookalike.images.sources import locate
from lookalike.images.workers import Read, ReadPool, count_cores
from lookalike.store.directory import Store
from lookalike.store.judgements import Pair
from lookalike.types import Ids, Progress, Vectors, format_id

Tier: TypeAlias = Literal["identical", "same", "alike"]

PREFERRED = "thing"
"""The space that is looked at where nobody says: it tells the same thing from the same kind."""

NEAR = 0.7
"""Of the typical squared distance: how near a picture must be to be looked at as the same photo."""

ALIKE = 0.35
"""Of the typical squared distance: how near look-alikes are."""

FEW = 200
"""Pictures below which every pair may be looked at: too few to say what is typical."""

ORDER = "largest first"
"""How pictures of a group come; groups that were kept in another order are made anew."""

MISSES = 8
"""Pictures in a row, nearest first, that are not the same photo, after which no more are tried."""

KEEP = 4_000
"""Small copies that are held in memory: some 100 MB."""


@dataclass(frozen=True, slots=True)
class Group:
    """Pictures that are much the same, the largest first, in pixels, then in bytes: it is worth keeping."""

    id: str
    tier: Tier
    items: list[int]
    distances: list[float]  # of each from the picture that the group was found by, which may be gone
    why: str

    def among(self, known: Container[int]) -> "Group | None":
        """The group of those of its items that are known still; None where nobody is left to group."""
        left = [pair for pair in zip(self.items, self.distances, strict=True) if pair[0] in known]
        if len(left) < (1 if self.tier == "identical" else 2):
            return None
        return Group(self.id, self.tier, [item for item, _ in left], [far for _, far in left], self.why)

    def without(self, apart: set[Pair]) -> "Group | None":
        """The group without whom somebody told apart from others in it; None where nobody is left to group."""
        if self.tier == "identical":
            return None if (self.items[0], self.items[0]) in apart else self
        kept: list[int] = []
        for item in self.items:
            if not any((min(item, other), max(item, other)) in apart for other in kept):
                kept.append(item)
        distances = dict(zip(self.items, self.distances, strict=True))
        left = Group(self.id, self.tier, kept, [distances[item] for item in kept], self.why)
        return left if len(kept) > 1 else None


def check_tier(tier: str) -> Tier:
    """The tier of this name."""
    if tier not in get_args(Tier):
        raise UnknownNameError("tier of duplicates", tier, get_args(Tier))
    return tier  # type: ignore[return-value]


def choose_space(spaces: Spaces, space: str | None) -> str:
    """The space whose vectors are compared: as named, else the one for the same thing, else the first."""
    return spaces.find(PREFERRED if space is None and PREFERRED in spaces.recipes() else space)


def made_with(tier: Tier) -> tuple[object, ...]:
    """What groups depend on besides the vectors: how pictures are looked at."""
    return tier, NEAR, ALIKE, MISSES, SAME, ORDER


def identical(store: Store, among: Ids | None) -> list[Group]:
    """Items at more than one path, most paths first."""
    copies, wanted = store.items.copies(), None if among is None else set(among.tolist())
    return [
        Group(f"identical-{format_id(item)}", "identical", [item], [0.0], f"the same file at {count} paths")
        for item, count in copies.items()
        if wanted is None or item in wanted
    ]


def find(
    store: Store,
    spaces: Spaces,
    tier: Tier,
    space: str,
    among: Ids | None,
    progress: Progress,
    workers: int | None = None,
) -> list[Group]:
    """The groups of the tier *same* or *alike*, largest first."""
    taught = spaces.taught(space)
    index = spaces.index(taught)
    ids = index.ids if among is None else np.intersect1d(index.ids, among, assume_unique=True)
    if len(ids) < 2:
        return []
    usual, apart = typical(ids, index.vectors), store.judgements.not_duplicates.pairs()
    ids = _by_size(store, ids)

    def told(done: int) -> None:
        progress("comparing pictures", done, len(ids))

    if tier == "alike":
        found = stars(ids, index.vectors, ALIKE * usual, _all, apart, progress=told)
        return _groups(found, ids, tier, f"nearer than {ALIKE:.0%} of what is usual in {space}")
    radius = np.inf if len(ids) <= FEW else NEAR * usual
    with _Photos(store, workers) as photos:
        found = stars(ids, index.vectors, radius, photos.judge, apart, prepare=photos.prepare, progress=told)
        return _groups(found, ids, tier, "the same photo: laid over each other, they differ by noise")


def to_json(groups: Sequence[Group]) -> list[dict[str, Any]]:
    """Groups as they are kept."""
    return [asdict(group) for group in groups]


def from_json(value: Any) -> list[Group]:
    """Groups that were kept."""
    return [Group(**group) for group in value]


def _groups(found: Iterable[Star], ids: Ids, tier: Tier, why: str) -> list[Group]:
    """Stars as groups, whose pictures come in the order of `ids`."""
    place = {item: number for number, item in enumerate(ids.tolist())}
    groups = []
    for star in found:
        pairs = sorted(zip(star.members, star.distances, strict=True), key=lambda pair: place[pair[0]])
        items, distances = [star.centre, *(item for item, _ in pairs)], [0.0, *(far for _, far in pairs)]
        groups.append(Group(f"{tier}-{format_id(star.centre)}", tier, items, distances, why))
    return sorted(groups, key=lambda group: (-len(group.items), max(group.distances), group.id))


def _by_size(store: Store, ids: Ids) -> Ids:
    """Largest first, in pixels, then in bytes: whom a group is shown by, and who is worth to be kept."""
    items = store.items.get(ids.tolist())
    return np.array(
        sorted(items, key=lambda item: (-items[item].width * items[item].height, -items[item].bytes, item)), np.int64
    )


def _all(centre: int, others: Ids, distances: Vectors) -> Iterator[tuple[int, float]]:  # noqa: ARG001 — a Judge
    return zip(others.tolist(), distances.tolist(), strict=True)


class _Photos:
    """Looks at pictures themselves: reads small copies, lays one over the other."""

    def __init__(self, store: Store, workers: int | None):
        self._store = store
        self._pool = ReadPool(shrink, side=2 * SIDE, workers=workers)
        self._threads = ThreadPoolExecutor(min(MISSES, workers or count_cores()))
        self._small: OrderedDict[int, Small | None] = OrderedDict()  # None: cannot be read

    def __enter__(self) -> "_Photos":
        self._pool.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown()
        self._pool.__exit__(*error)

    def prepare(self, pairs: list[tuple[int, Ids]]) -> None:
        """Read what will be looked at first, many at a time."""
        wanted = {item for centre, others in pairs if len(others) for item in (centre, *others[:MISSES].tolist())}
        self._load(wanted)

    def judge(self, centre: int, others: Ids, distances: Vectors) -> Iterator[tuple[int, float]]:
        """Those of the others that are the same photo; gives up after MISSES in a row that are not."""
        misses = 0
        for start in range(0, len(others), MISSES):
            part = others[start : start + MISSES].tolist()
            self._load({centre, *part})
            whole, small = self._small[centre], [self._small[item] for item in part]
            apart = self._threads.map(partial(_difference, whole), small)
            for item, distance, differs in zip(part, distances[start:].tolist(), apart, strict=False):
                if differs <= SAME:
                    misses = 0
                    yield item, distance
                else:
                    misses += 1
                    if misses == MISSES:
                        return

    def _load(self, ids: set[int]) -> None:
        missing = sorted(ids - self._small.keys())
        for item in ids & self._small.keys():
            self._small.move_to_end(item)
        if not missing:
            return
        self._small.update(dict.fromkeys(missing))
        paths = self._store.items.first_paths(missing)
        there = [entry for path in paths.values() if (entry := locate(path)) is not None]
        for outcome in self._pool.map(there):
            if isinstance(outcome, Read) and outcome.id in paths:  # else the file holds another picture by now
                self._small[outcome.id] = outcome.parts
        while len(self._small) > max(KEEP, len(ids)):
            self._small.popitem(last=False)


def _difference(one: Small | None, other: Small | None) -> float:
    return 1.0 if one is None or other is None else difference(one, other)
