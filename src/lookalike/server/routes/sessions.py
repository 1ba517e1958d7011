"""Feedback sessions: start, mark, undo, run a round, explain, finish with a class.

A session belongs to its author. All users can read it; users with the role manage can also resume it.
"""

from typing import Any

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.collection import Result, Round, Session, Summary, format_id
from lookalike.errors import InputError
from lookalike.server.access import Person
from lookalike.server.models import (
    MAX_ITEMS,
    EstimateOut,
    ExplanationOut,
    FinishedOut,
    FinishIn,
    ItemPath,
    LogEntryOut,
    MarkCountsOut,
    MarksIn,
    NeighbourOut,
    RankedOut,
    RankingOut,
    RoundIn,
    RoundOut,
    SessionIn,
    SessionOut,
    SessionPath,
    SessionSummaryOut,
    StartExampleOut,
    UndoneOut,
)
from lookalike.server.problems import Problem, json_response, not_found
from lookalike.server.service import Service, needs_role, parse_ids, person_of, service_of, valid_text

router = APIRouter(prefix="/api/v1/sessions", tags=["sessions"], dependencies=[Depends(needs_role("view"))])
JUDGE = [Depends(needs_role("judge"))]
MAX_EXAMPLES = 12
"""Number of a session's first examples in a response."""


@router.get("", response_model=list[SessionSummaryOut])
async def list_sessions(request: Request) -> Response:
    """List all sessions without their marks, the most recently changed first."""
    service = service_of(request)
    return json_response(
        await service.lanes.run(request, lambda _: [_summary_json(one) for one in service.collection.sessions()])
    )


@router.post("", response_model=SessionOut, status_code=201, dependencies=JUDGE)
async def start(request: Request, asked: SessionIn) -> Response:
    """Start a session from examples or words, or from a label."""
    service, person = service_of(request), person_of(request)

    def create(_: object) -> SessionOut:
        session = service.collection.session(
            service.examples(asked.examples, "examples"),
            words=asked.words,
            without=service.examples(asked.without, "without"),
            without_words=asked.without_words,
            label=asked.label,
            space=asked.space,
            name=asked.name,
            author=person.name,
        )
        return _session_json(service, session, person)

    return json_response(await service.lanes.run(request, create), 201)


@router.get("/{id}", response_model=SessionOut)
async def one_session(request: Request, id: SessionPath) -> Response:
    """Return one session with its marks."""
    service, person = service_of(request), person_of(request)
    return json_response(
        await service.lanes.run(request, lambda _: _session_json(service, _open(service, id, person), person))
    )


@router.delete("/{id}", response_model=SessionOut, dependencies=JUDGE)
async def delete(request: Request, id: SessionPath) -> Response:
    """Delete an unfinished session and its marks. Finished sessions cannot be deleted."""
    service, person = service_of(request), person_of(request)

    def remove(_: object) -> SessionOut:
        deleted = _session_json(service, _open_own(service, id, person), person)
        service.collection.remove_session(id)
        return deleted

    return json_response(await service.lanes.run(request, remove))


@router.post("/{id}/marks", response_model=SessionOut, dependencies=JUDGE)
async def mark(request: Request, id: SessionPath, asked: MarksIn) -> Response:
    """Mark pictures. The marks are on disk before the response is sent. `undo` undoes one request."""
    service, person = service_of(request), person_of(request)

    def save_marks(_: object) -> SessionOut:
        session = _open_own(service, id, person)
        session.mark(*(parse_ids(ids) for ids in (asked.relevant, asked.irrelevant, asked.skip)))
        return _session_json(service, session, person)

    return json_response(await service.lanes.run(request, save_marks))


@router.post("/{id}/undo", response_model=UndoneOut, dependencies=JUDGE)
async def undo(request: Request, id: SessionPath) -> Response:
    """Undo the last step of the user who sends the request."""
    service, person = service_of(request), person_of(request)

    def undo_step(_: object) -> UndoneOut:
        session = _open_own(service, id, person)
        undone: dict[str, str] = {format_id(item): kind for item, kind in session.undo().items()}
        return UndoneOut(undone=undone, session=_session_json(service, session, person))

    return json_response(await service.lanes.run(request, undo_step))


@router.post("/{id}/round", response_model=RoundOut, dependencies=JUDGE, summary="Run Round")
async def play(request: Request, id: SessionPath, asked: RoundIn) -> Response:
    """Run a feedback round: learn from the marks, and return the ranking and the next questions.

    With `resume`, the response repeats the last round, and its questions stay the same until the next round.
    """
    service, person = service_of(request), person_of(request)

    def learn(_: object) -> RoundOut:
        session = _open_own(service, id, person)
        run = session.resume if asked.resume else session.round
        played = run(asked.k, asked.window, filter=asked.filter.to_filter(person))
        return _round_json(service, session, played, person)

    return json_response(await service.lanes.run(request, learn, lane="learn"))


@router.get("/{id}/best", response_model=RankingOut)
async def best(request: Request, id: SessionPath, k: int = Query(50, ge=1, le=MAX_ITEMS)) -> Response:
    """Return the ranking of a session, finished or not. Nothing is stored."""
    service, person = service_of(request), person_of(request)

    def rank(_: object) -> RankingOut:
        session = _open(service, id, person)
        return RankingOut(best=_ranking_json(service, session, session.best(k), person))

    return json_response(await service.lanes.run(request, rank, lane="learn"))


@router.get("/{id}/log", response_model=list[LogEntryOut])
async def log(request: Request, id: SessionPath) -> Response:
    """List all questions, marks and undone marks, in order."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> list[LogEntryOut]:
        return [
            LogEntryOut(
                kind=event.kind,
                item=format_id(event.item),
                round=event.round,
                position=event.position,
                author=valid_text(event.author),
                at=event.at,
                undone=event.undone,
            )
            for event in _open(service, id, person).log
        ]

    return json_response(await service.lanes.run(request, look_up))


@router.post("/{id}/finish", response_model=FinishedOut, dependencies=JUDGE)
async def finish(request: Request, id: SessionPath, asked: FinishIn) -> Response:
    """Finish the session: the positive pictures get a label and become a class."""
    service, person = service_of(request), person_of(request)

    def label(_: object) -> FinishedOut:
        done = _open_own(service, id, person).finish(asked.name)
        return FinishedOut(
            label=valid_text(done.name),
            labelled=done.labelled,
            relevant=done.relevant,
            irrelevant=done.irrelevant,
            contradicted=[format_id(item) for item in done.contradicted],
            action=done.labelled.action,
        )

    return json_response(await service.lanes.run(request, label))


@router.get("/{id}/why/{item}", response_model=ExplanationOut)
async def why(request: Request, id: SessionPath, item: ItemPath) -> Response:
    """Explain the rank of a picture: its margin, the nearest marked pictures, and the part that matches best."""
    service, person = service_of(request), person_of(request)

    def explain(_: object) -> ExplanationOut:
        session = _open(service, id, person)
        found = session.why(service.item(item).id)
        return ExplanationOut(
            margin=None if found.margin is None else round(found.margin, 6),
            nearest_relevant=_neighbours_json(service, found.relevant, person),
            nearest_irrelevant=_neighbours_json(service, found.irrelevant, person),
            box=None if found.box is None else list(found.box),
        )

    return json_response(await service.lanes.run(request, explain, lane="describe"))


def _open(service: Service, id: str, person: Person) -> Session:
    """Return a session to read; raise Problem 404 if it does not exist."""
    try:
        return service.collection.session(id=id, author=person.name)
    except InputError as error:
        raise not_found(str(error)) from None


def _open_own(service: Service, id: str, person: Person) -> Session:
    """Return a session to change; raise Problem 403 if it belongs to another user."""
    session = _open(service, id, person)
    author = session.summary.author
    if author != person.name and not person.may("manage"):
        raise Problem(
            403, f"This session belongs to {author}, so you can only read it. Start your own session to mark pictures."
        )
    return session


def _summary_json(summary: Summary) -> SessionSummaryOut:
    name = None if summary.name is None else valid_text(summary.name)
    return SessionSummaryOut(
        id=summary.id,
        name=name,
        space=summary.space,
        author=valid_text(summary.author),
        started=summary.created_at,
        changed=summary.changed_at,
        rounds=summary.rounds,
        marks=MarkCountsOut(relevant=summary.relevant, irrelevant=summary.irrelevant, skip=summary.skipped),
        finished=summary.finished_at is not None,
        label=None if summary.finished_at is None else name,
    )


def _session_json(service: Service, session: Session, person: Person) -> SessionOut:
    examples = session.examples[:MAX_EXAMPLES]
    items = service.items_by_id([one.id for one in examples if one.id is not None], person)
    ids: dict[str, list[str]] = {"relevant": [], "irrelevant": [], "skip": []}
    for item, mark in session.marks.items():
        ids[mark].append(format_id(item))
    return SessionOut(
        **_summary_json(session.summary),
        examples=[
            StartExampleOut(item=None if one.id is None else items.get(one.id), words=one.words, positive=one.positive)
            for one in examples
        ],
        relevant=ids["relevant"],
        irrelevant=ids["irrelevant"],
        skipped=ids["skip"],
    )


def _round_json(service: Service, session: Session, played: Round, person: Person) -> RoundOut:
    estimate, visible = played.estimate, service.visible(person)
    return RoundOut(
        number=played.number,
        best=_ranking_json(service, session, played.best, person),
        questions=service.items_json(played.questions, person),
        found=played.found,
        estimate=None if estimate is None else EstimateOut(value=estimate.likely, low=estimate.low, high=estimate.high),
        stop=played.stop,
        seconds={name: round(seconds, 6) for name, seconds in played.seconds.items()},
        notes=[valid_text(visible.text(note)) for note in played.notes],
    )


def _ranking_json(service: Service, session: Session, results: list[Result], person: Person) -> list[RankedOut]:
    marks = {format_id(item): kind for item, kind in session.marks.items()}
    return [
        RankedOut(item=found["item"], score=found["score"], mark=marks.get(found["item"]["id"]))
        for found in service.results_json(results, person)
    ]


def _neighbours_json(service: Service, near: list[Any], person: Person) -> list[NeighbourOut]:
    items = service.items_by_id([one.id for one in near if one.id is not None], person)
    return [NeighbourOut(item=items.get(one.id), distance=round(one.distance, 6)) for one in near]
