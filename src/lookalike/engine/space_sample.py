"""What a fit of a space looks at: a sample of its feature's rows, the labelled ones among them, negatives from outside.

In: a space. Out: ids and (n, d) float32 rows, with their labels where it learns from these. The same collection gives
the same sample.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.engine.chain import Labelled
from lookalike.engine.spaces import Spaces
from lookalike.engine.specs import is_coder, takes_labels, takes_several
from lookalike.errors import InputError
from lookalike.learn.labels import join_names
from lookalike.text import many
from lookalike.types import Ids, Vectors

FIT_MAX = 50_000
"""Rows a fit looks at: those with the smallest ids, which are digests, so a random sample that anybody can repeat."""

SAMPLE_BYTES = 2**29
"""A bound on their memory: of long vectors, a fit looks at fewer."""


class Pool(NamedTuple):
    """Negatives from outside."""

    source: str  # a collection's directory, or pictures
    ids: Ids  # (n,), ascending
    X: Vectors  # (n, d), of a space's feature


def sample_rows(spaces: Spaces, base: str) -> tuple[Ids, NDArray[Any]]:
    """At most FIT_MAX rows of the base, and SAMPLE_BYTES, in the order of their ids: ids (n,) and rows (n, d)."""
    index = spaces.index(base)
    ids = spaces.store.vectors.live_ids(base)[: _most(spaces, base)]
    return ids, index.vectors(ids)


def labelled_rows(spaces: Spaces, name: str) -> Labelled | None:
    """What a space that learns from labels is fitted on, None for others: pictures with exactly one label.

    One with several says nothing to a transform that tells classes apart, and is left out, unless all that learn
    from labels take several. As many as `sample_rows` has; a coder gets as many without any label besides.
    """
    if not spaces.wants_labels(name):
        return None
    base, last = spaces.all()[name].chain[0], spaces.all()[name].chain[-1]
    ids, y = labelled_ids(spaces, name)
    free = None
    if is_coder(last) and takes_labels(last):
        some = spaces.store.vectors.live_ids(base)[: _most(spaces, base)]
        said = spaces.store.judgements.labels(some.tolist())
        free = spaces.index(base).vectors(some[[not said.get(item) for item in some.tolist()]])
    return Labelled(ids, spaces.index(base).vectors(ids), y, free)


def labelled_ids(spaces: Spaces, name: str) -> tuple[Ids, NDArray[Any]]:
    """The pictures that a space which learns from labels is fitted on, (m,), and their labels as `Labelled` has."""
    base, several = spaces.all()[name].chain[0], _takes_several(spaces, name)
    labels = labels_of(spaces, base, several)
    ids = np.array(sorted(labels)[: _most(spaces, base)], np.int64)
    y = join_names([labels[item] for item in ids.tolist()])
    if len(np.unique(y, axis=0)) < 2:
        each = "labels, not all the same" if several else "one label each, of at least 2 labels"
        raise InputError(
            f"Space '{name}' learns from pictures that have {each}. The collection has"
            f" {many(len(ids), 'such picture')}, of {len({one for names in labels.values() for one in names})}. Label"
            " some first: lookalike label"
            " SOURCE, or lookalike classes add NAME IMAGE"
        )
    return ids, y


def labels_of(spaces: Spaces, base: str, several: bool = False) -> dict[int, list[str]]:
    """The pictures of a base that have one label, or `several` too, and these."""
    said = spaces.store.judgements
    live = np.intersect1d(said.labelled(), spaces.store.vectors.live_ids(base))
    return {item: names for item, names in said.labels(live.tolist()).items() if several or len(names) == 1}


def fitted_which(spaces: Spaces, name: str) -> str | None:
    """Which of its pictures a space was fitted on, in words; None where on all, or not at all."""
    n, base = spaces.all()[name].fitted_on, spaces.all()[name].chain[0]
    if n is None or n >= spaces.store.vectors.rows(spaces.searched(name)):
        return None
    if spaces.wants_labels(name):
        return "those that had labels" if _takes_several(spaces, name) else "those that had one label"
    return "a sample, drawn by lot" if n == _most(spaces, base) else "those that were there"


def _takes_several(spaces: Spaces, name: str) -> bool:
    """Whether all of a space's transforms that learn from labels take several a picture."""
    return all(map(takes_several, filter(takes_labels, spaces.all()[name].chain[1:])))


def _most(spaces: Spaces, base: str) -> int:
    """How many rows of a base a fit looks at."""
    return min(FIT_MAX, SAMPLE_BYTES // (4 * (spaces.all()[base].dim or 1)))
