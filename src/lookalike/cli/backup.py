"""`lookalike backup` and `lookalike restore`.

In: a collection and a directory. Out: how many files were copied and skipped, printed.
"""

from dataclasses import asdict
from typing import Annotated

import typer

import lookalike
from lookalike.cli.options import Json, Where, opened
from lookalike.cli.terminal import bars, say
from lookalike.text import many
from lookalike.units import human_bytes


def backup(
    target: Annotated[str, typer.Argument(metavar="DIR", help="Directory of the backup; new, or from the last time.")],
    where: Where,
    json: Json = False,
) -> int:
    """Make or update a backup of the collection; other processes may write meanwhile.

    Files that have not changed since the last backup are not copied again. Every file of the backup is read back and
    compared with its digest. Stopped at any moment, the previous backup is still complete. The pictures themselves are
    not part of it, except those that were uploaded to the service.

    \b
    Examples:
      lookalike backup /mnt/disk/photos-backup
      lookalike -c work.lookalike backup /mnt/disk/work-backup --json
    """
    with opened(where) as collection, bars() as progress:
        report = collection.backup(target, progress)
    told = f"{many(report.copied, 'file')} copied ({human_bytes(report.bytes)}), {report.skipped:,} unchanged"
    say(json, f"{told}, all verified in {report.seconds:.1f} s.", **asdict(report))
    return 0


def restore(
    source: Annotated[str, typer.Argument(metavar="DIR", help="Directory of the backup.")],
    target: Annotated[str, typer.Argument(metavar="NEW_COLLECTION", help="Path of the new collection.")],
    json: Json = False,
) -> int:
    """Make a new collection from a backup.

    Every file is compared with its digest. The new collection appears when it is complete. An existing collection is
    never overwritten.

    \b
    Examples:
      lookalike restore /mnt/disk/photos-backup photos.lookalike
      lookalike -c photos.lookalike verify
    """
    with bars() as progress:
        report = lookalike.Collection.restore(source, target, progress)
    told = f"{many(report.copied, 'file')} restored and verified ({human_bytes(report.bytes)})"
    say(json, f"{told} in {report.seconds:.1f} s.", **asdict(report))
    return 0
