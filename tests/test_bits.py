"""Packed bits and queries of codes, compared with loops over single bits."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from lookalike.codes.bits import check_bits, hamming, pack, popcount, unpack, weighted_hamming
from lookalike.codes.queries import CodeQuery, SphericalQuery, TableQuery
from lookalike.errors import InputError
from reference import codes as slow


@st.composite
def pairs(draw):
    """Two matrices of codes of the same length, 1 to 17 bytes: whole words and a remainder."""
    width = draw(st.sampled_from([1, 3, 8, 9, 16, 17]))
    return [draw(arrays(np.uint8, (draw(st.integers(0, 5)), width))) for _ in range(2)]


@given(arrays(bool, st.tuples(st.integers(0, 5), st.sampled_from([8, 16, 72]))))
def test_unpack_inverts_pack(flags):
    codes = pack(flags)
    assert codes.dtype == np.uint8
    assert codes.shape == (len(flags), flags.shape[1] // 8)
    np.testing.assert_array_equal(unpack(codes), flags)
    assert [slow.bits_of(code) for code in codes] == flags.astype(int).tolist()
    np.testing.assert_array_equal(popcount(codes), flags.sum(axis=1))


@given(pairs())
@settings(max_examples=60)
def test_distances_equal_a_count_bit_by_bit(both):
    A, B = both
    expected = np.array([[slow.hamming(a, b) for b in B] for a in A]).reshape(len(A), len(B))
    np.testing.assert_array_equal(hamming(A, B), expected)
    np.testing.assert_array_equal(CodeQuery(A).score(B), expected)


def test_distances_of_many_rows_are_correct():
    random = np.random.default_rng(0)
    A, B = (random.integers(0, 256, (n, 16), np.uint8) for n in (600, 700))
    expected = (unpack(A)[:, None] != unpack(B)).sum(axis=2)
    np.testing.assert_array_equal(hamming(A, B), expected)


@given(pairs(), st.booleans(), st.integers(0, 9))
@settings(max_examples=60)
def test_weighted_distances_equal_a_sum_bit_by_bit(both, own, seed):
    A, B = both
    W = np.random.default_rng(seed).integers(0, 8, (len(A), 8 * A.shape[1]))  # integers, so that sums are exact
    W = W if own or not len(A) else W[0]
    each = np.broadcast_to(W, (len(A), 8 * A.shape[1]))
    expected = np.array([[slow.hamming(a, b, w) for b in B] for a, w in zip(A, each, strict=True)])
    expected = expected.reshape(len(A), len(B))
    np.testing.assert_array_equal(weighted_hamming(A, B, W), expected)
    np.testing.assert_array_equal(CodeQuery(A, W).score(B), expected)


@given(pairs())
@settings(max_examples=60)
def test_spherical_distances_equal_a_count_bit_by_bit(both):
    A, B = both
    scores = SphericalQuery(A).score(B)
    for i, a in enumerate(A):
        for j, b in enumerate(B):
            expected = slow.spherical(a, b)
            if expected is not None:
                assert scores[i, j] == np.float32(expected)
            else:
                assert scores[i, j] == (8 * len(a) + slow.hamming(a, b) if a.tolist() != b.tolist() else 0)


def test_table_scores_are_sums_of_entries():
    random = np.random.default_rng(0)
    tables = random.integers(0, 100, (3, 4, 256)).astype(np.float32)
    codes = random.integers(0, 256, (50, 4), np.uint8)
    expected = [[sum(table[b, code[b]] for b in range(4)) for code in codes] for table in tables]
    np.testing.assert_array_equal(TableQuery(tables).score(codes), expected)


@pytest.mark.parametrize("bits", [0, 7, 12, -8, 8.0, "8", True, None])
def test_bits_must_fill_bytes(bits):
    with pytest.raises(InputError, match="multiple of 8"):
        check_bits(bits)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: pack(np.zeros(8)), "two dimensions"),
        (lambda: pack(np.zeros((1, 9))), "multiple of 8"),
        (lambda: unpack(np.zeros((1, 8))), "packed bits"),
        (lambda: hamming(np.zeros((1, 2), np.uint8), np.zeros((1, 3), np.uint8)), "must have 24 bits. Got 16"),
        (lambda: CodeQuery(np.zeros((1, 1), np.uint8), weights=np.ones(7)), "weights must be"),
        (lambda: CodeQuery(np.zeros((1, 1), np.uint8), weights=np.full(8, np.nan)), "finite"),
        (lambda: CodeQuery(np.zeros((1, 1), np.uint8), weights=-np.ones(8)), "not negative"),
        (lambda: CodeQuery(np.zeros((1, 1), np.uint8)).score(np.zeros((1, 2), np.uint8)), "bits"),
    ],
)
def test_invalid_input_is_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()
