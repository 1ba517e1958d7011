"""Reference implementation of distances between binary codes: bit by bit, one pair at a time."""

import numpy as np


def bits_of(code):
    """Return the bits of one code, starting with the highest bit of the first byte."""
    return [int(byte) >> (7 - place) & 1 for byte in code for place in range(8)]


def hamming(a, b, weights=None):
    weights = [1] * (8 * len(a)) if weights is None else weights
    return sum(w for x, y, w in zip(bits_of(a), bits_of(b), weights, strict=True) if x != y)


def spherical(a, b):
    """Return the number of different bits divided by the number of common set bits."""
    both = sum(x & y for x, y in zip(bits_of(a), bits_of(b), strict=True))
    return hamming(a, b) / both if both else None


def search(codes, queries, k, among=None, exclude=None, weights=None):
    """Return ids (q, k) and scores (q, k), equal scores by smaller id. `codes` is {id: code}."""
    ids = np.full((len(queries), k), -1, np.int64)
    scores = np.full((len(queries), k), np.inf, np.float32)
    allowed = set(codes) if among is None else set(codes) & {int(i) for i in among}
    allowed -= set() if exclude is None else {int(i) for i in exclude}
    for row, query in enumerate(queries):
        found = sorted((hamming(query, codes[id_], weights), id_) for id_ in allowed)
        for place, (score, id_) in enumerate(found[:k]):
            ids[row, place], scores[row, place] = id_, score
    return ids, scores
