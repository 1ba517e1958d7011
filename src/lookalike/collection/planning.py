"""Planning: which way of searching fits so many pictures into so much memory, what it costs, and how to get there.

A plan lists all ways that this version has, with predictions by the curves of `costs`, why each is or is not
recommended, and the commands that set it up.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lookalike.collection import costs
from lookalike.collection.costs import CURVES, FEATURE_S, STORED, Machine
from lookalike.collection.fitting import FIT_MAX, ROWS_BYTES, SAMPLE_BYTES
from lookalike.collection.indexes import LEAVES_MIN
from lookalike.collection.specs import is_coder, parse_recipe
from lookalike.errors import InputError, UnknownNameError
from lookalike.index.choice import FLAT_MAX, HNSW_MAX, choose
from lookalike.recipes import RECIPES
from lookalike.registry import create
from lookalike.text import human_bytes, human_seconds

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
    encode = 0.0 if plain else costs.pca_seconds(n, D, d, machine)
    for kind in RANGES:
        structure = costs.ANN[kind](d) if kind in costs.ANN else 0.0
        made = CURVES[f"build-{kind}"].seconds(n, d, machine) if structure else 0.0
        read = 4 * d + 4 if kind == "flat" else 16  # rows and their squared lengths; a table of ids
        held = n * (structure + read + costs.IDS)
        yield _way(
            (workload, ram, machine),
            kind,
            held=held,
            making=held + costs.trained_rows(n) * 4 * d if structure else n * costs.IDS,
            disk=n * (base + 4 * d + 8 + structure),
            learned=d,
            seconds=encode + made,
        )
    beside = 4 * d + 8 if workload.exists and not plain else 0  # the space that is there stays
    for name, (coder, bits, _) in CODES.items():
        held = n * (bits / 8 + 2 * costs.IDS)  # ids of the codes, and of the vectors, of which a search reads few
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
    leaves = n >= LEAVES_MIN and costs.leaves_fit(n, learned, ram)
    fitted = 2.2 * min(SAMPLE_BYTES, 4 * workload.feature_dim * min(n, FIT_MAX))  # rows, and what a fit makes of them
    # one after the other: pictures are read, transforms fitted, the index is built, then leaves
    peak = max(costs.ADDING, costs.PROCESS + fitted, costs.PROCESS + making)
    if leaves:
        peak = max(peak, costs.PROCESS + costs.leaves_peak(n, learned))
        disk += n * costs.leaves_bytes(learned)
        seconds += CURVES["build-leaves"].seconds(n, learned, machine)
    add_s = None
    if workload.feature_s is not None:
        add_s = n * (workload.feature_s + costs.PICTURE_S * STORED.product / machine.product) + seconds
    return Way(
        name=name,
        memory=costs.PROCESS + held,
        feedback=n * costs.leaves_bytes(learned) if leaves else 0.0,
        peak=peak,
        disk=disk + n * costs.CATALOGUE,
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
    if workload.items > costs.MEASURED_MAX:
        yield (
            f"Nothing above {costs.MEASURED_MAX:,} pictures was measured: these figures are extrapolated. This version"
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
