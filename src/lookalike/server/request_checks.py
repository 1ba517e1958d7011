"""The checks that every request passes before it is routed: host, origin, credentials, rate, size and time.

They are one layer of plain ASGI and take about 50 µs per request. A rejected request never reaches a handler, and its
response has the same form as all other errors. Every response gets the security headers.
"""

import asyncio
import contextlib
import logging
import re
import time
from typing import Any

import h11
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lookalike.errors import StoreError
from lookalike.server.access import COOKIE, FILE, Access, bearer_token, session_cookie
from lookalike.server.problems import BUSY_S, Problem, RequestAbandoned, error_response, token_needed
from lookalike.server.rate_limits import network
from lookalike.server.service import Service
from lookalike.server.settings import Settings
from lookalike.text import printable

log = logging.getLogger("lookalike.server")
requests = logging.getLogger("lookalike.server.requests")

API = "/api/"
LOGIN = "/api/v1/login"
PUBLIC = ("/healthz", LOGIN, "/api/v1/logout")
SAFE = ("GET", "HEAD", "OPTIONS")
UPLOADS = ("/api/v1/uploads", "/api/v1/uploads/files")
WORK = (
    *("search", "round", "best", "why", "uploads", "classify", "region", "map", "duplicates", "sessions", "export"),
    *("ids", "selections", "zip"),
)
"""Last path components of expensive requests."""

MAX_HEAD_BYTES, MAX_URL_BYTES = 32 * 2**10, 8 * 2**10
LINGER_S = 2.0
"""How long the rest of a rejected body is read. If the connection closed immediately, a proxy that is still sending
would respond with 502 instead of forwarding the response."""
LOGGED_STATUSES = (401, 403, 408, 413, 421, 429)
"""Statuses of rejected requests that are always logged."""
LOGGED_CHARACTERS = 200
"""Maximum length of a path in the log."""

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; connect-src 'self';"
    " font-src 'self'; manifest-src 'self'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
"""No inline scripts and nothing from other sites. `blob:` and `data:` are for pictures dropped on the page."""

HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]
NO_STORE = (b"cache-control", b"no-store")
NO_COOKIE = {"Set-Cookie": f'{COOKIE}=""; HttpOnly; Max-Age=0; Path=/; SameSite=strict'}
"""Makes a browser delete a rejected cookie."""


class RequestChecks:
    """An ASGI application that checks requests and passes them to another application."""

    def __init__(self, app: ASGIApp, service: Service):
        self.app = app
        self.service = service
        self.settings, self.access = service.settings, service.access
        self.metrics, self.rates = service.metrics, service.rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return  # no websockets
        began = time.perf_counter()
        headers = dict(scope["headers"])
        body = _LimitedBody(receive, self.settings, scope["path"], headers)
        out = _CheckedSend(send, body)
        try:
            self._check(scope, headers)
            body.check_declared_size()
            await self.app(scope, body, out)
        except (RequestAbandoned, ClientDisconnect):
            self.metrics.count("clients_left")
        except asyncio.CancelledError:
            if not self.service.closing.is_set():
                raise
            if not out.status:  # the request took longer than the shutdown timeout
                shutdown = Problem(503, "The service is shutting down. Try again after its restart.", wait_s=BUSY_S)
                await error_response(shutdown, None)(scope, receive, out)
        except Exception as error:
            if not out.status:
                await error_response(error, scope.get("state", {}).get("person"))(scope, receive, out)
            elif out.status != 500:  # a 500 was logged before
                log.exception("A request failed after its response had started.")
        finally:
            seconds = time.perf_counter() - began
            route = str(scope.get("metrics_route") or getattr(scope.get("route"), "path", "other"))
            self.metrics.request(route, scope["method"], out.status, seconds)
            self._log_request(scope, out.status, seconds)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        """Raise a Problem if the request is rejected; otherwise store the user in the scope."""
        if len(scope["path"]) + len(scope["query_string"]) > MAX_URL_BYTES:
            raise Problem(414, f"The URL must not exceed {MAX_URL_BYTES:,} characters. Send long values in the body.")
        if sum(len(name) + len(value) for name, value in scope["headers"]) > MAX_HEAD_BYTES:
            raise Problem(431, f"The request headers must not exceed {MAX_HEAD_BYTES:,} bytes. Send fewer headers.")
        for single in (b"host", b"authorization"):
            if (count := sum(name == single for name, _ in scope["headers"])) > 1:
                raise Problem(400, f"A request must have only one {single.decode().title()} header. Got {count}.")
        if b"content-length" in headers and b"transfer-encoding" in headers:  # a proxy might trust the other one
            message = "A request must not have both Content-Length and Transfer-Encoding. Send one of them."
            raise Problem(400, message, headers={"Connection": "close"})
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self.settings.knows(_host_name(host)):
            raise Problem(421, "This host name is not allowed. To allow it, restart serve with --allow-host NAME.")
        path, client = scope["path"], network(_address(scope))
        _check_origin(scope["method"], path, host, headers)
        try:
            person = self.access.identify(headers)
            scope.setdefault("state", {})["person"] = person
            if person is None and path.startswith((API, "/metrics")) and path not in PUBLIC:
                self._reject_credentials(client, headers)
            _check_header(scope["method"], headers, self.access)
        except StoreError as error:  # only the log gets the reason, which contains paths
            if self.rates.take("log", FILE) == 0:
                log.error("%s", error)
            message = "The service cannot read its tokens. The log of the service has the reason."
            raise Problem(500, message, kind="damaged") from None
        if path == LOGIN:
            return  # the route counts only wrong tokens, so they do not lock out valid ones
        parts = path.rsplit("/", 2)  # the path can be "*", which has one component
        kind = "work" if parts[-1] in WORK or "why" in parts[-2:-1] else "read"
        self.rates.check(kind, person.name if person is not None else client)

    def _reject_credentials(self, client: str, headers: dict[bytes, bytes]) -> None:
        """Raise Problem 401, or 429 after too many wrong credentials from one address or for one user."""
        forged = self.access.forged_name(headers)
        if bearer_token(headers) is not None or forged is not None:
            self.rates.check("login", client)
        if forged is not None:
            self.rates.check("forged", forged)
        raise token_needed(NO_COOKIE if session_cookie(headers) else None)

    def _log_request(self, scope: Scope, status: int, seconds: float) -> None:
        """Log the request if --verbose is set, without its query, which may be private.

        Rejected requests are always logged, with a rate limit so that clients cannot fill the log.
        """
        client = _address(scope)
        if requests.isEnabledFor(logging.INFO):
            person: Any = scope.get("state", {}).get("person")
            name = person.name if person is not None else "-"
            shown = printable(scope["path"])[:LOGGED_CHARACTERS]
            requests.info("%s %s %s %d %.1f ms", name, printable(scope["method"])[:10], shown, status, 1e3 * seconds)
        if status in LOGGED_STATUSES and self.rates.take("log", network(client)) == 0:
            log.warning("Rejected a request from %s with status %d.", client, status)


class _LimitedBody:
    """The body of a request, with a limit on its size and a minimum speed."""

    def __init__(self, receive: Receive, settings: Settings, path: str, headers: dict[bytes, bytes]):
        budget = settings.budget
        self.receive = receive
        self.budget = budget
        self.max_bytes = budget.upload_bytes + 2**16 if path in UPLOADS else budget.json_bytes
        self.bytes = 0
        self.declared = headers.get(b"content-length", b"0")
        self.done = self.declared == b"0" and b"transfer-encoding" not in headers
        self.began: float | None = None

    def check_declared_size(self) -> None:
        """Raise Problem 413 if the body will be too large."""
        if not self.declared.isdigit() or int(self.declared) > self.max_bytes:
            raise self._too_large()

    async def __call__(self) -> Message:
        """Return the next part. Raises Problem 413 if the body is too large, 408 if it is too slow."""
        if self.done:
            return await self.receive()  # waits until the client disconnects
        now = time.monotonic()
        self.began = now if self.began is None else self.began
        allowed = self.began + self.budget.idle_s + self.bytes / self.budget.least_rate - now
        try:
            async with asyncio.timeout(min(allowed, self.budget.idle_s)):
                message = await self.receive()
        except TimeoutError:
            raise Problem(408, "The request body arrived too slowly. Check the connection and try again.") from None
        self.bytes += len(message.get("body", b""))
        self.done = not message.get("more_body", False)
        if self.bytes > self.max_bytes:
            raise self._too_large()
        return message

    async def discard(self) -> None:
        """Read and discard the rest of the body, for at most LINGER_S."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LINGER_S):
                while not self.done:
                    self.done = not (await self.receive()).get("more_body", False)

    def _too_large(self) -> Problem:
        return Problem(413, f"The body of this request must not exceed {self.max_bytes:,} bytes. Send less data.")


class _CheckedSend:
    """The response, with our headers. If the body was not read completely, the connection closes after LINGER_S."""

    def __init__(self, send: Send, body: _LimitedBody):
        self.send = send
        self.body = body
        self.status = 0

    async def __call__(self, message: Message) -> None:
        """Send a part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = message.get("headers", [])
            names = {name for name, _ in given}
            added = [header for header in HEADERS if header[0] not in names]
            if b"cache-control" not in names:
                added.append(NO_STORE)
            if not self.body.done:  # otherwise the client could keep sending
                added.append((b"connection", b"close"))
            message = {**message, "headers": [*given, *added]}
        is_last = message["type"] == "http.response.body" and not message.get("more_body", False)
        try:
            if is_last and not self.body.done:
                await self.send({**message, "more_body": True})
                await self.body.discard()
                message = {"type": "http.response.body"}
            await self.send(message)
        except h11.LocalProtocolError:  # the rest of the body was invalid, so uvicorn rejected the request
            raise RequestAbandoned from None


def _host_name(host: str) -> str:
    """Return the name or address in a Host header, without its port."""
    if host.startswith("["):
        inside, _, port = host[1:].partition("]")
        return inside if re.fullmatch(r"(:\d*)?", port) else host
    return host.rpartition(":")[0] if host.count(":") == 1 else host


def _address(scope: Scope) -> str:
    """Return the IP address of the client."""
    return str((scope.get("client") or ("unknown", 0))[0])


def _check_origin(method: str, path: str, host: str, headers: dict[bytes, bytes]) -> None:
    """Reject requests from pages of other sites."""
    site = headers.get(b"sec-fetch-site", b"none")
    navigating = headers.get(b"sec-fetch-mode") == b"navigate" and method == "GET"
    other_site = site not in (b"same-origin", b"none") and not navigating and path.startswith((API, "/metrics"))
    origin = headers.get(b"origin")
    ours = origin is None or origin.decode("latin-1").lower() in (f"http://{host}", f"https://{host}")
    if other_site or (not ours and (method not in SAFE or path.startswith(API))):
        raise Problem(403, "Requests from pages of other sites are not allowed.")


def _check_header(method: str, headers: dict[bytes, bytes], access: Access) -> None:
    """Reject a change without our header or a valid bearer token; HTML forms can send neither."""
    if method in SAFE or headers.get(b"x-lookalike") == b"1":
        return
    token = bearer_token(headers)
    if token is None or access.check(token) is None:
        raise Problem(403, "Requests other than GET need the header X-Lookalike: 1, or a valid bearer token.")
