"""Large pictures of the collection, decoded by a guarded process, one at a time.

In: a file's bytes, a side, a box. Out: JPEG bytes, as `thumbnails.shrink` makes them. Each takes hundreds of megabytes
and seconds: what goes wrong costs a process of its own, with limits on memory and time, and never the service.
"""

import threading

from lookalike.errors import ImageError
from lookalike.images.sources import Entry
from lookalike.images.workers import Read, ReadPool
from lookalike.server.thumbnails import encode, fit
from lookalike.types import Box, Pixels, crop

PIXELS = 25_000_000
"""What is large: above this, a picture is decoded here."""
SIDE = 4_096
"""The longer side that comes back from the process: parts of a picture are cut out of that."""
TIMEOUT_S = 30.0


def reduce(pixels: Pixels) -> Pixels:
    """What comes back of a picture; runs in the reading process."""
    return fit(pixels, SIDE)


class Large:
    """The process that decodes large pictures; it starts with the first."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._pool = ReadPool(reduce, side=SIDE, workers=1, timeout_s=TIMEOUT_S)

    def shrink(self, data: bytes, side: int, box: Box | None = None) -> bytes:
        """A picture's JPEG with neither side above `side`; ImageError where it cannot be had."""
        with self._turn:
            (outcome,) = self._pool.map([Entry("a large picture", len(data), 0, data=data)])
        if not isinstance(outcome, Read):
            raise ImageError(outcome.reason)
        return encode(fit(outcome.parts if box is None else crop(outcome.parts, box), side))

    def close(self) -> None:
        """End the process."""
        self._pool.close()
