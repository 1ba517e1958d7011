"""A copy of the class model on the disk, so that a new process need not read every label and vector again.

In: a fitted `OpenSet`, the roll of what is in it, and what both stand for: space, settings, the last change of labels,
the rows of the space. Out: the same from a file, or None where there is none, or none that can be used. It is written
under another name and renamed, by any process at any time; a file that is damaged, old or lost costs time only.
"""

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.engine.class_roll import Roll
from lookalike.errors import LookalikeError
from lookalike.registry import state_of
from lookalike.store import models
from lookalike.store.directory import Store

if TYPE_CHECKING:  # loads scikit-learn: when there are classes
    from lookalike.classes.open_set import OpenSet

FORMAT = 1
LEAST = 1_000
"""Labels from which on a copy is worth it; it is renewed when a tenth of as many, or more, had to be looked at."""
MOST_BYTES = 2**30
"""More is not kept."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Snapshot:
    """What was kept."""

    model: "OpenSet"
    roll: Roll
    about: dict[str, Any]  # what it stands for: `seen`, `rows`, `stale` and whatever else `save` was told


def save(store: Store, model: "OpenSet", roll: Roll, about: dict[str, Any]) -> None:
    """Keep a model. Where that cannot be done (a full disk, a folder that is not ours) nothing is lost."""
    said = json.dumps({"format": FORMAT, "names": roll.names, **about})
    arrays = {f"model_{name}": value for name, value in state_of(model).items()}
    arrays |= {"items_": roll.items, "codes_": roll.codes, "here_": roll.here}
    arrays["about_"] = np.frombuffer(said.encode(), np.uint8)  # ASCII: names may hold what is not Unicode
    if sum(value.nbytes for value in arrays.values()) > MOST_BYTES:
        return
    try:
        store.class_snapshot_file.parent.mkdir(exist_ok=True)
        models.save_arrays(store.class_snapshot_file, arrays)
    except (LookalikeError, OSError) as error:
        logger.info("no copy of the classes was kept: %s", error)


def load(store: Store, model: "OpenSet") -> Snapshot | None:
    """What was kept last, with `model`, which has the right parameters, as it was then."""
    if not store.class_snapshot_file.exists():
        return None
    try:
        arrays = models.load_arrays(store.class_snapshot_file)
        about = json.loads(arrays["about_"].tobytes())
        if about.pop("format") != FORMAT:
            return None
        for name, value in arrays.items():
            if name.startswith("model_"):
                setattr(model, name.removeprefix("model_"), value.item() if value.ndim == 0 else value)
        roll = Roll(arrays["items_"], arrays["codes_"], arrays["here_"], about.pop("names"))
    except (LookalikeError, OSError, KeyError, TypeError, ValueError) as error:
        logger.info("the copy of the classes cannot be used: %s", error)
        return None
    return Snapshot(model, roll, about)
