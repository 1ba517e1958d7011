"""`lookalike duplicates`: groups of duplicates as text, JSON or a page. It never deletes anything."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Where, Workers, filtered, opened
from lookalike.cli.output import bars, print_either, print_json, print_line, print_note, show_path
from lookalike.errors import InputError
from lookalike.text import human_bytes, many

if TYPE_CHECKING:
    from lookalike import Collection, Filter, show, types
    from lookalike.collection import Group, Item
else:
    show, types = Lazy("lookalike.show"), Lazy("lookalike.types")

app = typer.Typer(name="duplicates", rich_markup_mode=None)

PAGE_GROUPS = 200
"""Maximum number of groups per tier on a page, because the file embeds every picture."""
PAGE_PATHS = 5
"""Maximum number of paths under a picture on a page."""


@filtered
def duplicates(
    ctx: typer.Context,
    where: Where,
    tier: Annotated[
        Literal["identical", "same", "edited", "alike"],
        typer.Option("--tier", help="Identical files, the same photo, edited copies, or similar pictures."),
    ] = "same",
    space: Annotated[
        str | None,
        typer.Option("--space", metavar="NAME", help="Space in which --tier alike compares pictures. Default: thing."),
    ] = None,
    html: Annotated[
        str | None,
        typer.Option("--html", metavar="FILE", help="Also write an HTML page: these groups, then identical files."),
    ] = None,
    workers: Workers = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """List groups of duplicates. Nothing is deleted.

    The largest picture of each group comes first.

    identical: one file at several paths. same: one photo, re-encoded, resized, slightly cropped or with different
    brightness. edited: a mirrored, slightly rotated or overlaid copy. alike: pictures that are unusually close to each
    other in a space.

    \b
    Examples:
      lookalike duplicates
      lookalike duplicates --tier identical --json
      lookalike duplicates --tier alike --html alike.html
      lookalike duplicates dismiss a.jpg b.jpg
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if html is not None:
        show.check_place(html)
    with opened(where) as collection, bars(lines=True) as progress:
        groups = collection.duplicates(tier, space=space, filter=filter, progress=progress, workers=workers)
        items = collection.get([item for group in groups for item in group.items])
        find_copies = tier != "identical" and (html is not None or not json)
        copies = collection.duplicates("identical", filter=filter) if find_copies else []
        if html is not None:
            shown = items | collection.get([item for group in copies for item in group.items])
            print_note(f"Wrote {_write_page(tier, [groups, copies], shown, html)}")
    if groups.without_detail:
        print_note(
            f"Not compared: {many(groups.without_detail, 'picture')} with too little detail, such as nearly black ones."
            " Of these, only identical files are duplicates."
        )
    if json:
        print_json({"groups": [_describe(group, items) for group in groups], "without_detail": groups.without_detail})
        return 0
    for group in groups:
        _print_group(group, items)
    counts = f"{many(len(groups), 'group')}, {many(len(items), 'picture')}."
    print_note(counts if groups else "No duplicates found.")
    if copies:
        print_note(f"Also at several paths: {many(len(copies), 'picture')}. See: lookalike duplicates --tier identical")
    return 0


app.callback(invoke_without_command=True)(duplicates)


@app.command()
def dismiss(
    images: Annotated[
        list[str],
        typer.Argument(metavar="IMAGE", help="Paths or ids of two or more pictures, or of one that has several paths."),
    ],
    where: Where,
    author: Annotated[
        str | None, typer.Option("--author", help="Author of the decision. Default: your login name.")
    ] = None,
    json: Json = False,
) -> int:
    """Mark pictures as not being duplicates of each other.

    They are never shown in the same group again, even if they are removed and added again.

    \b
    Examples:
      lookalike duplicates dismiss a.jpg b.jpg
      lookalike duplicates dismiss 0f3a5c7e9b1d2f40 1c2d3e4f5a6b7c8d
    """
    with opened(where) as collection:
        items = {_item(collection, image) for image in images}
        pairs = collection.not_duplicates(sorted(items), author=author)
    marked = "the copies of 1 picture as intended" if len(items) == 1 else f"{many(pairs, 'pair')} as not duplicates"
    print_either(json, f"Marked {marked}.", pairs=pairs)
    return 0


def _print_group(group: "Group", items: "dict[int, Item]") -> None:
    print_line(f"{group.id}: {group.why}")
    for item, distance in zip(group.items, group.distances, strict=True):
        found = items[item]
        for path in found.paths if group.tier == "identical" else found.paths[:1]:
            size = f"{found.width}x{found.height}"
            print_line(f"  {distance:.4f}  {size:>11}  {human_bytes(found.bytes):>9}  {show_path(path)}")


def _item(collection: "Collection", image: str) -> int:
    """Return the item with this id or path; raise InputError if there is none."""
    found = collection.find(image)
    if found is None:
        raise InputError(
            f"{image!r} is not in the collection. Give a path or an id; to list them, run: lookalike items"
        )
    return found


def _describe(group: "Group", items: "dict[int, Item]") -> dict[str, Any]:
    members = [
        {
            "id": types.format_id(item),
            "paths": items[item].paths,
            "width": items[item].width,
            "height": items[item].height,
            "bytes": items[item].bytes,
            "distance": distance,
        }
        for item, distance in zip(group.items, group.distances, strict=True)
    ]
    return {**dataclasses.asdict(group), "items": members} | {"distances": group.distances}


def _write_page(tier: str, tiers: list[list["Group"]], items: "dict[int, Item]", target: str) -> Any:
    sections = []
    for groups in tiers:
        for group in groups[:PAGE_GROUPS]:
            tiles = [_tile(items[item], number == 0) for number, item in enumerate(group.items)]
            sections.append((f"{group.id}: {group.why}", tiles))
        if len(groups) > PAGE_GROUPS:
            print_note(f"The page shows the first {PAGE_GROUPS} of {len(groups):,} groups ({groups[0].tier}).")
    title = f"Duplicates: {tier}" + ("" if tier == "identical" else ", then identical files")
    return show.write_sections(title, sections, target)


def _tile(item: "Item", first: bool) -> "show.Tile":
    """Return a picture with its size and paths; the first of a group is framed."""
    lines = [f"{item.width}×{item.height}, {human_bytes(item.bytes)}", *item.paths[:PAGE_PATHS]]
    if len(item.paths) > PAGE_PATHS:
        lines.append(f"and {len(item.paths) - PAGE_PATHS} more")
    return show.Tile(next(iter(item.paths), None), "\n".join(lines), "right" if first else None)
