"""Classes: listed, looked at, filled, corrected, renamed; and what pictures are taken for.

In: names and ids. Out: counts and members. To say what a picture is takes the role judge; to change a class as a whole,
manage.
"""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.collection import Classes, format_id
from lookalike.errors import UnknownNameError
from lookalike.server.access import Person
from lookalike.server.answers import ChangedOut, ClassOut, ClassView, VerdictOut
from lookalike.server.models import MOST, ClassifyIn, MembersIn, MergeIn, Name, NameIn, RenameIn
from lookalike.server.problems import missing, reply
from lookalike.server.served import Served, needs, numbers, person, served, valid

router = APIRouter(prefix="/api/v1", tags=["classes"], dependencies=[Depends(needs("view"))])
JUDGE, MANAGE = [Depends(needs("judge"))], [Depends(needs("manage"))]


@router.get("/classes", response_model=list[ClassOut])
async def list_classes(request: Request) -> Response:
    """Every class, sorted by name."""
    here = served(request)

    def look(_: object) -> list[dict[str, Any]]:
        return [
            {
                "name": valid(one.name),
                "pictures": one.pictures,
                "elsewhere": one.elsewhere,
                "predicted": one.predicted,
                "parents": [valid(parent) for parent in one.parents],
            }
            for one in here.collection.classes.all()
        ]

    return reply(await here.work.run(request, look))


@router.get("/classes/one", response_model=ClassView)
async def one_class(
    request: Request,
    name: Annotated[Name, Query()],
    offset: int = Query(0, ge=0, lt=2**31),
    limit: int = Query(200, ge=1, le=MOST),
) -> Response:
    """A class: who put what into it, and what is predicted to be of it; a page of each."""
    here, who = served(request), person(request)
    return reply(await here.work.run(request, lambda _: _view(here, name, offset, limit, who)))


@router.post("/classes/add", response_model=ChangedOut, dependencies=JUDGE)
async def add(request: Request, asked: MembersIn) -> Response:
    """Put pictures into a class, which may be new."""
    who = person(request).name
    return await _change(request, lambda classes: classes.add(asked.name, numbers(asked.items), author=who), asked.name)


@router.post("/classes/remove", response_model=ChangedOut, dependencies=JUDGE)
async def remove(request: Request, asked: MembersIn) -> Response:
    """Take pictures out of a class again."""
    return await _change(request, lambda classes: classes.remove(asked.name, numbers(asked.items)), asked.name)


@router.post("/classes/confirm", response_model=ChangedOut, dependencies=JUDGE)
async def confirm(request: Request, asked: MembersIn) -> Response:
    """What is predicted is right: from now on somebody said so."""
    who, items = person(request).name, numbers(asked.items)
    return await _change(request, lambda classes: classes.confirm(asked.name, items, author=who), asked.name)


@router.post("/classes/reject", response_model=ChangedOut, dependencies=JUDGE)
async def reject(request: Request, asked: MembersIn) -> Response:
    """Pictures are not of a class: it is never predicted for them again."""
    who, items = person(request).name, numbers(asked.items)
    return await _change(request, lambda classes: classes.reject(asked.name, items, author=who), asked.name)


@router.post("/classes/rename", response_model=ChangedOut, dependencies=MANAGE)
async def rename(request: Request, asked: RenameIn) -> Response:
    """Give a class another name."""
    return await _change(request, lambda classes: classes.rename(asked.name, asked.to), asked.to)


@router.post("/classes/merge", response_model=ChangedOut, dependencies=MANAGE)
async def merge(request: Request, asked: MergeIn) -> Response:
    """Make one class of several."""
    return await _change(request, lambda classes: classes.merge(*asked.names, into=asked.into), asked.into)


@router.post("/classes/delete", response_model=ChangedOut, dependencies=MANAGE)
async def delete(request: Request, asked: NameIn) -> Response:
    """Forget a class and its labels. The pictures stay."""
    return await _change(request, lambda classes: classes.delete(asked.name), asked.name)


@router.post("/classify", response_model=list[VerdictOut])
async def classify(request: Request, asked: ClassifyIn) -> Response:
    """What pictures are taken for; nothing is kept."""
    here = served(request)

    def look(_: object) -> list[dict[str, Any]]:
        predictions = here.collection.classify(here.examples(asked.examples, "examples"))
        return [
            {
                "id": None if prediction.id is None else format_id(prediction.id),
                "labels": [valid(label) for label in prediction.labels],
                "label": _named(prediction.label),
                "probability": round(prediction.probability, 4),
                "runner_up": _named(prediction.runner_up),
                "runner_up_probability": round(prediction.runner_up_probability, 4),
            }
            for prediction in predictions
        ]

    return reply(await here.work.run(request, look))


async def _change(request: Request, verb: Callable[[Classes], int], name: str) -> Response:
    """Do something to a class, and say how many pictures that was about."""
    here = served(request)

    def change(_: object) -> dict[str, Any]:
        try:
            return {"name": valid(name), "count": verb(here.collection.classes)}
        except UnknownNameError as error:
            raise missing(str(error)) from None

    return reply(await here.work.run(request, change))


def _view(here: Served, name: str, offset: int, limit: int, who: Person) -> dict[str, Any]:
    try:
        view = here.collection.classes.show(name)
    except UnknownNameError as error:
        raise missing(str(error)) from None
    members, predicted = view.members[offset : offset + limit], view.predicted[offset : offset + limit]
    described = here.described([one.item for one in members] + [one.item for one in predicted], who)
    return {
        "name": valid(view.name),
        "total": len(view.members),
        "total_predicted": len(view.predicted),
        "offset": offset,
        "members": [
            {"item": described[one.item], "author": valid(one.author), "when": one.at, "source": one.source}
            for one in members
            if one.item in described
        ],
        "predicted": [
            {"item": described[one.item], "probability": round(one.probability, 4)}
            for one in predicted
            if one.item in described
        ],
        "parents": [valid(parent) for parent in view.parents],
    }


def _named(label: str | None) -> str | None:
    return None if label is None else valid(label)
