"""`lookalike cluster`: run the processes of a cluster, and share a collection with them."""

import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Wait, Where, opened, used_cluster
from lookalike.cli.output import bars, print_either, print_json, print_line, print_note, print_table
from lookalike.errors import InputError
from lookalike.system import count_cores
from lookalike.text import human_bytes, many

if TYPE_CHECKING:
    from lookalike import cluster as clusters
    from lookalike.collection import ShareReport
else:
    clusters = Lazy("lookalike.cluster")

app = typer.Typer(name="cluster", rich_markup_mode=None)
Address = Annotated[
    str, typer.Argument(metavar="ADDRESS", help="Address of the scheduler, such as tcp://127.0.0.1:8786.")
]


@app.callback(invoke_without_command=True)
def cluster(ctx: typer.Context) -> None:
    """Start a cluster, and share a collection with it.

    A cluster extracts features and answers searches, feedback rounds and `verify` for one collection on many cores or
    machines. Give its address to other commands: lookalike --cluster ADDRESS add FOLDER

    \b
    Examples:
      lookalike cluster start --workers 4
      lookalike cluster worker tls://head:8786
      lookalike cluster status tcp://127.0.0.1:8786
      lookalike cluster share /mnt/shared/photos
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
def start(
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=0, help="Number of workers on this machine. Default: one per core; 0: only other machines."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on; if other machines can connect, TLS is required.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8786,
) -> int:
    """Start a scheduler and workers on this machine. Runs until Ctrl-C.

    The default is one worker per core. Prints the address for --cluster. Other machines can join with `lookalike
    cluster worker`.

    \b
    Examples:
      lookalike cluster start
      lookalike cluster start --host 0.0.0.0 --workers 0
    """

    count = count_cores() if workers is None else workers

    def ready(address: str, page: str) -> None:
        print_line(f"The cluster is at {address}")
        print_note(f"To use it: lookalike --cluster {address} add FOLDER")
        print_note(f"dask's dashboard (needs bokeh): {page}")
        sys.stdout.flush()

    with until_signal() as stopped:
        print_note(f"Starting a scheduler and {many(count, 'worker')}. Stop with Ctrl-C.")
        clusters.start(count, host, port, ready, stopped)
    print_note("Stopped.")
    return 0


@app.command()
def worker(
    address: Address,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Number of workers. Default: one per core.")
    ] = None,
) -> int:
    """Join this machine to a cluster. Runs until Ctrl-C.

    If the scheduler ends, the workers wait for a new one at the same address.

    \b
    Examples:
      lookalike cluster worker tls://head:8786
      lookalike cluster worker tcp://127.0.0.1:8786 --workers 2
    """
    count = count_cores() if workers is None else workers

    def ready(joined: str) -> None:
        print_line(f"{many(count, 'worker')} joined {joined}")
        sys.stdout.flush()

    with until_signal() as stopped:
        print_note(f"Connecting to {address}. Stop with Ctrl-C.")
        clusters.run_worker(address, count, ready, stopped)
    print_note("Stopped.")
    return 0


@app.command()
def status(
    address: Annotated[
        str | None, typer.Argument(metavar="[ADDRESS]", help="Address of the scheduler. Default: that of --cluster.")
    ] = None,
    json: Json = False,
) -> int:
    """Show the workers of a cluster.

    Each line has the memory, the unfinished tasks and the open shards of a worker.

    \b
    Examples:
      lookalike cluster status tcp://127.0.0.1:8786
      lookalike --cluster tls://head:8786 cluster status --json
    """
    address = address or used_cluster()
    if address is None:
        raise InputError("Give the address of the scheduler, such as tcp://127.0.0.1:8786.")
    found = clusters.status(address)
    if json:
        print_json(asdict(found))
        return 0
    if found.workers:
        print_table(
            ["worker", "memory", "tasks", "shards", "rows"],
            [
                [row.address, human_bytes(row.memory_bytes), f"{row.tasks:,}"]
                + (["no response", ""] if row.shards is None else [f"{row.shards:,}", f"{row.rows:,}"])
                for row in found.workers
            ],
        )
    else:
        print_line("No workers.")
        print_note(f"Start some: lookalike cluster worker {address}")
    if found.dashboard:
        print_note(f"dask's dashboard (needs bokeh): {found.dashboard}")
    return 0


@app.command()
def share(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="New or empty directory on a file system that all machines mount.")
    ],
    where: Where,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Move the large files of a collection to a shared file system.

    These are the vectors, models and indexes.
    All machines must mount the file system at the same path. Databases, labels and uploaded pictures stay on the local
    disk. Every copy is read back and compared before the original is removed. If the command is interrupted, the
    collection stays usable, and the same command resumes.

    \b
    Examples:
      lookalike cluster share /mnt/shared/photos
      lookalike -c work.lookalike cluster share /mnt/shared/work --json
    """
    with opened(where, wait=wait, local=True) as collection, bars() as progress:
        report = collection.share(folder, progress)
    return _print_report(report, json)


@app.command()
def unshare(where: Where, wait: Wait = 0.0, json: Json = False) -> int:
    """Move the files of a shared collection back to the local disk.

    Every copy is read back and compared before the shared files are removed. If the command is interrupted, the same
    command resumes. It also removes the copies of an interrupted `lookalike cluster share`. Stop the workers first.

    \b
    Examples:
      lookalike cluster unshare
    """
    with opened(where, wait=wait, local=True) as collection, bars() as progress:
        report = collection.unshare(progress)
    return _print_report(report, json)


@contextmanager
def until_signal() -> Iterator[Callable[[], bool]]:
    """A function that returns whether SIGINT or SIGTERM has arrived.

    They do not raise KeyboardInterrupt meanwhile, which would interrupt imports or leave processes behind.
    """
    received: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: received.append(number))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield lambda: bool(received)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def _print_report(report: "ShareReport", json: bool) -> int:
    summary = f"{many(report.copied, 'file')} copied ({human_bytes(report.bytes)}), {report.skipped:,} already copied"
    print_either(json, f"{summary}, all verified in {report.seconds:.1f} s.", **asdict(report))
    return 0
