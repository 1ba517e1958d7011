"""Features that must be fitted: the pictures in their sample, and the effects on their collection."""

import shutil

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection
from lookalike.collection import fitting
from lookalike.collection.fitting import draw_sample, fit_feature
from lookalike.errors import InputError, SourceError, StoreError
from lookalike.images.sources import Entry, walk
from lookalike.registry import create
from lookalike.types import silent

pytestmark = pytest.mark.usefixtures("read_here")

VLAD = "vlad(local='sift()', k=4)"
RECIPE = f"words = {VLAD} | pca(dim=8) | l2()"


def entries(names, size=10, data=None):
    return [Entry(f"/somewhere/{name}", size, 0, data=data) for name in names]


def test_the_sample_does_not_depend_on_folders_or_the_order_of_files():
    names = [f"{i}.jpg" for i in range(200)]
    there = draw_sample(entries(names), 20)
    elsewhere = draw_sample(reversed([Entry(f"/else/where/{name}", 10, 7) for name in names]), 20)
    assert [entry.path[-6:] for entry in there] == [entry.path[-6:] for entry in elsewhere]
    assert len(there) == 20
    assert {entry.path for entry in draw_sample(entries(names), 30)} > {entry.path for entry in there}
    assert len(draw_sample(entries(names[:5]), 20)) == 5
    assert draw_sample([], 20) == []


def test_files_with_the_same_name_are_distinguished_by_size_and_place():
    same = [Entry(f"/{folder}/a.jpg", 10, 0) for folder in "abc"]
    for n in (1, 2):
        assert draw_sample(same, n) == draw_sample(same[::-1], n)
    assert (
        len({draw_sample([Entry("/x/a.jpg", size, 0), Entry("/x/b.jpg", 5, 0)], 1)[0].path for size in range(20)}) == 2
    )


def test_a_sample_of_compressed_archives_is_bounded_in_bytes(monkeypatch):
    monkeypatch.setattr(fitting, "CARRIED_BYTES", 350)
    listed = entries([f"{i}.jpg" for i in range(50)], data=b"x" * 100)
    assert len(draw_sample(listed, 20)) == 3
    assert draw_sample(listed, 20) == draw_sample(reversed(listed), 20)
    uneven = [Entry(f"/x/{i}.jpg", 10, 0, data=b"x" * (40 * (i % 7) + 1)) for i in range(50)]
    for start in range(50):  # an entry dropped for a large one does not return with a small one
        assert draw_sample(uneven[start:] + uneven[:start], 20) == draw_sample(uneven, 20)


def test_a_file_in_two_sources_is_sampled_once():
    listed = entries(["a.jpg", "b.jpg"])
    assert draw_sample([*listed, *listed], 20) == draw_sample(listed, 20)


@pytest.mark.usefixtures("reading_processes")
def test_fitting_gives_the_same_bytes_for_any_number_of_processes(pictures):
    sample = draw_sample(walk([pictures], on_skip=print), 16)
    features = [create("feature", VLAD) for _ in range(2)]
    for feature, workers in zip(features, (1, 3), strict=True):
        assert fit_feature(feature, sample, silent, workers) == 16
    prepared = [features[0].prepare(np.asarray(Image.open(next(pictures.rglob("*.jpg")))))]
    assert features[0].describe(prepared).tobytes() == features[1].describe(prepared).tobytes()


def test_a_feature_is_not_fitted_without_readable_pictures(tmp_path):
    (tmp_path / "broken.jpg").write_bytes(b"no picture")
    assert fit_feature(create("feature", VLAD), draw_sample(walk([tmp_path], on_skip=print)), silent, 1) == 0


def test_a_fitted_feature_is_saved_with_its_space(collection, pictures):
    report = collection.add(pictures / "fish", recipes=[RECIPE])
    assert "was fitted on only 4 pictures" in report.notes[0]
    assert collection.stats()["spaces"][0]["feature_fitted_on"] == 4
    with Collection(collection.path) as again:  # as in another process
        second = again.add(pictures / "house")
        assert second.notes == []  # the vocabulary exists
        fish = pictures / "fish" / "fish-000.jpg"
        assert again.search(fish, k=1)[0].path == str(fish)
        outside = np.asarray(Image.open(fish))[:, ::-1]
        assert {result.path.split("/")[-2] for result in again.search(outside, k=1)} == {"fish"}
        assert again.verify() == []
        again.fit("words")
        assert again.search(fish, k=1)[0].score < 1e-6


def test_a_new_vocabulary_recomputes_the_vectors_of_every_picture(collection, pictures, tmp_path):
    shutil.copytree(pictures / "fish", tmp_path / "pictures")
    collection.add(tmp_path / "pictures", recipes=[RECIPE, "color"])
    before, colors = collection.vectors("words")[1], collection.vectors("color")[1]
    shutil.copytree(pictures / "house", tmp_path / "pictures" / "house")
    collection.refresh()
    assert collection.fit(features=True) == {"words": 8}
    assert collection.stats()["spaces"][0]["feature_fitted_on"] == 8
    assert collection.vectors("words")[1].shape == (8, 7)
    assert before.shape == (4, 512)
    assert len(collection.vectors("color")[1]) == 8
    assert colors.shape[1] == collection.vectors("color")[1].shape[1]
    assert collection.verify() == []


def test_a_new_vocabulary_needs_pictures(collection, pictures, tmp_path):
    shutil.copytree(pictures / "fish", tmp_path / "pictures")
    collection.add(tmp_path / "pictures", recipes=[RECIPE])
    shutil.rmtree(tmp_path / "pictures")
    with pytest.raises(SourceError, match="Is its disk mounted"):
        collection.fit(features=True)
    assert len(collection.vectors("words")[1]) == 4


def test_a_folder_of_broken_files_is_reported_not_raised(collection, tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "broken.jpg").write_bytes(b"no picture")
    assert len(collection.add(tmp_path / "pictures", recipes=[RECIPE]).skipped) == 1


def test_too_few_patches_delay_only_that_space(collection, tmp_path, pictures):
    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (8, 8), "red").save(tmp_path / "pictures" / "tiny.png")
    with pytest.raises(InputError, match="at least 4 patches"):
        collection.add(tmp_path / "pictures", recipes=[RECIPE])
    report = collection.add(tmp_path / "pictures", recipes=["color"])
    assert "is not fitted yet" in report.notes[0]
    assert len(collection.vectors("color")[0]) == 1
    collection.add(pictures / "fish")  # now there are enough patches, and missing vectors are added
    collection.refresh()
    assert len(collection.vectors("words")[0]) == 5


def test_an_invalid_vocabulary_is_rejected_before_anything_is_written(collection, pictures):
    with pytest.raises(InputError, match="patch_dim must be at most 96"):
        collection.add(pictures / "fish", recipes=["mine = fisher(patch_dim=100)"])
    assert collection.stats()["spaces"] == []


def test_refitting_one_feature_does_not_change_other_spaces(collection, pictures):
    collection.add(pictures / "fish", recipes=["words = vlad(k=2)", "small = color() | pca(dim=2)"])
    assert collection.fit("words", features=True) == {"words": 4}
    assert collection.stats()["spaces"][1]["state"] == "raw"


def test_a_fitted_space_is_refitted_with_its_feature(collection, pictures):
    collection.add(pictures / "fish", recipes=[RECIPE, f"more = {VLAD} | pca(dim=2)"])
    collection.fit("words", "more")
    assert collection.fit("words", features=True) == {"words": 4, "more": 4}
    assert [space["state"] for space in collection.stats()["spaces"]] == ["fitted", "fitted"]


def test_a_space_is_removed_with_its_vocabulary_unless_another_needs_it(collection, pictures):
    collection.add(pictures / "fish", recipes=["color", RECIPE, f"more = {VLAD}"])
    collection.remove_space("words")
    assert [space["name"] for space in collection.stats()["spaces"]] == ["color", "more"]
    assert len(collection.vectors("more")[0]) == 4
    collection.remove_space("more")
    assert list((collection.path / "models").iterdir()) == []
    assert len(collection) == 4
    assert collection.verify() == []
    with pytest.raises(InputError, match="No space named 'words'"):
        collection.remove_space("words")


def test_the_command_in_the_error_refits_a_lost_vocabulary(collection, pictures):
    collection.add(pictures / "fish", recipes=[RECIPE])
    next((collection.path / "models").iterdir()).unlink()
    with Collection(collection.path) as again, pytest.raises(StoreError, match="Run: lookalike repair"):
        again.search(np.zeros((20, 20, 3), np.uint8))
    assert Collection.repair(collection.path).left == []
    with Collection(collection.path) as again:
        assert again.search(np.zeros((20, 20, 3), np.uint8))
        assert again.verify() == []


def test_a_path_inside_an_inner_spec_becomes_absolute(tmp_path, monkeypatch):
    from lookalike.collection.specs import parse_recipe

    monkeypatch.chdir(tmp_path)
    _, (spec,) = parse_recipe("mine = vlad(local='sift()')")
    assert spec == "vlad(local='sift()')"
    _, (spec,) = parse_recipe("mine = join(parts=['onnx(path=\"net.onnx\")', 'hsv()'])")
    assert f"{tmp_path}/net.onnx" in spec
