"""`lookalike demo`: draws pictures, indexes them, searches a few, and writes a contact sheet of the results."""

import glob
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import lookalike
from lookalike.cli.lazy import Lazy
from lookalike.cli.options import COLLECTION, Json, Wait, Where, opened
from lookalike.cli.output import bars, print_json, print_line, print_note
from lookalike.text import shorten

if TYPE_CHECKING:
    from lookalike import Collection, show, types
    from lookalike import collection as library
else:
    show, types, library = Lazy("lookalike.show"), Lazy("lookalike.types"), Lazy("lookalike.collection")

PER_KIND = 25
"""Pictures drawn of each kind."""
QUERIES = 6
"""Searches shown, each with a picture of another kind."""
SHOWN = 7
"""Results shown of each."""


def demo(
    where: Where,
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="Where to draw the pictures.")] = "demo-pictures",
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Draw a few hundred pictures of a dozen kinds, index them, search, show what was found.

    Running it again works: what is drawn and indexed already is kept.

    \b
    Examples:
      lookalike demo
      lookalike -c /tmp/demo.lookalike demo /tmp/demo-pictures
    """
    root = Path(os.path.abspath(folder))  # as the collection does: links stay links
    with opened(where, create=True, wait=wait) as collection:
        with bars() as progress:
            paths = library.draw_folder(root, per_kind=PER_KIND, progress=progress)
            report = collection.add(root, progress=progress)
        firsts = {path.parent.name: path for path in reversed(paths)}  # kind → its first picture
        searches = [_search(collection, root, path) for path in sorted(firsts.values())[:QUERIES]]
    for note in report.notes:
        print_note(note)
    sheet = show.write_sheet([_row(search) for search in searches], root.parent / "demo-results.png")
    if json:
        print_json({"folder": str(root), "pictures": len(paths), "sheet": str(sheet), "searches": searches})
        return 0
    print_line(f"{len(paths)} pictures of {len(firsts)} kinds are in {shorten(str(root))}.")
    print_line(f"Indexed {report.added:,} in {report.seconds:.1f} s, {report.known:,} were known.")
    for search in searches:
        right = sum(result["right"] for result in search["results"])
        scores = "  ".join(f"{result['score']:.2f}" for result in search["results"])
        print_line(f"  like {search['kind']:12} {right} of {len(search['results'])} of the same kind   {scores}")
    option = "" if where == COLLECTION else f"-c {where} "
    print_line(f"Contact sheet: {shorten(str(sheet))}")
    print_line("Now with your own pictures:")
    print_line("  lookalike -c photos.lookalike add ~/Pictures")
    print_line("  lookalike -c photos.lookalike search some-picture.jpg --html found.html")
    print_line(f"Or look around here, in your browser: lookalike {option}serve --open")
    return 0


def _search(collection: "Collection", root: Path, query: Path) -> dict[str, Any]:
    """The other drawn pictures that a drawn picture finds."""
    among = lookalike.Filter(path=glob.escape(str(root)) + "/*")
    found = collection.search(query, k=SHOWN + 1, filter=among)
    others = [result for result in found if result.path != str(query)][:SHOWN]
    kind = query.parent.name
    return {
        "query": str(query),
        "kind": kind,
        "results": [
            {
                "id": types.format_id(result.id),
                "path": result.path,
                "score": result.score,
                "right": result.path is not None and Path(result.path).parent.name == kind,
            }
            for result in others
        ],
    }


def _row(search: dict[str, Any]) -> list["show.Tile"]:
    results = [
        show.Tile(r["path"], f"{Path(r['path']).parent.name}  {r['score']:.3f}", "right" if r["right"] else "wrong")
        for r in search["results"]
    ]
    return [show.Tile(search["query"], f"example: {search['kind']}", "example"), *results]
