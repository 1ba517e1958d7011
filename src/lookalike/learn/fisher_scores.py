"""Fisher scores of a mixture of Gaussians: gradients of log-likelihoods w.r.t. the mixture's parameters.

Wang, Li & Liu 2013, "Learning discriminative Fisher kernel for image retrieval" (dfk), Eq. 3, 5–7, and the gradients
that DFK needs, Eq. 10–11. We re-derived them, including the dependence of posteriors on the mixture, which the paper
omits. Eq. 6 holds for each Gaussian separately. Weights are parameterised by a softmax, because weights that sum to 1
have k - 1 degrees of freedom, not k. An item has one row or many. scikit-learn is not imported here: processes that
only extract features do not need it.
"""

import math
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import CACHE_BYTES, chunks, held_bytes, like, namespace
from lookalike.features.clustering import FARTHEST, NEGLIGIBLE, Mixture, Products
from lookalike.types import Array

SMALL = 1e-3
"""Below this, in deviations, `root` is nearly linear, because the slope of a square root is unbounded at zero."""


class Scored(NamedTuple):
    """The scores of items, and the intermediate results that `FisherScores.backward` needs."""

    U: Array  # (k, 2d + 1, n): scores for the deviations, the means and the weight of each Gaussian
    counts: Array  # (k, n), mean posteriors
    Y: Array  # (2d + 1, n): (z², z, 1) of items of one row
    groups: list[tuple["ItemGroup", Array, Array]]  # items of many rows: shares g, (k, c · m), and Y, (2d + 1, c · m)
    buffers: "Buffers"  # contain all these arrays


class Gradients(NamedTuple):
    """Gradients with respect to all parameters that scores depend on."""

    logs: Array  # (k(2d + 1),), by the logarithms of `roots`
    alphas: Array  # (k,), treated as k independent numbers
    means: Array  # (k, d)
    deviations: Array  # (k, d)


class FisherScores:
    """Scores under one mixture, for rows of the type and precision of X, times `roots` (k(2d + 1),) if given.

    `scores` are divided by the root of their Fisher information, which makes their parts comparable; multiply by
    `information` to undo this. Internally, z are standardised rows, which does not change the scores, and rows or items
    are the last axis, for contiguous memory access.

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
        reach = FARTHEST * products.scale  # rows within are not clipped
        self._least, self._most = float(np.max(products.shift - reach)), float(np.min(products.shift + reach))
        root = xp.sqrt(self.alpha)
        # Scores are A Σg(z − m), B (Σg(z − m)² / s² − Σg) and C (Σg − α), Σ the mean over an item's rows.
        self.A = 1 / (self.s * root[:, :, None])  # (k, d, 1)
        self.B = xp.ones_like(self.s) / (2**0.5 * root[:, :, None])
        self.C = 1 / root  # (k, 1)
        if roots is not None:
            self.A = self.A * xp.reshape(roots[: k * d], (k, d, 1))
            self.B = self.B * xp.reshape(roots[k * d : 2 * k * d], (k, d, 1))
            self.C = self.C * roots[2 * k * d :, None]

    def scores(self, rows: Array, starts: NDArray[np.int64]) -> Array:
        """Return scores (n, k(2d + 1)) for the means of all Gaussians, then deviations, then weights (Eq. 6)."""
        xp, n, d = self.xp, len(starts) - 1, self.d
        U = self.score(rows, starts).U
        parts = (U[:, d:-1, :], U[:, :d, :], U[:, -1:, :])
        return xp.concat([xp.reshape(part, (part.shape[0] * part.shape[1], n)) for part in parts]).T

    def information(self) -> Array:
        """Return the divisors (k(2d + 1),) of `scores`; scores times these are Eq. 6, in the units of the rows."""
        xp, root = self.xp, self.xp.sqrt(self.alpha)[:, :, None]
        by_mean = root / (self.s * self.scale[:, None])  # (k, d, 1)
        return xp.concat([xp.reshape(part, (-1,)) for part in (by_mean, 2**0.5 * by_mean, root)])

    def score(self, rows: Array, starts: NDArray[np.int64], buffers: "Buffers | None" = None) -> Scored:
        """Compute the scores of items, in buffers; the rows of item i are those from starts[i] to starts[i + 1]."""
        xp, n, width, buffers = self.xp, len(starts) - 1, 2 * self.d + 1, buffers or Buffers()
        U = buffers.array("U", (self.k, width, n), like=self.m)
        if len(rows) == n:
            Y = self.powers(rows, buffers.array("Y", (width, n), like=U))
            counts = self.posteriors(Y, buffers.array("g", (self.k, n), like=U))
            for part in self.blocks(n):
                self._score_rows(Y[self.d : -1, :], counts[part, :], part, U[part, ...])
            return Scored(U, counts, Y, [], buffers)
        sums, counts = buffers.array("sums", (n, self.dim), like=U), xp.empty_like(U[:, 0, :])
        groups: list[tuple[ItemGroup, Array, Array]] = []
        for group in group_rows(starts, self._row_bytes, 2 * self.dim * U.itemsize, rows):
            some, (c, m) = group.take(rows), group.shape
            Y = self.powers(some, buffers.array(("Y", len(groups)), (width, c * m), like=U))
            g = self.posteriors(Y, buffers.array(("g", len(groups)), (self.k, c * m), like=U), group.shares)
            found = sums[group.items, :]  # a copy unless items are consecutive
            xp.matmul(group.split(g), group.split(Y).mT, out=xp.reshape(found, (c, self.k, width)))
            if not group.even:
                sums[group.items, :] = found
            groups.append((group, g, Y))
        for part in self.blocks(n):
            u = U[part, ...]
            u[...] = xp.reshape(sums[:, part.start * width : part.stop * width].T, u.shape)
            counts[part, :] = u[:, -1, :]
            self._score_sums(u, part)
        return Scored(U, counts, U[0, :, :0], groups, buffers)

    def rooted(self, scored: Scored) -> Array:
        """Return `root` of scores U (k, 2d + 1, n), of the same shape, in their buffers."""
        xp, U = self.xp, scored.U
        R = scored.buffers.array("R", U.shape, like=U)
        for part in self.blocks(U.shape[2]):
            u, r = U[part, ...], R[part, ...]
            xp.abs(u, out=r)
            r += SMALL
            xp.sqrt(r, out=r)
            xp.divide(u, r, out=r)
        return R

    def backward(self, scored: Scored, R: Array, M: Array, learned: str = "all") -> Gradients:
        """Backpropagate R M, the gradient with respect to R (k, 2d + 1, n), the roots of the scores U; M is (n, n).

        `learned` is "all"; "fixed": posteriors are treated as constants, as in the paper's Eq. 10–11; or "weights":
        only the gradient w.r.t. the roots, all others are zero. Overwrites R and U; H is the gradient w.r.t. U.
        """
        xp, d, U, counts, buffers = self.xp, self.d, scored.U, scored.counts, scored.buffers
        logs = xp.empty_like(U[:, :, 0])  # (k, 2d + 1)
        by_alpha, by_m, by_s = (xp.zeros_like(part[..., 0]) for part in (self.alpha, self.m, self.s))
        by_g = xp.empty_like(counts)  # (k, n): Σ over scores of H by posteriors, times these if an item is one row
        M, n, ones = M / 2, M.shape[0], xp.ones_like(M[:, 0])  # `root_slope` is twice the derivative
        by_sums = buffers.array("sums", (n, U.shape[0] * U.shape[1] if scored.groups else 0), like=U)
        for part in self.blocks(n):
            m, s, alpha, A, B, C = (one[part, ...] for one in (self.m, self.s, self.alpha, self.A, self.B, self.C))
            u, count = U[part, ...], counts[part, :]  # (b, 2d + 1, n), (b, n)
            H, slope, more = (buffers.array(name, u.shape, like=u) for name in ("H", "slope", "more"))
            xp.matmul(xp.reshape(R[part, ...], (-1, n)), M, out=xp.reshape(H, (-1, n)))
            H *= root_slope(u, slope, more)
            own = xp.multiply(H, u, out=R[part, ...])
            logs[part, :] = own @ ones
            if learned == "weights":
                continue
            H_s, H_m, H_w = H[:, :d, :], H[:, d:-1, :], H[:, -1, :]
            shared = (H @ count[:, :, None])[:, :-1, :]  # Σ H Σg, (b, 2d, 1)
            off = xp.multiply(H_s, u[:, d:-1, :], out=more[:, :d, :]) @ ones  # Σ H Σg(z − m) A
            logs_s, logs_m = logs[part, :d, None], logs[part, d:-1, None]
            by_m[part, :] = (-A * shared[:, d:, :] - 2 * B / s**2 * off[:, :, None] / _positive(A))[:, :, 0]
            by_s[part, :] = (-(logs_m + 2 * (logs_s + B * shared[:, :d, :])) / s)[:, :, 0]
            by_weights = C[:, 0] * ((H_w * (count + alpha)) @ ones)
            by_alpha[part] = -(xp.sum(logs[part, :-1], axis=1) + by_weights) / (2 * alpha[:, 0])
            if learned == "fixed":
                continue
            if not scored.groups:  # scores of one row contain g already
                by_g[part, :] = xp.sum(own[:, :-1, :], axis=1) + H_w * C * count
                continue
            flat = xp.concat([B * ((m / s) ** 2 - 1), -A * m, C[:, :, None]], axis=1)  # (b, 2d + 1, 1), by Σg
            by_g[part, :] = xp.matmul(flat.mT, H)[:, 0, :]
            H_s *= B / s**2  # by Σgz²
            H_m *= A
            H_m -= 2 * m * H_s  # by Σgz
            H[:, -1, :] = by_g[part, :]
            by_sums[:, part.start * U.shape[1] : part.stop * U.shape[1]] = xp.reshape(H, (-1, n)).T
        if learned == "all":
            total = _sum_over_sets(scored, by_sums) if scored.groups else _sum_over_rows(scored, by_g)
            first, count, m, s = total[:, d:-1], total[:, -1:], self.m[..., 0], self.s[..., 0]
            off = first - count * m
            by_alpha += count[:, 0] / self.alpha[:, 0]
            by_m += off / s**2
            by_s += (total[:, :d] - m * (first + off)) / s**3 - count / s
        logs = xp.concat([xp.reshape(part, (-1,)) for part in (logs[:, d:-1], logs[:, :d], logs[:, -1])])
        return Gradients(logs, by_alpha, by_m / self.scale, by_s / self.scale)

    def blocks(self, n: int) -> Iterator[slice]:
        """Yield slices of a few Gaussians, small enough to keep the scores of n items in the processor cache."""
        return chunks(self.k, 5 * self.d * n * self.m.itemsize, held_bytes(self.m, 2 * CACHE_BYTES))

    def powers(self, rows: Array, Y: Array) -> Array:
        """Write (z², z, 1) of rows (m, d) to Y (2d + 1, m) and return it."""
        xp, d = self.xp, self.d
        z = Y[d:-1, :]
        xp.subtract(rows.T, self._shift, out=z)  # NumPy and torch both support `out`
        z *= self._by_scale
        if rows.shape[0] and not (self._least <= float(xp.min(rows)) and float(xp.max(rows)) <= self._most):
            xp.minimum(z, self._farthest, out=z)
            xp.maximum(z, -self._farthest, out=z)
        xp.multiply(z, z, out=Y[:d, :])
        Y[-1, :] = 1
        return Y

    def posteriors(self, Y: Array, g: Array, shares: Any = 1.0) -> Array:
        """Write posteriors of the Gaussians for rows Y (2d + 1, m), times the rows' shares, to g (k, m); return g."""
        xp = self.xp
        xp.matmul(self._W, Y, out=g)
        g -= xp.max(g, axis=0)
        xp.maximum(g, self._negligible, out=g)
        xp.exp(g, out=g)
        g *= shares / xp.sum(g, axis=0)
        return g

    def _score_rows(self, z: Array, g: Array, part: slice, U: Array) -> None:
        """Write the scores of items of one row z (d, n), with posteriors g (b, n), to U (b, 2d + 1, n)."""
        off = z - self.m[part, ...]  # (b, d, n)
        self.xp.multiply(off, self.A[part, ...], out=U[:, self.d : -1, :])
        off *= off
        off *= self.B[part, ...] / self.s[part, ...] ** 2
        self.xp.subtract(off, self.B[part, ...], out=U[:, : self.d, :])
        U[:, :-1, :] *= g[:, None, :]
        U[:, -1, :] = (g - self.alpha[part, :]) * self.C[part, :]

    def _score_sums(self, U: Array, part: slice) -> None:
        """Replace U (b, 2d + 1, n), mean posteriors times (z², z, 1), by scores."""
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
    """Return the signed square root, smoothed at zero.

    Roots prevent the few Gaussians with large scores from dominating the others (Perronnin, Sánchez & Mensink, ECCV
    2010).

    >>> root(np.array([-4.0, 0.0, 9.0])).round(3).tolist()
    [-2.0, 0.0, 3.0]
    """
    xp = namespace(U)
    return U / xp.sqrt(xp.abs(U) + SMALL)


def root_slope(U: Array, out: Array, scratch: Array) -> Array:
    """Write twice the derivative of `root` to `out` and return it; `scratch` is another array of its shape."""
    xp = namespace(U)
    xp.abs(U, out=out)
    out += SMALL
    xp.sqrt(out, out=scratch)
    scratch *= out
    out += SMALL
    out /= scratch
    return out


class ItemGroup:
    """c items of at most m rows each, in one batch of products.

    Parameters
    ----------
    items : their numbers; a slice if they are consecutive and of equal size.
    starts, sizes : (c,), first row and number of rows of each, the largest last.
    X : an array of the type that `take` will receive.
    """

    def __init__(self, items: Any, starts: NDArray[np.int64], sizes: NDArray[np.int64], X: Array):
        m = int(sizes[-1])
        self.items, self.shape = items, (len(sizes), m)
        self._rows: Any = slice(int(starts[0]), int(starts[0]) + len(sizes) * m)
        self.even = isinstance(items, slice)
        self.sizes: Any = float(m)  # of each row's item
        self.shares: Any = 1.0 / m  # of each row in its item
        if not self.even:  # shorter items are padded with their last row, with a share of 0
            xp, there = namespace(X), np.arange(m) < sizes[:, None]  # (c, m)
            self._rows = like(X, (starts[:, None] + np.minimum(np.arange(m), sizes[:, None] - 1)).ravel())
            self.sizes = xp.astype(like(X, np.repeat(sizes, m)), X.dtype)  # (c · m,)
            self.shares = xp.astype(like(X, (there / sizes[:, None]).ravel()), X.dtype)

    def take(self, rows: Array) -> Array:
        """Return the rows of all its items, (c · m, d)."""
        return rows[self._rows, :]

    def split(self, values: Array) -> Array:
        """Return a view of values (k, c · m) by item, (c, k, m)."""
        xp = namespace(values)
        return xp.permute_dims(xp.reshape(values, (values.shape[0], *self.shape)), (1, 0, 2))


def group_rows(starts: NDArray[np.int64], row_bytes: int, item_bytes: int, X: Array) -> Iterator[ItemGroup]:
    """Divide all items into groups of similar size that fit into the cache, given the bytes per row and per item.

    >>> X = np.arange(5.0).reshape(5, 1)
    >>> [(group.items, group.take(X).ravel().tolist()) for group in group_rows(np.array([0, 3, 5]), 1, 1, X)]
    [(array([1, 0]), [3.0, 4.0, 4.0, 0.0, 1.0, 2.0])]
    """
    sizes = np.diff(starts)
    if not len(sizes):
        return
    even = bool((sizes == sizes[0]).all())
    order = np.arange(len(sizes)) if even else np.argsort(sizes, kind="stable")
    costs = sizes[order] * row_bytes + item_bytes
    most, begin = held_bytes(X), 0
    while begin < len(order):
        # Items are padded to the longest item of their group, which is the last.
        together = np.arange(1, len(order) - begin + 1) * costs[begin:]
        chosen = order[begin : begin + max(1, int(np.searchsorted(together, most, side="right")))]
        items = slice(begin, begin + len(chosen)) if even else like(X, chosen)
        yield ItemGroup(items, starts[:-1][chosen], sizes[chosen], X)
        begin += len(chosen)


class Buffers:
    """Arrays by name, reused from one training step to the next, because allocating memory is slow.

    The content of an array is undefined. The array is valid until its name is requested again.

    >>> buffers = Buffers()
    >>> buffers.array("sums", (2, 3), like=np.empty(0)).shape, buffers.array("sums", (1, 4), like=np.empty(0)).shape
    ((2, 3), (1, 4))
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, Array] = {}

    def array(self, name: Hashable, shape: tuple[int, ...], like: Array) -> Array:
        """Return an array of this shape, with the type, precision and device of `like`."""
        xp, size, held = namespace(like), math.prod(shape), self._held.get(name)
        if held is None or held.shape[0] < size or held.dtype != like.dtype:
            held = self._held[name] = xp.empty((size,), dtype=like.dtype, device=array_api_compat.device(like))
        return xp.reshape(held[:size], shape)


def _sum_over_rows(scored: Scored, by_logs: Array) -> Array:
    """Return gradients by log(α N(x)) times (z², z, 1), summed over items of one row: (k, 2d + 1).

    `by_logs` (k, n) are gradients by posteriors, times the posteriors.
    """
    g = scored.counts  # for items of one row, their posteriors
    return (by_logs - g * namespace(g).sum(by_logs, axis=0)) @ scored.Y.T


def _sum_over_sets(scored: Scored, by_sums: Array) -> Array:
    """Return the same for items of many rows; `by_sums` (n, k(2d + 1)) are gradients by the sums over their rows."""
    (k, width, _), buffers = scored.U.shape, scored.buffers
    xp, total = namespace(by_sums), namespace(by_sums).zeros_like(scored.U[:, :, 0])
    for group, g, Y in scored.groups:
        mine = xp.reshape(by_sums[group.items, :], (-1, k, width))
        by_logs, each = (buffers.array(name, g.shape, like=g) for name in ("by logs", "each"))  # (k, c · m)
        xp.matmul(mine, group.split(Y), out=group.split(by_logs))
        by_logs *= g
        by_logs -= xp.multiply(g, group.sizes * xp.sum(by_logs, axis=0), out=each)  # g are posteriors divided by sizes
        total += by_logs @ Y.T
    return total


def _positive(values: Array) -> Array:
    """Clip values to the smallest positive number: if a weight underflows, the gradient it divides underflows too."""
    xp = namespace(values)
    return xp.maximum(values, xp.ones_like(values) * xp.finfo(values.dtype).tiny)
