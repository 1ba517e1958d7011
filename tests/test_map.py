"""The map: it is bounded, reproducible and cached, and places similar pictures together."""

import numpy as np
import pytest

from lookalike import Collection
from lookalike.collection.picture_map import POINTS, PREDICTED
from lookalike.errors import InputError, UnknownNameError
from lookalike.index import layout
from lookalike.index.layout import lay_out, place


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
    monkeypatch.setattr(layout, "lay_out", lambda *_: pytest.fail("drawn again"))
    again = collection.map("color", points=10)
    np.testing.assert_array_equal(again.ids, drawn.ids)
    np.testing.assert_allclose(again.x, drawn.x, atol=1e-5)
    assert collection.known_map(points=11) is None


def test_progress_moves_while_a_map_is_drawn():
    seen = []
    lay_out(np.random.default_rng(0).normal(size=(40, 5)).astype(np.float32), lambda *step: seen.append(step))
    assert [stage for stage, done, _ in seen if done == 0] == ["finding neighbours", "drawing a map"]
    shares = [done / total for stage, done, total in seen if stage == "drawing a map"]
    assert shares == sorted(shares)
    assert len(set(shares)) > 100


def test_new_rows_are_placed_next_to_their_nearest_neighbours():
    rng = np.random.default_rng(0)
    centres = 10 * rng.normal(size=(5, 40))
    y = np.repeat(np.arange(5), 30)
    X = (centres[y] + rng.normal(size=(150, 40))).astype(np.float32)
    places = lay_out(X)
    placed = place((centres + rng.normal(size=(5, 40))).astype(np.float32), X, places)
    nearest = ((placed[:, None] - places[None]) ** 2).sum(axis=2).argmin(axis=1)
    assert y[nearest].tolist() == [0, 1, 2, 3, 4]
    np.testing.assert_allclose(place(X[:9], X, places), places[:9], atol=0.05)


def test_removed_pictures_leave_the_map_without_a_new_drawing(collection, monkeypatch):
    drawn = collection.map()
    collection.remove(int(drawn.ids[0]))
    monkeypatch.setattr(layout, "lay_out", lambda *_: pytest.fail("drawn again"))
    known, current = collection.known_map()
    assert current
    np.testing.assert_array_equal(known.ids, drawn.ids[1:])
    np.testing.assert_array_equal(known.x, drawn.x[1:])


def test_new_pictures_are_placed_and_the_others_stay(pictures, tmp_path, monkeypatch):
    kinds = sorted(path for path in pictures.iterdir() if path.is_dir())
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(*kinds[:-1], recipes=["color"], workers=1)
        before = collection.map()
        collection.add(kinds[-1], workers=1)
        known, current = collection.known_map()
        assert (len(known.ids), current) == (len(before.ids), False)
        with monkeypatch.context() as patch:
            patch.setattr(layout, "lay_out", lambda *_: pytest.fail("drawn again"))
            after = collection.map()
        assert len(after.ids) == after.total == len(collection)
        stayed = np.isin(after.ids, before.ids)
        np.testing.assert_array_equal(after.ids[stayed], before.ids)
        np.testing.assert_array_equal(np.c_[after.x, after.y][stayed], np.c_[before.x, before.y])
        assert collection.known_map()[1]


def test_a_map_with_many_new_pictures_or_of_another_fit_is_drawn_again(pictures, tmp_path):
    kinds = sorted(path for path in pictures.iterdir() if path.is_dir())
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(kinds[0], recipes=["plain = color() | pca(dim=3)"], workers=1)
        collection.map()
        collection.add(*kinds[1:], workers=1)
        stages = set()
        collection.map(progress=lambda stage, *_: stages.add(stage))
        assert "drawing a map" in stages
        collection.fit()
        assert not collection.known_map()[1]


def test_the_class_of_a_point_is_its_label_or_else_its_prediction(collection):
    drawn = collection.map()
    ids = drawn.ids.tolist()
    assert not collection.point_classes(drawn).codes.any()
    collection.classes.add("few", ids[:2])
    collection.classes.add("many", ids[2:6])
    found = collection.point_classes(drawn)
    assert found.names == ["many", "few"]
    assert found.codes[:7].tolist() == [2, 2, 1, 1, 1, 1, 0]
    collection.classes.predict()
    predicted = collection.predictions(ids)
    codes = dict(zip(ids, collection.point_classes(drawn).codes.tolist(), strict=True))
    names = collection.point_classes(drawn).names
    assert {item: names[code - PREDICTED - 1] for item, code in codes.items() if code >= PREDICTED} == {
        item: one.label for item, one in predicted.items()
    }


def test_invalid_maps_are_rejected(collection, tmp_path):
    for points in (0, -1, 2.5, POINTS + 1):
        with pytest.raises(InputError, match="points"):
            collection.map(points=points)
    with pytest.raises(UnknownNameError):
        collection.map("nothing")
    with Collection(tmp_path / "c", create=True) as empty, pytest.raises(InputError, match="empty"):
        empty.map()
