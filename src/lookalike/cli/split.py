"""`lookalike split`: training, validation and test pictures, for other tools."""

import re
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Where, Workers, filtered, opened
from lookalike.cli.output import bars, print_json, print_line, print_missing, print_note, print_table
from lookalike.errors import InputError
from lookalike.text import many

if TYPE_CHECKING:
    from lookalike import Filter, types
    from lookalike import collection as library
else:
    types, library = Lazy("lookalike.types"), Lazy("lookalike.collection")


@filtered
def split(
    where: Where,
    folder: Annotated[
        str | None, typer.Argument(metavar="FOLDER", help="New folder to write to. Default: only print the counts.")
    ] = None,
    shares: Annotated[
        str, typer.Option("--shares", metavar="T/V/T", help="Shares of training, validation and test pictures.")
    ] = "80/10/10",
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="NAME", help="Class to include; repeatable. Default: all.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Random seed.")] = 0,
    together: Annotated[
        Literal["none", "same", "edited", "alike"],
        typer.Option(
            "--together",
            help="Tier of duplicates to keep in one part, with the closer tiers (see lookalike duplicates).",
        ),
    ] = "edited",
    layouts: Annotated[
        list[str] | None,
        typer.Option(
            "--layout", metavar="LAYOUT", help="What to write: folders, coco or csv; repeatable. Default: folders."
        ),
    ] = None,
    copy: Annotated[bool, typer.Option("--copy", help="Copy the pictures instead of linking to them.")] = False,
    workers: Workers = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Divide labelled pictures for training, validation and testing.

    The part of a picture follows from a hash, so it stays the same when pictures are added. Duplicates are always in
    one part. The parts are therefore only approximately as large as requested.

    folders: FOLDER/PART/CLASS/ID.jpg, as for torchvision's ImageFolder. coco: FOLDER/PART.json. csv: FOLDER/split.csv.

    \b
    Examples:
      lookalike split
      lookalike split dataset --shares 80/10/10
      lookalike split dataset --label cat --label dog --layout coco --layout csv
    """
    with opened(where) as collection, bars(lines=True) as progress:
        found = collection.split(
            _parse_shares(shares),
            classes=label or (),
            filter=filter,
            seed=seed,
            together=together,
            progress=progress,
            workers=workers,
        )
        missing = {}
        if folder is not None:
            missing = collection.export_split(
                found, folder, layouts=layouts or ["folders"], copy=copy, progress=progress
            )
    counts = {part: len(ids) for part, ids in found.parts.items()}
    if json:
        parts = {part: [types.format_id(item) for item in ids] for part, ids in found.parts.items()}
        rest = {"groups": found.groups, "warnings": found.warnings, "missing": missing}
        print_json({"parts": parts, "classes": found.classes} | rest)
        return int(bool(missing))
    rows = [[name, *(f"{n[part]:,}" for part in library.PARTS)] for name, n in found.classes.items()]
    print_table(["class", *library.PARTS], [*rows, ["all", *(f"{n:,}" for n in counts.values())]])
    if found.groups:
        print_note(f"Kept together: {many(found.groups, 'group')} of duplicates.")
    for warning in found.warnings:
        print_note(warning)
    if folder is not None:
        print_line(f"Wrote {folder}.")
        print_missing(missing)
    return int(bool(missing))


def _parse_shares(text: str) -> list[float]:
    """Parse shares such as 80/10/10 or 0.8,0.1,0.1."""
    try:
        return [float(part) for part in re.split("[/,]", text)]
    except ValueError:
        raise InputError(f"--shares must be three numbers, such as 80/10/10. Got {text!r}.") from None
