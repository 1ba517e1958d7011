"""Which way of searching fits so many pictures into so much memory, what it will cost, and how to get there.

In: what is to be kept (`Subject`), bytes of memory, seconds a search may take. Out: a `Plan`: every way this version
has, with predictions by the curves of `costs`, why it is or is not the one, and the commands that make it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from lookalike.engine import costs
from lookalike.engine.costs import CURVES, STORED
from lookalike.engine.machine import Machine
from lookalike.engine.space_fit import ROWS_BYTES
from lookalike.engine.space_sample import FIT_MAX, SAMPLE_BYTES
from lookalike.engine.space_settle import LEAVES
from lookalike.engine.specs import is_coder
from lookalike.engine.subject import Subject
from lookalike.errors import InputError
from lookalike.index.choice import FLAT_MAX, HNSW_MAX, choose
from lookalike.recipes import RECIPES
from lookalike.text import human_bytes, human_seconds

RECALL = {"flat": 1.0, "hnsw": 0.98, "ivfpq": 0.97}
"""The share of the ten nearest that is found, effort "balanced", on a million drawn rows (docs/indexes.md)."""
CODES = {"codes-128": ("itq", 128, 0.966), "pq-64": ("pq", 64, 0.965), "codes-64": ("itq", 64, 0.918)}
"""Ways that keep codes: the coder, its bits, and that share (docs/codes.md, `cifar10-deep`)."""
RANGES = {
    "flat": f"up to {FLAT_MAX:,} pictures",
    "hnsw": f"from {FLAT_MAX:,} to {HNSW_MAX:,} pictures",
    "ivfpq": f"from {HNSW_MAX:,} pictures on",
}
"""Where this version makes each by itself; nobody can choose."""
LONG_S = 30 * 86_400
"""An add that takes longer is worth a word."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way of searching, and what it costs."""

    name: str
    memory: float  # bytes that a process holds, or reads in every search, so that they must stay in memory
    feedback: float  # bytes that it holds on top of that while somebody gives feedback
    peak: float  # bytes while it is made
    disk: float  # bytes
    add_s: float | None  # to read, describe, encode and index everything; None: nobody knows how quick the feature is
    search_s: float  # by a picture of the collection; another one must be described first
    round_s: float  # of feedback
    recall: float
    commands: tuple[str, ...]
    made: bool  # whether this version makes it at this size
    why: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """Every way, the larger first, and which to take."""

    subject: Subject
    ram: float
    latency_s: float | None
    ways: tuple[Way, ...]
    chosen: str | None
    notes: tuple[str, ...]


def plan(subject: Subject, ram: float, latency_s: float | None = None, machine: Machine = STORED) -> Plan:
    """The first way, the larger ones first, that fits into `ram` bytes and answers within `latency_s`.

    >>> small, large = Subject(100_000, 256, 1280), Subject(10_000_000, 256, 1280)
    >>> plan(small, ram=4e9).chosen, plan(large, ram=4e9).chosen, plan(large, ram=1.6e9).chosen
    ('flat', 'ivfpq', 'codes-128')
    """
    for name, value in (("ram", ram), ("latency", latency_s)):
        if value is not None and value <= 0:
            raise InputError(f"{name} must be more than 0. Got {value:g}.")
    chosen: Way | None = None
    ways = []
    for way in _ways(subject, ram, machine):
        why = _obstacle(way, ram, latency_s)
        if not why and chosen is None:
            chosen, why = way, "exact, and it fits" if way.recall == 1 else "the most exact that fits"
        elif not why and chosen is not None:
            why = f"fits, too, but {chosen.name} finds more"
        ways.append(replace(way, why=why))
    taken = None if chosen is None else chosen.name
    return Plan(subject, ram, latency_s, tuple(ways), taken, tuple(_notes(subject, ways, chosen, ram)))


def search_seconds(kind: str, n: int, width: float, machine: Machine = STORED) -> float:
    """A search by "flat", "hnsw", "ivfpq" in rows of `width` numbers, or by "itq", "pq" in codes of `width` bytes."""
    return CURVES[f"search-{kind}"].seconds(n, width, machine)


def _ways(subject: Subject, ram: float, machine: Machine) -> Iterator[Way]:
    """All there are."""
    n, d, D = subject.items, subject.dim, subject.feature_dim
    plain = len(subject.chain) < 2 and d == D  # the feature's own vectors are searched
    base = 0 if plain else 2 * D + 8
    encode = 0.0 if plain else costs.pca_seconds(n, D, d, machine)
    for kind in RANGES:
        structure = costs.ANN[kind](d) if kind in costs.ANN else 0.0
        made = CURVES[f"build-{kind}"].seconds(n, d, machine) if structure else 0.0
        read = 4 * d + 4 if kind == "flat" else 16  # rows and their squared lengths; a table of ids
        held = n * (structure + read + costs.IDS)
        yield _way(
            (subject, ram, machine),
            kind,
            held=held,
            making=held + costs.trained_rows(n) * 4 * d if structure else n * costs.IDS,
            disk=n * (base + 4 * d + 8 + structure),
            taught=d,
            seconds=encode + made,
        )
    beside = 4 * d + 8 if subject.exists and not plain else 0  # the space that is there stays
    for name, (coder, bits, _) in CODES.items():
        held = n * (bits / 8 + 2 * costs.IDS)  # ids of the codes, and of the vectors, of which a search reads few
        yield _way(
            (subject, ram, machine),
            name,
            held=held,
            making=held + 2 * ROWS_BYTES,
            disk=n * (2 * D + 8 + bits / 8 + 8 + beside),
            taught=D,
            seconds=CURVES[f"encode-{coder}"].seconds(n * bits / 64, D, machine),
        )


def _way(
    where: tuple[Subject, float, Machine],
    name: str,
    *,
    held: float,
    making: float,
    disk: float,
    taught: int,
    seconds: float,
) -> Way:
    """With what all have alike. `taught`: numbers a picture that feedback learns from; bytes held, while making."""
    subject, ram, machine = where
    n = subject.items
    coder, bits, recall = CODES.get(name) or (name, 0, RECALL[name])
    leaves = n >= LEAVES and costs.leaves_fit(n, taught, ram)
    fitted = 2.2 * min(SAMPLE_BYTES, 4 * subject.feature_dim * min(n, FIT_MAX))  # rows, and what a fit makes of them
    # one after the other: pictures are read, transforms fitted, the index is made, leaves
    peak = max(costs.ADDING, costs.PROCESS + fitted, costs.PROCESS + making)
    if leaves:
        peak = max(peak, costs.PROCESS + costs.leaves_peak(n, taught))
        disk += n * costs.leaves_bytes(taught)
        seconds += CURVES["build-leaves"].seconds(n, taught, machine)
    add_s = None
    if subject.feature_s is not None:
        add_s = n * (subject.feature_s + costs.PICTURE_S * STORED.product / machine.product) + seconds
    return Way(
        name=name,
        memory=costs.PROCESS + held,
        feedback=n * costs.leaves_bytes(taught) if leaves else 0.0,
        peak=peak,
        disk=disk + n * costs.CATALOGUE,
        add_s=add_s,
        search_s=search_seconds(coder, n, bits // 8 or subject.dim, machine),
        round_s=CURVES["round-leaves" if leaves else "round-flat"].seconds(n, taught, machine),
        recall=recall,
        commands=_commands(subject, coder, bits),
        made=bool(bits) or name == choose(n),
    )


def _obstacle(way: Way, ram: float, latency_s: float | None) -> str:
    """Why a way cannot be the one, or nothing."""
    if not way.made:
        exact = "; --effort exact looks at every vector at any size" * (way.name == "flat")
        return f"this version makes it {RANGES[way.name]}{exact}"
    if way.memory > ram:
        return f"wants {human_bytes(way.memory)} of memory"
    if way.peak > ram:
        return f"takes {human_bytes(way.peak)} of memory to make"
    if latency_s is not None and way.search_s > latency_s:
        return f"a search takes {human_seconds(way.search_s)}"
    return ""


def _commands(subject: Subject, coder: str, bits: int) -> tuple[str, ...]:
    """What to type: for pictures that are not there yet, or in the collection that is."""
    own = f'"{subject.name} = {" | ".join(subject.chain)}"'
    recipe = own if subject.chain and subject.name not in RECIPES else subject.name
    space = ("codes" if coder == "itq" else coder) if bits else subject.name
    made = [f"lookalike fit '{space}(bits={bits})'"] if bits else []
    if subject.exists:
        exact = " --effort exact" if not bits and is_coder(subject.chain[-1]) else ""  # vectors instead of its codes
        return (*made, f"lookalike search IMAGE --space {space}{exact}")
    if bits and subject.chain:
        recipe, made = f'"{space} = {subject.chain[0]} | {coder}(bits={bits})"', []
    return (f"lookalike add FOLDER --recipe {recipe}", *made, f"lookalike search IMAGE --space {space}")


def _notes(subject: Subject, ways: Sequence[Way], chosen: Way | None, ram: float) -> Iterator[str]:
    """What a person should know besides."""
    if chosen is None:
        able = [way for way in ways if way.made]
        least = min(max(way.memory, way.peak) for way in able)
        quickest = min(way.search_s for way in able)
        yield (
            f"Nothing fits. The smallest takes {human_bytes(least)} of memory to make and to use, the quickest"
            f" {human_seconds(quickest)} a search. Fewer pictures, a recipe of fewer numbers (--recipe"
            ' "small = efficientnet() | pca(dim=64)"), or a larger machine: there is no way to spread a collection over'
            " several in this version."
        )
        return
    if subject.items >= LEAVES and not chosen.feedback:
        yield (
            f"Feedback has no leaves: making them would take more memory than there is. A round looks at every vector,"
            f" about {human_seconds(chosen.round_s)} and longer where they must come from the disk."
        )
    elif chosen.memory + chosen.feedback > ram:
        yield (
            f"While somebody gives feedback, a process holds {human_bytes(chosen.memory + chosen.feedback)}, more than"
            " there is: do that in a process of its own, or in another space."
        )
    if subject.items > costs.MEASURED_MAX:
        yield (
            f"Nothing above {costs.MEASURED_MAX:,} pictures was ever measured: these figures are the curves, drawn on."
            " There is no way to spread a collection over several machines in this version."
        )
    if chosen.add_s is not None and chosen.add_s > LONG_S:
        yield f"Adding takes {human_seconds(chosen.add_s)} on this machine; it can be stopped and goes on at any time."
