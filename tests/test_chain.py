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
    """A feature computed in batches, one computed entirely by `prepare`, and a fitted one computed per picture."""
    words = create("feature", "vlad(k=4)")
    return [create("feature", "efficientnet()"), create("feature", "hsv()"), words.fit(map(words.prepare, PICTURES))]


def test_extraction_split_between_processes_equals_direct_extraction(features):
    there = pickle.loads(pickle.dumps(Prepare(features)))  # as in a reading process
    found = Prepare(features).finish([there(picture) for picture in PICTURES])
    for feature, X in zip(features, found, strict=True):
        np.testing.assert_allclose(X, feature.extract(PICTURES), atol=1e-5)


def test_features_per_picture_are_computed_in_the_reading_process(features):
    network, _, words = Prepare(features)(PICTURES[0])
    assert network.shape == (224, 224, 3)
    assert words.shape == (512,)


@pytest.mark.parametrize(("name", "wanted"), [("vlad", True), ("fisher", True), ("color", False), ("onnx", False)])
def test_features_that_need_fitting_are_known_without_creating_them(name, wanted):
    assert needs_fit(component("feature", name)) is wanted
