import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from lookalike.encode.calibration import SIGNIFICANT, calibrate, calibrate_labels
from lookalike.encode.slem import Slem
from lookalike.encode.whiten import L2, PCA
from lookalike.errors import InputError
from reference.calibration import average_precision, margin

random = np.random.default_rng(2)
SCALES = np.array([5.0] * 4 + [0.5] * 12)
"""The first columns vary most and carry the least information about the picture."""
POOL, PICTURES = (random.normal(size=(n, 16)) * SCALES for n in (400, 60))
ALTERED = PICTURES[:, None] + random.normal(size=(60, 3, 16)) * ([3.0] * 4 + [0.15] * 12)
LAMS = [{"lam": lam} for lam in (1e-3, 0.1, 10.0, 1000.0)]


class Columns:
    """An encoder that keeps some columns and needs no fit."""

    def __init__(self, keep=slice(None), scale=1.0):
        self.keep, self.scale = keep, scale

    def fit(self, X, y=None):
        return self

    def transform(self, X):
        return X[:, self.keep] * self.scale


class Scored(Columns):
    """The same encoder with its own query, whose score is ten times the distance plus seven."""

    def query(self, X):
        rows = self.transform(X)

        class Query:
            def score(self, X):
                return 10 * ((rows[:, None] - X) ** 2).sum(axis=2).astype(np.float32) + 7

        return Query()


def distances(Q, Y):
    return ((Q[:, None] - Y) ** 2).sum(axis=2)


def test_small_lam_is_chosen_if_the_largest_variation_is_uninformative():
    chosen = calibrate(Slem, LAMS, POOL, PICTURES, ALTERED)
    assert chosen.params["lam"] <= 0.1
    assert [trial.params for trial in chosen.trials] == LAMS
    assert chosen.trials[0].precision > chosen.trials[-1].precision
    assert chosen.trials[-1].behind > SIGNIFICANT
    assert min(trial.behind for trial in chosen.trials) == 0


def test_large_lam_is_chosen_if_the_smallest_variation_is_noise():
    altered = PICTURES[:, None] + random.normal(size=(60, 3, 16)) * ([0.5] * 4 + [3.0] * 12)
    assert calibrate(Slem, LAMS, POOL, PICTURES, altered).params["lam"] >= 10


def test_measures_equal_the_reference():
    trial = calibrate(Columns, [{}], POOL, PICTURES, ALTERED).trials[0]
    S = distances(ALTERED.reshape(-1, 16), PICTURES)
    own = np.repeat(np.eye(60, dtype=bool), 3, axis=0)
    expected = [(average_precision(S[i], own[i], ~own[i]), margin(S[i], own[i], ~own[i])) for i in range(180)]
    np.testing.assert_allclose([trial.precision, trial.margin], np.mean(expected, axis=0))


def test_measures_by_label_equal_the_reference_without_the_row_itself():
    y = np.repeat([*"abcdefghij"], 6)
    X = PICTURES + 3 * np.repeat(PICTURES[:10], 6, axis=0)
    trial = calibrate_labels(Columns, [{}], X, y, POOL).trials[0]
    S = distances(X, X)
    expected = [
        (average_precision(S[i], right, y != y[i]), margin(S[i], right, y != y[i]))
        for i in range(60)
        for right in [(y == y[i]) & (np.arange(60) != i)]
    ]
    np.testing.assert_allclose([trial.precision, trial.margin], np.mean(expected, axis=0))


@given(st.integers(0, 2**32 - 1))
def test_ties_count_as_wrong_in_any_order(seed):
    local = np.random.default_rng(seed)
    X, y = local.integers(0, 3, (12, 2)).astype(float), np.arange(12) % 4  # many equal rows
    trial = calibrate_labels(Columns, [{}], X, y, X).trials[0]
    S = distances(X, X)
    expected = [average_precision(S[i], (y == y[i]) & (np.arange(12) != i), y != y[i]) for i in range(12)]
    np.testing.assert_allclose(trial.precision, np.mean(expected))


def test_a_constant_encoder_has_the_lowest_measures():
    trials = calibrate(Columns, [{"scale": 0.0}, {}], POOL, PICTURES, ALTERED).trials
    assert trials[0].precision == pytest.approx(1 / 60)
    assert trials[0].margin == -1


def test_the_margin_breaks_ties_in_precision():
    altered = PICTURES[:, None] + random.normal(size=(60, 3, 16)) * ([0.1] * 4 + [0.01] * 12)
    chosen = calibrate(Columns, [{"keep": slice(0, 4)}, {"keep": slice(4, 16)}], POOL, PICTURES, altered)
    assert [trial.precision for trial in chosen.trials] == [1, 1]
    assert [trial.behind for trial in chosen.trials] == [0, 0]
    assert chosen.params == max(chosen.trials, key=lambda trial: trial.margin).params == {"keep": slice(4, 16)}


def test_a_larger_margin_does_not_make_up_for_lower_precision():
    easy = ALTERED.copy()
    easy[:, :, 4:] = PICTURES[:, None, 4:]  # the last columns identify every picture, the first ones do not
    chosen = calibrate(Columns, [{"keep": slice(0, 4)}, {"keep": slice(4, 16)}], POOL, PICTURES, easy)
    assert chosen.params == {"keep": slice(4, 16)}
    assert chosen.trials[0].behind > SIGNIFICANT


def test_measures_ignore_scale_and_shift_and_use_the_query_of_the_encoder():
    plain, larger = calibrate(Columns, [{}, {"scale": 100.0}], POOL, PICTURES, ALTERED).trials
    own = calibrate(Scored, [{}], POOL, PICTURES, ALTERED).trials[0]
    for other in (larger, own):
        np.testing.assert_allclose([other.precision, other.margin], [plain.precision, plain.margin], rtol=1e-4)


def test_any_function_that_returns_encoders_can_be_calibrated():
    chosen = calibrate(
        lambda dim: make_pipeline(PCA(dim=dim, whiten=1.0), L2()), [{"dim": 2}, {"dim": 16}], POOL, PICTURES, ALTERED
    )
    assert chosen.params == {"dim": 16}


def test_labels_choose_parameters_and_classes_of_one_row_are_distractors():
    X = np.concatenate([PICTURES, ALTERED[:, 0], POOL[:20]])
    y = [*range(60), *range(60), *range(100, 120)]
    assert calibrate_labels(Slem, LAMS, X, y, POOL[20:]).params["lam"] <= 0.1


def test_without_negatives_each_half_of_the_classes_is_the_pool_of_the_other():
    y = np.repeat(np.arange(10), 6)
    X = PICTURES + np.repeat(PICTURES[:10], 6, axis=0)
    first, second = (calibrate_labels(Slem, LAMS, X[a], y[a], X[b]) for a, b in ((y < 5, y >= 5), (y >= 5, y < 5)))
    both = calibrate_labels(Slem, LAMS, X, y)
    for trial, one, other in zip(both.trials, first.trials, second.trials, strict=True):
        assert trial.precision == pytest.approx((one.precision + other.precision) / 2)
    assert both.params == max(both.trials, key=lambda trial: trial.precision).params


def test_torch_tensors_give_the_same_choice():
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(rows) for rows in (POOL, PICTURES, ALTERED)]
    ours, theirs = calibrate(Slem, LAMS, *tensors), calibrate(Slem, LAMS, POOL, PICTURES, ALTERED)
    assert ours.params == theirs.params
    for mine, other in zip(ours.trials, theirs.trials, strict=True):
        assert mine.precision == pytest.approx(other.precision, abs=1e-3)


def test_invalid_input_is_refused():
    for altered in (ALTERED[:, 0], ALTERED[:5], ALTERED[:, :0], ALTERED[:, :, :3], [1]):
        with pytest.raises(InputError, match=r"variants must have the shape \(m, a, d\)"):
            calibrate(Slem, LAMS, POOL, PICTURES, altered)
    with pytest.raises(InputError, match="originals must have at least 2 rows"):
        calibrate(Slem, LAMS, POOL, PICTURES[:1], ALTERED[:1])
    with pytest.raises(InputError, match="candidates must contain at least one"):
        calibrate(Slem, [], POOL, PICTURES, ALTERED)
    with pytest.raises(InputError, match="variants must be finite"):
        calibrate(Slem, LAMS, POOL, PICTURES, ALTERED * np.nan)
    with pytest.raises(InputError, match="y must have one label per row"):
        calibrate_labels(Slem, LAMS, PICTURES, [1, 2], POOL)
    for y in (np.zeros(60), np.arange(60)):
        with pytest.raises(InputError, match="y must have at least two labels"):
            calibrate_labels(Slem, LAMS, PICTURES, y, POOL)
    for y in (np.arange(60) // 20, np.r_[np.zeros(30), np.arange(30)]):
        with pytest.raises(
            InputError, match="at least two labels, one of them on two or more rows, in each half of its labels"
        ):
            calibrate_labels(Slem, LAMS, PICTURES, y)
