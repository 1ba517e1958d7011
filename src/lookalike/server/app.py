"""The application: a collection and settings in, something that uvicorn runs out.

From the outside in: `Guard` (who, how often, how much), the page's files, thumbnails, and FastAPI with the routes.
Every error has one shape, see `problems`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI

import lookalike
from lookalike.collection import Collection, login
from lookalike.server import problems
from lookalike.server.access import Access
from lookalike.server.answers import ErrorOut
from lookalike.server.guard import Guard
from lookalike.server.pages import Pages
from lookalike.server.quick import Thumbnails
from lookalike.server.routes import classes, duplicates, export, health, items, jobs, search, sessions
from lookalike.server.routes import map as mapping
from lookalike.server.served import Served, needs
from lookalike.server.settings import Settings

ROUTERS: tuple[APIRouter, ...] = (
    health.open_router,
    health.router,
    items.router,
    search.router,
    sessions.router,
    classes.router,
    duplicates.router,
    jobs.router,
    export.router,
    export.groups_router,
    mapping.router,
)
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorOut, "description": "An error, in the one shape that all have."}
    for status in (400, 401, 403, 404, 408, 409, 413, 421, 422, 429, 500, 503, 507)
}


def create_app(collection: Collection, settings: Settings | None = None, access: Access | None = None) -> Guard:
    """The service for a collection. Closing the collection is left to whoever opened it."""
    settings = settings or Settings()
    if access is None:
        access = Access(collection.path)
        if settings.local and not settings.names and not access.entries():  # else, the last token's end opens no door
            access = Access(collection.path, login())
    here = Served(collection, settings, access)
    api = create_api(here)
    return Guard(Pages(Thumbnails(api, here)), here)


def create_api(here: Served) -> FastAPI:
    """The routes, unguarded."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        here.jobs.start()
        yield
        here.close()

    api = FastAPI(
        title="Lookalike",
        summary="Search pictures by pictures.",
        version=lookalike.__version__,
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        responses=ERRORS,
    )
    api.state.served = here
    problems.install(api)
    for router in ROUTERS:
        api.include_router(router)

    document = APIRouter(tags=["service"], dependencies=[Depends(needs("view"))])

    @document.get("/api/v1/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return api.openapi()

    api.include_router(document)
    return api
