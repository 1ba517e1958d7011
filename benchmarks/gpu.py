"""Speed of `GpuFlat` on one GPU: exact searches over up to 100M vectors, with the bound of the memory bandwidth.

    python benchmarks/gpu.py [--minutes 4] [--rows 100000000] [--device cuda] [--seed 0]

Needs numpy, torch with Triton, array_api_compat and lazy_loader, scikit-learn for complete rounds, and an installation
of lookalike for fits. Each result is printed as soon as it is known, the most important ones first; a step that would
not end in time is skipped. Vectors are float16, from 1,000 Gaussian clusters as in `lookalike bench run hyperplane`,
and are generated on the GPU. A hyperplane has 64 support vectors, half of them from one cluster, and goes through the
middle of the collection. "ms" is the median of complete searches for the 50 best, including the exact scores of the
candidates; "scan ms" is the pass over all rows on the device, and "bound ms" the time to read their bytes. Fits are
timed on the CPU and on the device, each after a first fit that is not timed. A small run without a GPU:
--device cpu --rows 20000 --minutes 1
"""

import argparse
import gc
import mmap
import statistics
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import torch

from lookalike.index.flat import Flat
from lookalike.index.gpu_flat import GpuFlat
from lookalike.index.gpu_scores import Plan, Tensors, rough_scores
from lookalike.index.queries import HyperplaneQuery, PointQuery
from lookalike.kernels import KERNELS, check_kernel, typical_gamma

CLUSTERS, SPREAD, SUPPORT, K = 1_000, 1.5, 64, 50
FITS = (
    "slem()",
    "kernelslem()",
    "ncmml(dim=64, max_iterations=200)",
    "ncmc(dim=64, k=4, max_iterations=200)",
    "lmnn(dim=64, max_iterations=200)",
    "dfk(k=8, max_iterations=50)",
    "pq(bits=64)",
)
"""Steps whose fits are timed, as in `lookalike fit`."""
PART = 1_000_000
"""Vectors that are generated at a time."""
REFERENCE_ROWS = 4_000
"""Vectors that a thread of the reference scores at a time."""


def main() -> None:
    """Run the steps in the order of their importance."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=4.0, help="skip what would end later")
    parser.add_argument("--rows", type=int, default=100_000_000, help="vectors of the largest runs")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    run, n = Run(options.device, options.seed, options.minutes), options.rows
    run.step("bandwidth", 3, run.measure_bandwidth)
    run.step("check", 10, lambda: run.compare(min(n, 100_000), ("gaussian", "laplace"), SUPPORT))
    run.step(f"{n} x 128", 25 + n / 3e6, lambda: run.measure(n, 128, rounds=True))
    run.step(f"{n} x 256", 10 + n / 1.5e6, lambda: run.measure(n, 256, kernels=()))
    run.step("same ids", 25, lambda: run.compare(min(n, 1_000_000), tuple(KERNELS), SUPPORT))
    for part in (10, 100, 1_000):
        run.step(f"{n // part} x 128", 5 + n / part / 2e6, lambda part=part: run.measure(n // part, 128, rounds=True))
    run.step("float32", 5, lambda: run.measure(n // 100, 128, dtype=torch.float32))
    run.step("streamed", 10 + n / 5 / 1e6, lambda: run.measure(n // 5, 128, kernels=("gaussian",), device_bytes=n * 12))
    run.step(f"{n} x 256, hyperplanes", 15 + n / 1.3e6, lambda: run.measure(n, 256))
    run.step("fits", 120, lambda: run.measure_fits(min(n, 50_000)))


class Run:
    """The device and the remaining time of a run."""

    def __init__(self, device: str, seed: int, minutes: float):
        self.device, self.seed, self.started = device, seed, time.monotonic()
        self.end = self.started + 60 * minutes
        self.bandwidth = float("nan")  # bytes per second

    def show(self, **values: Any) -> None:
        """Print one line."""
        short = {key: f"{value:.4g}" if isinstance(value, float) else value for key, value in values.items()}
        passed = time.monotonic() - self.started
        print(f"[{passed:5.1f} s] " + "  ".join(f"{key}: {value}" for key, value in short.items()), flush=True)

    def step(self, name: str, seconds: float, action: Callable[[], None]) -> None:
        """Run a step that takes about this long if there is time; a failure does not end the run."""
        if time.monotonic() + seconds > self.end:
            self.show(skipped=name, seconds=seconds)
            return
        try:
            action()
        except Exception:  # noqa: BLE001 (the other steps can still run)
            traceback.print_exc()
            self.show(failed=name)
        gc.collect()
        if self.device == "cuda":
            torch.cuda.empty_cache()

    def timed(self, action: Callable[[], Any], repeats: int = 5) -> float:
        """The median of several runs in milliseconds, after one to warm up."""
        times = []
        for _ in range(repeats + 1):
            self.wait()
            start = time.perf_counter()
            action()
            self.wait()
            times.append(1e3 * (time.perf_counter() - start))
        return statistics.median(times[1:])

    def wait(self) -> None:
        """Wait until the device has finished."""
        if self.device == "cuda":
            torch.cuda.synchronize()

    def measure_bandwidth(self) -> None:
        """Show the machine; measure how fast the device reads its memory and copies from pinned host memory."""
        name = torch.cuda.get_device_name() if self.device == "cuda" else "CPU"
        self.show(device=name, torch=torch.__version__, numpy=np.__version__)
        count = 2**32 if self.device == "cuda" else 2**26
        X = torch.empty(count, dtype=torch.float32, device=self.device).normal_()
        Y = torch.empty_like(X)
        copied = 8 * count / self.timed(lambda: Y.copy_(X)) * 1e3
        read = 4 * count / self.timed(lambda: X.view(-1, 1024).amax(1)) * 1e3
        self.bandwidth = max(copied, read)
        host = torch.empty(count // 16, pin_memory=self.device == "cuda")
        uploaded = count / 4 / self.timed(lambda: Y[: count // 16].copy_(host, non_blocking=True)) * 1e3
        self.show(copy_TB_s=copied / 1e12, read_TB_s=read / 1e12, from_host_GB_s=uploaded / 1e9)

    def rows(self, n: int, d: int, dtype: torch.dtype = torch.float16) -> np.ndarray:
        """Generate vectors on the device; return them in host memory."""
        start = time.perf_counter()
        random = torch.Generator(self.device).manual_seed(self.seed)
        centres = torch.randn((CLUSTERS, d), generator=random, device=self.device)
        sizes = torch.randn(CLUSTERS, generator=random, device=self.device).exp()
        size = n * d * dtype.itemsize
        memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)  # `Flat` does not check mapped rows
        X = np.ndarray((n, d), np.float16 if dtype == torch.float16 else np.float32, buffer=memory)
        staging = torch.empty((min(n, PART), d), dtype=dtype, pin_memory=self.device == "cuda")
        for first in range(0, n, PART):
            m = min(PART, n - first)
            cluster = torch.multinomial(sizes, m, replacement=True, generator=random)
            part = SPREAD * torch.randn((m, d), generator=random, device=self.device) + centres[cluster]
            staging[:m].copy_(part)
            torch.from_numpy(X[first : first + m]).copy_(staging[:m])
        self.show(generated=f"{n} x {d} {dtype}", seconds=time.perf_counter() - start)
        return X

    def query(self, X: np.ndarray, kernel: str, kind: Any, support: int) -> HyperplaneQuery:
        """A hyperplane of rows of X, half of them the neighbours of row 0, through the middle of a sample."""
        sample = X[:: max(1, len(X) // 20_000)][:20_000].astype(np.float32)
        near = np.argsort(((sample - sample[0]) ** 2).sum(1))[: support // 2]
        far = np.arange(1, len(sample), max(1, len(sample) // support))[: support - len(near)]
        S = sample[np.append(near, far)]
        a = np.append(np.full(len(near), 1 / len(near)), np.full(len(far), -1 / len(far)))
        a *= np.random.default_rng(self.seed).uniform(0.5, 1.5, len(a))
        a -= a.mean()
        gamma = typical_gamma(kernel, sample[:2_000])
        f = check_kernel(kernel, gamma).pairs(sample[:4_000], S, gamma) @ a
        return HyperplaneQuery(S, a, -float(np.median(f)), kernel=kernel, gamma=gamma, kind=kind)

    def build(self, X: np.ndarray, device_bytes: int | None = None) -> GpuFlat:
        """Copy vectors to the device."""
        start, flat = time.perf_counter(), Flat()
        flat.add(np.arange(len(X)), X)
        added = time.perf_counter() - start
        index = GpuFlat(self.device, device_bytes).build(flat)
        self.wait()
        self.show(
            flat_seconds=added,
            upload_seconds=time.perf_counter() - start - added,
            blocks=len(index.blocks),
            bytes_per_row=index.nbytes / len(X),
            on_host=index.host_bytes / index.nbytes,
        )
        return index

    def measure(
        self,
        n: int,
        d: int,
        kernels: tuple[str, ...] = ("gaussian", "laplace"),
        dtype: torch.dtype = torch.float16,
        device_bytes: int | None = None,
        rounds: bool = False,
    ) -> None:
        """Time searches over n vectors."""
        X = self.rows(n, d, dtype)
        index = self.build(X, device_bytes)
        bound = 1e3 * 2 * n * d / self.bandwidth
        queries: dict[str, Any] = {
            f"{kernel} {kind}": self.query(X, kernel, kind, SUPPORT)
            for kernel in kernels
            for kind in ("frontier", "maximum")
        }
        queries["nearest 10"] = PointQuery(X[7:8].astype(np.float32) + np.float32(0.01))
        if n <= 10_000_000:
            queries["nearest 10 of 64 points"] = PointQuery(X[7:71].astype(np.float32) + np.float32(0.01))
        for name, query in queries.items():
            k = 10 if name.startswith("nearest") else K
            scored: list[int] = []

            def search(query: Any = query, k: int = k, scored: list[int] = scored) -> None:
                scored.append(index.search(again(query), k).scored)

            start = time.perf_counter()
            search()
            first = 1e3 * (time.perf_counter() - start)
            self.show(
                rows=n,
                d=d,
                query=name,
                ms=self.timed(search),
                scan_ms=self.timed(lambda query=query: scan(index, query)),
                bound_ms=bound,
                first_ms=first,
                again=scored[-1] / len(X) - 1,
            )
        if rounds:
            self.play_rounds(index, X)

    def play_rounds(self, index: GpuFlat, X: np.ndarray) -> None:
        """Time complete feedback rounds: train, search, estimate and choose questions."""
        from lookalike.feedback.learners import Svm
        from lookalike.feedback.round import Marks, run_round

        sample = np.arange(0, len(X), max(1, len(X) // 20_000))[:20_000]
        distances = ((X[sample].astype(np.float32) - X[0].astype(np.float32)) ** 2).sum(1)
        near = sample[np.argsort(distances)[:10]]
        ids = np.append(near, sample[1 : 41 * (len(sample) // 41) : len(sample) // 41][:40])
        marks = Marks(ids, X[ids].astype(np.float32), np.append(np.ones(10), -np.ones(len(ids) - 10)).astype(np.int8))
        for kernel in ("gaussian", "laplace"):
            for strategy in ("mix", "frontier"):
                parts: list[dict[str, float]] = []

                def play(kernel: str = kernel, strategy: str = strategy, parts: list[Any] = parts) -> None:
                    turn = len(parts)
                    played = run_round(index, marks, k=K, learner=Svm(kernel), strategy=strategy, turn=turn)
                    parts.append(played.seconds)

                total = self.timed(play)
                split = {part: 1e3 * statistics.median(seconds[part] for seconds in parts[1:]) for part in parts[0]}
                self.show(rows=len(X), round=kernel, strategy=strategy, ms=total, **split)

    def measure_fits(self, n: int, d: int = 256) -> None:
        """Fits of n rows in host memory with 100 labels, on the CPU and on the device."""
        from lookalike.collection.chain import fit_step

        random = np.random.default_rng(self.seed)
        y = random.integers(100, size=n)
        X = (random.normal(size=(100, d))[y] + SPREAD * random.normal(size=(n, d))).astype(np.float32)
        for spec in FITS:
            labels = [] if spec.startswith(("slem", "kernelslem", "pq")) else [y]
            cpu, device = (
                self.timed(lambda gpu=gpu, spec=spec, labels=labels: fit_step(spec, X, *labels, gpu=gpu), repeats=1)
                for gpu in (None, self.device)
            )
            self.show(rows=n, fit=spec, cpu_ms=cpu, device_ms=device, times_faster=cpu / device)

    def compare(self, n: int, kernels: tuple[str, ...], support: int) -> None:
        """Compare ids with a scan in float64 by numpy, and the approximate scores with their bound."""
        X = self.rows(n, 128)
        index = self.build(X)
        for kernel in kernels:
            query = self.query(X, kernel, "frontier", support)
            f = reference(X, query)
            for kind in ("frontier", "maximum"):
                own = query.of_kind(kind)
                expected = np.abs(f) if kind == "frontier" else -f
                hits = index.search(own, K)
                found = expected[hits.ids[0]]
                order = np.lexsort((np.arange(n), expected.astype(np.float32)))[:K]
                self.show(
                    rows=n,
                    kernel=kernel,
                    kind=kind,
                    same_ids=bool(np.array_equal(hits.ids[0], order)),
                    largest_difference=float(np.abs(found - expected[order]).max()),
                    rough_error=float(np.abs(scan(index, own)[: len(X)].cpu().numpy() - expected).max()),
                    bound=Plan.of(own, index.scale).error(index.extent),
                )
        point = X[7:8].astype(np.float32) + np.float32(0.01)
        squares = np.square(X.astype(np.float64) - point).sum(1)
        hits = index.search(PointQuery(point), K)
        self.show(rows=n, query="nearest", same_ids=bool(np.array_equal(hits.ids[0], np.argsort(squares)[:K])))


def again(query: Any) -> Any:
    """An equal query: an index can reuse the scores of the same one."""
    if isinstance(query, HyperplaneQuery):
        return query.of_kind(query.kind)
    return PointQuery(query.vectors)


def scan(index: GpuFlat, query: Any) -> torch.Tensor:
    """Only the pass over the rows that are on the device; returns the scores of the last query and block."""
    plan = Plan.of(query, index.scale)
    blocks = [rows for rows in index.blocks if not rows.on_host]
    if not blocks:
        return torch.empty(0)
    tensors = Tensors.of(plan, blocks[0].X.shape[1], blocks[0].X.device)
    largest = max(len(rows.squares) for rows in blocks)
    out = torch.empty((plan.q, largest), device=blocks[0].X.device)
    for rows in blocks:
        rough_scores(rows.X, rows.squares, plan, tensors, out[:, : len(rows.squares)])
    return out[-1]


def reference(X: np.ndarray, query: HyperplaneQuery) -> np.ndarray:
    """f / ‖w‖ of rows by plain numpy in float64, in threads."""
    norm, shape = check_kernel(query.kernel, query.gamma).norm, query.kernel.partition("-")[0]
    S, gamma = query.X.astype(np.float64), query.gamma

    def score(first: int) -> np.ndarray:
        rows = X[first : first + REFERENCE_ROWS].astype(np.float64)
        if norm is None:
            t = rows @ S.T
            K = t if shape == "linear" else t + gamma * t * t
        else:
            D = np.empty((len(rows), len(S)))
            for m, s in enumerate(S):
                difference = rows - s
                D[:, m] = np.abs(difference).sum(1) if norm == 1 else np.sqrt(np.square(difference).sum(1))
            K = -D if shape == "angular" else np.exp(-gamma * (D if shape == "laplace" else D * D))
        f: np.ndarray = (K @ query.a + query.b) / query.length
        return f

    with ThreadPoolExecutor() as threads:
        return np.concatenate(list(threads.map(score, range(0, len(X), REFERENCE_ROWS))))


if __name__ == "__main__":
    main()
