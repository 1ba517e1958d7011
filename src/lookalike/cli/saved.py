"""`lookalike saved`: list, run, rename and delete saved searches."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Export, Json, Where, opened, print_meanings
from lookalike.cli.output import bars, print_either, print_json, print_note, print_table, show_time
from lookalike.cli.search import export_results, print_results
from lookalike.errors import InputError
from lookalike.text import many

if TYPE_CHECKING:
    from lookalike import collection as library
    from lookalike.collection import SavedSearch
else:
    library = Lazy("lookalike.collection")

app = typer.Typer(name="saved", rich_markup_mode=None)
Name = Annotated[str, typer.Argument(metavar="NAME", help="Name or id of a saved search.")]


@app.callback(invoke_without_command=True)
def saved(ctx: typer.Context, where: Where, json: Json = False) -> int:
    """List saved searches with the number of new results.

    New results are pictures that were added since you last looked.

    \b
    Examples:
      lookalike search beach.jpg -k 200 --likely 0.8 --save beaches
      lookalike saved
      lookalike saved run beaches
    """
    if ctx.invoked_subcommand is not None:
        return 0
    with opened(where) as collection, bars() as progress:
        found = collection.saved_searches.all()
        counts: list[int | None] = []
        for search in found:
            progress("searching", len(counts), len(found))
            try:
                counts.append(collection.saved_searches.count_new(search.id))
            except InputError as error:  # for example, because its examples were removed
                counts.append(None)
                print_note(str(error))
    if json:
        print_json([_json(search) | {"new": new} for search, new in zip(found, counts, strict=True)])
    elif found:
        rows = [
            [search.id, search.name, _number(new), show_time(search.seen_at), search.author, search.query.summary]
            for search, new in zip(found, counts, strict=True)
        ]
        print_table(["id", "name", "new", "last seen", "author", "search"], rows)
    else:
        print_note("No saved searches yet. Save one: lookalike search IMAGE --save NAME")
    return 0


@app.command()
def run(
    name: Name,
    where: Where,
    new: Annotated[bool, typer.Option("--new", help="List only the new results.")] = False,
    seen: Annotated[bool, typer.Option("--seen", help="Mark all results as seen.")] = False,
    export: Export = None,
    json: Json = False,
) -> int:
    """Run a saved search.

    \b
    Examples:
      lookalike saved run beaches
      lookalike saved run beaches --new --seen
      lookalike saved run 3f9a1c02 --export found.csv --json
    """
    with opened(where) as collection, bars() as progress:
        found = collection.saved_searches.run(name, progress=progress)
        results = found.results
        fresh = set(found.new)
        if new:
            chosen = (one for one in results if one.id in fresh)
            results = library.Results(chosen, results.understood, estimated_from=results.estimated_from)
        missing = export_results(collection, results, export, progress)
        if seen:
            collection.saved_searches.mark_seen(found.search.id, found.newest)
    for note in found.notes:
        print_note(note)
    if not json:
        print_meanings(results.understood)
    print_results(results, json, boxes=False, rated=found.search.query.likely is not None, new=fresh)
    if found.results.cutoff is not None:
        print_note(found.results.cutoff.summary)
    places = [str(place) for place, one in enumerate(found.results, 1) if one.id in fresh]
    listed = f": {', '.join(places)}" if places and not new else ""
    print_note(f"New since {show_time(found.search.seen_at)}: {many(len(places), 'result')}{listed}.")
    return int(missing)


@app.command()
def rename(
    name: Name,
    to: Annotated[str, typer.Argument(metavar="NEW_NAME", help="New name.")],
    where: Where,
    json: Json = False,
) -> int:
    """Rename a saved search. Its id, and links to it, stay the same.

    \b
    Examples:
      lookalike saved rename beaches shores
    """
    with opened(where) as collection:
        renamed = collection.saved_searches.rename(name, to)
    print_either(json, f"Renamed to {renamed.name}.", id=renamed.id, name=renamed.name)
    return 0


@app.command()
def delete(
    searches: Annotated[list[str], typer.Argument(metavar="NAME", help="Names or ids of saved searches.")],
    where: Where,
    json: Json = False,
) -> int:
    """Delete saved searches. Pictures stay in the collection. If one of the searches does not exist, none is deleted.

    \b
    Examples:
      lookalike saved delete beaches
    """
    requested = list(dict.fromkeys(searches))
    with opened(where) as collection:
        collection.saved_searches.remove(*requested)
    print_either(json, f"Deleted {many(len(requested), 'saved search', 'saved searches')}.", deleted=requested)
    return 0


def _json(search: "SavedSearch") -> dict[str, Any]:
    return {
        "id": search.id,
        "name": search.name,
        "author": search.author,
        "search": search.query.summary,
        "created_at": search.created_at,
        "seen_at": search.seen_at,
    }


def _number(new: int | None) -> str:
    return "" if new is None else f"{new:,}"
