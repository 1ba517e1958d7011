"""Reference implementation of the feedback algorithms: loops that follow the papers."""

import math

import numpy as np
from sklearn.svm import SVC


def most_ambiguous_and_orthogonal(K, w):
    """MAO: from items in order of ambiguity, choose next the item whose highest K to the chosen ones is lowest."""
    chosen = [0]
    while len(chosen) < min(w, len(K)):
        rest = [i for i in range(len(K)) if i not in chosen]
        chosen.append(min(rest, key=lambda i: (max(K[i][j] for j in chosen), i)))
    return chosen


def pairs_in_order(scores, y):
    """Return the fraction of (positive, negative) pairs in which the positive scores higher."""
    pairs = [(p, n) for p, a in zip(scores, y, strict=True) if a > 0 for n, b in zip(scores, y, strict=True) if b < 0]
    return sum(1.0 if p > n else 0.5 if p == n else 0.0 for p, n in pairs) / len(pairs)


def hyperplane_between(K, y, costs, share):
    """Return coefficients and bias between the mean of the positives (share 0) and an SVM (share 1), normalised."""
    m = range(len(y))

    def unit(a, b):
        length = math.sqrt(sum(a[i] * a[j] * K[i][j] for i in m for j in m))
        return [x / length for x in a], b / length

    positives = [i for i in m if y[i] > 0]
    like = [sum(K[i][j] for j in positives) / len(positives) for i in m]
    middle = sum(sum(like[i] for i in m if y[i] == sign) / sum(1 for i in m if y[i] == sign) for sign in (1, -1))
    example = unit([1 / len(positives) if y[i] > 0 else 0.0 for i in m], -middle / 2)
    model = SVC(C=1.0, kernel="precomputed", tol=1e-3).fit(K, y, sample_weight=costs)
    learned = [0.0] * len(y)
    for i, a in zip(model.support_, model.dual_coef_[0], strict=True):
        learned[i] = a
    learned, bias = unit(learned, model.intercept_[0])
    a = [(1 - share) * e + share * s for e, s in zip(example[0], learned, strict=True)]
    return np.array(a), (1 - share) * example[1] + share * bias


def dual_objective(K, y, a):
    """Return the objective of the SVM's dual, to be maximised: Σ αᵢ − ½ ΣΣ aᵢaⱼK(xᵢ, xⱼ), with αᵢ = aᵢyᵢ."""
    m = len(y)
    return sum(a[i] * y[i] for i in range(m)) - sum(a[i] * a[j] * K[i][j] for i in range(m) for j in range(m)) / 2


def slow_depths(X, y, gamma):
    """Return the depths of the first len(y) of the rows X, each inserted into a list of the rows marked before it."""
    K = np.array([[1 + math.exp(-gamma * float(np.sum((a - b) ** 2.0))) for b in X] for a in X])
    depths = [0.0]
    for i in range(1, len(y)):
        a = np.linalg.solve(K[:i, :i] + 0.1 * np.eye(i), y[:i])
        scores = a @ K[:i]
        depth = sum(bool(scores[j] > scores[i]) for j in range(i, len(X)))
        for other in sorted(depths):
            depth += other <= depth
        depths.append(float(depth))
    return np.array(depths)


def clusters(classes=8, per_class=60, d=12, spread=1.0, seed=0):
    """Return rows in clusters, (n, d) float32, and their labels."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(classes, d)) * 1.5
    labels = np.repeat(np.arange(classes), per_class)
    return (centres[labels] + spread * random.normal(size=(len(labels), d))).astype(np.float32), labels
