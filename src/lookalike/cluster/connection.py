"""`Cluster`: the connection of a collection to a dask scheduler; implements `Executor`."""

import logging
import pickle
import queue
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

import cloudpickle
from distributed import Client, Future, Security
from distributed.scheduler import KilledWorker

from lookalike.cluster.describing import AHEAD, ClusterPool
from lookalike.cluster.shards import HERE_MAX, ShardCalls, ShardedIndex, ShardReader
from lookalike.collection import PicturePool
from lookalike.collection.chain import Prepare
from lookalike.errors import ClusterError, InputError, LookalikeError
from lookalike.index.exact import ExactIndex
from lookalike.store.segments import Block
from lookalike.types import Searchable

T = TypeVar("T")
Result = TypeVar("Result")

CONNECT_S = 10.0
"""Seconds to wait for the scheduler, and for the first worker."""

REFRESH_S = 2.0
"""Seconds after which the list of workers is read again."""

ACTOR_S = 2.0
"""Seconds to wait for new workers to start the actor that answers searches; later ones are used by a later search."""

SENT_BYTES, LOADED = 2**20, 2
"""Maximum size of a function that is sent with every task, and the number of functions that a worker keeps."""

LOOPBACK = ("localhost", "127.0.0.1", "::1")

log = logging.getLogger("lookalike.cluster")


class Cluster:
    """The workers of a dask cluster, as the executor of a collection. Thread-safe.

    Parameters
    ----------
    address : of the scheduler, such as tcp://127.0.0.1:8786 or tls://head:8786. Other machines require TLS with the
        certificates of dask's configuration, because a scheduler runs any code that it receives.

    Examples
    --------
    >>> from lookalike import Collection
    >>> from lookalike.cluster import Cluster
    >>> with Cluster("tcp://127.0.0.1:8786") as cluster:  # doctest: +SKIP
    ...     collection = Collection("photos.lookalike", cluster=cluster)
    ...     collection.add("/mnt/photos")

    """

    def __init__(self, address: str):
        self.address = address
        self._security = check_address(address)
        self._lock = threading.RLock()
        self._closing = threading.Event()
        self._reconnecting: threading.Thread | None = None
        self._client = connect(address, self._security)
        self._actors: dict[str, Any] = {}  # by address of the worker; a `Future` until it has started
        self._lost: set[str] = set()  # workers that could not be reached, until the next refresh
        self._refreshed_at = -REFRESH_S
        self._reported: set[str] = set()  # errors of tasks
        self._calls = ShardCalls(self._readers, self._run, self._lose)
        if not self.workers():
            with suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=CONNECT_S)
            self._refreshed_at = -REFRESH_S
        if not self.workers():
            self.close()
            raise ClusterError(f"{address} has no workers. Start some: lookalike cluster worker {address}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; the workers keep running."""
        self._closing.set()
        with suppress(OSError, TimeoutError):  # the scheduler may have ended
            self._client.close(timeout=CONNECT_S)

    def workers(self) -> list[str]:
        """The addresses of the workers."""
        self._refresh()
        return [worker for worker in self._actors if worker not in self._lost]

    @contextmanager
    def describe_pool(self, prepare: Prepare, side: int, workers: int | None) -> Iterator[PicturePool]:  # noqa: ARG002
        """Start a pool whose pictures are read on the workers; `workers` is ignored."""
        yield ClusterPool(self._submit, lambda: len(self.workers()), prepare, side)

    def shard(self, index: ExactIndex, blocks: Sequence[Block]) -> Searchable | None:
        """An index whose searches run on the workers; None for few rows."""
        return None if len(index.alive) <= HERE_MAX else ShardedIndex(index, blocks, self._calls)

    def map(self, function: Callable[[T], Result], values: Iterable[T]) -> Iterator[Result]:
        """Yield the result of a function for each value, in order.

        It runs here if the workers are lost, or if a worker raises an error that is not a `LookalikeError`.
        """
        pickled, remaining = self._send(function), iter(values)
        ahead: deque[tuple[T, Future | None]] = deque()
        while True:
            free = AHEAD * max(1, len(self.workers())) - len(ahead)
            ahead += [(value, self._try_submit(call, pickled, value)) for value in islice(remaining, max(0, free))]
            if not ahead:
                return
            value, task = ahead.popleft()
            yield task.result() if task is not None and self._has_result(task) else function(value)

    def _send(self, function: Callable[[T], Result]) -> bytes | Future:
        """Pickle a function; send a large one to the workers once, not with every task."""
        pickled = cloudpickle.dumps(function)  # as dask does: functions of scripts and notebooks work, too
        if len(pickled) > SENT_BYTES:
            with suppress(OSError, RuntimeError, TimeoutError):
                return self._client.scatter(pickled, broadcast=True, hash=False)
        return pickled

    def _try_submit(self, function: Callable[..., Any], *arguments: Any) -> Future | None:
        try:
            return self._submit(function, *arguments)
        except ClusterError:
            return None

    def _has_result(self, task: Future) -> bool:
        """Wait for a task; False if it was lost."""
        while not task.done():
            if not self.workers():
                return False
            with suppress(TimeoutError, CancelledError):
                task.exception(timeout=REFRESH_S)
        error = task.exception() if task.status == "error" else None
        if error is not None and not isinstance(error, LookalikeError) and str(error) not in self._reported:
            self._reported.add(str(error))
            log.warning(
                "A worker cannot run a task, so this process runs it, which is slower: %s. Workers must see the files"
                " of the collection at the same path. To move them to a shared file system: lookalike cluster share"
                " DIR",
                error,
            )
        return task.status == "finished" or isinstance(error, LookalikeError)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        """Submit a task; raise ClusterError if there is no connection."""
        self._refresh()
        try:
            return self._client.submit(function, *arguments, pure=False)
        except (OSError, RuntimeError) as error:
            raise ClusterError(f"The connection to {self.address} was lost: {error}") from None

    def _run(self, coroutine: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._client.sync(coroutine, *arguments)
        except (OSError, RuntimeError, CancelledError) as error:
            raise ClusterError(f"The connection to {self.address} was lost: {error}") from None

    def _readers(self) -> dict[str, Any]:
        """The actors that answer searches, by address; none without a connection."""
        self._refresh()
        actors, lost = self._actors, self._lost
        return {
            worker: actor for worker, actor in actors.items() if not isinstance(actor, Future) and worker not in lost
        }

    def _refresh(self) -> None:
        """Read the list of workers, and start an actor on each new one."""
        with self._lock:
            if time.monotonic() - self._refreshed_at < REFRESH_S:
                return
            self._refreshed_at = time.monotonic()
            if self._client.status == "closed":
                self._reconnect_later()
            if self._client.status != "running":
                return  # the workers can still be reached directly
            try:
                # `scheduler_info` can return an answer to dask's own regular request, which lists no workers.
                present = self._client.sync(self._client.scheduler.identity, n_workers=-1)["workers"]
            except (OSError, RuntimeError):
                return
            kept = present.keys() - self._lost
            actors = {worker: actor for worker, actor in self._actors.items() if worker in kept}
            for worker in present:
                if worker not in actors:
                    # If the worker dies, dask may create it elsewhere; otherwise, calls to it would never return.
                    actors[worker] = self._client.submit(
                        ShardReader, actor=True, workers=[worker], allow_other_workers=True, pure=False
                    )
            self._lost = set()
            self._actors = self._await_actors(actors)

    def _await_actors(self, actors: dict[str, Any]) -> dict[str, Any]:
        """Replace the futures of actors that have started. Waits only if none has started yet."""
        started = {worker: actor for worker, actor in actors.items() if not isinstance(actor, Future)}
        deadline = time.monotonic() + (0.0 if started else ACTOR_S)
        with self._client.as_current():  # a dask actor uses the current client
            for worker, future in actors.items():
                if worker in started:
                    continue
                try:
                    left = max(0.0, deadline - time.monotonic())
                    ready = future.done() or left > 0
                    started[worker] = future.result(timeout=max(left, 1.0)) if ready else future
                except TimeoutError:  # a new worker imports Lookalike, which takes seconds
                    started[worker] = future
                except (OSError, RuntimeError, CancelledError, KilledWorker):
                    continue
        return started

    def _lose(self, worker: str) -> None:
        """Forget a worker that cannot be reached. Runs in the thread of the event loop, so it must not wait."""
        self._lost = self._lost | {worker}
        self._refreshed_at = -REFRESH_S

    def _reconnect_later(self) -> None:
        """Connect in a thread to the next scheduler at the same address. Meanwhile, searches run here."""
        self._actors = {}
        if self._reconnecting is None or not self._reconnecting.is_alive():
            self._reconnecting = threading.Thread(target=self._reconnect, daemon=True)
            self._reconnecting.start()

    def _reconnect(self) -> None:
        while not self._closing.wait(REFRESH_S):
            with suppress(ClusterError):
                client = connect(self.address, self._security)
                with self._lock:
                    self._client, self._actors, self._refreshed_at = client, {}, -REFRESH_S
                return


def call(function: bytes, value: Any) -> Any:
    """Call a pickled function; runs on a worker. Otherwise the scheduler would open the files of the function, too."""
    return _load(function)(value)


@lru_cache(maxsize=LOADED)
def _load(function: bytes) -> Callable[[Any], Any]:
    loaded: Callable[[Any], Any] = pickle.loads(function)  # noqa: S301 — dask's own messages are pickled, too
    return loaded


def connect(address: str, security: Security | None) -> Client:
    """Connect to the scheduler at an address."""
    parts = urlsplit(address)
    found: queue.SimpleQueue[Client | Exception] = queue.SimpleQueue()
    try:
        with socket.create_connection((parts.hostname, parts.port), CONNECT_S):
            pass  # a client that cannot connect would leave a thread behind
        # In a thread, because dask does not limit the time for the answer of a server that accepts connections.
        threading.Thread(target=lambda: found.put(_make_client(address, security)), daemon=True).start()
        client = found.get(timeout=2 * CONNECT_S)
    except (OSError, queue.Empty) as error:
        client = error
    if isinstance(client, Exception):
        reason = str(client).rstrip(".") or "it does not answer like a dask scheduler"
        raise ClusterError(f"Cannot connect to {address}: {reason}. To start a cluster, run: lookalike cluster start")
    return client


def _make_client(address: str, security: Security | None) -> Client | Exception:
    """Return a connected client, or the error."""
    try:
        return Client(
            address,
            timeout=CONNECT_S,
            security=security,
            set_as_default=False,
            direct_to_workers=True,  # searches do not pass through the scheduler
        )
    except (OSError, ValueError, RuntimeError) as error:
        return error


def check_address(address: str) -> Security | None:
    """Return the security settings for an address; raise InputError if it is not allowed or incomplete."""
    parts = urlsplit(address)
    try:
        complete = bool(parts.scheme in ("tcp", "tls") and parts.hostname and parts.port)
    except ValueError:
        complete = False
    if not complete:
        raise InputError(f"A cluster address must be like tcp://127.0.0.1:8786 or tls://head:8786. Got {address!r}.")
    if parts.scheme == "tls":
        security = Security()
        if security.tls_ca_file is None or security.tls_client_cert is None:
            raise InputError(
                f"{address} needs TLS certificates. Set distributed.comm.tls in dask's configuration; see"
                " docs/howto/cluster.md."
            )
        return security
    if parts.hostname not in LOOPBACK:
        raise InputError(
            f"{address} is not encrypted, and a dask port runs any code that it receives. Use tls:// with certificates"
            " (see docs/howto/cluster.md), or an address on this machine."
        )
    return None
