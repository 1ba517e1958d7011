"""Small copies of pictures, kept in memory.

In: a file's bytes and a side. Out: JPEG bytes whose longer side is at most that. An id is its content, so what is kept
is right for ever; the least used go when there is no more room. `Thumbnails` is an ASGI application that answers before
any routing, which would take longer than all else: a page of a grid asks for hundreds at once.
"""

import re
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeAlias
from urllib.parse import parse_qs

import cv2
import numpy as np
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lookalike.errors import LookalikeError
from lookalike.images.read import LIMITS, Limits, read
from lookalike.types import Box, Pixels, crop

SIDES = (64, 128, 192, 256, 384, 512, 768, 1024, 2048)
"""A side that is asked for is rounded up to one of these, so that few kinds are kept."""
SIDE = 256
QUALITY = 82
FOREVER = "private, max-age=31536000, immutable"

Make: TypeAlias = Callable[[Request, str, int], Awaitable[bytes]]
"""A request, an id and a side to JPEG."""
_PATH = re.compile(r"/api/v1/items/([0-7][0-9a-f]{15})/thumbnail")


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


class Thumbnails:
    """An ASGI application that answers for thumbnails, and leaves all else, and what is odd, to another.

    `known` says whether an id is in the collection: what was removed is not shown, though it may still be in memory.
    `make` is awaited for what is not in memory, and keeps it.
    """

    def __init__(self, app: ASGIApp, kept: Kept, known: Callable[[str], bool], make: Make):
        self.app = app
        self.kept = kept
        self.known = known
        self.make = make

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        side = _side(scope["query_string"]) if match else None
        if match is None or side is None:
            await self.app(scope, receive, send)
            return
        scope["fast"] = "/api/v1/items/{id}/thumbnail"
        etag, held = tag(match[1], side).encode(), self.kept.get((match[1], side))
        same = any(name == b"if-none-match" and etag in value for name, value in scope["headers"])
        if (same or held) and not self.known(match[1]):
            same, held = False, None  # `make` says what is wrong
        headers, status, data = [(b"etag", etag), (b"cache-control", FOREVER.encode())], 304, b""
        if not same:
            data = held or await self.make(Request(scope, receive), match[1], side)
            headers += [(b"content-type", b"image/jpeg"), (b"content-length", str(len(data)).encode())]
            status = 200
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})


def _side(query: bytes) -> int | None:
    """The side in a query, rounded up; None where a handler had better look at it."""
    if not query:
        return SIDE
    sides = parse_qs(query.decode("latin-1")).get("side", [])
    given = sides[0] if len(sides) == 1 else ""
    return rounded(int(given)) if re.fullmatch("[0-9]{1,4}", given) and 16 <= int(given) <= SIDES[-1] else None
