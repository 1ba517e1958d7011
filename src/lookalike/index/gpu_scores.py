"""Scores of the rows of `GpuFlat`: approximate ones of every row with an error bound, and float64 ones of a shortlist.

A `Plan` is a query in the units of the stored rows. Approximate scores come from one pass over the half-precision rows,
by the Triton kernels of `gpu_triton` on a GPU and by the plain torch functions here everywhere else.

    columns       ‖x‖² and inner products: points, weighted points and linear hyperplanes
    products      kernels that are smooth in the inner product: "gaussian" and "poly"
    differences   kernels of a distance: "laplace", "angular" and "gaussian-l1", and their L2 forms
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from math import inf, sqrt
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from lookalike.index.queries import HyperplaneQuery, PointQuery, WeightedQuery
from lookalike.kernels import check_kernel
from lookalike.types import Query

TILE = 1_024
"""Rows of a tile, which are stored column by column."""

MULTIPLE = 16
"""The columns and the support vectors are padded with zeros to a multiple of this."""

TWIN_BYTES = 64 * 2**20
"""Size of the float32 rows and kernel values that the torch functions hold at a time."""

WIDEST = 64
"""Maximum number of support vectors that tensor cores multiply at a time."""

FEW_COLUMNS = 8
"""Up to this many columns are scored without tensor cores."""

ROUND, ROUND_64 = 2.0**-24, 2.0**-53
"""Relative error of an operation in float32 and in float64."""

TENSOR_CORES = 4
"""Sums in tensor cores are truncated, not rounded: their error is larger by this factor."""

STEEPEST = 0.86
"""The largest slope of exp(−t²) is √(2/e)."""

Kind = Literal["plain", "frontier", "maximum"]
Numbers = NDArray[np.float64]


class Extent(NamedTuple):
    """What the error bounds depend on, in the units of the stored rows."""

    longest: float  # the largest ‖x‖ of a stored row
    error1: float = 0.0  # the largest ‖x − stored x‖₁
    error2: float = 0.0  # the largest ‖x − stored x‖₂


@dataclass(frozen=True)
class Plan:
    """A query in the units of the stored rows, which are the rows times `scale`."""

    form: Literal["columns", "products", "differences"]
    kernel: str
    kind: Kind
    S: Numbers  # (m, d) support vectors, or the columns
    a: Numbers  # (m,) coefficients; for columns the factors of ‖x‖²
    c: Numbers  # (m,) for columns: constants
    b: float
    gamma: float

    @property
    def q(self) -> int:
        """The number of scores per row."""
        return len(self.S) if self.form == "columns" else 1

    @classmethod
    def of(cls, query: Query, scale: float) -> "Plan | None":
        """Convert a query; None if its class has no fast scores."""
        if isinstance(query, PointQuery):
            Q = query.vectors.astype(np.float64)
            ones, zero = np.ones(len(Q)), 0.0
            return cls("columns", "linear", "plain", -2 * Q / scale, ones / scale**2, np.vecdot(Q, Q), zero, 1.0)
        if isinstance(query, WeightedQuery) and isinstance(query.query, PointQuery):
            Q, w = query.query.vectors.astype(np.float64), query.weights[0].astype(np.float64)
            V, total = (-2 * w @ Q / scale)[None], w.sum(keepdims=True)
            return cls("columns", "linear", "plain", V, total / scale**2, (w @ np.vecdot(Q, Q))[None], 0.0, 1.0)
        if not isinstance(query, HyperplaneQuery):
            return None
        X, a, b = query.X.astype(np.float64), query.a / query.length, query.b / query.length
        norm, gamma, none = check_kernel(query.kernel, query.gamma).norm, query.gamma, np.zeros(len(X))
        if query.kernel == "linear":
            V = (a @ X)[None] / scale
            return cls("columns", "linear", query.kind, V, np.zeros(1), np.array([b]), 0.0, 1.0)
        if norm is None:
            return cls("products", query.kernel, query.kind, X / scale, a, none, b, gamma)
        shape = query.kernel.partition("-")[0]
        gamma /= scale**2 if shape == "gaussian" else scale
        form: Any = "products" if query.kernel == "gaussian" else "differences"
        a = a / scale if shape == "angular" else a
        return cls(form, query.kernel, query.kind, X * scale, a, none, b, gamma)

    def error(self, extent: Extent, rounding: float = ROUND) -> float:
        """Bound of the error of a score of any row, by the rounding of the rows and of the arithmetic."""
        m, d = self.S.shape
        x, error1, error2 = extent
        if not x + error1 + error2 < inf:
            return inf
        lengths = np.linalg.norm(self.S, axis=1)  # (m,)
        product = lengths * (x * (d + 8) * rounding * TENSOR_CORES + error2)  # (m,) error of x·s
        a = np.abs(self.a)
        if self.form == "columns":
            sizes = a * x * x + lengths * x + np.abs(self.c)
            errors = a * (2 * x * error2 + error2**2) + product + 8 * rounding * sizes
            return float(errors.max(initial=0.0))
        if self.form == "products":
            sizes = lengths * x
            if self.kernel == "poly":
                errors = product * (1 + self.gamma * (2 * sizes + product))
                sizes = sizes + self.gamma * sizes**2
            else:
                arithmetic = 2 * lengths * x * (d + 8) * rounding * TENSOR_CORES + 8 * rounding * (x * x + lengths**2)
                errors = self.gamma * arithmetic + STEEPEST * sqrt(self.gamma) * error2
                sizes = np.ones(m)
        else:
            l1 = check_kernel(self.kernel, 1.0).norm == 1
            relative, far = (d + 8) * rounding, (x + lengths) * (sqrt(d) if l1 else 1.0)  # far: the largest distance
            rows = np.abs(self.S).sum(1) if l1 else lengths
            moved = (error1 if l1 else error2) + rounding * rows  # (m,) change of a distance by rounding of x and s
            shape = self.kernel.partition("-")[0]
            if shape == "angular":
                errors, sizes = moved + relative * far, far
            elif shape == "laplace":
                errors, sizes = self.gamma * moved + relative / 2, np.ones(m)  # c t exp(−t) < c / 2
            else:
                errors, sizes = STEEPEST * sqrt(self.gamma) * moved + relative, np.ones(m)
        # The last term is the rounding of K and of the sum.
        return float(a @ errors + (m + 16) * rounding * (a @ sizes + abs(self.b)))


def rough_scores(X: torch.Tensor, squares: torch.Tensor, plan: Plan, tensors: "Tensors", out: torch.Tensor) -> None:
    """Write approximate scores of tiles X (tiles, D, TILE) to `out` (q, tiles · TILE)."""
    if X.is_cuda and _has_triton():
        by_triton(X, squares, plan, tensors, out)
    else:
        by_torch(X, squares, plan, tensors, out)


class Tensors(NamedTuple):
    """A plan on the device, padded; `back` times the sum of `high` and `low` is S."""

    S: torch.Tensor  # (D, M) float32
    a: torch.Tensor  # (M,)
    c: torch.Tensor  # (M,)
    high: torch.Tensor  # (D, M) float16
    low: torch.Tensor  # (D, M) float16
    back: float

    @classmethod
    def of(cls, plan: Plan, D: int, device: torch.device, dtype: Any = np.float32) -> "Tensors":
        """Copy a plan to a device."""
        m, d = plan.S.shape
        M = m if plan.form == "columns" and m <= FEW_COLUMNS else m + -m % MULTIPLE
        if plan.form != "differences" and M > FEW_COLUMNS:
            M = 1 << (M - 1).bit_length() if M <= WIDEST else M + -M % WIDEST
        padded = np.zeros((D, M))
        padded[:d, :m] = plan.S.T
        largest = float(np.abs(padded).max(initial=0.0))
        back = 2.0 ** np.ceil(np.log2(largest) - 8) if largest > 0 else 1.0  # S / back is within float16
        halves = (padded / back).astype(np.float16)
        rests = (padded / back - halves).astype(np.float16)
        c = plan.gamma * np.vecdot(plan.S, plan.S) if plan.form == "products" else plan.c
        columns = [np.append(values, np.zeros(M - m)) for values in (plan.a, c)]
        parts = [padded.astype(dtype), *(values.astype(dtype) for values in columns), halves, rests]
        S, a, c, high, low = (torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in parts)
        return cls(S, a, c, high, low, float(back))


def by_torch(X: torch.Tensor, squares: torch.Tensor, plan: Plan, tensors: Tensors, out: torch.Tensor) -> None:
    """Compute `rough_scores` without Triton."""
    tiles, D, _ = X.shape
    M = tensors.S.shape[1]
    step = max(1, TWIN_BYTES // (4 * TILE * (D + 2 * M)))
    for start in range(0, tiles, step):
        rows = X[start : start + step].transpose(1, 2).reshape(-1, D).float()  # (r, D)
        here = slice(start * TILE, start * TILE + len(rows))
        if plan.form == "columns":
            scores = rows @ tensors.S  # (r, M)
            scores += squares[here, None] * tensors.a
            scores += tensors.c
            f = scores[:, : plan.q].T  # (q, r)
        else:
            K = _kernel(rows, squares[here], plan, tensors)  # (r, M)
            f = (K @ tensors.a + plan.b)[None]
        out[:, here] = f.abs() if plan.kind == "frontier" else -f if plan.kind == "maximum" else f


def exact_scores(X: torch.Tensor, query: Query) -> torch.Tensor:
    """Scores of rows X (c, d) float64 for each point or plane of a query, (q, c) float64."""
    if isinstance(query, WeightedQuery):
        weights = torch.from_numpy(query.weights.astype(np.float64)).to(X.device)
        return weights @ exact_scores(X, query.query)
    if isinstance(query, PointQuery):
        points = torch.from_numpy(query.vectors.astype(np.float64)).to(X.device)
        return torch.stack([((X - point) ** 2).sum(1) for point in points])
    assert isinstance(query, HyperplaneQuery)
    plan = Plan.of(query, 1.0)
    if plan is not None and plan.form == "differences" and X.is_cuda and _has_triton():
        return _differences_by_triton(X, plan)  # cdist of torch is slow
    S, a = (torch.from_numpy(part).to(X.device, torch.float64) for part in (query.X, query.a))
    f = (check_kernel(query.kernel, query.gamma).pairs(X, S, query.gamma) @ a + query.b) / query.length  # (c,)
    scores: torch.Tensor = f.abs() if query.kind == "frontier" else -f
    return scores[None]


def exact_error(query: Query, plan: Plan, longest: float, scale: float) -> float:
    """Bound of the difference between `exact_scores` and the score that the query itself computes."""
    error = plan.error(Extent(longest), ROUND_64)
    if isinstance(query, WeightedQuery):  # it computes in float32
        point: Any = query.query
        lengths = np.linalg.norm(point.vectors.astype(np.float64), axis=1)  # (q,)
        error += float(np.abs(query.weights[0]) @ (lengths + longest / scale) ** 2) * (plan.S.shape[1] + 16) * 2 * ROUND
    return error


def tie(score: float) -> float:
    """How far a float64 score can be above another if both are equal in float32."""
    return abs(score) * 2.0**-22 + 1e-37 if score < inf else inf


def _kernel(rows: torch.Tensor, squares: torch.Tensor, plan: Plan, tensors: Tensors) -> torch.Tensor:
    """K(x, s) of rows (r, D), (r, M)."""
    if plan.form == "products":
        t = rows @ tensors.S
        if plan.kernel == "poly":
            return t + plan.gamma * t * t
        falls = 2 * plan.gamma * t - plan.gamma * squares[:, None] - tensors.c
        return falls.clamp_(max=0).exp_()
    norm = float(check_kernel(plan.kernel, 1.0).norm or 2)
    distances = torch.cdist(rows, tensors.S.T, p=norm, compute_mode="donot_use_mm_for_euclid_dist")
    shape = plan.kernel.partition("-")[0]
    if shape == "angular":
        return -distances
    return torch.exp(-plan.gamma * (distances if shape == "laplace" else distances * distances))


@cache
def _has_triton() -> bool:
    """Whether Triton is installed, as it is with torch for NVIDIA GPUs on Linux."""
    return find_spec("triton") is not None


def _differences_by_triton(X: torch.Tensor, plan: Plan) -> torch.Tensor:
    """Scores of rows X (c, d) float64, (1, c) float64."""
    c, d = X.shape
    tiles = torch.zeros((-(-c // TILE) * TILE, d), dtype=X.dtype, device=X.device)
    tiles[:c] = X
    out = torch.empty((1, len(tiles)), dtype=X.dtype, device=X.device)
    tensors = Tensors.of(plan, d, X.device, np.float64)
    by_triton(tiles.view(-1, TILE, d).transpose(1, 2).contiguous(), out[0], plan, tensors, out)
    return out[:, :c]


def by_triton(X: torch.Tensor, squares: torch.Tensor, plan: Plan, tensors: Tensors, out: torch.Tensor) -> None:
    """Compute `rough_scores` by Triton. Rows in float64 give scores in float64, for "differences" only."""
    kernels: Any = import_module("lookalike.index.gpu_triton")

    tiles, D, _ = X.shape
    M, N = tensors.S.shape[1], tiles * TILE
    kind = {"plain": 0, "frontier": 1, "maximum": 2}[plan.kind]
    common = {"D": D, "TILE": TILE, "kind": kind}
    if plan.form == "columns" and M <= FEW_COLUMNS:
        S, a, c = tensors.S, tensors.a, tensors.c
        kernels.columns_kernel[kernels.grid(X)](X, squares, S, a, c, out, out.stride(0), Q=M, **common)
        return
    if plan.form == "differences":
        shape = plan.kernel.partition("-")[0]
        numbers = {"laplace": kernels.LAPLACE, "gaussian": kernels.SQUARED, "angular": kernels.ANGULAR}
        common["KERNEL"] = numbers[shape].value
        parameters = torch.tensor([plan.gamma, plan.b], dtype=tensors.S.dtype, device=X.device)
        kernel = kernels.differences_kernel
        if X.dtype == torch.float64:  # a few rows: not tuned
            kernel, common = kernel.fn, common | {"R": 256, "T": 8}
        norm = check_kernel(plan.kernel, 1.0).norm
        kernel[kernels.grid(X)](X, tensors.S, tensors.a, parameters, out, M, NORM=norm, **common)
        return
    target = out
    if plan.form == "columns" and plan.q < M:
        target = torch.empty((M, N), device=X.device)
    kernel = kernels.COLUMNS if plan.form == "columns" else kernels.POLY if plan.kernel == "poly" else kernels.GAUSSIAN
    BM, BK = min(WIDEST, M), next(k for k in (64, 32, 16) if D % k == 0)
    kernels.products_kernel[kernels.grid(X)](
        *(X, squares, tensors.high, tensors.low, tensors.a, tensors.c, target, tensors.back, plan.gamma, plan.b),
        *(M, target.stride(0)),
        **common | {"KERNEL": kernel.value, "BM": BM, "BK": BK},
    )
    if target is not out:
        out.copy_(target[: plan.q])
