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

from lookalike.errors import UnknownNameError
from lookalike.types import Progress, silent

SMALLER = ("bytes an item", "marks", "ms", "scored", "top-1 error %", "top-5 error %", "width")
"""The measures that are better the smaller they are."""
BENCHES = {
    "dfk": "lookalike.bench.dfk:BENCH",
    "feedback": "lookalike.bench.feedback:BENCH",
    "hashing": "lookalike.bench.hashing:BENCH",
    "hyperplane": "lookalike.bench.hyperplane:BENCH",
    "ncm": "lookalike.bench.ncm:BENCH",
    "peers": "lookalike.bench.peers:BENCH",
    "retrieval": "lookalike.bench.retrieval:BENCH",
    "scaling": "lookalike.bench.scaling:BENCH",
    "slem": "lookalike.bench.slem:BENCH",
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
    paper: float | None = None
    """The paper's figure, where there is one."""
    unlike: str = ""
    """Why the paper's figure is of something else, where it is."""


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
    """Columns that are filled only where they are asked for by name: they take long."""


def load(name: str) -> Bench:
    """The bench of this name; imports its module."""
    if name not in BENCHES:
        raise UnknownNameError("bench", name, BENCHES)
    module, _, attribute = BENCHES[name].partition(":")
    bench: Bench = getattr(importlib.import_module(module), attribute)
    return bench


def choose(kind: str, wanted: Sequence[str] | None, known: Sequence[str]) -> list[str]:
    """The wanted names in the wanted order; all known ones where nobody chose."""
    for name in wanted or ():
        if name not in known:
            raise UnknownNameError(kind, name, known)
    return list(wanted or known)


def plan(
    bench: Bench, data: str | Path, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> list[tuple[str, str]]:
    """The cells to fill, column by column, as (row, column); refuses unknown names and missing data at once."""
    usual = [column for column in bench.columns if column not in bench.on_request]
    wanted = choose("row", rows, bench.rows), choose("column", columns, bench.columns) if columns else usual
    bench.check(wanted[1], Path(data))
    return [(row, column) for column in wanted[1] for row in wanted[0] if bench.has(row, column)]


def fill(
    bench: Bench, row: str, column: str, data: str | Path, *, seed: int = 0, progress: Progress | None = None
) -> Cell:
    """Run one cell."""
    _reset_peak()
    start = time.perf_counter()
    score = bench.run(row, column, Path(data), seed, progress or silent)
    return Cell(
        bench=bench.name,
        row=row,
        column=column,
        measure=score.measure,
        value=score.value,
        low=score.low,
        high=score.high,
        paper=score.paper,
        unlike=score.unlike,
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
