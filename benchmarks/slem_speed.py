"""Compare the speed of SLEM with a plain matrix product, an exemplar SVM and a plain Cholesky, in one run.

    python benchmarks/slem_speed.py [--cases linear,slope,esvm,full,icd] [--dim 1280] [--full 3000,8000,15000]
                                    [--device cpu] [--repeats 9] [--json]

linear: throughput of encoding relative to one plain float32 product of the same shape. slope: time to encode the same
vectors by the number of negatives, and the slope of the fitted line. esvm: one LinearSVC per vector with 15,000
negatives, compared with linear encoding. full: the fit at full rank, compared with a Cholesky of a matrix of that size.
icd: 100,000 negatives at rank 32, time and additional memory (K would be 80 GB). Vectors are synthetic, of length one,
with a decreasing spectrum. `--device cuda` runs linear and full on a GPU.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from memory import Peak

from lookalike.arrays import cholesky
from lookalike.encode.esvm import Esvm
from lookalike.encode.kernel_slem import KernelSlem
from lookalike.encode.slem import Slem
from lookalike.types import Array, Vectors

ROWS = 20_000
"""Number of vectors for timing linear encoding."""
POOL = 15_000
"""Number of negatives in the paper."""


def main() -> None:
    """Run the cases given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--dim", type=int, default=1280)
    parser.add_argument("--full", default="3000,8000,15000", help="numbers of negatives at full rank; 15,000 need 8 GB")
    parser.add_argument("--device", default="cpu", help="cuda: run linear and full on a GPU with torch")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    for case in options.cases.split(","):
        for row in CASES[case](options):
            short = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
            print(json.dumps(short) if options.json else "  ".join(f"{k} {v}" for k, v in short.items()), flush=True)


def linear(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Alternate encoding and a matrix product."""
    X, xp, wait = on_device(draw(ROWS, options.dim), options.device)
    slem = Slem(lam=1e-3).fit(X[:5_000])
    W, wide = X[: options.dim], xp.empty_like(X)

    def product() -> None:
        xp.matmul(X, W, out=wide)
        wait()

    def encode() -> None:
        slem.transform(X)
        wait()

    times = interleave({"product": product, "encode": encode}, options.repeats)
    shares = [bare / ours for bare, ours in zip(times["product"], times["encode"], strict=True)]
    yield {
        "case": f"linear {ROWS:,} × {options.dim}",
        "product ms": 1e3 * statistics.median(times["product"]),
        "encode ms": 1e3 * statistics.median(times["encode"]),
        "share of throughput": statistics.median(shares),
        "least": min(shares),
        "most": max(shares),
    }


def slope(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time to encode with n = 1,000 to 64,000 negatives, alternating."""
    X = draw(5_000, options.dim)
    sizes = [1_000, 4_000, 16_000, 64_000]
    fitted = {n: Slem(lam=1e-3).fit(draw(n, options.dim)) for n in sizes}
    runs = {str(n): (lambda slem=slem: slem.transform(X)) for n, slem in fitted.items()}
    medians = [1e3 * statistics.median(found) for found in interleave(runs, options.repeats).values()]
    per_negative = float(np.polyfit(sizes, medians, 1)[0])
    yield {
        "case": "slope",
        **{f"n={n:,} ms": value for n, value in zip(sizes, medians, strict=True)},
        "slope, share of the time per 10,000 negatives": 1e4 * per_negative / statistics.mean(medians),
    }


def esvm(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Encode three vectors with LinearSVC and ROWS vectors with SLEM."""
    negatives, X = draw(POOL, options.dim), draw(ROWS, options.dim)
    slow, quick = Esvm(lam=1e-2).fit(negatives), Slem(lam=1e-2).fit(negatives)
    times = [clock(lambda i=i: slow.transform(X[i : i + 1])) for i in range(3)]
    batch = statistics.median(interleave({"linear": lambda: quick.transform(X)}, 5)["linear"])
    yield {
        "case": f"esvm n={POOL:,}",
        "esvm s/row": statistics.median(times),
        "linear µs/row": 1e6 * batch / ROWS,
        "times as fast": statistics.median(times) / (batch / ROWS),
    }


def full(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Alternate the fit at full rank and a Cholesky of a matrix of that size, both in float64."""
    for n in map(int, options.full.split(",")):
        rows = draw(n, options.dim)
        X, _, wait = on_device(rows, options.device)
        K, _, _ = on_device((rows @ rows.T + 0.1 * np.eye(n, dtype=np.float32)).astype(np.float64), options.device)
        slem = KernelSlem("gaussian", gamma=1.0, lam=1e-3, rank=None)

        def bare(K: Array = K, wait: Callable[[], None] = wait) -> None:
            cholesky(K + 0)  # copies K, because it can work in place; the copy takes a hundredth of the time
            wait()

        def fit(X: Array = X, slem: KernelSlem = slem, wait: Callable[[], None] = wait) -> None:
            slem.fit(X)
            wait()

        times = interleave({"cholesky": bare, "fit": fit}, 3 if n < 10_000 else 1, warm=n < 10_000)
        ratios = [ours / theirs for ours, theirs in zip(times["fit"], times["cholesky"], strict=True)]
        yield {
            "case": f"full n={n:,} d={options.dim} {options.device}",
            "cholesky s": statistics.median(times["cholesky"]),
            "fit s": statistics.median(times["fit"]),
            "fit / cholesky": statistics.median(ratios),
        }


def icd(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Fit with incomplete Cholesky."""
    X = draw(100_000, options.dim)
    with Peak() as before:
        time.sleep(0.2)
    start = time.perf_counter()
    with Peak() as peak:
        KernelSlem("gaussian", gamma=1.0, lam=1e-3, factor="icd", rank=32).fit(X)
    yield {
        "case": f"icd n=100,000 r=32 d={options.dim}",
        "fit s": time.perf_counter() - start,
        "peak MB above the rows": peak.resident - before.resident,
        "K would be MB": 8e4,
    }


CASES = {"linear": linear, "slope": slope, "esvm": esvm, "full": full, "icd": icd}


def draw(n: int, dim: int) -> Vectors:
    """Synthetic unit vectors with a decreasing spectrum, (n, dim) float32."""
    X = np.random.default_rng(n).standard_normal((n, dim), np.float32)
    X *= (1 + np.arange(dim, dtype=np.float32)) ** -0.5
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X


def on_device(X: Vectors, device: str) -> tuple[Array, Any, Callable[[], None]]:
    """X on a device, its namespace, and a function that waits for the device."""
    if device == "cpu":
        return X, np, lambda: None
    import torch

    return torch.asarray(X, device=device), torch, torch.cuda.synchronize


def interleave(runs: dict[str, Callable[[], object]], repeats: int, warm: bool = True) -> dict[str, list[float]]:
    """Seconds of each run. Runs alternate, so that other load on the machine affects all of them equally."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values() if warm else ():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(clock(run))
    return times


def clock(run: Callable[[], object]) -> float:
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
