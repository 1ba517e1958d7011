"""The service itself: health, metrics, login and logout."""

from fastapi import APIRouter, Depends, Request, Response

from lookalike.server.access import COOKIE, COOKIE_S, session_cookie
from lookalike.server.metrics import TYPE
from lookalike.server.models import HealthOut, LoginIn, PersonOut
from lookalike.server.problems import Problem, json_response
from lookalike.server.rate_limits import network
from lookalike.server.service import needs_role, service_of

public_router = APIRouter(tags=["service"])
"""Routes that need no token."""
router = APIRouter(tags=["service"], dependencies=[Depends(needs_role("view"))])


@public_router.get("/healthz")
async def health() -> HealthOut:
    """Check that the service responds."""
    return HealthOut(status="ok")


@public_router.post("/api/v1/login", response_model=PersonOut)
async def login(request: Request, given: LoginIn) -> Response:
    """Log in with a token. The response sets a cookie."""
    service = service_of(request)
    person = service.access.check(given.token)
    if person is None:
        service.rates.check("login", network(request.client.host if request.client else "unknown"))
        raise Problem(401, "Unknown token. Check it, or create a new one: lookalike token add NAME --role view")
    response = json_response(PersonOut(name=person.name, role=person.role))
    response.set_cookie(
        COOKIE,
        service.access.make_cookie(person),
        max_age=COOKIE_S,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return response


@public_router.post("/api/v1/logout", status_code=204, response_class=Response)
async def logout(request: Request) -> Response:
    """Log out. The browser deletes its cookie, and the service rejects it from then on."""
    service, cookie = service_of(request), session_cookie(dict(request.scope["headers"]))
    await service.lanes.run(request, lambda _: service.access.log_out(cookie))
    response = Response(status_code=204)
    response.delete_cookie(COOKIE, httponly=True, samesite="strict")
    return response


@router.get("/metrics", response_class=Response)
async def metrics(request: Request) -> Response:
    """Return metrics for Prometheus."""
    return Response(service_of(request).metrics.text(), media_type=TYPE)
