"""What a plan is for: so many pictures, and how long their vectors are.

In: a recipe, or a collection's `stats`. Out: a `Subject`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from lookalike.engine.costs import FEATURE_S, STORED
from lookalike.engine.machine import Machine
from lookalike.engine.specs import is_coder, parse_recipe
from lookalike.errors import InputError, UnknownNameError
from lookalike.registry import create


@dataclass(frozen=True, slots=True)
class Subject:
    """What a plan is for."""

    items: int
    dim: int  # numbers a picture, as they are searched
    feature_dim: int  # numbers a picture, as its feature gives them
    chain: tuple[str, ...] = ()  # specs; none where only the dimension is known
    name: str = "RECIPE"  # of the recipe, or of the space
    exists: bool = False  # whether there is a collection already
    feature_s: float | None = None  # seconds that a picture takes to read and describe; None: nobody knows

    def __post_init__(self) -> None:
        for name in ("items", "dim", "feature_dim"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be 1 or more. Got {getattr(self, name)}.")


def of_recipe(items: int, recipe: str) -> Subject:
    """So many pictures by a recipe, or by `NAME = SPEC | SPEC`.

    >>> of_recipe(1_000, "color").dim, of_recipe(1_000, "small = color() | pca(dim=32)").dim
    (512, 32)
    """
    name, chain = parse_recipe(recipe)
    return Subject(items, *_dims(chain), tuple(chain), name)


def of_collection(stats: dict[str, Any], space: str | None = None) -> Subject:
    """What a collection holds, by one of its spaces: the first that keeps vectors, where nobody says which."""
    found = {row["name"]: row for row in stats["spaces"]}
    if not stats["items"] or not found:
        raise InputError("The collection is empty. Add pictures first: lookalike add FOLDER; or say --items N")
    if space is not None and space not in found:
        raise UnknownNameError("space", space, found)
    row = found[space] if space else next((r for r in found.values() if r["bits"] is None), stats["spaces"][0])
    dim, feature_dim = _dims(row["chain"])
    if row["state"] != "raw" and row["bits"] is None:
        dim = row["dim"]
    return Subject(stats["items"], dim, feature_dim, tuple(row["chain"]), row["name"], exists=True)


def timed(subject: Subject, machine: Machine, pictures_per_s: float | None = None) -> Subject:
    """With the seconds that a picture takes: by the rate that was measured, or as stored, on this machine."""
    stored = FEATURE_S.get(subject.chain[0]) if subject.chain else None
    seconds = None if stored is None else stored * STORED.product / machine.product
    return replace(subject, feature_s=1 / pictures_per_s if pictures_per_s else seconds)


def _dims(chain: Sequence[str]) -> tuple[int, int]:
    """Numbers a picture after the transforms, and after the feature."""
    feature_dim = dim = int(create("feature", chain[0]).dim)
    for spec in chain[1:]:
        if not is_coder(spec):
            dim = min(dim, getattr(create("transform", spec), "dim", dim))
    return dim, feature_dim
