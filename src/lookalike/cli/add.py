"""The commands that change the contents of a collection: add, refresh, remove, label."""

import dataclasses
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

SHOWN_CLASSES = 12
"""Maximum number of classes listed after an add."""


def add(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE", help="Folders, archives, pictures, .txt lists or glob patterns.")
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
    """Index pictures: folders, tar and zip archives, single files.

    Files that have not changed since the last run are not read again. Files that cannot be read are skipped and listed
    once, with the reason; the exit code is then 1. Files of other types are counted. If the command is interrupted, run
    it again to continue.

    \b
    Examples:
      lookalike add ~/Pictures
      lookalike -c work.lookalike add photos/ more.tar --recipe deep --recipe color
      lookalike add ~/Screenshots --ocr
    """
    with opened(where, create=True, wait=wait) as collection, bars() as progress:
        report = collection.add(*sources, recipes=recipe, progress=progress, workers=workers, ocr=ocr)
    return _print_report(report, json)


def refresh(
    where: Where,
    roots: Annotated[
        list[str] | None, typer.Argument(metavar="SOURCE", help="Sources to check. Default: all sources added so far.")
    ] = None,
    ocr: Ocr = False,
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
    """
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
        typer.Option("--field", metavar="NAME", help="Column, key or field of the labels. Default: the usual."),
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
    with opened(where) as collection:
        report = collection.import_labels(source, author=author, format=format, field=field, pictures=pictures)
    if json:
        print_json(dataclasses.asdict(report))
    else:
        print_line(f"{report.labelled:,} labelled, {len(report.unknown):,} not in the collection.")
        for name in report.unknown:
            print_line(f"not in the collection: {name}")
    return 1 if report.unknown else 0


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
