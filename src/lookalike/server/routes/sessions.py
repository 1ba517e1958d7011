"""Feedback sessions: started, marked, undone, played, explained, finished into a class.

In: examples and marks. Out: rounds, and where a session stands. A session is its author's: others may look at it,
and those who manage may go on with it.
"""

from typing import Any

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.collection import Result, Round, Session, format_id
from lookalike.errors import InputError
from lookalike.server.access import Person
from lookalike.server.answers import FinishedOut, LogLine, RankedOut, RoundOut, SessionOut, UndoneOut, WhyOut
from lookalike.server.models import MOST, FinishIn, ItemPath, MarksIn, RoundIn, SessionIn, SessionPath
from lookalike.server.problems import Problem, missing, reply
from lookalike.server.served import Served, needs, numbers, person, served, valid

router = APIRouter(prefix="/api/v1/sessions", tags=["sessions"], dependencies=[Depends(needs("view"))])
JUDGE = [Depends(needs("judge"))]


@router.get("", response_model=list[SessionOut])
async def list_sessions(request: Request) -> Response:
    """Every session, the last touched first; without their marks."""
    here = served(request)
    return reply(await here.work.run(request, lambda _: [_summary(one) for one in here.collection.sessions()]))


@router.post("", response_model=SessionOut, status_code=201, dependencies=JUDGE)
async def start(request: Request, asked: SessionIn) -> Response:
    """Start a session from examples, or from a label."""
    here, who = served(request), person(request)

    def begin(_: object) -> dict[str, Any]:
        session = here.collection.session(
            here.examples(asked.examples, "examples"),
            without=here.examples(asked.without, "without"),
            label=asked.label,
            space=asked.space,
            name=asked.name,
            author=who.name,
        )
        return _session(session)

    return reply(await here.work.run(request, begin), 201)


@router.get("/{id}", response_model=SessionOut)
async def one_session(request: Request, id: SessionPath) -> Response:
    """One session, with its marks."""
    here, who = served(request), person(request)
    return reply(await here.work.run(request, lambda _: _session(_open(here, id, who))))


@router.delete("/{id}", response_model=SessionOut, dependencies=JUDGE)
async def remove(request: Request, id: SessionPath) -> Response:
    """Forget a session that nobody goes on with, with all that was said in it. A finished one stays."""
    here, who = served(request), person(request)

    def forget(_: object) -> dict[str, Any]:
        told = _session(_own(here, id, who))
        here.collection.remove_session(id)
        return told

    return reply(await here.work.run(request, forget))


@router.post("/{id}/marks", response_model=SessionOut, dependencies=JUDGE)
async def mark(request: Request, id: SessionPath, asked: MarksIn) -> Response:
    """Say what pictures are; on the disk when this is answered. One request is one step for undo."""
    here, who = served(request), person(request)

    def say(_: object) -> dict[str, Any]:
        session = _own(here, id, who)
        session.mark(*(numbers(ids) for ids in (asked.relevant, asked.irrelevant, asked.skip)))
        return _session(session)

    return reply(await here.work.run(request, say))


@router.post("/{id}/undo", response_model=UndoneOut, dependencies=JUDGE)
async def undo(request: Request, id: SessionPath) -> Response:
    """Take back one's own last step."""
    here, who = served(request), person(request)

    def take_back(_: object) -> dict[str, Any]:
        session = _own(here, id, who)
        undone = {format_id(item): kind for item, kind in session.undo().items()}
        return {"undone": undone, "session": _session(session)}

    return reply(await here.work.run(request, take_back))


@router.post("/{id}/round", response_model=RoundOut, dependencies=JUDGE)
async def play(request: Request, id: SessionPath, asked: RoundIn) -> Response:
    """Learn from the marks: the best so far, and what to judge next."""
    here, who = served(request), person(request)

    def learn(_: object) -> dict[str, Any]:
        session = _own(here, id, who)
        return _round(here, session, session.round(asked.k, asked.window, filter=asked.filter.made(who)), who)

    return reply(await here.work.run(request, learn, lane="learn"))


@router.get("/{id}/best", response_model=RankedOut)
async def best(request: Request, id: SessionPath, k: int = Query(50, ge=1, le=MOST)) -> Response:
    """The ranking of a session, open or finished; nothing is asked or kept."""
    here, who = served(request), person(request)

    def look(_: object) -> dict[str, Any]:
        session = _open(here, id, who)
        return {"best": _ranked(here, session, session.best(k), who)}

    return reply(await here.work.run(request, look, lane="learn"))


@router.get("/{id}/log", response_model=list[LogLine])
async def log(request: Request, id: SessionPath) -> Response:
    """Everything that was shown, said and undone, in order."""
    here, who = served(request), person(request)

    def look(_: object) -> list[dict[str, Any]]:
        return [
            {
                "kind": event.kind,
                "item": format_id(event.item),
                "round": event.round,
                "position": event.position,
                "author": valid(event.author),
                "at": event.at,
                "undone": event.undone,
            }
            for event in _open(here, id, who).log
        ]

    return reply(await here.work.run(request, look))


@router.post("/{id}/finish", response_model=FinishedOut, dependencies=JUDGE)
async def finish(request: Request, id: SessionPath, asked: FinishIn) -> Response:
    """Give what is relevant a name: it becomes a class, and the session ends."""
    here, who = served(request), person(request)

    def end(_: object) -> dict[str, Any]:
        done = _own(here, id, who).finish(asked.name)
        return {
            "label": valid(done.name),
            "labelled": done.labelled,
            "relevant": done.relevant,
            "irrelevant": done.irrelevant,
            "contradicted": [format_id(item) for item in done.contradicted],
        }

    return reply(await here.work.run(request, end))


@router.get("/{id}/why/{item}", response_model=WhyOut)
async def why(request: Request, id: SessionPath, item: ItemPath) -> Response:
    """Why a picture stands where it does: its margin, the nearest marked ones, the part that speaks for it."""
    here, who = served(request), person(request)

    def look(_: object) -> dict[str, Any]:
        session = _open(here, id, who)
        found = session.why(here.item(item).id)
        return {
            "margin": None if found.margin is None else round(found.margin, 6),
            "nearest_relevant": _near(here, found.relevant, who),
            "nearest_irrelevant": _near(here, found.irrelevant, who),
            "box": None if found.box is None else list(found.box),
        }

    return reply(await here.work.run(request, look, lane="describe"))


def _open(here: Served, id: str, who: Person) -> Session:
    """A session, to look at; 404 where there is none."""
    try:
        return here.collection.session(id=id, author=who.name)
    except InputError as error:
        raise missing(str(error)) from None


def _own(here: Served, id: str, who: Person) -> Session:
    """A session, to go on with."""
    session = _open(here, id, who)
    author = session.summary.author
    if author != who.name and not who.may("manage"):
        raise Problem(403, f"This session is {author}'s: you may look at it. Start one of your own to judge.")
    return session


def _summary(summary: Any) -> dict[str, Any]:
    return {
        "id": summary.id,
        "name": None if summary.name is None else valid(summary.name),
        "space": summary.space,
        "author": valid(summary.author),
        "started": summary.created_at,
        "changed": summary.changed_at,
        "rounds": summary.rounds,
        "marks": {"relevant": summary.relevant, "irrelevant": summary.irrelevant, "skip": summary.skipped},
        "finished": summary.finished_at is not None,
        "label": None if summary.name is None or summary.finished_at is None else valid(summary.name),
    }


def _session(session: Session) -> dict[str, Any]:
    marks = session.marks
    lanes = {"relevant": "relevant", "irrelevant": "irrelevant", "skipped": "skip"}
    said = {lane: [format_id(item) for item, mark in marks.items() if mark == kind] for lane, kind in lanes.items()}
    return {**_summary(session.summary), **said}


def _round(here: Served, session: Session, played: Round, who: Person) -> dict[str, Any]:
    estimate, visible = played.estimate, here.visible(who)
    return {
        "number": played.number,
        "best": _ranked(here, session, played.best, who),
        "questions": here.describe(played.questions, who),
        "found": played.found,
        "estimate": None
        if estimate is None
        else {"value": estimate.likely, "low": estimate.low, "high": estimate.high},
        "stop": played.stop,
        "seconds": {name: round(seconds, 6) for name, seconds in played.seconds.items()},
        "notes": [valid(visible.text(note)) for note in played.notes],
    }


def _ranked(here: Served, session: Session, results: list[Result], who: Person) -> list[dict[str, Any]]:
    marks = {format_id(item): kind for item, kind in session.marks.items()}
    return [
        {"item": found["item"], "score": found["score"], "mark": marks.get(found["item"]["id"])}
        for found in here.found(results, who)
    ]


def _near(here: Served, near: list[Any], who: Person) -> list[dict[str, Any]]:
    described = here.described([one.id for one in near if one.id is not None], who)
    return [{"item": described.get(one.id), "distance": round(one.distance, 6)} for one in near]
