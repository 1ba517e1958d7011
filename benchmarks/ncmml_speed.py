"""NCMML's speed: a step beside its bare matrix products, and training beside scikit-learn's NCA.

    python benchmarks/ncmml_speed.py [--cases step,peer] [--shape 1000,1000,4096,128] [--device cpu] [--repeats 9]
                                     [--dim 16] [--json]

step: a gradient step (batch, classes, d, D) as a share of the throughput of the products it cannot do without: rows
and means projected, their scores, and the same backwards. peer: `NeighborhoodComponentsAnalysis`, from its PCA start,
on two thirds of scikit-learn's digits, scaled to unit variance; then NCMML with 0, 5, 10, 20 … steps until the other
third is classified at least as well, by class means and by the nearest neighbour. Times are the least of three fits.
`--device cuda` runs step on a GPU.
"""

import argparse
import json
import statistics
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.neighbors import KNeighborsClassifier, NeighborhoodComponentsAnalysis
from sklearn.preprocessing import StandardScaler
from slem_speed import clock, interleave, on_device

from lookalike.learn.likelihood import euclidean
from lookalike.learn.ncmml import Ncmml


def main() -> None:
    """Run the cases that the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", default=",".join(CASES))
    parser.add_argument("--shape", default="1000,1000,4096,128", help="batch,classes,d,D")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dim", type=int, default=16, help="of the peer case")
    parser.add_argument("--json", action="store_true", help="one JSON object per line")
    options = parser.parse_args()
    for case in options.cases.split(","):
        for row in CASES[case](options):
            short = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
            print(json.dumps(short) if options.json else "  ".join(f"{k} {v}" for k, v in short.items()), flush=True)


def step(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """A step and its products, in turns."""
    b, C, d, D = map(int, options.shape.split(","))
    random = np.random.default_rng(0)
    drawn = [random.standard_normal((m, d), np.float32) for m in (D, b, C)]
    W, X, means = (on_device(part, options.device)[0] for part in drawn)
    W /= d**0.5
    y, xp, wait = on_device(random.integers(0, C, b), options.device)
    centre = X[0]
    run = euclidean(means, centre)
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
    yield {
        "case": f"step b={b} C={C} d={d} D={D} {options.device}",
        "products ms": 1e3 * statistics.median(times["products"]),
        "step ms": 1e3 * statistics.median(times["step"]),
        "share of throughput": statistics.median(shares),
        "least": min(shares),
        "most": max(shares),
        "GFLOP/s of the step": flops / statistics.median(times["step"]) / 1e9,
    }


def peer(options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """What NCA reaches, and when NCMML reaches it, by two rules."""
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    train, held = order[: len(X) * 2 // 3], order[len(X) * 2 // 3 :]
    X = StandardScaler().fit(X[train]).transform(X).astype(np.float32)

    def fit(model: Any) -> tuple[float, dict[str, float]]:
        seconds = min(clock(lambda: model.fit(X[train], y[train])) for _ in range(3))
        Z, T = model.transform(X[train]), model.transform(X[held])
        means = np.stack([Z[y[train] == c].mean(axis=0) for c in range(10)])
        rules = {
            "class means": KNeighborsClassifier(1).fit(means, np.arange(10)),
            "1-nn": KNeighborsClassifier(1).fit(Z, y[train]),
        }
        return seconds, {name: float(rule.score(T, y[held])) for name, rule in rules.items()}

    theirs, goal = fit(NeighborhoodComponentsAnalysis(options.dim, init="pca", random_state=0))
    runs = {n: fit(Ncmml(options.dim, max_iterations=n, validation=0)) for n in (0, 5, 10, 20, 50, 100, 200, 500)}
    for rule, wanted in goal.items():
        steps, ours = next(((n, s) for n, (s, scores) in runs.items() if scores[rule] >= wanted), (None, None))
        yield {
            "case": f"peer digits {len(train)} × 64 to {options.dim}, by {rule}",
            "nca": wanted,
            "nca s": theirs,
            "ncmml at best": max(scores[rule] for _, scores in runs.values()),
            "ncmml steps to nca's": steps,
            "ncmml s": ours,
            "times as fast": theirs / ours if ours else None,
        }


CASES = {"step": step, "peer": peer}


if __name__ == "__main__":
    main()
