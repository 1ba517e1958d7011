"""One fit of metric-learn: a program that runs in the environment of `make peers` and does not import Lookalike.

Arguments: the name of a learner, a dimension, k, and a folder with X.npy (n, d) and y.npy (n,). Writes W.npy (D, d) to
that folder and prints the CPU seconds of `fit`.
"""

import sys
import time
import warnings

import numpy as np


def main(name: str, dim: int, k: int, folder: str) -> None:
    """Fit a learner and write its matrix."""
    import metric_learn  # installed only in that environment

    warnings.simplefilter("ignore")
    learner = {
        "lmnn": lambda: metric_learn.LMNN(n_neighbors=k, n_components=dim, init="pca"),
        "nca": lambda: metric_learn.NCA(n_components=dim, init="pca", random_state=0),
        "rca": metric_learn.RCA,
    }[name]()
    X, y = np.load(f"{folder}/X.npy"), np.load(f"{folder}/y.npy")
    start = time.process_time()
    learner.fit(X, y)
    seconds = time.process_time() - start
    np.save(f"{folder}/W.npy", learner.components_)
    print(seconds)  # noqa: T201 (the parent process reads it)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
