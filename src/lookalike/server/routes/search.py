"""Search with pictures in the collection or with uploads, which are not added to it."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request, Response

from lookalike.collection import MAX_CHARACTERS, Results, format_id
from lookalike.server.access import Person
from lookalike.server.lanes import Stop
from lookalike.server.models import (
    LocatedOut,
    LocateIn,
    LocateOut,
    SearchIn,
    SearchOut,
    SearchQueryIn,
    SideQuery,
    UnderstoodOut,
    UploadOut,
    UploadPath,
    WordsOut,
    file_form,
)
from lookalike.server.problems import Problem, json_response
from lookalike.server.routes.items import PICTURE_HEADERS, PICTURE_RESPONSES
from lookalike.server.service import Service, needs_role, parse_ids, person_of, service_of, valid_text
from lookalike.server.thumbnails import DEFAULT_SIDE, encode, fit

router = APIRouter(prefix="/api/v1", tags=["search"], dependencies=[Depends(needs_role("view"))])


@router.post("/search", response_model=SearchOut)
async def search(request: Request, asked: SearchIn) -> Response:
    """Return the pictures most similar to the positive examples and least similar to the negative ones, best first.

    Words find pictures by what they show, and by labels, folders and file names. Their scores are not distances.
    """
    service, person = service_of(request), person_of(request)
    if not asked.examples and not asked.words:
        raise Problem(422, "Give at least one example or one text in words.", field="examples")

    def find(stop: Stop) -> SearchOut:
        query = search_query(service, asked, person)
        start = time.perf_counter()
        results = service.collection.search(**query, where=asked.where, progress=stop.progress)
        return search_json(service, results, asked.space, time.perf_counter() - start, person)

    lane = "describe" if asked.is_slow else "search"
    return json_response(await service.lanes.run(request, find, lane=lane))


def search_query(service: Service, asked: SearchQueryIn, person: Person) -> dict[str, Any]:
    """Return the query of a request as arguments of `Collection.search`."""
    return {
        "examples": service.examples(asked.examples, "examples"),
        "words": asked.words,
        "without": service.examples(asked.without, "without"),
        "without_words": asked.without_words,
        "k": asked.k,
        "space": asked.space,
        "filter": asked.filter.to_filter(person),
        "within": asked.within,
        "likely": asked.likely,
        "rerank": asked.rerank,
    }


def search_json(service: Service, results: Results, space: str | None, seconds: float, person: Person) -> SearchOut:
    """Return the results of a search as JSON."""
    return SearchOut(
        space=space or service.default_space(),
        seconds=round(seconds, 6),
        understood=service.meanings_json(results.understood),
        cutoff=service.cutoff_json(results.cutoff),
        estimated_from=results.estimated_from,
        results=service.results_json(results, person),
    )


@router.post("/search/boxes", response_model=LocateOut)
async def locate(request: Request, asked: LocateIn) -> Response:
    """Return the matching parts of some results of a search, so that a client can add them to results it shows."""
    service = service_of(request)
    items = parse_ids(asked.items)

    def find(stop: Stop) -> LocateOut:
        boxes = service.collection.locate(
            items,
            service.examples(asked.examples, "examples"),
            without=service.examples(asked.without, "without"),
            space=asked.space,
            progress=stop.progress,
        )
        found = ((item, boxes[item]) for item in items)
        return LocateOut(
            boxes=[LocatedOut(item=format_id(item), box=None if box is None else list(box)) for item, box in found]
        )

    return json_response(await service.lanes.run(request, find, lane="describe"))


@router.get("/words", response_model=WordsOut)
async def complete(
    request: Request, prefix: Annotated[str, Query(min_length=1, max_length=MAX_CHARACTERS, description="Typed text.")]
) -> Response:
    """Return at most eight labels, folders and kinds of pictures that start with the last words of a text."""
    service = service_of(request)

    def look_up(_: object) -> WordsOut:
        return WordsOut(words=[valid_text(word) for word in service.collection.complete(prefix)])

    return json_response(await service.lanes.run(request, look_up))


@router.get("/understand", response_model=UnderstoodOut)
async def understand(
    request: Request,
    words: Annotated[str, Query(min_length=1, max_length=MAX_CHARACTERS, description="Text to search for.")],
) -> Response:
    """Return what a search by words understands by each word, without searching."""
    service = service_of(request)

    def look_up(_: object) -> UnderstoodOut:
        return UnderstoodOut(understood=service.meanings_json(service.collection.understand(words)))

    return json_response(await service.lanes.run(request, look_up))


@router.post("/uploads", response_model=UploadOut, openapi_extra=file_form("file"))
async def upload(request: Request) -> Response:
    """Upload a picture to search with. It is not added to the collection."""
    service = service_of(request)

    async with request.form(max_files=1, max_fields=4) as form:
        file = form.get("file")
        if file is None or isinstance(file, str):
            raise Problem(422, "Send the picture in the form field 'file'.", field="file")
        async with service.upload_slots:  # before this, a large file is on disk, not in memory
            data = await file.read()

            def decode(_: object) -> UploadOut:
                made = service.uploads.add(data)
                item = format_id(made.item) if service.collection.has([made.item]) else None
                return UploadOut(upload=made.id, width=made.width, height=made.height, item=item)

            return json_response(await service.lanes.run(request, decode, lane="decode"))


@router.get("/uploads/{upload}/thumbnail", response_class=Response, responses=PICTURE_RESPONSES)
async def upload_thumbnail(request: Request, upload: UploadPath, side: SideQuery = DEFAULT_SIDE) -> Response:
    """Return a thumbnail of an upload, as JPEG."""
    service = service_of(request)
    data = await service.lanes.run(request, lambda _: encode(fit(service.upload(upload).pixels, side)))
    return Response(data, headers=PICTURE_HEADERS, media_type="image/jpeg")
