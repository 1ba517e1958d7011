"""The commands that show what a collection holds: items, stats, map, export."""

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Space, Where, filtered, opened
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
else:
    show, types = Lazy("lookalike.show"), Lazy("lookalike.types")

_FORMATS: dict[str, Literal["json", "csv", "paths", "coco", "npz"]] = {".csv": "csv", ".npz": "npz", ".txt": "paths"}


@filtered
def items(where: Where, json: Json = False, *, filter: "Filter | None") -> int:
    """List pictures: id, size in pixels and bytes, path.

    \b
    Examples:
      lookalike items
      lookalike items --label cat --since 2024-01-01 --json
    """
    with opened(where) as collection:
        if json:
            collection.export(sys.stdout, format="json", filter=filter)
            return 0
        for item in collection.items(filter):
            size = f"{item.width}x{item.height}"
            path = item.paths[0] if item.paths else None
            print_line(f"{types.format_id(item.id)}  {size:>11}  {item.bytes:>10}  {show_path(path)}")
    return 0


def stats(
    where: Where,
    steps: Annotated[
        str | None, typer.Option("--steps", metavar="SPACE", help="What each step of a space is worth, by labels.")
    ] = None,
    speed: Annotated[
        bool, typer.Option("--speed", help="Time a search in each space, beside what `plan` predicts.")
    ] = False,
    json: Json = False,
) -> int:
    """Say what the collection holds.

    \b
    Examples:
      lookalike stats
      lookalike stats --json
      lookalike stats --steps mine
      lookalike stats --speed
    """
    if steps is not None:
        return _print_steps(where, steps, json)
    if speed:
        return _print_speeds(where, json)
    with opened(where) as collection:
        found = collection.stats()
    if json:
        print_json(found)
        return 0
    print_line(f"{found['path']}: {human_bytes(found['bytes'])}")
    pictures = f"{many(found['items'], 'picture')} at {many(found['paths'], 'path')}"
    print_line(f"{pictures}, {many(found['skipped'], 'file')} skipped")
    labels = f"{many(found['labels'], 'label')}, {many(found['classes'], 'class', 'classes')}"
    print_line(f"{labels}, {many(found['predictions'], 'prediction')}")
    for file in found["quarantined"]:
        print_line(
            complete_commands(f"quarantined: {file}; its pictures are missing from searches. Run: lookalike repair")
        )
    for space in found["spaces"]:
        print_line(_space_line(space))
    return 0


def _space_line(space: dict[str, Any]) -> str:
    fitted = f" on {space['fitted_on']:,}" if space["fitted_on"] else ""
    if space["fitted_which"]:
        fitted += f" of them ({space['fitted_which']})"
    if space["feature_fitted_on"]:
        fitted += f", vocabulary from {many(space['feature_fitted_on'], 'picture')}"
    recall = "" if space["index_recall"] is None else f" with recall {space['index_recall']:.3f}"
    size = space["dim"] if space["bits"] is None else f"{space['bits']} bits"
    each = "" if space["bytes_per_picture"] is None else f", {space['bytes_per_picture']:,} bytes a picture"
    return (
        f"space {space['name']}: {space['rows']:,} × {size}, {space['state']}{fitted}, "
        f"{space['index']} index{recall}, {human_bytes(space['bytes'])}{each}; {' | '.join(space['chain'])}"
    )


def _print_speeds(where: Where, json: bool) -> int:
    with opened(where) as collection:
        rows = collection.speeds()
    if json:
        print_json(rows)
        return 0
    cells = [
        [row["name"], f"{row['rows']:,}", row["index"], f"{row['search_ms']:.2f}", f"{row['predicted_ms']:.2f}"]
        for row in rows
    ]
    print_table(["space", "rows", "index", "search ms", "predicted ms"], cells)
    return 0


def _print_steps(where: Where, space: str, json: bool) -> int:
    with opened(where) as collection:
        rows = [asdict(row) for row in collection.score_steps(space)]
    if json:
        print_json(rows)
        return 0
    cells = [
        [row["step"], f"{row['numbers']:,}", f"{row['bytes']:,}", f"{row['precision']:.3f}", f"{row['recall']:.3f}"]
        for row in rows
    ]
    print_table(["step", "numbers", "bytes", "mAP", "recall"], cells)
    return 0


def map_(
    where: Where,
    space: Space = None,
    points: Annotated[int, typer.Option("--points", metavar="N", min=1, max=5_000, help="How many pictures.")] = 5_000,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw the pictures at their places, .png or .jpg.")
    ] = None,
    json: Json = False,
) -> int:
    """Lay pictures out on a sheet, so that those that are alike lie together.

    It takes up to half a minute, once: the map is kept until pictures come or go.

    \b
    Examples:
      lookalike map --plot map.png
      lookalike map --space deep --json
    """
    if plot is not None:
        show.check_sheet(plot)
    with opened(where) as collection, bars(lines=True) as progress:
        drawn = collection.map(space, points=points, progress=progress)
        if plot is not None:
            items = collection.get(drawn.ids.tolist())
            paths = [next(iter(items[item].paths), None) if item in items else None for item in drawn.ids.tolist()]
            written, n = show.write_map(paths, drawn.x.tolist(), drawn.y.tolist(), plot)
            hidden = f" Left out, as another lies there: {len(paths) - n:,}." if n < len(paths) else ""
            print_note(f"Wrote {written}: {n:,} of {many(len(paths), 'picture')}.{hidden}")
    if json:
        ids = [types.format_id(item) for item in drawn.ids.tolist()]
        print_json({"space": drawn.space, "ids": ids, "x": drawn.x.tolist(), "y": drawn.y.tolist()})
    else:
        print_line(f"On the map of {drawn.space}: {len(drawn.ids):,} of {many(drawn.total, 'picture')}.")
    return 0


@filtered
def export(
    where: Where,
    target: Annotated[str, typer.Argument(metavar="FILE", help="Default: standard output.")] = "-",
    format: Annotated[
        Literal["json", "csv", "paths", "coco", "npz"] | None,
        typer.Option("--format", help="Default: by the file's ending (.csv, .npz, .txt), else json. npz: vectors."),
    ] = None,
    space: Space = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Write the catalogue (JSON, CSV, paths), labels (COCO) or a space's vectors (npz) for other tools.

    \b
    Examples:
      lookalike export items.csv
      lookalike export --format paths --label cat
      lookalike export annotations.json --format coco
      lookalike export vectors.npz --space deep
    """
    chosen = format or _FORMATS.get(os.path.splitext(target)[1].lower(), "json")
    with opened(where) as collection:
        if target == "-":
            if json and chosen not in ("json", "coco"):
                raise InputError(f"--json and --format {chosen} cannot share standard output. Give a file.")
            if chosen == "paths":
                sys.stdout.reconfigure(errors="surrogateescape")  # type: ignore[union-attr]  # the names, byte for byte
            collection.export(sys.stdout, format=chosen, filter=filter, space=space)
            return 0
        written = collection.export(target, format=chosen, filter=filter, space=space)
    if json:
        print_json({"items": written, "target": target})
    else:
        print_line(f"{written:,} written to {target}")
    return 0
