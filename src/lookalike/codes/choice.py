"""Choose a coder by how well its codes rank labelled rows that it was not fitted on."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.learn.labels import hold_out
from lookalike.learn.measures import ranked_precision
from lookalike.types import Coder, Progress, Vectors, needs_labels, silent

HELD_OUT = 0.3
"""Share of the rows of each label on which coders are compared: each of them is a query for the others."""
CLASSES, ROWS = 100, 3_000
"""Maximum number of labels and of rows for the comparison, sampled at random, to bound its time."""


class Choice(NamedTuple):
    """The best coder, and the mean average precision of all candidates on held-out rows, best first."""

    name: str
    precisions: dict[str, float]

    def __str__(self) -> str:
        return ", ".join(f"{name} {value:.3f}" for name, value in self.precisions.items())


def choose_coder(
    coders: Mapping[str, Coder],
    X: Vectors,
    y: NDArray[Any],
    unlabelled: Vectors | None = None,
    progress: Progress = silent,
    random_state: int = 0,
) -> Choice:
    """Fit each coder without a part of the labelled rows X (n, d), and compare how well their codes rank that part.

    Coders that need no labels are also fitted on `unlabelled` rows (m, d). Of equal coders, the first is chosen.

    >>> from lookalike.codes import Itq, Lsh
    >>> X = np.eye(4).repeat(20, axis=0) + 0.1 * np.random.default_rng(0).normal(size=(80, 4))
    >>> choose_coder({"lsh": Lsh(bits=8), "itq": Itq(bits=8)}, X, np.arange(80) // 20).name
    'itq'
    """
    random = np.random.default_rng(random_state)
    y = np.unique(y, return_inverse=True)[1]
    rows = random.permutation(np.flatnonzero(np.isin(y, random.permutation(y.max() + 1)[:CLASSES])))[:ROWS]
    X, y = X[rows], np.unique(y[rows], return_inverse=True)[1]  # in random order: codes have ties
    train, held = hold_out(y, HELD_OUT, random)
    every = X[train] if unlabelled is None else np.concatenate([X[train], unlabelled[:ROWS]])
    found: dict[str, float] = {}
    for number, (name, coder) in enumerate(coders.items()):
        progress(f"comparing coders: {name}", number, len(coders))
        if needs_labels(coder):
            coder.fit(X[train], y[train])
        else:
            coder.fit(every)
        query: Any = coder.query(X[held])
        distances = query.score(coder.encode(X[held]))  # (h, h)
        found[name] = ranked_precision(lambda part, distances=distances: distances[part], y[held])  # type: ignore[misc]
    progress("comparing coders", len(coders), len(coders))
    best = sorted(found, key=lambda name: -found[name])
    return Choice(best[0], {name: found[name] for name in best})
