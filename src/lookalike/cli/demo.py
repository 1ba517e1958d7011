"""`lookalike demo`: generate pictures, index them, run a few searches and write a contact sheet of the results."""

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
"""Pictures generated per kind."""
QUERIES = 6
"""Searches shown, each with a picture of a different kind."""
SHOWN = 7
"""Results shown per search."""


def demo(
    where: Where,
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Folder for the generated pictures.")
    ] = "demo-pictures",
    wait: Wait = 0.0,
    json: Json = False,
) -> int:
    """Generate sample pictures, index them and run a few searches.

    It generates a few hundred pictures of a dozen kinds. Running it again reuses the existing pictures and index.

    \b
    Examples:
      lookalike demo
      lookalike -c /tmp/demo.lookalike demo /tmp/demo-pictures
    """
    root = Path(os.path.abspath(folder))  # like the collection: symbolic links are not resolved
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
    print_line(f"{len(paths)} sample pictures of {len(firsts)} kinds are in {shorten(str(root))}.")
    print_line(f"Indexed {report.added:,} in {report.seconds:.1f} s; {report.known:,} were already indexed.")
    for search in searches:
        right = sum(result["right"] for result in search["results"])
        scores = "  ".join(f"{result['score']:.2f}" for result in search["results"])
        print_line(f"  {search['kind']:12} {right} of {len(search['results'])} results of the same kind   {scores}")
    option = "" if where == COLLECTION else f"-c {where} "
    print_line(f"Contact sheet: {shorten(str(sheet))}")
    print_line("Next, try your own pictures:")
    print_line("  lookalike -c photos.lookalike add ~/Pictures")
    print_line("  lookalike -c photos.lookalike search some-picture.jpg --html found.html")
    print_line(f"Or browse the demo collection: lookalike {option}serve --open")
    return 0


def _search(collection: "Collection", root: Path, query: Path) -> dict[str, Any]:
    """Search with a generated picture and return the other generated pictures that it finds."""
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
