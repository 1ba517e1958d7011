"""Search by pictures, of the collection or uploaded.

In: examples of what is wanted and unwanted. Out: results, best first. An upload is decoded by a guarded process, kept
for a while under an id that cannot be guessed, and never added.
"""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request, Response

from lookalike.server.answers import SearchOut, UploadOut
from lookalike.server.models import SearchIn, SideQuery, form
from lookalike.server.problems import Problem, reply
from lookalike.server.routes.items import PICTURE, SHOWN
from lookalike.server.served import needs, person, served
from lookalike.server.thumbnails import SIDE, encode, fit
from lookalike.server.work import Stop

router = APIRouter(prefix="/api/v1", tags=["search"], dependencies=[Depends(needs("view"))])


@router.post("/search", response_model=SearchOut)
async def search(request: Request, asked: SearchIn) -> Response:
    """The pictures most like the examples and least like those they should be without."""
    here, who = served(request), person(request)

    def look(stop: Stop) -> dict[str, Any]:
        wanted, unwanted = here.examples(asked.examples, "examples"), here.examples(asked.without, "without")
        began = time.perf_counter()
        results = here.collection.search(
            wanted,
            without=unwanted,
            k=asked.k,
            space=asked.space,
            filter=asked.filter.made(who),
            where=asked.where,
            progress=stop.progress,
        )
        seconds = time.perf_counter() - began
        space = asked.space or here.first_space()
        return {"space": space, "seconds": round(seconds, 6), "results": here.found(results, who)}

    with here.courtesy.searching():
        return reply(await here.work.run(request, look, lane="describe" if asked.is_heavy else "search"))


@router.post("/uploads", response_model=UploadOut, openapi_extra=form("file"))
async def upload(request: Request) -> Response:
    """A picture to search with. It is kept for a while, and not added."""
    here = served(request)
    async with request.form(max_files=1, max_fields=4) as sent_form:
        file = sent_form.get("file")
        if file is None or isinstance(file, str):
            raise Problem(422, "Send the picture as the form's field 'file'.", field="file")
        async with here.uploading:  # until then, what is large is a file
            data = await file.read()
            made, item = await here.work.run(request, lambda _: here.keep(data), lane="decode")
    return reply({"upload": made.id, "width": made.width, "height": made.height, "item": item})


@router.get("/uploads/{upload}/thumbnail", response_class=Response, responses=PICTURE)
async def upload_thumbnail(
    request: Request, upload: Annotated[str, Path(pattern="^[A-Za-z0-9_-]{22}$")], side: SideQuery = SIDE
) -> Response:
    """A small copy of an upload, as JPEG."""
    here = served(request)
    data = await here.work.run(request, lambda _: encode(fit(here.upload(upload).pixels, side)))
    return Response(data, headers=SHOWN, media_type="image/jpeg")
