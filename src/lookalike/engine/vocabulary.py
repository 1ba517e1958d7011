"""Features that learn from pictures before they can describe any: which pictures, and in which order.

In: sources and an unfitted feature. Out: the feature, fitted on a sample that is the same for the same files, wherever
they lie, in whatever order they are listed, and whichever process was quicker.
"""

import heapq
import os
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b

from lookalike.arrays import chunks
from lookalike.images.sources import Entry
from lookalike.images.workers import Read, ReadPool
from lookalike.types import LearnedFeature, Prepared, Progress

SAMPLE = 1_000
"""Pictures that a feature learns from: some three million local descriptors to draw from."""

CARRIED_BYTES = 256 * 2**20
"""What the sample may hold of compressed archives, whose members carry their bytes with them."""

BLOCK = 64
"""Pictures read at a time and put in order: a bound on what waits for a slow one."""


def draw(entries: Iterable[Entry], n: int = SAMPLE) -> list[Entry]:
    """At most n of the entries, by lot; the lot is a digest of a file's name and size."""
    kept: list[tuple[int, str, Entry]] = []  # a heap: the highest lot goes first
    carried = 0
    for entry in entries:
        name = f"{os.path.basename(entry.path)}\0{entry.size}".encode(errors="surrogateescape")
        lot = int.from_bytes(blake2b(name, digest_size=8).digest())
        heapq.heappush(kept, (-lot, entry.path, entry))
        carried += len(entry.data or b"")
        while len(kept) > n or (carried > CARRIED_BYTES and len(kept) > 1):
            carried -= len(heapq.heappop(kept)[2].data or b"")
    return [entry for _, _, entry in sorted(kept, key=lambda drawn: (-drawn[0], drawn[1]))]


def learn(feature: LearnedFeature, entries: Sequence[Entry], progress: Progress, workers: int | None) -> int:
    """Fit a feature on the pictures of these entries; returns how many could be read, 0 where it learned nothing."""
    read = 0

    def prepared() -> Iterator[Prepared]:
        nonlocal read
        with ReadPool(feature.prepare, side=feature.side, workers=workers) as pool:
            for part in chunks(len(entries), 1, BLOCK):
                found = {outcome.entry.path: outcome for outcome in pool.map(entries[part])}
                for outcome in (found[entry.path] for entry in entries[part]):
                    if isinstance(outcome, Read):
                        read += 1
                        yield outcome.parts
                progress("sampling", part.stop, len(entries))

    stream = prepared()
    first = next(stream, None)
    if first is not None:
        feature.fit(_with(first, stream), progress=progress)
    return read


def _with(first: Prepared, rest: Iterator[Prepared]) -> Iterator[Prepared]:
    yield first
    yield from rest
