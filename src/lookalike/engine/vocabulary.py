"""Features that learn from pictures before they can describe any: which pictures, and in which order.

In: sources, and a feature or the spaces whose features wait. Out: features fitted on a sample that is the same for the
same files, wherever they lie, in whatever order they are listed, and whichever process was quicker; `fit_features` also
keeps them, and drops the rows that older ones made.
"""

import os
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, islice
from typing import Any

from lookalike.arrays import chunks
from lookalike.engine.calm import CALM
from lookalike.engine.spaces import Spaces
from lookalike.engine.specs import feature_needs_fit, feature_takes_labels
from lookalike.errors import InputError
from lookalike.images.sources import Entry
from lookalike.images.workers import Read, ReadPool
from lookalike.registry import create, spec_of
from lookalike.store import models
from lookalike.store.directory import Store
from lookalike.text import many
from lookalike.types import LabelledFeature, LearnedFeature, Progress

SAMPLE = 1_000
"""Pictures that a feature is fitted on: some three million local descriptors to draw from."""

LABELLED = 5_000
"""The same for a feature that learns from labels, which must see many pictures of each."""

CARRIED_BYTES = 256 * 2**20
"""What the sample may hold of compressed archives, whose members carry their bytes with them."""

LOOKUP = 1_000
"""Files looked up in the catalogue at a time."""

BLOCK = 64
"""Pictures read at a time and put in order: a bound on what waits for a slow one."""


def fit_features(
    spaces: Spaces,
    names: Sequence[str],
    entries: Callable[[], Iterable[Entry]],
    progress: Progress,
    workers: int | None,
    *,
    anew: bool = False,
) -> tuple[dict[str, int], dict[str, str]]:
    """Fit the features of these spaces that need it, on a sample of the entries; needs the writer lock.

    `anew`: also those that are fitted, and those that learn from labels; every row that was made with what they
    had learned goes. Returns the features that were fitted with the number of pictures, and those that could not
    be with the reason.
    """
    known = spaces.all()
    bases = dict.fromkeys(known[name].chain[0] for name in names)
    waiting = [base for base in bases if feature_needs_fit(base) and (anew or known[base].model is None)]
    sample = draw(entries()) if not all(map(feature_takes_labels, waiting)) else []
    fitted, failed = {}, {}
    for base in waiting:
        feature = create("feature", base)
        try:
            if not feature_takes_labels(base):
                n = fit_feature(feature, sample, progress, workers)
            elif anew:
                n = _fit_labelled(spaces.store, feature, entries(), progress, workers)
            else:
                own = next(name for name in names if known[name].chain[0] == base)
                raise InputError(f"{base} learns from labels, when it is asked to: lookalike fit {own} --labels")
        except InputError as error:  # too little to learn from
            failed[base] = str(error)
            continue
        if n == 0:  # nothing could be read; the add says why
            continue
        target = spaces.store.vectors.new_file("models", ".npz")
        models.save(target, feature)
        model = spaces.store.vectors.put_in_place(target)
        with spaces.store.transaction():
            spaces.store.vectors.replace(base, [], model=model, fitted_on=n)
            for space in known.values():
                if space.base == base:
                    spaces.store.vectors.replace(space.name, [], model=None, fitted_on=None)
        fitted[base] = n
    return fitted, failed


def draw(entries: Iterable[Entry], n: int = SAMPLE) -> list[Entry]:
    """At most n of the entries, by lot: a digest of a file's name and size, then its path. The lowest lots win."""
    kept: list[tuple[bytes, str, Entry]] = []  # sorted
    carried = 0
    lost: tuple[bytes, str] | None = None  # the lowest lot that had to go; from there on nobody comes in again
    for entry in entries:
        name = f"{os.path.basename(entry.path)}\0{entry.size}".encode(errors="surrogateescape")
        drawn = blake2b(name, digest_size=8).digest(), entry.path, entry
        place = bisect_left(kept, drawn[:2], key=lambda one: one[:2])
        listed = place < len(kept) and kept[place][1] == entry.path  # by two sources
        if listed or (lost is not None and drawn[:2] >= lost):
            continue
        kept.insert(place, drawn)
        carried += len(entry.data or b"")
        while len(kept) > n or (carried > CARRIED_BYTES and len(kept) > 1):
            lot, path, gone = kept.pop()
            carried, lost = carried - len(gone.data or b""), (lot, path)
    return [entry for *_, entry in kept]


def labelled(store: Store, entries: Iterable[Entry]) -> Iterator[tuple[Entry, list[str]]]:
    """Those of the entries whose pictures have labels, each picture once, with these."""
    entries, met = iter(entries), set[int]()
    while batch := list(islice(entries, LOOKUP)):
        seen = store.items.seen([entry.path for entry in batch])
        items = [one.item for one in seen.values() if one.item is not None]
        said = store.judgements.labels(items)
        for entry in batch:
            item = seen[entry.path].item if entry.path in seen else None
            if item is not None and said[item] and item not in met:
                met.add(item)
                yield entry, said[item]


def fit_feature(
    feature: LearnedFeature | LabelledFeature,
    entries: Sequence[Entry],
    progress: Progress,
    workers: int | None,
    labels: dict[str, list[str]] | None = None,
) -> int:
    """Fit a feature on the pictures of these entries; returns how many could be read, 0 where it was not fitted.

    `labels`, by path, for a feature that learns from them.
    """
    read = 0

    def prepared() -> Iterator[Any]:
        nonlocal read
        with ReadPool(feature.prepare, side=feature.side, workers=workers) as pool:
            for part in chunks(len(entries), 1, BLOCK):
                found = {outcome.entry.path: outcome for outcome in pool.map(entries[part])}
                for outcome in (found[entry.path] for entry in entries[part]):
                    if isinstance(outcome, Read):
                        read += 1
                        yield outcome.parts if labels is None else (outcome.parts, labels[outcome.entry.path])
                progress("sampling", part.stop, len(entries))

    stream = prepared()
    first = next(stream, None)
    if first is not None:
        with CALM:  # many small products: more threads gain nothing, and wait beside busy ones
            feature.fit(chain([first], stream), progress=progress)
    return read


def _fit_labelled(
    store: Store, feature: LabelledFeature, entries: Iterable[Entry], progress: Progress, workers: int | None
) -> int:
    """Fit a feature on some of the pictures that have labels; returns how many."""
    said = {entry.path: (entry, labels) for entry, labels in labelled(store, entries)}
    sample = draw((entry for entry, _ in said.values()), LABELLED)
    labels = {entry.path: said[entry.path][1] for entry in sample}
    if len({tuple(names) for names in labels.values()}) < 2:
        names = {name for names in labels.values() for name in names}
        raise InputError(
            f"{spec_of(feature)} learns from pictures with labels, not all the same. The collection has"
            f" {many(len(labels), 'picture')} with labels, of {len(names)}. Label some first:"
            " lookalike label SOURCE"
        )
    return fit_feature(feature, sample, progress, workers, labels)
