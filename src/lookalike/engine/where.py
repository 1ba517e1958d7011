"""Where in a picture is what was looked for: parts of the picture compared with the query.

In: a picture, a query and the chain that made it. Out: the box that is nearest to the query, which may be the
whole picture.
"""

from lookalike.engine.chain import Chain
from lookalike.types import Box, Pixels, Query

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
