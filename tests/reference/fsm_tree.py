"""Reference implementation of the feature-space M-tree: a full scan with a sort, and splits by exhaustive search."""

from itertools import combinations

import numpy as np

from reference import kernels


def hyperplane(name, gamma, X, a, b, kind):
    k = getattr(kernels, name.replace("-", "_"))(gamma)
    length = sum(a[i] * a[j] * k(X[i], X[j]) for i in range(len(X)) for j in range(len(X))) ** 0.5

    def score(p):
        f = (sum(a[i] * k(p, X[i]) for i in range(len(X))) + b) / length
        return abs(f) if kind == "frontier" else -f

    return score


def centre(name, gamma, X, a):
    k = getattr(kernels, name.replace("-", "_"))(gamma)
    square = sum(a[i] * a[j] * k(X[i], X[j]) for i in range(len(X)) for j in range(len(X)))
    return lambda p: max(0.0, k(p, p) - 2 * sum(a[i] * k(p, X[i]) for i in range(len(X))) + square) ** 0.5


def search(vectors, score, k, among=None, exclude=None, within=np.inf):
    """Return (score, id) of the k best, equal scores by smaller id. `vectors` is {id: vector}."""
    allowed = set(vectors) if among is None else set(vectors) & {int(i) for i in among}
    allowed -= set() if exclude is None else {int(i) for i in exclude}
    scored = ((score(np.asarray(vectors[id_], np.float64)), id_) for id_ in allowed)
    return sorted(one for one in scored if one[0] <= within)[:k]


def smallest_radius(rows, norm, least):
    """Return the larger radius of the best split: rows go to the nearer of two centres, at least `least` to each."""

    def radius(first, second):
        away = [(np.linalg.norm(row - first, norm), np.linalg.norm(row - second, norm)) for row in rows]
        away.sort(key=lambda pair: pair[0] - pair[1])
        cut = sum(near <= far for near, far in away)
        cut = min(max(cut, least), len(rows) - least)
        return max(max(near for near, _ in away[:cut]), max(far for _, far in away[cut:]))

    return min(radius(first, second) for first, second in combinations(np.asarray(rows, np.float64), 2))


def check(tree):
    """Check that the nodes form a valid M-tree over the rows of the tree."""
    nodes = tree._tree
    if nodes is None or nodes.root < 0:
        assert len(tree) == 0
        assert nodes is None or not nodes.counts.any()
        return
    depths, used, rows = set(), set(), []

    def visit(node, depth):
        used.add(node)
        members, gaps = nodes.entries(node)
        assert 1 <= len(members) <= nodes.capacity
        assert len(set(members.tolist())) == len(members)
        points = nodes.points(node, members)
        centre = nodes.centres[node].astype(np.float64)
        if node != nodes.root:
            away = np.linalg.norm(points - centre, nodes.norm, axis=1)
            np.testing.assert_allclose(gaps, away, rtol=1e-12)
        if nodes.is_leaf[node]:
            depths.add(depth)
            assert (nodes.leaf_of[members] == node).all()
            below = members.tolist()
            rows.extend(below)
        else:
            assert (nodes.parents[members] == node).all()
            below = [slot for child in members.tolist() for slot in visit(child, depth + 1)]
        if node != nodes.root:
            away = np.linalg.norm(nodes.X[below] - centre, nodes.norm, axis=1)
            assert away.max() <= nodes.radii[node] * (1 + 1e-12)
        return below

    visit(nodes.root, 0)
    assert nodes.parents[nodes.root] == -1
    assert nodes.is_leaf[nodes.root] or nodes.counts[nodes.root] > 1
    assert len(depths) == 1
    assert sorted(tree._id_of[rows].tolist()) == tree.ids.tolist()
    assert set(np.flatnonzero(nodes.counts).tolist()) == used
    assert used.isdisjoint(nodes._free_nodes)
    assert len(used) + len(nodes._free_nodes) == len(nodes.radii)
    assert len(rows) + len(nodes._free_slots) == len(nodes.X)
