"""Browsing: counts of the pictures by facet, by month and by folder."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.collection import Filter
from lookalike.server.models import (
    MAX_ITEMS,
    FacetOut,
    FacetsOut,
    FacetValueOut,
    FilterIn,
    FolderOut,
    FoldersOut,
    FoldersQuery,
    MonthOut,
    TimelineOut,
)
from lookalike.server.problems import json_response
from lookalike.server.service import needs_role, person_of, service_of, valid_text

MAX_VALUES = 200
"""Maximum number of values of a facet in a response."""

router = APIRouter(prefix="/api/v1", tags=["items"], dependencies=[Depends(needs_role("view"))])


@router.get("/facets", response_model=FacetsOut)
async def facets(request: Request, asked: Annotated[FilterIn, Query()]) -> Response:
    """Count items by year, camera, lens, place, orientation, file format, label and predicted class.

    The counts of a facet ignore the filter's condition on the same facet.
    """
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> FacetsOut:
        found = service.collection.facets(asked.to_filter(person))
        return FacetsOut(
            facets=[
                FacetOut(
                    name=name,
                    values=[
                        FacetValueOut(value=_to_text(value), n=n) for value, n in list(values.items())[:MAX_VALUES]
                    ],
                    n_values=len(values),
                )
                for name, values in found.items()
            ]
        )

    return json_response(await service.lanes.run(request, look_up))


@router.get("/timeline", response_model=TimelineOut)
async def timeline(request: Request, asked: Annotated[FilterIn, Query()]) -> Response:
    """Count items by month, newest first, in the order `taken` of the list of items."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> TimelineOut:
        months = service.collection.timeline(asked.to_filter(person))
        return TimelineOut(months=[MonthOut(month=month, n=n) for month, n in months.items()])

    return json_response(await service.lanes.run(request, look_up))


@router.get("/folders", response_model=FoldersOut)
async def folders(request: Request, asked: Annotated[FoldersQuery, Query()]) -> Response:
    """Return the folders in a folder, by default the sources, that contain items which match a filter."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> FoldersOut:
        Filter(folder=asked.parent, relative=not person.may("manage"))  # checks the name
        found = service.collection.folders(asked.parent, asked.to_filter(person), nested=asked.nested)
        return FoldersOut(
            folders=[
                FolderOut(
                    path=valid_text(folder.path),
                    name=valid_text(folder.name),
                    n=folder.items,
                    has_folders=folder.has_folders,
                )
                for folder in found[:MAX_ITEMS]
            ],
            n_folders=len(found),
        )

    return json_response(await service.lanes.run(request, look_up))


def _to_text(value: str | int | bool) -> str:
    return str(value).lower() if isinstance(value, bool) else valid_text(str(value))
