"""Unsupervised coders: scikit-learn's estimator checks, and properties stated in their papers."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import load, registry, save
from lookalike.arrays import principal
from lookalike.codes import pq, signs, spherical
from lookalike.codes.bits import hamming, unpack
from lookalike.codes.hyperplanes import Itq, Lsh, PcaRR
from lookalike.codes.pq import Pq
from lookalike.codes.spherical import Spherical
from lookalike.codes.waves import Sklsh, Spectral
from lookalike.errors import InputError
from reference import codes as slow

CODERS = [Itq, Lsh, PcaRR, Pq, Sklsh, Spectral, Spherical]
SIGNS = [coder for coder in CODERS if coder is not Pq]
random = np.random.default_rng(3)
X = (random.normal(size=(400, 24)) * np.geomspace(4, 0.2, 24) + 1).astype(np.float32)


@parametrize_with_checks([coder(bits=16) for coder in CODERS])
def test_they_are_scikit_learn_estimators(estimator, check):
    check(estimator)


@pytest.mark.parametrize("coder", SIGNS)
def test_bits_are_the_signs_of_the_projection(coder):
    fitted = coder(bits=32).fit(X)
    np.testing.assert_array_equal(unpack(fitted.encode(X)), fitted.project(X) > 0)


@pytest.mark.parametrize("coder", SIGNS)
def test_a_row_has_the_same_code_in_any_batch(coder, monkeypatch):
    """Includes the mean, whose projections are only rounding errors."""
    fitted = coder(bits=64).fit(X)
    rows = np.concatenate([X[:40], np.repeat(X.mean(axis=0, keepdims=True), 9, axis=0), np.zeros((2, 24), np.float32)])
    codes = fitted.encode(rows)
    alone = np.concatenate([fitted.encode(rows[i : i + 1]) for i in range(len(rows))])
    monkeypatch.setattr(signs, "PART_BYTES", 4_000)
    np.testing.assert_array_equal(codes, alone)
    np.testing.assert_array_equal(codes, fitted.encode(rows))


@pytest.mark.parametrize("coder", SIGNS)
def test_rows_too_large_for_float32_have_the_codes_of_their_direction(coder):
    fitted = coder(bits=16).fit(X)
    long = np.full((1, 24), 3e38, np.float32)
    assert fitted.encode(long).shape == (1, 2)
    assert np.isfinite(fitted.project(long)).all()


@pytest.mark.parametrize("coder", SIGNS)
def test_margins_weigh_the_bits_of_a_query(coder):
    fitted = coder(bits=16).fit(X)
    codes = fitted.encode(X)
    scores = fitted.query(X[:2], weighted=True).score(codes)
    margins = np.abs(fitted.project(X[:2]))
    expected = [[slow.hamming(codes[i], code, margins[i]) for code in codes] for i in range(2)]
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("coder", [PcaRR, Itq])
def test_principal_coders_rotate_the_principal_components(coder):
    fitted = coder(bits=16).fit(X)
    mean, components, _ = principal(X, 16)
    np.testing.assert_allclose(fitted.W_ @ fitted.W_.T, np.eye(16), atol=1e-5)
    np.testing.assert_allclose(fitted.W_ @ components.T @ components, fitted.W_, atol=1e-5)
    np.testing.assert_allclose(fitted.project(mean[None].astype(np.float32)), 0, atol=1e-4)


@pytest.mark.parametrize("coder", [PcaRR, Itq])
def test_more_bits_than_directions_are_spread_over_all_directions(coder):
    fitted = coder(bits=64).fit(X)
    np.testing.assert_allclose(fitted.W_.T @ fitted.W_, np.eye(24), atol=1e-5)
    assert (np.linalg.norm(fitted.W_, axis=1) > 0.1).all()


@given(st.integers(0, 20), st.sampled_from([8, 16, 32]))
@settings(max_examples=10)
def test_itq_lowers_its_loss_in_every_iteration(seed, bits):
    losses = Itq(bits=bits, random_state=seed, iterations=12).fit(X).losses_
    assert (np.diff(losses) <= 1e-6 * losses[0]).all()
    assert losses[-1] < losses[0]


def test_itq_recovers_a_rotated_cube():
    signs_of = random.choice([-1.0, 1.0], size=(600, 8))
    turn = np.linalg.qr(random.normal(size=(8, 8)))[0]
    rows = signs_of @ turn + random.normal(size=(600, 8)) * 0.01
    codes = Itq(bits=8, iterations=100, random_state=1).fit(rows).encode(rows)
    same = (signs_of[:, None] == signs_of).all(axis=2)
    np.testing.assert_array_equal(hamming(codes, codes) == 0, same)


def test_the_share_of_different_lsh_bits_is_the_angle():
    rows = random.normal(size=(30, 24)).astype(np.float32)
    coder = Lsh(bits=8_000, centre=False).fit(rows)
    codes = coder.encode(rows)
    unit = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    angles = np.arccos(np.clip(unit @ unit.T, -1, 1)) / np.pi
    np.testing.assert_allclose(hamming(codes, codes) / 8_000, angles, atol=0.03)


@pytest.mark.parametrize("coder", [Lsh, Sklsh])
def test_random_codes_are_nested(coder):
    long, short = (coder(bits=bits).fit(X).encode(X) for bits in (64, 16))
    np.testing.assert_array_equal(long[:, :2], short)


def test_lsh_hyperplanes_contain_the_mean_or_the_origin():
    positive = np.abs(X) + 5
    through_mean, through_origin = (
        unpack(Lsh(256, 0, centre).fit(positive).encode(positive)) for centre in (True, False)
    )
    assert (np.abs(through_mean.mean(axis=0) - 0.5) < 0.2).mean() > 0.9
    assert (np.abs(through_origin.mean(axis=0) - 0.5) < 0.2).mean() < 0.5
    assert not Lsh(centre=False).fit(positive).b_.any()


def test_sklsh_bits_depend_only_on_the_kernel():
    """Eq. 6: the mean share of different bits is 8/π² Σ (1 − K(m·)) / (4m² − 1) for a Gaussian K."""
    rows = random.normal(size=(20, 6)).astype(np.float32)
    coder = Sklsh(bits=20_000, gamma=0.3).fit(rows)
    codes = coder.encode(rows)
    squares = np.square(rows[:, None] - rows).sum(axis=2)
    m = np.arange(1, 200)[:, None, None]
    expected = 8 / np.pi**2 * ((1 - np.exp(-0.3 * m**2 * squares / 2)) / (4 * m**2 - 1)).sum(axis=0)
    np.testing.assert_allclose(hamming(codes, codes) / 20_000, expected, atol=0.03)


def test_sklsh_derives_its_scale_from_the_rows():
    assert Sklsh(16).fit(X).gamma_ == pytest.approx(1 / np.square(X - X.mean(axis=0)).sum(axis=1).mean(), rel=1e-5)
    np.testing.assert_array_equal(Sklsh(64).fit(X).encode(X), Sklsh(64).fit(4 * X).encode(4 * X))
    with pytest.raises(InputError, match="gamma must be"):
        Sklsh(gamma=0.0).fit(X)


def test_spectral_chooses_the_lowest_frequencies():
    box = random.uniform(size=(3_000, 3)) * [9, 3, 1]
    fitted = Spectral(bits=8).fit(box)
    frequencies = np.linalg.norm(fitted.W_, axis=1) / np.pi
    possible = sorted([k / 9 for k in range(1, 9)] + [k / 3 for k in range(1, 9)] + list(range(1, 9)))
    np.testing.assert_allclose(frequencies, possible[:8], rtol=0.02)
    first = unpack(fitted.encode(box))[:, 0]
    assert abs(first.mean() - 0.5) < 0.05
    assert len(np.unique(first[box[:, 0] < 4])) == 1


def test_pairs_of_spherical_balls_share_a_quarter_of_the_rows(monkeypatch):
    rows = random.normal(size=(2_000, 24)).astype(np.float32) * 3 + 7
    inside = unpack(Spherical(bits=32).fit(rows).encode(rows)).astype(float)
    np.testing.assert_allclose(inside.mean(axis=0), 0.5, atol=0.01)
    shared = (inside.T @ inside / len(rows))[np.triu_indices(32, 1)] * 4
    assert np.abs(shared - 1).mean() <= spherical.OVERLAP + 0.01
    one = Spherical(bits=32, iterations=1).fit(rows)
    before = unpack(one.encode(rows)).astype(float)
    assert np.abs((before.T @ before / len(rows))[np.triu_indices(32, 1)] * 4 - 1).mean() > spherical.OVERLAP


def test_pq_distances_use_the_nearest_centroids():
    coder = Pq(bits=32).fit(X)
    codes, whole = coder.encode(X), np.pad(X, ((0, 0), (0, 0)))
    rebuilt = np.concatenate([coder.centroids_[part, codes[:, part]] for part in range(4)], axis=1)[:, :24]
    for part in range(4):
        columns = slice(6 * part, 6 * part + 6)
        away = np.square(whole[:, None, columns] - coder.centroids_[part]).sum(axis=2)
        np.testing.assert_array_equal(codes[:, part], away.argmin(axis=1))
    expected = np.square(X[:5, None] - rebuilt).sum(axis=2)
    np.testing.assert_allclose(coder.query(X[:5]).score(codes), expected, rtol=1e-4, atol=1e-4)


def test_pq_pads_rows_with_zeros():
    codes = Pq(bits=80).fit(X).encode(X)  # 24 columns in 10 parts: 8 with three columns, two with zeros
    assert codes.shape == (400, 10)
    assert not codes[:, 8:].any()


@pytest.mark.parametrize("n", [100, 400, 3_000])  # fewer rows than centroids; a few for each; more than are used
def test_pq_of_torch_rows_has_the_error_of_numpy_rows(n, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setattr(pq, "ROWS_PER_CENTRE", 8)
    rows = (random.normal(size=(n, 24)) * np.geomspace(4, 0.2, 24) + 1).astype(np.float32)
    ours, theirs = (Pq(bits=80).fit(kind(rows)) for kind in (torch.from_numpy, np.asarray))
    errors = []
    for coder in (ours, theirs):
        codes = coder.encode(rows)
        rebuilt = np.concatenate([coder.centroids_[part, codes[:, part]] for part in range(10)], axis=1)[:, :24]
        errors.append(np.square(rows - rebuilt).sum())
    assert errors[0] == pytest.approx(errors[1], rel=0.01)
    assert ours.centroids_.tobytes() == Pq(bits=80).fit(torch.from_numpy(rows)).centroids_.tobytes()
    assert not ours.centroids_[8:].any()  # 24 columns in 10 parts: two without columns
    with pytest.raises(InputError, match="NaN"):
        Pq(bits=80).fit(torch.full((2, 24), np.nan))


@pytest.mark.parametrize("coder", [Itq, Spherical])
@pytest.mark.parametrize("iterations", [0, 2.5])
def test_iterations_must_be_a_positive_integer(coder, iterations):
    with pytest.raises(InputError, match="iterations must be"):
        coder(iterations=iterations).fit(X)


def test_a_coder_can_be_fitted_on_a_sample(monkeypatch):
    monkeypatch.setattr("lookalike.codes.hyperplanes.draw_rows", lambda X, random: signs.draw_rows(X, random, 100))
    whole, part = Itq(bits=16, iterations=5), Itq(bits=16, iterations=5)
    assert part.fit(X).encode(X).shape == (400, 2)
    monkeypatch.undo()
    assert (part.encode(X) != whole.fit(X).encode(X)).any()


def test_every_unsupervised_coder_is_registered():
    assert {registry.component("coder", name) for name in registry.names("coder")} >= set(CODERS)


@pytest.mark.parametrize("coder", CODERS)
def test_a_saved_coder_gives_the_same_codes(coder, tmp_path):
    fitted = coder(bits=16, random_state=5).fit(X)
    save(tmp_path / "coder.npz", fitted)
    (again,) = load(tmp_path / "coder.npz")
    assert again.get_params() == fitted.get_params()
    np.testing.assert_array_equal(again.encode(X), fitted.encode(X))


@pytest.mark.parametrize("coder", CODERS)
def test_equal_rows_have_equal_codes(coder):
    rows = np.full((50, 6), 3.0, np.float32)
    codes = coder(bits=16).fit(rows).encode(rows)
    assert len(np.unique(codes, axis=0)) == 1
