"""Reproduce Figures 1 to 3 of the SLEM paper on ukbench2000: precision and time by number of negatives and rank.

    python benchmarks/slem_figures.py DATA [--plot docs/slem.png] [--esvm] [--json]

The dataset, the split and the calibration are those of `lookalike bench run slem` (objects 0–249 are negatives, 250–499
are test pictures; λ and γ are chosen once, on all negatives and only on them). Figure 1: mAP and time of fit and
encoding by the number of negatives. Figure 2: kernel PCA and incomplete Cholesky at ranks 2 to 512. Figure 3:
incomplete Cholesky at rank 32 by the number of negatives. `--esvm` adds exemplar SVMs to figure 1: one SVM per test
picture, which takes tens of minutes.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from lookalike.encode.calibration import calibrate_labels
from lookalike.encode.esvm import Esvm
from lookalike.encode.kernel_slem import KernelSlem
from lookalike.encode.slem import Slem
from lookalike.types import Transform, silent
from lookalike_bench import slem

SIZES = (50, 100, 200, 400, 700, 1_000)
RANKS = (2, 4, 8, 16, 32, 64, 128, 256, 512)


class Point(NamedTuple):
    """One encoder at one size: a point of a figure."""

    figure: int
    line: str
    x: int
    precision: float
    seconds: float


class Runs:
    """The dataset and the chosen parameters of the encoders."""

    def __init__(self, data: Path):
        self.base = slem.load_base(slem.COLUMNS["ukbench2000/deep"], data, report)
        first, second, self.test = slem.split(self.base.labels)
        self.pool = np.concatenate([first, second])  # (1000,), by object
        rows = self.base.X[self.pool], slem.number(self.base.labels)[self.pool]
        chosen = {}
        for name in ("linear", "gaussian-full", "poly-full"):
            report(f"calibrating {name}", 0, None)
            row = slem.ROWS[name]
            chosen[name] = calibrate_labels(lambda row=row, **params: row.make(0, **params), row.candidates, *rows)
        self.linear, self.gaussian, self.poly = (dict(found.params) for found in chosen.values())

    def measure(self, figure: int, line: str, x: int, encoder: Transform, n: int) -> Point:
        """Fit on the first n negatives; encode and rank the test pictures."""
        report(f"figure {figure}, {line}", x, None)
        X, labels = self.base.X[self.test], self.base.labels[self.test]
        start = time.perf_counter()
        encoder.fit(self.base.X[self.pool[:n]])
        Y = encoder.transform(X)
        seconds = time.perf_counter() - start
        precision, _ = slem.rank(encoder, X, Y, labels, silent)
        return Point(figure, line, x, float(precision.mean()), seconds)


def main() -> None:
    """Run the measurements, print them and draw the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--esvm", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    points = []
    for point in run(Runs(options.data), options.esvm):
        points.append(point)
        values = point._asdict()
        print(json.dumps(values) if options.json else "  ".join(f"{k} {v}" for k, v in values.items()), flush=True)
    if options.plot:
        draw(points, options.plot)


def run(runs: Runs, esvm: bool) -> Any:
    """The points of the three figures."""
    for n in SIZES:
        yield runs.measure(1, "linear", n, Slem(**runs.linear), n)
        yield runs.measure(1, "Gaussian, full rank", n, KernelSlem("gaussian", rank=None, **runs.gaussian), n)
        yield runs.measure(1, "Poly, full rank", n, KernelSlem("poly", rank=None, **runs.poly), n)
        if esvm:
            yield runs.measure(1, "ESVM", n, Esvm(), n)
        yield runs.measure(3, "ICD, rank 32", n, KernelSlem("poly", factor="icd", rank=32, **runs.poly), n)
    for rank in RANKS:
        for factor in ("kpca", "icd"):
            encoder = KernelSlem("poly", factor=factor, rank=rank, **runs.poly)
            yield runs.measure(2, factor.upper(), rank, encoder, len(runs.pool))
    yield runs.measure(2, "full rank", RANKS[-1], KernelSlem("poly", rank=None, **runs.poly), len(runs.pool))


def draw(points: list[Point], target: Path) -> None:
    """Four panels: precision and time of figure 1, then figures 2 and 3."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 3.4), layout="constrained")
    panels = [
        ("Fig. 1: full rank", 1, "precision", "negatives"),
        ("Fig. 1: fit and 1,000 encodings", 1, "seconds", "negatives"),
        ("Fig. 2: Poly, 1,000 negatives", 2, "precision", "rank"),
        ("Fig. 3: Poly, ICD at rank 32", 3, "precision", "negatives"),
    ]
    for axes, (title, number, what, of) in zip(figure.subplots(1, 4), panels, strict=True):
        shown = [point for point in points if point.figure == number]
        for line in dict.fromkeys(point.line for point in shown):
            dots = [(point.x, getattr(point, what)) for point in shown if point.line == line]
            if len(dots) == 1:
                axes.axhline(dots[0][1], linestyle=":", color="#555555", label=line)
            else:
                axes.plot(*zip(*dots, strict=True), marker="o", markersize=3, label=line)
        axes.set_xscale("log")
        if what == "seconds":
            axes.set_yscale("log")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel(of)
        axes.set_ylabel("mAP" if what == "precision" else what)
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    figure.savefig(target, dpi=120)


def report(stage: str, done: int, total: int | None) -> None:
    """Print one line on stderr, over the previous one."""
    print(f"\r{stage} {done}{f' of {total}' if total else ''}        ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
