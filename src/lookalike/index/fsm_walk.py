"""One search through an M-tree, best node first.

In: the nodes, a query's bound, which rows may be answers. Out: the ids and scores of up to k, and how many rows and
centres were scored. Crucianu et al. (fsm-tree), Algorithms 1–3, with the changes for AC-NN and PAC-NN.
"""

from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.index.fsm_bounds import Bound
from lookalike.index.fsm_nodes import Nodes
from lookalike.types import Ids, Vectors


class Aim(NamedTuple):
    """What a search wants."""

    k: int
    within: float = inf  # scores above it are no answers
    epsilon: float = 0.0  # the share by which the k-th answer may be farther than the true one
    stop: float = -inf  # r_δ: hardly ever are there k this near, so who has nearly that may stop


def walk(nodes: Nodes, ids: Ids, keep: NDArray[np.bool_], bound: Bound, aim: Aim) -> tuple[Ids, Vectors, int]:
    """Ids (≤ k,) and scores (≤ k,), best first, equal scores by id; ids and keep (slots,) are those of the rows."""
    found = np.empty(0, np.int64), np.empty(0, np.float32)
    limit = float(bound.u(np.maximum(aim.within, 0.0 if bound.squared else -inf)))  # no u above it is wanted
    # (the least u below a node, its centre's own u, the node). Where balls overlap the frontier, and most do, the first
    # is 0: then it is the centre nearest to the frontier that goes first.
    queue = [(-inf, -inf, nodes.root)]
    scored = 0
    while queue and queue[0][0] <= limit:
        _, u, node = heappop(queue)
        members, gaps = nodes.entries(node)
        radii = nodes.reaches(node, members)
        wanted = keep[members] if nodes.is_leaf[node] else np.ones(len(members), np.bool_)
        if node != nodes.root:
            wanted = wanted & (bound.lower_by_parent(u, gaps, radii) <= limit)  # before d(p, H) is computed
        members, radii = members[wanted], radii[wanted]
        if not len(members):
            continue
        scores = bound.score(nodes.points(node, members))  # (m,)
        scored += len(members)
        if nodes.is_leaf[node]:
            found = _merge(found, (ids[members], scores), aim)
            if len(found[0]) == aim.k:
                limit = _relaxed(float(bound.u(found[1][-1].astype(np.float64))), aim.epsilon)
                if limit <= aim.stop:
                    break
        else:
            us = bound.u(scores)
            lows = np.maximum(bound.lower(us, radii), bound.least)
            for place in np.flatnonzero(lows <= limit):
                heappush(queue, (lows[place], us[place], int(members[place])))
    return *found, scored


def _merge(found: tuple[Ids, Vectors], more: tuple[Ids, NDArray[np.float64]], aim: Aim) -> tuple[Ids, Vectors]:
    """The k best of what was found and what comes, in float32, as every index answers."""
    with np.errstate(over="ignore"):  # too far for float32 is infinitely far: never an answer
        new = more[1].astype(np.float32)
    near = (new <= aim.within) & (new < inf)
    ids, scores = np.concatenate([found[0], more[0][near]]), np.concatenate([found[1], new[near]])
    order = np.lexsort((ids, scores))[: aim.k]
    return ids[order], scores[order]


def _relaxed(u: float, epsilon: float) -> float:
    """Who is content with u does not look for what is better by a smaller share than ε: d_k / (1 + ε)."""
    return u / (1 + epsilon) if u > 0 else u * (1 + epsilon)
