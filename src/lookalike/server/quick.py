"""Thumbnails, answered before any routing, which would take longer than all else: a grid asks for hundreds at once.

In: requests. Out: JPEG, from memory or made by a thread; whatever is not a plain request for one goes on to the routes.
"""

import re
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from lookalike.server.served import Served
from lookalike.server.thumbnails import FOREVER, SIDE, SIDES, rounded, tag

_PATH = re.compile(r"/api/v1/items/([0-7][0-9a-f]{15})/thumbnail")


class Thumbnails:
    """An ASGI application that answers for thumbnails, and leaves all else, and what is odd, to another."""

    def __init__(self, app: ASGIApp, here: Served):
        self.app = app
        self.here = here

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        match = _PATH.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        side = _side(scope["query_string"]) if match else None
        if match is None or side is None:
            await self.app(scope, receive, send)
            return
        scope["fast"] = "/api/v1/items/{id}/thumbnail"
        item = match[1]
        etag, held = tag(item, side).encode(), self.here.thumbnails.get((item, side))
        same = any(name == b"if-none-match" and etag in value for name, value in scope["headers"])
        if (same or held) and not self.here.has(item):  # it was removed since
            same, held = False, None
        headers, status, data = [(b"etag", etag), (b"cache-control", FOREVER.encode())], 304, b""
        if not same:
            data = await self._make(Request(scope, receive), item, side) if held is None else held
            headers += [(b"content-type", b"image/jpeg"), (b"content-length", str(len(data)).encode())]
            status = 200
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _make(self, request: Request, item: str, side: int) -> bytes:
        return await self.here.work.run(request, lambda stop: self.here.thumbnail(item, side, stop))


def _side(query: bytes) -> int | None:
    """The side in a query, rounded up; None where a handler had better look at it."""
    if not query:
        return SIDE
    sides = parse_qs(query.decode("latin-1")).get("side", [])
    given = sides[0] if len(sides) == 1 else ""
    return rounded(int(given)) if re.fullmatch("[0-9]{1,4}", given) and 16 <= int(given) <= SIDES[-1] else None
