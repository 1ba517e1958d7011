"""The HTTP server: uvicorn, its socket and its signals.

SIGINT and SIGTERM shut the service down: it answers running requests, then ends its processes. A second Ctrl-C ends it
at once.

uvicorn parses requests with h11, which limits the size of a head, reads one request at a time and drops trailers. The
kernel closes the connection of a client that does not read its response. docs/server.md says which limits a reverse
proxy must add.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import h11
import sklearn.svm  # noqa: F401 — two threads that import parts of it at the same time can fail
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
"""Size of an incomplete request head. `request_checks` has a lower limit for complete heads."""


def serve(collection: Collection, settings: Settings, *, ready: Callable[[str], None]) -> None:
    """Serve a collection until a signal ends it; `ready` is called with the URL when the socket listens."""
    check_tokens(collection, settings)
    if settings.local and not Access(collection.path).entries():  # all clients are on this machine
        settings = replace(settings, rates=Rates.trusting())
    app = create_app(collection, settings)
    listener = bind(settings)
    server = Server(app, settings)
    ready(url(settings.host, listener.getsockname()[1]))
    threading.Thread(target=app.service.warm, name="warm", daemon=True).start()
    threading.Thread(target=_check_files, args=(app,), name="check-files", daemon=True).start()
    signal.signal(signal.SIGTERM, lambda *_: None)  # uvicorn raises a signal again after it has handled it
    try:
        with contextlib.suppress(KeyboardInterrupt):
            server.run(sockets=[listener])
    finally:
        listener.close()


def _check_files(app: RequestChecks) -> None:
    """Quarantine vectors whose files were changed: a search that reads a truncated file would end the process."""
    while not app.service.closing.wait(CHECK_FILES_S):
        try:
            app.service.collection.check_open_files()
        except LockedError:  # changed files are closed now, and quarantined when the other writer is done
            continue
        except LookalikeError as error:
            log.warning("%s", error)


class Server(uvicorn.Server):
    """uvicorn's server. When it shuts down, it first ends the event streams of the service."""

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
        """Set how errors of connections are logged, then accept connections."""
        asyncio.get_running_loop().set_exception_handler(_log_loop_error)
        await super().startup(sockets)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, then shut down."""
        self._service.closing.set()
        await super().shutdown(sockets)


def _log_loop_error(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an error of the event loop, unless clients can cause it at will.

    uvicorn raises LocalProtocolError if the rest of a body is invalid after its response has begun. The event loop then
    closes the connection.
    """
    if not isinstance(context.get("exception"), h11.LocalProtocolError):
        loop.default_exception_handler(context)


def check_tokens(collection: Collection, settings: Settings) -> None:
    """Refuse to listen on a public address while there are no tokens."""
    if not settings.local and not Access(collection.path).entries():
        raise InputError(
            f"To listen on {settings.host}, which other machines can reach, the service needs a token. Create one:"
            f" lookalike -c {collection.path} token add NAME --role manage"
        )


def bind(settings: Settings) -> socket.socket:
    """Return the listening socket; InputError if the address cannot be used."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(*found[:3])  # without the protocol, asyncio leaves Nagle's delay of 40 ms on
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
        hint = f" Choose another: --port {settings.port + 1}" if settings.port else ""
        raise InputError(f"Cannot listen on {settings.host} port {settings.port}: {error.strerror}.{hint}") from None
    return listener


def url(host: str, port: int) -> str:
    """The URL of the service.

    >>> url("::1", 8321)
    'http://[::1]:8321/'
    """
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
