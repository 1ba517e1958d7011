"""Files that `add` leaves out because Lookalike does not read their type: counted by folder and extension.

The counts are cached in the folder `derived` of the collection, so that the page can show them at any time. Each `add`
and `refresh` replaces the counts of the folders that it lists. If the cache is lost, the next `refresh` counts again.
"""

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import groupby

from lookalike.images.sources import is_under, missing_extras, split_member
from lookalike.store.directory import Store
from lookalike.text import many

MAX_SUFFIX = 8
"""Longer extensions, and those with other characters than letters and digits, are counted together, as "other"."""

OTHER = "other"
NAME, VERSION = "other files", "1"


class OtherFiles:
    """The counts of one run over some sources; `count` is called by the thread that lists the files."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}  # by folder or archive, then by extension

    def count(self, path: str) -> None:
        """Count a file of another type."""
        archive, member = split_member(path)
        folder, name = (archive, member) if member else os.path.split(path)
        suffix = os.path.splitext(name)[1].lower()
        usual = 1 < len(suffix) <= MAX_SUFFIX and suffix[1:].isascii() and suffix[1:].isalnum()
        self._counts.setdefault(folder, Counter())[suffix if usual else OTHER] += 1

    def totals(self) -> dict[str, int]:
        """The number of files by extension, the largest first."""
        return _sum(self._counts.values())

    def save(self, store: Store, sources: Iterable[str]) -> None:
        """Replace the stored counts of these sources, which must be listed completely; needs the writer lock."""
        stored = _read(store)
        kept = _without(stored, sources)
        kept.update((folder, dict(counts)) for folder, counts in self._counts.items())
        if kept != stored:
            store.derived.write(NAME, version=VERSION, value=kept)


def forget_other_files(store: Store, roots: Iterable[str]) -> None:
    """Remove the counts of these folders and archives; needs the writer lock."""
    stored = _read(store)
    kept = _without(stored, roots)
    if kept != stored:
        store.derived.write(NAME, version=VERSION, value=kept)


def stored_totals(store: Store) -> dict[str, int]:
    """The number of files of other types in all sources, by extension, the largest first."""
    return _sum(_read(store).values())


def describe_types(totals: Mapping[str, int]) -> str:
    """Describe files of other types in one or two sentences; "" if there are none.

    >>> describe_types({".mp4": 4, "other": 1})
    '5 files of types Lookalike does not read: .mp4 4, other 1.'
    >>> describe_types({})
    ''
    """
    if not totals:
        return ""
    n = sum(totals.values())
    named = ", ".join(f"{suffix} {count:,}" for suffix, count in totals.items())
    files = f"{many(n, 'file')} of {'a type' if n == 1 else 'types'} Lookalike does not read: {named}."
    missing = missing_extras()
    needed = sorted((missing[suffix], suffix) for suffix in totals if suffix in missing)
    hints = [
        f"To read {' and '.join(suffix for _, suffix in pairs)}, install: pip install 'lookalike[{extra}]'"
        for extra, pairs in groupby(needed, lambda pair: pair[0])
    ]
    return " ".join([files, *hints])


def _read(store: Store) -> dict[str, dict[str, int]]:
    found = store.derived.read(NAME)
    return {} if found is None or found.version != VERSION else dict(found.value)


def _without(stored: Mapping[str, dict[str, int]], roots: Iterable[str]) -> dict[str, dict[str, int]]:
    listed = list(roots)
    return {folder: counts for folder, counts in stored.items() if not any(is_under(folder, root) for root in listed)}


def _sum(counters: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for counts in counters:
        total.update(counts)
    return dict(sorted(total.items(), key=lambda pair: (-pair[1], pair[0])))
