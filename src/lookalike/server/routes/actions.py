"""The history of changes to labels, classes, duplicates and pictures, and undo.

An action can be undone by users whose role allows the change itself. Undoing a removal is a job.
"""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.collection import Action, format_id
from lookalike.server.access import Person, Role
from lookalike.server.job_events import job_json
from lookalike.server.models import ActionOut, ActionPath, ActionsOut, ActionsQuery, UndoOut
from lookalike.server.problems import Problem, json_response
from lookalike.server.service import Service, needs_role, person_of, service_of, valid_text

JUDGED = ("label", "unlabel", "confirm", "reject", "finish", "dismiss")
"""Kinds of actions that the role judge can undo. All others need manage."""

SHOWN = 4
"""Maximum number of pictures of an action in the history."""

router = APIRouter(prefix="/api/v1/actions", tags=["history"], dependencies=[Depends(needs_role("view"))])


@router.get("", response_model=ActionsOut)
async def list_actions(request: Request, asked: Annotated[ActionsQuery, Query()]) -> Response:
    """Return a page of the history, newest first."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> ActionsOut:
        found = service.collection.actions(asked.offset, asked.limit)
        return ActionsOut(
            total=service.collection.n_actions(),
            offset=asked.offset,
            actions=[_action_json(service, action, person) for action in found],
        )

    return json_response(await service.lanes.run(request, look_up))


@router.post("/{id}/undo", response_model=UndoOut, dependencies=[Depends(needs_role("judge"))])
async def undo(request: Request, id: ActionPath) -> Response:
    """Undo an action, or redo it by undoing its undo. For a removal, the response has a job."""
    service, person = service_of(request), person_of(request)

    def change(_: object) -> UndoOut:
        action = service.collection.action(id)
        if not person.may(_role(action)):
            raise Problem(403, _needs(action, person))
        if action.kind == "remove" and action.can_undo:
            job = service.jobs.submit("undo", {"action": id}, person.name)
            return UndoOut(text=action.text, action=None, job=job_json(job, service.visible(person)))
        number = service.collection.undo(id, author=person.name).action
        text = service.collection.action(number).text if number is not None else action.text
        return UndoOut(text=valid_text(text), action=number, job=None)

    return json_response(await service.lanes.run(request, change))


def _role(action: Action) -> Role:
    return "judge" if action.kind in JUDGED else "manage"


def _needs(action: Action, person: Person) -> str:
    return f"To undo this action, you need the role {_role(action)}. You have {person.role}."


def _action_json(service: Service, action: Action, person: Person) -> ActionOut:
    items = service.collection.get(service.collection.action_items(action.id, SHOWN))
    return ActionOut(
        id=action.id,
        kind=action.kind,
        text=valid_text(action.text),
        author=valid_text(action.author),
        at=action.at,
        undoes=action.undoes,
        undone_by=action.undone_by,
        can_undo=action.can_undo and person.may(_role(action)),
        reason=action.reason or (None if person.may(_role(action)) else _needs(action, person)),
        items=[format_id(item) for item in items],
    )
