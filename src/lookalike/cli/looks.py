"""The verbs that look at a collection and leave it as it is.

In: the words of a command line. Out: what the verb found, printed or written to a file.
"""

import os
import shutil
import sys
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperCommand

import lookalike
from lookalike.cli import hints
from lookalike.cli.class_tables import print_table
from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Space, Where, effort, filtered, opened, parse_box
from lookalike.cli.terminal import (
    bars,
    on_terminal,
    print_json,
    print_line,
    print_note,
    print_rich,
    show_path,
)
from lookalike.errors import InputError, MissingError
from lookalike.recipes import ABOUT, DEFAULT, RECIPES
from lookalike.text import many
from lookalike.units import human_bytes

if TYPE_CHECKING:
    from lookalike import Collection, Filter, show, types
    from lookalike.bench import speed
    from lookalike.collection import Result
else:
    show, types, speed = Lazy("lookalike.show"), Lazy("lookalike.types"), Lazy("lookalike.bench.speed")


_FORMATS: dict[str, Literal["json", "csv", "paths", "coco", "npz"]] = {".csv": "csv", ".npz": "npz", ".txt": "paths"}


@filtered
def search(
    images: Annotated[list[str], typer.Argument(metavar="IMAGE", help="Pictures, or ids, like those wanted.")],
    where: Where,
    unwanted: Annotated[
        list[str] | None, typer.Option("--not", metavar="IMAGE...", help="Unlike these: all up to the next option.")
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many results.")] = 20,
    space: Space = None,
    effort_: Annotated[
        str | None, typer.Option("--effort", help="exact, balanced, fast or a number: recall against time.")
    ] = None,
    box: Annotated[
        str | None, typer.Option("--box", metavar="L,T,R,B", help="Only this part of IMAGE: shares from 0 to 1.")
    ] = None,
    boxes: Annotated[bool, typer.Option("--where", help="Also say in which part of each result the match is.")] = False,
    html: Annotated[str | None, typer.Option("--html", metavar="FILE", help="Also write a page to look at.")] = None,
    sheet: Annotated[
        str | None, typer.Option("--sheet", metavar="FILE", help="Also write a contact sheet, .png or .jpg.")
    ] = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Search for pictures like those shown, best first. A score of 0 is the same picture.

    \b
    Examples:
      lookalike search beach.jpg
      lookalike search beach.jpg dunes.jpg --not city.jpg -k 50 --sheet found.png
      lookalike search 0f3a5c7e9b1d2f40 --path '*/2024/*' --json
      lookalike search street.jpg --box 0.4,0.1,0.7,0.5 --where --html found.html
    """
    if sheet is not None:
        show.check_sheet(sheet)  # before the search, not after it
    part = None if box is None else parse_box(box)
    if part is not None and len(images) > 1:
        raise InputError(f"--box is a part of one picture. Got {len(images)} pictures: give one.")
    with opened(where) as collection, bars() as progress:
        results = collection.search(
            images if part is None else lookalike.Crop(images[0], part),
            without=unwanted or (),
            k=k,
            space=space,
            filter=filter,
            effort=effort(effort_),
            where=boxes,
            progress=progress,
        )
        if html is not None or sheet is not None:
            examples = [_example(collection, image, "example", part) for image in images]
            examples += [_example(collection, image, "not") for image in unwanted or ()]
            _draw(examples, results, html, sheet)
    _print_results(results, json, boxes)
    return 0


def explain(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="A picture, or an id.")],
    where: Where,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="How many negatives.")] = 5,
    space: Annotated[
        str | None, typer.Option("--space", metavar="NAME", help="Default: the first that is told from negatives.")
    ] = None,
    json: Json = False,
) -> int:
    """Say which negatives push a picture away most, in a space such as slem. 1 is the mean over the pool.

    \b
    Examples:
      lookalike explain ring.jpg
      lookalike explain ring.jpg --space slem -k 10
    """
    with opened(where) as collection:
        pushes = collection.explain(image, space=space, k=k)
    if json:
        print_json(
            [{"id": types.format_id(p.id), "path": p.path, "push": p.push, "collection": p.collection} for p in pushes]
        )
    for push in () if json else pushes:
        print_line(f"{push.push:9.3f}  {show_path(push.path)}")
    return 0


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


def verify(where: Where, json: Json = False) -> int:
    """Read everything back and compare. The exit code is 1 when something is wrong.

    \b
    Examples:
      lookalike verify
    """
    with opened(where) as collection, bars() as progress:
        faults = collection.verify(progress)
    if json:
        print_json({"clean": not faults, "faults": faults})
    for fault in () if json else faults or ["Everything is as it should be."]:
        print_line(hints.complete(fault))
    return 1 if faults else 0


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


class Search(TyperCommand):
    """`--not` takes every word up to the next option, as its usage line says; Typer's own options take one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Write `--not` before each of its words."""
        words: list[str] = []
        greedy = False
        for number, word in enumerate(args):
            if word == "--":
                words += args[number:]
                break
            if word.startswith("-") and word != "-":
                greedy = word in ("--not", "--without")
            elif greedy and words[-1] not in ("--not", "--without"):
                words.append("--not")
            words.append(word)
        return super().parse_args(ctx, words)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}"


def _print_results(results: list["Result"], json: bool, boxes: bool) -> None:
    if json:
        print_json(
            [
                {"id": types.format_id(r.id), "path": r.path, "score": r.score} | ({"box": r.box} if boxes else {})
                for r in results
            ]
        )
    elif not results:
        print_note("Nothing found.")
    elif on_terminal():
        rows = [(r.path, r.score, _box(r)) for r in results]
        print_rich(show.table(rows, shutil.get_terminal_size().columns))
    else:
        for result in results:
            print_line(f"{result.score:.4f}  {_box(result)}{'  ' if result.box else ''}{show_path(result.path)}")


def _draw(examples: list["show.Tile"], results: list["Result"], html: str | None, sheet: str | None) -> None:
    tiles = [
        show.Tile(r.path, f"{rank}  ·  {r.score:.4f}\n{_name(r.path)}", box=r.box) for rank, r in enumerate(results, 1)
    ]
    if html is not None:
        title = "Pictures like " + ", ".join(_name(tile.path) for tile in examples if tile.frame == "example")
        print_note(f"Wrote {show.write_page(title, examples, tiles, html)}")
    if sheet is not None:
        print_note(f"Wrote {show.write_sheet(show.arrange(examples, tiles), sheet)}")


def _example(collection: "Collection", image: str, frame: "show.Frame", box: "types.Box | None" = None) -> "show.Tile":
    """An example as a tile; one that was given by its id has its first path."""
    item = None if os.path.lexists(image) else types.parse_id(image)
    if item is None:
        return show.Tile(image, _name(image), frame, box)
    path = next(iter(collection.get([item])[item].paths), None)
    return show.Tile(path, f"{image}\n{_name(path)}", frame, box)


def _box(result: "Result") -> str:
    return "" if result.box is None else ",".join(f"{share:.2f}" for share in result.box)


def _name(path: str | None) -> str:
    return "" if path is None else path.rpartition("/")[2]
