import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.learn import pq_rows as module
from lookalike.learn.pq_rows import PqRows

random = np.random.default_rng(3)
X = random.normal(size=(700, 40)).astype(np.float32)


def test_every_sub_vector_is_encoded_as_its_nearest_centroid():
    rows = PqRows(X)
    decoded = rows[:].reshape(700, 5, 8)
    for part in range(5):
        centroids = np.unique(decoded[:, part], axis=0)
        assert len(centroids) <= 256
        far = ((X.reshape(700, 5, 8)[:, part, None] - centroids) ** 2).sum(axis=2)
        own = ((X.reshape(700, 5, 8)[:, part] - decoded[:, part]) ** 2).sum(axis=1)
        np.testing.assert_allclose(own, far.min(axis=1), atol=1e-5)


def test_a_few_distinct_rows_are_restored_almost_exactly():
    few = np.repeat(X[:10], 60, axis=0)
    np.testing.assert_allclose(PqRows(few)[:], few, atol=1e-2)
    np.testing.assert_allclose(PqRows(X[:3])[:], X[:3], atol=1e-4)
    np.testing.assert_allclose(PqRows(X[:1])[[0, -1]], X[[0, 0]], atol=1e-4)


@pytest.mark.parametrize("d", [1, 7, 8, 9, 40])
def test_any_number_of_columns_is_accepted(d):
    rows = PqRows(X[:, :d])
    assert rows.shape == (700, d)
    assert rows[:].shape == (700, d)
    assert rows[:].dtype == np.float32
    assert np.mean((rows[:] - X[:, :d]) ** 2) < 0.5


@settings(max_examples=6, deadline=None)
@given(st.integers(0, 99), st.floats(0, 1))
def test_zero_sub_vectors_stay_zero_and_need_no_code(seed, share):
    random = np.random.default_rng(seed)
    there = random.random((300, 3)) >= share
    sparse = (X[:300, :24].reshape(300, 3, 8) * there[:, :, None]).reshape(300, 24)
    rows = PqRows(sparse)
    assert len(rows.codes) == there.sum()
    assert (rows[:].reshape(300, 3, 8)[~there] == 0).all()
    assert np.mean((rows[:] - sparse) ** 2) < 0.1
    numbers = random.integers(-300, 300, 20)
    np.testing.assert_array_equal(rows[numbers], rows[:][numbers])
    np.testing.assert_array_equal(rows[10:50:3], rows[:][10:50:3])
    assert rows[[]].shape == rows[:0].shape == (0, 24)
    np.testing.assert_array_equal(rows[there[:, 0]], rows[:][there[:, 0]])


@pytest.mark.parametrize("what", [[[1]], 4, [700], [-701], [0.5], [True, False]])
def test_invalid_row_selections_are_rejected(what):
    rows = PqRows(X[:, :8])
    with pytest.raises(InputError, match="Rows must be selected by"):
        rows[what]


def test_rows_that_cannot_be_compressed_are_rejected():
    with pytest.raises(InputError, match="at least 1 row"):
        PqRows(X[:0])
    bad = X.copy()
    bad[5, 5] = np.inf
    with pytest.raises(InputError, match="X must be finite"):
        PqRows(bad)


def test_the_same_seed_gives_the_same_codes():
    assert PqRows(X).codes.tobytes() == PqRows(X).codes.tobytes()


def test_a_device_gives_tensors():
    torch = pytest.importorskip("torch")
    sparse = X.copy()
    sparse[::2, 8:16] = 0
    got = PqRows(sparse, device="cpu")[[3, 8]]
    assert isinstance(got, torch.Tensor)
    np.testing.assert_array_equal(got.numpy(), PqRows(sparse)[[3, 8]])


def test_the_whole_matrix_is_never_in_memory(monkeypatch):
    class RandomRows:
        shape = (20_000, 64)

        def __getitem__(self, rows):
            m = len(range(*rows.indices(20_000))) if isinstance(rows, slice) else len(rows)
            return np.random.default_rng(m).standard_normal((m, 64), np.float32)

    monkeypatch.setattr(module, "SAMPLE_BYTES", 2**18)
    monkeypatch.setattr(module.chunks, "__defaults__", (2**20,))
    tracemalloc.start()
    rows = PqRows(RandomRows())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert rows.nbytes < 20_000 * (8 + 1 + 8) + 70_000
    assert peak < 20_000 * 64 * 4 / 2
