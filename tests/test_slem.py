import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import arrays as lookalike_arrays
from lookalike.encode import slem as module
from lookalike.encode.slem import Slem
from lookalike.errors import InputError
from reference.exemplar import discriminant, square_loss

random = np.random.default_rng(4)
MIX = random.normal(size=(12, 12)) * np.geomspace(1, 0.05, 12)
POOL = random.normal(size=(200, 12)) @ MIX + 2
ROWS = random.normal(size=(7, 12)) @ MIX + 2


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def assert_same_pool(got, expected, rtol=1e-10):
    """Check equality up to `rtol` of the largest entry, or of the variance of added and removed rows."""
    assert got.n_ == expected.n_
    for name in ("mean_", "covariance_", "inverse_"):
        ours, theirs = getattr(got, name), getattr(expected, name)
        loose = 100 * rtol if name == "inverse_" else rtol  # the inverse amplifies rounding errors
        np.testing.assert_allclose(ours, theirs, rtol=loose, atol=loose * max(1, np.abs(theirs).max()), err_msg=name)


@parametrize_with_checks([Slem()])
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("n", [1, 2, 8, 200])
@pytest.mark.parametrize("lam", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("theta", [1 / 200, 1.0, 30.0])
def test_weights_minimise_equation_1(n, lam, theta):
    omega, nu = Slem(lam).fit(POOL[:n]).weights(ROWS, theta)
    for i, row in enumerate(ROWS):
        expected, bias = square_loss(row, POOL[:n], lam, theta)
        np.testing.assert_allclose(omega[i], expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())
        np.testing.assert_allclose(nu[i], bias, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


def test_vectors_are_the_directions_of_the_weights_for_any_theta():
    slem = Slem(0.01).fit(POOL)
    for theta in (1e-3, 1.0, 1e3):
        np.testing.assert_allclose(slem.transform(ROWS), unit(slem.weights(ROWS, theta)[0]), atol=1e-7)
    np.testing.assert_allclose(slem.transform(ROWS.astype(np.float32)), slem.transform(ROWS), atol=1e-4)


def test_small_lam_equals_linear_discriminant_analysis():
    far, near = (
        np.abs(Slem(lam).fit(POOL).transform(ROWS) - unit(np.array([discriminant(x, POOL)[0] for x in ROWS]))).max()
        for lam in (1e-2, 1e-9)
    )
    assert near < 1e-5 < far
    omega, nu = Slem(0).fit(POOL).weights(ROWS)
    for i, row in enumerate(ROWS):
        direction, bias = discriminant(row, POOL)
        np.testing.assert_allclose(unit(omega[i : i + 1])[0], direction / np.linalg.norm(direction), atol=1e-9)
        scale = np.linalg.norm(omega[i]) / np.linalg.norm(direction)
        np.testing.assert_allclose(nu[i], scale * bias, rtol=1e-7)  # Eq. 7 up to the length, with θ = 1


def test_large_lam_only_centres():
    np.testing.assert_allclose(Slem(1e9).fit(POOL).transform(ROWS), unit(ROWS - POOL.mean(axis=0)), atol=1e-6)


def test_one_negative_gives_the_direction_away_from_it():
    slem = Slem(0.5).fit(POOL[:1])
    np.testing.assert_allclose(slem.transform(ROWS), unit(ROWS - POOL[0]), atol=1e-6)
    assert not slem.transform(POOL[:1]).any()  # the negative itself has no direction


@pytest.mark.parametrize(
    "pool", [POOL[:5], np.repeat(POOL[:3], 40, axis=0), np.column_stack([POOL[:, :11], np.ones(200)]), np.ones((9, 12))]
)
def test_a_pool_that_does_not_span_its_dimensions_needs_lam_above_zero(pool):
    with pytest.raises(
        InputError, match=r"lam must be larger: these negatives do not span all 12 dimensions .* Got 0; "
    ):
        Slem(0).fit(pool)
    np.testing.assert_allclose(np.linalg.norm(Slem().fit(pool).transform(ROWS), axis=1), 1, atol=1e-6)


def test_the_lam_suggested_by_the_error_works():
    with pytest.raises(InputError) as caught:
        Slem(0).fit(POOL[:5] * 1e4)
    Slem(float(str(caught.value).split("; ")[1].split(" ")[0])).fit(POOL[:5] * 1e4)


def test_small_lam_emphasises_dimensions_in_which_no_negative_varies():
    flat = POOL.copy()
    flat[:, 0] = 2
    row = flat[:1].copy()
    row[0, 0] = 3
    np.testing.assert_allclose(Slem(1e-8).fit(flat).transform(row), np.eye(12)[:1], atol=1e-4)


@pytest.mark.parametrize("lam", [-1e-9, np.nan, np.inf, "1", None])
def test_an_invalid_lam_is_rejected(lam):
    with pytest.raises(InputError, match=r"lam must be a finite number of at least 0. Got"):
        Slem(lam).fit(POOL)


def test_an_invalid_theta_is_rejected():
    with pytest.raises(InputError, match=r"theta must be a finite number above 0. Got 0."):
        Slem().fit(POOL).weights(ROWS, theta=0)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("verb", ["fit", "add", "remove", "transform", "weights"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_that_are_not_finite_are_rejected_and_change_nothing(verb, bad, dtype):
    rows = POOL[:50].astype(dtype)
    rows[17, 3] = bad
    slem = Slem().fit(POOL)
    with pytest.raises(InputError, match=r"X must be finite. Got NaN or infinity in 1 of 50 rows"):
        getattr(slem, verb)(rows)
    assert_same_pool(slem, Slem().fit(POOL), rtol=0)


@pytest.mark.parametrize("scale", [1e-25, 1e-12, 1e12, 1e25])
def test_rows_of_any_scale_have_length_one(scale):
    rows = (ROWS * scale).astype(np.float32)
    Y = Slem(1e-3 * scale**2).fit((POOL * scale).astype(np.float32)).transform(rows)
    np.testing.assert_allclose(Y, Slem(1e-3).fit(POOL).transform(ROWS), atol=1e-3)


def test_a_large_mean_does_not_lose_precision():
    offset = np.full(12, 1000.0)
    expected = Slem(0.01).fit(POOL).transform(ROWS)
    shifted = Slem(0.01).fit((POOL + offset).astype(np.float32)).transform((ROWS + offset).astype(np.float32))
    np.testing.assert_allclose(shifted, expected, atol=0.02)  # most of it is rounding of the input
    np.testing.assert_allclose(Slem(0.01).fit(POOL + offset).transform(ROWS + offset), expected, atol=1e-6)


def test_it_must_be_fitted_before_use():
    for verb in ("add", "remove", "transform", "weights"):
        with pytest.raises(NotFittedError):
            getattr(Slem(), verb)(POOL)
    with pytest.raises(NotFittedError):
        Slem().pushes(ROWS, POOL)


@settings(max_examples=40)
@given(st.lists(st.integers(-40, 40), min_size=1, max_size=8), st.sampled_from([1e-3, 0.1]), st.integers(1, 60))
def test_any_order_of_adds_and_removes_equals_a_fresh_fit(changes, lam, start):
    pool = POOL[:start]
    slem = Slem(lam).fit(pool)
    for at, change in enumerate(changes):
        if change >= 0:
            rows = POOL[(np.arange(change) * 7 + at) % 200]
            pool = np.concatenate([pool, rows])
            slem.add(rows)
        else:
            order = np.random.default_rng(at).permutation(len(pool))
            gone = min(-change, len(pool) - 1)
            slem.remove(pool[order[:gone]])
            pool = pool[order[gone:]]
    assert_same_pool(slem, Slem(lam).fit(pool))


def test_more_rows_than_the_pool_has_cannot_be_removed():
    slem = Slem().fit(POOL[:10])
    for rows in (POOL[:10], POOL[:11]):
        with pytest.raises(
            InputError, match=rf"leave at least 1 of the 10 negatives .* Got {len(rows)} rows to remove"
        ):
            slem.remove(rows)
    assert_same_pool(slem, Slem().fit(POOL[:10]), rtol=0)


def test_rows_that_were_never_in_the_pool_cannot_be_removed():
    slem = Slem().fit(POOL[:50])
    with pytest.raises(InputError, match="X must contain only rows of the pool"):
        slem.remove(POOL[:5] + 100)
    assert_same_pool(slem, Slem().fit(POOL[:50]), rtol=0)


def test_adding_or_removing_no_rows_does_not_change_the_pool():
    slem = Slem().fit(POOL)
    assert_same_pool(slem.add(POOL[:0]).remove(POOL[:0]), Slem().fit(POOL), rtol=0)
    assert slem.transform(POOL[:0]).shape == (0, 12)


def test_the_number_of_chunks_does_not_change_the_results(monkeypatch):
    whole = Slem().fit(POOL)
    Y = whole.transform(ROWS)
    monkeypatch.setattr(lookalike_arrays.chunks, "__defaults__", (1000,))
    monkeypatch.setattr(module, "ROWS_BYTES", 100)
    pieces = Slem().fit(POOL)
    assert_same_pool(pieces, whole)
    np.testing.assert_allclose(pieces.transform(ROWS), Y, atol=1e-6)


def test_a_memory_mapped_half_precision_pool_is_never_copied_whole(tmp_path, monkeypatch):
    np.save(tmp_path / "x.npy", np.tile(POOL, (500, 5)).astype(np.float16))  # 100,000 × 60
    rows = np.load(tmp_path / "x.npy", mmap_mode="r")
    monkeypatch.setattr(lookalike_arrays.chunks, "__defaults__", (2**20,))
    tracemalloc.start()
    Slem().fit(rows)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < rows.nbytes / 2


def test_torch_input_gives_torch_output_with_the_same_values():
    torch = pytest.importorskip("torch")
    fresh = Slem(0.01).fit(POOL)
    slem = Slem(0.01).fit(torch.from_numpy(POOL[:90])).add(torch.from_numpy(POOL)).remove(torch.from_numpy(POOL[:90]))
    assert_same_pool(slem, fresh)
    for tensor in (torch.from_numpy(ROWS), torch.from_numpy(ROWS).float(), torch.from_numpy(ROWS).bfloat16()):
        got = slem.transform(tensor)
        assert got.dtype == torch.float32
        tolerance = 0.2 if tensor.dtype == torch.bfloat16 else 1e-4
        np.testing.assert_allclose(got.numpy(), fresh.transform(ROWS), atol=tolerance)
    for ours, theirs in zip(slem.weights(torch.from_numpy(ROWS)), fresh.weights(ROWS), strict=True):
        np.testing.assert_allclose(ours.numpy(), theirs, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(slem.pushes(torch.from_numpy(ROWS), POOL), fresh.pushes(ROWS, POOL), rtol=1e-6)
    with pytest.raises(InputError, match="lam must be larger"):
        Slem(0).fit(torch.ones(5, 3, dtype=torch.float64))


def test_pushes_add_up_to_the_direction():
    slem = Slem(0.05).fit(POOL)
    pushes = slem.pushes(ROWS, POOL)
    np.testing.assert_allclose(pushes.mean(axis=1), 1)
    centred = POOL - POOL.mean(axis=0)
    omega, nu = slem.weights(ROWS)
    for i, row in enumerate(ROWS):
        direction = row - slem.mean_ - pushes[i] @ centred / 200
        np.testing.assert_allclose(unit(direction[None])[0], slem.transform(ROWS)[i], atol=1e-6)
        residuals = 1 + POOL @ omega[i] + nu[i]
        np.testing.assert_allclose(pushes[i] / pushes[i, 0], residuals / residuals[0], atol=1e-8)


def test_the_most_similar_negative_pushes_a_row_most():
    pool = np.concatenate([POOL, ROWS[:1] + 0.01])
    assert Slem(0.05).fit(pool).pushes(ROWS[:1], pool).argmax() == 200


def test_the_size_of_the_model_does_not_depend_on_the_pool():
    small, large = (Slem().fit(random.normal(size=(n, 64)).astype(np.float32)) for n in (100, 10_000))
    assert {name: np.shape(value) for name, value in vars(small).items()} == {
        name: np.shape(value) for name, value in vars(large).items()
    }


@pytest.mark.parametrize("n", [3, 40])
def test_a_row_of_the_pool_is_not_pushed_away_from_itself(n):
    """If the row itself is among the negatives, its ω keeps its direction and λ is scaled by (n + 1) / n."""
    random = np.random.default_rng(n)
    pool, x = random.normal(size=(n, 6)), random.normal(size=(1, 6))
    inside = Slem(lam=0.1).fit(np.vstack([pool, x])).transform(x)
    outside = Slem(lam=0.1 * (n + 1) / n).fit(pool).transform(x)
    np.testing.assert_allclose(inside, outside, atol=1e-6)
