"""A benchmark that other processes can import, with cells that succeed, fail or end their process."""

import os
from dataclasses import replace

from lookalike_bench.tables import Bench, PaperFigure, Score


def run(row, column, data, seed, progress):
    progress("thinking", 1, 2)
    if column == "fails":
        raise ValueError("no such luck")
    if column == "ends":
        os._exit(3)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
    return Score("mAP", 0.5, 0.4, 0.6, scored=cores)


BENCH = Bench(
    "toy",
    "for tests of processes",
    ("a", "b"),
    ("x", "fails", "ends", "y"),
    run,
    on_request=("b ends",),
    paper=lambda row, column: PaperFigure(0.55),
    seconds=lambda row, column: 2.0 if row == "b" else 1.0,
    shares=lambda row, column: row,
)

ALONE = replace(BENCH, name="alone", alone=True)
