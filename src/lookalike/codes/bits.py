"""Packed bits: pack, unpack, count and compare codes.

A code is a row of bits packed eight to a byte, (n, bits / 8) uint8. Bit 0 is the highest bit of byte 0, so the first
bytes of a code are its first bits, and a prefix of a nested code is the shorter code.
"""

from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lookalike.arrays import CACHE_BYTES, chunks
from lookalike.errors import InputError
from lookalike.types import Vectors

Codes: TypeAlias = NDArray[np.uint8]
"""(n, bits / 8) packed bits."""

WORD = 8
"""Bytes compared at a time."""


def pack(bits: ArrayLike) -> Codes:
    """Pack booleans (n, bits) into codes (n, bits / 8) uint8.

    >>> pack([[1, 0, 0, 0, 0, 0, 0, 1]])
    array([[129]], dtype=uint8)
    """
    flags = np.asarray(bits).astype(bool, copy=False)
    if flags.ndim != 2:
        raise InputError(f"bits must have two dimensions, one row per item. Got shape {flags.shape}.")
    check_bits(flags.shape[1])
    return np.packbits(flags, axis=1)


def unpack(codes: Codes) -> NDArray[np.bool_]:
    """Unpack codes (n, bits / 8) uint8 into (n, bits) bool.

    >>> unpack(np.array([[129]], np.uint8)).astype(int)
    array([[1, 0, 0, 0, 0, 0, 0, 1]])
    """
    return np.unpackbits(check_codes(codes), axis=1).view(np.bool_)


def popcount(codes: Codes) -> NDArray[np.int64]:
    """Count the ones of each row, (n,).

    >>> popcount(np.array([[129, 3]], np.uint8))
    array([4])
    """
    counts: NDArray[np.int64] = np.bitwise_count(to_words(codes)).sum(axis=1, dtype=np.int64)
    return counts


def hamming(A: Codes, B: Codes) -> NDArray[np.int32]:
    """Hamming distances (q, n): the number of bits in which each row of A differs from each row of B.

    >>> hamming(np.array([[129]], np.uint8), np.array([[129], [1], [126]], np.uint8))
    array([[0, 1, 8]], dtype=int32)
    """
    B = check_codes(B, name="B")
    A = check_codes(A, B.shape[1], name="A")
    left, right = to_words(A), to_words(B)
    distances = np.empty((len(A), len(B)), np.int32)
    for part in chunks(len(B), row_bytes=16 * len(A), max_bytes=CACHE_BYTES):
        differing = np.bitwise_count(left[:, None, 0] ^ right[None, part, 0]).astype(np.int32)  # (q, m)
        for word in range(1, left.shape[1]):
            differing += np.bitwise_count(left[:, None, word] ^ right[None, part, word])
        distances[:, part] = differing
    return distances


def weighted_hamming(A: Codes, B: Codes, weights: ArrayLike) -> Vectors:
    """Sums of the weights of the bits in which rows differ, (q, n) float32; weights are (bits,) or (q, bits).

    With a query's margins |w·x + b| as weights, bits with a large margin count more.

    >>> weighted_hamming(np.array([[129]], np.uint8), np.array([[1]], np.uint8), [9, 1, 1, 1, 1, 1, 1, 1])
    array([[9.]], dtype=float32)
    """
    B = check_codes(B, name="B")
    A = check_codes(A, B.shape[1], name="A")
    W = check_weights(weights, *A.shape)  # (q, bits)
    ones = unpack(A)  # (q, bits)
    # Σ w [a ≠ b] = Σ w a + Σ b w (1 − 2a): one product with the bits of B.
    own = (W * ones).sum(axis=1)  # (q,)
    signed = np.where(ones, -W, W).T  # (bits, q)
    sums = np.empty((len(A), len(B)), np.float32)
    for part in chunks(len(B), row_bytes=32 * B.shape[1]):
        sums[:, part] = (unpack(B[part]).astype(np.float32) @ signed + own).T
    return sums


def check_bits(bits: Any) -> int:
    """Return the length of a code in bits if it is a positive multiple of 8, else raise InputError.

    >>> check_bits(12)
    Traceback (most recent call last):
    lookalike.errors.InputError: bits must be a multiple of 8, and at least 8. Got 12.
    """
    if isinstance(bits, bool) or not isinstance(bits, Integral) or bits < 8 or bits % 8:
        raise InputError(f"bits must be a multiple of 8, and at least 8. Got {bits!r}.")
    return int(bits)


def check_codes(codes: Any, n_bytes: int | None = None, name: str = "codes") -> Codes:
    """Return `codes` as a contiguous matrix of bytes, with `n_bytes` columns if given; else raise InputError."""
    codes = np.asarray(codes)
    if codes.dtype != np.uint8 or codes.ndim != 2 or codes.shape[1] < 1:
        raise InputError(
            f"{name} must be packed bits, (n, bits / 8) uint8. Got {codes.dtype} of shape {codes.shape}; see `pack`."
        )
    if n_bytes is not None and codes.shape[1] != n_bytes:
        raise InputError(f"{name} must have {8 * n_bytes} bits. Got {8 * codes.shape[1]}.")
    return np.ascontiguousarray(codes)


def check_weights(weights: ArrayLike, q: int, n_bytes: int) -> Vectors:
    """Return the weights of bits as (q, bits) float32 if they are finite and not negative; else raise InputError."""
    W: NDArray[Any] = np.asarray(weights, np.float32)
    if W.shape not in ((8 * n_bytes,), (q, 8 * n_bytes)):
        raise InputError(f"weights must be ({8 * n_bytes},) or ({q}, {8 * n_bytes}). Got shape {W.shape}.")
    if not (np.isfinite(W).all() and (W >= 0).all()):
        raise InputError("weights must be finite and not negative. Got NaN, infinity or a negative weight.")
    return np.broadcast_to(W, (q, 8 * n_bytes))


def to_words(codes: Codes) -> NDArray[np.uint64]:
    """View codes (n, bytes) as (n, words) of 64 bits, padded with zeros after the last byte."""
    codes = check_codes(codes)
    missing = -codes.shape[1] % WORD
    return (np.pad(codes, ((0, 0), (0, missing))) if missing else codes).view(np.uint64)
