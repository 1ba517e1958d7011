"""Searching: find the pictures most similar to examples, and explain a slem classifier.

`search` turns examples into one query of a space. `explain` lists the negatives with the most influence on a picture,
in a space that was fitted with a pool of negatives.
"""

from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks, to_numpy, unit_rows
from lookalike.collection import html
from lookalike.collection.resolve import Example, item_of, select, vectors
from lookalike.collection.space import Space, Spaces
from lookalike.collection.specs import takes_negatives
from lookalike.errors import InputError, NoCollectionError
from lookalike.index.queries import PointQuery, WeightedQuery
from lookalike.index.rerank import rerank as rerank_rows
from lookalike.limits import check_count
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.text import human_probability, many
from lookalike.types import Box, Ids, Query, Transform, Vectors, format_id

NEGATIVE_WEIGHT = 0.5
"""Weight of the mean of the negative examples, relative to that of the positive ones: 2·mean⁺ − mean⁻."""

HALF = 0.5
"""Results with a lower probability are more likely wrong than right."""

RERANKED, RERANK_MAX = 200, 1_000
"""Results that are re-ranked, at least and at most."""

if TYPE_CHECKING:
    from lookalike.collection.words import Meaning

SAME = 1e-3
"""Vectors closer than this share of their length are those of the same picture: only rounding differs."""


@dataclass(frozen=True, slots=True)
class Result:
    """One result of a search."""

    id: int
    path: str | None
    score: float  # smaller is better: a squared distance, 0 for the same picture; in a session, minus the margin;
    # a distance from 0 to 1 if the results are re-ranked
    box: Box | None = None  # the part of the picture that is most similar to the query, if requested
    likely: float | None = None  # the probability that it is right, if requested or cached; see `likelihood`
    item: Item | None = field(default=None, repr=False, compare=False)  # as read from the catalogue


@dataclass(frozen=True, slots=True)
class Cutoff:
    """Where the results of a search end."""

    inside: int  # results that were kept
    of: int  # results that were found
    score: float | None  # of the last one that was kept
    within: float | None  # maximum score
    likely: float | None  # minimum probability
    estimated_from: str  # what the probabilities were estimated from; empty without a minimum

    @property
    def summary(self) -> str:
        """One sentence.

        >>> Cutoff(12, 50, 0.4117, None, 0.8, "340 labelled pictures").summary
        '12 of 50 results are at least 80 % likely (score up to 0.4117; estimated from 340 labelled pictures).'
        >>> Cutoff(1, 20, 0.2, 0.25, None, "").summary
        '1 of 20 results has a score of at most 0.25.'
        """
        has, is_ = ("has", "is") if 1 in (self.inside, self.of) else ("have", "are")
        parts = [] if self.within is None else [f"{has} a score of at most {self.within:g}"]
        parts += [] if self.likely is None else [f"{is_} at least {100 * self.likely:g} % likely"]
        notes = [] if self.score is None or self.likely is None else [f"score up to {self.score:.4f}"]
        notes += [f"estimated from {self.estimated_from}"] if self.estimated_from else []
        note = f" ({'; '.join(notes)})" if notes else ""
        return f"{self.inside:,} of {many(self.of, 'result')} {' and '.join(parts)}{note}."


class Results(list[Result]):
    """The results of a search, best first.

    `understood` describes what a search by words understood by each word, and `cutoff` where the results end, if a
    limit was requested. If the results have probabilities, `estimated_from` describes what these were estimated from.
    """

    def __init__(
        self,
        results: Iterable[Result],
        understood: Sequence["Meaning"] = (),
        *,
        cutoff: Cutoff | None = None,
        estimated_from: str = "",
    ):
        super().__init__(results)
        self.understood = list(understood)
        self.cutoff = cutoff
        self.estimated_from = estimated_from

    def __repr__(self) -> str:
        best = f", scores {self[0].score:.4g} to {self[-1].score:.4g}" if self else ""
        return f"<{many(len(self), 'result')}{best}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the first pictures, with their scores."""
        tiles = (html.Tile(partial(html.read_path, one.path), _caption(one)) for one in self)
        more = f"… and {len(self) - html.MAX_PICTURES:,} more" if len(self) > html.MAX_PICTURES else ""
        return html.page(repr(self)[1:-1], [("", tiles)], more=more)

    @property
    def half(self) -> int | None:
        """The number of results before the first that is more likely wrong than right; None if it is unknown."""
        rated = self and all(result.likely is not None for result in self)
        return sum(result.likely is not None and result.likely >= HALF for result in self) if rated else None


@dataclass(frozen=True, slots=True)
class Push:
    """A negative, and its influence on a picture's classifier."""

    id: int
    path: str | None
    push: float  # influence: 1 is the mean of the pool; more for negatives similar to the picture; can be negative
    collection: str | None = None  # path of its collection, if it is another one


def cut_off(results: Results, within: float | None, likely: float | None) -> Results:
    """The results with a score of at most `within`, and with a probability of at least `likely`."""
    if within is None and likely is None:
        return results
    kept = [
        result
        for result in results
        if (within is None or result.score <= within)
        and (likely is None or (result.likely is not None and result.likely >= likely))
    ]
    source = results.estimated_from if likely is not None else ""
    cutoff = Cutoff(len(kept), len(results), kept[-1].score if kept else None, within, likely, source)
    return Results(kept, results.understood, cutoff=cutoff, estimated_from=results.estimated_from)


def _caption(result: Result) -> list[str]:
    name = (result.path or format_id(result.id)).rpartition("/")[2]
    likely = "" if result.likely is None else f", {human_probability(result.likely)}"
    return [name, f"{result.score:.4f}{likely}", format_id(result.id)]


def make_result(item: Item, score: float) -> Result:
    """Create a result from an item."""
    return Result(item.id, next(iter(item.paths), None), score, item=item)


def search(
    space: Space,
    positive: Sequence[Example],
    negative: Sequence[Example],
    *,
    k: int,
    filter: Filter | None,
    effort: float | str | None,
    rerank: bool = False,
) -> tuple[list[Result], Query]:
    """Find the k pictures nearest to the examples in a space, best first; also returns the query."""
    check_count("k", k)
    if rerank and k > RERANK_MAX:
        raise InputError(f"At most {RERANK_MAX:,} results can be re-ranked. Got k = {k:,}.")
    store, index = space.store, space.index
    if not len(index):
        space.check_searchable()
    query: Any = make_query(space, positive, negative)
    among = None if filter is None else select(store, filter)
    shortlist = max(k, RERANKED) if rerank else k
    hits = index.search(query, min(shortlist, max(1, len(index))), among=among, effort=effort)
    scores = dict(zip(hits.ids[0].tolist(), hits.scores[0].tolist(), strict=True))
    scores.pop(-1, None)  # fewer results than requested
    if rerank:
        scores = dict(sorted(_reranked(space, query, list(scores)).items(), key=lambda score: score[1])[:k])
    items = store.items.get(list(scores))
    return [make_result(item, scores[item.id]) for item in items.values()], query


def _reranked(space: Space, query: Query, ids: list[int]) -> dict[int, float]:
    """The scores of results after re-ranking, by id."""
    if space.is_coded or not isinstance(query, PointQuery):
        raise InputError(
            f"Results of space '{space.name}' cannot be re-ranked, because it searches codes or has its own measure."
            " Choose another space, or search without re-ranking."
        )
    distances = rerank_rows(query.vectors[0], space.index.vectors(np.array(ids, np.int64)))
    return dict(zip(ids, distances.tolist(), strict=True))


def make_query(space: Space, positive: Sequence[Example], negative: Sequence[Example]) -> Query:
    """Create the query for these examples; several are combined as a weighted mean.

    Vectors are averaged if the space uses the Euclidean distance, scores if it has its own measure.
    """
    if not positive:
        raise InputError("A search needs at least one positive example. Got none.")
    X = vectors(space, [*positive, *negative])  # (examples, d)
    if len(X) == 1:
        return space.query(X)
    weights = [1 / len(positive)] * len(positive) + [-NEGATIVE_WEIGHT / max(1, len(negative))] * len(negative)
    if space.chain.has_own_measure:
        return WeightedQuery(space.query(X), weights)
    mean = np.asarray(weights, np.float32)[None, :] @ X  # (1, d)
    has_unit_rows = bool(np.allclose(np.einsum("ij,ij->i", X, X), 1, atol=1e-3))
    return space.query(to_numpy(unit_rows(mean)) if has_unit_rows else mean)


def find_pooled(spaces: Spaces) -> Space:
    """The first space that uses a pool of negatives."""
    for space in spaces:
        if space.takes_negatives:
            return space
    raise InputError("No space of the collection uses negatives. Create one: lookalike fit 'slem()'")


def explain(space: Space, example: Example, k: int) -> list[Push]:
    """The k negatives of a space with the most influence on a picture, strongest first; see `Slem.pushes`.

    The picture itself, and pictures with the same vector, are left out even if they are in the pool.
    """
    check_count("k", k)
    chain, name = space.chain, space.name
    X = vectors(space.feature, [example])  # (1, d)
    pooled = [number for number, spec in enumerate(chain.specs[1:], 1) if takes_negatives(spec)]
    if not pooled:
        raise InputError(f"Space '{name}' does not use negatives. Its chain is {' | '.join(chain.specs)}.")
    pools = space.store.vectors.pools(name)
    if not chain.fitted or not pools:
        raise InputError(f"Space '{name}' has no negative pool yet. Run: lookalike fit {name}")
    pusher = _Pusher(chain.transforms[: pooled[-1]], X, item_of(space.store, example))
    found: list[Push] = []
    for source, ids in pools:
        if source is None:
            found += _hardest(space.feature, ids, pusher, k)
            continue
        with closing(_open_pool(name, source)) as store:
            spaces = Spaces(store)
            pushes = _hardest(spaces.get(chain.specs[0]), ids, pusher, k) if chain.specs[0] in spaces else []
        found += [replace(push, collection=source) for push in pushes]
    if not found:
        raise InputError(
            f"All negatives of space '{name}' were removed or show this picture. Run: lookalike fit {name}"
        )
    return sorted(found, key=lambda push: (-push.push, push.id))[:k]


class _Pusher:
    """The transforms of a chain up to the one with a pool, and the picture's input to that one."""

    def __init__(self, steps: Sequence[Transform], X: Vectors, item: int | None):
        self._earlier = steps[:-1]
        self._step: Any = steps[-1]
        self._x, self._item = X, item
        self._row = self._transform(X)  # (1, D)

    def pushes(self, ids: Ids, negatives: Vectors) -> NDArray[np.float64]:
        """The influence (n,) of negatives, vectors (n, d) of the feature; −∞ for the picture itself."""
        pushes = np.asarray(self._step.pushes(self._row, self._transform(negatives))[0], np.float64)
        away = np.linalg.norm(negatives - self._x, axis=1)  # (n,)
        pushes[(ids == self._item) | (away <= SAME * np.linalg.norm(self._x))] = -np.inf
        return pushes

    def _transform(self, X: Vectors) -> Any:
        for step in self._earlier:
            X = step.transform(X)
        return X


def _hardest(feature: Space, ids: Ids, pusher: _Pusher, k: int) -> list[Push]:
    """The k items with the most influence, without removed items and the picture itself."""
    index = feature.rows
    ids = np.intersect1d(ids, index.ids, assume_unique=True)
    parts = chunks(len(ids), row_bytes=32 * (index.dim or 1))
    found = [pusher.pushes(ids[part], index.vectors(ids[part])) for part in parts]
    pushes = np.concatenate([np.empty(0), *found])  # (n,)
    best = np.argsort(-pushes, kind="stable")[: min(k, int(np.isfinite(pushes).sum()))]
    paths = feature.store.items.first_paths(ids[best].tolist())
    return [Push(int(ids[i]), paths.get(int(ids[i])), float(pushes[i])) for i in best]


def _open_pool(name: str, source: str) -> Store:
    try:
        return Store(Path(source))
    except NoCollectionError:
        raise InputError(
            f"The negatives of '{name}' are the pictures in {source}, whose vectors are not stored. Create a collection"
            f" of them and refit: lookalike -c POOL add {source}, then lookalike fit {name} --negatives POOL"
        ) from None
