"""Large pictures of the collection, decoded by a guarded process; called by the one thread of the lane `large`.

In: a file's bytes, a side, a box. Out: JPEG bytes, as `thumbnails.shrink` makes them. Each takes hundreds of megabytes
and seconds: what goes wrong costs a process of its own, with limits on memory and time, and never the service.
"""

from functools import partial

from lookalike.errors import ImageError
from lookalike.images.workers import ReadPool
from lookalike.server.thumbnails import encode, fit
from lookalike.types import Box, crop

PIXELS = 25_000_000
"""What is large: above this, a picture is decoded here."""
SMALL, SIDE = 1_024, 4_096
"""The longer sides that may come back from a process: that of a thumbnail, which JPEG gives quickly, and one that parts
of a picture are cut out of."""
TIMEOUT_S = 30.0


class Large:
    """The processes that decode large pictures, for each side one; they start with the first picture."""

    def __init__(self) -> None:
        self._closed = False
        self._pools = {
            side: ReadPool(partial(fit, side=side), side=side, workers=1, timeout_s=TIMEOUT_S) for side in (SMALL, SIDE)
        }

    def shrink(self, data: bytes, side: int, box: Box | None = None) -> bytes:
        """A picture's JPEG with neither side above `side`; ImageError where it cannot be had."""
        pool = self._pools[SMALL if box is None and side <= SMALL else SIDE]
        if self._closed:  # or another process would be started
            raise ImageError("the service is ending")
        pixels = pool.read("a large picture", data).parts
        return encode(fit(pixels if box is None else crop(pixels, box), side))

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for pool in self._pools.values():
            pool.close()
