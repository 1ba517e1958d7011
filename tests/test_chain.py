"""Chains, and the part of extraction that runs in the reading processes."""

import pickle

import numpy as np
import pytest

from lookalike.collection.chain import Prepare
from lookalike.images.demo import draw
from lookalike.registry import component, create
from lookalike.types import needs_fit

PICTURES = [draw(kind, np.random.default_rng(0)) for kind in ("fish", "house", "flower")]


@pytest.fixture
def features():
    """One that goes by batches, one whose `prepare` is all, one that learned and goes by single pictures."""
    words = create("feature", "vlad(k=4)")
    return [create("feature", "efficientnet()"), create("feature", "hsv()"), words.fit(map(words.prepare, PICTURES))]


def test_what_the_processes_begin_and_the_caller_finishes_is_the_features_own_row(features):
    there = pickle.loads(pickle.dumps(Prepare(features)))  # as it arrives in a process
    found = Prepare(features).finish([there(picture) for picture in PICTURES])
    for feature, X in zip(features, found, strict=True):
        np.testing.assert_allclose(X, feature.extract(PICTURES), atol=1e-5)


def test_what_goes_by_single_pictures_is_done_in_the_process(features):
    network, _, words = Prepare(features)(PICTURES[0])
    assert network.shape == (224, 224, 3)
    assert words.shape == (512,)


@pytest.mark.parametrize(("name", "wanted"), [("vlad", True), ("fisher", True), ("color", False), ("onnx", False)])
def test_features_that_learn_are_known_without_making_them(name, wanted):
    assert needs_fit(component("feature", name)) is wanted
