"""Whether the vectors on the disk are what was written.

In: the catalogue and the collection's directory. Out: sentences, none where all is well. Every byte is read. Files are
opened before the reading begins, so that a merge by another process cannot take them away.
"""

from pathlib import Path

import numpy as np

from lookalike.arrays import chunks
from lookalike.store.blocks import Block, ListedSegment, dead_rows, list_segments, open_blocks
from lookalike.store.database import Database, read_ids, read_version
from lookalike.types import Ids, Progress

TRIES = 20
"""How often to look again when files are merged away while they are opened."""


def verify_space(path: Path, database: Database, space: str, progress: Progress) -> list[str]:
    """Return a sentence for each fault in the rows of a space."""
    for _ in range(TRIES):
        with database.reading() as db:
            version = read_version(db)
            listed = [(row, dead_rows(db, row)) for row in list_segments(db, space)]
            quarantined = list_segments(db, space, quarantined=True)
            (dim,) = db.execute("SELECT dim FROM spaces WHERE name = ?", [space]).fetchone()
            items = read_ids(db, "SELECT id FROM items")
        blocks, unreadable = open_blocks(path / "vectors", listed, {})
        faults = list(unreadable.values())
        with database.reading() as db:
            if not faults or read_version(db) == version:
                break
    faults += [f"vectors/{row.file} is quarantined: {(row.damage or '').rstrip('.')}." for row in quarantined]
    rows = {row.id: row for row, _ in listed}
    for done, block in enumerate(blocks):
        progress(f"verifying {space}", done, len(blocks))
        row = rows[block.segment]
        faults += [f"{path / 'vectors' / row.file} {fault}." for fault in _contents(row, block, dim)]
    progress(f"verifying {space}", len(blocks), len(blocks))
    return [f"{fault} Run: lookalike repair" for fault in [*faults, *_identities(blocks, items, space)]]


def _contents(row: ListedSegment, block: Block, dim: int) -> list[str]:
    faults = []
    if not block.intact:
        faults.append("does not match its digest")
    if row.dim != dim:
        faults.append(f"has {row.dim} dimensions where its space has {dim}")
    if not all(np.isfinite(block.X[part]).all() for part in chunks(row.rows, block.X[0].nbytes)):
        faults.append("has rows that are not finite")
    if block.n_dead != row.n_dead:
        faults.append(f"has {block.n_dead} dead rows where {row.n_dead} were counted")
    return faults


def _identities(blocks: list[Block], items: Ids, space: str) -> list[str]:
    """That every live row belongs to an item, and no item has two."""
    faults = []
    live = np.concatenate([np.empty(0, np.int64), *(block.live_ids() for block in blocks)])
    ids, counts = np.unique(live, return_counts=True)
    if (counts > 1).any():
        faults.append(f"{np.count_nonzero(counts > 1)} items have two live rows in space '{space}'.")
    strangers = np.setdiff1d(ids, items, assume_unique=True)
    if len(strangers):
        faults.append(f"{len(strangers)} live rows of space '{space}' belong to no item.")
    return faults
