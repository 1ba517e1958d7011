"""Files that a collection knows and that are no more.

In: a store and its sources. Out: why a source cannot be looked at again; a catalogue without what is really gone. What
has become of a single file, `presence` tells.
"""

from collections.abc import Sequence
from itertools import chain

from lookalike.engine.ingest import Report
from lookalike.engine.presence import exists, has_company, is_gone, is_under, root_of
from lookalike.images.sources import split_member
from lookalike.store.directory import Store


def problem(store: Store, source: str) -> str | None:
    """Why a source cannot be looked at again: one that lost every file at once is taken for a missing disk."""
    root = root_of(source)
    known = store.items.paths_under(root)
    first = next(known, None)
    if not exists(root):
        found = f"{source} is not there."
    elif first is not None and not any(exists(path) for path, _ in chain([first], known)):
        found = f"Every known file of {source} is gone: is its disk mounted?"
    else:
        return None
    return f"{found} Left as it is; if that is right, run: lookalike remove {source}"


def forget_gone(store: Store, sources: Sequence[str], absent: Sequence[str], again: set[int], report: Report) -> None:
    """Forget paths of these sources whose file is no more; items without any path left go with them.

    What cannot be told is kept: files of an absent source inside this one, members of an archive that is being
    written, files of a list whose folder is gone or empty.
    """
    listed = store.items.seen(list(report.skipped))
    known = {path: seen for path, seen in listed.items() if has_company(path)}
    for source in sources:
        known.update(store.items.paths_under(root_of(source)))
    away = [root_of(source) for source in absent]
    gone = []
    for path, seen in known.items():
        archive, member = split_member(path)
        kept = (member and archive in report.skipped) or any(is_under(path, root) for root in away)
        if not kept and is_gone(path, seen.mtime_ns):
            gone.append(path)
    with store.transaction():
        store.remove(store.items.unlink(gone))
    for path in gone:
        report.skipped.pop(path, None)
        if known[path].item in again:  # it has only moved
            again.discard(known[path].item or 0)
            report.copied -= 1
            report.moved += 1
        else:
            report.gone += 1
