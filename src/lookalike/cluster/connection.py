"""`Cluster`: the connection of a collection to a dask scheduler; implements `Executor`."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager, suppress
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from distributed import Client, Future, Security
from distributed.scheduler import KilledWorker

from lookalike.cluster.describing import ClusterPool
from lookalike.cluster.shards import HERE_MAX, Answers, ShardedIndex, ShardReader
from lookalike.collection import PicturePool
from lookalike.collection.chain import Prepare
from lookalike.errors import ClusterError, InputError
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

LOOPBACK = ("localhost", "127.0.0.1", "::1")


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
        self._client = connect(address, self._security)
        self._actors: dict[str, Any] = {}  # by address of the worker; `Future` until it has started
        self._known_at = -REFRESH_S
        self._most = 1  # the largest number of workers so far: the number of shards
        self._answers = Answers(self._readers, self._run, self._lose)
        self._refresh()
        if not self._actors:
            with suppress(TimeoutError):
                self._client.wait_for_workers(1, timeout=CONNECT_S)
            self._known_at = -REFRESH_S
            self._refresh()
        if not self._actors:
            self.close()
            raise ClusterError(f"{address} has no workers. Start some: lookalike cluster worker {address}")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect; the workers keep running."""
        self._client.close(timeout=CONNECT_S)

    def workers(self) -> list[str]:
        """The addresses of the workers."""
        self._refresh()
        return list(self._actors)

    @contextmanager
    def describe_pool(self, prepare: Prepare, side: int, workers: int | None) -> Iterator[PicturePool]:  # noqa: ARG002
        """Start a pool whose pictures are read on the workers; `workers` is ignored."""
        yield ClusterPool(self._submit, lambda: len(self.workers()), prepare, side)

    def shard(self, index: ExactIndex, blocks: Sequence[Block]) -> Searchable | None:
        """An index whose searches run on the workers; None for few rows."""
        if len(index.alive) <= HERE_MAX:
            return None
        self._refresh()
        return ShardedIndex(index, blocks, self._most, self._answers)

    def map(self, function: Callable[[T], Result], values: Iterable[T]) -> Iterator[Result]:
        """Yield the result of a function for each value, in order; here if the workers are lost."""
        tasks = [(value, self._submit(function, value)) for value in values]
        for value, task in tasks:
            try:
                result: Result = task.result()
            except (CancelledError, KilledWorker, OSError):
                result = function(value)
            yield result

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future:
        with self._lock:
            if self._client.status == "closed":  # the scheduler was away for too long
                self._client = connect(self.address, self._security)
            return self._client.submit(function, *arguments, pure=False)

    def _run(self, coroutine: Callable[..., Any], *arguments: Any) -> Any:
        return self._client.sync(coroutine, *arguments)

    def _readers(self) -> dict[str, Any]:
        """The actors that answer searches, by address."""
        self._refresh()
        with self._lock:
            return {worker: actor for worker, actor in self._actors.items() if not isinstance(actor, Future)}

    def _refresh(self) -> None:
        """Read the list of workers, and start an actor on each new one."""
        with self._lock:
            if time.monotonic() - self._known_at < REFRESH_S:
                return
            self._known_at = time.monotonic()
            if self._client.status == "closed":
                with suppress(ClusterError):  # without a scheduler, searches run here
                    self._client = connect(self.address, self._security)
                self._actors.clear()
            if self._client.status != "running":
                return
            try:
                present = self._client.scheduler_info()["workers"]
            except OSError:
                return
            self._actors = {worker: actor for worker, actor in self._actors.items() if worker in present}
            for worker in present:
                if worker not in self._actors:
                    # If the worker dies, dask may create the actor elsewhere; else, calls to it would never return.
                    self._actors[worker] = self._client.submit(
                        ShardReader, actor=True, workers=[worker], allow_other_workers=True, pure=False
                    )
            self._most = max(self._most, len(self._actors))
            self._await_actors(time.monotonic() + ACTOR_S)

    def _await_actors(self, deadline: float) -> None:
        """Replace the futures of actors that have started."""
        with self._client.as_current():  # a dask actor uses the current client
            for worker, future in [*self._actors.items()]:
                if not isinstance(future, Future):
                    continue
                try:
                    self._actors[worker] = future.result(timeout=max(0.0, deadline - time.monotonic()))
                except TimeoutError:  # a new worker imports Lookalike, which takes seconds
                    continue
                except (OSError, RuntimeError, CancelledError, KilledWorker):
                    self._actors.pop(worker)

    def _lose(self, worker: str) -> None:
        """Forget a worker that cannot be reached. Runs in the thread of the event loop, so it does not wait."""
        self._actors = {other: actor for other, actor in self._actors.items() if other != worker}
        self._known_at = -REFRESH_S


def connect(address: str, security: Security | None) -> Client:
    """Connect to the scheduler at an address."""
    try:
        return Client(
            address,
            timeout=CONNECT_S,
            security=security,
            set_as_default=False,
            direct_to_workers=True,  # searches do not pass through the scheduler
        )
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"Cannot connect to {address}: {str(error).rstrip('.')}. To start a cluster, run: lookalike cluster start"
        ) from None


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
