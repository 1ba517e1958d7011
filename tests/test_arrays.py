import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from lookalike.arrays import check_rows, chunks, namespace, to_numpy, unit_rows
from lookalike.errors import InputError


@given(n=st.integers(0, 500), row_bytes=st.integers(0, 50), max_bytes=st.integers(1, 300))
def test_chunks_cover_every_row_once_and_keep_to_the_budget(n, row_bytes, max_bytes):
    parts = list(chunks(n, row_bytes, max_bytes))
    assert [row for part in parts for row in range(n)[part]] == list(range(n))
    assert all((part.stop - part.start) * row_bytes <= max(max_bytes, row_bytes) for part in parts)


@pytest.mark.parametrize("array", [np.ones((2, 3)), torch.ones(2, 3)])
def test_maths_written_once_runs_on_numpy_and_on_torch(array):
    xp = namespace(array)
    assert float(xp.sum(xp.sqrt(array))) == pytest.approx(6)


def test_integers_and_half_precision_become_float32_and_double_stays():
    assert check_rows(np.ones((2, 3), np.int64)).dtype == np.float32
    assert check_rows(np.ones((2, 3), np.float16)).dtype == np.float32
    assert check_rows(torch.ones(2, 3, dtype=torch.float16)).dtype == torch.float32
    assert check_rows(np.ones((2, 3))).dtype == np.float64
    assert check_rows([[1, 2], [3, 4]]).shape == (2, 2)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        (np.ones(3), "two dimensions"),
        (np.array([["a", "b"]]), "real numbers"),
        (np.array([[1.0, np.nan, 1], [0, 0, 0]]), "NaN or infinity in 1 of 2 rows"),
        (torch.tensor([[1.0, float("inf"), 0.0]]), "NaN or infinity in 1 of 1 rows"),
        (np.ones((2, 4)), "must have 3 columns. Got 4"),
        ([[1, 2], [3]], "matrix of numbers"),
        (np.ones((2, 3), complex), "real numbers"),
    ],
)
def test_bad_rows_are_refused_with_what_is_wrong(X, message):
    with pytest.raises(InputError, match=message):
        check_rows(X, dim=3)


@pytest.mark.parametrize("make", [np.array, torch.tensor])
def test_unit_rows_have_length_one_and_zero_rows_stay_zero(make):
    X = to_numpy(unit_rows(make([[3.0, 4.0], [0.0, 0.0]])))
    assert X.tolist() == [[pytest.approx(0.6), pytest.approx(0.8)], [0, 0]]


def test_to_numpy_does_not_copy_what_is_right_already():
    X = np.ones((2, 3), np.float32)
    assert to_numpy(X) is X
