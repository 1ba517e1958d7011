"""Reference implementation of boosted oblivious trees: sums leaf by leaf instead of tables."""

import numpy as np

RIDGE = 1.0


def leaves(bins, questions):
    """Return the leaf of each row: bit l is the answer to question l, (column, cut)."""
    return sum(((bins[column] > cut).astype(int) << level for level, (column, cut) in enumerate(questions)), 0)


def scores(bins, columns, cuts, answers):
    """Return the sum of the answers of all trees, (n,)."""
    total = np.zeros(bins.shape[1])
    for tree in range(len(columns)):
        total += answers[tree][leaves(bins, list(zip(columns[tree], cuts[tree], strict=True)))]
    return total


def losses(bins, signs, columns, cuts, answers):
    """Return the logistic loss with the first 0, 1, … trees."""
    every = (scores(bins, columns[:k], cuts[:k], answers[:k]) for k in range(len(columns) + 1))
    return [float(np.logaddexp(0, -signs * total).sum()) for total in every]


def _sums(bins, signs, before, questions):
    """Yield the slope and curvature of the logistic loss, summed per leaf."""
    p = 1 / (1 + np.exp(-signs * before))
    leaf = leaves(bins, questions)
    for k in range(2 ** len(questions)):
        yield (signs * (1 - p))[leaf == k].sum(), (p * (1 - p))[leaf == k].sum()


def gain(bins, signs, before, questions):
    """Return the expected gain of a Newton step in each leaf."""
    return sum(slope**2 / (bend + RIDGE) for slope, bend in _sums(bins, signs, before, questions))


def answers(bins, signs, before, questions, rate):
    """Return the Newton step of each leaf."""
    return [rate * slope / (bend + RIDGE) for slope, bend in _sums(bins, signs, before, questions)]
