"""Reference implementation of exact indexes: one distance at a time, then a sort."""

import numpy as np


def search(vectors, points, k, among=None, exclude=None):
    """Return ids (q, k) and scores (q, k), best first, equal scores by smaller id. `vectors` is {id: vector}."""
    ids = np.full((len(points), k), -1, np.int64)
    scores = np.full((len(points), k), np.inf, np.float32)
    allowed = set(vectors) if among is None else set(vectors) & {int(i) for i in among}
    allowed -= set() if exclude is None else {int(i) for i in exclude}
    for row, point in enumerate(points):
        found = []
        for id_ in allowed:
            difference = np.asarray(vectors[id_], np.float64) - np.asarray(point, np.float64)
            found.append((np.float32(sum(difference * difference)), id_))
        for place, (score, id_) in enumerate(sorted(found)[:k]):
            ids[row, place], scores[row, place] = id_, score
    return ids, scores
