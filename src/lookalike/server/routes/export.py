"""The catalogue for other tools, streamed.

In: a format and a filter. Out: JSON, CSV, paths or COCO annotations, as a file to save. Pieces are made by threads, as
fast as the client takes them: a slow one holds up nobody and fills no memory.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from lookalike.server.job_models import ExportQuery, GroupsExportQuery
from lookalike.server.served import Served, needs, person, served

FILES = {
    "json": ("items.json", "application/json"),
    "csv": ("items.csv", "text/csv; charset=utf-8"),
    "paths": ("paths.txt", "text/plain; charset=utf-8"),
    "coco": ("coco.json", "application/json"),
}
AT_ONCE = 500
"""Items that are put into one piece."""

SAVED: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/json": {}}
        | {kind: {"schema": {"type": "string"}} for kind in ("text/csv", "text/plain")}
    }
}

router = APIRouter(prefix="/api/v1/export", tags=["export"], dependencies=[Depends(needs("view"))])
groups_router = APIRouter(prefix="/api/v1/duplicates/export", tags=["export"], dependencies=[Depends(needs("view"))])


@router.get("", response_class=StreamingResponse, responses=SAVED)
async def export(request: Request, asked: Annotated[ExportQuery, Query()]) -> Response:
    """The items that pass a filter, with their labels."""
    collection, who = served(request).collection, person(request)
    lines = partial(collection.lines, asked.format, filter=asked.made(who), relative=not who.may("manage"))
    return await _send(request, lines, *FILES[asked.format])


@groups_router.get("", response_class=StreamingResponse, responses=SAVED)
async def export_groups(request: Request, asked: Annotated[GroupsExportQuery, Query()]) -> Response:
    """The groups of duplicates that are known, with their items."""
    collection, (_, kind) = served(request).collection, FILES[asked.format]
    relative = not person(request).may("manage")
    lines = partial(collection.group_lines, asked.tier, asked.format, space=asked.space, relative=relative)
    return await _send(request, lines, f"duplicates.{asked.format}", kind)


async def _send(request: Request, make: Callable[[], Iterator[str]], name: str, kind: str) -> Response:
    """What `make` gives, as a file of this name and type."""
    here = served(request)

    def begin(_: object) -> tuple[str, Iterator[str]]:
        lines = make()
        return next(lines, ""), lines  # what is wrong with the request is found out before anything is sent

    first, lines = await here.work.run(request, begin)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_pieces(here, first, lines), media_type=kind, headers=headers)


async def _pieces(here: Served, first: str, lines: Iterator[str]) -> AsyncIterator[bytes]:
    yield _bytes(first)
    while not here.closing.is_set():
        piece = await asyncio.to_thread(lambda: "".join(islice(lines, AT_ONCE)))
        if not piece:
            return
        yield _bytes(piece)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "backslashreplace")
