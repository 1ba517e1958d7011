"""Speed of open-ended classes, by default with 10,000 classes of random vectors.

    python benchmarks/classes_speed.py [--cases predict,add,verbs,opened] [--classes 10000] [--dims 64,1280]
                                       [--rows 4000] [--kinds ncm,second] [--repeats 9] [--json]

Cases:

predict  prediction of float32 rows, as a share of the throughput of one float32 matrix product of the same shape
add      adding a class of 100 images, without and with one prediction after it; median and worst time
verbs    adding an image, removing it, renaming a class, merging two classes and splitting them again
opened   opening a collection with two pictures per class and classifying one picture: without and with the snapshot of
         the class model, with the snapshot after one more label, and one more label in a collection that is open
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from lookalike.classes.open_set import OpenSet
from lookalike.collection.class_model import ClassModel
from lookalike.collection.space import Spaces
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.types import Vectors

IMAGES = 100
"""Number of images of a new class."""


def main() -> None:
    """Run the selected cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--classes", type=int, default=10_000)
    parser.add_argument("--dims", default="64,1280")
    parser.add_argument("--rows", type=int, default=4_000)
    parser.add_argument("--kinds", default="ncm,second")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print one JSON object per line")
    options = parser.parse_args()
    for dim in map(int, options.dims.split(",")):
        for kind in options.kinds.split(","):
            model = fitted_model(kind, options.classes, dim)
            for case in options.cases.split(","):
                for row in CASES[case](model, dim, options):
                    row = {"case": case, "kind": kind, "classes": options.classes, "dim": dim, **row}
                    short = {k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in row.items()}
                    print(json.dumps(short) if options.json else "  ".join(f"{k} {v}" for k, v in short.items()))


def predict(model: OpenSet, dim: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time predictions and a matrix product, in turns."""
    X, W = random_rows(options.rows, dim, 1), random_rows(len(model.classes_), dim, 2)
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
    """Time adding classes, one after another."""
    alone, ready = [], []
    for i in range(3 * options.repeats):
        X = random_rows(IMAGES, dim, 10 + i)
        start = time.perf_counter()
        model.add_class(f"new {i}", X)
        alone.append(time.perf_counter() - start)
        model.predict(X[:1])
        ready.append(time.perf_counter() - start)
    for i in range(3 * options.repeats):
        model.delete(f"new {i}", random_rows(IMAGES, dim, 10 + i))
    yield {
        "add ms": 1e3 * statistics.median(alone),
        "worst": 1e3 * max(alone),
        "add and predict ms": 1e3 * statistics.median(ready),
        "worst add and predict": 1e3 * max(ready),
    }


def verbs(model: OpenSet, dim: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time the other operations, and undo them."""
    times: dict[str, list[float]] = {name: [] for name in ("partial_fit", "remove", "rename", "merge", "split")}
    for i in range(3 * options.repeats):
        X = random_rows(2, dim, 100 + i)
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


def opened(model: OpenSet, dim: int, options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Time opening a collection as a new process would, without the time to load libraries."""
    ids = np.arange(2 * options.classes, dtype=np.int64)
    centres = random_rows(options.classes, dim, 5)
    X = centres[ids % options.classes] + random_rows(len(ids), dim, 6) / 2
    with tempfile.TemporaryDirectory() as folder:
        store = Store(Path(folder) / "c", create=True)
        with store.writer():
            with store.transaction():
                store.vectors.create_space("color()", ["color()"])
                store.vectors.create_space("plain", ["color()"], "color()")
            pending = store.vectors.write("color()", ids, X)
            with store.transaction():
                store.items.add([Item(item, [], 1, 8, 8, "png", 0.0, None) for item in ids.tolist()])
                store.vectors.commit(pending)
        store.judgements.classes.update_settings(kind=model.kind)
        names = [(item, f"class {item % options.classes}") for item in ids.tolist()[:-1]]
        store.judgements.add_labels(names, author="bench", source="hand")

        def ask(label: tuple[int, str] | None = None, opened_model: ClassModel | None = None) -> ClassModel:
            if label:
                store.judgements.add_labels([label], author="bench", source="hand")
            classes = opened_model or ClassModel(Spaces(store))
            classes.predict(X[:1])
            return classes

        first = clock(ask)  # also writes the snapshot
        times = interleave({"snapshot": ask}, 3)["snapshot"]
        after = clock(lambda: ask((int(ids[-1]), "class 0")))
        mine = ask()
        again = [clock(lambda i=i: ask((int(ids[i]), "class 1"), mine)) for i in range(2, 5)]
        size = store.class_snapshot_file.stat().st_size
        store.close()
    yield {
        "all labels read s": first,
        "from the snapshot s": statistics.median(times),
        "after one more label s": after,
        "one more label, still open ms": 1e3 * statistics.median(again),
        "snapshot MB": size / 1e6,
    }


CASES = {"predict": predict, "add": add, "verbs": verbs, "opened": opened}


def fitted_model(kind: str, classes: int, dim: int) -> OpenSet:
    """Return a model with two images per class, after a first prediction."""
    model = OpenSet(kind)
    names = np.array([f"class {i}" for i in range(classes)])
    for seed in range(2):
        model.partial_fit(random_rows(classes, dim, 1_000 + seed), names)
    model.predict(random_rows(1, dim, 0))
    return model


def random_rows(n: int, dim: int, seed: int) -> Vectors:
    """Return random rows of unit length, (n, dim) float32."""
    X = np.random.default_rng(seed).standard_normal((n, dim), np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def interleave(runs: dict[str, Callable[[], object]], repeats: int) -> dict[str, list[float]]:
    """Return the seconds of each run, timed in turns, so that other load affects all of them equally."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    for _ in range(repeats):
        for name, run in runs.items():
            times[name].append(clock(run))
    return times


def clock(run: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
