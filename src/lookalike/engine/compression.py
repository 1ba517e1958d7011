"""What each step of a chain costs or gains: retrieval among labelled pictures that no step has seen.

In: a space with labels. Out: for the feature and each step after it, the numbers and bytes it leaves of a picture, mean
average precision by labels, and how many of the neighbours before compression are still found.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lookalike.engine.chain import Labelled, fit
from lookalike.engine.space_sample import labelled_rows, labels_of, sample_rows
from lookalike.engine.spaces import Spaces
from lookalike.engine.specs import is_coder, takes_labels
from lookalike.errors import InputError
from lookalike.learn.labels import join_names
from lookalike.learn.measures import alike, precisions
from lookalike.types import Ids, Vectors

SHARE, MOST = 0.3, 1_000
"""The part of the labelled pictures that is held out, and how many at most: each asks all others."""
NEIGHBOURS = 10


@dataclass(frozen=True, slots=True)
class StepQuality:
    """A chain up to and with one step."""

    step: str
    numbers: int  # of a picture; of codes, bytes
    bytes: int  # of a picture, as vectors of float32 or as codes
    precision: float  # mean average precision, each picture held out asking for its like among the others
    recall: float  # share of the 10 nearest after the last step that learned from labels that are among the 10 nearest


def score_steps(spaces: Spaces, name: str, random_state: int = 0) -> list[StepQuality]:
    """Fit a space's chain anew without some of the labelled pictures, and look for these among each other.

    Nothing is written. The feature is as it is: where it learned from labels, it may have seen the pictures, and only
    the differences between its row and later ones say something.
    """
    space = spaces.all()[name]
    ids, X, labels = _labelled(spaces, name)
    random = np.random.default_rng(random_state)
    held = np.zeros(len(ids), bool)
    held[random.permutation(len(ids))[: min(MOST, int(SHARE * len(ids)))]] = True
    if held.sum() < 2:
        raise InputError(
            f"Steps are compared on labelled pictures, at least {int(np.ceil(2 / SHARE))}. The collection has"
            f" {len(ids)} with labels. Label some first: lookalike label SOURCE"
        )
    others, sample = sample_rows(spaces, space.chain[0])
    sample = sample[~np.isin(others, ids[held])]
    chain = fit(space.chain, sample, None, _teaching(spaces, name, ids[held]))
    return _rows(space.chain, chain.steps, X[held], [labels[i] for i in np.flatnonzero(held)])


def _labelled(spaces: Spaces, name: str) -> tuple[Ids, Vectors, list[list[str]]]:
    """The pictures that have labels, their rows and these."""
    base = spaces.all()[name].chain[0]
    found = labels_of(spaces, base, several=True)
    ids = np.array(sorted(found), np.int64)
    return ids, np.asarray(spaces.index(base).vectors(ids), np.float32), [found[item] for item in ids.tolist()]


def _teaching(spaces: Spaces, name: str, held: Ids) -> Labelled | None:
    """What the space learns from, less those held out."""
    all_of = labelled_rows(spaces, name)
    if all_of is None:
        return None
    kept = ~np.isin(all_of.ids, held)
    return Labelled(all_of.ids[kept], all_of.X[kept], all_of.y[kept], all_of.free)


def _rows(specs: list[str], steps: object, X: Vectors, labels: list[list[str]]) -> list[StepQuality]:
    y = join_names(labels)
    wanted = alike(y)
    taught = max((i for i, spec in enumerate(specs) if i and takes_labels(spec) and not is_coder(spec)), default=0)
    distances, sizes = [_distances(X)], [(X.shape[1], 4 * X.shape[1])]
    for spec, step in zip(specs[1:], steps, strict=True):  # type: ignore[call-overload]
        if is_coder(spec):
            codes = step.encode(X)
            distances.append(np.asarray(step.query(X).score(codes), np.float64))
            sizes.append((codes.shape[1], codes.shape[1]))
        else:
            X = np.asarray(step.transform(X), np.float32)
            distances.append(_distances(X))
            sizes.append((X.shape[1], 4 * X.shape[1]))
    orders = [_order(D) for D in distances]
    return [
        StepQuality(spec, *size, _precision(order, wanted), _recall(order, orders[taught]))
        for spec, size, order in zip(specs, sizes, orders, strict=True)
    ]


def _distances(X: Vectors) -> NDArray[np.float64]:
    rows = X.astype(np.float64)
    squares = np.sum(rows * rows, axis=1)
    return np.asarray(squares[:, None] + squares[None, :] - 2 * rows @ rows.T)


def _order(D: NDArray[np.float64]) -> NDArray[np.int64]:
    """The others of each row, the nearest first, (n, n - 1)."""
    D[np.arange(len(D)), np.arange(len(D))] = np.inf
    return np.asarray(np.argsort(D, axis=1, kind="stable")[:, :-1], np.int64)


def _precision(order: NDArray[np.int64], wanted: NDArray[np.bool_]) -> float:
    """Mean average precision; rows without their like ask nothing."""
    found = precisions(np.take_along_axis(wanted, order, axis=1))
    return float(found.mean()) if len(found) else 0.0


def _recall(order: NDArray[np.int64], wanted: NDArray[np.int64]) -> float:
    k = min(NEIGHBOURS, order.shape[1])
    return float(np.mean([np.isin(mine[:k], theirs[:k]).mean() for mine, theirs in zip(order, wanted, strict=True)]))
