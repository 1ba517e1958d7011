"""Selections: export, list the paths of, and download the pictures that a user selected."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from lookalike.collection import Item, format_id
from lookalike.server.access import Person
from lookalike.server.models import SelectionExportQuery, SelectionIn, SelectionOut, SelectionPath, ZipQuery
from lookalike.server.problems import BUSY_S, Problem, json_response, not_found
from lookalike.server.routes.collection import EXPORT_FILES, EXPORT_RESPONSES, send_file
from lookalike.server.selections import MAX_ZIPPED, MISSING, zip_parts
from lookalike.server.service import Service, needs_role, parse_ids, person_of, service_of
from lookalike.text import RENAMED, renamed_labels, safe_folders, safe_names

SCREEN_SIDE = 1_600
"""Longer side of a picture for screens."""

router = APIRouter(prefix="/api/v1/selections", tags=["selections"], dependencies=[Depends(needs_role("view"))])


@router.post("", response_model=SelectionOut)
async def select(request: Request, asked: SelectionIn) -> Response:
    """Store a selection for an hour, to export or download it."""
    service, items = service_of(request), parse_ids(asked.items)
    name, count = await service.lanes.run(request, lambda _: service.selections.add(items))
    return json_response(SelectionOut(selection=name, count=count))


@router.get("/{id}/export", response_class=StreamingResponse, responses=EXPORT_RESPONSES)
async def export(request: Request, id: SelectionPath, asked: Annotated[SelectionExportQuery, Query()]) -> Response:
    """Export the selected items, with their labels, as a file."""
    service, relative = service_of(request), not person_of(request).may("manage")
    lines = partial(service.collection.lines, asked.format, ids=_ids(service, id), relative=relative)
    return await send_file(request, lines, *EXPORT_FILES[asked.format])


@router.get("/{id}/zip", response_class=StreamingResponse, responses={200: {"content": {"application/zip": {}}}})
async def download(request: Request, id: SelectionPath, asked: Annotated[ZipQuery, Query()]) -> Response:
    """Download the selected pictures as a zip: their files, or JPEGs for screens. It lists files that are missing."""
    service, person = service_of(request), person_of(request)
    ids = _ids(service, id)
    if len(ids) > MAX_ZIPPED:
        raise Problem(422, f"A zip can contain at most {MAX_ZIPPED:,} pictures. Select fewer. Got {len(ids):,}.")
    if service.zip_slots.locked():
        raise Problem(503, "Too many downloads are running. Try again when one has finished.", wait_s=BUSY_S)
    parts = await service.lanes.run(request, lambda _: _zip(service, ids, person, asked))
    headers = {"Content-Disposition": 'attachment; filename="pictures.zip"'}
    return StreamingResponse(_send(service, parts), media_type="application/zip", headers=headers)


def _ids(service: Service, id: str) -> list[int]:
    found = service.selections.get(id)
    if found is None:
        raise not_found("This selection has expired. Select the pictures again.")
    return found


def _zip(service: Service, ids: list[int], person: Person, asked: ZipQuery) -> Iterator[list[bytes]]:
    """Return the parts of a zip. The files are read when they are needed."""
    items, shown, screen = service.collection.get(ids), service.visible(person).path, asked.size == "screen"
    suffix = ".jpg" if screen else None
    paths = {number: shown(item.paths[0]) for number, item in items.items() if item.paths}
    names = {number: _name(items.get(number), number, paths.get(number, "")) for number in ids}
    texts: dict[str, str] = {}
    if asked.folders:
        labels = service.collection.labels(ids)
        folders = safe_folders(sorted({label for found in labels.values() for label in found}))
        files = _in_folders(names, labels, folders, suffix)
        texts[RENAMED] = renamed_labels(folders)
    else:
        files = list(zip(names, safe_names(names.values(), suffix, reserved=[MISSING]), strict=True))
    listed = [items.get(number) for number, _ in files]

    def load(place: int) -> bytes | str:
        item = listed[place]
        if item is None:
            return "it is no longer in the collection"
        try:
            return service.picture(item, SCREEN_SIDE) if screen else service.read(item)
        except Problem:  # its message can contain a path
            return "its file is missing, has changed since it was added, or cannot be read"

    taken = [item.taken_at if item is not None else None for item in listed]
    return zip_parts([name for _, name in files], taken, load, texts)


def _in_folders(
    names: dict[int, str], labels: dict[int, list[str]], folders: dict[str, str], suffix: str | None
) -> list[tuple[int, str]]:
    """Return the pictures with their files LABEL/ID.SUFFIX; a picture with several labels has several files."""
    return [
        (number, f"{folders[label]}/{format_id(number)}{suffix or os.path.splitext(name)[1]}")
        for number, name in names.items()
        for label in labels.get(number, [])
    ]


def _name(item: Item | None, id: int, path: str) -> str:
    """Return the file name of an item; for an item without a path, its id."""
    name = os.path.basename(path.rpartition("::")[2])
    return name or f"{format_id(id)}.{item.format if item is not None else 'jpg'}"


async def _send(service: Service, parts: Iterator[list[bytes]]) -> AsyncIterator[bytes]:
    async with service.zip_slots:
        while (part := await asyncio.to_thread(next, parts, None)) is not None:
            if service.closing.is_set():
                raise asyncio.CancelledError  # a truncated zip must not look complete
            for piece in part:
                yield piece
