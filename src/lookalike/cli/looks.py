"""The verbs that look at a collection as a whole and leave it as it is.

In: the words of a command line. Out: what there is, printed or written to a file.
"""

import os
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lookalike.cli import hints
from lookalike.cli.class_tables import print_table
from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Space, Where, filtered, opened
from lookalike.cli.terminal import print_json, print_line, print_note, show_path
from lookalike.errors import InputError, MissingError
from lookalike.recipes import ABOUT, DEFAULT, RECIPES
from lookalike.text import human_bytes, many

if TYPE_CHECKING:
    from lookalike import Filter, types
    from lookalike.collection import recipe_speed as speed
else:
    types, speed = Lazy("lookalike.types"), Lazy("lookalike.collection.recipe_speed")


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
    speed_: Annotated[
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
        return _steps(where, steps, json)
    if speed_:
        return _speeds(where, json)
    with opened(where) as collection:
        found = collection.stats()
    if json:
        print_json(found)
        return 0
    print_line(f"{found['path']}: {human_bytes(found['bytes'])}")
    there = f"{many(found['items'], 'picture')} at {many(found['paths'], 'path')}"
    print_line(f"{there}, {many(found['skipped'], 'file')} skipped")
    said = f"{many(found['labels'], 'label')}, {many(found['classes'], 'class', 'classes')}"
    print_line(f"{said}, {many(found['predictions'], 'prediction')}")
    for file in found["quarantined"]:
        print_line(
            hints.complete(f"quarantined: {file}; its pictures are missing from searches. Run: lookalike repair")
        )
    for space in found["spaces"]:
        fitted = f" on {space['fitted_on']:,}" if space["fitted_on"] else ""
        if space["fitted_which"]:
            fitted += f" of them ({space['fitted_which']})"
        if space["feature_fitted_on"]:
            fitted += f", vocabulary from {many(space['feature_fitted_on'], 'picture')}"
        recall = "" if space["index_recall"] is None else f" with recall {space['index_recall']:.3f}"
        size = space["dim"] if space["bits"] is None else f"{space['bits']} bits"
        each = "" if space["bytes_per_picture"] is None else f", {space['bytes_per_picture']:,} bytes a picture"
        print_line(
            f"space {space['name']}: {space['rows']:,} × {size}, {space['state']}{fitted}, "
            f"{space['index']} index{recall}, {human_bytes(space['bytes'])}{each}; {' | '.join(space['chain'])}"
        )
    return 0


def _speeds(where: Where, json: bool) -> int:
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


def _steps(where: Where, space: str, json: bool) -> int:
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


def recipes(json: Json = False) -> int:
    """List the recipes: named ways from a picture to a vector, and how quick each is on this machine.

    The speed is measured while you wait, on a few drawn pictures: a second or less for each recipe.

    \b
    Examples:
      lookalike recipes
      lookalike add ~/Pictures --recipe 'mine = efficientnet() | pca(dim=128)'
    """
    rows = []
    if not json:
        print_line("recipe     numbers  pictures/s  finds")
    for name, chain in RECIPES.items():
        found: speed.Speed | None = None
        try:
            found = speed.measure(chain)
        except MissingError as error:
            print_note(f"{name}: {error}")
        dim, rate = (found.dim, round(found.pictures_per_s, 1)) if found else (None, None)
        row = {"name": name, "chain": chain, "about": ABOUT[name], "default": name in DEFAULT}
        rows.append(row | {"dim": dim, "pictures_per_s": rate})
        if not json:
            star = "*" if name in DEFAULT else " "
            print_line(f"{name:10}{star}{_number(dim):>7}  {_number(rate):>10}  {ABOUT[name]}")
            print_line(f"{'':32}{' | '.join(chain)}")
    if json:
        print_json(rows)
    else:
        print_line("* what a new collection gets")
    return 0


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"
