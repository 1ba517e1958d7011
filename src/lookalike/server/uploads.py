"""Pictures that somebody searches with: decoded in a guarded process, kept for a while, never added.

In: a file's bytes, whatever they are. Out: an `Upload`, with an id that cannot be guessed. The service's own process
never runs a decoder on them: it gets pixels, reduced to what a search looks at.
"""

import queue
import secrets
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

import cv2
import numpy as np

from lookalike.errors import ImageError
from lookalike.images.files import Limits
from lookalike.images.sources import Entry
from lookalike.images.workers import ReadPool
from lookalike.server.settings import Budget
from lookalike.server.work import DECODERS
from lookalike.types import Pixels

SIDE = 1_024
"""The shorter side, in pixels, that is kept of an upload: parts of it can still be searched with."""
LONGEST = 8 * SIDE


@dataclass(frozen=True, slots=True)
class Upload:
    """A picture that was sent."""

    id: str
    item: int  # the id that it would have in the collection
    width: int
    height: int
    pixels: Pixels = field(repr=False)  # (h, w, 3) uint8 RGB
    at: float = field(default_factory=time.monotonic)


def reduce(pixels: Pixels) -> Pixels:
    """What is kept of a picture; runs in the reading process."""
    height, width = pixels.shape[:2]
    share = min(SIDE / min(height, width), LONGEST / max(height, width))
    if share >= 1:
        return pixels
    size = max(1, round(width * share)), max(1, round(height * share))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


class Uploads:
    """The uploads that are kept, and the processes that read them."""

    def __init__(self, budget: Budget):
        self._budget = budget
        self._lock = threading.Lock()
        self._held: OrderedDict[str, Upload] = OrderedDict()
        self._bytes = 0
        self._closed = False
        self._pools: queue.LifoQueue[ReadPool] = queue.LifoQueue()
        limits = Limits(budget.upload_bytes, budget.upload_pixels)
        self._all = [
            ReadPool(reduce, side=SIDE, workers=1, timeout_s=budget.upload_s, limits=limits) for _ in range(DECODERS)
        ]
        for pool in self._all:
            self._pools.put(pool)

    def __len__(self) -> int:
        return len(self._held)

    def add(self, data: bytes) -> Upload:
        """Decode a picture and keep it; ImageError with the reason why not."""
        pool = self._pools.get()  # one thread at a time uses a pool
        try:
            outcome = pool.read("the upload", data)
        except ImageError as error:
            raise ImageError(f"This is no picture that can be read: {error}.") from None
        finally:
            self._pools.put(pool)
        made = Upload(secrets.token_urlsafe(16), outcome.id, outcome.width, outcome.height, outcome.parts)
        with self._lock:
            self._held[made.id] = made
            self._bytes += made.pixels.nbytes
            for oldest in list(self._held.values()):
                if self._bytes > self._budget.kept_bytes or self._is_old(oldest):
                    self._bytes -= self._held.pop(oldest.id).pixels.nbytes
        return made

    def warm(self) -> None:
        """Start the processes, so that the first upload need not wait for them."""
        for pool in self._all:
            if not self._closed:
                list(pool.map([Entry("nothing", 0, 0, data=b"")]))

    def get(self, id: str) -> Upload | None:
        """An upload, if it is still kept."""
        with self._lock:
            found = self._held.get(id)
            return None if found is None or self._is_old(found) else found

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for pool in self._all:
            pool.close()

    def _is_old(self, upload: Upload) -> bool:
        return time.monotonic() - upload.at > self._budget.kept_s
