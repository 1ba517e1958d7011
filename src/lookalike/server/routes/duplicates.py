"""Duplicates: groups in three tiers, and what is no duplicate.

In: a tier. Out: the groups that are known, at once; where they are out of date, or were never made, a job makes them.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.server.events import describe
from lookalike.server.job_models import DismissedOut, DismissIn, DuplicatesOut, DuplicatesQuery
from lookalike.server.problems import reply
from lookalike.server.served import needs, numbers, person, served

router = APIRouter(prefix="/api/v1/duplicates", tags=["duplicates"], dependencies=[Depends(needs("view"))])


@router.get("", response_model=DuplicatesOut)
async def list_groups(request: Request, asked: Annotated[DuplicatesQuery, Query()]) -> Response:
    """A page of groups, the largest first."""
    here, who = served(request), person(request)

    def look(_: object) -> dict[str, Any]:
        groups, current = here.collection.known_duplicates(asked.tier, space=asked.space) or ([], False)
        job = None
        if not current:
            job = here.jobs.ensure("duplicates", {"tier": asked.tier, "space": asked.space}, who.name)
        page = groups[asked.offset : asked.offset + asked.limit]
        described = here.described([item for group in page for item in group.items], who)
        shown = [
            {
                "id": left.id,
                "tier": left.tier,
                "items": [described[item] for item in left.items],
                "keep": described[left.items[0]]["id"],
                "distances": [round(distance, 6) for distance in left.distances],
                "why": left.why,
            }
            for group in page
            if (left := group.among(described)) is not None
        ]
        return {
            "total": len(groups) - len(page) + len(shown),
            "offset": asked.offset,
            "groups": shown,
            "current": current,
            "job": None if job is None else describe(job, here.visible(who)),
        }

    return reply(await here.work.run(request, look))


@router.post("/dismiss", response_model=DismissedOut, dependencies=[Depends(needs("judge"))])
async def dismiss(request: Request, asked: DismissIn) -> Response:
    """Say, for good, that pictures are no duplicates of each other."""
    here, who = served(request), person(request)
    items = numbers(asked.items)
    pairs = await here.work.run(request, lambda _: here.collection.not_duplicates(items, author=who.name))
    return reply({"pairs": pairs})
