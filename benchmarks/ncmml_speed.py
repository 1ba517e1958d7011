"""Speed of NCMML: a gradient step relative to its matrix products.

    python benchmarks/ncmml_speed.py [--shape 1000,1000,4096,128] [--device cpu] [--repeats 9] [--json]

Prints the throughput of a gradient step (batch, classes, d, D) as a share of that of its matrix products alone: the
projection of rows and means, their scores, and the gradients of both. `--device cuda` uses a GPU. To compare training
with scikit-learn's NCA, run `lookalike bench run peers`.
"""

import argparse
import json
import statistics
from typing import Any

import numpy as np
from slem_speed import interleave, on_device

from lookalike.learn.ncmml import likelihood_step


def main() -> None:
    """Measure a step of the given shape."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shape", default="1000,1000,4096,128", help="batch,classes,d,D")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    row = step(options)
    short = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
    print(json.dumps(short) if options.json else "  ".join(f"{k} {v}" for k, v in short.items()), flush=True)


def step(options: argparse.Namespace) -> dict[str, Any]:
    """Time a step and its products, in turns."""
    b, C, d, D = map(int, options.shape.split(","))
    random = np.random.default_rng(0)
    arrays = [random.standard_normal((m, d), np.float32) for m in (D, b, C)]
    W, X, means = (on_device(part, options.device)[0] for part in arrays)
    W /= d**0.5
    y, xp, wait = on_device(random.integers(0, C, b), options.device)
    centre = X[0]
    run = likelihood_step(means, None, centre)
    P, M, A = X @ W.T, means @ W.T, X[:, :1] @ means[:, :1].T  # (b, D), (C, D), (b, C)

    def products() -> None:
        xp.matmul(X, W.T)
        xp.matmul(means, W.T)
        xp.matmul(P, M.T)
        xp.matmul(A, M)
        xp.matmul(A.T, P)
        xp.matmul(P.T, X)
        xp.matmul(M.T, means)
        wait()

    def whole() -> None:
        run(W, X, y)
        wait()

    times = interleave({"products": products, "step": whole}, options.repeats)
    shares = [bare / ours for bare, ours in zip(times["products"], times["step"], strict=True)]
    flops = 4 * D * d * (b + C) + 6 * b * C * D
    return {
        "case": f"step b={b} C={C} d={d} D={D} {options.device}",
        "products ms": 1e3 * statistics.median(times["products"]),
        "step ms": 1e3 * statistics.median(times["step"]),
        "share of throughput": statistics.median(shares),
        "least": min(shares),
        "most": max(shares),
        "GFLOP/s of the step": flops / statistics.median(times["step"]) / 1e9,
    }


if __name__ == "__main__":
    main()
