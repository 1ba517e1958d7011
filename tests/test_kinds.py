"""The kinds of pictures: their 48 bytes, their scores, and how a collection stores them."""

import numpy as np
import pytest

from lookalike import Collection
from lookalike.features import EfficientNet
from lookalike.features.kinds import KIND_BYTES, KINDS, decode_kinds, encode_kinds
from lookalike.images.demo import draw_folder
from lookalike.index.kinds import score_kinds

random = np.random.default_rng(0)
P = random.dirichlet(np.full(1000, 0.01), 50).astype(np.float32)
W = random.random((3, 1000)).astype(np.float32)


def test_rows_have_the_likeliest_classes_with_their_probabilities():
    rows = encode_kinds(P)
    assert rows.shape == (50, KIND_BYTES)
    assert rows.dtype == np.uint8
    assert KIND_BYTES <= 64
    numbers, probabilities = decode_kinds(rows)
    expected = -np.sort(-P, axis=1)[:, :KINDS]
    np.testing.assert_allclose(probabilities, expected, atol=0.004)
    np.testing.assert_array_equal(np.take_along_axis(P, numbers.astype(int), axis=1), expected)


def test_a_score_is_the_mean_weight_of_the_classes():
    rows = encode_kinds(P)
    numbers, probabilities = decode_kinds(rows)
    roots = np.sqrt(probabilities)
    expected = np.array([[(roots[i] * w[numbers[i]]).sum() / roots[i].sum() for w in W] for i in range(50)])
    np.testing.assert_allclose(score_kinds(rows, W), expected, atol=1e-5)
    assert score_kinds(rows[:0], W).shape == (0, 3)
    np.testing.assert_array_equal(score_kinds(np.zeros((1, KIND_BYTES), np.uint8), W), [[0, 0, 0]])


def test_damaged_rows_do_not_read_outside_the_weights():
    assert np.isfinite(score_kinds(random.integers(0, 256, (1000, KIND_BYTES)).astype(np.uint8), W)).all()


@pytest.mark.parametrize("views", [1, 2])
def test_the_network_recognizes_kinds_without_changing_the_vectors(views):
    feature = EfficientNet(views=views)
    pictures = [random.integers(0, 256, (300, 260, 3)).astype(np.uint8) for _ in range(3)]
    prepared = [feature.prepare(picture) for picture in pictures]
    rows, kinds = feature.recognize(prepared)
    np.testing.assert_array_equal(rows, feature.describe(prepared))
    assert kinds.shape == (3, KIND_BYTES)
    assert (decode_kinds(kinds)[1].sum(axis=1) <= 1.02).all()


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    draw_folder(folder, 2)
    return folder


def count_kinds(collection):
    return len(collection.kinds([item.id for item in collection.items()]))


def test_add_stores_the_kinds_of_all_pictures(pictures, tmp_path):
    with Collection(tmp_path / "c", create=True) as collection:
        n = collection.add(pictures, recipes="deep").added
        assert count_kinds(collection) == n
        names, probabilities = zip(*collection.kinds([next(collection.items()).id]).popitem()[1], strict=True)
        assert list(probabilities) == sorted(probabilities, reverse=True)
        assert all(isinstance(name, str) and name for name in names)
        assert collection.verify() == []


def test_refresh_recognizes_the_kinds_of_pictures_that_have_none(pictures, tmp_path):
    with Collection(tmp_path / "c", create=True) as collection:
        n = collection.add(pictures, recipes="deep").added
        store = collection._store
        with store.writer(), store.transaction():
            store.vectors.drop_space(collection._spaces.kinds.name)  # as in a collection of an older version
        assert collection.add(pictures).known == n
        assert count_kinds(collection) == 0
        assert f"The kinds of {n} known pictures" in collection.refresh().notes[0]
        assert count_kinds(collection) == n
        assert collection.refresh().notes == []


def test_kinds_disappear_with_their_pictures_and_their_feature(pictures, tmp_path):
    with Collection(tmp_path / "c", create=True) as collection:
        n = collection.add(pictures, recipes=["deep", "color"]).added
        ids = [item.id for item in collection.items()]
        collection.remove(ids[0])
        collection.compact()
        assert count_kinds(collection) == n - 1
        assert ids[0] not in collection.kinds(ids)
        collection.remove_space("deep")
        assert collection.kinds(ids) == {}
        assert collection.verify() == []


def test_a_collection_without_the_network_has_no_kinds(pictures, tmp_path):
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(pictures, recipes="color")
        assert count_kinds(collection) == 0


def test_repair_recognizes_kinds_in_damaged_files_again(pictures, tmp_path):
    with Collection(tmp_path / "c", create=True) as collection:
        n = collection.add(pictures, recipes="deep").added
        (block,) = collection._store.vectors.blocks(collection._spaces.kinds.name)
        file = block.file
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    report = Collection.repair(tmp_path / "c")
    assert report.left == []
    with Collection(tmp_path / "c") as collection:
        assert count_kinds(collection) == n
        assert collection.verify() == []
