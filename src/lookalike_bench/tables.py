"""A benchmark is a table of rows (methods) × columns (dataset and measure), filled one cell at a time.

`load` returns a benchmark by its name, `plan` lists the cells to fill and `fill` runs one of them. A new benchmark is
one file with a `BENCH` in it and one line in `BENCHES`.
"""

import importlib
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from lookalike.errors import UnknownNameError
from lookalike.system import peak_bytes, reset_peak
from lookalike.types import Progress, silent

SMALLER_IS_BETTER = (
    "bytes per item",
    "ECE",
    "marks",
    "ms",
    "own rejected",
    "scored",
    "stop-85",
    "top-1 error %",
    "top-5 error %",
    "unknown words",
    "width",
)
"""Measures of which a smaller value is better."""
RATIO = "speed-up"
"""The measure that is a ratio of times. Plots show it on a logarithmic axis around 1."""
BENCHES = {
    "dfk": "lookalike_bench.dfk:BENCH",
    "feedback": "lookalike_bench.feedback:BENCH",
    "hashing": "lookalike_bench.hashing:BENCH",
    "hyperplane": "lookalike_bench.hyperplane:BENCH",
    "ncm": "lookalike_bench.ncm:BENCH",
    "openset": "lookalike_bench.openset:BENCH",
    "peers": "lookalike_bench.peers:BENCH",
    "retrieval": "lookalike_bench.retrieval:BENCH",
    "scaling": "lookalike_bench.scaling:BENCH",
    "slem": "lookalike_bench.slem:BENCH",
    "words": "lookalike_bench.words:BENCH",
}
"""All benchmarks: name → `module:attribute`."""


@dataclass(frozen=True)
class Score:
    """The result of running one cell."""

    measure: str
    value: float
    low: float
    high: float
    """The 95 % interval of `value`."""
    scored: int
    """Vectors compared with a query."""


class PaperFigure(NamedTuple):
    """The result that a paper reports for a cell."""

    value: float | None = None
    """None if the paper reports none, or only a plot."""
    unlike: str = ""
    """Why the result cannot be compared with ours, else ""."""


@dataclass(frozen=True)
class Cell:
    """A score with its position in the table and its cost."""

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
    """Peak memory of the process during the cell; on systems that cannot reset the peak, since the process started."""
    scored: int


def _check_nothing(columns: Sequence[str], data: Path) -> None:
    """Default of `Bench.check`."""


def _has_every_cell(row: str, column: str) -> bool:  # noqa: ARG001 (the same for every cell)
    return True


def _no_paper(row: str, column: str) -> PaperFigure:  # noqa: ARG001
    return PaperFigure()


def _ten_seconds(row: str, column: str) -> float:  # noqa: ARG001
    return 10.0


def dataset_of(row: str, column: str) -> str:  # noqa: ARG001
    """The part of a column's name before the slash."""
    return column.split("/")[0]


@dataclass(frozen=True)
class Bench:
    """A table: `run(row, column, data, seed, progress)` fills one cell.

    `run` raises MissingError when it needs a package that is not installed, with a message on how to install it. That
    cell is skipped and the others are filled.
    """

    name: str
    about: str
    rows: Sequence[str]
    columns: Sequence[str]
    run: Callable[[str, str, Path, int, Progress], Score]
    check: Callable[[Sequence[str], Path], None] = _check_nothing
    """`check(columns, data)` raises an error before the first cell if data is missing."""
    needs_data: bool = True
    """Whether the data folder is read by default."""
    has: Callable[[str, str], bool] = _has_every_cell
    """Whether a row has a cell in a column."""
    on_request: Sequence[str] = ()
    """Rows, columns and cells ("row column") that are filled only on request, because no paper reports them or because
    they take long. To request a cell, name its row or its column."""
    paper: Callable[[str, str], PaperFigure] = _no_paper
    """The paper's result for a row and a column."""
    seconds: Callable[[str, str], float] = _ten_seconds
    """Estimated seconds of a cell on one core, without the work that it shares with earlier cells."""
    shares: Callable[[str, str], str] = dataset_of
    """A key. Cells with the same key build on the same work, so one process fills them, in order."""
    alone: bool = False
    """Whether cells measure time, so that no other cell may run at the same time."""

    def usual(self, names: Sequence[str]) -> list[str]:
        """The given rows or columns that are filled by default."""
        return [name for name in names if name not in self.on_request]

    def places(self, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None) -> list[tuple[str, str]]:
        """Cells as (row, column), column by column: of the given rows and columns, or else the default ones."""
        cells = [
            (row, column)
            for column in columns or self.usual(self.columns)
            for row in rows or self.usual(self.rows)
            if self.has(row, column)
        ]
        return cells if rows or columns else [cell for cell in cells if " ".join(cell) not in self.on_request]


def load(name: str) -> Bench:
    """Import the benchmark of this name."""
    if name not in BENCHES:
        raise UnknownNameError("benchmark", name, BENCHES)
    return load_from(BENCHES[name])


def load_from(address: str) -> Bench:
    """Import the benchmark at `module:attribute`."""
    module, _, attribute = address.partition(":")
    bench: Bench = getattr(importlib.import_module(module), attribute)
    return bench


def plan(
    bench: Bench, data: str | Path, *, rows: Sequence[str] | None = None, columns: Sequence[str] | None = None
) -> list[tuple[str, str]]:
    """The cells to fill, as `Bench.places` returns them; unknown names and missing data raise an error."""
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
    reset_peak()
    start = time.perf_counter()
    score = bench.run(row, column, Path(data), seed, progress or silent)
    paper = bench.paper(row, column)
    return Cell(
        bench=bench.name,
        row=row,
        column=column,
        measure=score.measure,
        value=score.value,
        low=score.low,
        high=score.high,
        paper=paper.value,
        unlike=paper.unlike,
        seed=seed,
        seconds=time.perf_counter() - start,
        peak_mb=peak_bytes() / 2**20,
        scored=score.scored,
    )


_Parts = tuple[tuple[str, ...], ...]
"""Names that were merged: for each place of the name, the alternatives."""


def merge_names(names: Iterable[str]) -> list[str]:
    """Merge column names that differ in one place, in the order of their first members.

    >>> merge_names(["mnist/32", "mnist/64", "mnist/32-ties", "mnist/64-ties", "cifar/64", "other"])
    ['mnist/{32,64}', 'mnist/{32,64}-ties', 'cifar/64', 'other']
    """
    found: list[_Parts] = [tuple((part,) for part in re.split(r"([/-])", name)) for name in names]
    for place in reversed(range(0, max(map(len, found), default=0), 2)):  # odd places are slashes and dashes
        found = _merge_place(found, place)
    return ["".join(map(_show_part, parts)) for parts in found]


def _show_part(part: tuple[str, ...]) -> str:
    if len(part) == 1:
        return part[0]
    return f"{{{','.join(sorted(part, key=int) if all(map(str.isdigit, part)) else part)}}}"


def _merge_place(names: list[_Parts], place: int) -> list[_Parts]:
    """Merge names that are equal in every other place."""
    merged: dict[tuple[_Parts, _Parts], _Parts] = {}
    for parts in names:
        before, here, after = parts[:place], parts[place : place + 1], parts[place + 1 :]
        if not here or len(parts) == 1:  # too short to differ here, or nothing else that could be equal
            merged[parts, ()] = parts
            continue
        known = merged.get((before, after))
        alternatives = here[0] if known is None else (*known[place], *here[0])
        merged[before, after] = (*before, alternatives, *after)
    return list(merged.values())
