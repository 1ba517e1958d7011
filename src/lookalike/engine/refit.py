"""What a person's `fit` does: which spaces and features are fitted anew, and on what.

In: names of spaces, or new pipelines; labels and negatives where they are asked for. Out: how many rows each was fitted
on. Needs the writer lock.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lookalike.engine.intake import Intake
from lookalike.engine.negatives import read_negatives
from lookalike.engine.space_fit import ensure_fit, fit_space, learning
from lookalike.engine.space_settle import settle
from lookalike.engine.spaces import Spaces
from lookalike.errors import InputError
from lookalike.types import Progress


@contextmanager
def tried_spaces(spaces: Spaces) -> Iterator[None]:
    """Spaces that are made in this block go again where it fails."""
    known = set(spaces.recipes())
    try:
        yield
    except BaseException:
        for name in set(spaces.recipes()) - known:
            spaces.remove(name)
        raise


def refit(
    spaces: Spaces,
    intake: Intake,
    wanted: Sequence[str],
    *,
    features: bool,
    labels: bool,
    negatives: str | Path | None,
    progress: Progress,
    workers: int | None,
) -> dict[str, int]:
    """Fit these spaces, or all that have something to fit, with their features where that is asked for."""
    names = [ensure_fit(spaces, text, labels=labels) for text in wanted]
    taught = [name for name in names if spaces.feature_wants_labels(name)]
    if labels:
        _check_use(spaces, [name for name in names if name not in taught])
    fitted: dict[str, int] = {}
    if features:
        fitted = intake.fit_features_anew(names or spaces.recipes(), progress, workers)
        names = [name for name in {**dict.fromkeys(names), **fitted} if name in learning(spaces)]
    elif taught := [name for name in taught if labels or not spaces.described(name)]:
        fitted = intake.fit_features_anew(taught, progress, workers)
        names = [name for name in names if name not in taught or name in learning(spaces)]
    if not wanted:
        names = learning(spaces)
    for name in names:
        pool = None if negatives is None else read_negatives(spaces, name, negatives, progress, workers)
        fitted[name] = fit_space(spaces, name, progress, pool)
    settle(spaces, names, progress)
    return fitted


def _check_use(spaces: Spaces, names: Sequence[str]) -> None:
    """Refuse labels for spaces that learn nothing from them."""
    for name in names:
        if not spaces.wants_labels(name):
            raise InputError(
                f"Space '{name}' has no use for labels: its chain is {' | '.join(spaces.all()[name].chain)}. Those that"
                " have: ncmml, lmnn, fda, tsvm … With --calibrate, labels can choose lam and gamma."
            )
