"""A page of a collection's items, in an order that people scroll through; and the file of one item.

In: a filter, an order, where to begin and how many; or an id. Out: how many pass, and those of the page; or the bytes.
The order of everything is kept for as long as the catalogue stays the same: the next page costs a look-up.
"""

import threading
from dataclasses import dataclass

import numpy as np

from lookalike.arrays import check_count
from lookalike.engine.looks import select
from lookalike.errors import ImageError, NoItemError
from lookalike.images.decoding import identify
from lookalike.images.files import LIMITS, Limits
from lookalike.images.sources import locate
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item, Order
from lookalike.types import Ids, format_id


@dataclass(frozen=True, slots=True)
class Page:
    """Some of the items that pass a filter."""

    total: int  # that pass
    offset: int
    items: list[Item]


class Pages:
    """The items of a store, page by page. Safe to use from several threads."""

    def __init__(self, store: Store):
        self._store = store
        self._lock = threading.Lock()
        self._orders: dict[Order, tuple[int, Ids]] = {}  # and the version of the catalogue that it is of

    def page(self, filter: Filter | None, order: Order, offset: int, limit: int) -> Page:
        """The items from the `offset`-th on of those that pass the filter, at most `limit`."""
        check_count("offset", offset, 0)
        check_count("limit", limit)

        while True:
            with self._store.reading():
                ids = self._ordered(order)
                if ids is not None:
                    if filter is not None:
                        ids = ids[np.isin(ids, select(self._store, filter), assume_unique=True)]
                    shown = ids[offset : offset + limit].tolist()
                    return Page(len(ids), offset, list(self._store.items.get(shown).values()))

    def _ordered(self, order: Order) -> Ids | None:
        """Every item in this order, as the catalogue is read now; None where a later one is known: read it anew."""
        version = self._store.vectors.version()
        known = self._orders.get(order)
        if known is None or known[0] < version:
            with self._lock:  # after a commit one thread makes the order, and the others wait for it
                known = self._orders.get(order)
                if known is None or known[0] < version:
                    known = self._orders[order] = version, self._store.items.ordered(order)
        return known[1] if known[0] == version else None


def read_item(store: Store, which: int | Item, limits: Limits = LIMITS) -> bytes:
    """The very bytes that an item is, from the first of its paths that holds them still."""
    if isinstance(which, Item):
        found = which
    elif not (known := store.items.get([which])):
        raise NoItemError(f"No item with the id {format_id(which)} in the collection.")
    else:
        found = known[which]
    reason = "no file is known"
    for path in found.paths:
        entry = locate(path)
        if entry is None:
            reason = "its file is not there now"
            continue
        try:
            data = entry.read(limits) if entry.size == found.bytes else b""
        except ImageError as error:
            reason = str(error)
            continue
        if data and identify(data) == found.id:
            return data
        reason = "its file has changed since it was added"
    raise ImageError(f"Item {format_id(found.id)} cannot be shown: {reason}. Run: lookalike refresh")
