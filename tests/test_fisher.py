import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from lookalike import registry
from lookalike.errors import InputError, UnknownNameError
from lookalike.features import aggregate
from lookalike.features.clustering import Mixture
from lookalike.features.fisher import Fisher, Gradients
from lookalike.types import LearnedFeature, Patches
from patches import draw
from reference.aggregation import fisher, log_likelihood, root_and_unit

random = np.random.default_rng(2)
mixture = Mixture(random.dirichlet(np.ones(4)), random.normal(size=(4, 3)), random.gamma(2, size=(4, 3)))
X = random.normal(size=(40, 3)).astype(np.float32) * 2
places = random.random((40, 2)).astype(np.float32)
pictures = [draw(seed) for seed in range(8)]


@pytest.fixture(autouse=True)
def grid(monkeypatch):
    monkeypatch.setitem(registry.COMPONENTS, "local", {"grid": "patches:Grid"})


def make(**options):
    return Fisher(**{"local": ("grid()", "grid(dim=9, step=3)"), "k": 4, "patch_dim": 5, **options})


def prepare(feature, images=pictures):
    return [feature.prepare(image) for image in images]


def fitted(**options):
    feature = make(**options)
    return feature.fit(prepare(feature))


def test_the_vector_equals_the_gradient_of_the_log_likelihood_by_finite_differences():
    gradients = {"means": np.empty((4, 3)), "deviations": np.empty((4, 3))}
    step = 1e-5
    rows = X.astype(np.float64)
    for name, gradient in gradients.items():
        for place in np.ndindex(4, 3):
            values = []
            for sign in (1, -1):
                means, deviations = mixture.means.copy(), np.sqrt(mixture.variances)
                {"means": means, "deviations": deviations}[name][place] += sign * step
                values.append(log_likelihood(rows, mixture.weights, means, deviations**2))
            gradient[place] = (values[0] - values[1]) / (2 * step)
    # The diagonal Fisher information is w / σ² for a mean and 2w / σ² for a standard deviation.
    information = mixture.weights[:, None] / mixture.variances
    expected = [gradients["means"] / np.sqrt(information), gradients["deviations"] / np.sqrt(2 * information)]
    got = Gradients(mixture).compute(X, places, ((1, 1),))
    np.testing.assert_allclose(got[0], np.ravel(expected), atol=1e-4)


def test_the_vector_of_each_cell_equals_a_loop_over_its_rows(monkeypatch):
    got = Gradients(mixture).compute(X, places, ((1, 1), (2, 1)))
    left = places[:, 0] < 0.5
    for row, rows in zip(got, (X, X[left], X[~left]), strict=True):
        np.testing.assert_allclose(row, fisher(rows, *mixture), atol=1e-5)
    monkeypatch.setattr("lookalike.features.clustering.CACHE_BYTES", 500)
    np.testing.assert_allclose(Gradients(mixture).compute(X, places, ((1, 1), (2, 1))), got, atol=1e-6)


def test_vectors_of_patches_sampled_from_the_mixture_have_unit_variance():
    # This is the purpose of dividing by the Fisher information.
    apart = Mixture(np.array([0.3, 0.7]), np.array([[0.0, 0.0], [60.0, 60.0]]), np.array([[1.0, 4.0], [9.0, 1.0]]))
    which = random.choice(2, 8_000, p=apart.weights)
    rows = apart.means[which] + random.normal(size=(8_000, 2)) * np.sqrt(apart.variances[which])
    gradients, here = Gradients(apart), np.full((1, 2), 0.5, np.float32)
    vectors = np.concatenate([gradients.compute(row[None].astype(np.float32), here, ((1, 1),)) for row in rows])
    np.testing.assert_allclose(vectors.var(axis=0), 1, atol=0.15)


def test_a_vector_has_the_square_roots_of_both_channels_each_normalised():
    feature = fitted()
    row = feature.extract(pictures[:1])[0]
    expected, first = [], 0
    for channel, local in enumerate(feature._locals):
        patches = local.describe([local.prepare(pictures[0])])[0].X.astype(np.float64)
        last = first + local.dim
        reduced = (patches - feature.centers_[first:last]) @ feature.components_[:, first:last].T
        parts = (feature.weights_[channel], feature.means_[channel], feature.variances_[channel])
        expected.append(root_and_unit(fisher(reduced, *parts)))
        first = last
    np.testing.assert_allclose(row, np.concatenate(expected) / np.sqrt(2), atol=1e-4)


@pytest.mark.parametrize(("pyramid", "cells"), [("1x1", 1), ("1x1,2x2", 5), ("1x1,3x1", 4)])
def test_vectors_have_unit_length_and_the_dimension_known_before_the_fit(pyramid, cells):
    feature = make(pyramid=pyramid)
    assert isinstance(feature, LearnedFeature)
    assert feature.dim == 2 * 4 * 5 * 2 * cells
    assert feature.side == 16
    assert feature.describe([]).shape == (0, feature.dim)
    rows = feature.fit(prepare(feature)).extract(pictures)
    assert rows.shape == (8, feature.dim)
    assert rows.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-5)


def test_dimensions_match_the_papers():
    assert Fisher(("grid()", "grid()")).dim == 4_096
    assert Fisher(("grid()", "grid()"), k=256).dim == 65_536
    assert Fisher("grid()", k=256).dim == 32_768


def test_empty_cells_are_zero_one_patch_is_enough_and_channels_have_equal_weight():
    feature = fitted(pyramid="1x1,2x1")
    left, both = np.array([[0.2, 0.2]], np.float32), np.array([[0.2, 0.2], [0.8, 0.2]], np.float32)
    channels = [Patches(random.normal(size=(len(at), d)).astype(np.float32), at) for at, d in ((left, 12), (both, 9))]
    row = feature._ready()(channels).reshape(2, 3, -1)  # channels, cells
    np.testing.assert_array_equal(row[0, 1], row[0, 0])
    lengths = np.linalg.norm(row, axis=2)
    np.testing.assert_allclose(lengths, [[0.5, 0.5, 0.0], [6**-0.5] * 3], rtol=1e-5)


@pytest.mark.parametrize("shape", [(1, 1), (50, 80), (10, 4000), (4000, 10)])
def test_pictures_of_unusual_shapes_give_finite_vectors(shape):
    rows = fitted().extract([np.full((*shape, 3), 200, np.uint8), np.zeros((*shape, 3), np.uint8)])
    assert np.isfinite(rows).all()


def test_a_batch_gives_the_same_vectors_as_single_pictures(monkeypatch):
    feature = fitted()
    rows = feature.extract(pictures)
    np.testing.assert_array_equal(np.concatenate([feature.extract([image]) for image in pictures]), rows)
    monkeypatch.setattr(aggregate, "PICTURES", 3)
    np.testing.assert_array_equal(feature.extract(pictures), rows)


def test_regions_use_the_patches_inside_and_the_full_box_uses_all():
    feature = fitted()
    rows = feature.regions(pictures[0], [(0, 0, 1, 1), (0, 0, 0.5, 1), (0.5, 0.5, 0.501, 0.501)])
    np.testing.assert_array_equal(rows[0], feature.extract(pictures[:1])[0])
    np.testing.assert_allclose(rows[1], feature.extract([pictures[0][:, :40]])[0], atol=0.1)  # the grid's edge differs
    assert np.isfinite(rows[2]).all()
    assert len(np.unique(rows, axis=0)) == 3
    assert feature.regions(pictures[0], []).shape == (0, feature.dim)
    with pytest.raises(InputError, match="A box must be"):
        feature.regions(pictures[0], [(0, 0, 2, 1)])


def test_the_same_stream_and_seed_give_the_same_bytes_and_another_seed_does_not():
    first, second, other = (registry.state_of(fitted(random_state=seed)) for seed in (1, 1, 2))
    assert all(value.tobytes() == second[name].tobytes() for name, value in first.items())
    assert first["means_"].tobytes() != other["means_"].tobytes()


def test_a_second_fit_replaces_the_first():
    feature = fitted()
    feature.extract(pictures)
    feature.fit(prepare(feature, pictures[:1]))
    again = make()
    again.fit(prepare(again, pictures[:1]))
    assert feature.extract(pictures).tobytes() == again.extract(pictures).tobytes()


def test_spec_and_learned_arrays_restore_the_feature():
    feature = fitted(pyramid="1x1,2x2")
    again = registry.restore("feature", registry.spec_of(feature), registry.state_of(feature))
    expected = feature.extract(pictures)
    for twin in (again, pickle.loads(pickle.dumps(feature)), copy.deepcopy(feature)):
        assert twin.extract(pictures).tobytes() == expected.tobytes()


def test_threads_can_extract_features_concurrently():
    feature = fitted()
    with ThreadPoolExecutor(4) as pool:
        rows = list(pool.map(lambda image: feature.extract([image])[0], pictures * 3))
    np.testing.assert_array_equal(rows, np.tile(feature.extract(pictures), (3, 1)))


def test_with_little_memory_it_learns_from_a_sample_of_the_patches(monkeypatch):
    made = []

    class Spy(aggregate.Reservoir):
        def __init__(self, *args):
            super().__init__(*args)
            made.append(self)

    monkeypatch.setattr(aggregate, "Reservoir", Spy)
    feature = make()
    feature.fit(prepare(feature), max_bytes=20_000)
    assert [reservoir.seen for reservoir in made] == [8 * 16 * 20, 8 * 22 * 27]
    assert [len(reservoir.rows) for reservoir in made] == [20_000 // (4 * (12 + 5 + 9 + 5))] * 2
    assert np.isfinite(feature.extract(pictures)).all()
    other = make(random_state=1)
    assert other.fit(prepare(other), max_bytes=20_000).centers_.tobytes() != feature.centers_.tobytes()
    assert feature.fit(prepare(feature)).centers_.tobytes() == other.fit(prepare(other)).centers_.tobytes()


def test_it_must_be_fitted_first():
    with pytest.raises(InputError, match=r"Fisher is not fitted yet. Call fit with pictures first."):
        make().extract(pictures[:1])
    with pytest.raises(InputError, match=r"Fisher is not fitted yet"):
        make().regions(pictures[0], [(0, 0, 1, 1)])


def test_too_few_patches_too_few_bytes_and_too_many_dimensions_are_refused():
    feature = make(k=50)
    with pytest.raises(InputError, match=r"Fisher with k=50 and patch_dim=5 needs at least 50 .* Got 1."):
        feature.fit(prepare(feature, [np.zeros((1, 1, 3), np.uint8)]))
    with pytest.raises(InputError, match="needs memory for 50 patches, which is more than 1000 bytes"):
        feature.fit(prepare(feature), max_bytes=1_000)
    with pytest.raises(
        InputError, match=r"patch_dim must be at most 9, the dimensions of the shortest patch of .* Got 10."
    ):
        make(patch_dim=10).fit([])


@pytest.mark.parametrize(
    "options",
    [{"k": 0}, {"k": 1.5}, {"patch_dim": 0}, {"random_state": -1}, {"local": ()}, {"local": (3,)}, {"pyramid": "2"}],
)
def test_invalid_options_are_refused(options):
    with pytest.raises(InputError, match=f"{next(iter(options))} must be .* Got"):
        make(**options)


def test_an_unknown_local_is_refused_by_the_constructor():
    with pytest.raises(UnknownNameError, match=r"No local named 'grit'. Known: grid. Did you mean 'grid'"):
        make(local="grit()")


def test_without_a_pyramid_order_position_and_repetition_of_patches_do_not_matter():
    aggregate_patches = fitted()._ready()
    channels = [random.normal(size=(30, d)).astype(np.float32) for d in (12, 9)]
    row = aggregate_patches([Patches(rows, places[:30]) for rows in channels])
    twice = [Patches(np.concatenate([rows[::-1], rows]), np.tile(places[10:], (2, 1))) for rows in channels]
    np.testing.assert_allclose(aggregate_patches(twice), row, atol=1e-3)
