"""Reference implementation of LMNN by a loop over all triplets: ncm, Eq. 35, 36 and 39."""

import numpy as np


def targets_of(X, y, mode, k, W=None):
    """Return the list of targets of each row: all of its class, or the k nearest of them by ℓ2 (fixed) or by W."""
    Z = X if mode == "fixed" else X @ W.T if W is not None else X
    lists = []
    for q in range(len(y)):
        same = [p for p in range(len(y)) if p != q and y[p] == y[q]]
        if mode != "all":
            same = sorted(same, key=lambda p: float(((Z[q] - Z[p]) ** 2).sum()))[:k]
        lists.append(same)
    return lists


def triplet_loop(W, X, queries, positives, negatives):
    """Return the mean loss, its gradient, the number of active triplets per pair, and the smallest |margin|."""
    loss, gradient, count, triplets, kink = 0.0, np.zeros(W.shape), np.zeros((len(X), len(X)), int), 0, np.inf
    for q in queries:
        for p in positives[q]:
            for n in negatives[q]:
                triplets += 1
                xqp, xqn = X[q] - X[p], X[q] - X[n]
                margin = 1 + float((W @ xqp) @ (W @ xqp)) - float((W @ xqn) @ (W @ xqn))  # Eq. 35
                kink = min(kink, abs(margin))
                if margin > 0:
                    loss += margin
                    gradient += 2 * W @ (np.outer(xqp, xqp) - np.outer(xqn, xqn))  # Eq. 39
                    count[q, p] += 1
                    count[q, n] += 1
    return loss / max(1, triplets), gradient / max(1, triplets), count, kink


def counts(near, far):
    """Return the number of active triplets of each target and each negative, from distances; -inf: not a target."""
    pulled, pushed = np.zeros(near.shape), np.zeros(far.shape)
    for q in range(len(near)):
        for p, d_p in enumerate(near[q]):
            for n, d_n in enumerate(far[q]):
                if 1 + d_p > d_n:
                    pulled[q, p] += 1
                    pushed[q, n] += 1
    return pulled, pushed
