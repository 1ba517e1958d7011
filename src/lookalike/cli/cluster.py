"""`lookalike cluster`: use a collection on many machines."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.options import Json, Wait, Where, opened
from lookalike.cli.output import bars, print_either
from lookalike.text import human_bytes, many

if TYPE_CHECKING:
    from lookalike.collection import ShareReport

app = typer.Typer(name="cluster", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def cluster(ctx: typer.Context) -> None:
    """Use a collection on many machines.

    \b
    Examples:
      lookalike cluster share /mnt/shared/photos
      lookalike cluster unshare
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
def share(
    folder: Annotated[
        str, typer.Argument(metavar="DIR", help="New or empty directory on a file system that all machines mount.")
    ],
    where: Where,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Move the vectors, models and indexes of the collection to a shared file system.

    All machines must mount the file system at the same path. Databases, labels and uploaded pictures stay on the local
    disk. Every copy is read back and compared before the original is removed. If the command is interrupted, the
    collection stays usable, and the same command resumes.

    \b
    Examples:
      lookalike cluster share /mnt/shared/photos
      lookalike -c work.lookalike cluster share /mnt/shared/work --json
    """
    with opened(where, wait=wait) as collection, bars() as progress:
        report = collection.share(folder, progress)
    return _print_report(report, json)


@app.command()
def unshare(where: Where, wait: Wait = 0.0, json: Json = False) -> int:
    """Move the vectors, models and indexes of the collection back to the local disk.

    Every copy is read back and compared before the shared files are removed. If the command is interrupted, the same
    command resumes. It also removes the copies of an interrupted `lookalike cluster share`. Stop the workers first.

    \b
    Examples:
      lookalike cluster unshare
    """
    with opened(where, wait=wait) as collection, bars() as progress:
        report = collection.unshare(progress)
    return _print_report(report, json)


def _print_report(report: "ShareReport", json: bool) -> int:
    summary = f"{many(report.copied, 'file')} copied ({human_bytes(report.bytes)}), {report.skipped:,} already copied"
    print_either(json, f"{summary}, all verified in {report.seconds:.1f} s.", **asdict(report))
    return 0
