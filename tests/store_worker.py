"""A writer process for tests to kill. Its steps add, remove and merge; step n is always the same.

    python store_worker.py DIRECTORY [PAUSE_S]

It prints "ready" before it opens the collection and "done" after each acknowledged step, and then sleeps for PAUSE_S
(default: 0). The collection stores the number of the next step.
"""

import itertools
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.store import segments
from lookalike.store.directory import Store
from lookalike.store.items import Item

DIM = 64
SPACES = ("deep", "other")


def rows_for(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return vectors that are different for each id."""
    return (ids[:, None] % 1_000 + np.arange(DIM)).astype(np.float32)


def add(store: Store, ids: range | list[int]) -> None:
    """Add items with one path and one vector each; needs the writer lock."""
    array = np.array(ids, np.int64)
    pending = store.vectors.write("deep", array, rows_for(array))
    with store.transaction():
        store.items.add([Item(int(i), [], 1, 1, 1, "png", 0.0, None) for i in ids])
        store.items.link([(f"/{i}", 1, 1, int(i)) for i in ids])
        store.vectors.commit(pending)


def change_of(step: int) -> tuple[list[int], list[int]]:
    """Return the items that a step adds and the items that it removes."""
    base = step * 50
    removed = range(base - 130, base - 90) if step % 3 == 2 else range(0)
    return list(range(base, base + 50)), [item for item in removed if item >= 0]


def state_after(steps: int) -> set[int]:
    """Return the items that exist after this number of steps."""
    state: set[int] = set()
    for step in range(steps):
        new, removed = change_of(step)
        state = (state | set(new)) - set(removed)
    return state


def do(store: Store, step: int) -> None:
    """Add, remove, label and merge; the transaction that changes items also records the step."""
    new, removed = change_of(step)
    ids = np.random.default_rng(step).permutation(new)
    pendings = [store.vectors.write(space, ids, rows_for(ids)) for space in SPACES]
    with store.transaction():
        store.items.add([Item(int(i), [], 1, 1, 1, "png", 0.0, None) for i in ids])
        for pending in pendings:
            store.vectors.commit(pending)
        store.items.remove(removed)
        store.vectors.remove(removed)
        store.items.add_source(str(step))
    store.judgements.add_labels([(step, "step")], author="worker", source="hand")
    for space in SPACES:
        store.vectors.merge(space, everything=step % 7 == 6)


def main(path: str, steps: int | None = None, pause_s: float = 0.0) -> None:
    """Run until killed, or run `steps` steps and die in the next one between writing vectors and committing them."""
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
            time.sleep(pause_s)


if __name__ == "__main__":
    main(sys.argv[1], pause_s=float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
