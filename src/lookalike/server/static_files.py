"""The files of the page, read once and sent from memory.

Paths are looked up in a table of these files, so no request can reach a file outside the folder.
"""

import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.types import ASGIApp, Receive, Scope, Send

STATIC = Path(__file__).parent / "static"
TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".mjs": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
INDEX = "/index.html"


@dataclass(frozen=True, slots=True)
class File:
    """A file of the page."""

    data: bytes
    compressed: bytes | None  # gzip, if that is smaller
    type: str
    etag: bytes


class StaticFiles:
    """An ASGI application that sends the files of the page and passes other requests to another application."""

    def __init__(self, app: ASGIApp, folder: Path = STATIC):
        self.app = app
        self.files = {f"/{path.relative_to(folder)}": _load(path) for path in folder.rglob("*") if path.suffix in TYPES}
        if INDEX in self.files:
            self.files["/"] = self.files[INDEX]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        reading = scope["type"] == "http" and scope["method"] in ("GET", "HEAD")
        file = self.files.get(scope["path"]) if reading else None
        if file is None:
            await self.app(scope, receive, send)
            return
        scope["metrics_route"] = "page"
        given = dict(scope["headers"])
        headers = [(b"etag", file.etag), (b"cache-control", b"no-cache"), (b"vary", b"accept-encoding")]
        if file.etag in given.get(b"if-none-match", b""):
            await send({"type": "http.response.start", "status": 304, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        data = file.data
        if file.compressed is not None and b"gzip" in given.get(b"accept-encoding", b""):
            data = file.compressed
            headers.append((b"content-encoding", b"gzip"))
        headers += [(b"content-type", file.type.encode()), (b"content-length", str(len(data)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else data})


def _load(path: Path) -> File:
    data = path.read_bytes()
    compressed = gzip.compress(data, 9, mtime=0)
    etag = f'"{hashlib.blake2b(data, digest_size=12).hexdigest()}"'.encode()
    return File(data, compressed if len(compressed) < len(data) else None, TYPES[path.suffix], etag)
