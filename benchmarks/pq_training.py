"""Peak memory and speed of NCMML on vectors that are stored as PQ codes.

    python benchmarks/pq_training.py [--rows 1000000] [--dim 4096] [--classes 1000] [--to 128] [--steps 200]
                                     [--device cpu] [--json]

Synthetic vectors are generated on demand and never stored: one mean per class, noise with a falling spectrum, and some
zero sub-vectors. `peak` is the highest resident memory of this process since its start, sampled every 50 ms; `before`
is the memory of Python and its libraries before the first vector. The matrix itself would take 16.4 GB at the default
size. `--device cuda` trains on a GPU; codes stay in host memory.
"""

import argparse
import json
import time
from typing import Any

import numpy as np
from memory import Peak

from lookalike.learn.ncmml import Ncmml
from lookalike.learn.pq_rows import PqRows
from lookalike.types import Vectors


class Drawn:
    """Synthetic rows by their numbers: the same numbers give the same rows."""

    def __init__(self, n: int, d: int, classes: int):
        self.shape, self.classes = (n, d), classes
        random = np.random.default_rng(0)
        self.means = random.standard_normal((classes, 64), np.float32)
        self.mix = random.standard_normal((64, d), np.float32) / 250
        self.noise = random.standard_normal((4096, d), np.float32)  # rows use these, shifted
        self.noise *= (1 + np.arange(d, dtype=np.float32)) ** -0.25

    def __getitem__(self, rows: Any) -> Vectors:
        numbers = np.arange(*rows.indices(self.shape[0])) if isinstance(rows, slice) else np.asarray(rows)
        X = self.means[numbers % self.classes] @ self.mix
        X += self.noise[numbers * 2654435761 % 4096]
        X += self.noise[numbers * 40503 % 4093][:, ::-1]
        parts = X.reshape(len(numbers), -1, 8)
        parts[np.arange(len(numbers)), numbers % parts.shape[1]] = 0
        return X


def main() -> None:
    """Compress, train and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=4096, help="Dimension, a multiple of 8.")
    parser.add_argument("--classes", type=int, default=1000)
    parser.add_argument("--to", type=int, default=128)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--device", default=None, help="Torch device; the default is NumPy.")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    with Peak() as before:
        time.sleep(0.2)
    with Peak() as peak:
        drawn = Drawn(options.rows, options.dim, options.classes)
        y = np.arange(options.rows) % options.classes
        start = time.perf_counter()
        rows = PqRows(drawn, device=options.device)
        packed = time.perf_counter() - start
        model = Ncmml(options.to, max_iterations=options.steps)
        times: list[tuple[int, float]] = []
        model.fit(rows, y, callback=lambda at, *_: times.append((at, time.perf_counter())))
    (first, began), (last, ended) = times[0], times[-1]
    row = {
        "rows": f"{options.rows:,} × {options.dim}",
        "matrix MB": 4e-6 * options.rows * options.dim,
        "codes MB": rows.nbytes / 1e6,
        "before MB": before.resident,
        "peak MB": peak.resident,
        "compress s": packed,
        "steps/s, validation and all": (last - first) / (ended - began),
        "score at the start and best": [round(float(s), 4) for s in (model.curve_[0, 2], model.curve_[:, 2].max())],
    }
    short = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
    print(json.dumps(short) if options.json else "\n".join(f"{key:30} {value}" for key, value in short.items()))


if __name__ == "__main__":
    main()
