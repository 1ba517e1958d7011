"""A context with one BLAS thread, which restores the previous number of threads."""

import numpy as np  # noqa: F401 — its BLAS is what is counted
from threadpoolctl import ThreadpoolController

from lookalike.collection.chain import SINGLE_BLAS_THREAD


def threads():
    return {pool["num_threads"] for pool in ThreadpoolController().select(user_api="blas").info()}


def test_overlapping_contexts_restore_the_number_of_threads():
    before = threads()
    SINGLE_BLAS_THREAD.__enter__()
    assert threads() == {1}
    SINGLE_BLAS_THREAD.__enter__()
    SINGLE_BLAS_THREAD.__exit__()
    assert threads() == {1}  # one context is still open
    SINGLE_BLAS_THREAD.__exit__()
    assert threads() == before
    with SINGLE_BLAS_THREAD:
        assert threads() == {1}
    assert threads() == before
