"""The HTTP server: uvicorn, its socket and its signals.

SIGINT and SIGTERM shut the service down: it finishes running requests, then ends its processes. A second Ctrl-C stops
it immediately.

uvicorn parses requests with h11, which limits the size of request headers, reads one request at a time and drops
trailers. The kernel closes the connection of a client that does not read its response. docs/server.md lists the limits
that a reverse proxy must add.
"""

import asyncio
import contextlib
import errno
import logging
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import h11
import sklearn.svm  # noqa: F401 — concurrent first imports in two threads can fail
import uvicorn

from lookalike.collection import Collection
from lookalike.errors import InputError, LockedError, LookalikeError
from lookalike.server.access import Access
from lookalike.server.app import create_app
from lookalike.server.request_checks import RequestChecks
from lookalike.server.settings import Rates, Settings

log = logging.getLogger("lookalike.server")

SHUTDOWN_S = 10
KEEP_ALIVE_S = 15
CHECK_FILES_S = 1.0
MAX_PARTIAL_HEAD_BYTES = 64 * 2**10
"""Limit for incomplete request headers. `request_checks` has a lower limit for complete ones."""


def serve(collection: Collection, settings: Settings, *, ready: Callable[[str], None]) -> None:
    """Serve a collection until a signal arrives; `ready` is called with the URL when the socket listens."""
    check_tokens(collection, settings)
    if settings.local and not Access(collection.path).entries():  # clients are on this machine
        settings = replace(settings, rates=Rates.trusting())
    app = create_app(collection, settings)
    listener = bind(settings)
    server = Server(app, settings)
    ready(url(settings.host, listener.getsockname()[1]))
    threading.Thread(target=app.service.warm, name="warm", daemon=True).start()
    threading.Thread(target=_check_files, args=(app,), name="check-files", daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises the signal again after its shutdown
    try:
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
    finally:
        listener.close()


def _check_files(app: RequestChecks) -> None:
    """Quarantine vectors whose files have changed. A search that reads a truncated file would end the process."""
    while not app.service.closing.wait(CHECK_FILES_S):
        try:
            app.service.collection.check_open_files()
        except LockedError:  # changed files are closed already; they are quarantined when the other writer has finished
            continue
        except LookalikeError as error:
            log.warning("%s", error)


class Server(uvicorn.Server):
    """uvicorn's server. At shutdown, it first ends the event streams of the service."""

    def __init__(self, app: RequestChecks, settings: Settings):
        self._service = app.service
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="on",
                log_config=None,
                log_level=logging.CRITICAL,  # clients could fill the log; `request_checks` logs errors
                access_log=False,  # `request_checks` logs requests without their queries
                server_header=False,
                proxy_headers=False,
                limit_concurrency=settings.budget.connections,
                h11_max_incomplete_event_size=MAX_PARTIAL_HEAD_BYTES,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=SHUTDOWN_S,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Install the handler for connection errors, then accept connections."""
        asyncio.get_running_loop().set_exception_handler(_log_loop_error)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, then shut down."""
        self._service.closing.set()
        await super().shutdown(sockets)


def _log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the event loop, except one that clients can trigger on purpose.

    uvicorn raises LocalProtocolError if the remaining body is invalid after the response has started. The event loop
    then closes the connection.
    """
    if not isinstance(context.get("exception"), h11.LocalProtocolError):
        loop.default_exception_handler(context)


def check_tokens(collection: Collection, settings: Settings) -> None:
    """Raise InputError if other machines can connect but no token exists."""
    if not settings.local and not Access(collection.path).entries():
        raise InputError(
            f"Other machines can connect to {settings.host}, so the service needs a token. Create one:"
            f" lookalike -c {collection.path} token add NAME --role manage"
        )


def bind(settings: Settings) -> socket.socket:
    """Return the listening socket; raise InputError if the address cannot be used."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(*found[:3])  # with the protocol; otherwise asyncio keeps Nagle's delay of 40 ms
    except OSError as error:
        raise InputError(
            f"Cannot listen on {settings.host!r}: {error.strerror}. Choose another address with --host."
        ) from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1_000 * settings.budget.send_s))
        listener.bind(found[4])
        listener.listen(settings.budget.connections)
    except OSError as error:
        listener.close()
        problem = f"Cannot listen on {settings.host} port {settings.port}: {error.strerror}."
        if error.errno == errno.EADDRINUSE:
            problem = f"Port {settings.port} is already in use."
        hint = f" Choose another: --port {settings.port + 1}" if settings.port else ""
        raise InputError(problem + hint) from None
    return listener


def url(host: str, port: int) -> str:
    """Return the URL of the service.

    >>> url("::1", 8321)
    'http://[::1]:8321/'
    """
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
