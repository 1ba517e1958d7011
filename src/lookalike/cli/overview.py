"""The commands that show the contents of a collection: items, facets, stats, map, export."""

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Where, filtered, opened
from lookalike.cli.output import (
    bars,
    complete_commands,
    print_json,
    print_line,
    print_note,
    print_table,
    show_path,
)
from lookalike.errors import InputError
from lookalike.text import human_bytes, many

if TYPE_CHECKING:
    from lookalike import Filter, show, types
    from lookalike import collection as library
else:
    show, types, library = Lazy("lookalike.show"), Lazy("lookalike.types"), Lazy("lookalike.collection")

MAX_VALUES = 5
"""Maximum number of values of a facet that are shown by default."""
_FORMATS: dict[str, Literal["json", "csv", "paths", "coco", "npz"]] = {".csv": "csv", ".npz": "npz", ".txt": "paths"}


@filtered
def items(where: Where, json: Json = False, *, filter: "Filter | None") -> int:
    """List pictures: id, size in pixels and bytes, path.

    \b
    Examples:
      lookalike items
      lookalike items --label cat --since 2024-01-01 --json
    """
    with opened(where, local=True) as collection:
        if json:
            collection.export(sys.stdout, format="json", filter=filter)
            return 0
        for item in collection.items(filter):
            size = f"{item.width}x{item.height}"
            path = item.paths[0] if item.paths else None
            print_line(f"{types.format_id(item.id)}  {size:>11}  {item.bytes:>10}  {show_path(path)}")
    return 0


@filtered
def facets(
    where: Where,
    by: Annotated[
        Literal[
            "year",
            "month",
            "folder",
            "camera",
            "lens",
            "place",
            "orientation",
            "file_format",
            "label",
            "labelled",
            "suggested",
        ]
        | None,
        typer.Option("--by", help="List all values of this facet. Default: the most frequent values of each facet."),
    ] = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Count pictures by year, camera, place and other properties.

    The properties are year, camera, lens, place, orientation, file format, label and predicted class.
    The values can be used as filters: --year, --camera, and so on. The counts of a facet ignore the filter on the same
    facet. With --by folder, --folder selects the folder whose folders are counted.

    \b
    Examples:
      lookalike facets
      lookalike facets --by month --camera "NIKON D90"
      lookalike facets --by folder --folder Pictures/2024 --json
    """
    with opened(where, local=True) as collection:
        counts: dict[str, dict[Any, int]]
        if by == "month":
            counts = {by: {month or "unknown": n for month, n in collection.timeline(filter).items()}}
        elif by == "folder":
            folders = collection.folders(filter.folder if filter else None, filter)
            counts = {by: {folder.path: folder.items for folder in folders}}
        else:
            counts = collection.facets(filter)
    words = {True: "yes", False: "no"}
    named = {
        name: {words[value] if isinstance(value, bool) else str(value): n for value, n in values.items()}
        for name, values in counts.items()
        if by in (None, name)
    }
    if json:
        print_json(named if by is None else named[by])
        return 0
    rows = []
    for name, values in named.items():
        shown = list(values.items())[: None if by else MAX_VALUES]
        rows += [[name if at == 0 else "", value, f"{n:,}"] for at, (value, n) in enumerate(shown)]
        if len(values) > len(shown):
            rows.append(["", complete_commands(f"{len(values) - len(shown):,} more: lookalike facets --by {name}"), ""])
    print_table(["facet", "value", "pictures"], rows)
    return 0


def stats(
    where: Where,
    steps: Annotated[
        str | None,
        typer.Option(
            "--steps", metavar="SPACE", help="Measure what each step of this space contributes, using labels."
        ),
    ] = None,
    speed: Annotated[
        bool,
        typer.Option(
            "--speed", help="Time a search in each space and compare it with the estimate from lookalike plan."
        ),
    ] = False,
    skipped: Annotated[
        bool, typer.Option("--skipped", help="List the files that are not in the collection, with the reasons.")
    ] = False,
    json: Json = False,
) -> int:
    """Show the size, labels, spaces and indexes of the collection.

    \b
    Examples:
      lookalike stats
      lookalike stats --skipped
      lookalike stats --json
      lookalike stats --steps mine
      lookalike stats --speed
    """
    if steps is not None:
        return _print_steps(where, steps, json)
    if speed:
        return _print_speeds(where, json)
    if skipped:
        return _print_skipped(where, json)
    with opened(where, local=True) as collection:
        found = collection.stats()
    if json:
        print_json(found)
        return 0
    print_line(f"{found['path']}: {human_bytes(found['bytes'])}")
    pictures = f"{many(found['items'], 'picture')} at {many(found['paths'], 'path')}"
    print_line(f"{pictures}, {many(found['skipped'], 'file')} skipped")
    if found["other_types"]:
        print_line(library.describe_types(found["other_types"]))
    labels = f"{many(found['labels'], 'label')}, {many(found['classes'], 'class', 'classes')}"
    print_line(f"{labels}, {many(found['predictions'], 'prediction')}")
    if found["device"]["searches"] != "CPU":
        print_line(f"searches on {found['device']['searches']}, networks on {found['device']['networks']}")
    for file in found["quarantined"]:
        print_line(complete_commands(f"quarantined: {file}; searches do not find its pictures. Run: lookalike repair"))
    for space in found["spaces"]:
        print_line(_space_line(space))
    return 0


def _space_line(space: dict[str, Any]) -> str:
    fitted = f" on {space['fitted_on']:,}" if space["fitted_on"] else ""
    if space["fitted_which"]:
        fitted += f" ({space['fitted_which']})"
    if space["fit_summary"]:
        fitted += f", {space['fit_summary']}"
    if space["feature_fitted_on"]:
        fitted += f", vocabulary from {many(space['feature_fitted_on'], 'picture')}"
    recall = "" if space["index_recall"] is None else f" with recall {space['index_recall']:.3f}"
    if feedback := space["feedback_recall"]:
        recall += ", feedback with recall " + ", ".join(f"{value:.3f} ({name})" for name, value in feedback.items())
    size = space["dim"] if space["bits"] is None else f"{space['bits']} bits"
    each = "" if space["bytes_per_picture"] is None else f", {space['bytes_per_picture']:,} bytes per picture"
    return (
        f"space {space['name']}: {space['rows']:,} × {size}, {space['state']}{fitted}, "
        f"{space['index']} index{recall}, {human_bytes(space['bytes'])}{each}; {' | '.join(space['chain'])}"
    )


def _print_speeds(where: Where, json: bool) -> int:
    with opened(where, local=True) as collection:
        rows = collection.speeds()
    if json:
        print_json(rows)
        return 0
    cells = [
        [row["name"], f"{row['rows']:,}", row["index"], f"{row['search_ms']:.2f}", f"{row['predicted_ms']:.2f}"]
        for row in rows
    ]
    print_table(["space", "vectors", "index", "search ms", "predicted ms"], cells)
    return 0


def _print_skipped(where: Where, json: bool) -> int:
    with opened(where, local=True) as collection:
        skipped, other_types = collection.skipped(), collection.other_types()
    if json:
        print_json({"skipped": skipped, "other_types": other_types})
        return 0
    for path, reason in skipped.items():
        print_line(f"{show_path(path)}: {reason}")
    print_line(library.describe_types(other_types) or f"{many(len(skipped), 'file')} skipped.")
    return 0


def _print_steps(where: Where, space: str, json: bool) -> int:
    with opened(where, local=True) as collection:
        rows = [asdict(row) for row in collection.score_steps(space)]
    if json:
        print_json(rows)
        return 0
    cells = [
        [row["step"], f"{row['numbers']:,}", f"{row['bytes']:,}", f"{row['precision']:.3f}", f"{row['recall']:.3f}"]
        for row in rows
    ]
    print_table(["step", "dimensions", "bytes", "mAP", "recall"], cells)
    return 0


def map_(
    where: Where,
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME", help="Space whose map is drawn. Default: the first.")
    ] = None,
    points: Annotated[
        int, typer.Option("--points", metavar="N", min=1, max=100_000, help="Maximum number of pictures.")
    ] = 100_000,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Write the map to this file, .png or .jpg.")
    ] = None,
    json: Json = False,
) -> int:
    """Arrange pictures on a map, with similar ones close together.

    This takes about a minute for 100,000 pictures. The map is cached; new pictures are placed next to similar ones.

    \b
    Examples:
      lookalike map --plot map.png
      lookalike map --space deep --json
    """
    if plot is not None:
        show.check_sheet(plot)
    with opened(where, local=True) as collection, bars(lines=True) as progress:
        drawn = collection.map(space, points=points, progress=progress)
        if plot is not None:
            items = collection.get(drawn.ids.tolist())
            paths = [next(iter(items[item].paths), None) if item in items else None for item in drawn.ids.tolist()]
            written, n = show.write_map(paths, drawn.x.tolist(), drawn.y.tolist(), plot)
            hidden = f" Left out because they overlap others: {len(paths) - n:,}." if n < len(paths) else ""
            print_note(f"Wrote {written} with {n:,} of {many(len(paths), 'picture')}.{hidden}")
    if json:
        ids = [types.format_id(item) for item in drawn.ids.tolist()]
        print_json({"space": drawn.space, "ids": ids, "x": drawn.x.tolist(), "y": drawn.y.tolist()})
    else:
        print_line(f"Map of space {drawn.space}: {len(drawn.ids):,} of {many(drawn.total, 'picture')}.")
    return 0


@filtered
def export(
    where: Where,
    target: Annotated[str, typer.Argument(metavar="FILE", help="Output file; - is standard output.")] = "-",
    format: Annotated[
        Literal["json", "csv", "paths", "coco", "npz"] | None,
        typer.Option("--format", help="Output format. Default: by extension (.csv, .npz, .txt), otherwise json."),
    ] = None,
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="NAME", help="Space whose vectors are exported (npz). Default: the first."),
    ] = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Export the catalogue, labels or vectors for other tools.

    The formats are json, csv and paths for the catalogue, coco for labels and npz for the vectors of a space.

    \b
    Examples:
      lookalike export items.csv
      lookalike export --format paths --label cat
      lookalike export annotations.json --format coco
      lookalike export vectors.npz --space deep
    """
    chosen = format or _FORMATS.get(os.path.splitext(target)[1].lower(), "json")
    with opened(where, local=True) as collection:
        if target == "-":
            if json and chosen not in ("json", "coco"):
                raise InputError(f"--json and --format {chosen} cannot both write to standard output. Give a FILE.")
            if chosen == "paths":
                sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]  # write names byte for byte
            collection.export(sys.stdout, format=chosen, filter=filter, space=space)
            return 0
        written = collection.export(target, format=chosen, filter=filter, space=space)
    if json:
        print_json({"items": written, "target": target})
    else:
        print_line(f"Exported {many(written, 'picture')} to {target}")
    return 0
