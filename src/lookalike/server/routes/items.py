"""The pictures of the collection: listed, described, shown whole, small or in part.

In: ids and filters. Out: JSON and pictures. The only files that are ever sent are those that the catalogue knows,
and only while they are the very bytes that were added.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.server.answers import Item, ItemsPage
from lookalike.server.models import BoxQuery, ItemPath, ItemsQuery, SideQuery
from lookalike.server.problems import Problem, reply
from lookalike.server.served import needs, person, served
from lookalike.server.thumbnails import FOREVER, SIDE, rounded, tag
from lookalike.server.work import Stop
from lookalike.types import Box

WEB = {
    "jpeg": "image/jpeg",
    "png": "image/png",
    "gif": "image/gif",
    "webp": "image/webp",
    "avif": "image/avif",
}
"""What browsers show; all else is sent as JPEG."""
LARGEST = 4_096
"""The longer side of a picture that is sent as JPEG in the place of its own file."""
SHOWN = {"Cache-Control": FOREVER, "Content-Security-Policy": "default-src 'none'; sandbox"}
PICTURE: dict[int | str, dict[str, Any]] = {
    200: {"content": {"image/jpeg": {"schema": {"type": "string", "format": "binary"}}}}
}

router = APIRouter(prefix="/api/v1/items", tags=["items"], dependencies=[Depends(needs("view"))])


@router.get("", response_model=ItemsPage)
async def list_items(request: Request, asked: Annotated[ItemsQuery, Query()]) -> Response:
    """A page of the items that pass a filter: by path, by id, the newest or the last added first."""
    here, who = served(request), person(request)

    def look(_: object) -> dict[str, Any]:
        page = here.collection.page(asked.made(who), order=asked.order, offset=asked.offset, limit=asked.limit)
        return {"total": page.total, "offset": page.offset, "items": here.describe(page.items, who)}

    return reply(await here.work.run(request, look))


@router.get("/{id}", response_model=Item)
async def one_item(request: Request, id: ItemPath) -> Response:
    """One item."""
    here, who = served(request), person(request)
    return reply(await here.work.run(request, lambda _: here.describe([here.item(id)], who)[0]))


@router.get("/{id}/thumbnail", response_class=Response, responses=PICTURE)
async def thumbnail(request: Request, id: ItemPath, side: SideQuery = SIDE) -> Response:
    """A small copy, as JPEG."""
    here = served(request)
    return await _picture(request, id, tag(id, rounded(side)), lambda stop: here.thumbnail(id, rounded(side), stop))


@router.get("/{id}/region", response_class=Response, responses=PICTURE)
async def region(request: Request, id: ItemPath, box: BoxQuery, side: SideQuery = SIDE) -> Response:
    """A part of a picture, as JPEG."""
    here, part = served(request), _box(box)
    etag = f'"{id}-{side}-{",".join(f"{edge:g}" for edge in part)}"'
    return await _picture(request, id, etag, lambda stop: here.picture(here.item(id), side, stop, part))


@router.get("/{id}/image", response_class=Response, responses=PICTURE)
async def image(request: Request, id: ItemPath) -> Response:
    """The picture itself: its file where browsers show such files, else as JPEG."""
    here = served(request)

    def look(stop: Stop) -> tuple[bytes, str]:
        item = here.item(id)
        if item.format in WEB and item.bytes <= here.settings.budget.image_bytes:
            return here.read(item), WEB[item.format]
        return here.picture(item, LARGEST, stop), "image/jpeg"

    return await _picture(request, id, f'"{id}"', look)


async def _picture(request: Request, id: str, etag: str, look: Any) -> Response:
    """What `look` returns, JPEG bytes or (bytes, type), unless the client has it already."""
    headers = {"ETag": etag, **SHOWN}
    if etag in request.headers.get("if-none-match", "") and served(request).has(id):
        return Response(status_code=304, headers=headers)
    made = await served(request).work.run(request, look)
    data, kind = made if isinstance(made, tuple) else (made, "image/jpeg")
    return Response(data, headers=headers, media_type=kind)


def _box(text: str) -> Box:
    try:
        left, top, right, bottom = (float(edge) for edge in text.split(","))
    except ValueError:
        left = top = right = bottom = 0.0  # refused below
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise Problem(422, "box must be left,top,right,bottom from 0 to 1, such as 0.1,0.2,0.5,0.9.", field="box")
    return left, top, right, bottom
