"""Reference implementation of the clustering of duplicates: one centre after the other, comparing every pair."""

import numpy as np


def clusters(ids, X, radius, belongs, apart):
    """Return (centre, members) of every cluster of more than one item, centres in the order of `ids`."""
    taken, found = set(), []
    for centre in ids:
        if centre in taken:
            continue
        taken.add(centre)
        near = []
        for other in ids:
            if other not in taken:
                distance = float(((X[centre].astype(np.float64) - X[other]) ** 2).sum())
                if distance <= radius:
                    near.append((distance, other))
        members = []
        for _, other in sorted(near):
            pairs = [tuple(sorted((other, known))) for known in (centre, *members)]
            if belongs(centre, other) and not any(pair in apart for pair in pairs):
                members.append(other)
                taken.add(other)
        if members:
            found.append((centre, members))
    return found
