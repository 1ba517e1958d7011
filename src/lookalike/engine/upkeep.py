"""The upkeep of a collection: what is damaged, missing or out of step, and giving back room that nobody needs.

In: a store and its spaces. Out: a sentence for each fault, with what mends it; or the bytes before and after.
"""

from lookalike.engine.space_fit import find_lacking
from lookalike.engine.space_settle import settle
from lookalike.engine.spaces import Spaces
from lookalike.errors import StoreError
from lookalike.index.flat import Flat
from lookalike.store.directory import Store
from lookalike.store.structures import KINDS
from lookalike.text import many
from lookalike.types import Progress


def verify(store: Store, spaces: Spaces, progress: Progress) -> list[str]:
    """Every fault of a collection; none where all is well."""
    faults = [*store.verify(), *store.judgements.verify()]
    for name in spaces.all():
        faults += _verify_space(spaces, name, progress)
    return faults


def compact(store: Store, spaces: Spaces, progress: Progress) -> dict[str, int]:
    """Drop what is removed, and join small files; bytes and segments before and after. Needs the writer lock."""
    before = store.bytes(), store.vectors.n_segments()
    for name in spaces.all():
        store.vectors.merge(name, everything=True, progress=progress)
    settle(spaces, spaces.recipes(), progress)
    store.vacuum()
    store.judgements.compact()
    after = store.bytes(), store.vectors.n_segments()
    return {
        "bytes_before": before[0],
        "bytes_after": after[0],
        "segments_before": before[1],
        "segments_after": after[1],
    }


def _verify_space(spaces: Spaces, name: str, progress: Progress) -> list[str]:
    """What is wrong with a space: its rows, its model, its index, rows that its base has and it lacks."""
    faults = spaces.store.vectors.verify(name, progress)
    space = spaces.all()[name]
    structures = [spaces.store.vectors.structures.get(name, kind) for kind in KINDS]
    try:
        if space.model is not None:
            spaces.load(space)
    except StoreError as error:
        faults.append(str(error))
    try:
        for structure in structures:
            if structure is not None:
                spaces.indexes.open(structure.file, Flat())
        if space.model is not None and (lacking := len(find_lacking(spaces, name))):
            faults.append(f"No vector in '{name}' for {many(lacking, 'item')}. Run: lookalike compact")
    except StoreError as error:
        if not faults:  # else told already
            faults.append(f"{error} Run: lookalike compact")
    return faults
