"""JSON responses, and the one JSON shape of all errors: {"error": {"kind", "message", "field"}}.

Every message says what to do. An unexpected exception is logged with its traceback, and its response reveals nothing.
"""

import json
import logging
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from lookalike.errors import (
    DamagedError,
    FormatError,
    FullError,
    ImageError,
    InputError,
    LockedError,
    LookalikeError,
    MissingError,
    NoCollectionError,
    NoItemError,
    ReadOnlyError,
    RefusedSpecError,
    SourceError,
    StoreError,
)
from lookalike.server.access import HIDDEN, Person, visible_text
from lookalike.server.models import ErrorDetailOut, ErrorOut
from lookalike.text import printable

log = logging.getLogger("lookalike.server")

KINDS: dict[type[Exception], tuple[int, str]] = {
    ReadOnlyError: (403, "read-only"),
    LockedError: (409, "busy"),
    FullError: (507, "full"),
    NoCollectionError: (503, "damaged"),
    FormatError: (500, "damaged"),
    DamagedError: (500, "damaged"),
    StoreError: (500, "damaged"),
    MissingError: (501, "missing"),
    SourceError: (422, "input"),
    ImageError: (422, "input"),
    NoItemError: (404, "missing"),
    RefusedSpecError: (403, "refused"),
    InputError: (422, "input"),
    LookalikeError: (500, "broken"),
}
"""Status and kind of our errors; subclasses come before their base class."""

STATUSES = {
    400: "input",
    401: "token",
    403: "refused",
    404: "missing",
    405: "input",
    408: "too-slow",
    413: "too-large",
    414: "too-large",
    421: "refused",
    422: "input",
    429: "too-many",
    431: "too-large",
    503: "busy",
}

MESSAGES = {
    404: "There is nothing at this address. The API is described at /api/v1/openapi.json.",
    405: "This address does not support the method. The API is described at /api/v1/openapi.json.",
}

SHORT = {
    "busy": "Another process is using the collection.",
    "damaged": "A file of the collection is damaged or missing.",
    "full": "The disk is full.",
    "read-only": "The collection is read-only.",
}
"""Messages for people who may not see the full message, which names files."""

CLIENT_CLOSED_REQUEST = 499
"""The status of a request whose client has disconnected; only the log shows it."""

BUSY_S = 2
"""Seconds that a client should wait before it tries again, when the service is busy."""


class ClientGone(Exception):  # noqa: N818 — not an error
    """The client has disconnected or does not read the response: the rest of the work is not needed."""


class Problem(HTTPException):
    """An error response: status, kind, message, and the field of the request that caused it."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        field: str | None = None,
        wait_s: float = 0,
        headers: Mapping[str, str] | None = None,
    ):
        wait = {"Retry-After": str(math.ceil(wait_s))} if wait_s else {}
        super().__init__(status, message, {**(headers or {}), **wait} or None)
        self.kind = kind or STATUSES.get(status, "broken")
        self.field = field


def not_found(message: str) -> Problem:
    """Return the error for something that does not exist."""
    return Problem(404, message)


def token_needed(headers: Mapping[str, str] | None = None) -> Problem:
    """Return the error for a request without a valid token."""
    return Problem(401, "This needs a token. Log in, or send it as: Authorization: Bearer TOKEN.", headers=headers)


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value whose type is defined in `models` as a JSON response; it is not validated again."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(body.encode("utf-8", "backslashreplace"), status, dict(headers or {}), "application/json")


def error_body(kind: str, message: str, field: str | None = None) -> ErrorOut:
    """Return the JSON of an error."""
    return ErrorOut(error=ErrorDetailOut(kind=kind, message=printable(message), field=field))


def error_response(error: Exception, person: Person | None) -> Response:
    """Return the response to an error, as the person may see it; None: a client without a valid token."""
    if isinstance(error, Problem):
        message = visible_text(error.detail, person)
        return json_response(error_body(error.kind, message, error.field), error.status_code, error.headers)
    if isinstance(error, ClientGone | ClientDisconnect):
        return Response(status_code=CLIENT_CLOSED_REQUEST)
    if isinstance(error, RequestValidationError):
        return _invalid(error)
    if isinstance(error, HTTPException):
        message = MESSAGES.get(error.status_code, str(error.detail))
        kind = STATUSES.get(error.status_code, "broken")
        return json_response(error_body(kind, message), error.status_code, error.headers)
    for known, (status, kind) in KINDS.items():
        if isinstance(error, known):
            if status >= 500:
                log.error("%s: %s", type(error).__name__, printable(str(error)))
            headers = {"Retry-After": str(BUSY_S)} if kind == "busy" else None
            message = visible_text(str(error), person, f"{SHORT.get(kind, 'This cannot be done.')} {HIDDEN}")
            return json_response(error_body(kind, message), status, headers)
    log.exception("A request failed.", exc_info=error)
    message = "Internal error. The service's log has the details, and the collection is safe. Try again."
    return json_response(error_body("broken", message), 500)


def install(app: FastAPI) -> None:
    """Make the application answer every error in this shape."""

    async def handle(request: Request, error: Exception) -> Response:
        return error_response(error, request.scope.get("state", {}).get("person"))

    handler: Callable[[Request, Exception], Awaitable[Response]] = handle
    for kind in (RequestValidationError, HTTPException, LookalikeError, Exception):
        app.add_exception_handler(kind, handler)


def _invalid(error: RequestValidationError) -> Response:
    """Return a response with the first fault of an invalid request, without the values that the client sent."""
    first = error.errors()[0]
    if first["loc"][0] == "path":
        return json_response(error_body("missing", "There is nothing at this address."), 404)
    field = ".".join(str(part) for part in first["loc"][1:]) or None  # the first word is "body", "query" or "path"
    message = str(first["msg"]).removeprefix("Value error, ").rstrip(".") + "."
    return json_response(error_body("input", f"{field}: {message}" if field else message, field), 422)
