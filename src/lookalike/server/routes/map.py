"""The map: pictures in a square, alike ones together.

In: a space. Out: places, as they are known; where they are out of date, or there are none, a job draws them.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.collection import format_id
from lookalike.server.events import describe
from lookalike.server.job_models import MapOut
from lookalike.server.models import Name
from lookalike.server.problems import reply
from lookalike.server.served import needs, person, served, valid

router = APIRouter(prefix="/api/v1/map", tags=["map"], dependencies=[Depends(needs("view"))])


@router.get("", response_model=MapOut)
async def places(request: Request, space: Annotated[Name | None, Query()] = None) -> Response:
    """At most 5,000 pictures of a space with a place each."""
    here, who = served(request), person(request)

    def look(_: object) -> dict[str, Any]:
        known = here.collection.known_map(space)
        drawn, current = known or (None, False)
        job = None if current else here.jobs.ensure("map", {"space": space}, who.name)
        found: dict[str, Any] = {"space": space or here.first_space(), "ids": [], "x": [], "y": [], "labels": []}
        if drawn is not None:
            ids = drawn.ids.tolist()
            labels = here.collection.labels(ids)
            found |= {
                "ids": [format_id(item) for item in ids],
                "x": [round(place, 5) for place in drawn.x.tolist()],
                "y": [round(place, 5) for place in drawn.y.tolist()],
                "labels": [[valid(label) for label in labels[item]] for item in ids],
            }
        total = 0 if drawn is None else drawn.total
        shown = None if job is None else describe(job, here.visible(who))
        return found | {"total": total, "current": current, "job": shown}

    return reply(await here.work.run(request, look))
