"""LMNN on the digits of scikit-learn (1,797 × 64, dim 32): seconds to fit and k-NN accuracy, beside metric-learn's.

metric-learn 0.7 does not run on today's scikit-learn. Give it an environment of its own, and its Python here:

    python3 -m venv /tmp/peer && /tmp/peer/bin/pip install "scikit-learn==1.7.2" metric-learn==0.7.0
    python benchmarks/lmnn_speed.py --peer /tmp/peer/bin/python

Both sides get the same rows and the same splits, as float64, on one thread; the time is that of `fit` alone, with all
that it does to stop. Each split's accuracy is that of 3-NN on the part that neither side saw.
"""

import argparse
import json
import os
import subprocess
import sys
import time
import warnings

THREADS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


def measure(side: str, splits: int) -> list[dict[str, float]]:
    """Fit each split; runs in the environment of one side, so it imports nothing that the other lacks."""
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
    from sklearn.neighbors import KNeighborsClassifier

    warnings.simplefilter("ignore")
    X, y = load_digits(return_X_y=True)
    found = []
    for seed in range(splits):
        A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
        metric = make(side)
        start = time.perf_counter()
        metric.fit(A, a)
        seconds = time.perf_counter() - start
        accuracy = KNeighborsClassifier(3).fit(metric.transform(A), a).score(metric.transform(B), b)
        plain = KNeighborsClassifier(3).fit(A, a).score(B, b)
        found.append({"seconds": seconds, "accuracy": accuracy, "l2": plain})
    return found


def make(side: str):
    if side == "metric-learn":
        from metric_learn import LMNN

        return LMNN(n_neighbors=3, n_components=32, init="pca")
    from lookalike.learn.lmnn import Lmnn

    return Lmnn(dim=32, k=3, targets=side)


def asked(python: str, side: str, splits: int) -> list[dict[str, float]]:
    command = [python, __file__, "--side", side, "--splits", str(splits)]
    result = subprocess.run(command, env=os.environ | THREADS, stdout=subprocess.PIPE, check=True)
    return json.loads(result.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peer", help="the Python of an environment with metric-learn")
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--side", help="measure this side here and print JSON")
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measure(options.side, options.splits)))
        return
    rows = {f"lmnn {side}": asked(sys.executable, side, options.splits) for side in ("dynamic", "fixed", "all")}
    if options.peer:
        rows["metric-learn"] = asked(options.peer, "metric-learn", options.splits)
    print(f"{'':14} {'seconds':>8} {'accuracy':>9}   (mean of {options.splits} splits)")
    print(f"{'l2':14} {'':8} {mean(rows['lmnn dynamic'], 'l2'):9.4f}")
    for name, row in rows.items():
        print(f"{name:14} {mean(row, 'seconds'):8.2f} {mean(row, 'accuracy'):9.4f}")
    if options.peer:
        ratio = mean(rows["metric-learn"], "seconds") / mean(rows["lmnn dynamic"], "seconds")
        print(f"dynamic is {ratio:.1f} × as fast as metric-learn")


def mean(rows: list[dict[str, float]], name: str) -> float:
    return sum(row[name] for row in rows) / len(rows)


if __name__ == "__main__":
    main()
