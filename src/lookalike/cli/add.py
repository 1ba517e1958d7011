"""The commands that change what a collection holds: add, refresh, remove, label."""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.options import NONE, Json, Wait, Where, Workers, filtered, opened
from lookalike.cli.output import bars, print_either, print_json, print_line, print_note
from lookalike.errors import InputError

if TYPE_CHECKING:
    from lookalike import Filter
    from lookalike.collection import Report

SHOWN_CLASSES = 12
"""Classes that the line about new pictures names, at most."""


def add(
    sources: Annotated[list[str], typer.Argument(metavar="SOURCE", help="Folders, archives, pictures, patterns.")],
    where: Where,
    recipe: Annotated[
        list[str] | None,
        typer.Option("--recipe", help="A recipe, or NAME = SPEC | SPEC; may be repeated. See: lookalike recipes"),
    ] = None,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Index pictures: folders, tar and zip archives, single files.

    What is known and unchanged is not read again. A file that cannot be read is skipped and listed with the reason;
    the exit code is then 1. Stopped at any moment, the same command goes on where it was.

    \b
    Examples:
      lookalike add ~/Pictures
      lookalike -c work.lookalike add photos/ more.tar --recipe deep --recipe color
    """
    with opened(where, create=True, wait=wait) as collection, bars() as progress:
        report = collection.add(*sources, recipes=recipe, progress=progress, workers=workers)
    return _print_report(report, json)


def refresh(
    where: Where,
    roots: Annotated[list[str] | None, typer.Argument(metavar="SOURCE", help="Default: everything ever added.")] = None,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Look again at what was added: new, changed, moved and gone files.

    \b
    Examples:
      lookalike refresh
      lookalike refresh ~/Pictures/2024
    """
    with opened(where, wait=wait) as collection, bars() as progress:
        report = collection.refresh(*roots or (), progress=progress, workers=workers)
    return _print_report(report, json)


@filtered
def remove(
    where: Where,
    which: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM", help="Paths, folders (all below them) or ids.")
    ] = None,
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME", help="A space instead: its vectors go, the pictures stay.")
    ] = None,
    wait: Wait = 0.0,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Take pictures out of the collection. Their files stay where they are.

    \b
    Examples:
      lookalike remove ~/Pictures/screenshots
      lookalike remove --max-side 64
      lookalike remove --space vlad
    """
    with opened(where, wait=wait) as collection:
        if space is not None:
            if which or filter is not None:
                raise InputError("--space stands alone: remove a space, or pictures.")
            collection.remove_space(space)
            print_either(json, f"Space {space} removed.", removed=space)
            return 0
        removed = collection.remove(*which or (), filter=filter)
    print_either(json, f"{removed:,} removed.", removed=removed)
    return 0


def label(
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="A CSV file or a folder of class folders.")],
    where: Where,
    author: Annotated[str, typer.Option("--author", help="Who says so.")] = "import",
    json: Json = False,
) -> int:
    """Import labels from a CSV file (path,label or id,label) or a folder with one sub-folder per class.

    Names that no picture of the collection answers to are listed; the exit code is then 1.

    \b
    Examples:
      lookalike label labels.csv
      lookalike label ~/Pictures/sorted --author anna
    """
    with opened(where) as collection:
        report = collection.import_labels(source, author=author)
    if json:
        print_json(dataclasses.asdict(report))
    else:
        print_line(f"{report.labelled:,} labelled, {len(report.unknown):,} unknown.")
        for name in report.unknown:
            print_line(f"unknown: {name}")
    return 1 if report.unknown else 0


def _print_report(report: "Report", json: bool) -> int:
    if json:
        print_json(dataclasses.asdict(report))
    else:
        counts = {name: getattr(report, name) for name in ("added", "known", "copied", "moved", "changed", "gone")}
        named = [f"{count:,} {name}" for name, count in counts.items() if count or name == "added"]
        print_line(f"{', '.join(named)}, {len(report.skipped):,} skipped in {report.seconds:.1f} s.")
        if report.predicted or report.none:
            most = sorted(report.predicted.items(), key=lambda pair: -pair[1])
            classes = [f"{n:,} {name}" for name, n in most[:SHOWN_CLASSES]]
            if rest := sum(n for _, n in most[SHOWN_CLASSES:]):
                classes.append(f"{rest:,} of other classes")
            print_line(f"classified: {', '.join([*classes, f'{report.none:,} {NONE}'])}.")
        for path, reason in report.skipped.items():
            print_line(f"skipped: {path}: {reason}")
        for note in report.notes:
            print_note(note)
    return 1 if report.skipped else 0
