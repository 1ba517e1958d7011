"""What open-ended classes cost at 10,000 classes, beside what bounds it, in one run.

    python benchmarks/classes_speed.py [--cases predict,add,verbs] [--classes 10000] [--dims 64,1280] [--rows 4000]
                                       [--kinds ncm,second] [--repeats 9] [--json]

predict: labels of float32 rows as a share of the throughput of one bare float32 product of the same shape, both with
the same memory. add: a new class of 100 images, as a user adds one after another, without and with the prediction of
one image after it; median and worst. verbs: one image more, one taken back, a class renamed, two merged, and split
again. Rows are random.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from lookalike.classes.open_set import OpenSet
from lookalike.types import Vectors

IMAGES = 100
"""Images of a new class."""


def main() -> None:
    """Run the cases that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--dims", default="64,1280")
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--kinds", default="ncm,second")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    for dim in map(int, options.dims.split(",")):
        for kind in options.kinds.split(","):
            model = grown(kind, options.classes, dim)
            for case in options.cases.split(","):
                for row in CASES[case](model, dim, options):
                    row = {"case": case, "kind": kind, "classes": options.classes, "dim": dim, **row}
                    short = {k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in row.items()}
                    print(json.dumps(short) if options.json else "  ".join(f"{k} {v}" for k, v in short.items()))


def predict(model: OpenSet, dim: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Labels and a product, in turns."""
    X, W = draw(options.rows, dim, 1), draw(len(model.classes_), dim, 2)
    out = np.empty((len(X), len(W)), np.float32)
    runs: dict[str, Callable[[], object]] = {
        "product": lambda: np.matmul(X, W.T, out=out),
        "predict": lambda: model.predict(X),
        "predict_proba": lambda: model.predict_proba(X),
    }
    times = interleave(runs, options.repeats)
    shares = [bare / ours for bare, ours in zip(times["product"], times["predict"], strict=True)]
    yield {
        "product ms": 1e3 * statistics.median(times["product"]),
        "predict ms": 1e3 * statistics.median(times["predict"]),
        "predict_proba ms": 1e3 * statistics.median(times["predict_proba"]),
        "share of throughput": statistics.median(shares),
        "least": min(shares),
    }


def add(model: OpenSet, dim: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """New classes, one after another."""
    alone, ready = [], []
    for i in range(3 * options.repeats):
        X = draw(IMAGES, dim, 10 + i)
        start = time.perf_counter()
        model.add_class(f"new {i}", X)
        alone.append(time.perf_counter() - start)
        model.predict(X[:1])
        ready.append(time.perf_counter() - start)
    for i in range(3 * options.repeats):
        model.delete(f"new {i}", draw(IMAGES, dim, 10 + i))
    yield {
        "add ms": 1e3 * statistics.median(alone),
        "worst": 1e3 * max(alone),
        "add and predict ms": 1e3 * statistics.median(ready),
        "worst of these": 1e3 * max(ready),
    }


def verbs(model: OpenSet, dim: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """The other verbs, and back again."""
    times: dict[str, list[float]] = {name: [] for name in ("partial_fit", "remove", "rename", "merge", "split")}
    for i in range(3 * options.repeats):
        X = draw(2, dim, 100 + i)
        model.add_class("one", X[:1]).add_class("other", X[1:])
        for name, run in {
            "partial_fit": lambda X=X: model.partial_fit(X[1:], ["one"]),
            "remove": lambda X=X: model.remove(X[1:], ["one"]),
            "rename": lambda: model.rename("one", "first"),
            "merge": lambda: model.merge("first", "other"),
            "split": lambda X=X: model.split("first", "other", X[1:]),
        }.items():
            times[name].append(clock(run))
        model.delete("first", X[:1]).delete("other", X[1:])
    yield {f"{name} ms": 1e3 * statistics.median(found) for name, found in times.items()}


CASES = {"predict": predict, "add": add, "verbs": verbs}


def grown(kind: str, classes: int, dim: int) -> OpenSet:
    """A model of so many classes of two images each, that has predicted before."""
    model = OpenSet(kind)
    names = np.array([f"class {i}" for i in range(classes)])
    for seed in range(2):
        model.partial_fit(draw(classes, dim, 1_000 + seed), names)
    model.predict(draw(1, dim, 0))
    return model


def draw(n: int, dim: int, seed: int) -> Vectors:
    """Unit rows, (n, dim) float32."""
    X = np.random.default_rng(seed).standard_normal((n, dim), np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def interleave(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Seconds of each run, taken in turns, so that whatever else the machine does hits all alike."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
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
