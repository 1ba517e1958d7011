"""Triton kernels that score the tiles of `GpuFlat`. Imported only on a GPU; `gpu_scores` has the same in plain torch.

A tile stores TILE rows column by column, (D, TILE) float16, so that a thread reads 8 values of one column at once and
sums over the columns need no other thread. The first grid axis is the tile, the second a part of R rows of it.
"""

import triton
import triton.language as tl
from triton import Config, autotune, jit

LAPLACE, SQUARED, ANGULAR = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)
GAUSSIAN, POLY, COLUMNS = tl.constexpr(0), tl.constexpr(1), tl.constexpr(2)


@jit
def finish(f, kind):
    """Turn f into a score, smaller is better: f for kind 0, |f| for 1, −f for 2."""
    return tl.where(kind == 1, tl.abs(f), tl.where(kind == 2, -f, f))


@autotune(
    configs=[
        Config({"R": 1024, "T": 16}, num_warps=4),
        Config({"R": 512, "T": 16}, num_warps=4),
        Config({"R": 1024, "T": 8}, num_warps=4),
    ],
    key=["D", "NORM"],
)
@jit(do_not_specialize=["kind"])
def differences_kernel(
    X,  # (tiles, D, TILE) float16, or float64 like all others
    S,  # (D, M) float32
    A,  # (M,) float32
    PARAMETERS,  # (2,) float32: γ and the bias
    OUT,  # (tiles · TILE,) float32
    M,
    D,
    kind,
    TILE: tl.constexpr,
    NORM: tl.constexpr,
    KERNEL: tl.constexpr,
    R: tl.constexpr,
    T: tl.constexpr,
):
    """Σ aₘK(‖x − sₘ‖) + bias, for kernels of a distance; T support vectors share a pass over the columns."""
    tile, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    rows = tl.arange(0, R)
    x_at = X + tile * (D * TILE) + part * R
    real = S.dtype.element_ty
    gamma = tl.load(PARAMETERS)
    f = tl.zeros([R], real) + tl.load(PARAMETERS + 1)
    for m in range(0, M, T):
        sums = (tl.zeros([R], real),) * T
        for j in range(D):
            x = tl.load(x_at + (j * TILE + rows)).to(real)
            grown = ()
            for i in tl.static_range(T):
                difference = x - tl.load(S + j * M + m + i)
                if NORM == 1:
                    grown = grown + (sums[i] + tl.abs(difference),)  # noqa: RUF005 (Triton has no *)
                else:
                    grown = grown + (sums[i] + difference * difference,)  # noqa: RUF005
            sums = grown
        for i in tl.static_range(T):
            distance = sums[i] if NORM == 1 else tl.sqrt(sums[i])
            a = tl.load(A + m + i)
            if KERNEL == LAPLACE:
                f += a * tl.exp(-gamma * distance)
            elif KERNEL == SQUARED:
                f += a * tl.exp(-gamma * distance * distance)
            else:
                f -= a * distance
    tl.store(OUT + tile * TILE + part * R + rows, finish(f, kind))


@autotune(
    configs=[
        Config({"R": 128}, num_warps=4, num_stages=2),
        Config({"R": 256}, num_warps=8, num_stages=2),
        Config({"R": 128}, num_warps=4, num_stages=3),
    ],
    key=["D", "BM"],
)
@jit(do_not_specialize=["kind"])
def products_kernel(
    X,  # (tiles, D, TILE) float16
    SQUARES,  # (tiles · TILE,) float32
    HIGH,  # (D, M) float16; the sum of both is S / back
    LOW,  # (D, M) float16
    A,  # (M,) float32: the coefficients; for COLUMNS the factors of ‖x‖²
    C,  # (M,) float32: for GAUSSIAN γ‖s‖²; for COLUMNS the constants
    OUT,  # (tiles · TILE,) float32; for COLUMNS (M, N)
    back,
    gamma,
    bias,
    M,
    N,
    D,
    kind,
    TILE: tl.constexpr,
    KERNEL: tl.constexpr,
    BM: tl.constexpr,
    BK: tl.constexpr,
    R: tl.constexpr,
):
    """Σ aₘK(x·sₘ) + bias, or for COLUMNS aₘ‖x‖² + x·sₘ + cₘ; the products never leave the chip."""
    tile, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    rows = part * R + tl.arange(0, R)
    x_at = X + tile * (D * TILE)
    squares = tl.load(SQUARES + tile * TILE + rows)
    f = tl.zeros([R], tl.float32) + bias
    for m in range(0, M, BM):
        columns = m + tl.arange(0, BM)
        t = tl.zeros([R, BM], tl.float32)
        for k in range(0, D, BK):
            dims = k + tl.arange(0, BK)
            x = tl.trans(tl.load(x_at + dims[:, None] * TILE + rows[None, :]))  # (R, BK)
            t = tl.dot(x, tl.load(HIGH + dims[:, None] * M + columns[None, :]), t)
            t = tl.dot(x, tl.load(LOW + dims[:, None] * M + columns[None, :]), t)
        t *= back
        a = tl.load(A + columns)
        if KERNEL == GAUSSIAN:
            falls = 2 * gamma * t - gamma * squares[:, None] - tl.load(C + columns)[None, :]
            f += tl.sum(a[None, :] * tl.exp(tl.minimum(falls, 0.0)), axis=1)
        elif KERNEL == POLY:
            f += tl.sum(a[None, :] * (t + gamma * t * t), axis=1)
        else:
            scores = a[None, :] * squares[:, None] + t + tl.load(C + columns)[None, :]  # (R, BM)
            tl.store(OUT + columns.to(tl.int64)[None, :] * N + (tile * TILE + rows)[:, None], finish(scores, kind))
    if KERNEL != COLUMNS:
        tl.store(OUT + tile * TILE + rows, finish(f, kind))


@autotune(
    configs=[
        Config({"R": 1024, "U": 8}, num_warps=4),
        Config({"R": 1024, "U": 16}, num_warps=4),
        Config({"R": 512, "U": 16}, num_warps=4),
    ],
    key=["D", "Q"],
)
@jit(do_not_specialize=["kind"])
def columns_kernel(
    X,  # (tiles, D, TILE) float16
    SQUARES,  # (tiles · TILE,) float32
    V,  # (D, Q) float32
    A,  # (Q,) float32
    C,  # (Q,) float32
    OUT,  # (Q, N) float32
    N,
    D,
    kind,
    TILE: tl.constexpr,
    Q: tl.constexpr,
    R: tl.constexpr,
    U: tl.constexpr,
):
    """a‖x‖² + x·v + c for a few columns v: as fast as reading the rows."""
    tile, part = tl.program_id(0).to(tl.int64), tl.program_id(1)
    rows = tl.arange(0, R)
    x_at = X + tile * (D * TILE) + part * R
    sums = (tl.zeros([R], tl.float32),) * Q
    for j in tl.range(0, D, loop_unroll_factor=U):
        x = tl.load(x_at + (j * TILE + rows)).to(tl.float32)
        grown = ()
        for i in tl.static_range(Q):
            grown = grown + (sums[i] + x * tl.load(V + j * Q + i),)  # noqa: RUF005
        sums = grown
    place = tile * TILE + part * R + rows
    squares = tl.load(SQUARES + place)
    for i in tl.static_range(Q):
        scores = tl.load(A + i) * squares + sums[i] + tl.load(C + i)
        tl.store(OUT + i * N.to(tl.int64) + place, finish(scores, kind))


def grid(X):
    """The launch grid: tiles × parts of a tile."""
    return lambda options: (X.shape[0], triton.cdiv(X.shape[2], options["R"]))
