"""Speed of DFK on a GPU, by default with 25,000 synthetic pictures of 100 descriptors.

    python benchmarks/dfk_gpu.py [--device cuda] [--items 25000] [--rows 100] [--d 64] [--k 256] [--batch 2000]
                                 [--steps 24] [--peak 67] [--tf32] [--json]

Prints the steps per second; the share of the throughput of the matrix products alone, timed in turns with the steps;
the share of the peak of the GPU (--peak in TFLOP/s; 67 is an H200 in float32 without tensor cores); the peak memory;
and the objective before and after training, on held-out pictures. Use --rows 1 for vectors. All data is generated on
the device. A small run on the CPU: --device cpu --items 600 --rows 5 --d 8 --k 8 --batch 100 --steps 4
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from lookalike.features.clustering import Mixture
from lookalike.learn.dfk import Objective
from lookalike.learn.sets import Sets, take
from lookalike.learn.training import Adam

CLASSES, WORDS, OWN = 50, 1_000, 40


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name, default in {"items": 25_000, "rows": 100, "d": 64, "k": 256, "batch": 2_000, "steps": 24}.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--peak", type=float, default=67.0, help="peak throughput of the device in TFLOP/s")
    parser.add_argument("--tf32", action="store_true", help="allow tensor cores (TF32, 10-bit mantissa) for products")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = options.tf32
    row = measure(options)
    short = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
    print(json.dumps(short) if options.json else "\n".join(f"{key:34} {value}" for key, value in short.items()))


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Time training steps and their matrix products, and evaluate the objective."""
    n, m, d, k, b = options.items, options.rows, options.d, options.k, options.batch
    X, y, words = generate(n, m, d, options.device)
    first = Objective(Mixture(np.full(k, 1 / k), words[:k], np.ones((k, d))), "all")
    random = np.random.default_rng(0)
    order, held = np.arange(n - b), np.arange(n - b, n)
    (parameters, scale), adam = first.start(*take(X, order[:b])), Adam()
    before = -float(first.step(parameters, *take(X, held), y[held], scale)[0])
    bare = products(b, m, d, k, options.device)
    seconds: dict[str, list[float]] = {"step": [], "products": []}
    for done in range(options.steps + 2):
        chosen = np.sort(random.choice(order, b, replace=False))
        start = clock(options.device)
        _, gradient = first.step(parameters, *take(X, chosen), y[chosen], scale)
        parameters = parameters - 0.03 * adam(gradient)
        middle = clock(options.device)
        bare()
        end = clock(options.device)
        if done > 1:  # the first two are warm-up
            seconds["step"].append(middle - start)
            seconds["products"].append(end - middle)
    step, shares = statistics.median(seconds["step"]), np.divide(seconds["products"], seconds["step"])
    P = k * (2 * d + 1)
    flops = 4 * b * b * P + 2 * b * m * P * (4 if m > 1 else 2)
    found: dict[str, Any] = {
        "case": f"n={n} rows={m} d={d} k={k} batch={b} {options.device}{' tf32' if options.tf32 else ''}",
        "steps per second": 1 / step,
        "pictures per second": b / step,
        "ms per step": 1e3 * step,
        "share of products": float(np.median(shares)),
        "least": float(shares.min()),
        "most": float(shares.max()),
        "TFLOP/s": flops / step / 1e12,
        f"share of {options.peak:g} TFLOP/s": flops / step / 1e12 / options.peak,
        "objective before": before,
        "objective after": -float(first.step(parameters, *take(X, held), y[held], scale)[0]),
    }
    if options.device != "cpu":
        found["peak memory, GB"] = torch.cuda.max_memory_allocated() / 1e9
        found["descriptors, GB"] = 4 * n * m * d / 1e9
    return found


def generate(n: int, m: int, d: int, device: str) -> tuple[Any, torch.Tensor, np.ndarray]:
    """Return synthetic pictures, their labels and the words; half of a picture consists of words of its class."""
    torch.manual_seed(0)
    words = 2 * torch.randn(WORDS, d, device=device)
    own = torch.randint(WORDS, (CLASSES, OWN), device=device)
    y = torch.arange(n, device=device) % CLASSES
    X = torch.empty(n * m, d, device=device)
    for start in range(0, n, 1_000):
        labels = y[start : start + 1_000]
        mine = own[labels[:, None], torch.randint(OWN, (len(labels), m), device=device)]
        any_word = torch.randint(WORDS, mine.shape, device=device)
        chosen = torch.where(torch.rand(mine.shape, device=device) < 0.5, mine, any_word).flatten()
        X[start * m : start * m + len(chosen)] = words[chosen] + torch.randn(len(chosen), d, device=device)
    return (X if m == 1 else Sets(X, np.arange(0, n * m + 1, m))), y, words.cpu().numpy().astype(np.float64)


def products(b: int, m: int, d: int, k: int, device: str) -> Callable[[], None]:
    """Return a function that computes only the matrix products of a step."""
    c = 2 * d + 1
    shapes = ((c, b * m), (k, c), (k * c, b), (b, b), (k, b * m), (b, k, c), (b, c, m), (b, k, m))
    Y, W, U, M, g, S, Z, G = (torch.randn(shape, device=device) for shape in shapes)

    def run() -> None:
        W @ Y  # log-densities
        U.T @ U  # distances
        U @ M  # gradient by scores
        if m > 1:
            G @ Z.mT  # sums of each item
            S @ Z  # gradient by posteriors
        g @ Y.T  # gradient by the mixture

    return run


def clock(device: str) -> float:
    """Wait for the device and return the time."""
    if device != "cpu":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    main()
