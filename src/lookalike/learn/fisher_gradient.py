"""The way back through Fisher scores: from a gradient by scores to those by their weights and by the mixture.

In: scored items, and M (n, n) so that R M, R the scores' roots, is the gradient by these. Out: gradients by the
logarithms of the scores' factors (P,) and by the mixture's weights (k,), means and deviations (k, d). Wang, Li & Liu
2013 (dfk), Eq. 10–11, derived anew; besides, what the paper leaves out: posteriors change with the mixture.
"""

from typing import NamedTuple

from lookalike.arrays import namespace
from lookalike.learn.fisher_scores import FisherScores, Scored, root_slope
from lookalike.types import Array


class Gradients(NamedTuple):
    """By all that scores depend on."""

    logs: Array  # (k(2d + 1),), by the logarithms of the roots that scores were multiplied by, in their order
    alphas: Array  # (k,), taken as k free numbers
    means: Array  # (k, d)
    deviations: Array  # (k, d)


def back(fisher: FisherScores, scored: Scored, R: Array, M: Array, learned: str = "all") -> Gradients:
    """From R M, the gradient by R (k, 2d + 1, n), the roots of scores U; H is that by U itself. R and U are used up.

    `learned` is "all"; "fixed": as if posteriors did not depend on the mixture; "weights": by the roots alone, all else
    zeros.
    """
    xp, d, U, counts, room = namespace(M), fisher.d, scored.U, scored.counts, scored.room
    logs = xp.empty_like(U[:, :, 0])  # (k, 2d + 1)
    by_alpha, by_m, by_s = (xp.zeros_like(part[..., 0]) for part in (fisher.alpha, fisher.m, fisher.s))
    by_g = xp.empty_like(counts)  # (k, n): Σ over scores of H by posteriors, times these where an item is one row
    M, n, ones = M / 2, M.shape[0], xp.ones_like(M[:, 0])  # slopes are twice what they should be
    by_sums = room.array("sums", (n, U.shape[0] * U.shape[1] if scored.groups else 0), like=U)
    for part in fisher.blocks(n):
        m, s, alpha, A, B, C = (
            one[part, ...] for one in (fisher.m, fisher.s, fisher.alpha, fisher.A, fisher.B, fisher.C)
        )
        u, count = U[part, ...], counts[part, :]  # (b, 2d + 1, n), (b, n)
        H, slope, more = (room.array(name, u.shape, like=u) for name in ("H", "slope", "more"))
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
        if not scored.groups:  # what is scored has g in it already
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
        total = _of_sets(scored, by_sums) if scored.groups else _of_rows(scored, by_g)
        first, count, m, s = total[:, d:-1], total[:, -1:], fisher.m[..., 0], fisher.s[..., 0]
        off = first - count * m
        by_alpha += count[:, 0] / fisher.alpha[:, 0]
        by_m += off / s**2
        by_s += (total[:, :d] - m * (first + off)) / s**3 - count / s
    logs = xp.concat([xp.reshape(part, (-1,)) for part in (logs[:, d:-1], logs[:, :d], logs[:, -1])])
    return Gradients(logs, by_alpha, by_m / fisher.scale, by_s / fisher.scale)


def _of_rows(scored: Scored, by_logs: Array) -> Array:
    """(k, 2d + 1): gradients by log(α N(x)) times (z², z, 1), summed up over items of one row.

    `by_logs` (k, n) are gradients by posteriors, times these.
    """
    g = scored.counts  # of one row: its posteriors
    return (by_logs - g * namespace(g).sum(by_logs, axis=0)) @ scored.Y.T


def _of_sets(scored: Scored, by_sums: Array) -> Array:
    """The same over items of many rows; `by_sums` (n, k(2d + 1)) are gradients by what their rows sum up to."""
    (k, width, _), room = scored.U.shape, scored.room
    xp, total = namespace(by_sums), namespace(by_sums).zeros_like(scored.U[:, :, 0])
    for group, g, Y in scored.groups:
        mine = xp.reshape(by_sums[group.items, :], (-1, k, width))
        by_logs, each = (room.array(name, g.shape, like=g) for name in ("by logs", "each"))  # (k, c · m)
        xp.matmul(mine, group.split(Y), out=group.split(by_logs))
        by_logs *= g
        by_logs -= xp.multiply(g, group.sizes * xp.sum(by_logs, axis=0), out=each)  # g are posteriors by sizes
        total += by_logs @ Y.T
    return total


def _positive(values: Array) -> Array:
    """The same, nothing below the least of all numbers: where a weight is too small for one, so is what it divides."""
    xp = namespace(values)
    return xp.maximum(values, xp.ones_like(values) * xp.finfo(values.dtype).tiny)
