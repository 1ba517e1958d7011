"""Removals of pictures: record them, and undo them.

Their rows in the catalogue were saved with the action. Their vectors stay in the segments, marked as removed, until a
merge drops them. After that, features are extracted again from the files that still exist.
"""

import numpy as np

from lookalike.collection.adding import Adding
from lookalike.collection.fitting import update_spaces
from lookalike.collection.space import Spaces
from lookalike.errors import ConflictError, StoreError
from lookalike.images.sources import exists
from lookalike.store.actions import MAX_REMOVED, Changed, Removed
from lookalike.store.directory import Store
from lookalike.types import Ids, Progress


def record_removal(store: Store, ids: set[int], sources: list[str], author: str) -> int | None:
    """Record the removal of these items, which must still exist; return the action, or None if it is not possible.

    Pictures can be removed even if labels are damaged or the disk is full. The removal can then not be undone.
    """
    try:
        rows = store.items.save(ids) if len(ids) <= MAX_REMOVED else {}
        return store.judgements.actions.record_removal(Removed(rows, sources), len(ids), author=author)
    except StoreError:
        return None


def removed_paths(store: Store, action: int) -> list[str]:
    """The paths of the pictures that an action removed."""
    rows = store.judgements.actions.removed(action).rows["paths"]
    at = rows["columns"].index("path")
    return [row[at] for row in rows["rows"]]


def restore_pictures(
    spaces: Spaces, adding: Adding, action: int, author: str, progress: Progress, workers: int | None
) -> Changed:
    """Bring the pictures of a removal back; return their number and the new action. Needs the writer lock.

    Pictures whose vectors were dropped and whose files are missing are left out. Raises ConflictError if none is left.
    """
    store, actions = spaces.store, spaces.store.judgements.actions
    removed = actions.removed(action)
    start = f"Cannot undo action {action} ({actions.get(action).text})"
    columns = removed.rows["items"]["columns"]
    ids = np.array(sorted(row[columns.index("id")] for row in removed.rows["items"]["rows"]), np.int64)
    absent = np.setdiff1d(ids, store.items.existing(ids.tolist()), assume_unique=True)
    if not len(absent):
        raise ConflictError(f"{start}: its pictures are in the collection again.")
    features = {space.feature.name for space in spaces}
    names = features | ({spaces.kinds.name} if spaces.kinds is not None else set())
    pendings = {name: store.vectors.recover(name, absent) for name in names}
    found = [np.concatenate([np.empty(0, np.int64), *(part.ids for part in pendings[name])]) for name in features]
    paths = removed.rows["paths"]
    path, item = (paths["columns"].index(name) for name in ("path", "item"))
    readable = {row[item] for row in paths["rows"] if exists(row[path])}
    wanted = _among(absent, found, readable)
    if not len(wanted):
        raise ConflictError(f"{start}: their files are missing, and their vectors were dropped to free disk space.")
    if len(wanted) < len(absent):
        pendings = {name: store.vectors.recover(name, wanted) for name in names}
    with store.transaction():
        for source in removed.sources:
            store.items.add_source(source)
        without_path = store.items.restore(removed.rows, wanted.tolist())
        for pending in (pending for parts in pendings.values() for pending in parts):
            store.vectors.commit(pending)
        store.remove(without_path)
    if len(_lacking(spaces, wanted)):
        adding.describe_missing(progress, workers)
        with store.transaction():
            store.remove(_lacking(spaces, wanted).tolist())
    update_spaces(list(spaces), progress)
    return actions.record_restored(action, len(store.items.existing(wanted.tolist())), author=author)


def _among(absent: Ids, found: list[Ids], readable: set[int]) -> Ids:
    """The items that have a vector of every feature, or a file."""
    complete = np.ones(len(absent), bool)
    for ids in found:
        complete &= np.isin(absent, ids)
    return absent[complete | np.isin(absent, np.array(sorted(readable), np.int64))]


def _lacking(spaces: Spaces, ids: Ids) -> Ids:
    """Those of these items that have no vector of a feature."""
    present = spaces.store.items.existing(ids.tolist())
    missing = [spaces.store.vectors.missing(name) for name in {space.feature.name for space in spaces}]
    return np.intersect1d(present, np.concatenate([np.empty(0, np.int64), *missing]))
