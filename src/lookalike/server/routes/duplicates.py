"""Duplicates: groups in four tiers, their export, and dismissed groups."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response
from fastapi.responses import StreamingResponse

from lookalike.collection import Group, Groups, Item, describe_copies, format_id
from lookalike.server.job_events import job_json
from lookalike.server.models import (
    CopiesIn,
    CopiesOut,
    DismissedOut,
    DismissIn,
    DuplicatesOut,
    DuplicatesQuery,
    GroupOut,
    GroupsExportQuery,
    RelationOut,
    TierOut,
    TiersQuery,
)
from lookalike.server.problems import json_response
from lookalike.server.routes.collection import EXPORT_FILES, EXPORT_RESPONSES, send_file
from lookalike.server.service import needs_role, parse_ids, person_of, service_of

router = APIRouter(prefix="/api/v1/duplicates", dependencies=[Depends(needs_role("view"))])


@router.get("", response_model=DuplicatesOut, tags=["duplicates"])
async def list_groups(request: Request, asked: Annotated[DuplicatesQuery, Query()]) -> Response:
    """Return a page of groups, largest first. If they are missing or stale, a job finds them."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> DuplicatesOut:
        groups, current = service.collection.known_duplicates(asked.tier, space=asked.space) or (Groups(), False)
        job = None
        if not current:
            job = service.jobs.ensure("duplicates", {"tier": asked.tier, "space": asked.space}, person.name)
        page = groups[asked.offset : asked.offset + asked.limit]
        found = service.collection.get([item for group in page for item in group.items])
        items = dict(zip(found, service.items_json(found.values(), person), strict=True))
        shown = [
            GroupOut(
                id=present.id,
                tier=present.tier,
                items=[items[item] for item in present.items],
                keep=items[present.items[0]]["id"],
                distances=[round(distance, 6) for distance in present.distances],
                relations=_relations_json(present, found),
                why=present.why,
            )
            for group in page
            if (present := group.among(items)) is not None
        ]
        return DuplicatesOut(
            total=len(groups) - len(page) + len(shown),
            offset=asked.offset,
            groups=shown,
            without_detail=groups.without_detail,
            current=current,
            job=None if job is None else job_json(job, service.visible(person)),
        )

    return json_response(await service.lanes.run(request, look_up))


@router.get("/tiers", response_model=list[TierOut], tags=["duplicates"])
async def list_tiers(request: Request, asked: Annotated[TiersQuery, Query()]) -> Response:
    """Return the number of known groups of each tier. This computes nothing."""
    service = service_of(request)

    def count(_: object) -> list[TierOut]:
        counts = service.collection.count_duplicates(space=asked.space)
        return [TierOut(tier=tier, n_groups=groups) for tier, groups in counts.items()]

    return json_response(await service.lanes.run(request, count))


@router.post("/copies", response_model=CopiesOut, dependencies=[Depends(needs_role("manage"))], tags=["duplicates"])
async def copies(request: Request, asked: CopiesIn) -> Response:
    """Return the copies in the stored groups that a rule does not keep. Nothing is removed."""
    collection = service_of(request).collection

    def mark(_: object) -> CopiesOut:
        groups, _ = collection.known_duplicates(asked.tier, space=asked.space) or (Groups(), False)
        marked = collection.mark_duplicates(groups, asked.keep, asked.references, crops=asked.crops)
        ids = [item for one in marked for item in one.items]
        return CopiesOut(
            items=[format_id(item) for item in ids],
            n_groups=sum(bool(one.items) for one in marked),
            bytes=sum(item.bytes for item in collection.get(ids).values()),
        )

    return json_response(await service_of(request).lanes.run(request, mark))


@router.post("/dismiss", response_model=DismissedOut, dependencies=[Depends(needs_role("judge"))], tags=["duplicates"])
async def dismiss(request: Request, asked: DismissIn) -> Response:
    """Record permanently that pictures are not duplicates of each other."""
    service, person = service_of(request), person_of(request)
    items = parse_ids(asked.items)
    pairs = await service.lanes.run(request, lambda _: service.collection.not_duplicates(items, author=person.name))
    return json_response(DismissedOut(pairs=pairs, action=pairs.action))


@router.get("/export", response_class=StreamingResponse, responses=EXPORT_RESPONSES, tags=["export"])
async def export_groups(request: Request, asked: Annotated[GroupsExportQuery, Query()]) -> Response:
    """Export the stored groups of duplicates with their items, as a file."""
    collection, (_, media_type) = service_of(request).collection, EXPORT_FILES[asked.format]
    relative = not person_of(request).may("manage")
    lines = partial(collection.group_lines, asked.tier, asked.format, space=asked.space, relative=relative)
    return await send_file(request, lines, f"duplicates.{asked.format}", media_type)


def _relations_json(group: Group, items: Mapping[int, Item]) -> list[RelationOut]:
    return [
        RelationOut(
            caption=caption,
            box=None if relation is None else list(relation.box),
            mirrored=relation is not None and relation.mirrored,
        )
        for caption, relation in zip(describe_copies(group, items), group.relations, strict=True)
    ]
