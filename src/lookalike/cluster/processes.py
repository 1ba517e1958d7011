"""The processes of a cluster: start a scheduler with workers, join a machine, report the state.

On SLURM and Kubernetes, dask's own tools start these processes (see docs/howto/cluster.md).
"""

import asyncio
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing import resource_tracker
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed import Nanny, Scheduler, Security
from distributed import Status as ServerStatus
from distributed.utils import format_dashboard_link

from lookalike.cluster.connection import LOOPBACK, check_address, connect
from lookalike.cluster.shards import count_open
from lookalike.errors import ClusterError
from lookalike.images.workers import THREADS_VARIABLE
from lookalike.system import block_interrupts, kill

HUNG_S = 30
"""Seconds after which the scheduler gives up on a worker that does not respond, and repeats its tasks elsewhere."""

RETRY_S = 2.0
"""Seconds before a worker that has ended for good is replaced."""

POLL_S = 0.1
"""Seconds between checks whether to stop."""

RESPONSE_S = 2.0
"""Seconds to wait for the report of a worker."""

DASHBOARD = "127.0.0.1:0"
"""Address of dask's dashboard: a free port that only this machine can reach."""

ENVIRONMENT = {THREADS_VARIABLE: "1"}
"""Environment of a worker, which uses one core."""

UNFINISHED = ("waiting", "ready", "constrained", "executing", "long-running")
"""States of tasks that a worker has not finished."""

NO_LIMIT = 0
"""Memory limit of a worker. Mapped files count as its memory, although they can be dropped at any time."""

log = logging.getLogger("lookalike.cluster")


def start(workers: int, host: str, port: int, ready: Callable[[str, str], None], stopped: Callable[[], bool]) -> None:
    """Run a scheduler and workers on this machine until `stopped` returns True.

    Calls `ready` with the address of the scheduler and that of dask's dashboard, once all workers have joined.
    """
    scheme = "tcp" if host in LOOPBACK else "tls"
    security = check_address(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or 1}")

    async def serve(stopped: Callable[[], bool]) -> None:
        try:
            scheduler = await Scheduler(
                host=host,
                port=port,
                protocol=f"{scheme}://",
                security=security,
                dashboard=True,
                dashboard_address=DASHBOARD,
            )
        except (OSError, RuntimeError) as error:
            raise ClusterError(f"Cannot start a scheduler at {host}:{port}: {_cause(error)}.") from None
        async with scheduler:
            page = format_dashboard_link("127.0.0.1", scheduler.service_ports["dashboard"])
            await _keep_workers(
                workers,
                scheduler.address,
                host,
                security,
                cache(lambda: ready(scheduler.address, page)),  # the first time only
                lambda: stopped() or scheduler.status == ServerStatus.closed,
            )

    with dask.config.set({"distributed.scheduler.worker-ttl": f"{HUNG_S} s"}):
        _run(serve, stopped)


@contextmanager
def started(workers: int, host: str = "127.0.0.1", port: int = 0) -> Iterator[str]:
    """Run a scheduler and workers on this machine while the context is open; yields the address of the scheduler."""
    address: Future[Any] = Future()
    ended = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        running: Future[Any] = pool.submit(
            start, workers, host, port, lambda found, _: address.set_result(found), ended.is_set
        )
        try:
            wait([address, running], return_when=FIRST_COMPLETED)
            if running.done():
                running.result()  # raises the error
            yield address.result(0)
        finally:
            ended.set()
        running.result()


def run_worker(address: str, workers: int, ready: Callable[[str], None], stopped: Callable[[], bool]) -> None:
    """Run workers on this machine for the scheduler at `address` until `stopped` returns True.

    Without a scheduler, they wait for it, also after it has ended. Calls `ready` with the address each time that all
    workers have joined.
    """
    security = check_address(address)
    host = urlsplit(address).hostname if urlsplit(address).hostname in LOOPBACK else None
    _run(
        lambda stopped: _keep_workers(workers, address, host, security, lambda: ready(address), stopped),
        stopped,
    )


def _run(serve: Callable[[Callable[[], bool]], Coroutine[Any, Any, None]], stopped: Callable[[], bool]) -> None:
    """Run the event loop of a cluster in a thread that blocks SIGINT.

    Worker processes inherit that. Otherwise, Ctrl-C would interrupt them before this process can end them.
    """
    ended = threading.Event()
    logging.getLogger("distributed").setLevel(logging.ERROR)
    with ThreadPoolExecutor(1, initializer=_block_sigint) as pool:
        running = pool.submit(asyncio.run, serve(lambda: ended.is_set() or stopped()))
        try:
            while not running.done():  # Python can miss a signal in a wait without a timeout
                wait([running], timeout=POLL_S)
            running.result()
        finally:
            ended.set()


def _block_sigint() -> None:
    resource_tracker.ensure_running()  # otherwise, it would start later and unblock SIGINT
    block_interrupts()


async def _keep_workers(
    count: int,
    address: str,
    host: str | None,
    security: Security | None,
    joined: Callable[[], None],
    stopped: Callable[[], bool],
) -> None:
    """Run workers until `stopped` returns True; call `joined` each time that all of them have joined.

    A nanny, which is dask's parent of a worker, starts it again if it dies. The nanny itself ends if the worker cannot
    join the scheduler or loses it; then a new nanny follows. dask's `LocalCluster` does not replace nannies, and ends
    that of a worker that is not running 15 seconds after it died, for example because it died again.
    """
    nannies: dict[int, Nanny] = {}
    reported = ""

    async def keep(number: int) -> None:
        nonlocal reported
        while not stopped():
            try:
                nannies[number] = Nanny(
                    address,
                    nthreads=1,  # one worker per core
                    host=host,
                    security=security,
                    dashboard_address=DASHBOARD,
                    memory_limit=NO_LIMIT,
                    env=ENVIRONMENT,
                    silence_logs=logging.ERROR,
                )
                async with _running(nannies[number]) as nanny:
                    await nanny.finished()
            except Exception as error:  # noqa: BLE001 — whatever happened, the worker is needed
                if (reason := _cause(error)) != reported and not stopped():
                    log.warning("A worker cannot join %s: %s. Trying again.", address, reason)
                    reported = reason
            await asyncio.sleep(RETRY_S)

    keepers = [asyncio.create_task(keep(number)) for number in range(count)]
    announced = False
    try:
        while not stopped():
            complete = sum(nanny.status == ServerStatus.running for nanny in nannies.values()) == count
            if complete and not announced:
                reported = ""
                joined()
            announced = complete
            await asyncio.sleep(POLL_S)
    finally:
        for keeper in keepers:
            keeper.cancel()
        await asyncio.gather(*keepers, return_exceptions=True)


@asynccontextmanager
async def _running(nanny: Nanny) -> AsyncIterator[Nanny]:
    """Start a nanny, which waits for the scheduler; end it and its worker at the end of the context."""
    start = asyncio.ensure_future(nanny.start())
    try:
        yield await asyncio.shield(start)  # dask cannot close a nanny whose start was cancelled
    finally:
        ended = asyncio.gather(start, nanny.close(timeout=RESPONSE_S), return_exceptions=True)
        while not ended.done():
            if (pid := nanny.pid) is not None:  # dask would wait for a worker that is starting or hangs
                with suppress(ProcessLookupError):
                    kill(pid)
            await asyncio.sleep(POLL_S)


@dataclass(frozen=True, slots=True)
class WorkerStatus:
    """The state of one worker."""

    address: str
    machine: str
    memory_bytes: int
    tasks: int  # running and waiting
    shards: int | None  # open shards; None if the worker does not respond
    rows: int | None  # their rows


@dataclass(frozen=True, slots=True)
class Status:
    """The state of a cluster."""

    address: str
    workers: list[WorkerStatus]
    dashboard: str | None


def status(address: str) -> Status:
    """Ask the scheduler and the workers for their state."""
    client = connect(address, check_address(address))
    try:
        found: dict[str, dict[str, Any]] = client.scheduler_info()["workers"]
        counted = client.sync(_count_shards, client, list(found))
        workers = [
            WorkerStatus(
                worker,
                about["host"],
                int(about["metrics"].get("memory", 0)),
                sum(n for state, n in about["metrics"].get("task_counts", {}).items() if state in UNFINISHED),
                *counted[worker],
            )
            for worker, about in sorted(found.items())
        ]
        return Status(address, workers, client.dashboard_link)
    finally:
        client.close(timeout=RESPONSE_S)


async def _count_shards(client: Any, workers: list[str]) -> dict[str, tuple[int | None, int | None]]:
    async def count(worker: str) -> tuple[int | None, int | None]:
        with suppress(TimeoutError, OSError):
            found = await asyncio.wait_for(client.run(count_open, workers=[worker]), RESPONSE_S)
            return found[worker]  # type: ignore[no-any-return]
        return None, None

    return dict(zip(workers, await asyncio.gather(*map(count, workers)), strict=True))


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, OSError) and error.errno is not None and error.errno > 0:  # those of DNS are negative
        return os.strerror(error.errno)
    return str(error)
