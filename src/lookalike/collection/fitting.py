"""Fitting: select the data of a fit, fit the steps of a space or its feature, and update all spaces.

A space is fitted on a sample of its feature's vectors, or on the labelled ones if it learns from labels, and if needed
on a pool of negatives. Then the new chain encodes every item. Readers see the old space until the new one is complete.
Functions that write need the writer lock.
"""

import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from copy import deepcopy
from hashlib import blake2b
from inspect import signature
from itertools import chain as concatenate
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.codes.choice import choose_coder
from lookalike.collection.chain import SINGLE_BLAS_THREAD, Chain, Labelled, Prepare, describe_pool, fit
from lookalike.collection.neighbours import update_smoothed
from lookalike.collection.space import Space, Spaces
from lookalike.collection.specs import (
    CODERS,
    CODES,
    feature_needs_fit,
    feature_takes_labels,
    is_coder,
    parse_fit,
    step_class,
    takes_labels,
    takes_negatives,
    takes_several_labels,
)
from lookalike.errors import InputError, NoCollectionError
from lookalike.images.sources import Entry, absolute, ignore, walk
from lookalike.images.workers import Read, ReadPool
from lookalike.learn.labels import join_names
from lookalike.limits import collect_fewer
from lookalike.recipes import FORMER, RECIPES
from lookalike.registry import Spec, component, create, parse, spec_of
from lookalike.scaled_rows import join_rows
from lookalike.store import models
from lookalike.store.directory import Store
from lookalike.store.vectors import NegativePool as Members
from lookalike.store.vectors import Pending
from lookalike.text import many
from lookalike.types import Ids, LabelledFeature, LearnedFeature, Progress, Vectors, needs_fit

FIT_MIN = 500
"""With this many pictures, the steps of a space are fitted automatically, once. With fewer, raw vectors are better."""

FIT_MAX = 50_000
"""Maximum number of rows that a fit uses: the smallest ids, which are digests: a reproducible random sample."""

SAMPLE_BYTES = 2**29
"""Memory limit for these rows; if vectors are long, a fit uses fewer."""

LABEL_MIN = 10
"""With at least two labels of this many pictures, `codes` compares coders on a held-out part of them."""

CHOICE_ROWS = 5_000
"""Maximum number of pictures without labels that this comparison uses."""

SEGMENT_ROWS = 262_144
SEGMENT_BYTES = 2**30
ROWS_BYTES = 256 * 2**20
"""Limits for encoding a space: rows and bytes per segment, and bytes of the feature's rows in memory."""

NEGATIVES = 5_000
"""Maximum number of pictures of a folder that are used as negatives; a random sample."""

FEATURE_SAMPLE = 1_000
"""Maximum number of pictures that a feature is fitted on; they have about three million local descriptors."""

FEATURE_LABELLED = 5_000
"""Maximum number of pictures that a feature which learns from labels is fitted on; it needs many pictures per label."""

CARRIED_BYTES = 256 * 2**20
"""Memory limit for sampled members of compressed archives, which carry their bytes."""

LOOKUP_BATCH = 1_000
"""Files looked up in the catalogue at a time."""

ORDERED_BLOCK = 64
"""Pictures per batch that are read and put in order; limits how many wait for a slow one."""


class Pool(NamedTuple):
    """Negatives from outside the collection."""

    source: str  # a collection's directory, or pictures
    ids: Ids  # (n,), ascending
    X: Vectors  # (n, d), of a space's feature


class Fitted(dict[str, int]):
    """The number of rows that each space was fitted on, by name; `notes` describe what a fit chose, by name."""

    def __init__(self) -> None:
        super().__init__()
        self.notes: dict[str, str] = {}


# The data of a fit


def sample_rows(space: Space) -> tuple[Ids, NDArray[Any]]:
    """A random sample of the feature's rows: ids (n,) ascending, and rows (n, d)."""
    index = space.feature_rows
    ids = space.feature.row_ids()[: _max_rows(space)]
    return ids, index.vectors(ids)


def labelled_rows(space: Space) -> Labelled | None:
    """The rows that a space which learns from labels is fitted on; None for other spaces.

    Pictures with several labels are left out, unless all steps that learn from labels use them. A coder also gets
    pictures without labels.
    """
    if not space.takes_labels:
        return None
    last = space.specs[-1]
    ids, y = labelled_ids(space)
    unlabelled = None
    if is_coder(last) and takes_labels(last):
        sampled = space.feature.row_ids()[: _max_rows(space)]
        labels = space.store.judgements.labels(sampled.tolist())
        unlabelled = space.feature_rows.vectors(sampled[[not labels.get(item) for item in sampled.tolist()]])
    return Labelled(ids, space.feature_rows.vectors(ids), y, unlabelled)


def labelled_ids(space: Space) -> tuple[Ids, NDArray[Any]]:
    """The pictures that a space which learns from labels is fitted on, (m,), and their labels as in `Labelled`."""
    several = _takes_several_labels(space)
    labels = labels_of(space, several)
    ids = np.array(sorted(labels)[: _max_rows(space)], np.int64)
    y = join_names([labels[item] for item in ids.tolist()])
    if len(np.unique(y, axis=0)) < 2:
        needed = "that have different labels" if several else "that have exactly one label, and needs at least 2 labels"
        n_labels = len({name for names in labels.values() for name in names})
        raise InputError(
            f"Space '{space.name}' learns from pictures {needed}. The collection has {many(len(ids), 'such picture')}"
            f" with {many(n_labels, 'label')}. Label pictures first: lookalike label SOURCE, or lookalike classes add"
            " NAME IMAGE…"
        )
    return ids, y


def labels_of(space: Space, several: bool = False) -> dict[int, list[str]]:
    """The pictures of a space that have exactly one label, or any number if `several`, with their labels."""
    judgements = space.store.judgements
    live = np.intersect1d(judgements.labelled(), space.feature.row_ids())
    return {item: names for item, names in judgements.labels(live.tolist()).items() if several or len(names) == 1}


def fitted_on_which(space: Space) -> str | None:
    """Which pictures a space was fitted on, as text; None for all pictures, or if it is not fitted."""
    n = space.fitted_on
    if n is None or n >= len(space):
        return None
    if space.takes_labels:
        return "those with labels" if _takes_several_labels(space) else "those with one label"
    return "a random sample" if n == _max_rows(space) else "all pictures at the time"


def fit_summary(space: Space) -> str:
    """What the steps of a fitted space chose on held-out labels, as text; empty if they chose nothing."""
    if not space.is_fitted or not any(hasattr(step_class(spec), "summary") for spec in space.specs[1:]):
        return ""  # without loading the steps
    return "; ".join(filter(None, (step.summary() for step in space.chain.steps if hasattr(step, "summary"))))


def read_negatives(space: Space, source: str | Path, progress: Progress, workers: int | None) -> Pool:
    """Read the feature's vectors of another collection, or of pictures (a folder, an archive, a list), sorted by id."""
    path = absolute(source)
    if not space.takes_negatives:
        raise InputError(f"Space '{space.name}' does not use negatives. Its chain is {' | '.join(space.specs)}.")
    try:
        store = Store(Path(path))
    except NoCollectionError:
        return _describe_negatives(path, space.chain, progress, workers)
    try:
        return _load_negatives(store, space.chain)
    finally:
        store.close()


# Fitting the steps of a space


@contextmanager
def undo_new_spaces(spaces: Spaces) -> Iterator[None]:
    """Remove the spaces that were created in this block if it fails."""
    known = set(spaces.names())
    try:
        yield
    except BaseException:
        for name in set(spaces.names()) - known:
            spaces.remove(name)
        raise


def fit_spaces(
    spaces: Spaces,
    texts: Sequence[str],
    refit_features: Callable[[Sequence[Space]], dict[str, int]],
    *,
    features: bool,
    labels: bool,
    negatives: str | Path | None,
    progress: Progress,
    workers: int | None,
) -> Fitted:
    """Fit these spaces, or all that have steps to fit; return the number of rows that each was fitted on.

    `refit_features` refits the features of spaces and extracts the features of every picture again. It is called if
    `features` is set, and for features that learn from labels if `labels` is set or if they were never fitted.
    """
    fitted = Fitted()
    chosen = []
    for text in texts:
        pipeline, note = _choose_codes(spaces, text, labels, progress)
        chosen.append(create_for_fit(spaces, pipeline))
        if note:
            fitted.notes[chosen[-1].name] = note
    labelled = [space for space in chosen if space.feature_takes_labels]
    if labels:
        _check_labels_used([space for space in chosen if space not in labelled])

    def refit(users: Sequence[Space]) -> None:
        with collect_fewer() as fewer:
            counts = refit_features(users)
        fitted.update(counts)
        fitted.notes.update(dict.fromkeys(counts, "; ".join(fewer)) if fewer else {})

    if features:
        refit(chosen or list(spaces))
        fittable = spaces_to_fit(spaces)
        chosen = [space for space in dict.fromkeys([*chosen, *map(spaces.get, fitted)]) if space in fittable]
    elif labelled := [space for space in labelled if labels or not space.is_describable]:
        refit(labelled)
        fittable = spaces_to_fit(spaces)
        chosen = [space for space in chosen if space not in labelled or space in fittable]
    if not texts:
        chosen = spaces_to_fit(spaces)
    for space in chosen:
        pool = None if negatives is None else read_negatives(space, negatives, progress, workers)
        notes: list[str] = []
        fitted[space.name] = fit_space(space, progress, pool, notes=notes)
        found = [fitted.notes.get(space.name, ""), fit_summary(space), *(note.removesuffix(".") for note in notes)]
        if any(found):
            fitted.notes[space.name] = "; ".join(filter(None, found))
    update_spaces(chosen, progress)
    return fitted


def spaces_to_fit(spaces: Spaces) -> list[Space]:
    """The spaces that have steps to fit, enough pictures, and labels if they learn from labels."""
    candidates = [space for space in spaces if len(space.specs) > 1 and len(space.feature) > 1]
    return [space for space in candidates if not space.takes_labels or _has_labels(space)]


def create_for_fit(spaces: Spaces, text: str, free_options: Iterable[str] = ()) -> Space:
    """Return the space to be fitted: an existing one, a new pipeline, or a new step on the first space's feature.

    An existing space may differ from a pipeline in the `free_options` of the last step.
    """
    if text in spaces:
        return spaces.find(text)
    name, specs = parse_fit(text)
    if not specs:
        return spaces.find(name)
    if name is not None:
        return spaces.create([text], free_options)[0]
    (spec,) = specs
    return spaces.create([f"{spec.name} = {spaces.find(None).specs[0]} | {spec}"], free_options)[0]


def fit_space(
    space: Space,
    progress: Progress,
    negatives: Pool | None = None,
    specs: Sequence[str] | None = None,
    notes: list[str] | None = None,
) -> int:
    """Fit the steps of a space and encode every item; return the number of rows that it was fitted on.

    `negatives` replace the collection's own pictures as the pool of a transform that needs one. `specs` is a new
    chain for the space, on the same feature; by default the current chain, or that of the recipe if it has changed.
    If a step learns from labels, the number is that of the labelled rows. The notes of the chain are added to `notes`.
    """
    name = space.name
    if len(space.specs) == 1:
        hint = f" To learn from labels again, run: lookalike fit {name} --labels" * space.feature_takes_labels
        raise InputError(f"Space '{name}' has nothing to fit. Its chain is {space.specs[0]}.{hint}")
    space.store.vectors.quarantine_damaged(space.specs[0], progress=progress)
    ids, sample = sample_rows(space)
    if len(sample) < 2:
        raise InputError(f"Space '{name}' needs at least 2 pictures to fit on. The collection has {len(sample)}.")
    labelled = labelled_rows(space)
    progress(f"fitting {name}", 0, None)
    specs = specs or (RECIPES[name] if FORMER.get(name) == space.specs else space.specs)
    chain = fit(specs, sample, None if negatives is None else negatives.X, labelled, space.fit_gpu)
    if notes is not None:
        notes += chain.notes
    pools: list[Members] = []
    if any(map(takes_negatives, chain.specs[1:])):
        pools = [(None, ids) if negatives is None else (negatives.source, negatives.ids)]
    rows = len(sample) if labelled is None else len(labelled.ids)
    _replace(space, chain, rows, pools, progress)
    return rows


def extend_pool(space: Space, negatives: Pool, progress: Progress) -> int:
    """Add negatives to the pool of a space's last transform, and encode every item; return the size of the pool.

    Negatives that are already in the pool, by id, are not added again. Earlier transforms do not change.
    """
    name, chain, pools = space.name, space.chain, space.store.vectors.pools(space.name)
    uses_pool = [takes_negatives(spec) for spec in chain.specs[1:]]
    addable = any(uses_pool) and hasattr(step_class(chain.specs[-1]), "add")
    if not addable or sum(uses_pool) > 1:
        raise InputError(
            f"Negatives can be added only if the last transform is slem and no other transform has a pool. The chain of"
            f" '{name}' is {' | '.join(chain.specs)}. Refit it: lookalike fit {name} --negatives {negatives.source}"
        )
    if not chain.fitted or not pools:
        raise InputError(
            f"Space '{name}' has no negative pool yet. Run: lookalike fit {name} --negatives {negatives.source}"
        )
    new = ~np.isin(negatives.ids, np.concatenate([ids for _, ids in pools]))
    *earlier, last = chain.transforms
    if not new.any():
        return int(last.n_)  # type: ignore[attr-defined]
    space.store.vectors.quarantine_damaged(chain.specs[0], progress=progress)
    extended: Any = deepcopy(last)  # other threads may be using `last`
    X: Any = negatives.X[new]
    for step in earlier:
        X = step.transform(X)
    extended.add(X)
    pools.append((negatives.source, negatives.ids[new]))
    _replace(space, Chain(chain.specs, lambda: [*earlier, extended]), space.fitted_on or 0, pools, progress)
    return int(extended.n_)


def update_spaces(spaces: Iterable[Space], progress: Progress, notes: list[str] | None = None) -> None:
    """Update the fits, rows and indexes of spaces after pictures were added or removed.

    Spaces that were never fitted are fitted if there are enough pictures. Spaces that learn from labels are fitted only
    on request, because labels arrive one by one, and not every label should change the fit. `notes` is as in
    `fit_space`.
    """
    intact = [space for space in spaces if not space.is_damaged]
    for space in intact:
        if space.is_fitted:
            _add_missing_rows(space, progress)
        elif len(space.specs) > 1 and len(space.feature) >= FIT_MIN and not space.takes_labels:
            fit_space(space, progress, notes=notes)
    update_smoothed(intact, progress)
    for space in intact:
        space.build_indexes(progress)
    for space in intact:
        for name in (space.name, space.specs[0], *[space.smoothed_name] * space.has_smoothed_rows):
            space.store.vectors.release_quarantined(name)


def _add_missing_rows(space: Space, progress: Progress) -> None:
    """Add the rows of items that have a vector of the feature but no row in the space."""
    vectors, ids = space.store.vectors, space.missing_rows()
    if len(ids) and vectors.quarantine_damaged(space.specs[0], ids):
        ids = space.missing_rows()
    if len(ids):
        pendings = list(_encode(space, space.chain, ids, progress))
        with space.store.transaction():
            for pending in pendings:
                vectors.commit(pending)


def _replace(space: Space, chain: Chain, fitted_on: int, pools: Sequence[Members], progress: Progress) -> None:
    """Encode every item with a newly fitted chain, and replace the rows and the model of the space."""
    vectors = space.store.vectors
    target = vectors.new_file("models", ".npz")
    models.save(target, *chain.steps)
    pendings = list(_encode(space, chain, space.feature.row_ids(), progress))
    model = vectors.put_in_place(target)
    with space.store.transaction():
        vectors.replace(space.name, pendings, model=model, fitted_on=fitted_on, chain=chain.specs, pools=pools)


def _encode(space: Space, chain: Chain, ids: Ids, progress: Progress) -> Iterator[Pending]:
    """Encode these items with a chain, and write segments with their rows."""
    features = space.feature_rows
    width = chain.encode(features.vectors(ids[:1])).nbytes if len(ids) else 0
    for part in chunks(len(ids), max(width, SEGMENT_BYTES // SEGMENT_ROWS), SEGMENT_BYTES):
        progress(f"encoding {space.name}", part.start, len(ids))
        segment_ids = ids[part]
        blocks = chunks(len(segment_ids), 4 * (features.dim or 1), ROWS_BYTES)
        rows = join_rows([chain.encode(features.vectors(segment_ids[block])) for block in blocks])
        yield space.store.vectors.write(space.name, segment_ids, rows)
    progress(f"encoding {space.name}", len(ids), len(ids))


def _choose_codes(spaces: Spaces, text: str, labels: bool, progress: Progress) -> tuple[str, str]:
    """Replace `codes(…)` by a pipeline with one of `CODERS`, and give the reason; other texts do not change.

    With enough labels, the coder is chosen on a held-out part of them. With `labels`, it always learns from labels. The
    coder of an existing space does not change.
    """
    specs = [] if text in spaces else parse_fit(text)[1]
    if len(specs) != 1 or specs[0].name != CODES:
        return text, ""
    space, params = spaces.find(None), specs[0].params
    if CODES in spaces:
        coder = parse(spaces.get(CODES).specs[-1]).name
        why = f"it was chosen before; to choose again, first run: lookalike remove --space {CODES}"
        return f"{CODES} = {space.specs[0]} | {Spec(coder, params)}", f"{coder} ({why})"
    candidates = [name for name in CODERS if takes_labels(name) or not labels]
    candidates = [name for name in candidates if params.keys() <= signature(component("coder", name)).parameters.keys()]
    if not candidates:
        raise InputError(
            f"None of the coders that 'codes' chooses from has all of the options {', '.join(params)}."
            " Name a coder instead, such as pq(bits=64)."
        )
    by_item = labels_of(space)
    counts = Counter(name for (name,) in by_item.values())
    ids = np.array(sorted(item for item, (name,) in by_item.items() if counts[name] >= LABEL_MIN), np.int64)
    coder = next((name for name in candidates if takes_labels(name) == labels), candidates[0])
    why = f"too few labels to compare coders: fewer than two have {LABEL_MIN} pictures"
    if sum(n >= LABEL_MIN for n in counts.values()) > 1:
        ids = ids[: _max_rows(space)]
        others = np.setdiff1d(space.feature.row_ids()[:CHOICE_ROWS], np.array(sorted(by_item), np.int64))
        found = choose_coder(
            {name: create("coder", Spec(name, params)) for name in candidates},
            np.asarray(space.feature_rows.vectors(ids), np.float32),
            np.array([by_item[item][0] for item in ids.tolist()]),
            space.feature_rows.vectors(others) if len(others) else None,
            progress,
        )
        coder, why = found.name, f"mAP on held-out labels: {found}"
    return f"{CODES} = {space.specs[0]} | {Spec(coder, params)}", f"chose {coder} ({why})"


def _has_labels(space: Space) -> bool:
    """Whether there are enough labels for a space that learns from them."""
    with suppress(InputError):
        return len(labelled_ids(space)[0]) > 0
    return False


def _check_labels_used(spaces: Sequence[Space]) -> None:
    """Raise InputError if a space does not learn from labels."""
    for space in spaces:
        if not space.takes_labels:
            raise InputError(
                f"Space '{space.name}' does not learn from labels. Its chain is {' | '.join(space.specs)}. These steps"
                " learn from labels: ncmml, lmnn, fda, tsvm and others. With --calibrate, labels are used to choose lam"
                " and gamma."
            )


def _takes_several_labels(space: Space) -> bool:
    """Whether all steps of a space that learn from labels use pictures with several labels."""
    return all(map(takes_several_labels, filter(takes_labels, space.specs[1:])))


def _max_rows(space: Space) -> int:
    """The maximum number of rows of its feature that a fit of a space uses."""
    return min(FIT_MAX, SAMPLE_BYTES // (4 * (space.feature.dim or 1)))


def _load_negatives(store: Store, chain: Chain) -> Pool:
    """Load the rows of the same feature from another collection."""
    feature = chain.specs[0]
    if needs_fit(chain.feature):
        raise InputError(f"The vocabulary of {feature} differs between collections. Give a folder of pictures instead.")
    spaces = Spaces(store)
    if feature not in spaces or not len(spaces.get(feature)):
        raise InputError(f"{store.path} has no vectors of {feature}. Give a folder of pictures instead.")
    ids, X = sample_rows(spaces.get(feature))
    return Pool(str(store.path), ids, np.asarray(X, np.float32))


def _describe_negatives(source: str, chain: Chain, progress: Progress, workers: int | None) -> Pool:
    """Read pictures that are not in a collection, and extract their features."""
    entries = draw_sample(walk([source], on_skip=ignore), NEGATIVES)
    rows: dict[int, Vectors] = {}
    with describe_pool(Prepare([chain.feature]), side=chain.feature.side, workers=workers) as pool:
        for done, outcome in enumerate(pool.map(entries), 1):
            progress("reading negatives", done, len(entries))
            if isinstance(outcome, Read):
                (rows[outcome.id],) = outcome.parts
    if not rows:
        raise InputError(f"{source} has no readable picture. Give a folder, an archive or a collection.")
    ids = sorted(rows)
    return Pool(source, np.array(ids, np.int64), np.stack([rows[item] for item in ids]))


# Fitting features, which learn a vocabulary from pictures


def fit_features(
    spaces: Sequence[Space],
    entries: Callable[[], Iterable[Entry]],
    progress: Progress,
    workers: int | None,
    *,
    refit: bool = False,
) -> tuple[dict[str, int], dict[str, str]]:
    """Fit the features of these spaces that must be fitted, on a sample of the entries.

    With `refit`, also fit features that are already fitted, and features that learn from labels; their old rows are
    dropped. Returns the fitted features with the number of pictures, and the other features with the reason.
    """
    features = dict.fromkeys(space.feature for space in spaces)
    to_fit = [space for space in features if feature_needs_fit(space.name) and (refit or not space.is_fitted)]
    sample = [] if all(feature_takes_labels(space.name) for space in to_fit) else draw_sample(entries())
    fitted, failed = {}, {}
    for space in to_fit:
        feature = create("feature", space.name)
        try:
            if not feature_takes_labels(space.name):
                n = fit_feature(feature, sample, progress, workers, gpu=space.fit_gpu)
            elif refit:
                n = _fit_labelled_feature(space, feature, entries(), progress, workers)
            else:
                example = next(user.name for user in spaces if user.feature == space)
                raise InputError(
                    f"Feature {space.name} learns from labels. To fit it, run: lookalike fit {example} --labels"
                )
        except InputError as error:  # too little to learn from
            failed[space.name] = str(error)
            continue
        if n == 0:  # nothing could be read; `add` reports why
            continue
        _save_feature(space, feature, n)
        fitted[space.name] = n
    return fitted, failed


def draw_sample(entries: Iterable[Entry], n: int = FEATURE_SAMPLE) -> list[Entry]:
    """A random sample of at most n entries: those with the lowest digests of file name and size, then path.

    The sample does not depend on where the files are or in which order they are listed.
    """
    kept: list[tuple[bytes, str, Entry]] = []  # sorted
    carried = 0
    limit: tuple[bytes, str] | None = None  # the lowest that was dropped: higher ones are rejected
    for entry in entries:
        name = f"{os.path.basename(entry.path)}\0{entry.size}".encode(errors="surrogateescape")
        candidate = blake2b(name, digest_size=8).digest(), entry.path, entry
        position = bisect_left(kept, candidate[:2], key=lambda other: other[:2])
        is_listed = position < len(kept) and kept[position][1] == entry.path  # by two sources that overlap
        if is_listed or (limit is not None and candidate[:2] >= limit):
            continue
        kept.insert(position, candidate)
        carried += len(entry.data or b"")
        while len(kept) > n or (carried > CARRIED_BYTES and len(kept) > 1):
            digest, path, dropped = kept.pop()
            carried, limit = carried - len(dropped.data or b""), (digest, path)
    return [entry for *_, entry in kept]


def fit_feature(
    feature: LearnedFeature | LabelledFeature,
    entries: Sequence[Entry],
    progress: Progress,
    workers: int | None,
    labels: dict[str, list[str]] | None = None,
    gpu: str | None = None,
) -> int:
    """Fit a feature on the pictures of these entries, in this order; return the number of readable pictures.

    `labels` by path are for a feature that learns from labels. Without a readable picture, the feature is not fitted.
    """
    read = 0

    def prepared() -> Iterator[Any]:
        nonlocal read
        with ReadPool(feature.prepare, side=feature.side, workers=workers) as pool:
            for part in chunks(len(entries), 1, ORDERED_BLOCK):
                found = {outcome.entry.path: outcome for outcome in pool.map(entries[part])}
                for outcome in (found[entry.path] for entry in entries[part]):
                    if isinstance(outcome, Read):
                        read += 1
                        yield outcome.parts if labels is None else (outcome.parts, labels[outcome.entry.path])
                progress("sampling", part.stop, len(entries))

    stream = prepared()
    first = next(stream, None)
    if first is not None:
        with SINGLE_BLAS_THREAD:  # for many small products, more threads gain nothing, and idle threads spin
            feature.fit(concatenate([first], stream), progress=progress, gpu=gpu)
    return read


def _save_feature(space: Space, feature: LearnedFeature | LabelledFeature, n: int) -> None:
    """Store a fitted feature, and drop all rows of the previous one."""
    vectors = space.store.vectors
    target = vectors.new_file("models", ".npz")
    models.save(target, feature)
    model = vectors.put_in_place(target)
    with space.store.transaction():
        users = [name for name, stored in vectors.spaces().items() if stored.base == space.name]
        vectors.replace(space.name, [], model=model, fitted_on=n)
        for name in users:
            vectors.replace(name, [], model=None, fitted_on=None)


def _fit_labelled_feature(
    space: Space, feature: LabelledFeature, entries: Iterable[Entry], progress: Progress, workers: int | None
) -> int:
    """Fit a feature on a sample of the pictures that have labels; return the number of pictures."""
    found = {entry.path: (entry, labels) for entry, labels in _labelled_entries(space.store, entries)}
    sample = draw_sample((entry for entry, _ in found.values()), FEATURE_LABELLED)
    labels = {entry.path: found[entry.path][1] for entry in sample}
    if len({tuple(names) for names in labels.values()}) < 2:
        names = {name for names in labels.values() for name in names}
        raise InputError(
            f"{spec_of(feature)} learns from pictures that have different labels. The collection has"
            f" {many(len(labels), 'labelled picture')} with {many(len(names), 'label')}. Label pictures first:"
            " lookalike label SOURCE"
        )
    return fit_feature(feature, sample, progress, workers, labels, space.fit_gpu)


def _labelled_entries(store: Store, entries: Iterable[Entry]) -> Iterator[tuple[Entry, list[str]]]:
    """The entries whose pictures have labels, each picture once, with its labels."""
    entries, seen_items = iter(entries), set[int]()
    while batch := list(islice(entries, LOOKUP_BATCH)):
        seen = store.items.seen([entry.path for entry in batch])
        labels = store.judgements.labels([previous.item for previous in seen.values() if previous.item is not None])
        for entry in batch:
            item = seen[entry.path].item if entry.path in seen else None
            if item is not None and labels[item] and item not in seen_items:
                seen_items.add(item)
                yield entry, labels[item]
