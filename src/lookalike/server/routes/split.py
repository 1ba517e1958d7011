"""Training, validation and test pictures."""

from fastapi import APIRouter, Depends, Request, Response

from lookalike.collection import KEPT_TOGETHER
from lookalike.server.job_events import job_json
from lookalike.server.models import PartOut, SplitIn, SplitOut
from lookalike.server.problems import Problem, json_response
from lookalike.server.service import needs_role, person_of, service_of, valid_text

router = APIRouter(prefix="/api/v1", tags=["export"], dependencies=[Depends(needs_role("view"))])


@router.post("/split", response_model=SplitOut)
async def split(request: Request, asked: SplitIn) -> Response:
    """Split the labelled pictures into training, validation and test pictures, each stored as a selection.

    If the duplicates are missing or stale, a job finds them first: send the request again when it has ended.
    """
    service, person = service_of(request), person_of(request)

    def divide(_: object) -> SplitOut:
        for tier in KEPT_TOGETHER[asked.together]:
            _, current = service.collection.known_duplicates(tier) or (None, False)
            if not current:
                job = service.jobs.ensure("duplicates", {"tier": tier, "space": None}, person.name)
                if job is None:
                    raise Problem(409, "The duplicates are not up to date, and the collection is read-only.")
                return SplitOut(parts=[], warnings=[], job=job_json(job, service.visible(person)))
        found = service.collection.split(asked.shares, together=asked.together)
        parts: list[PartOut] = []
        for part, ids in found.parts.items():
            selection, count = service.selections.add(ids)
            classes = {valid_text(name): counts[part] for name, counts in found.classes.items()}
            parts.append(PartOut(part=part, selection=selection, count=count, classes=classes))
        return SplitOut(parts=parts, warnings=[valid_text(text) for text in found.warnings], job=None)

    return json_response(await service.lanes.run(request, divide))
