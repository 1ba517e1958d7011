"""Fitting a space: its transforms learn from a sample, and every item is put through them.

In: a space, and perhaps negatives from outside. Out: the space with a new model and new rows; readers see the old one
until the new one is whole. Needs the writer lock.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.engine.chain import Chain, fit
from lookalike.engine.space_sample import Pool, labelled_ids, labelled_rows, labels_of, sample_rows
from lookalike.engine.spaces import Spaces
from lookalike.engine.specs import parse_fit, step_class, takes_negatives
from lookalike.errors import InputError
from lookalike.index.flat import Flat
from lookalike.registry import Spec
from lookalike.store import models
from lookalike.store.vectors import NegativePool, Pending
from lookalike.types import Ids, Progress

if TYPE_CHECKING:  # faiss is loaded when there is an index of its kind
    from lookalike.index.ann import Ann
    from lookalike.index.coded import Coded

CODES = "codes"
"""Placeholder for a coder in a fit: the collection chooses one of `CODERS`."""

CODERS = ("itq", "tsvm")
"""The coders that `codes` stands for: without enough labels, and with enough."""

LABEL_MIN = 10
"""Pictures a label must have to count when a coder is chosen; two such labels, and it learns from labels."""

SEGMENT_ROWS = 262_144
SEGMENT_BYTES = 2**30
ROWS_BYTES = 256 * 2**20
"""Rows written at a time when a space is filled anew, at most, their bytes, and what is held of its base meanwhile:
bounds on memory."""


def learning(spaces: Spaces) -> list[str]:
    """The spaces that have something to fit, and enough pictures, and labels where it needs them, to fit it on."""
    chains = {name: spaces.all()[name].chain for name in spaces.recipes()}
    able = [name for name, chain in chains.items() if len(chain) > 1 and spaces.store.vectors.rows(chain[0]) > 1]
    return [name for name in able if not spaces.wants_labels(name) or _tell_apart(spaces, name)]


def ensure_fit(spaces: Spaces, text: str, free: Iterable[str] = (), labels: bool = False) -> str:
    """The space that is to be fitted: one there is, a new pipeline, or a step on the first space's feature.

    `codes(…)` is the coder that serves best with the labels there are; `labels`: one that learns from them.
    """
    if text in spaces.all():
        return spaces.find(text)
    name, specs = parse_fit(text)
    if not specs:
        return spaces.find(name)
    if name is not None:
        return spaces.ensure([text], free)[0]
    (spec,) = specs
    base = spaces.all()[spaces.find(None)].chain[0]
    step = Spec(_coder(spaces, base, labels), spec.params) if spec.name == CODES else spec
    return spaces.ensure([f"{spec.name} = {base} | {step}"], free)[0]


def fit_space(
    spaces: Spaces, name: str, progress: Progress, negatives: Pool | None = None, specs: Sequence[str] | None = None
) -> int:
    """Fit a space's transforms anew and put every item through them; returns the rows it was fitted on.

    `negatives` take the place of the collection's own where a transform tells rows from such a pool. `specs`:
    from now on the space's chain, on the same feature. Readers see the old space until the new one is whole. Where
    a transform learns from labels, the rows it was fitted on are the labelled ones.
    """
    space = spaces.all()[name]
    if len(space.chain) == 1:
        hint = f" To learn from labels anew: lookalike fit {name} --labels" * spaces.feature_wants_labels(name)
        raise InputError(f"Space '{name}' has nothing to fit: its chain is {space.chain[0]}.{hint}")
    spaces.store.vectors.quarantine_damaged(space.chain[0], progress=progress)
    ids, sample = sample_rows(spaces, space.chain[0])
    if len(sample) < 2:
        raise InputError(f"Space '{name}' needs at least 2 pictures to fit on. The collection has {len(sample)}.")
    labelled = labelled_rows(spaces, name)
    progress(f"fitting {name}", 0, None)
    chain = fit(specs or space.chain, sample, None if negatives is None else negatives.X, labelled)
    pools: list[NegativePool] = []
    if any(map(takes_negatives, chain.specs[1:])):
        pools = [(None, ids) if negatives is None else (negatives.source, negatives.ids)]
    rows = len(sample) if labelled is None else len(labelled.ids)
    _replace(spaces, name, chain, rows, pools, progress)
    return rows


def extend_space(spaces: Spaces, name: str, more: Pool, progress: Progress) -> int:
    """Add negatives to the pool of a space's last transform, and put every item through it; returns their number.

    What is in the pool already, by its id, is not taken twice. The transforms before it stay as they are.
    """
    chain, pools = spaces.chain(name), spaces.store.vectors.pools(name)
    wants = [takes_negatives(spec) for spec in chain.specs[1:]]
    addable = any(wants) and hasattr(step_class(chain.specs[-1]), "add")
    if not addable or sum(wants) > 1:
        raise InputError(
            f"Negatives can be added where the last transform is slem, and the only one with a pool. The chain of"
            f" '{name}' is {' | '.join(chain.specs)}; fit it anew: lookalike fit {name} --negatives {more.source}"
        )
    if not chain.fitted or not pools:
        raise InputError(f"Space '{name}' has no pool to add to. Run: lookalike fit {name} --negatives {more.source}")
    new = ~np.isin(more.ids, np.concatenate([ids for _, ids in pools]))
    *earlier, last = chain.transforms
    if not new.any():
        return int(last.n_)  # type: ignore[attr-defined]
    spaces.store.vectors.quarantine_damaged(chain.specs[0], progress=progress)
    grown: Any = deepcopy(last)  # not itself: it may be answering somebody
    X: Any = more.X[new]
    for step in earlier:
        X = step.transform(X)
    grown.add(X)
    pools.append((more.source, more.ids[new]))
    fitted_on = spaces.all()[name].fitted_on or 0
    _replace(spaces, name, Chain(chain.specs, lambda: [*earlier, grown]), fitted_on, pools, progress)
    return int(grown.n_)


def fill(spaces: Spaces, name: str, progress: Progress) -> None:
    """Rows for the items that have a vector in the base and none here."""
    ids = find_lacking(spaces, name)
    if len(ids) and spaces.store.vectors.quarantine_damaged(spaces.all()[name].chain[0], ids):
        ids = find_lacking(spaces, name)
    if len(ids):
        pendings = list(_transform(spaces, name, spaces.chain(name), ids, progress))
        with spaces.store.transaction():
            for pending in pendings:
                spaces.store.vectors.commit(pending)


def find_lacking(spaces: Spaces, name: str) -> Ids:
    """Items that have a vector in the base of a space and none in itself."""
    mine, there = spaces.store.vectors.live_ids(name), spaces.store.vectors.live_ids(spaces.all()[name].chain[0])
    return np.setdiff1d(there, mine, assume_unique=True)


def _tell_apart(spaces: Spaces, name: str) -> bool:
    """Whether there are labels enough for a space that learns from them."""
    with suppress(InputError):
        return len(labelled_ids(spaces, name)[0]) > 0
    return False


def _coder(spaces: Spaces, base: str, labels: bool) -> str:
    """The coder that `codes` stands for: with enough labels, one that learns from them and from other pictures."""
    counts = Counter(label for (label,) in labels_of(spaces, base).values())
    return CODERS[labels or sum(n >= LABEL_MIN for n in counts.values()) > 1]


def _replace(
    spaces: Spaces, name: str, chain: Chain, fitted_on: int, pools: Sequence[NegativePool], progress: Progress
) -> None:
    """Put every item through a newly fitted chain; the old space goes when the new one is whole."""
    target = spaces.store.vectors.new_file("models", ".npz")
    models.save(target, *chain.steps)
    pendings = list(_transform(spaces, name, chain, spaces.store.vectors.live_ids(chain.specs[0]), progress))
    model = spaces.store.vectors.put_in_place(target)
    with spaces.store.transaction():
        spaces.store.vectors.replace(name, pendings, model=model, fitted_on=fitted_on, chain=chain.specs, pools=pools)


def _transform(spaces: Spaces, name: str, chain: Chain, ids: Ids, progress: Progress) -> Iterator[Pending]:
    truth = spaces.index(spaces.all()[name].chain[0])
    width = chain.store(truth.vectors(ids[:1])).nbytes if len(ids) else 0
    for part in chunks(len(ids), max(width, SEGMENT_BYTES // SEGMENT_ROWS), SEGMENT_BYTES):
        progress(f"encoding {name}", part.start, len(ids))
        yield spaces.store.vectors.write(name, ids[part], _rows(truth, chain, ids[part]))
    progress(f"encoding {name}", len(ids), len(ids))


def _rows(truth: "Flat | Ann | Coded", chain: Chain, ids: Ids) -> NDArray[Any]:
    parts = chunks(len(ids), 4 * (truth.dim or 1), ROWS_BYTES)
    return np.concatenate([chain.store(truth.vectors(ids[part])) for part in parts])
