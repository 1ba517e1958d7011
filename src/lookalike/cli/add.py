"""The commands that change the contents of a collection: add, refresh, remove, label."""

import dataclasses
import os
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import NONE, Json, Wait, Where, Workers, filtered, opened
from lookalike.cli.output import bars, complete_commands, print_either, print_json, print_line, print_note
from lookalike.errors import InputError
from lookalike.text import many

if TYPE_CHECKING:
    from lookalike import Filter
    from lookalike import collection as library
    from lookalike.collection import Report
else:
    library = Lazy("lookalike.collection")

Ocr = Annotated[
    bool,
    typer.Option(
        "--ocr", help="Also read the text in pictures, for searches by words; takes up to a second per picture."
    ),
]

WATCH_WAIT_S = 3_600.0
"""Seconds that `refresh --watch` waits for another writer, unless --wait is given."""

SHOWN_CLASSES = 12
"""Maximum number of classes listed after an add."""


def add(
    sources: Annotated[
        list[str],
        typer.Argument(
            metavar="SOURCE", help="Folders, archives, pictures, .txt lists, glob patterns or URLs; - reads paths."
        ),
    ],
    where: Where,
    recipe: Annotated[
        list[str] | None,
        typer.Option("--recipe", help="Recipe, or NAME = SPEC | SPEC; repeatable. See lookalike recipes."),
    ] = None,
    ocr: Ocr = False,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Index pictures in folders, archives, files and at URLs.

    Files that have not changed since the last run are not read again. Files that cannot be read are skipped and listed
    once, with the reason; the exit code is then 1. Files of other types are counted. If the command is interrupted, run
    it again to continue.

    SOURCE - reads paths from standard input, one per line, or each followed by a null character (find -print0).

    \b
    Examples:
      lookalike add ~/Pictures
      find ~/Pictures -name '*.jpg' -print0 | lookalike add -
      lookalike -c work.lookalike add photos/ more.tar --recipe deep --recipe color
      lookalike add ~/Screenshots --ocr
    """
    sources = _expand_stdin(sources)
    with opened(where, create=True, wait=wait) as collection, bars() as progress:
        report = collection.add(*sources, recipes=recipe, progress=progress, workers=workers, ocr=ocr)
    return _print_report(report, json)


def refresh(
    where: Where,
    roots: Annotated[
        list[str] | None, typer.Argument(metavar="SOURCE", help="Sources to check. Default: all sources added so far.")
    ] = None,
    ocr: Ocr = False,
    watch: Annotated[
        bool, typer.Option("--watch", help="Then wait for changes in the added folders, and add them, until Ctrl-C.")
    ] = False,
    workers: Workers = None,
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Rescan the added sources for new, changed and missing files.

    The exit code is 1 if files cannot be read that no earlier run reported. To list all of them, run: lookalike stats
    --skipped

    \b
    Examples:
      lookalike refresh
      lookalike refresh ~/Pictures/2024
      lookalike refresh --watch
    """
    if watch:
        return _watch(where, roots or [], ocr=ocr, workers=workers, wait_s=wait or WATCH_WAIT_S, json=json)
    with opened(where, wait=wait) as collection, bars() as progress:
        report = collection.refresh(*roots or (), progress=progress, workers=workers, ocr=ocr)
    return _print_report(report, json)


@filtered
def remove(
    where: Where,
    which: Annotated[
        list[str] | None, typer.Argument(metavar="ITEM", help="Paths, folders (including subfolders) or ids.")
    ] = None,
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="NAME", help="Remove this space and its vectors instead of pictures."),
    ] = None,
    wait: Wait = 0.0,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Remove pictures from the collection. The files are not deleted. To bring the pictures back, run: lookalike undo

    \b
    Examples:
      lookalike remove ~/Pictures/screenshots
      lookalike remove --max-side 64
      lookalike remove --space vlad
    """
    with opened(where, wait=wait) as collection:
        if space is not None:
            if which or filter is not None:
                raise InputError("--space cannot be combined with ITEM or filters. Remove either a space or pictures.")
            collection.remove_space(space)
            print_either(json, f"Removed the space {space}.", removed=space)
            return 0
        removed = collection.remove(*which or (), filter=filter)
    print_either(json, f"Removed {many(removed, 'picture')}.", removed=removed)
    return 0


def label(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="File of labels, or folder with one subfolder per class.")
    ],
    where: Where,
    author: Annotated[str, typer.Option("--author", help="Label author.")] = "import",
    format: Annotated[
        Literal["csv", "coco", "fiftyone", "huggingface", "imagefolder", "labelstudio", "parquet", "webdataset"] | None,
        typer.Option("--format", help="Format of the labels. Default: by name and content."),
    ] = None,
    field: Annotated[
        str | None,
        typer.Option("--field", metavar="NAME", help="Column, key or field of the labels. Default: label or similar."),
    ] = None,
    pictures: Annotated[
        str | None,
        typer.Option("--pictures", metavar="DIR", help="Folder of relative paths. Default: that of the file."),
    ] = None,
    json: Json = False,
) -> int:
    """Import labels from a file or a folder of class folders.

    A CSV file has a header with path,label or id,label. A folder has one subfolder per class. Other formats: COCO,
    Label Studio, FiftyOne, WebDataset, Hugging Face imagefolder, Parquet. Paths and ids that are not in the collection
    are listed; the exit code is then 1.

    \b
    Examples:
      lookalike label labels.csv
      lookalike label ~/Pictures/sorted --author anna
      lookalike label annotations/instances.json --pictures ~/coco/images
    """
    with opened(where) as collection, bars() as progress:
        report = collection.import_labels(
            source, author=author, format=format, field=field, pictures=pictures, progress=progress
        )
    if json:
        print_json(dataclasses.asdict(report))
    else:
        print_line(f"{report.labelled:,} labelled, {len(report.unknown):,} not in the collection.")
        for name in report.unknown:
            print_line(f"not in the collection: {name}")
    return 1 if report.unknown else 0


def _expand_stdin(sources: list[str]) -> list[str]:
    """Return the sources, with "-" replaced by the paths on standard input."""
    if "-" not in sources:
        return sources
    data = sys.stdin.buffer.read() if sys.stdin is not None else b""
    parts = data.split(b"\0") if b"\0" in data else data.splitlines()
    listed = [os.fsdecode(part) for part in parts if part]
    if not listed:
        raise InputError("There are no paths on standard input. Example: find photos -print0 | lookalike add -")
    at = sources.index("-")
    return [*sources[:at], *listed, *(source for source in sources[at:] if source != "-")]


def _watch(where: str, roots: list[str], *, ocr: bool, workers: int | None, wait_s: float, json: bool) -> int:
    """Refresh, then add changes until Ctrl-C or SIGTERM."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with opened(where, wait=wait_s) as collection:
            with bars() as progress:  # the first report is that of the refresh
                reports = collection.watch(*roots, progress=progress, workers=workers, ocr=ocr)
                first = next(reports)
            _print_report(first, json)
            sys.stdout.flush()
            print_note("Waiting for changes. Press Ctrl-C to stop.")
            for report in reports:
                _print_report(report, json)
                sys.stdout.flush()
    except KeyboardInterrupt:
        print_note("Stopped.")
    finally:
        signal.signal(signal.SIGTERM, before)
    return 0


def _print_report(report: "Report", json: bool) -> int:
    if json:
        print_json(dataclasses.asdict(report))
    else:
        counts = {
            "added": report.added,
            "unchanged": report.known,
            "already in the collection": report.copied,
            "moved": report.moved,
            "changed": report.changed,
            "missing": report.gone,
        }
        named = [f"{count:,} {name}" for name, count in counts.items() if count or name == "added"]
        print_line(f"{', '.join(named)}, {len(report.skipped):,} skipped in {report.seconds:.1f} s.")
        if report.predicted or report.none:
            most = sorted(report.predicted.items(), key=lambda pair: -pair[1])
            classes = [f"{n:,} {name}" for name, n in most[:SHOWN_CLASSES]]
            if rest := sum(n for _, n in most[SHOWN_CLASSES:]):
                classes.append(f"{rest:,} in other classes")
            print_line(f"classified: {', '.join([*classes, f'{report.none:,} {NONE}'])}.")
        for path, reason in report.skipped.items():
            print_line(f"skipped: {path}: {reason}")
        if report.other_types:
            print_line(library.describe_types(report.other_types))
        if n := len(report.known_skipped):
            print_line(complete_commands(f"{many(n, 'file')} skipped as before. Run: lookalike stats --skipped"))
        for note in report.notes:
            print_note(note)
    return 1 if report.skipped else 0
