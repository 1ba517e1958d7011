"""What every feature and every local descriptor must do: pictures in, rows out.

In: `make`, which returns a fresh component each time. Out: nothing, or an AssertionError.
"""

from functools import cache
from typing import Any

import numpy as np

from lookalike.checks.common import Make, must_raise
from lookalike.errors import InputError
from lookalike.images.demo import draw
from lookalike.registry import restore, spec_of, state_of
from lookalike.types import Feature, Local, Pixels, needs_fit, needs_labels


def check_feature_shape(make: Make) -> None:
    """Rows are (n, dim) float32, finite, also for no pictures at all."""
    feature = _fitted(make())
    assert isinstance(feature, Feature)
    X = feature.extract(_pictures())
    assert X.shape == (len(_pictures()), feature.dim)
    assert X.dtype == np.float32
    assert np.isfinite(X).all()
    assert feature.extract([]).shape == (0, feature.dim)


def check_feature_repeats(make: Make) -> None:
    """The same pictures give the same bytes, and a batch gives what one by one gives."""
    feature, pictures = _fitted(make()), _pictures()
    X = feature.extract(pictures)
    assert X.tobytes() == _fitted(make()).extract(pictures).tobytes()
    np.testing.assert_allclose(np.concatenate([feature.extract([p]) for p in pictures]), X, atol=1e-5)


def check_feature_extremes(make: Make) -> None:
    """One pixel, one colour, thin strips: a finite vector of the right size."""
    extremes = _extremes()
    feature = _fitted(make())
    X = feature.extract(extremes)
    assert X.shape == (len(extremes), feature.dim)
    assert np.isfinite(X).all()


def check_feature_tells_pictures_apart(make: Make) -> None:
    """Different pictures get different vectors."""
    X = _fitted(make()).extract(_pictures())
    assert len(np.unique(X, axis=0)) == len(X)


def check_feature_regions(make: Make) -> None:
    """A box of the whole picture is the picture; a part is described like what was cut out, or nearly."""
    feature, (picture, *_) = _fitted(make()), _pictures()
    X = feature.regions(picture, [(0.0, 0.0, 1.0, 1.0), (0.0, 0.0, 0.5, 1.0), (0.99, 0.99, 1.0, 1.0)])
    assert X.shape == (3, feature.dim)
    assert X.dtype == np.float32
    assert np.isfinite(X).all()
    np.testing.assert_allclose(X[:1], feature.extract([picture]), atol=1e-5)
    assert feature.regions(picture, []).shape == (0, feature.dim)
    must_raise((InputError,), feature.regions, picture, [(0.5, 0.0, 0.5, 1.0)])


def check_feature_saves(make: Make) -> None:
    """Spec and learned arrays are all there is to a fitted feature; one that learns refuses to describe before."""
    feature = _fitted(make())
    again = restore("feature", spec_of(feature), state_of(feature))
    assert again.extract(_pictures()).tobytes() == feature.extract(_pictures()).tobytes()
    if state_of(feature):
        assert make().describe([]).shape == (0, feature.dim)
        must_raise((InputError,), make().extract, _pictures())
        must_raise((InputError,), make().fit, [])


def check_local_shape(make: Make) -> None:
    """Descriptors are (m, dim) float32, finite, at least one a picture, each with its place inside the picture."""
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
    """The same pictures give the same bytes, and a batch gives what one by one gives."""
    local, again = make(), make()
    prepared = [local.prepare(picture) for picture in _pictures()]
    for (X, places), picture in zip(local.describe(prepared), _pictures(), strict=True):
        ((Y, there),) = again.describe([again.prepare(picture)])
        np.testing.assert_allclose(X, Y, atol=1e-5)
        assert places.tobytes() == there.tobytes()
    first, second = (part.describe([part.prepare(_pictures()[0])])[0] for part in (local, again))
    assert first.X.tobytes() == second.X.tobytes()


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


def _fitted(feature: Any) -> Any:
    """The feature, after it learned from the pictures, if it does learn."""
    prepared = map(feature.prepare, _pictures())
    if needs_labels(feature):
        return feature.fit(zip(prepared, (["a"], ["b"], ["a", "c"], ["b"]), strict=True))
    return feature.fit(prepared) if needs_fit(feature) else feature
