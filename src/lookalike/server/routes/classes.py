"""Classes: list, show, label, confirm, reject, rename, merge and delete; classification of pictures.

Changing labels needs the role judge; renaming, merging and deleting classes needs manage.
"""

from collections.abc import Callable
from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.collection import Changed, Classes, format_id
from lookalike.errors import UnknownNameError
from lookalike.server.access import Person
from lookalike.server.models import (
    MAX_ITEMS,
    ClassChangeOut,
    ClassificationOut,
    ClassifyIn,
    ClassMembersOut,
    ClassOut,
    MemberOut,
    MembersIn,
    MergeIn,
    Name,
    NameIn,
    PredictedItemOut,
    RenameIn,
)
from lookalike.server.problems import json_response, not_found
from lookalike.server.service import Service, needs_role, parse_ids, person_of, service_of, valid_text

router = APIRouter(prefix="/api/v1", tags=["classes"], dependencies=[Depends(needs_role("view"))])
JUDGE, MANAGE = [Depends(needs_role("judge"))], [Depends(needs_role("manage"))]


@router.get("/classes", response_model=list[ClassOut])
async def list_classes(request: Request) -> Response:
    """List all classes, sorted by name."""
    service = service_of(request)

    def look_up(_: object) -> list[ClassOut]:
        return [
            ClassOut(
                name=valid_text(one.name),
                pictures=one.pictures,
                elsewhere=one.elsewhere,
                predicted=one.predicted,
                parents=[valid_text(parent) for parent in one.parents],
            )
            for one in service.collection.classes.all()
        ]

    return json_response(await service.lanes.run(request, look_up))


@router.get("/classes/one", response_model=ClassMembersOut)
async def one_class(
    request: Request,
    name: Annotated[Name, Query()],
    offset: int = Query(0, ge=0, lt=2**31),
    limit: int = Query(200, ge=1, le=MAX_ITEMS),
) -> Response:
    """Return a class with a page of its labelled pictures and a page of its suggestions."""
    service, person = service_of(request), person_of(request)
    return json_response(await service.lanes.run(request, lambda _: _members(service, name, offset, limit, person)))


@router.post("/classes/add", response_model=ClassChangeOut, dependencies=JUDGE)
async def add(request: Request, asked: MembersIn) -> Response:
    """Add pictures to a class. The class is created if it does not exist."""
    author, items = person_of(request).name, parse_ids(asked.items)
    return await _change(request, lambda classes: classes.add(asked.name, items, author=author), asked.name)


@router.post("/classes/remove", response_model=ClassChangeOut, dependencies=JUDGE)
async def remove(request: Request, asked: MembersIn) -> Response:
    """Remove pictures from a class."""
    author, items = person_of(request).name, parse_ids(asked.items)
    return await _change(request, lambda classes: classes.remove(asked.name, items, author=author), asked.name)


@router.post("/classes/confirm", response_model=ClassChangeOut, dependencies=JUDGE)
async def confirm(request: Request, asked: MembersIn) -> Response:
    """Confirm suggestions: the pictures get the label."""
    author, items = person_of(request).name, parse_ids(asked.items)
    return await _change(request, lambda classes: classes.confirm(asked.name, items, author=author), asked.name)


@router.post("/classes/reject", response_model=ClassChangeOut, dependencies=JUDGE)
async def reject(request: Request, asked: MembersIn) -> Response:
    """Reject suggestions: the class is never suggested for these pictures again."""
    author, items = person_of(request).name, parse_ids(asked.items)
    return await _change(request, lambda classes: classes.reject(asked.name, items, author=author), asked.name)


@router.post("/classes/rename", response_model=ClassChangeOut, dependencies=MANAGE)
async def rename(request: Request, asked: RenameIn) -> Response:
    """Rename a class."""
    author = person_of(request).name
    return await _change(request, lambda classes: classes.rename(asked.name, asked.to, author=author), asked.to)


@router.post("/classes/merge", response_model=ClassChangeOut, dependencies=MANAGE)
async def merge(request: Request, asked: MergeIn) -> Response:
    """Merge several classes into one."""
    author = person_of(request).name
    return await _change(
        request, lambda classes: classes.merge(*asked.names, into=asked.into, author=author), asked.into
    )


@router.post("/classes/delete", response_model=ClassChangeOut, dependencies=MANAGE)
async def delete(request: Request, asked: NameIn) -> Response:
    """Delete a class and its labels. The pictures are kept."""
    author = person_of(request).name
    return await _change(request, lambda classes: classes.delete(asked.name, author=author), asked.name)


@router.post("/classify", response_model=list[ClassificationOut])
async def classify(request: Request, asked: ClassifyIn) -> Response:
    """Predict the classes of pictures. Nothing is stored."""
    service = service_of(request)

    def predict(_: object) -> list[ClassificationOut]:
        return [
            ClassificationOut(
                id=None if found.id is None else format_id(found.id),
                labels=[valid_text(label) for label in found.labels],
                label=_valid_label(found.label),
                probability=_rounded(found.probability),
                runner_up=_valid_label(found.runner_up),
                runner_up_probability=_rounded(found.runner_up_probability),
            )
            for found in service.collection.classify(service.examples(asked.examples, "examples"))
        ]

    return json_response(await service.lanes.run(request, predict))


async def _change(request: Request, verb: Callable[[Classes], Changed], name: str) -> Response:
    """Change a class; the response has the number of changed pictures."""
    service = service_of(request)

    def change(_: object) -> ClassChangeOut:
        try:
            changed = verb(service.collection.classes)
            return ClassChangeOut(name=valid_text(name), count=changed, action=changed.action)
        except UnknownNameError as error:
            raise not_found(str(error)) from None

    return json_response(await service.lanes.run(request, change))


def _members(service: Service, name: str, offset: int, limit: int, person: Person) -> ClassMembersOut:
    try:
        found = service.collection.classes.show(name)
    except UnknownNameError as error:
        raise not_found(str(error)) from None
    members, predicted = found.members[offset : offset + limit], found.predicted[offset : offset + limit]
    items = service.items_by_id([one.item for one in members] + [one.item for one in predicted], person)
    return ClassMembersOut(
        name=valid_text(found.name),
        total=len(found.members),
        total_predicted=len(found.predicted),
        offset=offset,
        members=[
            MemberOut(item=items[one.item], author=valid_text(one.author), when=one.at, source=one.source)
            for one in members
            if one.item in items
        ],
        predicted=[
            PredictedItemOut(item=items[one.item], probability=round(one.probability, 4))
            for one in predicted
            if one.item in items
        ],
        parents=[valid_text(parent) for parent in found.parents],
    )


def _valid_label(label: str | None) -> str | None:
    return None if label is None else valid_text(label)


def _rounded(probability: float | None) -> float | None:
    return None if probability is None else round(probability, 4)
