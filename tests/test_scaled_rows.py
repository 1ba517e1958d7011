"""Vectors stored as bytes with scales, and products with them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from lookalike.errors import InputError
from lookalike.index import Flat
from lookalike.index import flat as flat_module
from lookalike.index.queries import PointQuery
from lookalike.scaled_rows import GROUP, SCALED, ScaledRows, dtype_name, join_rows, row_width

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
MATRICES = hnp.arrays(np.float32, st.tuples(st.integers(1, 4), st.integers(1, 130)), elements=FLOATS)


def gaussian(n: int = 300, d: int = 100) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d)).astype(np.float32)


@given(MATRICES)
@settings(max_examples=60)
def test_a_value_moves_by_at_most_a_254th_of_the_largest_in_its_group(X: np.ndarray) -> None:
    found = ScaledRows.encode(X).decode()
    for start in range(0, X.shape[1], GROUP):
        part, decoded = (Y[:, start : start + GROUP].astype(np.float64) for Y in (X, found))
        limit = np.abs(part).max(axis=1, keepdims=True) / 254 * (1 + 1e-5) + 2e-43  # the smallest floats are coarser
        assert (np.abs(part - decoded) <= limit).all()


def test_a_row_does_not_depend_on_the_others_or_on_the_scale_of_other_columns() -> None:
    X = gaussian(3, 128)
    X[:, :GROUP] *= 1e6
    alone = np.concatenate([ScaledRows.encode(X[[i]]).data for i in range(3)])
    np.testing.assert_array_equal(ScaledRows.encode(X).data, alone)
    np.testing.assert_allclose(ScaledRows.encode(X).decode()[:, GROUP:], X[:, GROUP:], atol=0.02)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_vectors_that_are_not_finite_are_rejected(bad: float) -> None:
    X = gaussian(3)
    X[1, 70] = bad
    with pytest.raises(InputError, match="must be finite"):
        ScaledRows.encode(X)


def test_no_rows_and_no_columns_are_encoded() -> None:
    assert ScaledRows.encode(np.empty((0, 70), np.float32)).decode().shape == (0, 70)
    assert ScaledRows.encode(np.empty((2, 0), np.float32)).decode().shape == (2, 0)


def test_any_tool_can_decode_the_stored_array() -> None:
    X = gaussian(5, 70)
    data = ScaledRows.encode(X).data
    assert data.shape == (5, row_width(70)) == (5, 78)
    codes, scales = data[:, :70].view(np.int8), data[:, 70:].copy().view("<f4")
    np.testing.assert_array_equal(codes * np.repeat(scales, GROUP, axis=1)[:, :70], ScaledRows.encode(X).decode())


def test_every_way_to_read_a_row_returns_the_same_values() -> None:
    rows = ScaledRows.encode(gaussian())
    X, some = rows.decode(), np.array([7, 3, 299])
    np.testing.assert_array_equal(rows.take(some), X[some])
    np.testing.assert_array_equal(rows[some].decode(), X[some])
    np.testing.assert_array_equal(np.asarray(rows[10:20]), X[10:20])
    np.testing.assert_array_equal(rows.astype(np.float64), X.astype(np.float64))


def test_joined_rows_keep_their_bytes_and_only_other_rows_are_rounded() -> None:
    X = gaussian()
    rows = ScaledRows.encode(X[:100])
    joined = join_rows([rows, X[100:]])
    assert dtype_name(joined) == SCALED
    np.testing.assert_array_equal(joined[:100].decode(), rows.decode())
    np.testing.assert_array_equal(joined[100:].decode(), ScaledRows.encode(X[100:]).decode())
    assert dtype_name(join_rows([X, X])) == "float32"


@pytest.mark.parametrize("d", [20, 64, 150])
def test_products_with_bytes_are_those_with_the_decoded_rows(d: int) -> None:
    rows, points = ScaledRows.encode(gaussian(3_000, d)), gaussian(3, d)
    products = np.empty((3_000, 3), np.float32)
    rows.dot(points, products)
    np.testing.assert_allclose(products, rows.decode() @ points.T, atol=1e-4)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("d", [20, 64, 150])
@pytest.mark.parametrize("q", [1, 3, 40])
def test_flat_finds_the_same_in_scaled_rows_as_in_the_decoded_ones(
    compiled: bool, d: int, q: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flat_module, "COMPILED", 0 if compiled else np.inf)
    rows, ids = ScaledRows.encode(gaussian(2_000, d)), np.arange(2_000)
    found, exact = Flat(), Flat()
    exact.add(ids, rows.decode())
    for part in (slice(0, 600), slice(600, 2_000)):
        found.add(ids[part], rows[part])
    query, among = PointQuery(gaussian(q, d) + 0.1), ids[::3]
    for chosen in (None, among, among[:10]):
        mine, true = (index.search(query, 10, among=chosen, exclude=ids[:5]) for index in (found, exact))
        np.testing.assert_array_equal(mine.ids, true.ids)
        np.testing.assert_array_equal(mine.scores, true.scores)
    np.testing.assert_array_equal(found.vectors(ids), rows.decode())
