"""Fisher scores of a mixture of Gaussians: how an item would have the mixture's parameters change.

In: items of one row or many, NumPy or torch, and a mixture (k, d). Out: (n, k(2d + 1)) scores, for means, for standard
deviations, for weights. Wang, Li & Liu 2013, "Learning discriminative Fisher kernel" (dfk), Eq. 3, 5–7: Eq. 6 holds
for each Gaussian by itself; weights are a soft-max, as weights that sum to 1 have k - 1 directions, not k.
Inside, rows and items are the last axis: what is done to all of them alike is done to long runs of numbers.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import CACHE_BYTES, chunks, held_bytes, like, namespace
from lookalike.features.clustering import FARTHEST, NEGLIGIBLE, Mixture, Products
from lookalike.learn.groups import ItemGroup, group_rows
from lookalike.learn.room import Room
from lookalike.types import Array

SMALL = 1e-3
"""Scores below this, in deviations, are taken as they are, not by their root, whose slope there has no bound."""


class Scored(NamedTuple):
    """Items, and what of the way to their scores the way back needs."""

    U: Array  # (k, 2d + 1, n): scores for deviations, for means, for the weight, of each Gaussian
    counts: Array  # (k, n), mean posteriors
    Y: Array  # (2d + 1, n): (z², z, 1) of items of one row
    groups: list[tuple[ItemGroup, Array, Array]]  # of items of many: shares g, (k, c · m), and Y, (2d + 1, c · m)
    room: Room  # where all these are


class FisherScores:
    """Scores under one mixture, for rows of the kind and the precision of X, times `roots` (k(2d + 1),) where given.

    `scores` are divided by the root of their Fisher information, so that the parts can be compared; `information`
    undoes it. Numbers inside are those of z, rows less the mixture's mean by its deviation, which no score depends on.

    >>> mixture = Mixture(np.array([1.0]), np.array([[0.0]]), np.array([[4.0]]))
    >>> fisher = FisherScores(mixture, np.empty((0, 1)))
    >>> (fisher.scores(np.array([[2.0], [6.0]]), np.array([0, 2])) * fisher.information()).tolist()
    [[1.0, 2.0, 0.0]]
    """

    def __init__(self, mixture: Mixture, X: Array, roots: Array | None = None):
        xp = self.xp = namespace(X)
        products = Products(mixture, X)
        self.k, self.d = k, d = mixture.means.shape
        self.dim = k * (2 * d + 1)

        def cast(values: NDArray[np.float64] | float) -> Array:
            return xp.astype(like(X, np.asarray(values)), X.dtype)

        self.m = cast((mixture.means - products.shift) / products.scale)[:, :, None]  # (k, d, 1)
        self.s = cast(np.sqrt(mixture.variances) / products.scale)[:, :, None]
        self.alpha, self.scale = cast(mixture.weights)[:, None], cast(products.scale)  # (k, 1), (d,)
        self._shift, self._by_scale = cast(products.shift)[:, None], 1 / self.scale[:, None]  # (d, 1)
        self._W, self._row_bytes = products.W.T, products.row_bytes
        self._negligible, self._farthest = cast(NEGLIGIBLE), cast(FARTHEST)
        reach = FARTHEST * products.scale  # inside, no row is cut off at the farthest
        self._least, self._most = float(np.max(products.shift - reach)), float(np.min(products.shift + reach))
        root = xp.sqrt(self.alpha)
        # Scores are A Σg(z − m), B (Σg(z − m)² / s² − Σg) and C (Σg − α), sums over an item's rows by their number.
        self.A = 1 / (self.s * root[:, :, None])  # (k, d, 1)
        self.B = xp.ones_like(self.s) / (2**0.5 * root[:, :, None])
        self.C = 1 / root  # (k, 1)
        if roots is not None:
            self.A = self.A * xp.reshape(roots[: k * d], (k, d, 1))
            self.B = self.B * xp.reshape(roots[k * d : 2 * k * d], (k, d, 1))
            self.C = self.C * roots[2 * k * d :, None]

    def scores(self, rows: Array, starts: NDArray[np.int64]) -> Array:
        """(n, k(2d + 1)): all Gaussians' for means, then for deviations, then for weights (Eq. 6)."""
        xp, n, d = self.xp, len(starts) - 1, self.d
        U = self.score(rows, starts).U
        parts = (U[:, d:-1, :], U[:, :d, :], U[:, -1:, :])
        return xp.concat([xp.reshape(part, (part.shape[0] * part.shape[1], n)) for part in parts]).T

    def information(self) -> Array:
        """(k(2d + 1),): what `scores` were divided by; times these they are Eq. 6, in the units of the rows."""
        xp, root = self.xp, self.xp.sqrt(self.alpha)[:, :, None]
        by_mean = root / (self.s * self.scale[:, None])  # (k, d, 1)
        return xp.concat([xp.reshape(part, (-1,)) for part in (by_mean, 2**0.5 * by_mean, root)])

    def score(self, rows: Array, starts: NDArray[np.int64], room: Room | None = None) -> Scored:
        """The scores of items, in a room; the rows of item i are those from starts[i] to starts[i + 1]."""
        xp, n, width, room = self.xp, len(starts) - 1, 2 * self.d + 1, room or Room()
        U = room.array("U", (self.k, width, n), like=self.m)
        if len(rows) == n:
            Y = self.powers(rows, room.array("Y", (width, n), like=U))
            counts = self.posteriors(Y, room.array("g", (self.k, n), like=U))
            for part in self.blocks(n):
                self._of_rows(Y[self.d : -1, :], counts[part, :], part, U[part, ...])
            return Scored(U, counts, Y, [], room)
        sums, counts = room.array("sums", (n, self.dim), like=U), xp.empty_like(U[:, 0, :])
        groups: list[tuple[ItemGroup, Array, Array]] = []
        for group in group_rows(starts, self._row_bytes, 2 * self.dim * U.itemsize, rows):
            some, (c, m) = group.take(rows), group.shape
            Y = self.powers(some, room.array(("Y", len(groups)), (width, c * m), like=U))
            g = self.posteriors(Y, room.array(("g", len(groups)), (self.k, c * m), like=U), group.shares)
            found = sums[group.items, :]  # where items do not follow each other, a copy
            xp.matmul(group.split(g), group.split(Y).mT, out=xp.reshape(found, (c, self.k, width)))
            if not group.even:
                sums[group.items, :] = found
            groups.append((group, g, Y))
        for part in self.blocks(n):
            u = U[part, ...]
            u[...] = xp.reshape(sums[:, part.start * width : part.stop * width].T, u.shape)
            counts[part, :] = u[:, -1, :]
            self._of_sums(u, part)
        return Scored(U, counts, U[0, :, :0], groups, room)

    def rooted(self, scored: Scored) -> Array:
        """`root` of scores U (k, 2d + 1, n), of the same shape, in their room."""
        xp, U = self.xp, scored.U
        R = scored.room.array("R", U.shape, like=U)
        for part in self.blocks(U.shape[2]):
            u, r = U[part, ...], R[part, ...]
            xp.abs(u, out=r)
            r += SMALL
            xp.sqrt(r, out=r)
            xp.divide(u, r, out=r)
        return R

    def blocks(self, n: int) -> Any:
        """Gaussians, a few at a time, so that what is done to the scores of n items stays in the processor's cache."""
        return chunks(self.k, 5 * self.d * n * self.m.itemsize, held_bytes(self.m, 2 * CACHE_BYTES))

    def powers(self, rows: Array, Y: Array) -> Array:
        """Rows (m, d) to (z², z, 1), in Y (2d + 1, m)."""
        xp, d = self.xp, self.d
        z = Y[d:-1, :]
        xp.subtract(rows.T, self._shift, out=z)  # NumPy and torch both know `out`
        z *= self._by_scale
        if rows.shape[0] and not (self._least <= float(xp.min(rows)) and float(xp.max(rows)) <= self._most):
            xp.minimum(z, self._farthest, out=z)
            xp.maximum(z, -self._farthest, out=z)
        xp.multiply(z, z, out=Y[:d, :])
        Y[-1, :] = 1
        return Y

    def posteriors(self, Y: Array, g: Array, shares: Any = 1.0) -> Array:
        """How likely each Gaussian is to have made each row of Y (2d + 1, m), times the rows' shares, in g (k, m)."""
        xp = self.xp
        xp.matmul(self._W, Y, out=g)
        g -= xp.max(g, axis=0)
        xp.maximum(g, self._negligible, out=g)
        xp.exp(g, out=g)
        g *= shares / xp.sum(g, axis=0)
        return g

    def _of_rows(self, z: Array, g: Array, part: slice, U: Array) -> None:
        """Scores (b, 2d + 1, n) of items of one row z (d, n), with posteriors g (b, n)."""
        off = z - self.m[part, ...]  # (b, d, n)
        self.xp.multiply(off, self.A[part, ...], out=U[:, self.d : -1, :])
        off *= off
        off *= self.B[part, ...] / self.s[part, ...] ** 2
        self.xp.subtract(off, self.B[part, ...], out=U[:, : self.d, :])
        U[:, :-1, :] *= g[:, None, :]
        U[:, -1, :] = (g - self.alpha[part, :]) * self.C[part, :]

    def _of_sums(self, U: Array, part: slice) -> None:
        """Scores (b, 2d + 1, n) where there were mean posteriors times (z², z, 1)."""
        m, B = self.m[part, ...], self.B[part, ...]
        second, first, count = U[:, : self.d, :], U[:, self.d : -1, :], U[:, -1:, :]
        off = first - m * count  # (b, d, n), of z − m
        first += off
        first *= m
        second -= first  # of (z − m)²
        second *= B / self.s[part, ...] ** 2
        second -= B * count
        self.xp.multiply(off, self.A[part, ...], out=first)
        count -= self.alpha[part, :, None]
        count *= self.C[part, :, None]


def root(U: Array) -> Array:
    """The signed square root, smooth at zero.

    Roots keep the few Gaussians that an item is all about from drowning the others (Perronnin, Sánchez & Mensink, ECCV
    2010).

    >>> root(np.array([-4.0, 0.0, 9.0])).round(3).tolist()
    [-2.0, 0.0, 3.0]
    """
    xp = namespace(U)
    return U / xp.sqrt(xp.abs(U) + SMALL)


def root_slope(U: Array, out: Array, scratch: Array) -> Array:
    """Twice the derivative of `root`, in `out`; `scratch` is another of its shape."""
    xp = namespace(U)
    xp.abs(U, out=out)
    out += SMALL
    xp.sqrt(out, out=scratch)
    scratch *= out
    out += SMALL
    out /= scratch
    return out
