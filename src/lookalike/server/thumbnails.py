"""JPEG thumbnails of pictures, and their cache.

Large pictures are decoded in separate processes with limits on memory and time. Each takes hundreds of megabytes and
several seconds, and a crash must not end the service.
"""

import threading
from contextlib import suppress
from functools import partial

import cv2
import numpy as np
from cachetools import LRUCache

from lookalike.collection import LIMITS, Item, Limits, ReadPool, read
from lookalike.errors import ImageError, LookalikeError
from lookalike.types import Box, Pixels, crop

SIDES = (64, 128, 192, 256, 384, 512, 768, 1024, 1600, 2048)
"""Requested sides are rounded up to one of these, so that the cache has few sizes."""
DEFAULT_SIDE = 256
QUALITY = 82
CACHE_FOREVER = "private, max-age=31536000, immutable"
"""For responses that never change, because an id is a digest of the picture's content."""

LARGE_PIXELS = 25_000_000
"""Pictures with more pixels are decoded by `LargePictures`."""
LARGE_SIDES = (1_024, 4_096)
"""Longer sides that the processes decode to: a small one for thumbnails, fast for JPEG; a large one for parts."""
LARGE_TIMEOUT_S = 30.0


def shrink(data: bytes, side: int, box: Box | None = None, *, limits: Limits = LIMITS) -> bytes:
    """Return a picture, or its part in the box, as JPEG with no side longer than `side`."""
    needed = side if box is None else round(side / max(min(box[2] - box[0], box[3] - box[1]), 1 / 16))
    pixels = read(data, side=needed, limits=limits).pixels
    return encode(fit(pixels if box is None else crop(pixels, box), side))


def is_large(item: Item) -> bool:
    """Whether a picture is decoded by `LargePictures`."""
    return item.width * item.height > LARGE_PIXELS


class LargePictures:
    """The processes that decode large pictures, one per side. They start with the first picture."""

    def __init__(self) -> None:
        self._closed = False
        self._pools = {
            side: ReadPool(partial(fit, side=side), side=side, workers=1, timeout_s=LARGE_TIMEOUT_S)
            for side in LARGE_SIDES
        }

    def shrink(self, data: bytes, side: int, box: Box | None = None) -> bytes:
        """Like the function `shrink`. Raises ImageError if the picture cannot be decoded."""
        small, large = LARGE_SIDES
        pool = self._pools[small if box is None and side <= small else large]
        if self._closed:  # the pool would start another process
            raise ImageError("the service is shutting down")
        pixels = pool.read("a large picture", data).parts
        return encode(fit(pixels if box is None else crop(pixels, box), side))

    def close(self) -> None:
        """End the processes."""
        self._closed = True
        for pool in self._pools.values():
            pool.close()


def fit(pixels: Pixels, side: int) -> Pixels:
    """Downscale a picture if one of its sides is longer than `side`."""
    return scale(pixels, side / max(pixels.shape[:2]))


def scale(pixels: Pixels, share: float) -> Pixels:
    """Downscale a picture to this fraction of its width and height; return it unchanged if that is 1 or more."""
    if share >= 1:
        return pixels
    height, width = pixels.shape[:2]
    size = max(1, round(width * share)), max(1, round(height * share))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), np.uint8)


def encode(pixels: Pixels) -> bytes:
    """Encode (h, w, 3) uint8 RGB as JPEG."""
    done, data = cv2.imencode(".jpg", np.ascontiguousarray(pixels[:, :, ::-1]), [cv2.IMWRITE_JPEG_QUALITY, QUALITY])
    if not done:
        raise LookalikeError("Encoding a picture as JPEG failed.")
    return data.tobytes()


def rounded(side: int) -> int:
    """Return the cached side for a requested one.

    >>> rounded(200), rounded(99_999)
    (256, 2048)
    """
    return next((known for known in SIDES if known >= side), SIDES[-1])


def etag(item: str, side: int) -> str:
    """Return a strong ETag, based on the content of the picture and the size and quality of the thumbnail."""
    return f'"{item}-{side}-{QUALITY}"'


class ThumbnailCache:
    """Thread-safe LRU cache of thumbnails by item and side, with a limit on its bytes."""

    def __init__(self, max_bytes: int):
        self.hits = self.misses = 0
        self._lock = threading.Lock()
        self._cached: LRUCache[tuple[str, int], bytes] = LRUCache(max_bytes, getsizeof=len)

    @property
    def n_bytes(self) -> float:
        """Total size of the cached thumbnails."""
        return self._cached.currsize

    def get(self, key: tuple[str, int]) -> bytes | None:
        """Return the thumbnail; None if it is not cached."""
        with self._lock:
            data = self._cached.get(key)
            self.hits += data is not None
            self.misses += data is None
            return data

    def peek(self, key: tuple[str, int]) -> bytes | None:
        """Like `get`, but without counting a hit or a miss."""
        with self._lock:
            return self._cached.get(key)

    def put(self, key: tuple[str, int], data: bytes) -> None:
        """Cache a thumbnail, unless it is larger than the cache."""
        with self._lock, suppress(ValueError):
            self._cached[key] = data
