"""Whether the service is well, what it has counted, who asks, and what is served.

In: nothing, or a token. Out: a line, Prometheus text, a cookie, the collection at a glance.
"""

from typing import Any

from fastapi import APIRouter, Depends, Request, Response

import lookalike
from lookalike.recipes import ABOUT
from lookalike.server.access import COOKIE, COOKIE_S, Person, session_cookie
from lookalike.server.answers import CollectionOut, Me
from lookalike.server.metrics import TYPE
from lookalike.server.models import LoginIn
from lookalike.server.problems import Problem, reply
from lookalike.server.rates import network
from lookalike.server.served import Served, needs, person, served

open_router = APIRouter(tags=["service"])
"""What needs no token."""
router = APIRouter(tags=["service"], dependencies=[Depends(needs("view"))])


@open_router.get("/healthz")
async def health() -> dict[str, str]:
    """Whether the service answers."""
    return {"status": "ok"}


@open_router.post("/api/v1/login", response_model=Me)
async def login(request: Request, given: LoginIn) -> Response:
    """Log in with a token: the browser gets a cookie."""
    access = served(request).access
    who = access.check(given.token)
    if who is None:
        served(request).rates.check("login", network(request.client.host if request.client else "unknown"))
        raise Problem(401, "This token is not known. Make one with: lookalike token add NAME --role view")
    response = reply({"name": who.name, "role": who.role})
    response.set_cookie(
        COOKIE,
        access.make_cookie(who),
        max_age=COOKIE_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@open_router.post("/api/v1/logout", status_code=204, response_class=Response)
async def logout(request: Request) -> Response:
    """Log out: the browser deletes its cookie, and the service rejects it from now on."""
    here, cookie = served(request), session_cookie(dict(request.scope["headers"]))
    await here.work.run(request, lambda _: here.access.log_out(cookie))
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """What was counted, for Prometheus."""
    return Response(served(request).metrics.text(), media_type=TYPE)


@router.get("/api/v1/collection", response_model=CollectionOut)
async def collection(request: Request) -> Response:
    """The collection at a glance."""
    here, who = served(request), person(request)
    return reply(await here.work.run(request, lambda _: _collection(here, who)))


def _collection(here: Served, who: Person) -> dict[str, Any]:
    told, visible = here.collection.glance(), here.visible(who)
    spaces = [
        {
            "name": space["name"],
            "about": ABOUT.get(space["name"], visible.text(" | ".join(space["chain"]))),
            "items": space["rows"],
            "dim": space["dim"],
            "default": place == 0,
        }
        for place, space in enumerate(told["spaces"])
    ]
    budget = here.settings.budget
    return {
        "name": here.collection.path.name.removesuffix(".lookalike").lstrip(".") or here.collection.path.name,
        "items": told["items"],
        "spaces": spaces,
        "classes": told["classes"],
        "labelled": told["labels"],
        "me": {"name": who.name, "role": who.role},
        "roots": [str(root) for root in here.settings.roots] if who.may("manage") else [],
        "sources": here.collection.sources() if who.may("manage") else [],
        "limits": {"upload_bytes": budget.upload_bytes, "upload_pixels": budget.upload_pixels},
        "version": lookalike.__version__,
    }
