"""`lookalike map`: the collection on one sheet, alike pictures together.

In: a space. Out: places in a square, as JSON or as a picture of pictures.
"""

from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Space, Where, opened
from lookalike.cli.terminal import bars, print_json, print_line, print_note
from lookalike.text import many

if TYPE_CHECKING:
    from lookalike import show, types
else:
    show, types = Lazy("lookalike.show"), Lazy("lookalike.types")


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
