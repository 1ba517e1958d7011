"""What a figure says about the paper's.

In: a cell. Out: reproduced, better, short by so much, or not comparable and why.
"""

from typing import Literal, NamedTuple

from lookalike_bench.tables import SMALLER, Cell

Kind = Literal["reproduced", "better", "short", "not comparable", ""]
POINTS = 1.0
"""How far, in per cent, a figure may be from the paper's beyond its own 95 % interval and still reproduce it: seeds,
splits and decoders move it as much."""


class Verdict(NamedTuple):
    """The kind, "" where the paper has no such figure, and a sentence."""

    kind: Kind
    text: str


def judge(cell: Cell) -> Verdict:
    """The verdict on a cell.

    >>> from lookalike_bench.tables import Cell
    >>> cell = Cell("hashing", "itq", "mnist/32", "mAP@500", .804, .80, .81, .7955, "", 0, 1.0, 1.0, 1)
    >>> judge(cell).text
    'reproduced'
    """
    if cell.unlike:
        return Verdict("not comparable", f"not comparable because {cell.unlike}")
    if cell.paper is None:
        return Verdict("", "the paper has no such figure")
    slack = POINTS if "%" in cell.measure else POINTS / 100
    if cell.low - slack <= cell.paper <= cell.high + slack:
        return Verdict("reproduced", "reproduced")
    ahead = cell.paper - cell.value if cell.measure in SMALLER else cell.value - cell.paper
    if ahead > 0:
        return Verdict("better", f"better by {ahead:.3g}")
    return Verdict("short", f"short by {-ahead:.3g}")
