"""`lookalike duplicates`: groups of duplicates as text, JSON or a page. It never deletes anything."""

from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Where, Workers, filtered, opened
from lookalike.cli.output import bars, print_either, print_json, print_line, print_note, show_path
from lookalike.errors import InputError
from lookalike.text import human_bytes, many

if TYPE_CHECKING:
    from lookalike import Collection, Filter, show, types
    from lookalike import collection as library
    from lookalike.collection import Group, Item
else:
    show, types, library = Lazy("lookalike.show"), Lazy("lookalike.types"), Lazy("lookalike.collection")

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
    keep: Annotated[
        str | None,
        typer.Option(
            "--keep",
            metavar="RULE",
            help="Copies to keep: largest, oldest, or those in FOLDER. The others are marked.",
        ),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option(
            "--reference", metavar="FOLDER", help="With --keep: folder whose pictures are never marked; repeatable."
        ),
    ] = None,
    crops: Annotated[
        bool, typer.Option("--crops", help="With --keep: also mark crops of a picture that is kept.")
    ] = False,
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

    With --keep, an x marks the copies that the rule does not keep. The oldest is the one that was taken or, if that is
    unknown, modified first. A copy is marked only if a picture that shows the same is kept and its file exists, so the
    last copy is never marked.

    \b
    Examples:
      lookalike duplicates
      lookalike duplicates --keep oldest --reference ~/Pictures/album
      lookalike duplicates --tier identical --keep ~/Pictures --json
      lookalike duplicates --tier alike --html alike.html
      lookalike duplicates dismiss a.jpg b.jpg
    """
    if ctx.invoked_subcommand is not None:
        return 0
    if keep is None and (reference or crops):
        raise InputError("--reference and --crops need a rule. Add --keep largest, --keep oldest or --keep FOLDER.")
    if html is not None:
        show.check_place(html)
    with opened(where) as collection, bars(lines=True) as progress:
        if keep is not None:
            collection.mark_duplicates([], keep, reference or [])  # checks the folders before the search
        groups = collection.duplicates(tier, space=space, filter=filter, progress=progress, workers=workers)
        marks = [] if keep is None else collection.mark_duplicates(groups, keep, reference or [], crops=crops)
        items = collection.get([item for group in groups for item in group.items])
        find_copies = tier != "identical" and (html is not None or not json)
        copies = collection.duplicates("identical", filter=filter) if find_copies else []
        if html is not None:
            shown = items | collection.get([item for group in copies for item in group.items])
            print_note(f"Wrote {_write_page(tier, [groups, copies], shown, html)}")
    marked = None if keep is None else {path for group_marks in marks for path in group_marks.paths}
    if groups.without_detail:
        print_note(
            f"Not compared: {many(groups.without_detail, 'picture')} with too little detail, such as nearly black ones."
            " Of these, only identical files are duplicates."
        )
    if json:
        found = {"groups": [_describe(group, items) for group in groups], "without_detail": groups.without_detail}
        print_json(found if marked is None else found | {"marked": sorted(marked)})
        return 0
    _print_groups(groups, items, marked)
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


def _print_groups(groups: list["Group"], items: "dict[int, Item]", marked: set[str] | None) -> None:
    """Print groups and their number; with `marked`, the paths that a rule marked have an x."""
    for group in groups:
        _print_group(group, items, marked)
    counts = f"{many(len(groups), 'group')}, {many(len(items), 'picture')}."
    print_note(counts if groups else "No duplicates found.")
    if groups and marked is not None:
        print_note(f"Marked with x: {many(len(marked), 'file')}. Nothing was deleted. For a list of paths, use --json.")


def _print_group(group: "Group", items: "dict[int, Item]", marked: set[str] | None) -> None:
    print_line(f"{group.id}: {group.why}")
    captions = library.describe_copies(group, items)
    width = max(map(len, captions))
    for item, distance, caption in zip(group.items, group.distances, captions, strict=True):
        found = items[item]
        for path in found.paths if group.tier == "identical" else found.paths[:1]:
            mark = "" if marked is None else "x " if path in marked else "  "
            size = f"{found.width}x{found.height}"
            about = f"{caption:<{width}}  " if caption else ""
            print_line(f"{mark}  {distance:.4f}  {size:>11}  {human_bytes(found.bytes):>9}  {about}{show_path(path)}")


def _item(collection: "Collection", image: str) -> int:
    """Return the item with this id or path; raise InputError if there is none."""
    found = collection.find(image)
    if found is None:
        raise InputError(
            f"{image!r} is not in the collection. Give a path or an id; to list them, run: lookalike items"
        )
    return found


def _describe(group: "Group", items: "dict[int, Item]") -> dict[str, Any]:
    captions = library.describe_copies(group, items)
    members = [
        {
            "id": types.format_id(item),
            "paths": items[item].paths,
            "width": items[item].width,
            "height": items[item].height,
            "bytes": items[item].bytes,
            "distance": distance,
            "relation": caption,
        }
        for item, distance, caption in zip(group.items, group.distances, captions, strict=True)
    ]
    about = {"id": group.id, "tier": group.tier, "why": group.why}
    return about | {"items": members, "distances": group.distances}


def _write_page(tier: str, tiers: list[list["Group"]], items: "dict[int, Item]", target: str) -> Any:
    sections = []
    for groups in tiers:
        for group in groups[:PAGE_GROUPS]:
            captions = library.describe_copies(group, items)
            pairs = zip(group.items, captions, strict=True)
            tiles = [_tile(items[item], caption, item == group.items[0]) for item, caption in pairs]
            sections.append((f"{group.id}: {group.why}", tiles))
        if len(groups) > PAGE_GROUPS:
            print_note(f"The page shows the first {PAGE_GROUPS} of {len(groups):,} groups ({groups[0].tier}).")
    title = f"Duplicates: {tier}" + ("" if tier == "identical" else ", then identical files")
    return show.write_sections(title, sections, target)


def _tile(item: "Item", caption: str, first: bool) -> "show.Tile":
    """Return a picture with its caption, size and paths; the first of a group is framed."""
    lines = [f"{item.width}×{item.height}, {human_bytes(item.bytes)}", *item.paths[:PAGE_PATHS]]
    if caption:
        lines.insert(0, caption)
    if len(item.paths) > PAGE_PATHS:
        lines.append(f"and {len(item.paths) - PAGE_PATHS} more")
    return show.Tile(next(iter(item.paths), None), "\n".join(lines), "right" if first else None)
