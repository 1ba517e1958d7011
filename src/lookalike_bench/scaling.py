"""What everything costs as a collection grows: worked time against the number of rows, and the exponent it grows by.

In: kinds of work × numbers of drawn rows. Out: milliseconds, bytes an item, the slope of log time over log n with its
interval, and what the planner (`engine.costs`) predicts over what was measured. Needs no data folder.

Protocol. Rows are drawn (see `scaling_rows`), 64 dimensions; `ratio-…` has 128, which no factor of the planner was
fitted on. Times are worked time (of the process and those it waited for), so that other work on the machine hardly
counts; on an idle machine with one thread it is the time that passes. A search is called until half a second is worked
or 15 times, after one call that compiles: the median, and where 80 % lie. What can be done only once (build, fit, add)
is, after a small one that compiles. An exponent is fitted to the largest five sizes of its row up to a million, two
decades: below them, what costs the same at any size hides it. Its interval is Student's, over those sizes; three say
nothing.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from lookalike.engine.costs import CURVES, pca_seconds
from lookalike.engine.machine import Machine, measure
from lookalike.index.ann import EXACT_ROWS
from lookalike.types import Progress
from lookalike_bench import scaling_rows as rows
from lookalike_bench.tables import Bench, Score

DIM, WIDE = 64, 128
"""The dimension of the curves, and the one that predictions are held against."""
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000, 10_000_000)
USUAL = 1_000_000
"""Columns of more rows are filled when asked for."""
RATIOS = (10_000, 30_000, 100_000)
SECONDS, REPEATS, SLOPE = 0.5, 15, 5
WARM = 1_100
"""Rows of what is done once before the clock runs: numba compiles then, and modules are loaded."""


class Row(NamedTuple):
    """A kind of work, and the most rows it is measured with."""

    make: Callable[[int, int, int], rows.Work]
    most: int


def _row(function: Callable[[str, int, int, int], rows.Work], what: str, most: int) -> Row:
    return Row(partial(function, what), most)


FITS = {
    "pca(dim=32)": 30_000,
    "slem(lam=0.01)": 30_000,
    "kernelslem(rank=32)": 3_000,
    "itq(bits=64)": 30_000,
    "pcarr(bits=64)": 30_000,
    "lsh(bits=64)": 30_000,
    "spectral(bits=64)": 30_000,
    "sklsh(bits=64)": 30_000,
    "spherical(bits=64)": 30_000,
    "pq(bits=64)": 30_000,
    "fda(dim=9)": 30_000,
    "ncmml(dim=32)": 10_000,
    "lmnn(dim=32)": 3_000,
    "tsvm(bits=64)": 10_000,
    "sdh(bits=64)": 10_000,
    "fasthash(bits=64)": 3_000,
}
"""What is fitted, by its spec, and on how many rows at most: a collection never gives a fit more than 50,000."""
M = 1_000_000
WORK: dict[str, Row] = {
    "memory": _row(rows.read, "memory", 10 * M),
    "product": _row(rows.read, "product", 3 * M),
    "add": _row(rows.add, "", 10_000),
    "store": _row(rows.store, "", 100_000),
    **{f"fit-{spec.partition('(')[0]}": _row(rows.fit, spec, most) for spec, most in FITS.items()},
    "encode-pca": _row(rows.encode, "pca", M),
    "encode-itq": _row(rows.encode, "itq", M),
    "encode-pq": _row(rows.encode, "pq", M),
    "build-hnsw": _row(rows.build, "hnsw", 3 * M),
    "build-ivfpq": _row(rows.build, "ivfpq", 3 * M),
    "build-leaves": _row(rows.build, "leaves", 10 * M),
    "build-fsmtree": _row(rows.build, "fsmtree", 30_000),
    "build-hamming": _row(rows.build, "hamming", 10 * M),
    "build-multihash": _row(rows.build, "multihash", 3 * M),
    "search-flat": _row(rows.search, "flat", 10 * M),
    "search-hnsw": _row(rows.search, "hnsw", 3 * M),
    "search-ivfpq": _row(rows.search, "ivfpq", 3 * M),
    "search-itq": _row(rows.search, "itq", 10 * M),
    "search-pq": _row(rows.search, "pq", 10 * M),
    "search-multihash": _row(rows.search, "multihash", 3 * M),
    "search-leaves": _row(rows.search, "leaves", 10 * M),
    "search-fsmtree": _row(rows.search, "fsmtree", 30_000),
    "round-flat": _row(rows.play_round, "flat", 300_000),
    "round-leaves": _row(rows.play_round, "leaves", 10 * M),
}


class Times(NamedTuple):
    """Worked seconds, and bytes an item."""

    seconds: list[float]
    bytes: float

    @property
    def median(self) -> float:
        """Of the seconds."""
        return float(np.median(self.seconds))


@cache
def measured(row: str, n: int, dim: int, seed: int) -> Times:
    """One kind of work at one size."""
    warm(row, dim, seed)
    work = WORK[row].make(n, dim, seed)
    times = [work.seconds] if work.call is None else rows.time_call(work.call, SECONDS, REPEATS)
    return Times(times, work.bytes)


@cache
def warm(row: str, dim: int, seed: int) -> None:
    """Do it once, for nobody."""
    call = WORK[row].make(WARM, dim, seed).call
    if call is not None:
        call()


def sizes(row: str) -> list[int]:
    """The numbers of rows that a row of the table is measured with."""
    least = EXACT_ROWS if row in ("search-hnsw", "search-ivfpq") else 0  # fewer are looked at one by one
    return [n for n in SIZES if least <= n <= WORK[row].most]


def slope(n: list[int], seconds: list[float]) -> tuple[float, float, float]:
    """The exponent of a power law through these points, and its 95 % interval.

    >>> slope([10, 100, 1000], [1.0, 10.0, 100.0])
    (1.0, 1.0, 1.0)
    """
    line = stats.linregress(np.log(n), np.log(seconds))
    half = float(stats.t.ppf(0.975, len(n) - 2) * line.stderr) if len(n) > 2 else math.inf
    return tuple(round(float(value), 6) for value in (line.slope, line.slope - half, line.slope + half))  # type: ignore[return-value]


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:  # noqa: ARG001 (no data is read)
    """One cell. `seed` draws the rows."""
    kind, _, number = column.partition("-")
    if kind == "exponent":
        largest = [n for n in sizes(row) if n <= USUAL][-SLOPE:]
        found = []
        for i, n in enumerate(largest):
            progress("sizes", i, len(largest))
            found.append(measured(row, n, DIM, seed).median)
        return Score("exponent", *slope(largest, found), scored=0)
    n = int(number)
    if kind == "ratio":
        ratios = [predicted(row, n, WIDE, machine()) / seconds for seconds in measured(row, n, WIDE, seed).seconds]
        low, high = np.quantile(ratios, [0.1, 0.9])
        return Score("predicted / measured", float(np.median(ratios)), float(low), float(high), scored=n)
    times = measured(row, n, DIM, seed)
    if kind == "bytes":
        return Score("bytes an item", times.bytes, times.bytes, times.bytes, scored=0)
    low, high = np.quantile(times.seconds, [0.1, 0.9])
    return Score("ms", 1e3 * times.median, 1e3 * float(low), 1e3 * float(high), scored=n)


@cache
def machine() -> Machine:
    """What this one can do, by worked time."""
    return measure(rows.worked)


def predicted(row: str, n: int, dim: int, on: Machine) -> float:
    """Seconds, by the planner's curves."""
    if row == "encode-pca":
        return pca_seconds(n, dim, dim // 4, on)
    return CURVES[row].seconds(n, rows.BITS / 8 if row in ("search-itq", "search-pq") else dim, on)


def has(row: str, column: str) -> bool:
    """Whether a row is measured at this size, and says what it holds, or is predicted."""
    kind, _, number = column.partition("-")
    if kind == "exponent":
        return len(sizes(row)) > 3
    n = int(number)
    if kind == "ratio":
        return row in CURVES and n in sizes(row) and n * WIDE <= WORK[row].most * DIM
    return n in sizes(row) and (kind != "bytes" or row in ("add", "store") or row.startswith("build-"))


ASKED = (
    *(f"ms-{n}" for n in SIZES if n > USUAL),
    "exponent",
    "bytes-10000",
    "bytes-100000",
    *(f"ratio-{n}" for n in RATIOS),
    *(f"{row} ms-{USUAL}" for row in ("build-hnsw", "search-hnsw")),
)
"""Columns, and cells of other columns, that take long, or mean little beside the others in a plot."""
BENCH = Bench(
    "scaling",
    "what everything costs as a collection grows, on drawn rows",
    tuple(WORK),
    (*(f"ms-{n}" for n in SIZES if n <= USUAL), *ASKED),
    run,
    needs_data=False,
    has=has,
    on_request=ASKED,
    seconds=lambda _, column: 10.0 if column == f"ms-{USUAL}" else 1.0,
    alone=True,
)
