"""Precision over every order of tied items, the slow way: all permutations.

In: groups of equal scores, best first, each a list of True (relevant) and False. Out: the mean, the best-first and the
worst-first value, divided by the relevant ones among the first k.
"""

from itertools import permutations, product


def precision(hits, k):
    hits = hits[:k]
    at_hits = [sum(hits[: rank + 1]) / (rank + 1) for rank, hit in enumerate(hits) if hit]
    return sum(at_hits) / len(at_hits) if at_hits else 0.0


def mean_over_orders(groups, k, measure=precision):
    orders = [[x for part in parts for x in part] for parts in product(*(list(permutations(g)) for g in groups))]
    return sum(measure(order, k) for order in orders) / len(orders)


def laid_out(groups, k, best):
    return precision([x for group in groups for x in sorted(group, reverse=best)], k)
