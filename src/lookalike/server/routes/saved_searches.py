"""Saved searches: save, run, count new results, mark as seen, rename, delete.

A saved search belongs to its author. All users can run it; users with the role manage can also change it.
"""

import time

from fastapi import APIRouter, Depends, Request, Response

from lookalike.collection import SavedExample, SavedSearch, format_id
from lookalike.errors import UnknownNameError
from lookalike.server.access import Person
from lookalike.server.lanes import Stop
from lookalike.server.models import (
    NameIn,
    NewOut,
    SavedExampleOut,
    SavedIn,
    SavedOut,
    SavedPath,
    SavedRunOut,
    SeenIn,
)
from lookalike.server.problems import Problem, json_response, not_found
from lookalike.server.routes.search import search_json, search_query
from lookalike.server.service import Service, needs_role, person_of, service_of, valid_text

router = APIRouter(prefix="/api/v1/saved", tags=["search"], dependencies=[Depends(needs_role("view"))])
JUDGE = [Depends(needs_role("judge"))]


@router.get("", response_model=list[SavedOut])
async def list_saved(request: Request) -> Response:
    """List all saved searches, ordered by name."""
    service, person = service_of(request), person_of(request)

    def look_up(_: object) -> list[SavedOut]:
        return [_json(service, search, person) for search in service.collection.saved_searches.all()]

    return json_response(await service.lanes.run(request, look_up))


@router.post("", response_model=SavedOut, status_code=201, dependencies=JUDGE)
async def save(request: Request, asked: SavedIn) -> Response:
    """Save a search. Uploads are stored as vectors, so the search does not need them later."""
    service, person = service_of(request), person_of(request)

    def create(_: object) -> SavedOut:
        query = search_query(service, asked, person)
        saved = service.collection.saved_searches.save(asked.name, **query, author=person.name)
        return _json(service, saved, person)

    return json_response(await service.lanes.run(request, create, lane="describe"), 201)


@router.get("/{id}", response_model=SavedOut)
async def one_saved(request: Request, id: SavedPath) -> Response:
    """Return a saved search without its results."""
    service, person = service_of(request), person_of(request)
    return json_response(await service.lanes.run(request, lambda _: _json(service, _find(service, id), person)))


@router.get("/{id}/results", response_model=SavedRunOut)
async def run(request: Request, id: SavedPath) -> Response:
    """Run a saved search. The results stay new until they are marked as seen."""
    service, person = service_of(request), person_of(request)

    def find(stop: Stop) -> SavedRunOut:
        search, start = _find(service, id), time.perf_counter()
        found = service.collection.saved_searches.run(search.id, progress=stop.progress)
        visible = service.visible(person)
        return SavedRunOut(
            **search_json(service, found.results, search.query.space, time.perf_counter() - start, person),
            search=_json(service, found.search, person),
            new=[format_id(item) for item in found.new],
            newest=found.newest,
            notes=[valid_text(visible.text(note)) for note in found.notes],
        )

    return json_response(await service.lanes.run(request, find, lane="describe"))


@router.get("/{id}/new", response_model=NewOut)
async def count_new(request: Request, id: SavedPath) -> Response:
    """Return the number of new results. Nothing is searched if no pictures were added."""
    service = service_of(request)

    def count(_: object) -> NewOut:
        return NewOut(n_new=service.collection.saved_searches.count_new(_find(service, id).id))

    return json_response(await service.lanes.run(request, count, lane="describe"))


@router.post("/{id}/seen", response_model=SavedOut, dependencies=JUDGE)
async def mark_seen(request: Request, id: SavedPath, asked: SeenIn) -> Response:
    """Mark results as seen, so that they are no longer new."""
    service, person = service_of(request), person_of(request)

    def mark(_: object) -> SavedOut:
        search = _find_own(service, id, person)
        service.collection.saved_searches.mark_seen(search.id, asked.until)
        return _json(service, _find(service, id), person)

    return json_response(await service.lanes.run(request, mark))


@router.post("/{id}/rename", response_model=SavedOut, dependencies=JUDGE)
async def rename(request: Request, id: SavedPath, asked: NameIn) -> Response:
    """Rename a saved search. Its id stays the same."""
    service, person = service_of(request), person_of(request)

    def change(_: object) -> SavedOut:
        search = _find_own(service, id, person)
        return _json(service, service.collection.saved_searches.rename(search.id, asked.name), person)

    return json_response(await service.lanes.run(request, change))


@router.delete("/{id}", response_model=SavedOut, dependencies=JUDGE)
async def delete(request: Request, id: SavedPath) -> Response:
    """Delete a saved search."""
    service, person = service_of(request), person_of(request)

    def remove(_: object) -> SavedOut:
        search = _find_own(service, id, person)
        service.collection.saved_searches.remove(search.id)
        return _json(service, search, person)

    return json_response(await service.lanes.run(request, remove))


def _find(service: Service, id: str) -> SavedSearch:
    """Return a saved search; raise Problem 404 if it does not exist."""
    try:
        return service.collection.saved_searches.get(id)
    except UnknownNameError:
        raise not_found("This saved search does not exist. It may have been deleted.") from None


def _find_own(service: Service, id: str, person: Person) -> SavedSearch:
    """Return a saved search to change; raise Problem 403 if it belongs to another user."""
    search = _find(service, id)
    if not _may_change(search, person):
        raise Problem(403, f"This saved search belongs to {search.author}, so you cannot change it. Save your own.")
    return search


def _may_change(search: SavedSearch, person: Person) -> bool:
    return person.may("manage") or (person.may("judge") and search.author == person.name)


def _json(service: Service, search: SavedSearch, person: Person) -> SavedOut:
    query, visible = search.query, service.visible(person)
    conditions = {name: value for name, value in query.conditions.items() if name != "relative"}
    hidden = [name for name, value in conditions.items() if isinstance(value, str) and visible.text(value) != value]
    conditions = {
        name: valid_text(value) if isinstance(value, str) else value
        for name, value in conditions.items()
        if name not in hidden
    }
    examples = [*query.positive, *query.negative]
    return SavedOut(
        id=search.id,
        name=valid_text(search.name),
        author=valid_text(search.author),
        mine=_may_change(search, person),
        summary=valid_text(visible.text(query.summary)),
        created=search.created_at,
        seen=search.seen_at,
        examples=[_example_json(example) for example in query.positive],
        words=[valid_text(text) for text in query.words],
        without=[_example_json(example) for example in query.negative],
        without_words=[valid_text(text) for text in query.without_words],
        space=query.space,
        k=query.k,
        filter=conditions,
        within=query.within,
        likely=query.likely,
        rerank=query.rerank,
        complete=not hidden and all(example.item is not None and example.name is None for example in examples),
    )


def _example_json(example: SavedExample) -> SavedExampleOut:
    item = None if example.item is None or example.name is not None else format_id(example.item)
    return SavedExampleOut(id=item, box=None if example.box is None else list(example.box))
