"""The pictures in the collection: lists, items, images, thumbnails and regions.

The service sends a file only if it is in the catalogue and its bytes have not changed since it was added.
"""

import re
from collections.abc import Callable
from dataclasses import asdict
from typing import Annotated, Any, TypeVar, cast
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends, Query, Request, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from lookalike.collection import Item, format_id
from lookalike.server.models import (
    MAX_SELECTED,
    BoxQuery,
    ExifOut,
    IdsOut,
    IdsQuery,
    ItemDetailOut,
    ItemPath,
    ItemsOut,
    ItemsQuery,
    KindOut,
    ScreenSideQuery,
    SideQuery,
)
from lookalike.server.problems import Problem, json_response
from lookalike.server.service import Service, needs_role, person_of, service_of
from lookalike.server.thumbnails import CACHE_FOREVER, DEFAULT_SIDE, QUALITY, SIDES, etag, is_large, rounded
from lookalike.types import Box

T = TypeVar("T")

JPEG = "image/jpeg"
WEB_FORMATS = {
    "jpeg": JPEG,
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
}
"""Formats that browsers can display. Other pictures are sent as JPEG."""
MAX_SIDE = 4_096
"""Maximum length of the longer side of a picture that is sent as JPEG instead of its file."""
COPY_BYTES = 2 * 2**20
"""Maximum size of a file that is sent instead of a copy, if it is not larger than the requested side either."""
PICTURE_HEADERS = {"Cache-Control": CACHE_FOREVER, "Content-Security-Policy": "default-src 'none'; sandbox"}
PICTURE_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
}

router = APIRouter(prefix="/api/v1/items", tags=["items"], dependencies=[Depends(needs_role("view"))])


@router.get("", response_model=ItemsOut)
async def list_items(request: Request, asked: Annotated[ItemsQuery, Query()]) -> Response:
    """Return a page of the items that match a filter. `taken` and `added` list the newest items first."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> ItemsOut:
        page = service.collection.page(
            asked.to_filter(person), order=asked.order, offset=asked.offset, limit=asked.limit
        )
        return ItemsOut(total=page.total, offset=page.offset, items=service.items_json(page.items, person))

    return json_response(await service.lanes.run(request, look_up))


@router.get("/ids", response_model=IdsOut)
async def list_ids(request: Request, asked: Annotated[IdsQuery, Query()]) -> Response:
    """Return the ids of all items that match a filter, for a selection."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> IdsOut:
        ids = service.collection.page_ids(asked.to_filter(person), order=asked.order)
        return IdsOut(total=len(ids), ids=[format_id(item) for item in ids[:MAX_SELECTED].tolist()])

    return json_response(await service.lanes.run(request, look_up))


@router.get("/{id}", response_model=ItemDetailOut)
async def one_item(request: Request, id: ItemPath) -> Response:
    """Return one item, with its camera data."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> ItemDetailOut:
        item = service.item(id)
        (shown,) = service.items_json([item], person)
        return {**shown, "exif": None if item.exif is None else cast(ExifOut, asdict(item.exif))}

    return json_response(await service.lanes.run(request, look_up))


@router.get("/{id}/kinds", response_model=list[KindOut])
async def kinds(request: Request, id: ItemPath) -> Response:
    """Return the kinds that the network recognizes in a picture, likeliest first."""
    service = service_of(request)

    def look_up(_: object) -> list[KindOut]:
        item = service.item(id).id
        found = service.collection.kinds([item]).get(item, [])
        return [KindOut(name=name, probability=round(probability, 4)) for name, probability in found]

    return json_response(await service.lanes.run(request, look_up))


@router.get("/{id}/thumbnail", response_class=Response, responses=PICTURE_RESPONSES)
async def thumbnail(request: Request, id: ItemPath, side: SideQuery = DEFAULT_SIDE) -> Response:
    """Return a thumbnail, as JPEG."""
    service, side = service_of(request), rounded(side)
    return await _send_picture(request, id, etag(id, side), lambda item: (service.thumbnail(item, side), JPEG))


@router.get("/{id}/region", response_class=Response, responses=PICTURE_RESPONSES)
async def region(request: Request, id: ItemPath, box: BoxQuery, side: SideQuery = DEFAULT_SIDE) -> Response:
    """Return a part of a picture, as JPEG."""
    service, part = service_of(request), _parse_box(box)
    tag = f'"{id}-{side}-{",".join(f"{edge:g}" for edge in part)}"'
    return await _send_picture(request, id, tag, lambda item: (service.picture(item, side, part), JPEG))


@router.get("/{id}/image", response_class=Response, responses=PICTURE_RESPONSES)
async def image(request: Request, id: ItemPath, side: ScreenSideQuery = None) -> Response:
    """Return the picture: its file, or a JPEG if browsers cannot display the format or the file is too large.

    With `side`, a larger picture is sent as a JPEG copy whose longer side has at most this number of pixels, upright.
    """
    service = service_of(request)
    side = side and rounded(side)

    def load(item: Item) -> tuple[bytes, str]:
        if side is not None and not (max(item.width, item.height) <= side and item.bytes <= COPY_BYTES):
            return service.thumbnail(item, side), JPEG
        if item.format in WEB_FORMATS and item.bytes <= service.settings.budget.image_bytes:
            return service.read(item), WEB_FORMATS[item.format]
        return service.picture(item, MAX_SIDE), JPEG

    return await _send_picture(request, id, f'"{id}"' if side is None else f'"{id}-image-{side}-{QUALITY}"', load)


async def _send_picture(request: Request, id: str, tag: str, load: Callable[[Item], tuple[bytes, str]]) -> Response:
    """Send the bytes and media type that `load` returns, or status 304 if the client has the picture."""
    service, headers = service_of(request), {"ETag": tag, **PICTURE_HEADERS}
    if tag in request.headers.get("if-none-match", "") and service.has(id):
        return Response(status_code=304, headers=headers)
    data, media_type = await _load(service, request, id, load)
    return Response(data, headers=headers, media_type=media_type)


async def _load(service: Service, request: Request, id: str, load: Callable[[Item], T]) -> T:
    """Look up an item and load its picture. Large pictures have their own lane."""

    def load_small(_: object) -> tuple[T | None, Item]:
        item = service.item(id)
        return None if is_large(item) else load(item), item

    loaded, item = await service.lanes.run(request, load_small)
    return loaded if loaded is not None else await service.lanes.run(request, lambda _: load(item), lane="large")


def _parse_box(text: str) -> Box:
    try:
        left, top, right, bottom = (float(edge) for edge in text.split(","))
    except ValueError:
        left = top = right = bottom = 0.0  # rejected below
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise Problem(422, "box must be left,top,right,bottom from 0 to 1, such as 0.1,0.2,0.5,0.9.", field="box")
    return left, top, right, bottom


class Thumbnails:
    """An ASGI application that handles simple requests for thumbnails and passes all others to the routes.

    A grid requests hundreds of thumbnails in one burst, and routing would take longer than the rest of the work.
    """

    _path = re.compile(r"/api/v1/items/([0-7][0-9a-f]{15})/thumbnail")

    def __init__(self, app: ASGIApp, service: Service):
        self.app = app
        self.service = service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        match = self._path.fullmatch(scope["path"]) if scope["type"] == "http" and scope["method"] == "GET" else None
        side = _plain_side(scope["query_string"]) if match else None
        if match is None or side is None:
            await self.app(scope, receive, send)
            return
        scope["metrics_route"] = "/api/v1/items/{id}/thumbnail"
        item = match[1]
        tag, cached = etag(item, side).encode(), self.service.thumbnails.get((item, side))
        unchanged = any(name == b"if-none-match" and tag in value for name, value in scope["headers"])
        if (unchanged or cached) and not self.service.has(item):  # it was removed
            unchanged, cached = False, None
        headers, status, data = [(b"etag", tag), (b"cache-control", CACHE_FOREVER.encode())], 304, b""
        if not unchanged:
            data = cached or await self._make(Request(scope, receive), item, side)
            headers += [(b"content-type", b"image/jpeg"), (b"content-length", str(len(data)).encode())]
            status = 200
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": data})

    async def _make(self, request: Request, item: str, side: int) -> bytes:
        return await _load(self.service, request, item, lambda found: self.service.thumbnail(found, side))


def _plain_side(query: bytes) -> int | None:
    """Return the side in a query, rounded up; None if the route must check the query."""
    if not query:
        return DEFAULT_SIDE
    sides = parse_qs(query.decode("latin-1")).get("side", [])
    given = sides[0] if len(sides) == 1 else ""
    return rounded(int(given)) if re.fullmatch("[0-9]{1,4}", given) and 16 <= int(given) <= SIDES[-1] else None
