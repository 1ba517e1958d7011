"""Where in a picture is what was looked for: parts of the picture compared with the query.

In: a picture, a query and the chain that made it. Out: the box that is nearest to the query, which may be the
whole picture.
"""

from collections.abc import Sequence
from dataclasses import replace

from lookalike.engine.chain import Chain
from lookalike.engine.examples import pixels
from lookalike.engine.looks import Result
from lookalike.errors import ImageError, InputError
from lookalike.store.directory import Store
from lookalike.types import Box, Pixels, Progress, Query

SIZES = ((1.0, 1), (2 / 3, 2), (1 / 2, 3), (1 / 3, 5))
"""Shares of width and height that a window has, and windows a side: neighbours overlap by half or so."""


def boxes() -> list[Box]:
    """The parts that are tried, the whole first.

    >>> len(boxes()), boxes()[0], boxes()[1]
    (39, (0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.6667, 0.6667))
    """
    made: list[Box] = []
    for edge, windows in SIZES:
        steps = [i * (1 - edge) / max(1, windows - 1) for i in range(windows)]
        made += [(round(x, 4), round(y, 4), round(x + edge, 4), round(y + edge, 4)) for y in steps for x in steps]
    return made


def where(image: Pixels, query: Query, chain: Chain) -> Box:
    """The box of the picture whose vector is nearest to the query; the first of equals, the largest."""
    tried = boxes()
    scores = query.score(chain.regions(image, tried))  # (1, boxes)
    return tried[int(scores[0].argmin())]


def with_boxes(
    store: Store, side: int, results: Sequence[Result], query: Query, chain: Chain, progress: Progress
) -> list[Result]:
    """The results with the place of the match; without it where a picture cannot be read any more.

    Parts are compared, so pictures are read at twice the `side` that whole ones are.
    """
    located = []
    for done, result in enumerate(results):
        progress("locating", done, len(results))
        try:
            box = where(pixels(store, result.id, 2 * side), query, chain)
        except (ImageError, InputError):  # gone meanwhile, as a file or as an item
            box = None
        located.append(replace(result, box=box))
    progress("locating", len(results), len(results))
    return located
