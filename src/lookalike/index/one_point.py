"""What could be nearest to one point, found in one call that does without Python's lock.

In: rows (m, d), block by block, and a point. Out: the numbers of the rows that rough scores cannot rule out, and these.
As by numpy, but numpy takes the lock again after each block and each step, and beside other threads waits for it each
time: whoever answers many people at once is better off here. numba takes a second to load, so others do without.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import carray, njit, types  # type: ignore[attr-defined]
from numba.extending import intrinsic
from numpy.typing import NDArray

from lookalike.index.hamming_scan import push
from lookalike.types import Ids, Vectors

_LOOSE = {"reassoc", "contract", "nsz"}
"""Sums may be made in any order; what is infinite or no number stays so."""


def candidates(
    parts: Sequence[Vectors],
    factors: Vectors,
    squares: Vectors,
    keep: NDArray[np.bool_] | None,
    k: int,
    slack: float,
) -> tuple[Ids, Vectors]:
    """Rows that may be among the k with the smallest scores, and their scores, (c,) each, in the order of the rows.

    The score of a row is x·f + its square, f being `factors` (d,); two of them may mislead by `slack`. Rows that `keep`
    leaves out are none.

    Examples
    --------
    >>> X = np.eye(3, dtype=np.float32)
    >>> candidates([X[:2], X[2:]], -2 * X[2], np.ones(3, np.float32), None, k=1, slack=0.0)
    (array([2]), array([-1.], dtype=float32))

    """
    addresses = np.array([X.__array_interface__["data"][0] for X in parts], np.int64)
    counts = np.array([len(X) for X in parts], np.int64)
    kept = np.empty(0, np.bool_) if keep is None else keep
    found: tuple[Ids, Vectors] = _candidates(addresses, counts, factors, squares, kept, k, np.float32(slack))
    return found


def _pointer(_: Any, address: Any) -> Any:  # noqa: ARG001 (numba wants the name)
    """An address as a pointer to numbers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), generate  # type: ignore[no-untyped-call]


pointer: Any = intrinsic(_pointer)


@njit(cache=True, nogil=True, fastmath=_LOOSE)
def _candidates(addresses: Any, counts: Any, factors: Any, squares: Any, keep: Any, k: Any, slack: Any) -> Any:
    n, d = len(squares), len(factors)
    scores = np.empty(n, np.float32)
    worst, rows = np.empty(min(k, n), np.float32), np.empty(min(k, n), np.int64)  # the k best so far, the worst on top
    size = row = 0
    for block in range(len(addresses)):
        X = carray(pointer(addresses[block]), (counts[block], d))
        for i in range(counts[block]):
            product = np.float32(0)
            for j in range(d):
                product += X[i, j] * factors[j]
            score = product + squares[row]
            if len(keep) and not keep[row]:
                score = np.float32(np.inf)
            scores[row] = score
            if score < np.inf and (size < len(worst) or score < worst[0]):
                size = push(worst, rows, size, score, row)
            row += 1
    limit = np.float32(np.finfo(np.float32).max)  # below infinity: a score of inf or NaN is never an answer
    if size == k:
        limit = min(limit, worst[0] + slack)
    count = 0
    for i in range(n):
        count += scores[i] <= limit
    found, at = np.empty(count, np.int64), 0
    for i in range(n):
        if scores[i] <= limit:
            found[at] = i
            at += 1
    return found, scores[found]
