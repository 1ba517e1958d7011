"""Run the service until somebody ends it.

In: a collection and settings. Out: nothing, after a clean end: running requests are answered, processes ended. SIGINT
and SIGTERM ask for that; a second one does not wait.
"""

import contextlib
import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from types import FrameType

import uvicorn

from lookalike.collection import Collection
from lookalike.errors import InputError, LockedError, LookalikeError
from lookalike.server.access import Access
from lookalike.server.app import create_app
from lookalike.server.guard import Guard
from lookalike.server.patience import patient
from lookalike.server.settings import Rates, Settings

log = logging.getLogger("lookalike.server")

GRACE_S = 10
KEEP_ALIVE_S = 15
CHECK_FILES_S = 1.0
SIGNALS = (signal.SIGINT, signal.SIGTERM)
SWITCH_S = 0.0005
"""After so long a thread that computes lets another one have Python's lock: a tenth of what is usual. A search takes
the lock again after every look at the disk, and each time it may have to wait so long."""


class Server(uvicorn.Server):
    """uvicorn's, which ends without the signal being raised again."""

    def __init__(self, config: uvicorn.Config, app: Guard):
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Somebody asks us to end."""
        self._app.here.closing.set()
        super().handle_exit(sig, frame)
        self._captured_signals.clear()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are ours while we run; a thread gets none."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(collection: Collection, settings: Settings, *, ready: Callable[[str], None]) -> None:
    """Serve a collection; `ready` is told the address as soon as it can be reached."""
    check_tokens(collection, settings)
    if settings.local and not Access(collection.path).entries():  # the machine's own people may ask as they like
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


def _warm(app: Guard) -> None:
    """Load what the first of everything needs; it is there to stay, and need not be looked through for garbage.

    Python would, now and then, for a tenth of a second in which nothing else runs.
    """
    app.here.warm()
    gc.collect()
    gc.freeze()


def _check_files(app: Guard) -> None:
    """Quarantine vectors whose files were changed: a search that reads a truncated file would end the process."""
    while not app.here.closing.wait(CHECK_FILES_S):
        try:
            app.here.collection.check_open_files()
        except LockedError:  # changed files are closed here, and checked when the other writer is done
            continue
        except LookalikeError as error:
            log.warning("%s", error)


def make_server(app: Guard, settings: Settings) -> Server:
    """uvicorn, set up."""
    config = uvicorn.Config(
        app,
        http=patient(settings.budget),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,  # `guard` writes a line of its own, without queries
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=GRACE_S,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.WARNING)
    return Server(config, app)


def check_tokens(collection: Collection, settings: Settings) -> None:
    """Refuse to be reached from elsewhere while nobody needs a token."""
    if not settings.local and not Access(collection.path).entries():
        raise InputError(
            f"To be reached at {settings.host}, from other machines, the service needs a token. Make one:"
            f" lookalike -c {collection.path} token add NAME --role manage"
        )


def bind(settings: Settings) -> socket.socket:
    """The socket to listen at; InputError where it cannot be had."""
    try:
        found = socket.getaddrinfo(settings.host, settings.port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(*found[:3])  # with its protocol, or asyncio leaves Nagle's delay of 40 ms on
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
    """The address for a browser.

    >>> url("::1", 8321)
    'http://[::1]:8321/'
    """
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
