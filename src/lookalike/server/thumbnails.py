"""Small copies of pictures, kept in memory.

In: a file's bytes and a side. Out: JPEG bytes whose longer side is at most that. An id is its content, so what is kept
is right for ever; the least used go when there is no more room.
"""

import threading
from collections import OrderedDict

import cv2
import numpy as np

from lookalike.errors import LookalikeError
from lookalike.images.decoding import read
from lookalike.images.files import LIMITS, Limits
from lookalike.types import Box, Pixels, crop

SIDES = (64, 128, 192, 256, 384, 512, 768, 1024, 2048)
"""A side that is asked for is rounded up to one of these, so that few kinds are kept."""
SIDE = 256
QUALITY = 82
FOREVER = "private, max-age=31536000, immutable"


def shrink(data: bytes, side: int, box: Box | None = None, *, limits: Limits = LIMITS) -> bytes:
    """A picture's JPEG with neither side above `side`; of the part in the box, where there is one."""
    needed = side if box is None else round(side / max(min(box[2] - box[0], box[3] - box[1]), 1 / 16))
    pixels = read(data, side=needed, limits=limits).pixels
    return encode(fit(pixels if box is None else crop(pixels, box), side))


def fit(pixels: Pixels, side: int) -> Pixels:
    """The picture, reduced where a side is longer than this."""
    height, width = pixels.shape[:2]
    share = side / max(height, width)
    if share >= 1:
        return pixels
    size = max(1, round(width * share)), max(1, round(height * share))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def encode(pixels: Pixels) -> bytes:
    """(h, w, 3) uint8 RGB to JPEG."""
    done, data = cv2.imencode(".jpg", np.ascontiguousarray(pixels[:, :, ::-1]), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    if not done:
        raise LookalikeError("A picture could not be written as JPEG.")
    return data.tobytes()


def rounded(side: int) -> int:
    """The side that is kept for one that is asked for.

    >>> rounded(200), rounded(99_999)
    (256, 2048)
    """
    return next((known for known in SIDES if known >= side), SIDES[-1])


class Kept:
    """Bytes by key, at most so many; the least used go first. Safe to use from several threads."""

    def __init__(self, max_bytes: int):
        self.max_bytes = max_bytes
        self.bytes = self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._held: OrderedDict[tuple[str, int], bytes] = OrderedDict()

    def get(self, key: tuple[str, int]) -> bytes | None:
        """What is kept, if it is."""
        with self._lock:
            data = self._held.get(key)
            if data is None:
                self.misses += 1
                return None
            self.hits += 1
            self._held.move_to_end(key)
            return data

    def peek(self, key: tuple[str, int]) -> bytes | None:
        """The same, without being counted, or counting as use."""
        with self._lock:
            return self._held.get(key)

    def put(self, key: tuple[str, int], data: bytes) -> None:
        """Keep it, as long as there is room."""
        with self._lock:
            self.bytes += len(data) - len(self._held.pop(key, b""))
            self._held[key] = data
            while self.bytes > self.max_bytes:
                self.bytes -= len(self._held.popitem(last=False)[1])


def tag(item: str, side: int) -> str:
    """A strong ETag: the content, and what was made of it."""
    return f'"{item}-{side}-{QUALITY}"'
