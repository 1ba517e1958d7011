"""The commands for maintenance: verify, repair, backup, restore, compact."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

import lookalike
from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Wait, Where, Workers, opened
from lookalike.cli.output import bars, complete_commands, print_either, print_json, print_line
from lookalike.text import human_bytes, many

if TYPE_CHECKING:
    from lookalike.server import maintenance as service_files
else:
    service_files = Lazy("lookalike.server.maintenance")


def verify(
    where: Where,
    pictures: Annotated[
        bool, typer.Option("--pictures", help="Also read the original pictures and report missing or changed ones.")
    ] = False,
    json: Json = False,
) -> int:
    """Check every file of the collection against its checksum.

    The exit code is 1 if faults are found. Each line of the output describes one fault and names the command that
    repairs it.

    \b
    Examples:
      lookalike verify
      lookalike verify --pictures
    """
    with opened(where) as collection, bars() as progress:
        faults = collection.verify(progress, pictures=pictures) + service_files.verify(collection.path)
    faults = [complete_commands(fault) for fault in faults]
    if json:
        print_json({"clean": not faults, "faults": faults})
    for line in () if json else faults or ["No faults found."]:
        print_line(line)
    return 1 if faults else 0


def repair(
    where: Where,
    source: Annotated[
        str | None, typer.Option("--from", metavar="BACKUP", help="Backup directory to restore from.")
    ] = None,
    without_backup: Annotated[
        bool,
        typer.Option(
            "--without-backup", help="Replace an unreadable database with an empty one; the damaged file is kept."
        ),
    ] = False,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Repair the faults that `lookalike verify` reports. The exit code is 1 if faults remain.

    Damaged vectors are computed again from the pictures, damaged models are refitted and damaged indexes rebuilt. With
    --from, files and database rows are restored from the backup if it contains them. Lost labels and sessions can only
    be restored from a backup. Damaged databases and rows are kept in files next to the repaired ones.

    \b
    Examples:
      lookalike repair
      lookalike repair --from /mnt/disk/photos-backup
    """
    with bars() as progress:
        report = lookalike.Collection.repair(
            where, backup=source, without_backup=without_backup, wait_s=wait, progress=progress, workers=workers
        )
    done, left = service_files.repair(where, source)
    report.done += done
    report.left = [complete_commands(line) for line in [*report.left, *left]]
    if json:
        print_json(asdict(report))
    else:
        for line in report.done or ["Nothing needed repair."] * (not report.left):
            print_line(line)
        for line in report.left:
            print_line(f"not repaired: {line}")
    return 1 if report.left else 0


def backup(
    target: Annotated[str, typer.Argument(metavar="DIR", help="Backup directory; created if missing.")],
    where: Where,
    json: Json = False,
) -> int:
    """Create or update a backup of the collection. Other processes can write to the
    collection at the same time.

    Only files that have changed since the last backup are copied. Every file of the backup is read back and compared
    with its checksum. If the command is interrupted, the previous backup remains complete. The original pictures are
    not part of the backup, except those that were uploaded to the service.

    \b
    Examples:
      lookalike backup /mnt/disk/photos-backup
      lookalike -c work.lookalike backup /mnt/disk/work-backup --json
    """
    with opened(where) as collection, bars() as progress:
        report = collection.backup(target, progress)
    summary = f"{many(report.copied, 'file')} copied ({human_bytes(report.bytes)}), {report.skipped:,} unchanged"
    print_either(json, f"{summary}, all verified in {report.seconds:.1f} s.", **asdict(report))
    return 0


def restore(
    source: Annotated[str, typer.Argument(metavar="DIR", help="Backup directory.")],
    target: Annotated[str, typer.Argument(metavar="NEW_COLLECTION", help="Path of the new collection.")],
    json: Json = False,
) -> int:
    """Restore a backup to a new collection.

    Every file is compared with its checksum. The new collection appears at its path only when it is complete. An
    existing collection is never overwritten.

    \b
    Examples:
      lookalike restore /mnt/disk/photos-backup photos.lookalike
      lookalike -c photos.lookalike verify
    """
    with bars() as progress:
        report = lookalike.Collection.restore(source, target, progress)
    summary = f"{many(report.copied, 'file')} restored and verified ({human_bytes(report.bytes)})"
    print_either(json, f"{summary} in {report.seconds:.1f} s.", **asdict(report))
    return 0


def compact(where: Where, wait: Wait = 0.0, json: Json = False) -> int:
    """Free the disk space of removed pictures and merge small files.

    \b
    Examples:
      lookalike compact
    """
    with opened(where, wait=wait) as collection, bars() as progress:
        done = collection.compact(progress)
    before, after = human_bytes(done["bytes_before"]), human_bytes(done["bytes_after"])
    print_either(json, f"{before} → {after}; segments: {done['segments_before']} → {done['segments_after']}.", **done)
    return 0
