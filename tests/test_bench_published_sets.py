"""Published datasets in their usual layout on disk, and their protocols."""

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from lookalike.errors import SourceError, UnknownNameError
from lookalike_bench import retrieval, tables
from lookalike_bench.published_sets import SETS, SetQuery, load

pytestmark = pytest.mark.usefixtures("read_here")

RANDOM = np.random.default_rng(0)


def draw(*paths: Path) -> None:
    """Write a small picture of a different colour to each path."""
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30), tuple(RANDOM.integers(0, 256, 3).tolist())).save(path)


def test_holidays_queries_are_the_first_of_each_group(tmp_path):
    draw(*(tmp_path / "holidays/jpg" / f"{number}.jpg" for number in (100000, 100001, 100002, 100100, 100101)))
    given = load("holidays", tmp_path)
    assert given.queries == [
        SetQuery(0, None, frozenset({1, 2}), frozenset({0})),
        SetQuery(3, None, frozenset({4}), frozenset({3})),
    ]


def test_ukbench_counts_the_query_itself(tmp_path):
    draw(*(tmp_path / "ukbench/full" / f"ukbench{number:05d}.jpg" for number in range(8)))
    given = load("ukbench", tmp_path)
    assert [one.relevant for one in given.queries[:5:4]] == [frozenset(range(4)), frozenset(range(4, 8))]


@pytest.mark.parametrize(("name", "prefix"), [("oxford5k", "oxc1_"), ("oxford105k", "oxc1_"), ("paris6k", "")])
def test_landmark_queries_have_boxes_and_three_lists(tmp_path, name, prefix):
    home = tmp_path / name
    draw(*(home / "images" / f"all_souls_{number}.jpg" for number in range(6)))
    lists = {"query": f"{prefix}all_souls_0 10.5 5 30 25", "good": "all_souls_1\nall_souls_2", "ok": "all_souls_3"}
    for kind, text in {**lists, "junk": "all_souls_4\n"}.items():
        (home / f"all_souls_1_{kind}.txt").write_text(text)
    (asked,) = load(name, tmp_path).queries
    assert asked == SetQuery(0, (10.5, 5, 30, 25), frozenset({1, 2, 3}), frozenset({4}))


def test_class_folders_and_caltech(tmp_path):
    draw(tmp_path / "corel/beach/1.jpg", tmp_path / "corel/bus/2.jpg")
    draw(tmp_path / "caltech101/101_ObjectCategories/ant/image_0001.jpg")
    draw(tmp_path / "caltech101/101_ObjectCategories/BACKGROUND_Google/image_0001.jpg")
    assert load("corel", tmp_path).labels == [{"beach"}, {"bus"}]
    assert load("caltech101", tmp_path).labels == [{"ant"}]


def test_coil_files_are_named_by_object_and_angle(tmp_path):
    draw(*(tmp_path / "coil100-pictures" / name for name in ("obj1__0.png", "obj1__5.png", "obj10__0.png")))
    assert load("coil100-pictures", tmp_path).labels == [{"10"}, {"1"}, {"1"}]
    draw(tmp_path / "coil100-pictures/other.png")
    with pytest.raises(SourceError, match=r"other\.png is not named"):
        load("coil100-pictures", tmp_path)


@pytest.mark.parametrize(("name", "labels"), [("cifar10-binary", 1), ("cifar100-binary", 2)])
def test_cifar_binaries_are_records(tmp_path, name, labels):
    home = tmp_path / name / "unpacked"
    home.mkdir(parents=True)
    records = RANDOM.integers(0, 2, (6, labels + 3072), np.uint8)
    train, test, names = {
        "cifar10-binary": ("data_batch_1.bin", "test_batch.bin", "batches.meta.txt"),
        "cifar100-binary": ("train.bin", "test.bin", "fine_label_names.txt"),
    }[name]
    (home / train).write_bytes(records[:4].tobytes())
    (home / test).write_bytes(records[4:].tobytes())
    (home / names).write_text("cat\ndog\n")
    given = load(name, tmp_path)
    assert given.labels == [{("cat", "dog")[code]} for code in records[:, labels - 1]]
    assert given.test.tolist() == [False] * 4 + [True] * 2
    assert_array_equal(given.pictures[5][3, 7], records[5, labels:].reshape(3, 32, 32)[:, 3, 7])
    (home / test).write_bytes(b"cut off")
    with pytest.raises(SourceError, match=f"is not the dataset {name}"):
        load(name, tmp_path)


def test_mirflickr_has_one_list_per_word(tmp_path):
    home = tmp_path / "mirflickr"
    draw(*(home / f"im{number}.jpg" for number in (1, 2, 10)))
    (home / "annotations").mkdir()
    (home / "annotations/sky.txt").write_text("1\n10\n")
    (home / "annotations/sky_r1.txt").write_text("10\n")
    (home / "annotations/README.txt").write_text("1 2")
    assert load("mirflickr", tmp_path).labels == [{"sky"}, set(), {"sky", "sky_r1"}]


def test_nuswide_has_one_line_per_picture(tmp_path):
    home = tmp_path / "nuswide"
    for folder in ("ImageList", "TrainTestLabels"):
        (home / folder).mkdir(parents=True)
    for part, names in (("Train", "a\\1.jpg\nb\\2.jpg\n"), ("Test", "a\\3.jpg\n")):
        (home / f"ImageList/{part}Imagelist.txt").write_text(names)
        (home / f"TrainTestLabels/Labels_sky_{part}.txt").write_text("1\n" * names.count("\n"))
    (home / "TrainTestLabels/Labels_sea_Train.txt").write_text("0 \n1 \n")
    given = load("nuswide", tmp_path)
    assert given.labels == [{"sky"}, {"sky", "sea"}, {"sky"}]
    assert given.test.tolist() == [False, False, True]
    assert given.pictures[0] == home / "Flickr/a/1.jpg"
    (home / "TrainTestLabels/Labels_sea_Test.txt").write_text("0\n0\n")
    with pytest.raises(SourceError, match="has 2 lines for 1 pictures"):
        load("nuswide", tmp_path)


def test_the_error_for_a_missing_dataset_describes_the_expected_files(tmp_path):
    with pytest.raises(UnknownNameError, match="No dataset named"):
        load("holiday", tmp_path)
    for name in SETS:
        with pytest.raises(SourceError, match=f"No dataset {name} in .*Expected"):
            load(name, tmp_path)
        (tmp_path / name).mkdir()
        with pytest.raises(SourceError, match="Expected"):
            load(name, tmp_path)


def test_a_benchmark_runs_the_papers_protocols(tmp_path):
    shades = np.repeat([[200, 30, 30], [30, 30, 200]], 4, axis=0)
    for number, shade in enumerate(shades):
        pixels = (shade + RANDOM.integers(0, 20, (30, 40, 3))).clip(0, 255).astype(np.uint8)
        for path in (
            f"ukbench/ukbench{number:05d}.png",
            f"oxford5k/tower_{number}.png",
            f"corel/{number // 4}/{number}.png",
        ):
            (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels).save(tmp_path / path)
    lists = {"query": "oxc1_tower_0 0 0 20 30", "good": "tower_1", "ok": "tower_2", "junk": "tower_0 tower_3"}
    for kind, text in lists.items():
        (tmp_path / f"oxford5k/tower_1_{kind}.txt").write_text(text)
    for column, measure, value in (("ukbench", "4·recall@4", 4), ("oxford5k", "mAP", 1), ("corel", "mAP", 1)):
        tables.plan(retrieval.BENCH, tmp_path, rows=["color"], columns=[column])
        cell = tables.fill(retrieval.BENCH, "color", column, tmp_path)
        assert (cell.measure, cell.value) == (measure, value)
