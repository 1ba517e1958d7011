"""The processes of a cluster: start a scheduler with workers, join a machine, report the state.

On SLURM and Kubernetes, dask's own tools start these processes (see docs/howto/cluster.md).
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import dask
from distributed import LocalCluster, Nanny

from lookalike.cluster.connection import LOOPBACK, check_address, connect
from lookalike.cluster.shards import count_open
from lookalike.errors import ClusterError
from lookalike.images.workers import THREADS_VARIABLE

HUNG_S = 30
"""Seconds after which the scheduler gives up on a worker that does not respond, and repeats its tasks elsewhere."""

RETRY_S = 2.0
"""Seconds between attempts to reach a scheduler."""

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


def start(
    workers: int, host: str, port: int, ready: Callable[[str, str | None], None], stop: threading.Event | None = None
) -> None:
    """Run a scheduler and workers on this machine until Ctrl-C, or until `stop` is set.

    Calls `ready` with the address of the scheduler and that of dask's dashboard.
    """
    scheme = "tcp" if host in LOOPBACK else "tls"
    security = check_address(f"{scheme}://{f'[{host}]' if ':' in host else host}:{port or 1}")
    with dask.config.set({"distributed.scheduler.worker-ttl": f"{HUNG_S} s"}):
        try:
            cluster = LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                host=host,
                scheduler_port=port,
                protocol=f"{scheme}://",
                security=security,
                dashboard_address=DASHBOARD,
                worker_dashboard_address=DASHBOARD,
                memory_limit=NO_LIMIT,
                env=ENVIRONMENT,
                silence_logs=logging.ERROR,
            )
        except (OSError, RuntimeError) as error:
            raise ClusterError(f"Cannot start a scheduler at {host}:{port}: {_cause(error)}.") from None
        with cluster:
            ready(cluster.scheduler_address, cluster.dashboard_link)
            (stop or threading.Event()).wait()


def run_worker(
    address: str,
    workers: int,
    ready: Callable[[str], None],
    failed: Callable[[str], None],
    stop: threading.Event | None = None,
) -> None:
    """Run workers on this machine for the scheduler at `address` until Ctrl-C, or until `stop` is set.

    dask ends workers when their scheduler ends; they are started again and wait for the next one. Calls `ready` with
    the address each time that the workers have joined, and `failed` with the reason each time that they cannot.
    """
    security = check_address(address)
    logging.getLogger("distributed").setLevel(logging.ERROR)
    host = urlsplit(address).hostname if urlsplit(address).hostname in LOOPBACK else None

    async def serve() -> None:
        while stop is None or not stop.is_set():
            nannies = [
                Nanny(
                    address,
                    nthreads=1,  # one worker per core
                    host=host,
                    security=security,
                    dashboard_address=DASHBOARD,
                    memory_limit=NO_LIMIT,
                    env=ENVIRONMENT,
                    silence_logs=logging.ERROR,
                )
                for _ in range(workers)
            ]
            try:
                await asyncio.gather(*nannies)  # waits for the scheduler
                ready(address)
                await _first([*(nanny.finished() for nanny in nannies), _stopped(stop)])
            except (OSError, RuntimeError) as error:
                failed(_cause(error))
            finally:
                await asyncio.gather(*(nanny.close(timeout=RESPONSE_S) for nanny in nannies), return_exceptions=True)
            await asyncio.sleep(RETRY_S)

    asyncio.run(serve())


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


async def _first(waiting: list[Any]) -> None:
    """Wait for the first of several coroutines, and cancel the others."""
    tasks = [asyncio.ensure_future(one) for one in waiting]
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in tasks:
        task.cancel()


async def _stopped(stop: threading.Event | None) -> None:
    while stop is None or not stop.is_set():
        await asyncio.sleep(0.1)


def _cause(error: BaseException) -> str:
    while error.__cause__ is not None:
        error = error.__cause__
    return os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
