"""Side by side with others: the same rows, the same k, one thread each, in turns in one run.

In: peers × (set, figure). Out: `speed`, how many times as fast as the peer we are (the median, and where 80 % of the
turns lie); `quality`, ours as a multiple of theirs (interval by bootstrap over the turns); `ours` and `theirs`, that
quality itself, a share. Below 1 the peer is ahead. Rows are drawn, or those of a set in the data folder.

Protocol. Search: 10 nearest of 50,000 rows in 128 dimensions around 250 centres, their spectrum falling as after a PCA
(`peers_search`); codes are random. Hyperplanes: 50 best of 50,000 rows of the `hyperplane` bench. A peer whose effort
can be chosen gets the least with which it finds as much as we do, chosen on queries of their own; where it never does,
its greatest. Learners: scikit-learn's digits, or 2,000 rows of a set, of its first 10 classes by name, three splits
(`peers_learn`), every side with its defaults. Feedback: sessions as in the `feedback` bench. On a set, codes are those
of `itq`, 64 bits. Nothing is chosen by test labels.
"""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from lookalike.types import Progress
from lookalike_bench import datasets, feedback_sets, peers_learn, peers_planes, peers_rounds, peers_search
from lookalike_bench.measures import bootstrap, mean
from lookalike_bench.peers_sets import DRAWN, SETS, Place
from lookalike_bench.tables import RATIO, Bench, Score
from lookalike_bench.turns import Compared, one_thread

FIGURES = {"speed": RATIO, "quality": "× as good", "ours": "share", "theirs": "share"}
ROWS: dict[str, Callable[[Place, Progress], Compared]] = {
    **peers_search.CASES,
    **peers_planes.CASES,
    **peers_learn.CASES,
    **peers_rounds.CASES,
}
"""MissingError where the peer is not there."""
COLUMNS = tuple(f"{name}/{figure}" for name in SETS for figure in FIGURES)
DRAWN_ALONE = ("faiss-binary-tables", "faiss-binary-tables-32")
"""Rows that sets are too small for."""
_OUTCOMES: dict[tuple[str, Place], Compared] = {}
"""What this process has measured: figures of a row share it."""


def outcome(row: str, place: Place, progress: Progress) -> Compared:
    """One row at one place, once a process."""
    if (row, place) not in _OUTCOMES:
        if place.name != DRAWN:
            feedback_sets.vectors(place.name, place.data, progress)  # with all threads, and kept
        with one_thread():
            _OUTCOMES[row, place] = ROWS[row](place, progress)
    return _OUTCOMES[row, place]


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """One cell. `seed` draws rows, queries, splits, sessions and the bootstrap."""
    name, figure = column.split("/")
    found = outcome(row, Place(name, data, seed), progress)
    if figure == "speed":
        low, value, high = np.quantile(found.speed, [0.1, 0.5, 0.9]).tolist()
    elif figure == "quality":
        value, low, high = compare(found.ours, found.theirs, seed=seed)
    else:
        values = getattr(found, figure)
        value, (low, high) = mean(values), bootstrap(values, seed=seed)
    return Score(FIGURES[figure], value, low, high, scored=0)


def compare(ours: Sequence[float], theirs: Sequence[float], *, seed: int = 0) -> tuple[float, float, float]:
    """mean(ours) / mean(theirs) and its 95 % interval, by drawing turns anew.

    >>> compare([0.5, 0.5], [1.0, 1.0])
    (0.5, 0.5, 0.5)
    """
    both = np.stack([ours, theirs])  # (2, turns)
    drawn = both[:, np.random.default_rng(seed).integers(both.shape[1], size=(1_000, both.shape[1]))].mean(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):  # a peer that finds nothing at all
        low, high = np.quantile(drawn[0] / drawn[1], [0.025, 0.975])
        return float(both[0].mean() / both[1].mean()), float(low), float(high)


def has(row: str, column: str) -> bool:
    """Whether there is such a cell."""
    return row not in DRAWN_ALONE or column.startswith(DRAWN)


def check(columns: Sequence[str], data: Path) -> None:
    """Refuse before the first cell when a set is missing."""
    for name in {column.split("/")[0].removesuffix("-classic") for column in columns} - {DRAWN}:
        datasets.check(name, data)


BENCH = Bench(
    "peers",
    "side by side with others, as ratios",
    tuple(ROWS),
    COLUMNS,
    run,
    check,
    needs_data=False,
    has=has,
    on_request=tuple(column for column in COLUMNS if not column.startswith(DRAWN)),
    seconds=lambda _, column: 10.0 if column.endswith("/speed") else 0.1,  # the others are of the same turns
    alone=True,
)
