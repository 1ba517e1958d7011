"""Distances from the planes of class trees, for another coder."""

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import create
from lookalike.codes.tsvm_planes import TsvmPlanes
from lookalike.codes.tsvmh import Tsvmh
from lookalike.errors import InputError
from lookalike.registry import restore, spec_of, state_of

RANDOM = np.random.default_rng(0)
Y = np.arange(120) % 12
X = (RANDOM.normal(size=(12, 30))[Y] * 3 + RANDOM.normal(size=(120, 30))).astype(np.float32)


@parametrize_with_checks([TsvmPlanes(dim=3)])
def test_scikit_learn_takes_it_for_its_own(estimator, check):
    check(estimator)


def test_distances_are_those_of_the_codes_planes():
    told = np.where(RANDOM.random(120) < 0.3, -1, Y)
    planes, coder = TsvmPlanes(dim=19).fit(X, told), Tsvmh(bits=24).fit(X, told)
    np.testing.assert_allclose(planes.transform(X), coder.transform(X)[:, :19], atol=1e-4)
    np.testing.assert_allclose(np.linalg.norm(planes.W_, axis=1), 1, atol=1e-5)
    assert TsvmPlanes().fit(X, told).transform(X).shape == (120, 11)  # one tree of 12 classes


def test_codes_of_the_distances_keep_classes_together():
    near = create("coder", "itq(bits=16)")
    embedded = TsvmPlanes().fit(X[:60], Y[:60]).transform(X)
    codes = near.fit(embedded).encode(embedded)
    differ = np.unpackbits(codes[60:, None] ^ codes[None, :60], axis=2).sum(axis=2)  # new rows against known ones
    assert (Y[:60][differ.argmin(axis=1)] == Y[60:]).mean() > 0.8


def test_it_is_saved_and_restored():
    fitted = create("transform", "tsvmplanes(dim=5)").fit(X, Y)
    again = restore("transform", spec_of(fitted), state_of(fitted))
    np.testing.assert_array_equal(again.transform(X), fitted.transform(X))


@pytest.mark.parametrize(
    ("options", "y", "message"),
    [({"dim": 0}, Y, "dim must be"), ({}, np.zeros(120), "at least 2"), ({}, np.full(120, -1), "some labels")],
)
def test_bad_input_is_refused_in_a_sentence(options, y, message):
    with pytest.raises(InputError, match=message):
        TsvmPlanes(**options).fit(X, y)
