"""Conformance checks for components.

`CHECKS[kind]` lists the checks for components of a kind. A check takes `make`, which returns a new component each time,
and raises an AssertionError if the component fails. The tests run all checks on all registered components. You can also
run them on your own components.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, TypeAlias

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lookalike.codes.queries import CodeQuery
from lookalike.errors import InputError
from lookalike.images.demo import draw
from lookalike.index.queries import PointQuery
from lookalike.registry import create, kind_of, restore, spec_of, state_of
from lookalike.types import (
    Coder,
    Feature,
    Ids,
    Index,
    Local,
    Pixels,
    Transform,
    Vectors,
    needs_fit,
    needs_labels,
)

Make: TypeAlias = Callable[[], Any]


def check_spec_round_trip(make: Make) -> None:
    """Check that the spec of a component creates an equal component."""
    part = make()
    assert spec_of(create(kind_of(part)[0], spec_of(part))) == spec_of(part)


def check_feature_shape(make: Make) -> None:
    """Check that vectors are (n, dim) float32 and finite, also for n = 0."""
    feature = _fit_feature(make())
    assert isinstance(feature, Feature)
    X = feature.extract(_pictures())
    assert X.shape == (len(_pictures()), feature.dim)
    assert X.dtype == np.float32
    assert np.isfinite(X).all()
    assert feature.extract([]).shape == (0, feature.dim)


def check_feature_repeats(make: Make) -> None:
    """Check that the same pictures give the same bytes; a batch gives the same result as single pictures."""
    feature, pictures = _fit_feature(make()), _pictures()
    X = feature.extract(pictures)
    assert X.tobytes() == _fit_feature(make()).extract(pictures).tobytes()
    np.testing.assert_allclose(np.concatenate([feature.extract([p]) for p in pictures]), X, atol=1e-5)


def check_feature_extremes(make: Make) -> None:
    """Check that one pixel, one colour and thin strips give finite vectors of the right size."""
    extremes = _extremes()
    feature = _fit_feature(make())
    X = feature.extract(extremes)
    assert X.shape == (len(extremes), feature.dim)
    assert np.isfinite(X).all()


def check_feature_distinguishes_pictures(make: Make) -> None:
    """Check that different pictures get different vectors."""
    X = _fit_feature(make()).extract(_pictures())
    assert len(np.unique(X, axis=0)) == len(X)


def check_feature_regions(make: Make) -> None:
    """Check that a box around the whole picture gives the vector of the picture; invalid boxes raise InputError."""
    feature, (picture, *_) = _fit_feature(make()), _pictures()
    X = feature.regions(picture, [(0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.5, 1.0), (0.99, 0.99, 1.0, 1.0)])
    assert X.shape == (3, feature.dim)
    assert X.dtype == np.float32
    assert np.isfinite(X).all()
    np.testing.assert_allclose(X[:1], feature.extract([picture]), atol=1e-5)
    assert feature.regions(picture, []).shape == (0, feature.dim)
    _must_raise((InputError,), feature.regions, picture, [(0.5, 0.0, 0.5, 1.0)])


def check_feature_cells(make: Make) -> None:
    """Check that the vectors of cells are grids of at least 3 × 3 finite vectors, even for extreme pictures."""
    feature = _fit_feature(make())
    for picture in (_pictures()[0], *_extremes()):
        X = feature.cells(picture)
        assert X.ndim == 4
        assert min(X.shape[1:3]) >= 3
        assert X.shape[3] == feature.dim
        assert X.dtype == np.float32
        assert np.isfinite(X).all()


def check_feature_saves(make: Make) -> None:
    """Check that spec and learned arrays restore a fitted feature; one that learns cannot extract before `fit`."""
    feature = _fit_feature(make())
    again = restore("feature", spec_of(feature), state_of(feature))
    assert again.extract(_pictures()).tobytes() == feature.extract(_pictures()).tobytes()
    if state_of(feature):
        assert make().describe([]).shape == (0, feature.dim)
        _must_raise((InputError,), make().extract, _pictures())
        _must_raise((InputError,), make().fit, [])


def check_local_shape(make: Make) -> None:
    """Check that each picture has at least one descriptor, (m, dim) float32 and finite, with its position."""
    local = make()
    assert isinstance(local, Local)
    pictures = [*_pictures(), *_extremes()]
    described = local.describe([local.prepare(picture) for picture in pictures])
    assert len(described) == len(pictures)
    for X, places in described:
        assert len(X) == len(places) >= 1
        assert X.shape[1] == local.dim
        assert X.dtype == places.dtype == np.float32
        assert np.isfinite(X).all()
        assert places.shape[1] == 2
        assert ((places >= 0) & (places <= 1)).all()
    assert local.describe([]) == []


def check_local_repeats(make: Make) -> None:
    """Check that the same pictures give the same bytes; a batch gives the same result as single pictures."""
    local, again = make(), make()
    prepared = [local.prepare(picture) for picture in _pictures()]
    for (X, places), picture in zip(local.describe(prepared), _pictures(), strict=True):
        ((Y, there),) = again.describe([again.prepare(picture)])
        np.testing.assert_allclose(X, Y, atol=1e-5)
        assert places.tobytes() == there.tobytes()
    first, second = (part.describe([part.prepare(_pictures()[0])])[0] for part in (local, again))
    assert first.X.tobytes() == second.X.tobytes()


def check_transform_shape(make: Make) -> None:
    """Check that `fit` returns the transform; output rows are float32, also for no rows or one row."""
    transform, X = make(), _rows()
    assert isinstance(transform, Transform)
    assert _fit(transform, X) is transform
    Y = transform.transform(X)
    assert Y.dtype == np.float32
    assert len(Y) == len(X)
    assert np.isfinite(Y).all()
    assert transform.transform(X[:0]).shape == (0, Y.shape[1])
    np.testing.assert_allclose(transform.transform(X[:1]), Y[:1], atol=1e-5)


def check_transform_repeats(make: Make) -> None:
    """Check that the same data gives the same bytes."""
    X = _rows()
    assert _fit(make(), X).transform(X).tobytes() == _fit(make(), X).transform(X).tobytes()


def check_transform_saves(make: Make) -> None:
    """Check that spec and learned arrays restore a fitted transform."""
    X = _rows()
    transform = _fit(make(), X)
    again = restore("transform", spec_of(transform), state_of(transform))
    assert again.transform(X).tobytes() == transform.transform(X).tobytes()


def check_transform_errors(make: Make) -> None:
    """Check that NaN, `transform` before `fit` and missing labels raise errors."""
    X, bad = _rows(), _rows_with_nan()
    transform = _fit(make(), X)
    _must_raise((ValueError,), _fit, transform, bad)
    _must_raise((ValueError,), transform.transform, bad)
    if state_of(transform).keys() - {"n_features_in_"}:
        _must_raise((NotFittedError,), make().transform, X)
    if needs_labels(transform):
        _must_raise((ValueError,), make().fit, X)


def check_transform_degenerate(make: Make) -> None:
    """Check that zero rows, equal rows and constant columns give finite numbers."""
    X = _degenerate_rows()
    assert np.isfinite(_fit(make(), X).transform(X)).all()


def check_coder_shape(make: Make) -> None:
    """Check that `fit` returns the coder; codes are (n, bits / 8) uint8, also for no rows, independent of the batch."""
    coder, X = make(), _rows()
    assert isinstance(coder, Coder)
    assert _fit(coder, X) is coder
    codes = coder.encode(X)
    assert codes.dtype == np.uint8
    assert codes.shape == (len(X), coder.bits // 8)
    assert coder.encode(X[:0]).shape == (0, coder.bits // 8)
    assert np.concatenate([coder.encode(X[i : i + 1]) for i in range(20)]).tobytes() == codes[:20].tobytes()
    assert len(np.unique(codes, axis=0)) > 1


def check_coder_repeats(make: Make) -> None:
    """Check that the same data gives the same bytes, also in a clone and as float64."""
    X = _rows()
    codes = _fit(make(), X).encode(X)
    assert codes.tobytes() == _fit(make(), X).encode(X).tobytes()
    assert codes.tobytes() == _fit(clone(make()), X).encode(X.astype(np.float64)).tobytes()


def check_coder_saves(make: Make) -> None:
    """Check that spec and learned arrays, without objects, restore a fitted coder."""
    X = _rows()
    coder = _fit(make(), X)
    state = state_of(coder)
    assert not any(value.dtype.hasobject for value in state.values())
    again = restore("coder", spec_of(coder), state)
    assert again.encode(X).tobytes() == coder.encode(X).tobytes()
    assert _self_scores(again, X).tobytes() == _self_scores(coder, X).tobytes()


def check_coder_query(make: Make) -> None:
    """Check that `query` scores codes; at least half of the rows are among the nearest tenth of their own query."""
    X = _rows()
    coder = _fit(make(), X)
    scores = _self_scores(coder, X)
    assert scores.shape == (len(X), len(X))
    assert np.isfinite(scores).all()
    own = np.diagonal(scores)
    assert (own <= np.quantile(scores, 0.1, axis=1)).mean() >= 0.5


def check_coder_errors(make: Make) -> None:
    """Check that partial bytes, NaN, a wrong dimension, `encode` before `fit` and missing labels raise errors."""
    X, bad = _rows(), _rows_with_nan()
    coder = _fit(make(), X)
    _must_raise((ValueError,), _fit, make(), bad)
    _must_raise((ValueError,), coder.encode, bad)
    _must_raise((ValueError,), coder.encode, X[:, :3])
    _must_raise((NotFittedError,), make().encode, X)
    for bits in (0, 12, -8):
        _must_raise((InputError,), _fit, make().set_params(bits=bits), X)
    if needs_labels(coder):
        _must_raise((ValueError,), make().fit, X)


def check_coder_degenerate(make: Make) -> None:
    """Check that zero rows, equal rows and few columns give codes or an InputError; equal rows have equal codes."""
    X = _degenerate_rows()
    codes = _fit(make(), X).encode(X)
    assert len(np.unique(codes[:5], axis=0)) == len(np.unique(codes[5:11], axis=0)) == 1
    for rows in (X[:, :2], np.zeros_like(X)):
        try:
            coder = _fit(make(), rows)
        except InputError:
            continue
        assert coder.encode(rows).shape == (len(rows), coder.bits // 8)


def check_index_is_exact(make: Make) -> None:
    """Check that with effort="exact", an index returns the same hits as a plain scan."""
    index = make()
    assert isinstance(index, Index)
    ids, X, ask = _index_data(index)
    index.add(ids[:1_000], X[:1_000])
    _build(index)
    index.add(ids[1_000:], X[1_000:])
    hits = index.search(ask(X[:4]), 9, effort="exact")
    expected = ask(X[:4]).score(X)
    for row in range(4):
        order = np.lexsort((ids, expected[row]))[:9]
        assert hits.ids[row].tolist() == ids[order].tolist()
        np.testing.assert_allclose(hits.scores[row], expected[row][order], rtol=1e-4, atol=1e-5)
    assert hits.scored > 0


def check_index_edges(make: Make) -> None:
    """Check that an empty index, k > n, k < 1, a wrong dimension, NaN and duplicate ids are handled."""
    ids, X, ask = _index_data(make())
    empty = make().search(ask(X[:2]), 3)
    assert empty.ids.tolist() == [[-1] * 3] * 2
    assert np.isinf(empty.scores).all()
    index = make()
    index.add(ids[:5], X[:5])
    hits = index.search(ask(X[:1]), 8)
    assert (hits.ids[0] >= 0).sum() == 5
    assert hits.ids[0, 5:].tolist() == [-1] * 3
    _must_raise((InputError,), index.search, ask(X[:1]), 0)
    _must_raise((InputError,), index.search, ask(X[:1, :3]), 1)
    _must_raise((InputError,), ask, np.full((1, 4), np.nan, np.float32))
    _must_raise((InputError,), index.add, ids[:1], X[:1])
    _must_raise((InputError,), index.add, ids[9:10], np.full((1, 16), np.nan, np.float32))


def check_index_filters(make: Make) -> None:
    """Check that `among`, `exclude` and removal apply during the search: it returns k hits if k are left."""
    index = make()
    ids, X, ask = _index_data(index)
    index.add(ids, X)
    _build(index)
    assert index.remove(ids[:10]) == 10
    assert index.remove(ids[:10]) == 0
    among, exclude = np.sort(ids[:60]), np.sort(ids[10:20])
    hits = index.search(ask(X[:1]), 40, among=among, exclude=exclude, effort="exact")
    assert set(hits.ids[0].tolist()) == set(ids[20:60].tolist())
    index.add(ids[:1], X[:1])  # a removed id can be added again
    assert index.search(ask(X[:1]), 1, effort="exact").ids[0, 0] == ids[0]


def check_index_ties(make: Make) -> None:
    """Check that equal scores are ordered by id."""
    index = make()
    _, X, ask = _index_data(index)
    index.add(np.array([5, 3, 9, 1], np.int64), np.ones((4, 8), X.dtype))
    hits = index.search(ask(np.ones((1, 8), X.dtype)), 4, effort="exact")
    assert hits.ids[0].tolist() == [1, 3, 5, 9]
    assert hits.scores[0].tolist() == [0, 0, 0, 0]


CHECKS: dict[str, list[Callable[[Make], None]]] = {
    "feature": [
        check_spec_round_trip,
        check_feature_shape,
        check_feature_repeats,
        check_feature_extremes,
        check_feature_distinguishes_pictures,
        check_feature_regions,
        check_feature_cells,
        check_feature_saves,
    ],
    "local": [
        check_spec_round_trip,
        check_local_shape,
        check_local_repeats,
    ],
    "transform": [
        check_spec_round_trip,
        check_transform_shape,
        check_transform_repeats,
        check_transform_saves,
        check_transform_errors,
        check_transform_degenerate,
    ],
    "coder": [
        check_spec_round_trip,
        check_coder_shape,
        check_coder_repeats,
        check_coder_saves,
        check_coder_query,
        check_coder_errors,
        check_coder_degenerate,
    ],
    "index": [
        check_spec_round_trip,
        check_index_is_exact,
        check_index_edges,
        check_index_filters,
        check_index_ties,
    ],
}


@cache
def _pictures() -> list[Pixels]:
    random = np.random.default_rng(0)
    return [
        *(draw(kind, random)[::2, ::2].copy() for kind in ("fish", "house", "stripes")),
        random.integers(0, 256, (64, 48, 3), np.uint8),
    ]


def _extremes() -> list[Pixels]:
    return [
        np.zeros((1, 1, 3), np.uint8),
        np.full((50, 80, 3), 255, np.uint8),
        np.zeros((10, 4000, 3), np.uint8),
        np.random.default_rng(0).integers(0, 256, (4000, 10, 3), np.uint8),
    ]


def _fit_feature(feature: Any) -> Any:
    """Return the feature, fitted on the pictures if it needs fitting."""
    prepared = map(feature.prepare, _pictures())
    if needs_labels(feature):
        return feature.fit(zip(prepared, (["a"], ["b"], ["a", "c"], ["b"]), strict=True))
    return feature.fit(prepared) if needs_fit(feature) else feature


def _rows() -> Vectors:
    """Return (300, 20) float32 normal random numbers, the same each time."""
    return np.random.default_rng(1).normal(size=(300, 20)).astype(np.float32)


def _rows_with_nan() -> Vectors:
    """Return the same rows with one NaN."""
    X = _rows()
    X[3, 2] = np.nan
    return X


def _degenerate_rows() -> Vectors:
    """Return the same rows with zero rows, equal rows and a constant column."""
    X = _rows()
    X[:5] = 0
    X[5:10] = X[10]
    X[:, 0] = 7
    return X


def _fit(transform: Any, X: Vectors) -> Any:
    """Fit a transform or coder on rows, with three classes if it needs labels."""
    return transform.fit(X, np.arange(len(X)) % 3) if needs_labels(transform) else transform.fit(X)


def _must_raise(errors: tuple[type[Exception], ...], function: Callable[..., Any], *args: Any) -> None:
    """Fail unless the call raises one of these errors."""
    try:
        function(*args)
    except errors:
        return
    raise AssertionError(f"{function} raised no error for {args!r}")


def _self_scores(coder: Any, X: Vectors) -> Vectors:
    """Return the scores of all codes for all rows, with the query of the coder."""
    scores: Vectors = coder.query(X).score(coder.encode(X))
    return scores


def _index_data(index: Any) -> tuple[Ids, Any, Callable[[Any], Any]]:
    """Return ids, rows and a query class: vectors, or codes if the index has `codes = True`."""
    random = np.random.default_rng(2)
    ids = random.permutation(5_000)[:1_100].astype(np.int64)
    if getattr(index, "codes", False):
        return ids, random.integers(0, 256, (1_100, 16), np.uint8), CodeQuery
    return ids, random.normal(size=(1_100, 16)).astype(np.float32), PointQuery


def _build(index: Any) -> None:
    """Build the structure of an index that has one."""
    if hasattr(index, "build"):
        index.build()
