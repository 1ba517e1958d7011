"""The map: it is bounded, reproducible and cached, and places similar pictures together."""

import numpy as np
import pytest

from lookalike import Collection
from lookalike.collection import overview
from lookalike.collection.overview import POINTS, lay_out
from lookalike.errors import InputError, UnknownNameError


@pytest.fixture(scope="module")
def collection(pictures, tmp_path_factory):
    with Collection(tmp_path_factory.mktemp("map") / "c", create=True) as made:
        made.add(pictures, recipes=["color"], workers=1)
        yield made


def test_rows_of_a_cluster_lie_together_and_the_layout_is_reproducible():
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(5), 30)
    X = (10 * rng.normal(size=(5, 40))[y] + rng.normal(size=(150, 40))).astype(np.float32)
    places = lay_out(X)
    assert places.shape == (150, 2)
    assert places.dtype == np.float32
    assert (places.min(axis=0) == 0).all()
    assert (places.max(axis=0) == 1).all()
    D = ((places[:, None] - places[None]) ** 2).sum(axis=2) + np.eye(150)
    assert (y[D.argmin(axis=1)] == y).mean() > 0.97
    np.testing.assert_array_equal(places, lay_out(X))


@pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 10])
@pytest.mark.parametrize("d", [1, 2, 50])
def test_few_or_equal_rows_have_valid_places(n, d):
    for X in (np.ones((n, d), np.float32), np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)):
        places = lay_out(X)
        assert places.shape == (n, 2)
        assert ((places >= 0) & (places <= 1)).all()


def test_a_map_has_the_requested_number_of_points_and_is_cached(collection, monkeypatch):
    drawn = collection.map(points=10)
    assert len(drawn.ids) == len(drawn.x) == len(drawn.y) == 10
    assert drawn.total == len(collection)
    assert set(drawn.ids.tolist()) <= {item.id for item in collection.items()}
    monkeypatch.setattr(overview, "lay_out", lambda _: pytest.fail("drawn again"))
    again = collection.map("color", points=10)
    np.testing.assert_array_equal(again.ids, drawn.ids)
    np.testing.assert_allclose(again.x, drawn.x, atol=1e-5)
    assert collection.known_map(points=11) is None


def test_a_map_is_redrawn_when_its_pictures_change(collection, tmp_path):
    drawn = collection.map(points=12)
    collection.remove(int(drawn.ids[0]))
    known, current = collection.known_map(points=12)
    assert not current
    np.testing.assert_array_equal(known.ids, drawn.ids)
    assert drawn.ids[0] not in collection.map(points=12).ids
    assert collection.known_map(points=12)[1]


def test_invalid_maps_are_rejected(collection, tmp_path):
    for points in (0, -1, 2.5, POINTS + 1):
        with pytest.raises(InputError, match="points"):
            collection.map(points=points)
    with pytest.raises(UnknownNameError):
        collection.map("nothing")
    with Collection(tmp_path / "c", create=True) as empty, pytest.raises(InputError, match="empty"):
        empty.map()
