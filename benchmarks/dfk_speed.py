"""Speed of DFK: an epoch relative to its matrix products, the slope of its time against n, and its memory.

    python benchmarks/dfk_speed.py [--cases share,slope,memory] [--items 3500] [--k 60] [--batch 500] [--repeats 5]
                                   [--shapes 128x1,64x1,64x100] [--torch] [--json]

A shape is columns x rows per item: 128x1 are vectors, 64x100 sets of 100 descriptors. Rows are synthetic. Cases:

share   an epoch (reading batches, steps, Adam) as a share of the throughput of its matrix products alone:
        log-densities, their sums by item, distances, and the gradients by scores, posteriors and the mixture
slope   slope of log time against log n; 1 is linear
memory  peak memory of an epoch, divided by the bytes of the scores and rows of one batch
"""

import argparse
import json
import statistics
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from slem_speed import clock, interleave

from lookalike.features.clustering import Mixture
from lookalike.learn.dfk import Objective
from lookalike.learn.sets import Sets, take
from lookalike.learn.training import Adam, train


def main() -> None:
    """Run the selected cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--items", type=int, default=3_500)
    parser.add_argument("--k", type=int, default=60)
    parser.add_argument("--batch", type=int, default=500)
    parser.add_argument("--shapes", default="128x1,64x1,64x100", help="columns x rows per item")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--torch", action="store_true", help="use torch on the CPU")
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args()
    for case in options.cases.split(","):
        for shape in options.shapes.split(","):
            for row in CASES[case](options, *map(int, shape.split("x"))):
                short = {key: float(f"{one:.4g}") if isinstance(one, float) else one for key, one in row.items()}
                print(
                    json.dumps(short) if options.json else "  ".join(f"{k} {v}" for k, v in short.items()), flush=True
                )


def share(options: argparse.Namespace, d: int, m: int) -> Iterator[dict[str, Any]]:
    """Time epochs, each step in turns with its products, so that other load affects both equally."""
    n, k, b = options.items, options.k, min(options.batch, options.items)
    steps, P = n // b, k * (2 * d + 1)
    bare, seconds = products(b, d, m, k, options.torch), {"products": 0.0, "steps": 0.0}
    shares = []
    for done in range(options.repeats + 1):
        now = {"products": 0.0, "steps": 0.0}

        def time_products(now: dict[str, float] = now) -> None:
            now["products"] += clock(bare)

        now["steps"] = clock(epoch(n, d, m, k, b, options.torch, time_products)) - now["products"]
        if done:  # the first one is warm-up
            shares.append(now["products"] / now["steps"])
            seconds = {name: seconds[name] + now[name] / options.repeats for name in now}
    yield {
        "case": f"share n={n} k={k} d={d} rows={m} batch={b}{' torch' if options.torch else ''}",
        "products s": seconds["products"],
        "epoch s": seconds["steps"],
        "share of throughput": statistics.median(shares),
        "least": min(shares),
        "most": max(shares),
        "GFLOP": steps * (4 * b * b * P + 2 * b * m * P * (4 if m > 1 else 2)) / 1e9,
    }


def slope(options: argparse.Namespace, d: int, m: int) -> Iterator[dict[str, Any]]:
    """Time epochs with the same batch size and increasing numbers of items."""
    b, k = min(options.batch, 250), options.k
    sizes = [b * factor for factor in (2, 4, 8, 16)]
    runs = {str(n): epoch(n, d, m, k, b, options.torch) for n in sizes}
    times = interleave(runs, options.repeats)
    seconds = [min(times[str(n)]) for n in sizes]
    fitted = np.polyfit(np.log(sizes), np.log(seconds), 1)[0]
    yield {"case": f"slope k={k} d={d} rows={m} batch={b} n={sizes}", "slope": float(fitted)}


def memory(options: argparse.Namespace, d: int, m: int) -> Iterator[dict[str, Any]]:
    """Measure the peak memory of Python and NumPy without the rows themselves."""
    b, k = min(options.batch, 250), options.k
    held = 4 * b * (k * (2 * d + 1) + (m * (d + k) if m > 1 else 0))
    for n in (4 * b, 16 * b):
        tracemalloc.start()  # before the epoch, because a step reuses the memory of the previous one
        epoch(n, d, m, k, b, options.torch)()
        peak = tracemalloc.get_traced_memory()[1] - 4 * n * m * d
        tracemalloc.stop()
        yield {
            "case": f"memory n={n} k={k} d={d} rows={m} batch={b}",
            "peak / scores and rows": peak / held,
        }


def epoch(
    n: int, d: int, m: int, k: int, batch: int, torch: bool, after: Callable[[], None] = lambda: None
) -> Callable[[], object]:
    """Return a function that trains one epoch as `Dfk.fit` does; `after` is called in each step."""
    random = np.random.default_rng(0)
    rows = random.standard_normal((n * m, d), np.float32)
    y = np.arange(n) % 50
    first = Objective(mixture(k, d), "all")
    if torch:
        rows = _torch().from_numpy(rows)
    X = rows if m == 1 else Sets(rows, np.arange(0, n * m + 1, m))
    start, scale = first.start(*take(X, np.arange(batch)))

    def step(parameters: Any, _: Any, numbers: Any) -> tuple[Any, Any]:
        chosen = np.asarray(numbers)
        labels = y[chosen]
        after()
        return first.step(parameters, *take(X, chosen), _torch().from_numpy(labels) if torch else labels, scale)

    def run() -> None:
        train(
            start, step, np.empty((n, 0)), np.arange(n), rate=0.01, batch=batch, max_iterations=n // batch,
            validate=None, every=10**6, patience=1, seed=0, condition=Adam(),
        )  # fmt: skip

    return run


def products(b: int, d: int, m: int, k: int, torch: bool) -> Callable[[], object]:
    """Return a function that computes only the matrix products of a step."""
    random, c = np.random.default_rng(0), 2 * d + 1
    shapes = {"Y": (b * m, c), "W": (c, k), "V": (b, k * c), "L": (b, b), "E": (b * m, k), "S": (b, k, c)}
    arrays: Any = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    if torch:
        arrays = {name: _torch().from_numpy(one) for name, one in arrays.items()}
    Y, W, V, L, E, S = (arrays[name] for name in shapes)
    by_item, rows_of = E.reshape(b, m, k).swapaxes(1, 2), Y.reshape(b, m, c)

    def run() -> None:
        Y @ W  # log-densities
        V @ V.T  # distances
        L @ V  # gradient by scores
        if m > 1:
            by_item @ rows_of  # sums of each item
            rows_of @ S.swapaxes(1, 2)  # gradient by posteriors
        E.T @ Y  # gradient by the mixture

    return run


def mixture(k: int, d: int) -> Mixture:
    """Return a mixture of Gaussians that overlap, so that each has some of the rows."""
    random = np.random.default_rng(1)
    return Mixture(np.full(k, 1 / k), random.normal(size=(k, d)) * 0.5, np.ones((k, d)))


def _torch() -> Any:
    import torch

    return torch


CASES = {"share": share, "slope": slope, "memory": memory}


if __name__ == "__main__":
    main()
