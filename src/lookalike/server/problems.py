"""JSON responses, and the JSON of all errors: {"error": {"kind", "message", "field"}}.

Every message tells the client what to do. An unexpected exception is logged with its traceback; the response does not
contain any details.
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
    ClusterError,
    ConflictError,
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
from lookalike.server.models import PATTERNS, ErrorDetailOut, ErrorOut
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
    ClusterError: (503, "busy"),
    SourceError: (422, "input"),
    ImageError: (422, "input"),
    NoItemError: (404, "missing"),
    ConflictError: (409, "conflict"),
    RefusedSpecError: (403, "refused"),
    InputError: (422, "input"),
    LookalikeError: (500, "broken"),
}
"""Status and kind of our errors. Subclasses come before their base class."""

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
    404: "Nothing found at this URL. The API is described at /api/v1/openapi.json.",
    405: "This URL does not support the request method. The API is described at /api/v1/openapi.json.",
}

SHORT = {
    "busy": "Another process is using the collection.",
    "damaged": "A file of the collection is damaged or missing.",
    "full": "The disk is full.",
    "read-only": "The collection is read-only.",
}
"""Messages for users who may not see the full message because it contains paths."""

INVALID = {
    "missing": "is missing",
    "extra_forbidden": "is not a known field",
    "literal_error": "must be {expected}",
    "string_type": "must be text",
    "string_too_short": "must have {min_length} or more characters",
    "string_too_long": "must have {max_length} or fewer characters",
    "int_type": "must be an integer",
    "int_parsing": "must be an integer",
    "int_parsing_size": "is too large",
    "int_from_float": "must be an integer",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "greater_than_equal": "must be {ge} or greater",
    "less_than_equal": "must be {le} or less",
    "less_than": "must be less than {lt}",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "too_short": "must have {min_length} or more entries",
    "too_long": "must have {max_length} or fewer entries",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
    "dict_type": "must be an object",
}
"""What is wrong with a value, by pydantic's type of error; the names in braces are in the error's context."""

CLIENT_CLOSED_REQUEST = 499
"""Status of a request whose client has disconnected. Only the log shows it."""

BUSY_S = 2
"""Seconds after which a client should try again when the service is busy."""


class RequestAbandoned(Exception):  # noqa: N818 — not an error
    """The client has disconnected or does not read the response, so the result is not needed."""


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
    """Return the error with status 404."""
    return Problem(404, message)


def token_needed(headers: Mapping[str, str] | None = None) -> Problem:
    """Return the error for a request without a valid token."""
    return Problem(
        401, "This request needs a valid token. Log in, or send: Authorization: Bearer TOKEN", headers=headers
    )


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Return a value of a type of `models` as a JSON response, without validation."""
    body = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Response(body.encode("utf-8", "backslashreplace"), status, dict(headers or {}), "application/json")


def error_body(kind: str, message: str, field: str | None = None) -> ErrorOut:
    """Return the JSON of an error."""
    return ErrorOut(error=ErrorDetailOut(kind=kind, message=printable(message), field=field))


def error_response(error: Exception, person: Person | None) -> Response:
    """Return the response to an error, with a message that the user may see; None: a client without a valid token."""
    if isinstance(error, Problem):
        message = visible_text(error.detail, person)
        return json_response(error_body(error.kind, message, error.field), error.status_code, error.headers)
    if isinstance(error, RequestAbandoned | ClientDisconnect):
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
            message = visible_text(str(error), person, f"{SHORT.get(kind, 'The request failed.')} {HIDDEN}")
            return json_response(error_body(kind, message), status, headers)
    log.exception("A request failed.", exc_info=error)
    message = "Internal error. The log of the service has the details. The collection is not affected. Try again."
    return json_response(error_body("broken", message), 500)


def install(app: FastAPI) -> None:
    """Make the application return every error in this form."""

    async def handle(request: Request, error: Exception) -> Response:
        return error_response(error, request.scope.get("state", {}).get("person"))

    handler: Callable[[Request, Exception], Awaitable[Response]] = handle
    for kind in (RequestValidationError, HTTPException, LookalikeError, Exception):
        app.add_exception_handler(kind, handler)


def _invalid(error: RequestValidationError) -> Response:
    """Return a response with the first error of an invalid request, without the values that the client sent."""
    first = error.errors()[0]
    if first["loc"][0] == "path":
        return json_response(error_body("missing", MESSAGES[404]), 404)
    field = ".".join(str(part) for part in first["loc"][1:]) or None  # the first part is "body", "query" or "header"
    if first["type"] == "json_invalid":  # pydantic's field is a position in the body
        message, field = f"The body is not valid JSON: syntax error at character {field}.", None
    else:
        message = _invalid_message(first["type"], first.get("ctx", {}), field, str(first["msg"]))
    return json_response(error_body("input", message, field), 422)


def _invalid_message(kind: str, context: dict[str, Any], field: str | None, message: str) -> str:
    """Return a sentence for an error of pydantic; `message` is pydantic's own."""
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        name = context["discriminator"].strip("'")
        return f"{name} must be one of {context['expected_tags']}." if "tag" in context else f"{name} is missing."
    if kind == "string_pattern_mismatch":
        return f"{field} must be {PATTERNS[context['pattern']]}."
    if field is None and kind == "missing":
        return "The request needs a JSON body."
    if field is None and kind == "model_attributes_type":
        return "The body must be a JSON object, sent with the header Content-Type: application/json."
    if kind in INVALID:
        return f"{field or 'The body'} {INVALID[kind].format(**context)}."
    reason = message.removeprefix("Value error, ").rstrip(".")
    return f"{field}: {reason}." if field else f"{reason}."
