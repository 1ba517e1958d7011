"""The M-tree: a tree of balls that cover the rows below them, in flat arrays. Library only, for `FsmTree`.

Ciaccia, Patella, Zezula, "M-tree" (VLDB 1997), with the choices of fsm-tree, §4.1: confirmed promotion, minimal maximal
radius (mM_RAD), generalised-hyperplane split with a minimum share for each side, sampled candidates for promotion.
"""

from itertools import combinations
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import distances
from lookalike.types import Ids, Vectors

Numbers: TypeAlias = NDArray[np.float64]
Centre: TypeAlias = tuple[Vectors, Numbers]
"""A centre (d,) and the distances of a node's members to it, (m,)."""


class MTree:
    """An M-tree over rows in slots.

    The members of a node are slots of rows (in a leaf) or nodes; all leaves are equally deep. A ball, the centre and
    radius of a node, covers every row below the node, but not always the balls of its members. A centre is a copy of a
    row, so the row itself can be removed. The root has no ball.

    Parameters
    ----------
    dim : d.
    norm : 1 or 2, the norm ‖·‖ of distances and radii.
    capacity : maximum number of members of a node.
    least : minimum number of members of each half of a split node.
    tried : number of members that a split tries as a new centre.
    random : generator that chooses the members to try.

    """

    def __init__(self, dim: int, norm: int, capacity: int, least: int, tried: int, random: np.random.Generator):
        self.norm, self.capacity = norm, capacity
        self._least, self._tried, self._random = least, tried, random
        self.X: Vectors = np.empty((0, dim), np.float32)  # (slots, d)
        self.leaf_of: Ids = np.empty(0, np.int64)  # (slots,) -1 = free
        self.centres: Vectors = np.empty((0, dim), np.float32)  # (nodes, d)
        self.radii: Numbers = np.empty(0)  # (nodes,)
        self.parents: Ids = np.empty(0, np.int64)  # (nodes,) -1 = the root
        self.is_leaf: NDArray[np.bool_] = np.empty(0, np.bool_)  # (nodes,)
        self.counts: Ids = np.empty(0, np.int64)  # (nodes,) members; 0 = free
        self.members: Ids = np.empty((0, capacity + 1), np.int64)  # (nodes, capacity + 1); a full node is split
        self.gaps: Numbers = np.empty((0, capacity + 1))  # each member's distance to its node's centre
        self.root = -1
        self._free_slots: list[int] = []
        self._free_nodes: list[int] = []

    def take_slots(self, X: Vectors) -> Ids:
        """Put rows (m, d) into free slots, (m,); `insert` adds them to the tree."""
        short = len(X) - len(self._free_slots)
        if short > 0:
            more = max(short, len(self.X))
            self._free_slots.extend(reversed(range(len(self.X), len(self.X) + more)))
            self.X, self.leaf_of = _longer(self.X, more), _longer(self.leaf_of, more, -1)
        slots = np.array([self._free_slots.pop() for _ in range(len(X))], np.int64)
        self.X[slots] = X
        return slots

    def insert(self, slot: int) -> None:
        """Add the row of a slot to the nearest leaf whose ball covers it, or to the one whose radius grows least."""
        x = self.X[slot]
        if self.root < 0:
            self.root = self._new_node(x, leaf=True)
        node, gap = self.root, 0.0
        while not self.is_leaf[node]:
            children, _ = self.entries(node)
            away = self._distances(self.centres[children], x)  # (m,)
            growth = away - self.radii[children]
            inside = growth <= 0
            choice = int(np.argmin(np.where(inside, away, np.inf) if inside.any() else growth))
            node, gap = int(children[choice]), float(away[choice])
            self.radii[node] = max(self.radii[node], gap)
        self._append(node, slot, gap)

    def delete(self, slot: int) -> None:
        """Remove the row of a slot; shrink radii, free empty nodes and a root with one child."""
        node = int(self.leaf_of[slot])
        self._drop(node, slot)
        self.leaf_of[slot] = -1
        self._free_slots.append(slot)
        while node != self.root:
            parent = int(self.parents[node])
            if self.counts[node]:
                self.radii[node] = min(self.radii[node], self._cover(node))
            else:
                self._drop(parent, node)
                self._free_nodes.append(node)
            node = parent
        while self.counts[node] == 1 and not self.is_leaf[node]:
            self.root = int(self.members[node, 0])
            self.parents[self.root], self.counts[node] = -1, 0
            self._free_nodes.append(node)
            node = self.root
        if not self.counts[node]:
            self._free_nodes.append(node)
            self.root = -1

    def entries(self, node: int) -> tuple[Ids, Numbers]:
        """The members of a node, (m,), and their distances to its centre, (m,), undefined at the root."""
        count = self.counts[node]
        return self.members[node, :count], self.gaps[node, :count]

    def points(self, node: int, members: Ids) -> Vectors:
        """The rows or centres of some members of a node, (m, d)."""
        return (self.X if self.is_leaf[node] else self.centres)[members]

    def reaches(self, node: int, members: Ids) -> Numbers:
        """The radii of some members of a node, (m,); 0 for rows."""
        return np.zeros(len(members)) if self.is_leaf[node] else self.radii[members]

    def _cover(self, node: int) -> float:
        members, gaps = self.entries(node)
        return float(np.max(gaps + self.reaches(node, members)))

    def _append(self, node: int, member: int, gap: float) -> None:
        """Add a member; split the node if it has more than `capacity`."""
        place = self.counts[node]
        self.members[node, place], self.gaps[node, place] = member, gap
        self.counts[node] += 1
        (self.leaf_of if self.is_leaf[node] else self.parents)[member] = node
        if self.counts[node] > self.capacity:
            self._split(node)

    def _drop(self, node: int, member: int) -> None:
        place, last = int(np.argmax(self.entries(node)[0] == member)), self.counts[node] - 1
        self.members[node, place], self.gaps[node, place] = self.members[node, last], self.gaps[node, last]
        self.counts[node] = last

    def _split(self, node: int) -> None:
        """Split a node: it keeps its centre; the new node gets the tried centre with the smallest radii."""
        members, gaps = self.entries(node)
        members, gaps = members.copy(), gaps.copy()
        points, reaches = self.points(node, members), self.reaches(node, members)
        tried = self._random.choice(len(members), self._tried, replace=False)
        new: list[Centre] = [(points[one], self._distances(points, points[one])) for one in tried]
        is_root = node == self.root
        old: Centre = (self.centres[node].copy(), gaps)
        pairs = list(combinations(new, 2) if is_root else ((old, other) for other in new))
        halves = [self._halves(near, far) for (_, near), (_, far) in pairs]
        radii = [
            (float(np.max((near + reaches)[stay])), float(np.max((far + reaches)[leave])))
            for ((_, near), (_, far)), (stay, leave) in zip(pairs, halves, strict=True)
        ]
        best = min(range(len(pairs)), key=lambda pair: max(radii[pair]))  # mM_RAD
        known = np.inf if is_root else self.radii[node]
        twin = self._new_node(pairs[best][1][0], leaf=bool(self.is_leaf[node]))
        for half, (centre, away), part, radius in zip(
            (node, twin), pairs[best], halves[best], radii[best], strict=True
        ):
            self.centres[half], self.counts[half] = centre, len(part)
            self.radii[half] = min(radius, known) if half == node else radius
            self.members[half, : len(part)], self.gaps[half, : len(part)] = members[part], away[part]
            (self.leaf_of if self.is_leaf[half] else self.parents)[members[part]] = half
        if is_root:
            self.root = self._new_node(self.centres[node], leaf=False)
            self._append(self.root, node, 0.0)
            self._append(self.root, twin, 0.0)
        else:
            parent = int(self.parents[node])
            self._append(parent, twin, float(self._distances(self.centres[parent][None], self.centres[twin])[0]))

    def _halves(self, near: Numbers, far: Numbers) -> tuple[Ids, Ids]:
        """Assign members to the nearer of two centres by their distances, (m,) each, at least `least` to both."""
        order = np.argsort(near - far, kind="stable")
        cut = int(np.clip(np.count_nonzero(near <= far), self._least, len(order) - self._least))
        return order[:cut], order[cut:]

    def _new_node(self, centre: Vectors, leaf: bool) -> int:
        if not self._free_nodes:
            more = max(4, len(self.radii))
            self._free_nodes.extend(reversed(range(len(self.radii), len(self.radii) + more)))
            self.centres, self.radii = _longer(self.centres, more), _longer(self.radii, more)
            self.parents, self.is_leaf = _longer(self.parents, more, -1), _longer(self.is_leaf, more)
            self.counts, self.members = _longer(self.counts, more), _longer(self.members, more)
            self.gaps = _longer(self.gaps, more)
        node = self._free_nodes.pop()
        self.centres[node], self.radii[node], self.parents[node] = centre, 0.0, -1
        self.is_leaf[node], self.counts[node] = leaf, 0
        return node

    def _distances(self, points: Vectors, x: Vectors) -> Numbers:
        """Distances (m,) of points (m, d) to x (d,), from differences in float64."""
        found: Numbers = distances(points.astype(np.float64), x.astype(np.float64)[None], self.norm)[:, 0]
        return found


def _longer(part: NDArray[Any], more: int, fill: int = 0) -> NDArray[Any]:
    """A copy of an array with `more` places at the end."""
    return np.concatenate([part, np.full((more, *part.shape[1:]), fill, part.dtype)])
