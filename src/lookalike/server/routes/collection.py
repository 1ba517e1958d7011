"""The collection as a whole: summary, map, and export for other tools."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from functools import partial
from itertools import islice
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

import lookalike
from lookalike.collection import describe_types
from lookalike.recipes import ABOUT
from lookalike.server.access import Person
from lookalike.server.job_events import job_json
from lookalike.server.models import (
    MAX_ITEMS,
    CollectionOut,
    ExportQuery,
    LimitsOut,
    MapOut,
    Name,
    NotIndexedOut,
    PersonOut,
    SkippedOut,
    SpaceOut,
)
from lookalike.server.problems import json_response
from lookalike.server.service import Service, needs_role, person_of, service_of, valid_text

EXPORT_FILES = {
    "json": ("items.json", "application/json"),
    "csv": ("items.csv", "text/csv; charset=utf-8"),
    "paths": ("paths.txt", "text/plain; charset=utf-8"),
    "coco": ("coco.json", "application/json"),
}
"""Name and type of an exported file, by format."""
EXPORT_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "content": {"application/json": {}}
        | {kind: {"schema": {"type": "string"}} for kind in ("text/csv", "text/plain")}
    }
}
LINES_AT_ONCE = 500

BINARY = "application/octet-stream"
MAP_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}
}
MAP_STEPS = 2**16 - 1
"""Largest coordinate in the response of `map_points`."""

router = APIRouter(prefix="/api/v1", dependencies=[Depends(needs_role("view"))])


@router.get("/collection", response_model=CollectionOut, tags=["service"])
async def summary(request: Request) -> Response:
    """Return a summary of the collection."""
    service, person = service_of(request), person_of(request)
    return json_response(await service.lanes.run(request, lambda _: _summary(service, person)))


@router.get("/not-indexed", response_model=NotIndexedOut, tags=["service"])
async def not_indexed(request: Request) -> Response:
    """Return the files in the sources that are not in the collection, because they cannot be read."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> NotIndexedOut:
        visible, skipped = service.visible(person), service.collection.skipped()
        other_types = service.collection.other_types()
        return NotIndexedOut(
            skipped=[
                SkippedOut(path=valid_text(visible.path(path)), reason=valid_text(visible.text(reason)))
                for path, reason in islice(skipped.items(), MAX_ITEMS)
            ],
            n_skipped=len(skipped),
            other_types=other_types,
            summary=describe_types(other_types),
        )

    return json_response(await service.lanes.run(request, look_up))


@router.get("/map", response_model=MapOut, tags=["map"])
async def map_state(request: Request, space: Annotated[Name | None, Query()] = None) -> Response:
    """Return whether the map of a space is up to date. If it is missing or stale, a job computes it."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> MapOut:
        drawn, current = service.collection.known_map(space) or (None, False)
        job = None if current else service.jobs.ensure("map", {"space": space}, person.name)
        return MapOut(
            space=space or service.default_space(),
            points=0 if drawn is None else len(drawn.ids),
            total=0 if drawn is None else drawn.total,
            current=current,
            job=None if job is None else job_json(job, service.visible(person)),
        )

    return json_response(await service.lanes.run(request, look_up))


@router.get("/map/points", response_class=Response, responses=MAP_RESPONSES, tags=["map"])
async def map_points(request: Request, space: Annotated[Name | None, Query()] = None) -> Response:
    """Return the position and class of each picture on the map, as columns of numbers; empty without a map."""
    service = service_of(request)
    data = await service.lanes.run(request, lambda _: _columns(service, space))
    return Response(data, media_type=BINARY, headers={"Cache-Control": "no-cache"})


@router.get("/export", response_class=StreamingResponse, responses=EXPORT_RESPONSES, tags=["export"])
async def export(request: Request, asked: Annotated[ExportQuery, Query()]) -> Response:
    """Export the items that match a filter, with their labels, as a file."""
    collection, person = service_of(request).collection, person_of(request)
    lines = partial(collection.lines, asked.format, filter=asked.to_filter(person), relative=not person.may("manage"))
    return await send_file(request, lines, *EXPORT_FILES[asked.format])


async def send_file(request: Request, make: Callable[[], Iterator[str]], name: str, media_type: str) -> Response:
    """Stream the lines that `make` returns as a file, as fast as the client reads."""
    service = service_of(request)

    def start(_: object) -> tuple[str, Iterator[str]]:
        lines = make()
        return next(lines, ""), lines  # raises errors before the response starts

    first, lines = await service.lanes.run(request, start)
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return StreamingResponse(_parts(service, first, lines), media_type=media_type, headers=headers)


async def _parts(service: Service, first: str, lines: Iterator[str]) -> AsyncIterator[bytes]:
    part = first
    while True:
        yield part.encode("utf-8", "backslashreplace")
        if service.closing.is_set():
            return
        part = await asyncio.to_thread(lambda: "".join(islice(lines, LINES_AT_ONCE)))
        if not part:
            return


def _columns(service: Service, space: str | None) -> bytes:
    """The map as bytes; docs/jobs.md describes the format."""
    drawn, _ = service.collection.known_map(space) or (None, False)
    head: dict[str, Any] = {"space": space or service.default_space(), "n": 0, "classes": []}
    columns: list[bytes] = []
    if drawn is not None:
        classes = service.collection.point_classes(drawn)
        head |= {"n": len(drawn.ids), "classes": [valid_text(name) for name in classes.names]}
        places = [(share * MAP_STEPS).round().astype("<u2") for share in (drawn.x, drawn.y)]
        columns = [array.tobytes() for array in (drawn.ids.astype("<i8"), *places, classes.codes.astype("<u2"))]
    text = json.dumps(head).encode()
    text += b" " * (-(4 + len(text)) % 8)  # so that the ids are aligned
    return b"".join([len(text).to_bytes(4, "little"), text, *columns])


def _summary(service: Service, person: Person) -> CollectionOut:
    found, visible = service.collection.glance(), service.visible(person)
    spaces = [
        SpaceOut(
            name=space["name"],
            about=ABOUT.get(space["name"], visible.text(" | ".join(space["chain"]))),
            items=space["rows"],
            dim=space["dim"],
            default=place == 0,
        )
        for place, space in enumerate(found["spaces"])
    ]
    budget, path = service.settings.budget, service.collection.path
    return CollectionOut(
        name=path.name.removesuffix(".lookalike").lstrip(".") or path.name,
        items=found["items"],
        not_indexed=found["not_indexed"],
        spaces=spaces,
        classes=found["classes"],
        labelled=found["labels"],
        saved=found["saved_searches"],
        me=PersonOut(name=person.name, role=person.role),
        roots=[str(root) for root in service.settings.roots] if person.may("manage") else [],
        sources=service.collection.sources() if person.may("manage") else [],
        limits=LimitsOut(upload_bytes=budget.upload_bytes, upload_pixels=budget.upload_pixels),
        version=lookalike.__version__,
    )
