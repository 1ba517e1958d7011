"""The ASGI application of the service: request checks, files of the page, thumbnails and routes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, Depends, FastAPI

import lookalike
from lookalike.collection import Collection, login
from lookalike.server import problems
from lookalike.server.access import Access
from lookalike.server.models import ErrorOut
from lookalike.server.request_checks import RequestChecks
from lookalike.server.routes import (
    actions,
    browsing,
    classes,
    duplicates,
    items,
    jobs,
    saved_searches,
    search,
    selections,
    sessions,
    split,
)
from lookalike.server.routes import collection as collection_routes
from lookalike.server.routes import service as service_routes
from lookalike.server.service import Service, needs_role
from lookalike.server.settings import Settings
from lookalike.server.static_files import StaticFiles

ROUTERS: tuple[APIRouter, ...] = (
    service_routes.public_router,
    service_routes.router,
    collection_routes.router,
    items.router,
    browsing.router,
    actions.router,
    search.router,
    saved_searches.router,
    sessions.router,
    selections.router,
    split.router,
    classes.router,
    duplicates.router,
    jobs.router,
)
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorOut, "description": "Error; all errors have this form."}
    for status in (400, 401, 403, 404, 408, 409, 413, 421, 422, 429, 500, 503, 507)
}


def create_app(collection: Collection, settings: Settings | None = None, access: Access | None = None) -> RequestChecks:
    """Return the service for a collection. The caller closes the collection."""
    settings = settings or Settings()
    if access is None:
        access = Access(collection.path)
        # Decided once at start: removing the last token later does not give access to all clients.
        if settings.local and not settings.names and not access.entries():
            access = Access(collection.path, login())
    service = Service(collection, settings, access)
    api = create_api(service)
    return RequestChecks(StaticFiles(items.Thumbnails(api, service)), service)


def create_api(service: Service | None = None) -> FastAPI:
    """Return the routes, without the request checks. Without a service, only their document is of use."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        assert service is not None, "only the document is of use"
        service.jobs.start()
        yield
        service.close()

    api = FastAPI(
        title="Lookalike",
        summary="Search pictures by pictures.",
        version=lookalike.__version__,
        docs_url=None,  # these pages load scripts from other sites
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        responses=ERRORS,
    )
    api.state.service = service
    problems.install(api)
    for router in ROUTERS:
        api.include_router(router)

    document = APIRouter(tags=["service"], dependencies=[Depends(needs_role("view"))])

    @document.get("/api/v1/openapi.json", include_in_schema=False)
    async def openapi() -> dict[str, Any]:
        return api.openapi()

    api.include_router(document)
    return api
