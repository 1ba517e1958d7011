"""Reference implementation of leave-one-out ranking: one query at a time."""

import numpy as np


def leave_one_out(X: np.ndarray, labels: list[str]) -> tuple[list[float], list[int]]:
    """Return per row the average precision without the row, and the same-label rows among the first four with it."""
    precisions, firsts = [], []
    for query in range(len(X)):
        distances = ((X - X[query]) ** 2).sum(axis=1)
        order = sorted(range(len(X)), key=lambda row: (row != query, distances[row]))
        hits = [labels[row] == labels[query] for row in order]
        firsts.append(sum(hits[:4]))
        others = hits[1:]
        at_hits = [sum(others[: rank + 1]) / (rank + 1) for rank, hit in enumerate(others) if hit]
        precisions.append(sum(at_hits) / len(at_hits) if at_hits else float("nan"))
    return precisions, firsts
