"""A bench is a table: rows (methods) × columns (data and measure), filled one cell at a time.

In: a bench's name, a data folder, the wanted rows and columns. Out: a plan, and one `Cell` for each of its pairs. A new
bench is one file with a `BENCH` in it and one line in `BENCHES`.
"""

import contextlib
import importlib
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lookalike.errors import UnknownNameError
from lookalike.types import Progress, silent

SMALLER = ("bytes an item", "marks", "ms", "scored", "top-1 error %", "top-5 error %", "width")
"""The measures that are better the smaller they are."""
RATIO = "× as fast"
"""The measure that is a ratio of times: twice and half as fast are the same step."""
BENCHES = {
    "dfk": "lookalike_bench.dfk:BENCH",
    "feedback": "lookalike_bench.feedback:BENCH",
    "hashing": "lookalike_bench.hashing:BENCH",
    "hyperplane": "lookalike_bench.hyperplane:BENCH",
    "ncm": "lookalike_bench.ncm:BENCH",
    "peers": "lookalike_bench.peers:BENCH",
    "retrieval": "lookalike_bench.retrieval:BENCH",
    "scaling": "lookalike_bench.scaling:BENCH",
    "slem": "lookalike_bench.slem:BENCH",
}


@dataclass(frozen=True)
class Score:
    """What one cell's run found out."""

    measure: str
    value: float
    low: float
    high: float
    """The 95 % interval of `value`."""
    scored: int
    """Vectors compared with a query."""


class Printed(NamedTuple):
    """What a paper has in the place of a cell."""

    value: float | None = None
    """Its figure; None where it has none, or where it is lost."""
    unlike: str = ""
    """Why it is of something else, where it is."""


@dataclass(frozen=True)
class Cell:
    """A score with its place in the table and its cost."""

    bench: str
    row: str
    column: str
    measure: str
    value: float
    low: float
    high: float
    paper: float | None
    unlike: str
    seed: int
    seconds: float
    peak_mb: float
    """The most memory the process held during the cell; where the system cannot reset its count, since the start."""
    scored: int


def _accept(columns: Sequence[str], data: Path) -> None:
    """Nothing to check before the run."""


def _everything(row: str, column: str) -> bool:  # noqa: ARG001 (the same for every cell)
    return True


def _nothing(row: str, column: str) -> Printed:  # noqa: ARG001
    return Printed()


def _some(row: str, column: str) -> float:  # noqa: ARG001
    return 10.0


def the_set(row: str, column: str) -> str:  # noqa: ARG001
    """The part of a column's name before the slash."""
    return column.split("/")[0]


@dataclass(frozen=True)
class Bench:
    """`run(row, column, data, seed, progress)` fills one cell; `check(columns, data)` refuses bad data early.

    Where `run` needs something that is not installed it raises MissingError, which says what would supply it: that cell
    is passed over, the others are filled.
    """

    name: str
    about: str
    rows: Sequence[str]
    columns: Sequence[str]
    run: Callable[[str, str, Path, int, Progress], Score]
    check: Callable[[Sequence[str], Path], None] = _accept
    needs_data: bool = True
    """Whether `data` is read; what is not read may be any path."""
    has: Callable[[str, str], bool] = _everything
    """Whether there is a cell for this row and column."""
    on_request: Sequence[str] = ()
    """Rows, columns and cells ("row column") that are filled only where they are asked for by name: no paper has them,
    or they take long. A cell is asked for where its row or its column is."""
    paper: Callable[[str, str], Printed] = _nothing
    """What the paper has for a row and a column."""
    seconds: Callable[[str, str], float] = _some
    """About how long a cell takes on one core, what it shares with earlier ones left out: for the time that is left."""
    shares: Callable[[str, str], str] = the_set
    """Cells with the same answer build on the same work: one process does them, in their order."""
    alone: bool = False
    """Whether its cells are timings, and nothing else may run beside them."""

    def usual(self, names: Sequence[str]) -> list[str]:
        """Of rows or columns: those that are not on request."""
        return [name for name in names if name not in self.on_request]

    def places(self, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> list[tuple[str, str]]:
        """The cells, column by column, as (row, column): of these, or those that are not on request."""
        cells = [
            (row, column)
            for column in columns or self.usual(self.columns)
            for row in rows or self.usual(self.rows)
            if self.has(row, column)
        ]
        return cells if rows or columns else [cell for cell in cells if " ".join(cell) not in self.on_request]


def load(name: str) -> Bench:
    """The bench of this name; imports its module."""
    if name not in BENCHES:
        raise UnknownNameError("bench", name, BENCHES)
    return at(BENCHES[name])


def at(address: str) -> Bench:
    """The bench at `module:name`."""
    module, _, attribute = address.partition(":")
    bench: Bench = getattr(importlib.import_module(module), attribute)
    return bench


def plan(
    bench: Bench, data: str | Path, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> list[tuple[str, str]]:
    """The cells to fill, as `Bench.places` has them; refuses unknown names and missing data at once."""
    for kind, names, known in (("row", rows, bench.rows), ("column", columns, bench.columns)):
        for name in names or ():
            if name not in known:
                raise UnknownNameError(kind, name, known)
    found = bench.places(rows, columns)
    bench.check(list(dict.fromkeys(column for _, column in found)), Path(data))
    return found


def fill(
    bench: Bench, row: str, column: str, data: str | Path, *, seed: int = 0, progress: Progress | None = None
) -> Cell:
    """Run one cell."""
    _reset_peak()
    start = time.perf_counter()
    score = bench.run(row, column, Path(data), seed, progress or silent)
    printed = bench.paper(row, column)
    return Cell(
        bench=bench.name,
        row=row,
        column=column,
        measure=score.measure,
        value=score.value,
        low=score.low,
        high=score.high,
        paper=printed.value,
        unlike=printed.unlike,
        seed=seed,
        seconds=time.perf_counter() - start,
        peak_mb=_peak_mb(),
        scored=score.scored,
    )


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # Linux: forget the highest resident size so far


def _peak_mb() -> float:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10
