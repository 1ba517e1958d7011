"""Duplicates: identical files, versions of the same photo, edited copies, or similar pictures. Nothing is ever deleted.

There are four tiers. *identical*: one item at several paths. *same*: the same photo re-encoded, resized, slightly
cropped, brightened or darkened; candidates are near in the space, and confirmed by aligning small copies
(`images.same_photo`). *edited*: a mirrored, slightly rotated or overlaid copy (`images.edited_copy`). *alike*: closer
than a share of the typical distance in the collection. Groups are cached until pictures are added or removed.

A group has a centre, and each member was compared with it. Single linkage would form chains whose ends have nothing in
common; complete linkage would separate two crops of one photo that do not overlap.
"""

from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from lookalike.arrays import CHUNK_BYTES, chunks
from lookalike.collection import html
from lookalike.collection.resolve import select
from lookalike.collection.space import Space, Spaces
from lookalike.errors import UnknownNameError
from lookalike.images.edited_copy import EDITED, Edit, edited_difference, find_edits
from lookalike.images.relation import ITSELF, SAME_EDGE, Relation, relate
from lookalike.images.same_photo import MIN_DETAIL, SAME, SIDE, Small, aspect, detail, difference_at, shrink
from lookalike.images.sources import locate
from lookalike.images.thumbnails import SIDE as THUMBNAIL_SIDE
from lookalike.images.thumbnails import Thumbnail, find_places, thumbnail
from lookalike.images.workers import Read, ReadPool
from lookalike.index.neighbours import EXACT_MAX, NeighbourGraph
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.store.judgements import LabelRecord, Pair
from lookalike.system import count_cores
from lookalike.text import many
from lookalike.types import Ids, Pixels, Progress, Vectors, format_id, silent

Tier: TypeAlias = Literal["identical", "same", "edited", "alike"]

PREFERRED_SPACE = "thing"
"""The default space if it exists: it distinguishes the same object from other objects of its kind."""

SAME_RADIUS = 0.7
"""Share of the typical squared distance within which pictures are compared as the same photo."""

ALIKE_RADIUS = 0.35
"""Share of the typical squared distance within which pictures are similar."""

ALL_PAIRS_MAX = 200
"""Up to this number of pictures, all pairs are compared: the typical distance of so few is not reliable."""

WHY = {
    "same": "the same photo: after alignment they differ only by noise",
    "edited": "edited copies of a photo: mirrored, rotated, or with text or a logo",
}
"""Reasons given for groups whose pixels were compared."""

GROUP_ORDER = "largest first"
"""Order of the pictures in a group; part of the cache key."""

MAX_MISSES = 8
"""The comparison, nearest first, stops after this number of pictures in a row that are not the same photo."""

CACHED_COPIES = 4_000
"""Small copies of pictures cached in memory: about 100 MB."""

PAIRS_AT_ONCE = 256
"""Pairs of thumbnails that a thread compares at once."""

CENTRE_BATCH = 512
"""Centres per batch that are compared with all other pictures."""

CONFIRM_BATCH = 128
"""Centres whose pictures are compared at once. The next batch skips the members of the groups found so far."""

MAX_LINKS = 3
"""Links between neighbours that lead from a centre to an item near it. A picture is linked to ten others or more, so
groups of a few hundred copies are found whole."""

Near: TypeAlias = tuple[Ids, Vectors]
"""Items near a centre, nearest first, and their squared distances."""

Rows: TypeAlias = Callable[[Ids], Vectors]
"""Function that returns the rows (m, d) of ids (m,)."""

FindNear: TypeAlias = Callable[[Ids, Ids], Iterable[Near]]
"""A function from centres (q,) and the other items (m,) to the items near each centre."""

Confirm: TypeAlias = Callable[[int, Ids, Vectors], Iterator[tuple[int, float]]]
"""A function from a centre and the items near it, with distances, to the members of its group, with distances."""


class Groups(list["Group"]):
    """The groups of a tier, largest first."""

    def __init__(self, groups: Iterable["Group"] = (), without_detail: int = 0):
        super().__init__(groups)
        self.without_detail = without_detail
        """Number of pictures skipped because they have too little detail: only identical files are duplicates.

        It counts only pictures that were to be compared with another one, because no others are read.
        """
        self.store: Store | None = None  # to show the pictures

    def __repr__(self) -> str:
        return f"<{many(len(self), 'group')} of duplicates, {many(sum(len(one.items) for one in self), 'picture')}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the first groups."""
        store, rows = self.store, []
        for group in self[: html.MAX_GROUPS] if store is not None else ():
            assert store is not None
            items = store.items.get(group.items[: html.MAX_PICTURES]).values()
            tiles = [html.tile_of(store, item, f"{item.width} × {item.height}", format_id(item.id)) for item in items]
            rows.append((f"{many(len(group.items), 'picture')}: {group.why}", tiles))
        more = f"… and {len(self) - len(rows):,} more" if len(self) > len(rows) else ""
        return html.page(repr(self)[1:-1], rows, more=more)


@dataclass(frozen=True, slots=True)
class Group:
    """Duplicates, sorted by pixels, then by bytes; the first, the largest, is the one to keep."""

    id: str
    tier: Tier
    items: list[int]
    distances: list[float]  # squared, from the centre of the group, which may have been removed
    why: str
    relations: list[Relation | None]  # of each picture to the first one; None if the pixels were not aligned

    def among(self, known: Container[int]) -> "Group | None":
        """The group without items that are not in `known`; None if too few remain."""
        remaining = [place for place, item in enumerate(self.items) if item in known]
        if len(remaining) < (1 if self.tier == "identical" else 2):
            return None
        group = self._only(remaining)
        return group if remaining[0] == 0 else replace(group, relations=[None] * len(remaining))

    def without(self, rejected: set[Pair]) -> "Group | None":
        """The group without items that form a `rejected` pair with an earlier item; None if too few remain."""
        if self.tier == "identical":
            return None if (self.items[0], self.items[0]) in rejected else self
        kept: list[int] = []
        for place, item in enumerate(self.items):
            if not any(_pair(item, self.items[other]) in rejected for other in kept):
                kept.append(place)
        return self._only(kept) if len(kept) > 1 else None

    def _only(self, places: Sequence[int]) -> "Group":
        """The group with only the items at these places."""
        return replace(
            self,
            items=[self.items[place] for place in places],
            distances=[self.distances[place] for place in places],
            relations=[self.relations[place] for place in places],
        )


def find_groups(
    spaces: Spaces,
    tier: Tier,
    *,
    space: str | None,
    filter: Filter | None,
    progress: Progress,
    workers: int | None,
) -> Groups:
    """Find the groups of a tier, largest first. Without a filter, they are read from the cache or written to it."""
    store = spaces.store
    _check_tier(tier)
    among = None if filter is None else select(store, filter)
    if tier == "identical":
        return _without_rejected(store, _find_identical(store, among))
    if not len(store.items):
        return Groups()
    chosen = _choose_space(spaces, space)
    key = _cache_key(chosen, tier)
    if among is None and (known := known_groups(spaces, tier, chosen.name)) is not None and known[1]:
        return known[0]
    groups = _find(chosen, tier, among, progress, workers)
    if among is None:
        value = {"groups": [asdict(group) for group in groups], "without_detail": groups.without_detail}
        store.derived.write("duplicates", tier, chosen.name, version=key, value=value)
    return _without_rejected(store, groups)


def known_groups(spaces: Spaces, tier: Tier, space: str | None) -> tuple[Groups, bool] | None:
    """The cached groups, and whether they are up to date; None if there are none."""
    store = spaces.store
    _check_tier(tier)
    if tier == "identical" or not len(store.items):
        return _without_rejected(store, _find_identical(store, None)), True
    chosen = _choose_space(spaces, space)
    cached = store.derived.read("duplicates", tier, chosen.name)
    if cached is None or not isinstance(cached.value, dict):  # a list: version 0.1 grouped pictures without detail
        return None
    if not all("relations" in group for group in cached.value["groups"]):  # an older version grouped them
        return None
    groups = Groups(map(_read_group, cached.value["groups"]), cached.value["without_detail"])
    return _without_rejected(store, groups), cached.version == _cache_key(chosen, tier)


def _read_group(saved: dict[str, Any]) -> Group:
    relations = [None if found is None else Relation(tuple(found[0]), *found[1:]) for found in saved["relations"]]
    return Group(**saved | {"relations": relations})


def count_groups(spaces: Spaces, space: str | None = None) -> dict[Tier, int | None]:
    """The number of cached groups of each tier, without removed items; None if they were never found."""
    counts: dict[Tier, int | None] = {}
    for tier in get_args(Tier):
        known = known_groups(spaces, tier, space)
        if known is not None:
            present = set(spaces.store.items.existing({item for group in known[0] for item in group.items}).tolist())
        counts[tier] = None if known is None else sum(group.among(present) is not None for group in known[0])
    return counts


def with_items(store: Store, groups: Sequence[Group]) -> Iterator[tuple[Group, list[tuple[Item, list[LabelRecord]]]]]:
    """Groups with their items and labels, without items that have been removed."""
    for group in groups:
        items, labels = store.items.get(group.items), store.judgements.label_records(group.items)
        if remaining := group.among(items):
            yield remaining, [(item, labels.get(item.id, [])) for item in items.values()]


def _check_tier(tier: str) -> None:
    if tier not in get_args(Tier):
        raise UnknownNameError("tier of duplicates", tier, get_args(Tier))


def _choose_space(spaces: Spaces, name: str | None) -> Space:
    return spaces.find(PREFERRED_SPACE if name is None and PREFERRED_SPACE in spaces.names() else name)


def _cache_key(space: Space, tier: Tier) -> str:
    return space.cache_key(
        tier, SAME_RADIUS, ALIKE_RADIUS, MAX_MISSES, SAME, EDITED, MIN_DETAIL, GROUP_ORDER, SAME_EDGE
    )


def _without_rejected(store: Store, groups: Groups) -> Groups:
    """Remove pairs that users marked as not duplicates."""
    rejected = store.judgements.not_duplicates.pairs()
    remaining = [group.without(rejected) for group in groups] if rejected else groups
    return Groups((group for group in remaining if group is not None), groups.without_detail)


def _find_identical(store: Store, among: Ids | None) -> Groups:
    """Items at more than one path, most paths first."""
    copies, allowed = store.items.copies(), None if among is None else set(among.tolist())
    return Groups(
        Group(f"identical-{format_id(item)}", "identical", [item], [0.0], f"the same file at {count} paths", [None])
        for item, count in copies.items()
        if allowed is None or item in allowed
    )


def _find(space: Space, tier: Tier, among: Ids | None, progress: Progress, workers: int | None) -> Groups:
    """The groups of a tier except *identical*, largest first."""
    store, index = space.store, space.rows
    ids = index.ids if among is None else np.intersect1d(index.ids, among, assume_unique=True)
    if len(ids) < 2:
        return Groups()
    typical, rejected = typical_distance(ids, index.vectors), store.judgements.not_duplicates.pairs()
    ids = _sort_by_size(store, ids)

    def report(done: int) -> None:
        progress("comparing pictures", done, len(ids))

    if tier == "alike":
        near = choose_search(ids, index.vectors, ALIKE_RADIUS * typical, progress)
        clusters = find_clusters(ids, near, _confirm_all, rejected, progress=report)
        why = f"closer than {100 * ALIKE_RADIUS:.0f} % of the typical distance in space “{space.name}”"
        return _make_groups(clusters, ids, tier, why)
    radius = np.inf if len(ids) <= ALL_PAIRS_MAX else SAME_RADIUS * typical
    near = choose_search(ids, index.vectors, radius, progress)
    with PhotoComparison(ids, store.items.first_paths, workers, edited=tier == "edited") as photos:
        clusters = find_clusters(ids, near, photos.confirm, rejected, prepare=photos.prepare, progress=report)
        groups = _make_groups(clusters, ids, tier, WHY[tier], photos.relations)
        groups.without_detail = photos.without_detail
        return groups


def _make_groups(
    clusters: Iterable["Cluster"],
    ids: Ids,
    tier: Tier,
    why: str,
    relations: Mapping[tuple[int, int], Relation] | None = None,
) -> Groups:
    """Convert clusters to groups, with their pictures in the order of `ids`."""
    positions = {item: position for position, item in enumerate(ids.tolist())}
    groups = []
    for cluster in clusters:
        pairs = sorted(zip(cluster.members, cluster.distances, strict=True), key=lambda pair: positions[pair[0]])
        items, distances = [cluster.centre, *(item for item, _ in pairs)], [0.0, *(distance for _, distance in pairs)]
        related: list[Relation | None] = [None] * len(items)
        if relations is not None:
            related = [ITSELF, *(relations[cluster.centre, item] for item in items[1:])]
        groups.append(Group(f"{tier}-{format_id(cluster.centre)}", tier, items, distances, why, related))
    return Groups(sorted(groups, key=lambda group: (-len(group.items), max(group.distances), group.id)))


def _sort_by_size(store: Store, ids: Ids) -> Ids:
    """Sort by pixels, then by bytes, largest first: the centre of a group is the picture to keep."""
    items = store.items.get(ids.tolist())
    return np.array(
        sorted(items, key=lambda item: (-items[item].width * items[item].height, -items[item].bytes, item)), np.int64
    )


def _confirm_all(centre: int, others: Ids, distances: Vectors) -> Iterator[tuple[int, float]]:  # noqa: ARG001 — Confirm
    return zip(others.tolist(), distances.tolist(), strict=True)


class _ReadPicture(NamedTuple):
    """The parts of a picture that a reading process returns."""

    small: Small
    thumbnail: Thumbnail
    has_detail: bool


def _reduce(image: Pixels) -> _ReadPicture:
    small = shrink(image)
    return _ReadPicture(small, thumbnail(small), detail(small) >= MIN_DETAIL)


class PhotoComparison:
    """Compares the pixels of pictures: thumbnails first, and if they correlate, small copies after alignment.

    Every picture is read once for its thumbnail, which stays in memory (1 kB). Small copies (up to 27 kB) are read
    again if they are no longer cached, but few pairs need them.

    Parameters
    ----------
    ids : all items (n,) that may be compared.
    paths_of : function that returns the paths of items.
    workers : processes that read pictures, and threads that compare them; by default, one per core.
    edited : whether to find edited copies instead of the same photo.

    """

    def __init__(
        self,
        ids: Ids,
        paths_of: Callable[[Sequence[int]], Mapping[int, str]],
        workers: int | None,
        *,
        edited: bool = False,
    ):
        self._edited = edited
        self.without_detail = 0
        self._paths_of = paths_of
        self._pool = ReadPool(_reduce, side=2 * SIDE, workers=workers)
        self._threads = ThreadPoolExecutor(workers or count_cores())
        self._ids = np.sort(ids)
        self._thumbnails = np.zeros((len(ids), THUMBNAIL_SIDE, THUMBNAIL_SIDE), np.uint8)
        self._shapes = np.full(len(ids), np.nan, np.float32)  # width / height; NaN: not read yet, 0: not comparable
        self._copies: OrderedDict[int, Small] = OrderedDict()
        self._same: dict[tuple[int, int], bool] = {}  # of the pairs given to the last call of `prepare`
        self.relations: dict[tuple[int, int], Relation] = {}
        """Of the pairs that are the same photo or an edited copy."""

    def __enter__(self) -> "PhotoComparison":
        self._pool.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown()
        self._pool.__exit__(*error)

    def prepare(self, pairs: list[tuple[int, Ids]]) -> None:
        """Compare centres with the items that will be needed first, in one batch."""
        self._same.clear()
        self._compare([(centre, item) for centre, others in pairs for item in others[:MAX_MISSES].tolist()])

    def confirm(self, centre: int, others: Ids, distances: Vectors) -> Iterator[tuple[int, float]]:
        """Yield the others that are the same photo; stops after MAX_MISSES in a row that are not."""
        misses = 0
        for start in range(0, len(others), MAX_MISSES):
            batch = others[start : start + MAX_MISSES].tolist()
            self._compare([(centre, item) for item in batch if (centre, item) not in self._same])
            for item, distance in zip(batch, distances[start:].tolist(), strict=False):
                if self._same[centre, item]:
                    misses = 0
                    yield item, distance
                else:
                    misses += 1
                    if misses == MAX_MISSES:
                        return

    def _compare(self, pairs: list[tuple[int, int]]) -> None:
        """Compare pairs and store the results in `_same`."""
        if not pairs:
            return
        self._same.update(dict.fromkeys(pairs, False))
        rows = np.searchsorted(self._ids, np.array(pairs))  # (m, 2)
        self._read(self._ids[np.unique(rows[np.isnan(self._shapes[rows])])].tolist())
        comparable = np.flatnonzero(self._shapes[rows].min(axis=1) > 0)
        parts = [comparable[start : start + PAIRS_AT_ONCE] for start in range(0, len(comparable), PAIRS_AT_ONCE)]
        placed: list[tuple[tuple[int, int], list[Edit]]] = []
        for part, found in zip(parts, self._threads.map(lambda part: self._places(rows[part]), parts), strict=True):
            placed += ((pairs[i], edits) for i, edits in zip(part.tolist(), found, strict=True) if edits)
        for start in range(0, len(placed), PAIRS_AT_ONCE):
            batch = placed[start : start + PAIRS_AT_ONCE]
            self._read(sorted({item for pair, _ in batch for item in pair} - self._copies.keys()))
            for (pair, _), relation in zip(batch, self._threads.map(self._relate, batch), strict=True):
                self._same[pair] = relation is not None
                if relation is not None:
                    self.relations[pair] = relation
            while len(self._copies) > CACHED_COPIES:
                self._copies.popitem(last=False)

    def _places(self, rows: NDArray[np.intp]) -> list[list[Edit]]:
        """The places of pairs of rows (m, 2), for each edit that is possible."""
        (ones, others), (shapes, other_shapes) = self._thumbnails[rows].swapaxes(0, 1), self._shapes[rows].T
        if self._edited:
            return find_edits(ones, others, shapes, other_shapes)
        places = find_places(ones, others, shapes, other_shapes)
        return [[] if place is None else [Edit(False, 0.0, place)] for place in places]

    def _relate(self, placed: tuple[tuple[int, int], list[Edit]]) -> Relation | None:
        """The relation of a pair if it is the same photo or, if `edited`, an edited copy but not the same photo."""
        (one, other), edits = placed
        small, other_small = self._copies.get(one), self._copies.get(other)
        if small is None or other_small is None:
            return None
        if self._edited and not any(edited_difference(small, other_small, edit) <= EDITED for edit in edits):
            return None
        plain = (edit.place for edit in edits if not edit.mirrored and not edit.angle)
        is_same = any(difference_at(small, other_small, place) <= SAME for place in plain)
        return None if is_same == self._edited else relate(small, other_small, edits)

    def _read(self, items: list[int]) -> None:
        """Read the thumbnails and small copies of items."""
        if not items:
            return
        rows = np.searchsorted(self._ids, items)
        unread = set(rows[np.isnan(self._shapes[rows])].tolist())
        self._shapes[rows] = 0
        paths = self._paths_of(items)
        entries = [entry for path in paths.values() if (entry := locate(path)) is not None]
        for outcome in self._pool.map(entries):
            if isinstance(outcome, Read) and outcome.id in paths:  # otherwise the file has changed
                row, picture = int(np.searchsorted(self._ids, outcome.id)), outcome.parts
                if picture.has_detail:
                    self._thumbnails[row], self._shapes[row] = picture.thumbnail, aspect(picture.small)
                    self._copies[outcome.id] = picture.small
                elif row in unread:
                    self.without_detail += 1


@dataclass
class Cluster:
    """A centre and its members, nearest first."""

    centre: int
    members: list[int] = field(default_factory=list)
    distances: list[float] = field(default_factory=list)


def find_clusters(
    ids: Ids,
    near: FindNear,
    confirm: Confirm,
    rejected: set[Pair],
    *,
    prepare: Callable[[list[tuple[int, Ids]]], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Cluster]:
    """Yield every cluster of more than one item, with centres in the order of `ids` (n,).

    An item is in at most one cluster, the first that accepts it. `rejected` pairs are never in the same cluster.
    `prepare` is called with each batch of pairs before `confirm`.
    """
    ungrouped = np.ones(len(ids), bool)
    order = np.argsort(ids)
    for start in range(0, len(ids), CENTRE_BATCH):
        batch = start + np.flatnonzero(ungrouped[start : start + CENTRE_BATCH])
        remaining = start + np.flatnonzero(ungrouped[start:])  # earlier centres were compared with all others
        found = list(zip(batch.tolist(), near(ids[batch], ids[remaining]), strict=True))
        for first in range(0, len(found), CONFIRM_BATCH):
            candidates = []
            for position, (others, distances) in found[first : first + CONFIRM_BATCH]:
                positions = order[np.searchsorted(ids, others, sorter=order)]
                later = ungrouped[positions] & (positions > position)
                candidates.append((position, others[later], distances[later], positions[later]))
            if prepare is not None:
                prepare([(int(ids[position]), others) for position, others, *_ in candidates if ungrouped[position]])
            for position, others, distances, positions in candidates:
                if not ungrouped[position]:  # an earlier cluster of this batch accepted the centre
                    continue
                remain = ungrouped[positions]
                cluster = _confirm_cluster(int(ids[position]), (others[remain], distances[remain]), confirm, rejected)
                ungrouped[position] = False
                if cluster.members:
                    ungrouped[order[np.searchsorted(ids, cluster.members, sorter=order)]] = False
                    yield cluster
        if progress is not None:
            progress(min(start + CENTRE_BATCH, len(ids)))


def _confirm_cluster(centre: int, near: Near, confirm: Confirm, rejected: set[Pair]) -> Cluster:
    """The cluster of a centre: the confirmed items near it, except those in a rejected pair with an earlier member."""
    cluster = Cluster(centre)
    for item, distance in confirm(centre, *near):
        if not any(_pair(item, member) in rejected for member in (centre, *cluster.members)):
            cluster.members.append(item)
            cluster.distances.append(distance)
    return cluster


def choose_search(ids: Ids, rows: Rows, radius: float, progress: Progress = silent) -> FindNear:
    """Choose how to find the items within a squared distance: compare all pairs, or more than EXACT_MAX by a graph."""
    if len(ids) <= EXACT_MAX:
        return partial(find_near, rows=rows, radius=radius)
    graph = NeighbourGraph()
    graph.update(np.sort(ids), rows, progress=progress)
    place, listed = np.nonzero(graph.places >= 0)
    ends = place, graph.places[place, listed]
    links = csr_array((np.ones(len(place), np.bool_), ends), shape=(len(ids), len(ids)))
    return partial(find_linked, ids=graph.ids, links=(links + links.T).tocsr(), rows=rows, radius=radius)


def find_linked(
    centres: Ids,
    others: Ids,  # noqa: ARG001 — FindNear
    ids: Ids,
    links: csr_array,
    rows: Rows,
    radius: float,
) -> Iterator[Near]:
    """Like `find_near`, but follow the links (n, n) between the ids (n,) from each centre to items near it."""
    Q = rows(centres)  # (q, d)
    known = ends = np.arange(len(centres)) * len(ids) + np.searchsorted(ids, centres)  # numbers of (centre, item)
    found, distances = [ends[:0]], [Q[:0, 0]]
    for _ in range(MAX_LINKS):
        number, place = np.divmod(ends, len(ids))
        linked = links[place]
        numbers = np.repeat(number, np.diff(linked.indptr))
        pairs = np.setdiff1d(numbers * len(ids) + linked.indices, known)
        number, place = np.divmod(pairs, len(ids))
        D = np.empty(len(pairs), np.float32)
        for part in chunks(len(pairs), row_bytes=8 * Q.shape[1]):
            D[part] = np.square(Q[number[part]] - rows(ids[place[part]])).sum(axis=1)
        known, ends = np.union1d(known, pairs), pairs[radius >= D]
        found.append(ends)
        distances.append(D[radius >= D])
    number, place = np.divmod(np.concatenate(found), len(ids))
    near = np.concatenate(distances)
    order = np.lexsort((place, near, number))
    for first, last in pairwise(np.searchsorted(number[order], np.arange(len(centres) + 1))):
        yield ids[place[order[first:last]]], near[order[first:last]]


def find_near(centres: Ids, others: Ids, rows: Rows, radius: float, max_bytes: int = CHUNK_BYTES) -> Iterator[Near]:
    """For each centre, yield the items of `others` within a squared distance, without itself, nearest first."""
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


def typical_distance(ids: Ids, rows: Rows, pairs: int = 4_096) -> float:
    """The median squared distance of random pairs of rows, the same pairs for the same ids."""
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, len(ids), (2, pairs))
    distinct = one != other
    if not distinct.any():
        return 0.0
    distances: NDArray[np.float32] = ((rows(ids[one[distinct]]) - rows(ids[other[distinct]])) ** 2).sum(axis=1)
    return float(np.median(distances))


def _pair(one: int, other: int) -> Pair:
    return (one, other) if one < other else (other, one)
