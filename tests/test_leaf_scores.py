import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.index import leaf_scores
from lookalike.index.leaf_codes import Centres
from lookalike.index.leaf_scores import Steps, spreads
from lookalike.index.queries import HyperplaneQuery
from lookalike.kernels import KERNELS
from lookalike_bench.hyperplane import scan_float32


def make(kernel, d, m, seed, n=32):
    """Rows that fit into bytes exactly, and a hyperplane defined by some of them."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 256, (n, d)).astype(np.float32)
    a = random.normal(size=m)
    a -= a.mean()  # required by the angular kernels
    gamma = {"gaussian": 1e-5 / d, "gaussian-l1": 1e-4 / d**2, "poly": 1e-6 / d}.get(kernel, 1e-2 / d)
    return X, HyperplaneQuery(X[:m], a, 0.1, kernel=kernel, gamma=gamma)


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@settings(max_examples=15, deadline=None)
@given(d=st.integers(1, 40), m=st.integers(2, 9), seed=st.integers(0, 2**32))
def test_f_of_byte_rows_equals_f(kernel, d, m, seed):
    X, query = make(kernel, d, m, seed)
    steps = Steps(np.zeros(d, np.float32), 1.0)
    codes = leaf_scores.in_blocks(steps.encode(X))
    f = leaf_scores.f_leaves(codes, np.array([1, 0]), 1, steps.plane(query)).ravel()
    expected = query.distance(X)[[*range(16, 32), *range(16)]]
    # A table of 8,192 values merges two steps of L1: an error of half a step, or half a unit of K (angular kernels).
    off = 0.51 if kernel.startswith("angular") else 2e-3
    near = off * (np.abs(query.a).sum() / query.length) + 1e-6 * np.abs(expected).max()  # f is a sum of large terms
    np.testing.assert_allclose(f, expected, atol=near, rtol=1e-3)


@pytest.mark.parametrize("kernel", ["laplace", "gaussian", "linear", "poly"])
def test_the_estimated_mean_and_spread_of_f_are_near_those_of_the_rows(kernel):
    random = np.random.default_rng(1)
    centroids = random.uniform(80, 170, (32, 24))
    members = (centroids[:, None] + random.normal(0, 6, (32, 4_000, 24))).clip(0, 255)  # (sets, rows, d)
    a = np.array([1.0, 0.8, -0.5, -0.6, -0.7])
    gamma = {"laplace": 1e-3, "gaussian": 2e-5, "poly": 1e-6}.get(kernel, 1.0)
    query = HyperplaneQuery(members[:5, 0], a, 0.1, kernel=kernel, gamma=gamma)
    plane = Steps(np.zeros(24, np.float32), 1.0).plane(query)
    mean = members.mean(1)
    centres = Centres(np.zeros((2, 3, 16, 8), np.uint8), np.zeros((2, 3, 16, 8), np.uint8))
    centres.put(0, mean.astype(np.float32), np.abs(members - mean[:, None]).mean(1).astype(np.float32))
    f = query.distance(members.reshape(-1, 24).astype(np.float32)).reshape(32, -1)
    near = centres.f(np.arange(2), plane)
    assert np.abs(near - f.mean(1)).max() < 0.5 * f.std(1).mean()
    ratio = spreads(centres.upper, centres.lower, np.arange(32), plane) / f.std(1)
    assert 0.75 < ratio.min() < ratio.max() < 1.3


def test_the_float32_scan_computes_f():
    X, query = make("laplace", 37, 6, 0, n=5_000)
    np.testing.assert_allclose(scan_float32(X, query), query.distance(X), atol=1e-5)
    X, query = make("gaussian", 37, 6, 0, n=5_000)
    np.testing.assert_allclose(scan_float32(X, query), query.distance(X), atol=1e-5)
    with pytest.raises(InputError, match="supports only the kernels laplace and gaussian"):
        scan_float32(X, make("linear", 37, 6, 0)[1])
