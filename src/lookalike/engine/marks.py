"""What a session learns from: examples and marks, turned into vectors with signs.

In: examples of what is wanted and unwanted, and marks by item. Out: `Marks` for `feedback.round`. A picture of the
collection is a mark of its item; any other example is kept as its feature's vector, which outlives a refit.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lookalike.arrays import check_rows
from lookalike.engine.examples import Crop, Example, identity, shown
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError, UnknownNameError
from lookalike.index.queries import PointQuery
from lookalike.store.directory import Store
from lookalike.store.sessions import ExternalExample, Kind
from lookalike.types import Ids, Vectors

if TYPE_CHECKING:  # learning loads scikit-learn: when it is first asked for
    from lookalike.feedback.round import Marks

SIGNS = {"relevant": 1, "irrelevant": -1}


class Beginning(NamedTuple):
    """What a session starts from."""

    space: str
    marks: dict[int, Kind]
    outsiders: list[ExternalExample]


class Gathered(NamedTuple):
    """What there is to learn from now."""

    marks: "Marks"
    skipped: Ids  # (s,) ascending
    notes: list[str]  # what had to be left out


def begin(
    store: Store,
    spaces: Spaces,
    wanted: Sequence[Example],
    unwanted: Sequence[Example],
    label: str | None,
    space: str | None,
) -> Beginning:
    """Examples, sorted out. A label brings its pictures, and what finished sessions of its name called irrelevant."""
    found = spaces.find(space)
    if not len(spaces.hyperplanes(spaces.taught(found))):
        raise InputError("There are no pictures to ask about yet. Add some first: lookalike add FOLDER")
    marks: dict[int, Kind] = {}
    if label is not None:
        label = store.judgements.classes.canonical_names([label])[label]
        marks |= dict.fromkeys(store.judgements.sessions.negatives(label), "irrelevant")
        marks |= dict.fromkeys(store.judgements.items_with(label).tolist(), "relevant")
        if "relevant" not in marks.values():
            raise UnknownNameError("label", label, store.judgements.label_counts())
    given: dict[int, Kind] = {}
    outsiders = []
    sides: list[tuple[Kind, Sequence[Example]]] = [("relevant", wanted), ("irrelevant", unwanted)]
    for kind, examples in sides:
        for example in examples:
            taken = _take(store, spaces, found, example, wanted=kind == "relevant")
            if isinstance(taken, ExternalExample):
                outsiders.append(taken)
            else:
                say(given, taken, kind, example)
    marks |= given
    rows = {
        wanted: {other.vector.tobytes() for other in outsiders if other.positive is wanted} for wanted in (True, False)
    }
    if rows[True] & rows[False]:
        raise InputError("One and the same example is given both as wanted and as unwanted. Say one of the two.")
    if "relevant" not in marks.values() and not any(outsider.positive for outsider in outsiders):
        raise InputError("A session needs at least one example of what is wanted: a picture, or a label. Got none.")
    return Beginning(found, marks, outsiders)


def say(said: dict[int, Kind], item: int, kind: Kind, example: Example) -> None:
    """Add what is said about an item in one breath; InputError where that contradicts itself."""
    if said.setdefault(item, kind) != kind:
        raise InputError(f"{origin(example)} is given both as {said[item]} and as {kind}. Say one of the two.")


def gather(spaces: Spaces, space: str, marks: Mapping[int, Kind], outsiders: Sequence[ExternalExample]) -> Gathered:
    """Vectors and signs of what is there; what is not is told in the notes."""
    from lookalike.feedback.round import Marks

    name = spaces.find(space)
    taught = spaces.taught(name)
    chain, index = spaces.chain(name), spaces.hyperplanes(taught)
    notes = []
    said = {item: SIGNS[kind] for item, kind in marks.items() if kind != "skip"}
    there = {item: sign for item, sign in said.items() if item in index}
    if gone := len(said) - len(there):
        notes.append(f"{gone} of the marked pictures are not in the collection now: their marks are kept, and wait.")
    rows: list[Vectors] = []
    signs: list[int] = []
    for example in outsiders:
        sign = 1 if example.positive else -1
        if example.item is not None and example.item in index:  # it has come in since
            if example.item not in marks:
                there[example.item] = sign
            continue
        row = example.vector[None, :]  # (1, d)
        if example.feature is not None:
            if example.feature != _maker(spaces, name):
                notes.append(f"The example {example.origin} was described by another feature: it is left out.")
                continue
            row = chain.transform(row) if taught == name and chain.fitted else row  # (1, D)
        elif row.shape[1] != index.dim:
            notes.append(
                f"An example is a vector of {row.shape[1]} numbers, the space has {index.dim}: it is left out."
            )
            continue
        rows.append(row)
        signs.append(sign)
    ids = np.array(list(there), np.int64)
    inside = index.vectors(ids) if len(ids) else np.empty((0, index.dim or 1), np.float32)
    return Gathered(
        Marks(
            ids=np.concatenate([np.full(len(rows), -1, np.int64), ids]),
            X=np.concatenate([*rows, inside]) if rows else inside,
            y=np.array([*signs, *there.values()], np.int8),
        ),
        np.array(sorted(item for item, kind in marks.items() if kind == "skip"), np.int64),
        notes,
    )


def origin(example: Example) -> str:
    """An example in words."""
    if isinstance(example, Crop):
        return f"{origin(example.picture)} {','.join(map(str, example.box))}"
    if isinstance(example, bytes | np.ndarray):
        return f"{len(example)} bytes" if isinstance(example, bytes) else "pixels"
    return str(example)


def _take(store: Store, spaces: Spaces, name: str, example: Example, *, wanted: bool) -> int | ExternalExample:
    """The item of the space that an example is, or what to keep of one from outside."""
    index = spaces.hyperplanes(spaces.taught(name))
    if isinstance(example, np.ndarray) and example.ndim == 1:
        row = PointQuery(check_rows(example[None, :], dim=index.dim, name="the example vector")).vectors
        return ExternalExample(wanted, row[0], None)
    item = identity(store, example)
    if item is not None and item in index:
        return item
    X = spaces.chain(name).feature.extract([shown(store, example, spaces.side())])  # (1, d)
    return ExternalExample(wanted, X[0], _maker(spaces, name), item, origin(example))


def _maker(spaces: Spaces, name: str) -> str:
    """What describes pictures for a space: its feature, and which vocabulary that has learned."""
    base = spaces.all()[spaces.all()[name].chain[0]]
    return base.name if base.model is None else f"{base.name} {base.model}"
