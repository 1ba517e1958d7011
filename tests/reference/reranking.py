"""Slow twin of k-reciprocal re-ranking: Zhong et al., CVPR 2017, Eq. 1 to 12, one set at a time."""

import numpy as np


def rerank(query, X, k1=20, k2=6, weight=0.3):
    """Distances of rows X (m, d) from a query (d,)."""
    rows = np.vstack([query, X]).astype(np.float64)
    D = np.array([[((a - b) ** 2).sum() for b in rows] for a in rows])
    D = D / D.max(axis=1, keepdims=True)
    order = [np.argsort(row, kind="stable").tolist() for row in D]

    def reciprocal(i, k):
        return {i} | {j for j in order[i][: k + 1] if i in order[j][: k + 1]}  # with the row itself

    encodings = np.zeros_like(D)
    for i in range(len(rows)):
        members = set(reciprocal(i, k1))
        for j in reciprocal(i, k1):
            half = reciprocal(j, k1 // 2)
            if len(half & reciprocal(i, k1)) >= 2 / 3 * len(half):
                members |= half
        for j in members:
            encodings[i, j] = np.exp(-D[i, j])
        encodings[i] /= encodings[i].sum()
    encodings = np.array([encodings[near[:k2]].mean(axis=0) for near in order])
    smaller, larger = np.minimum(encodings[0], encodings), np.maximum(encodings[0], encodings)
    jaccard = 1 - smaller.sum(axis=1) / larger.sum(axis=1)
    return ((1 - weight) * jaccard + weight * D[0])[1:]
