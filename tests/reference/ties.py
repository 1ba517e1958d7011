"""Reference implementation of average precision with ties: all permutations of tied items.

`groups` are the groups of equal scores, best first, each a list of True (relevant) and False. The sum of precisions
is divided by the number of relevant items among the first k.
"""

from itertools import permutations, product


def precision(hits, k):
    hits = hits[:k]
    at_hits = [sum(hits[: rank + 1]) / (rank + 1) for rank, hit in enumerate(hits) if hit]
    return sum(at_hits) / len(at_hits) if at_hits else 0.0


def mean_over_orders(groups, k, measure=precision):
    """Return the mean of a measure over all orders."""
    orders = [[x for part in parts for x in part] for parts in product(*(list(permutations(g)) for g in groups))]
    return sum(measure(order, k) for order in orders) / len(orders)


def laid_out(groups, k, best):
    """Return the precision with the relevant items of each group first (`best`) or last."""
    return precision([x for group in groups for x in sorted(group, reverse=best)], k)
