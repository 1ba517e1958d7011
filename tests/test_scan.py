import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.bench.scans import scan_float32
from lookalike.errors import InputError
from lookalike.index import sad, scan
from lookalike.index.hyperplane import HyperplaneQuery
from lookalike.index.leaf_codes import Centres
from lookalike.index.leaf_plane import Steps
from lookalike.index.slopes import spreads
from lookalike.index.threads import share
from lookalike.kernels import KERNELS


def make(kernel, d, m, seed, n=32):
    """Rows that bytes hold exactly, and a hyperplane over some of them."""
    random = np.random.default_rng(seed)
    X = random.integers(0, 256, (n, d)).astype(np.float32)
    a = random.normal(size=m)
    a -= a.mean()  # the angular kernels want it
    gamma = {"gaussian": 1e-5 / d, "gaussian-l1": 1e-4 / d**2, "poly": 1e-6 / d}.get(kernel, 1e-2 / d)
    return X, HyperplaneQuery(X[:m], a, 0.1, kernel=kernel, gamma=gamma)


LOOPS = {width: sad.make_sad(width) for width in (*sad.sad_widths(), None)}


@pytest.mark.parametrize("width", LOOPS)
@settings(max_examples=20, deadline=None)
@given(groups=st.integers(1, 20), seed=st.integers(0, 2**32))
def test_sums_of_differences_are_numpys(width, groups, seed):
    rows = np.random.default_rng(seed).integers(0, 256, (16, 8 * groups), dtype=np.uint8)
    out = np.empty(16, np.uint64)
    LOOPS[width](scan.in_blocks(rows)[0], rows[3], out)
    assert out.tolist() == np.abs(rows.astype(int) - rows[3].astype(int)).sum(1).tolist()


@pytest.mark.parametrize("kernel", sorted(KERNELS))
@settings(max_examples=15, deadline=None)
@given(d=st.integers(1, 40), m=st.integers(2, 9), seed=st.integers(0, 2**32))
def test_f_of_bytes_is_f(kernel, d, m, seed):
    X, query = make(kernel, d, m, seed)
    steps = Steps(np.zeros(d, np.float32), 1.0)
    codes = scan.in_blocks(steps.encode(X))
    f = scan.f_leaves(codes, np.array([1, 0]), 1, steps.plane(query)).ravel()
    expected = query.distance(X)[[*range(16, 32), *range(16)]]
    # A table of 8,192 values throws two steps of L1 together: half a step, for the angular kernel half a unit of K.
    off = 0.51 if kernel == "angular" else 2e-3
    np.testing.assert_allclose(f, expected, atol=off * (np.abs(query.a).sum() / query.length), rtol=1e-3)


@pytest.mark.parametrize("kernel", ["laplace", "gaussian", "linear", "poly"])
def test_the_middle_and_the_spread_of_f_in_a_set_are_those_of_its_rows(kernel):
    random = np.random.default_rng(1)
    middles = random.uniform(80, 170, (32, 24))
    members = (middles[:, None] + random.normal(0, 6, (32, 4_000, 24))).clip(0, 255)  # (sets, rows, d)
    a = np.array([1.0, 0.8, -0.5, -0.6, -0.7])
    gamma = {"laplace": 1e-3, "gaussian": 2e-5, "poly": 1e-6}.get(kernel, 1.0)
    query = HyperplaneQuery(members[:5, 0], a, 0.1, kernel=kernel, gamma=gamma)
    plane = Steps(np.zeros(24, np.float32), 1.0).plane(query)
    mean = members.mean(1)
    centres = Centres.of(mean.astype(np.float32), np.abs(members - mean[:, None]).mean(1).astype(np.float32))
    f = query.distance(members.reshape(-1, 24).astype(np.float32)).reshape(32, -1)
    near = centres.f(np.arange(2), plane)
    assert np.abs(near - f.mean(1)).max() < 0.5 * f.std(1).mean()
    ratio = spreads(centres.upper, centres.lower, np.arange(32), plane) / f.std(1)
    assert 0.75 < ratio.min() < ratio.max() < 1.3


def test_the_float32_scan_is_f():
    X, query = make("laplace", 37, 6, 0, n=5_000)
    np.testing.assert_allclose(scan_float32(X, query), query.distance(X), atol=1e-5)
    with pytest.raises(InputError, match="laplace alone"):
        scan_float32(X, make("gaussian", 37, 6, 0)[1])


@given(n=st.integers(0, 500), least=st.integers(1, 100))
def test_shared_work_is_done_once(n, least):
    done = np.zeros(n, int)

    def work(start, stop):
        done[start:stop] += 1

    share(work, n, least)
    assert (done == 1).all()


def test_an_error_in_shared_work_is_not_lost():
    def fail(start, stop):
        raise InputError(f"{start}–{stop}")

    with pytest.raises(InputError):
        share(fail, 100)
