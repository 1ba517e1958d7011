"""A writer to be killed: steps that add, remove and merge, each the same for the same number.

In: `python store_worker.py DIRECTORY`. Out: a line "ready" before the collection is opened, a line "done" after each
step that is acknowledged. Which step comes next is read from the collection itself.
"""

import itertools
import os
import signal
import sys
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.store import segments
from lookalike.store.directory import Store
from lookalike.store.items import Item

DIM = 64
SPACES = ("deep", "other")


def rows_for(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Rows from which their id can be told."""
    return (ids[:, None] % 1_000 + np.arange(DIM)).astype(np.float32)


def change_of(step: int) -> tuple[list[int], list[int]]:
    """What a step adds and removes."""
    base = step * 50
    gone = range(base - 130, base - 90) if step % 3 == 2 else range(0)
    return list(range(base, base + 50)), [item for item in gone if item >= 0]


def state_after(steps: int) -> set[int]:
    """The items that are there after so many steps."""
    state: set[int] = set()
    for step in range(steps):
        new, gone = change_of(step)
        state = (state | set(new)) - set(gone)
    return state


def do(store: Store, step: int) -> None:
    """Add, remove, label, merge; the step is recorded in the transaction that makes its change."""
    new, gone = change_of(step)
    ids = np.random.default_rng(step).permutation(new)
    pendings = [store.vectors.write(space, ids, rows_for(ids)) for space in SPACES]
    with store.transaction():
        store.items.add([Item(int(i), [], 1, 1, 1, "png", 0.0, None) for i in ids])
        for pending in pendings:
            store.vectors.commit(pending)
        store.items.remove(gone)
        store.vectors.remove(gone)
        store.items.add_source(str(step))
    store.judgements.add_labels([(step, "step")], author="worker", source="hand")
    for space in SPACES:
        store.vectors.merge(space, everything=step % 7 == 6)


def main(path: str, steps: int | None = None) -> None:
    """Go on until killed; or die by oneself after so many steps, with rows written that are not committed."""
    segments.TIER = 3
    print("ready", flush=True)
    store = Store(Path(path), create=True)
    with store.writer():
        if not store.vectors.spaces():
            with store.transaction():
                for space in SPACES:
                    store.vectors.create_space(space, ["color()"])
        for number in itertools.count():
            if number == steps:
                store.vectors.commit = lambda _: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[method-assign]
            do(store, len(store.items.sources()))
            print("done", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
