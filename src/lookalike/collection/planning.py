"""Planning: which way of searching fits so many pictures into so much memory, what it costs, and how to get there.

A plan lists all ways that this version has, with predictions, why each is or is not recommended, and the commands that
set it up. Predictions are curves: all that a search or a fit does is bound by reading memory or by products of matrices
(the roofline model of Williams, Waterman & Patterson, CACM 2009). A curve states the bytes or operations that cannot be
avoided for n rows of d numbers; `times` and `fixed_s` were measured: seconds = fixed_s + times · work(n, d) / speed.

Measured on 2026-11-16 by `lookalike bench run scaling` (64 dimensions, one thread, CPU time; docs/plan.md has the
table) on an Intel Xeon with 2 cores; `STORED` is what `measure` returned there. `times` is that of the largest size.
All figures are rounded.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from math import sqrt
from typing import Any, Literal

import cv2
import numpy as np

from lookalike.collection.chain import SINGLE_BLAS_THREAD
from lookalike.collection.fitting import FIT_MAX, ROWS_BYTES, SAMPLE_BYTES
from lookalike.collection.indexes import LEAVES_MIN, PROCESS, leaves_fit, leaves_peak
from lookalike.collection.specs import is_coder, parse_recipe
from lookalike.errors import InputError, UnknownNameError
from lookalike.images.decoding import read
from lookalike.images.demo import KINDS, draw
from lookalike.images.workers import count_cores
from lookalike.index.choice import FLAT_MAX, HNSW_MAX, choose
from lookalike.recipes import RECIPES
from lookalike.registry import create
from lookalike.text import human_bytes, human_seconds
from lookalike.types import Feature, needs_fit

ROWS, WIDTH = 2**17, 256
"""Size of the matrix that is read: 128 MiB, more than most caches hold."""
SIDE, RUNS = 1024, 5

MEASURED_MAX = 10_000_000
"""Largest size that was measured: predictions beyond extrapolate the curves."""

PCA_MORE = 180
"""Columns of a product that cost as much as everything else that is done to a projected row."""

SUPPORTS = 50
"""Marks that a round of feedback learns from, in the curves: about five rounds into a session."""

RECALL = {"flat": 1.0, "hnsw": 0.98, "ivfpq": 0.97}
"""Share of the ten nearest that is found, effort "balanced", on a million random rows (docs/indexes.md)."""
CODES = {"codes-128": ("itq", 128, 0.966), "pq-64": ("pq", 64, 0.965), "codes-64": ("itq", 64, 0.918)}
"""Options that use codes: the coder, its bits, and that share (docs/codes.md, `cifar10-deep`)."""
RANGES = {
    "flat": f"up to {FLAT_MAX:,} pictures",
    "hnsw": f"from {FLAT_MAX:,} to {HNSW_MAX:,} pictures",
    "ivfpq": f"from {HNSW_MAX:,} pictures on",
}
"""Sizes at which this version builds each index; it cannot be chosen."""
LONG_S = 30 * 86_400
"""An add that takes longer gets a note."""

SPEED_PICTURES = 8
SPEED_SHAPE = (768, 512)
"""Width and height of the drawn pictures: between those of web pages and cameras."""
LEARN_BYTES = 2**22
"""Memory for features that are fitted: a poor vocabulary is as fast as a good one."""


@dataclass(frozen=True, slots=True)
class Machine:
    """The speed of a machine."""

    memory: float  # bytes per second, read in order
    product: float  # additions and multiplications of float32 per second


STORED = Machine(memory=10e9, product=100e9)
"""The machine on which the curves were measured, one thread."""


@dataclass(frozen=True, slots=True)
class CostCurve:
    """One kind of work. `work(n, d)`: bytes read, or operations, for n rows of d numbers (of codes, d bytes)."""

    bound: Literal["memory", "product"]
    work: Callable[[float, float], float]
    times: float
    fixed_s: float = 0.0

    def seconds(self, n: float, d: float, machine: Machine = STORED) -> float:
        """Seconds on a machine."""
        speed = machine.memory if self.bound == "memory" else machine.product
        return self.fixed_s + self.times * self.work(n, d) / speed


def trained_rows(n: float) -> float:
    """Rows that the lists of `Ann` are trained on."""
    return min(n, max(65_536, 64 * sqrt(n)))


def _cells(n: float) -> float:
    """Cells of `Leaves`."""
    return min(n / 500, 4_096)


CURVES: dict[str, CostCurve] = {
    # every row, as float32
    "search-flat": CostCurve("memory", lambda n, d: (4 * d + 8) * n, 1.1, 3e-4),
    # 192 nodes with 16 links each, a byte a number; of a larger graph, caches miss more
    "search-hnsw": CostCurve("memory", lambda n, d: 192 * 16 * d * n**0.15, 1.5, 1.5e-4),
    # the centres of √n lists, and 64 lists of half a byte for two numbers
    "search-ivfpq": CostCurve("memory", lambda n, d: (4 + 64 / 4) * d * sqrt(n), 2.5, 1.5e-4),
    # every code; the fixed part is the vectors of 300 that are proposed
    "search-itq": CostCurve("memory", lambda n, d: d * n, 1.5, 1e-3),
    # one table look-up for every byte of every code
    "search-pq": CostCurve("memory", lambda n, d: d * n, 30.0, 1e-3),
    # every row against every support vector, for four searches
    "round-flat": CostCurve("product", lambda n, d: 4 * 2 * SUPPORTS * d * n, 5.5, 1.8e-2),
    # the leaves that are visited: for every row there a byte a number, and its place
    "round-leaves": CostCurve("memory", lambda n, d: (d + 64) * n**0.6, 1800.0, 2e-2),
    # 80 candidates with 16 links, for every row a byte a number, and its links
    "build-hnsw": CostCurve("memory", lambda n, d: 80 * 16 * (d + 200) * n**1.15, 0.6),
    # every row against the centres of √n lists, those they are learned from 25 times
    "build-ivfpq": CostCurve("product", lambda n, d: 2 * d * sqrt(n) * (n + 25 * trained_rows(n)), 4.0),
    # every row against the centres of cells, those they are learned from 10 times; then cells are cut into leaves
    "build-leaves": CostCurve("product", lambda n, d: 2 * d * (_cells(n) * (n + 1280 * _cells(n)) + 800 * n), 5.3),
    # 256 principal components; what is done to rows besides costs as much as 180 more (see `pca_seconds`)
    "encode-pca": CostCurve("product", lambda n, d: 2 * d * (256 + PCA_MORE) * n, 0.8),
    # 64 bits, and what comes after the product
    "encode-itq": CostCurve("product", lambda n, d: 2 * 64 * (d + 100) * n, 1.4),
    # every part of a row against its 256 centroids
    "encode-pq": CostCurve("product", lambda n, d: 2 * d * 256 * n, 9.0),
}

FEATURE_S: Mapping[str, float] = {
    "efficientnet()": 0.0185,
    "efficientnet(pool='spoc')": 0.0188,
    "efficientnet(pool='rmac')": 0.0220,
    "vlad(local='efficientnetmaps()')": 0.0155,
    "vlad()": 0.0721,
    "fisher()": 0.0939,
    "fisher(k=256)": 0.1053,
    "join(parts=['probabilitycolor()', 'laplaciancolor()', 'hsv()', 'hough()', 'fourier()'])": 0.0061,
    "color()": 0.0021,
}
"""CPU seconds to read and describe a picture of 768 × 512, one thread, on the machine of the curves."""

PICTURE_S = 0.0019
"""Seconds of everything else that an add does per picture, including commits: `add` in the table, small pictures."""

ADDING = 800e6
"""Bytes of an add with its reading processes (README, 10,000 pictures)."""

CATALOGUE = 200
"""Bytes on the disk per picture besides vectors: path, size, dates, id."""

IDS = 25
"""Bytes in memory per row of an index besides the vector: the id, a sorted table of ids and rows, a live flag."""

ANN: Mapping[str, Callable[[float], float]] = {"hnsw": lambda d: d + 144, "ivfpq": lambda d: d / 4 + 24}
"""Bytes per row of faiss's structures, in memory and on the disk."""


def pca_seconds(n: float, d: float, columns: float, machine: Machine) -> float:
    """Seconds to project n rows of d numbers to so many columns."""
    return CURVES["encode-pca"].seconds(n * (columns + PCA_MORE) / (256 + PCA_MORE), d, machine)


def leaves_bytes(d: float) -> float:
    """Bytes per row of `Leaves`, in memory and on the disk."""
    return d + 30


def measure(clock: Callable[[], float] = time.perf_counter) -> Machine:
    """Measure this machine with the threads that NumPy has now: the best of a few runs, half a second in all.

    >>> measure().product > 0
    True
    """
    X = np.ones((ROWS, WIDTH), np.float32)
    square, out = np.ones((SIDE, SIDE), np.float32), np.empty((SIDE, SIDE), np.float32)
    read = _best(lambda: X @ X[0], clock)
    multiplied = _best(lambda: np.matmul(square, square, out=out), clock)
    return Machine(X.nbytes / read, 2 * SIDE**3 / multiplied)


def _best(work: Callable[[], object], clock: Callable[[], float]) -> float:
    """Seconds of the fastest of several calls: other processes only make it slower."""
    work()
    times = []
    for _ in range(RUNS):
        start = clock()
        work()
        times.append(clock() - start)
    return max(min(times), 1e-9)


@dataclass(frozen=True, slots=True)
class Workload:
    """What a plan is for: how many pictures, and how long their vectors are."""

    items: int
    dim: int  # numbers per picture in the vectors that are searched
    feature_dim: int  # numbers per picture in the vectors of its feature
    chain: tuple[str, ...] = ()  # specs; empty if only the dimension is known
    name: str = "RECIPE"  # of the recipe, or of the space
    exists: bool = False  # whether the collection exists
    feature_s: float | None = None  # seconds to read and describe a picture; None if unknown

    def __post_init__(self) -> None:
        for name in ("items", "dim", "feature_dim"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more. Got {getattr(self, name)}.")


@dataclass(frozen=True, slots=True)
class Way:
    """One way of searching, and what it costs."""

    name: str
    memory: float  # bytes that a process holds or reads in every search
    feedback: float  # bytes that it holds on top of that during feedback
    peak: float  # bytes while it is built
    disk: float  # bytes
    add_s: float | None  # to read, describe, encode and index everything; None: the speed of the feature is unknown
    search_s: float  # by a picture of the collection; other pictures must be described first
    round_s: float  # of feedback
    recall: float
    commands: tuple[str, ...]
    made: bool  # whether this version builds it at this size
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """All ways of searching, largest first, and the recommended one."""

    workload: Workload
    ram: float
    latency_s: float | None
    ways: tuple[Way, ...]
    chosen: str | None
    notes: tuple[str, ...]


def recipe_workload(items: int, recipe: str) -> Workload:
    """So many pictures with a recipe, or with `NAME = SPEC | SPEC`.

    >>> recipe_workload(1_000, "color").dim, recipe_workload(1_000, "small = color() | pca(dim=32)").dim
    (512, 32)
    """
    name, chain = parse_recipe(recipe)
    return Workload(items, *_dims(chain), tuple(chain), name)


def collection_workload(stats: dict[str, Any], space: str | None = None) -> Workload:
    """The pictures of a collection with one of its spaces; by default the first that stores vectors."""
    found = {row["name"]: row for row in stats["spaces"]}
    if not stats["items"] or not found:
        raise InputError("The collection is empty. Add pictures first: lookalike add FOLDER; or give --items N")
    if space is not None and space not in found:
        raise UnknownNameError("space", space, found)
    row = found[space] if space else next((r for r in found.values() if r["bits"] is None), stats["spaces"][0])
    dim, feature_dim = _dims(row["chain"])
    if row["state"] != "raw" and row["bits"] is None:
        dim = row["dim"]
    return Workload(stats["items"], dim, feature_dim, tuple(row["chain"]), row["name"], exists=True)


def with_speed(workload: Workload, machine: Machine, pictures_per_s: float | None = None) -> Workload:
    """The workload with the seconds per picture: by the measured rate, or by the stored figure for this machine."""
    stored = FEATURE_S.get(workload.chain[0]) if workload.chain else None
    seconds = None if stored is None else stored * STORED.product / machine.product
    return replace(workload, feature_s=1 / pictures_per_s if pictures_per_s else seconds)


def plan(workload: Workload, ram: float, latency_s: float | None = None, machine: Machine = STORED) -> Plan:
    """Recommend the first way, largest first, that fits into `ram` bytes and answers within `latency_s`.

    >>> small, large = Workload(100_000, 256, 1280), Workload(10_000_000, 256, 1280)
    >>> plan(small, ram=4e9).chosen, plan(large, ram=4e9).chosen, plan(large, ram=1.6e9).chosen
    ('flat', 'ivfpq', 'codes-128')
    """
    for name, value in (("ram", ram), ("latency", latency_s)):
        if value is not None and value <= 0:
            raise InputError(f"{name} must be more than 0. Got {value:g}.")
    chosen: Way | None = None
    ways = []
    for way in _ways(workload, ram, machine):
        why = _obstacle(way, ram, latency_s)
        if not why and chosen is None:
            chosen, why = way, "exact, and it fits" if way.recall == 1 else "the most exact that fits"
        elif not why and chosen is not None:
            why = f"also fits, but {chosen.name} finds more"
        ways.append(replace(way, why=why))
    taken = None if chosen is None else chosen.name
    return Plan(workload, ram, latency_s, tuple(ways), taken, tuple(_notes(workload, ways, chosen, ram)))


def search_seconds(kind: str, n: int, width: float, machine: Machine = STORED) -> float:
    """A search by "flat", "hnsw", "ivfpq" in rows of `width` numbers, or by "itq", "pq" in codes of `width` bytes."""
    return CURVES[f"search-{kind}"].seconds(n, width, machine)


def _ways(workload: Workload, ram: float, machine: Machine) -> Iterator[Way]:
    """All ways of searching."""
    n, d, D = workload.items, workload.dim, workload.feature_dim
    plain = len(workload.chain) < 2 and d == D  # the feature's own vectors are searched
    base = 0 if plain else 2 * D + 8
    encode = 0.0 if plain else pca_seconds(n, D, d, machine)
    for kind in RANGES:
        structure = ANN[kind](d) if kind in ANN else 0.0
        made = CURVES[f"build-{kind}"].seconds(n, d, machine) if structure else 0.0
        read = 4 * d + 4 if kind == "flat" else 16  # rows and their squared lengths; a table of ids
        held = n * (structure + read + IDS)
        yield _way(
            (workload, ram, machine),
            kind,
            held=held,
            making=held + trained_rows(n) * 4 * d if structure else n * IDS,
            disk=n * (base + 4 * d + 8 + structure),
            learned=d,
            seconds=encode + made,
        )
    beside = 4 * d + 8 if workload.exists and not plain else 0  # the space that is there stays
    for name, (coder, bits, _) in CODES.items():
        held = n * (bits / 8 + 2 * IDS)  # ids of the codes, and of the vectors, of which a search reads few
        yield _way(
            (workload, ram, machine),
            name,
            held=held,
            making=held + 2 * ROWS_BYTES,
            disk=n * (2 * D + 8 + bits / 8 + 8 + beside),
            learned=D,
            seconds=CURVES[f"encode-{coder}"].seconds(n * bits / 64, D, machine),
        )


def _way(
    where: tuple[Workload, float, Machine],
    name: str,
    *,
    held: float,
    making: float,
    disk: float,
    learned: int,
    seconds: float,
) -> Way:
    """A way with what all have in common. `learned`: numbers per picture that feedback learns from."""
    workload, ram, machine = where
    n = workload.items
    coder, bits, recall = CODES.get(name) or (name, 0, RECALL[name])
    leaves = n >= LEAVES_MIN and leaves_fit(n, learned, ram)
    fitted = 2.2 * min(SAMPLE_BYTES, 4 * workload.feature_dim * min(n, FIT_MAX))  # rows, and what a fit makes of them
    # one after the other: pictures are read, transforms fitted, the index is built, then leaves
    peak = max(ADDING, PROCESS + fitted, PROCESS + making)
    if leaves:
        peak = max(peak, PROCESS + leaves_peak(n, learned))
        disk += n * leaves_bytes(learned)
        seconds += CURVES["build-leaves"].seconds(n, learned, machine)
    add_s = None
    if workload.feature_s is not None:
        add_s = n * (workload.feature_s + PICTURE_S * STORED.product / machine.product) + seconds
    return Way(
        name=name,
        memory=PROCESS + held,
        feedback=n * leaves_bytes(learned) if leaves else 0.0,
        peak=peak,
        disk=disk + n * CATALOGUE,
        add_s=add_s,
        search_s=search_seconds(coder, n, bits // 8 or workload.dim, machine),
        round_s=CURVES["round-leaves" if leaves else "round-flat"].seconds(n, learned, machine),
        recall=recall,
        commands=_commands(workload, coder, bits),
        made=bool(bits) or name == choose(n),
    )


def _obstacle(way: Way, ram: float, latency_s: float | None) -> str:
    """Why a way cannot be used; empty if it can."""
    if not way.made:
        exact = "; --effort exact scans all vectors at any size" * (way.name == "flat")
        return f"this version builds it {RANGES[way.name]}{exact}"
    if way.memory > ram:
        return f"needs {human_bytes(way.memory)} of memory"
    if way.peak > ram:
        return f"takes {human_bytes(way.peak)} of memory to build"
    if latency_s is not None and way.search_s > latency_s:
        return f"a search takes {human_seconds(way.search_s)}"
    return ""


def _commands(workload: Workload, coder: str, bits: int) -> tuple[str, ...]:
    """The commands: for new pictures, or for the existing collection."""
    own = f'"{workload.name} = {" | ".join(workload.chain)}"'
    recipe = own if workload.chain and workload.name not in RECIPES else workload.name
    space = ("codes" if coder == "itq" else coder) if bits else workload.name
    made = [f"lookalike fit '{space}(bits={bits})'"] if bits else []
    if workload.exists:
        exact = " --effort exact" if not bits and is_coder(workload.chain[-1]) else ""  # vectors instead of its codes
        return (*made, f"lookalike search IMAGE --space {space}{exact}")
    if bits and workload.chain:
        recipe, made = f'"{space} = {workload.chain[0]} | {coder}(bits={bits})"', []
    return (f"lookalike add FOLDER --recipe {recipe}", *made, f"lookalike search IMAGE --space {space}")


def _notes(workload: Workload, ways: Sequence[Way], chosen: Way | None, ram: float) -> Iterator[str]:
    """Notes for the user."""
    if chosen is None:
        able = [way for way in ways if way.made]
        least = min(max(way.memory, way.peak) for way in able)
        quickest = min(way.search_s for way in able)
        yield (
            f"Nothing fits. The smallest takes {human_bytes(least)} of memory to build and to use, the fastest"
            f" {human_seconds(quickest)} a search. Fewer pictures, a recipe with shorter vectors (--recipe"
            ' "small = efficientnet() | pca(dim=64)"), or a larger machine: this version cannot spread a'
            " collection over several machines."
        )
        return
    if workload.items >= LEAVES_MIN and not chosen.feedback:
        yield (
            f"Feedback has no leaves: building them would take more memory than there is. A round scans all vectors, in"
            f" about {human_seconds(chosen.round_s)}, and longer if they must be read from the disk."
        )
    elif chosen.memory + chosen.feedback > ram:
        yield (
            f"During feedback a process holds {human_bytes(chosen.memory + chosen.feedback)}, more than there is: use a"
            " process of its own, or another space."
        )
    if workload.items > MEASURED_MAX:
        yield (
            f"Nothing above {MEASURED_MAX:,} pictures was measured: these figures are extrapolated. This version"
            " cannot spread a collection over several machines."
        )
    if chosen.add_s is not None and chosen.add_s > LONG_S:
        yield f"Adding takes {human_seconds(chosen.add_s)} on this machine; it can be stopped and resumed at any time."


def _dims(chain: Sequence[str]) -> tuple[int, int]:
    """Numbers per picture after the transforms, and after the feature."""
    feature_dim = dim = int(create("feature", chain[0]).dim)
    for spec in chain[1:]:
        if not is_coder(spec):
            dim = min(dim, getattr(create("transform", spec), "dim", dim))
    return dim, feature_dim


@dataclass(frozen=True)
class RecipeSpeed:
    """The speed of a recipe on this machine."""

    dim: int
    pictures_per_s: float


def measure_recipe(chain: Sequence[str]) -> RecipeSpeed:
    """Estimate the speed of a recipe from a few drawn pictures, in about a second; transforms are left out.

    The work of the reading processes runs on every core at once, the rest has all cores to itself. MissingError if the
    weights of a network are missing.
    """
    feature, rate = _rate(chain[0])
    dim = feature.dim
    for spec in chain[1:]:
        dim = min(dim, getattr(create("transform", spec), "dim", dim))
    return RecipeSpeed(dim, rate)


@cache
def _rate(spec: str) -> tuple[Feature, float]:
    """A feature, and the pictures per second that it describes."""
    feature: Feature = create("feature", spec)
    files = _files()
    threads = cv2.getNumThreads()
    cv2.setNumThreads(1)  # as in the reading processes
    try:
        prepared = [feature.prepare(read(data, side=feature.side).pixels) for data in files[:2]]  # warms up
        start = time.perf_counter()
        prepared = [feature.prepare(read(data, side=feature.side).pixels) for data in files]
        preparing = (time.perf_counter() - start) / SPEED_PICTURES
    finally:
        cv2.setNumThreads(threads)
    if needs_fit(feature):
        feature.fit(prepared, max_bytes=LEARN_BYTES)  # type: ignore[attr-defined]
    with SINGLE_BLAS_THREAD:
        feature.describe(prepared[:1])
        start = time.perf_counter()
        feature.describe(prepared)
        describing = (time.perf_counter() - start) / SPEED_PICTURES
    everywhere = preparing + describing if feature.by_picture else preparing
    return feature, 1 / (everywhere / count_cores() + (preparing + describing - everywhere))


@cache
def _files() -> list[bytes]:
    """Drawn pictures as JPEG files."""
    files = []
    for i in range(SPEED_PICTURES):
        small = draw(KINDS[i % len(KINDS)], np.random.default_rng(i))
        done, data = cv2.imencode(".jpg", cv2.resize(small, SPEED_SHAPE)[:, :, ::-1])
        assert done
        files.append(data.tobytes())
    return files
