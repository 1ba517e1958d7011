"""Validation errors by which the defaults of the trained metrics were chosen.

    python benchmarks/metric_choices.py --data DIR [--sets corel5k-deep,cifar10-deep,mnist]
                                        [--methods ncmml,lmnn,lmnn-all,lmnn-dynamic,wsabie,jscl,ncm-fda,svm]
                                        [--lams 1,3,10] [--rates 0.03,0.1,0.3,1] [--dim 64] [--most 8000] [--keep DIR]

Rows are from the training set of a dataset of `lookalike bench run ncm`, at most `--most`; a random quarter of each
class is used for validation. The test set is never used. λ is that of the whitening at the start of training, as a
share of the mean variance; `ncm-fda` and `svm` choose their own parameter, as in the benchmark. `--keep` is the folder
of cached vectors of `lookalike bench run --keep`.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from lookalike.learn import training
from lookalike.learn.labels import hold_out
from lookalike.learn.measures import ranks
from lookalike_bench.ncm import METHODS, Method, choose
from lookalike_bench.vectors import caching, train_test


def main() -> None:
    """Print one line per method, λ and rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--sets", default="corel5k-deep,cifar10-deep,mnist")
    parser.add_argument("--methods", default="ncmml,lmnn,lmnn-all,lmnn-dynamic,wsabie,jscl,ncm-fda,svm")
    parser.add_argument("--lams", default="3")
    parser.add_argument("--rates", default="")
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--most", type=int, default=8_000)
    parser.add_argument("--keep", type=Path)
    options = parser.parse_args()
    for name in options.sets.split(","):
        with caching(options.keep):
            given = train_test(name, options.data)
        random = np.random.default_rng(0)
        some = np.sort(random.permutation(len(given.y))[: options.most])
        X, y = given.X[some], np.unique(given.y[some], return_inverse=True)[1]
        kept, out = hold_out(y, 0.25, random)
        for row in options.methods.split(","):
            method = METHODS[row]
            learns = not (method.candidates or method.full)
            for lam in map(float, options.lams.split(",") if learns else ["0"]):
                training.LAM = lam or training.LAM
                for rate in options.rates.split(",") if learns else [""]:
                    start = time.perf_counter()
                    score = fit(method, X[kept], y[kept], options.dim, rate)
                    error = 100 * np.mean(ranks(score(X[out]), y[out]) > 0)
                    print(
                        f"{name}  {row}  lam {lam or 'own'}  rate {rate or 'default'}  error {error:.2f} %  "
                        f"{time.perf_counter() - start:.1f} s",
                        flush=True,
                    )


def fit(method: Method, X: np.ndarray, y: np.ndarray, dim: int, rate: str):
    """Return the scoring function of a fitted method, at the given rate if there is one."""
    params = choose(method, X, y, dim, seed=0)
    if not rate:
        return method.fit(X, y, dim, 0, **params)
    metric = method.metric(dim, 0, rate=float(rate)).fit(X, y)
    if hasattr(metric, "decision_function"):
        return metric.decision_function
    score = method.classify(metric.transform(X), y)
    return lambda rows: score(metric.transform(rows))


if __name__ == "__main__":
    main()
