"""`lookalike search`: find similar pictures; `lookalike explain`: list the negatives that shape a slem classifier."""

import os
import shlex
import shutil
from collections.abc import Sequence, Set
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import (
    Export,
    Json,
    Space,
    Where,
    filtered,
    opened,
    parse_effort,
    print_meanings,
    read_examples,
)
from lookalike.cli.output import (
    bars,
    on_terminal,
    print_json,
    print_line,
    print_missing,
    print_note,
    print_rich,
    show_path,
)
from lookalike.text import human_probability, many

if TYPE_CHECKING:
    from lookalike import Collection, Filter, show, types
    from lookalike.collection import Result, Results
else:
    show, types = Lazy("lookalike.show"), Lazy("lookalike.types")


@filtered
def search(
    where: Where,
    examples: Annotated[
        list[str] | None,
        typer.Argument(metavar="IMAGE|WORDS", help="Positive examples: paths or ids of pictures, or words."),
    ] = None,
    words: Annotated[
        list[str] | None,
        typer.Option(
            "--words", metavar="WORDS", help="Words to search for, even if they look like a path; repeatable."
        ),
    ] = None,
    negatives: Annotated[
        list[str] | None, typer.Option("--not", metavar="IMAGE|WORDS", help="Negative example; repeatable.")
    ] = None,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of results.")] = 20,
    space: Space = None,
    effort: Annotated[
        str | None,
        typer.Option(
            "--effort", help="exact, balanced, fast or a number. Higher effort is more accurate but takes longer."
        ),
    ] = None,
    within: Annotated[
        float | None, typer.Option("--within", metavar="DISTANCE", min=0, help="Leave out results with a higher score.")
    ] = None,
    likely: Annotated[
        float | None,
        typer.Option(
            "--likely",
            metavar="PROBABILITY",
            min=0,
            max=1,
            help="Leave out results that are less likely to be right, as estimated from labels, distances or kinds.",
        ),
    ] = None,
    rerank: Annotated[
        bool,
        typer.Option(
            "--rerank",
            help="Re-rank the first 200 results by shared neighbours. Helps in thing and deep-plain, not in deep.",
        ),
    ] = False,
    box: Annotated[
        str | None,
        typer.Option("--box", metavar="L,T,R,B", help="Search with this part of IMAGE; numbers from 0 to 1."),
    ] = None,
    boxes: Annotated[bool, typer.Option("--where", help="Also print the part of each result that matches.")] = False,
    save: Annotated[
        str | None, typer.Option("--save", metavar="NAME", help="Save the search (see lookalike saved).")
    ] = None,
    export: Export = None,
    html: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Also write the results as an HTML page.")
    ] = None,
    sheet: Annotated[
        str | None, typer.Option("--sheet", metavar="FILE", help="Also write a contact sheet, .png or .jpg.")
    ] = None,
    json: Json = False,
    *,
    filter: "Filter | None",
) -> int:
    """Find pictures similar to the examples, best first. The score is a distance: 0 means the same picture.

    Words find pictures by what they show, by labels, folders and file names, and by the text in them (add --ocr). Their
    score is 1 minus the match.

    \b
    Examples:
      lookalike search beach.jpg
      lookalike search "dog on grass"
      lookalike search beach holiday.jpg --not crowd.jpg
      lookalike search beach.jpg dunes.jpg --not city.jpg --not harbour.jpg -k 50
      lookalike search beach.jpg -k 200 --likely 0.8 --save beaches
      lookalike search beach.jpg -k 50 --export beaches.csv
      lookalike search 0f3a5c7e9b1d2f40 --path '*/2024/*' --json
      lookalike search street.jpg --box 0.4,0.1,0.7,0.5 --where --html found.html
    """
    if sheet is not None:
        show.check_sheet(sheet)  # fail before the search
    if html is not None:
        show.check_place(html)
    with opened(where) as collection, bars() as progress:
        given = read_examples(collection, examples, words, negatives, box)
        query: dict[str, Any] = {
            **given.query,
            "k": k,
            "space": space,
            "filter": filter,
            "within": within,
            "likely": likely,
            "rerank": rerank,
        }
        results = collection.search(**query, effort=parse_effort(effort), where=boxes, progress=progress)
        missing = export_results(collection, results, export, progress)
        if save is not None:
            saved = collection.saved_searches.save(save, **query)
            print_note(f"Saved. To see what is new later: lookalike saved run {shlex.quote(saved.name)}")
        if html is not None or sheet is not None:
            shown = [_example(collection, image, "example", given.box) for image in given.images]
            shown += [_example(collection, image, "not") for image in given.not_images]
            _draw(", ".join([*given.words, *map(os.path.basename, given.images)]), shown, results, html, sheet)
    if not json:
        print_meanings(results.understood)
    print_results(results, json, boxes, rated=likely is not None)
    if results.cutoff is not None:
        print_note(results.cutoff.summary)
    return int(missing)


def export_results(
    collection: "Collection", results: "Sequence[Result]", target: str | None, progress: "types.Progress"
) -> bool:
    """Export results if there is a target, and print a note; return whether pictures are missing."""
    if target is None:
        return False
    missing = collection.export_results(results, target, progress=progress)
    print_note(f"Exported {many(len(results) - len(missing), 'result')} to {target}")
    print_missing(missing)
    return bool(missing)


def explain(
    image: Annotated[str, typer.Argument(metavar="IMAGE", help="Path or id of a picture.")],
    where: Where,
    k: Annotated[int, typer.Option("-k", metavar="N", min=1, help="Number of pictures to list.")] = 5,
    space: Annotated[
        str | None,
        typer.Option(
            "--space", metavar="NAME", help="Space of the classifier. Default: the first that uses negatives."
        ),
    ] = None,
    json: Json = False,
) -> int:
    """List the pictures that shape a slem vector most.

    An influence of 1 is average.

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


def print_results(results: "Results", json: bool, boxes: bool, rated: bool, new: Set[int] | None = None) -> None:
    """Print results; with `new`, JSON shows which ones are new."""
    if json:
        print_json(
            [
                {"id": types.format_id(r.id), "path": r.path, "score": r.score}
                | ({"likely": r.likely} if rated else {})
                | ({"box": r.box} if boxes else {})
                | ({"new": r.id in new} if new is not None else {})
                for r in results
            ]
        )
    elif not results:
        print_note("No pictures found.")
    elif on_terminal():
        rows = [(r.path, r.score, _box(r), r.likely) for r in results]
        print_rich(show.table(rows, shutil.get_terminal_size().columns, results.half))
        if results.half is not None and results.cutoff is None:
            print_note(f"Likely: the probability that a result is right, estimated from {results.estimated_from}.")
    else:
        for result in results:
            parts = [
                f"{result.score:.4f}",
                human_probability(result.likely) if rated and result.likely is not None else "",
                _box(result),
            ]
            print_line("  ".join([*filter(None, parts), show_path(result.path)]))


def _draw(
    title: str, examples: list["show.Tile"], results: list["Result"], html: str | None, sheet: str | None
) -> None:
    tiles = [
        show.Tile(r.path, f"{rank}  ·  {r.score:.4f}\n{_name(r.path)}", box=r.box) for rank, r in enumerate(results, 1)
    ]
    if html is not None:
        print_note(f"Wrote {show.write_page(f'Pictures similar to {title}', examples, tiles, html)}")
    if sheet is not None:
        print_note(f"Wrote {show.write_sheet(show.arrange(examples, tiles), sheet)}")


def _example(collection: "Collection", image: str, frame: "show.Frame", box: "types.Box | None" = None) -> "show.Tile":
    """Return an example as a tile; an id is replaced by the first path of its item."""
    item = None if os.path.lexists(image) else types.parse_id(image)
    if item is None:
        return show.Tile(image, _name(image), frame, box)
    path = next(iter(collection.get([item])[item].paths), None)
    return show.Tile(path, f"{image}\n{_name(path)}", frame, box)


def _box(result: "Result") -> str:
    return "" if result.box is None else ",".join(f"{share:.2f}" for share in result.box)


def _name(path: str | None) -> str:
    return "" if path is None else path.rpartition("/")[2]
