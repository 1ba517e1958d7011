"""Groups of duplicates as a person asks for them: kept until pictures come or go, without what was told apart.

In: a tier, and perhaps a space and a filter. Out: groups, largest first, whether they still stand, or their items with
what was said of these. The groups themselves are found by `duplicates`.
"""

from collections.abc import Iterator, Sequence

from lookalike.engine.duplicates import (
    Group,
    Tier,
    check_tier,
    choose_space,
    find,
    from_json,
    identical,
    made_with,
    to_json,
)
from lookalike.engine.looks import select
from lookalike.engine.spaces import Spaces
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.store.judgements import LabelRecord
from lookalike.types import Progress


def find_groups(
    store: Store,
    spaces: Spaces,
    tier: Tier,
    *,
    space: str | None,
    filter: Filter | None,
    progress: Progress,
    workers: int | None,
) -> list[Group]:
    """The groups of a tier; without a filter, those that are kept where they still stand, else kept from now on."""
    check_tier(tier)
    among = None if filter is None else select(store, filter)
    if tier == "identical":
        return _told_apart(store, identical(store, among))
    if not len(store.items):
        return []
    name = choose_space(spaces, space)
    version = spaces.version_of(name, *made_with(tier))
    if among is None and (known := known_groups(store, spaces, tier, name)) is not None and known[1]:
        return known[0]
    groups = find(store, spaces, tier, name, among, progress, workers)
    if among is None:
        store.derived.write("duplicates", tier, name, version=version, value=to_json(groups))
    return _told_apart(store, groups)


def known_groups(store: Store, spaces: Spaces, tier: Tier, space: str | None) -> tuple[list[Group], bool] | None:
    """The groups that were found last, and whether they still stand; None where nobody looked."""
    check_tier(tier)
    if tier == "identical" or not len(store.items):
        return _told_apart(store, identical(store, None)), True
    name = choose_space(spaces, space)
    kept = store.derived.read("duplicates", tier, name)
    if kept is None:
        return None
    return _told_apart(store, from_json(kept.value)), kept.version == spaces.version_of(name, *made_with(tier))


def with_items(store: Store, groups: Sequence[Group]) -> Iterator[tuple[Group, list[tuple[Item, list[LabelRecord]]]]]:
    """Groups with their items, and what was said of these; without those that have gone meanwhile."""
    for group in groups:
        items, said = store.items.get(group.items), store.judgements.label_records(group.items)
        if left := group.among(items):
            yield left, [(item, said.get(item.id, [])) for item in items.values()]


def _told_apart(store: Store, groups: list[Group]) -> list[Group]:
    """The groups without what somebody said are no duplicates."""
    apart = store.judgements.not_duplicates.pairs()
    left = [group.without(apart) for group in groups] if apart else groups
    return [group for group in left if group is not None]
