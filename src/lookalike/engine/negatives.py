"""Pools of negatives from outside: what encoders such as SLEM tell pictures from.

In: another collection, or pictures (a folder, an archive, a list). Out: a `Pool`: ids and
(n, d) float32 vectors of one feature.
"""

from pathlib import Path

import numpy as np

from lookalike.engine.calm import CALM
from lookalike.engine.chain import Chain, Prepare
from lookalike.engine.ingest import BATCH
from lookalike.engine.presence import ignore
from lookalike.engine.space_sample import Pool, sample_rows
from lookalike.engine.spaces import Spaces
from lookalike.engine.specs import takes_negatives
from lookalike.engine.vocabulary import draw
from lookalike.engine.words import absolute
from lookalike.errors import InputError, NoCollectionError
from lookalike.images.sources import walk
from lookalike.images.workers import Read, ReadPool
from lookalike.store.directory import Store
from lookalike.types import Progress, Vectors, needs_fit

NEGATIVES = 5_000
"""Pictures of a folder that are read for a pool, drawn by lot."""


def read_negatives(spaces: Spaces, name: str, source: str | Path, progress: Progress, workers: int | None) -> Pool:
    """The vectors of a space's feature for what a source holds, in the order of the items' ids."""
    chain, path = spaces.chain(name), absolute(source)
    if not any(takes_negatives(spec) for spec in chain.specs[1:]):
        raise InputError(f"Space '{name}' has no use for negatives: its chain is {' | '.join(chain.specs)}.")
    try:
        store = Store(Path(path))
    except NoCollectionError:
        return _describe(path, chain, progress, workers)
    try:
        return _take(store, chain)
    finally:
        store.close()


def _take(store: Store, chain: Chain) -> Pool:
    """The rows that another collection has of the same feature."""
    base = chain.specs[0]
    if needs_fit(chain.feature):
        raise InputError(f"{base} has another vocabulary in another collection. Give a folder of pictures instead.")
    spaces = Spaces(store)
    if base not in spaces.all() or not store.vectors.rows(base):
        raise InputError(f"{store.path} has no vectors of {base}. Give a folder of pictures instead.")
    ids, X = sample_rows(spaces, base)
    return Pool(str(store.path), ids, np.asarray(X, np.float32))


def _describe(source: str, chain: Chain, progress: Progress, workers: int | None) -> Pool:
    """The vectors of pictures that are read for this alone."""
    entries = draw(walk([source], on_skip=ignore), NEGATIVES)
    prepare = Prepare([chain.feature])
    rows: dict[int, Vectors] = {}
    waiting: list[Read] = []
    with CALM, ReadPool(prepare, side=chain.feature.side, workers=workers) as pool:
        for done, outcome in enumerate(pool.map(entries), 1):
            progress("reading negatives", done, len(entries))
            if isinstance(outcome, Read):
                waiting.append(outcome)
            if len(waiting) == BATCH or (done == len(entries) and waiting):
                (X,) = prepare.finish([read.parts for read in waiting])
                rows |= {read.id: row for read, row in zip(waiting, X, strict=True)}
                waiting = []
    if not rows:
        raise InputError(f"{source} has no picture that can be read. Give a folder, an archive or a collection.")
    ids = sorted(rows)
    return Pool(source, np.array(ids, np.int64), np.stack([rows[item] for item in ids]))
