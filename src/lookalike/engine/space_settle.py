"""Bringing spaces into order after rows came or went: fits that waited, rows that lack, indexes that have aged.

In: the names of spaces. Out: the same spaces, as quick to search as their size asks for. Needs the writer lock.
"""

from collections.abc import Sequence

from lookalike.engine.costs import leaves_fit
from lookalike.engine.machine import installed_bytes
from lookalike.engine.space_fit import fill, fit_space
from lookalike.engine.space_indexes import LEAVES_SUFFIX, SHORTLISTED
from lookalike.engine.spaces import Spaces
from lookalike.errors import StoreError
from lookalike.index.choice import choose, measure_recall
from lookalike.registry import Spec, create
from lookalike.store.structures import Recall
from lookalike.types import Progress

FIT_MIN = 500
"""Pictures a collection needs before transforms are fitted by themselves, once. Below, raw vectors serve better."""

LEAVES = 50_000
"""Rows from which on feedback searches leaves; fewer are looked at one by one."""

STALE = 0.1
"""The share of rows added or removed since an index was built from which on it is built anew."""


def settle(spaces: Spaces, names: Sequence[str], progress: Progress) -> None:
    """After an add: fit what waits and has enough to learn from, fill what lacks rows, index what is large.

    What learns from labels waits until somebody says so: labels come in bits, and a fit is for long.
    """
    names = [name for name in names if not _damaged(spaces, name)]
    for name in names:
        space = spaces.all()[name]
        if space.model is not None:
            fill(spaces, name, progress)
        elif (
            len(space.chain) > 1
            and spaces.store.vectors.rows(space.chain[0]) >= FIT_MIN
            and not spaces.wants_labels(name)
        ):
            fit_space(spaces, name, progress)
    for name in names:
        _snapshot(spaces, name, progress)
        _sort_into_leaves(spaces, name, progress)
    for name in names:
        for part in (name, spaces.all()[name].chain[0]):
            spaces.store.vectors.release_quarantined(part)


def _damaged(spaces: Spaces, name: str) -> bool:
    """Whether the model of a space cannot be loaded: such a space waits for `repair`."""
    try:
        chain = spaces.chain(name)
        _ = chain.feature, chain.steps if chain.fitted else ()
    except StoreError:
        return True
    return False


def _snapshot(spaces: Spaces, name: str, progress: Progress) -> None:
    """A faiss index for a space that is large enough to want one, built anew when it has aged."""
    if spaces.is_coded(name):  # a scan of the codes is quick as it is
        _measure(spaces, name, progress)
        return
    searched = spaces.searched(name)
    kind = choose(spaces.store.vectors.rows(searched))
    index = spaces.index(searched)
    if kind == "flat" or (kind == getattr(index, "kind", None) and getattr(index, "stale", 1) <= STALE):
        return
    progress(f"indexing {name}", 0, None)
    spaces.store.vectors.quarantine_damaged(searched, progress=progress)
    before = spaces.store.vectors.structures.get(searched, "points")
    flat = spaces.indexes.flat(searched)
    chain, recall = spaces.chain(name), None
    if chain.compares:  # faiss knows Euclid: it proposes, the measure of the space decides
        made = create("index", Spec(SHORTLISTED, {"kind": kind})).build(flat, progress, chain.transforms[-1])
        recall = made.recall(chain.transforms[-1])
    elif before is not None and kind == getattr(index, "kind", None):
        # Not `index` itself: it may be answering somebody.
        made = spaces.indexes.open(before.file, flat).build(progress=progress)
    else:
        made = create("index", Spec("ann", {"kind": kind})).build(flat, progress)
    target = spaces.store.vectors.new_file("indexes", ".faiss")
    made.save(target)
    file = spaces.store.vectors.settle(target, f"{SHORTLISTED + '-' if chain.compares else ''}{kind}-{target.name}")
    with spaces.store.transaction():
        spaces.store.vectors.structures.name(searched, "points", file, recall)


def _measure(spaces: Spaces, name: str, progress: Progress) -> None:
    """The recall of codes, on some of the pictures themselves; anew when the rows have changed much since."""
    before, rows = spaces.store.vectors.structures.recall(name), spaces.store.vectors.rows(name)
    if before is not None and abs(rows - before.rows) <= STALE * before.rows:
        return
    progress(f"measuring {name}", 0, None)
    found = Recall(measure_recall(spaces.index(name), spaces.chain(name).query), rows)
    with spaces.store.transaction():
        spaces.store.vectors.structures.keep_recall(name, found)


def _sort_into_leaves(spaces: Spaces, name: str, progress: Progress) -> None:
    """Leaves for a space that is large enough to want them, built anew when they have aged.

    None where building them would take more memory than the machine has: feedback looks at every row then.
    """
    taught = spaces.taught(name)
    rows = spaces.store.vectors.rows(taught)
    if rows < LEAVES or not leaves_fit(rows, spaces.all()[taught].dim or 1, installed_bytes()):
        return
    if getattr(spaces.hyperplanes(taught), "stale", 1) <= STALE:
        return
    spaces.store.vectors.quarantine_damaged(taught, progress=progress)
    made = create("index", "leaves").build(spaces.indexes.flat(taught), progress)
    target = spaces.store.vectors.new_file("indexes", LEAVES_SUFFIX)
    made.save(target)
    file = spaces.store.vectors.settle(target)
    with spaces.store.transaction():
        spaces.store.vectors.structures.name(taught, "hyperplanes", file)
