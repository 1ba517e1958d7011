"""The HTTP server: uvicorn with its socket, its signals, and limits for each connection.

SIGINT and SIGTERM end the service: requests that are running are answered, then the processes end. A second signal ends
it at once.

uvicorn has no limits for slow or endless request heads, for pipelined requests, or for clients that never read the
response. `LimitedConnection` adds them and rejects connections above the maximum.
"""

import asyncio
import contextlib
import gc
import json
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType
from typing import Any

import httptools
import uvicorn
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from lookalike.collection import Collection
from lookalike.errors import InputError, LockedError, LookalikeError
from lookalike.server.access import Access
from lookalike.server.app import create_app
from lookalike.server.problems import BUSY_S, error_body
from lookalike.server.request_checks import RequestChecks
from lookalike.server.settings import Budget, Rates, Settings

log = logging.getLogger("lookalike.server")

SHUTDOWN_S = 10
KEEP_ALIVE_S = 15
CHECK_FILES_S = 1.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SWITCH_S = 0.0005
"""Interval after which a computing thread releases the GIL: a tenth of Python's default. A search acquires the GIL
again after every disk access, and may wait this long each time."""
MAX_HEAD_BYTES = 64 * 2**10
"""Bytes that may follow the packet in which a request head began, before the head ends. `request_checks` has a lower
limit for complete heads."""
MAX_PIPELINED = 16
"""Requests that may wait behind the one that is being answered."""


def serve(collection: Collection, settings: Settings, *, ready: Callable[[str], None]) -> None:
    """Serve a collection until a signal ends it; `ready` is called with the address once it can be reached."""
    check_tokens(collection, settings)
    if settings.local and not Access(collection.path).entries():  # clients on this machine
        settings = replace(settings, rates=Rates.trusting())
    app = create_app(collection, settings)
    listener = bind(settings)
    server = make_server(app, settings)
    address = url(settings.host, listener.getsockname()[1])
    ready(address)
    sys.setswitchinterval(SWITCH_S)
    for task in (_warm, _check_files):
        threading.Thread(target=task, args=(app,), name=task.__name__, daemon=True).start()
    try:
        server.run(sockets=[listener])
    finally:
        listener.close()


def _warm(app: RequestChecks) -> None:
    """Load what the first requests need, and exclude it from garbage collection.

    A full collection takes a tenth of a second in which no request runs.
    """
    app.service.warm()
    gc.collect()
    gc.freeze()


def _check_files(app: RequestChecks) -> None:
    """Quarantine vectors whose files were changed: a search that reads a truncated file would end the process."""
    while not app.service.closing.wait(CHECK_FILES_S):
        try:
            app.service.collection.check_open_files()
        except LockedError:  # changed files are closed now, and checked when the other writer is done
            continue
        except LookalikeError as error:
            log.warning("%s", error)


class Server(uvicorn.Server):
    """uvicorn's server, which does not raise the signal again after it ended."""

    def __init__(self, config: uvicorn.Config, app: RequestChecks):
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Handle SIGINT or SIGTERM."""
        self._app.service.closing.set()
        super().handle_exit(sig, frame)
        self._captured_signals.clear()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Install the signal handlers while the server runs, if it runs in the main thread."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def make_server(app: RequestChecks, settings: Settings) -> Server:
    """A configured uvicorn server."""
    config = uvicorn.Config(
        app,
        http=limited_connection(settings.budget),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # `request_checks` logs requests without their queries
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    return Server(config, app)


def check_tokens(collection: Collection, settings: Settings) -> None:
    """Refuse to listen on a public address while there are no tokens."""
    if not settings.local and not Access(collection.path).entries():
        raise InputError(
            f"To be reached at {settings.host}, from other machines, the service needs a token. Make one:"
            f" lookalike -c {collection.path} token add NAME --role manage"
        )


def bind(settings: Settings) -> socket.socket:
    """The listening socket; InputError if the address cannot be used."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(*found[:3])  # without the protocol, asyncio leaves Nagle's delay of 40 ms on
    except OSError as error:
        raise InputError(f"There is no address {settings.host!r} to listen at: {error.strerror}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(found[4])
        listener.listen(settings.budget.connections)
    except OSError as error:
        listener.close()
        hint = f" Choose another: --port {settings.port + 1}" if settings.port else ""
        raise InputError(f"Cannot listen at {settings.host} port {settings.port}: {error.strerror}.{hint}") from None
    return listener


def url(host: str, port: int) -> str:
    """The URL of the service.

    >>> url("::1", 8321)
    'http://[::1]:8321/'
    """
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


class LimitedConnection(HttpToolsProtocol):
    """An HTTP/1.1 connection with limits.

    Trailers are dropped, so that they cannot replace headers. A request that offers another protocol is read without
    that offer. `limited_connection` sets `budget`.
    """

    budget = Budget()

    def __init__(self, *args: Any, **options: Any):
        super().__init__(*args, **options)
        self._timer: asyncio.TimerHandle | None = None
        self._answered: RequestResponseCycle | None = None  # current or last; `cycle` is the last that was received
        self._stage = "idle"  # of the request being received: "head", "body", then "idle" again
        self._bytes = 0  # of its head so far
        self._error = ""  # more precise than the error of the parser

    @property
    def _is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self._answered is None or self._answered.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Reject the connection if there are too many."""
        super().connection_made(transport)
        if len(self.connections) > self.budget.connections:
            message = "The service has too many connections. Try again in a moment."
            self._respond(503, "Service Unavailable", "busy", message, f"retry-after: {BUSY_S}\r\n")
        self._update_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the work on the response."""
        self._stop_timer()
        self._disconnect()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse what the client sent, and limit the size and time of the head."""
        if self.transport.is_closing():
            return
        if self._stage == "head":
            self._bytes += len(data)
            if self._bytes > MAX_HEAD_BYTES:
                self.send_400_response("The head of the request has no end.")
                return
        self._unset_keepalive_if_required()
        try:
            self._parse(data)
        except httptools.HttpParserError:
            self.send_400_response("Invalid HTTP request received.")
        self._update_timer()

    def on_message_begin(self) -> None:
        """Start to count the bytes of a head."""
        self._stage, self._bytes = "head", 0
        super().on_message_begin()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Keep a header; drop a trailer, which could replace the credentials that were checked."""
        if self._stage == "head":
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Reject the request if too many wait."""
        if self.parser.should_upgrade():
            return  # `_parse` reads it again
        self._stage = "body"
        if len(self.pipeline) >= MAX_PIPELINED:
            self._error = f"More than {MAX_PIPELINED} requests wait for an answer. Send fewer at once."
            raise ValueError(self._error)  # ends the parsing; uvicorn calls `send_400_response`
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        if self.parser.should_upgrade():
            return
        self._stage = "idle"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Stop the timer; uvicorn's own keep-alive timer runs until the next request."""
        super().on_response_complete()
        self._stop_timer()
        if self.transport.is_closing():
            self._close()
        elif self._stage != "idle":
            self._update_timer()

    def timeout_keep_alive_handler(self) -> None:
        """Close an idle connection."""
        super().timeout_keep_alive_handler()
        self._close()

    def send_400_response(self, msg: str) -> None:
        """Answer what is not valid HTTP."""
        self._respond(400, "Bad Request", "input", self._error or f"{msg} Send HTTP/1.1.")

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        """Answer a request; abort the connection if the response is incomplete."""

        async def run(scope: Any, receive: Any, send: Any) -> None:
            await app(scope, receive, send)
            if not cycle.response_complete:
                cycle.disconnected = True
                self.transport.abort()

        self._answered = cycle
        super()._start_asgi_task(cycle, run)

    def _parse(self, data: bytes) -> None:
        """Parse bytes. The parser stops after a head that offers another protocol; a new one reads it without that."""
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as offer:
            method = self.parser.get_method()
            if method == b"CONNECT":  # always another protocol
                raise httptools.HttpParserError from None
            head = [b"%s %s HTTP/%s" % (method, self.url, self.parser.get_http_version().encode())]
            head += [b"%s: %s" % header for header in self.headers if header[0] != b"upgrade"]
            self.parser = httptools.HttpRequestParser(self)
            self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn's
            self._parse(b"\r\n".join(head) + b"\r\n\r\n" + data[offer.args[0] :])

    def _update_timer(self) -> None:
        """Run the timer while a head, or the rest of a body that no handler reads, is received."""
        if self.transport.is_closing() or not self._is_idle:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(self.budget.header_s, self._time_out)

    def _time_out(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._respond(408, "Request Timeout", "too-slow", "The request came too slowly. Send it again, faster.")

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _respond(self, status: int, phrase: str, kind: str, message: str, headers: str = "") -> None:
        """Answer without the application, and close the connection."""
        if self._answered is None or self._answered.response_complete or not self._answered.response_started:
            body = json.dumps(error_body(kind, message)).encode()
            head = f"HTTP/1.1 {status} {phrase}\r\ncontent-type: application/json\r\nconnection: close\r\n{headers}"
            self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self._close()

    def _disconnect(self) -> None:
        """Tell the handler that the client is gone; uvicorn only tells the handler of the request received last."""
        if self._answered is not None and not self._answered.response_complete:
            self._answered.disconnected = True
            self._answered.message_event.set()

    def _close(self) -> None:
        """Close; abort if the client does not read the rest of the response in time."""
        self._disconnect()
        self.transport.close()
        self.loop.call_later(self.budget.send_s, self.transport.abort)


def limited_connection(budget: Budget) -> type[LimitedConnection]:
    """The class of connections with these limits."""
    return type("LimitedConnection", (LimitedConnection,), {"budget": budget})
