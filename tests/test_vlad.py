import copy
import pickle

import numpy as np
import pytest

from lookalike import registry
from lookalike.errors import InputError
from lookalike.features.vlad import Vlad
from lookalike.types import LearnedFeature, Patches
from patches import draw
from reference.aggregation import vlad

pictures = [draw(seed) for seed in range(8)]


@pytest.fixture(autouse=True)
def grid(monkeypatch):
    monkeypatch.setitem(registry.COMPONENTS, "local", {"grid": "patches:Grid"})


def fitted(**options):
    feature = Vlad(**{"local": "grid()", "k": 6, **options})
    return feature.fit([feature.prepare(image) for image in pictures])


def patches_of(feature, image):
    return feature._locals[0].describe([feature._locals[0].prepare(image)])[0]


def test_a_vector_equals_that_of_a_plain_loop():
    feature = fitted()
    for image in pictures[:2]:
        expected = vlad(patches_of(feature, image).X, feature.words_, feature.rotations_)
        np.testing.assert_allclose(feature.extract([image])[0], expected, atol=1e-4)


def test_a_vector_with_long_patches_and_cells_equals_that_of_a_plain_loop(monkeypatch):
    monkeypatch.setattr("lookalike.features.vlad.CACHE_BYTES", 1_000)
    feature = fitted(patch_dim=5, pyramid="1x1,2x1")
    assert feature.dim == 6 * 5 * 3
    X, places = patches_of(feature, pictures[0])
    X = (X - feature.center_) @ feature.components_.T
    left = places[:, 0] < 0.5
    cells = [vlad(rows, feature.words_, feature.rotations_) for rows in (X, X[left], X[~left])]
    np.testing.assert_allclose(feature.extract(pictures[:1])[0], np.concatenate(cells) / np.sqrt(3), atol=1e-4)


def test_short_patches_are_not_reduced():
    feature = fitted()
    assert feature.dim == 6 * 12
    assert sorted(registry.state_of(feature)) == ["rotations_", "words_"]


def test_the_axes_of_each_word_are_the_principal_axes_of_its_residuals():
    feature = fitted()
    X = np.concatenate([patches_of(feature, image).X for image in pictures])
    nearest = ((X[:, None] - feature.words_) ** 2).sum(axis=2).argmin(axis=1)
    for word, axes in enumerate(feature.rotations_):
        np.testing.assert_allclose(axes @ axes.T, np.eye(12), atol=1e-5)
        covariance = np.cov((X[nearest == word] - feature.words_[word]) @ axes.T, rowvar=False)
        np.testing.assert_allclose(covariance, np.diag(np.diag(covariance)), atol=1e-4 * covariance.max())
        assert (np.diff(np.diag(covariance)) <= 1e-6).all()


def test_words_with_few_patches_also_have_rotations():
    feature = Vlad("grid()", k=30)
    feature.fit([feature.prepare(image[:32, :32]) for image in pictures[:1]])  # 64 patches for 30 words
    for axes in feature.rotations_:
        np.testing.assert_allclose(axes @ axes.T, np.eye(12), atol=1e-5)


def test_patches_equal_to_a_word_have_no_effect():
    feature = fitted()
    on = np.repeat(feature.words_[:1], 500, axis=0)
    places = np.full((501, 2), 0.5, np.float32)
    beside = feature.words_[1:2] + 0.01
    row = feature._ready()([Patches(np.concatenate([on, beside]), places)]).reshape(6, 12)
    assert np.linalg.norm(row, axis=1).round(3).tolist() == [0, 1, 0, 0, 0, 0]


def test_vectors_have_unit_length_and_the_dimension_stated_before_the_fit():
    feature = Vlad("grid(dim=128)")
    assert isinstance(feature, LearnedFeature)
    assert feature.dim == 8_192
    assert feature.describe([]).shape == (0, 8_192)
    rows = fitted(pyramid="1x1,2x2").extract(pictures)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (50, 80), (10, 4000), (4000, 10)])
def test_pictures_of_unusual_shapes_give_finite_vectors(shape):
    rows = fitted().extract([np.full((*shape, 3), 200, np.uint8), np.zeros((*shape, 3), np.uint8)])
    assert np.isfinite(rows).all()


def test_a_box_of_the_full_picture_gives_the_same_vector():
    feature = fitted(pyramid="1x1,2x2")
    rows = feature.regions(pictures[0], [(0, 0, 1, 1), (0.2, 0.2, 0.7, 0.9)])
    np.testing.assert_array_equal(rows[0], feature.extract(pictures[:1])[0])
    assert np.abs(rows[0] - rows[1]).max() > 0.01


def test_only_the_same_stream_and_seed_give_the_same_bytes():
    first, second, other = (fitted(random_state=seed) for seed in (1, 1, 2))
    assert first.words_.tobytes() == second.words_.tobytes() != other.words_.tobytes()
    assert first.rotations_.tobytes() == second.rotations_.tobytes()
    again = registry.restore("feature", registry.spec_of(first), registry.state_of(first))
    for twin in (second, again, pickle.loads(pickle.dumps(first)), copy.deepcopy(first)):
        assert twin.extract(pictures).tobytes() == first.extract(pictures).tobytes()


def test_it_must_be_fitted_before_use_and_on_enough_patches():
    with pytest.raises(InputError, match=r"Vlad is not fitted yet. Call fit with pictures first."):
        Vlad("grid()").extract(pictures[:1])
    feature = Vlad("grid()")
    with pytest.raises(InputError, match=r"Vlad with k=64 needs at least 64 .* Got 1."):
        feature.fit([feature.prepare(np.zeros((1, 1, 3), np.uint8))])


def test_progress_is_reported_until_the_end():
    told = []
    feature = Vlad("grid()", k=3)
    feature.fit([feature.prepare(image) for image in pictures], progress=lambda *call: told.append(call))
    assert told[-1] == ("fitting the vocabulary", 3, 3)


def test_several_local_features_are_rejected():
    with pytest.raises(
        InputError, match=r"local must be the spec of a local descriptor, such as 'sift\(\)'. Got \('grid"
    ):
        Vlad(("grid()", "grid()"))


def test_order_and_place_of_patches_do_not_matter_without_a_pyramid():
    feature = fitted()
    X, places = patches_of(feature, pictures[0])
    got = feature._ready()([Patches(X[::-1], places)])
    np.testing.assert_allclose(got, feature.extract(pictures[:1])[0], atol=1e-3)
