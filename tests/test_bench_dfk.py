"""The benchmark of Fisher kernels: splits, measures, words, and every row on data that is easy to separate."""

import io
import json
import tarfile
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from lookalike import cli
from lookalike.errors import SourceError
from lookalike.features.sift import OpponentSift
from lookalike.learn.dfk import Dfk
from lookalike.learn.fess import Fess, Pd
from lookalike.learn.sets import Sets
from lookalike_bench import dfk, tables, vectors

random = np.random.default_rng(0)
Y = np.arange(60) % 3
SETS = Sets(
    (random.normal(size=(60, 8, 4)) + 3 * np.eye(4)[Y][:, None]).reshape(-1, 4).astype(np.float32), np.arange(0, 481, 8)
)
NAMES = np.array(["00_africa", "01_beach", "02_buildings"])[Y]
WORDS = np.stack([Y == 0, Y == 1, Y == 2, random.random(60) < 0.3], axis=1).astype(np.int64)
SMALL = {
    "fisher": lambda seed: Dfk(k=3, max_iterations=0, random_state=seed),
    "fess": lambda seed: Fess(k=3, random_state=seed),
    "pd": lambda seed: Pd(k=3, random_state=seed),
    "dfk": lambda seed: Dfk(k=3, max_iterations=10, random_state=seed),
}


def few(make):
    """Return the same metric with few pairs and steps."""

    def made(seed, **options):
        part = make(seed, **options)
        for name, most in (("pairs", 300), ("triplets", 300), ("max_iterations", 50)):
            if hasattr(part, name):
                setattr(part, name, most)
        return part

    return made


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(dfk, "_DONE", {})
    monkeypatch.setattr(dfk, "SPLITS", 2)
    monkeypatch.setattr(dfk, "SCORES", SMALL)
    quick = {name: replace(one, make=few(one.make), candidates=one.candidates[:2]) for name, one in dfk.METRICS.items()}
    monkeypatch.setattr(dfk, "METRICS", quick)
    monkeypatch.setattr(dfk, "_PATCH_SETS", {})

    def load(wanted, *_):
        X = SETS.rows.reshape(60, 8, 4).mean(axis=1) if wanted.kind == "deep" else SETS
        return X, WORDS if wanted.words else Y, NAMES

    monkeypatch.setattr(dfk, "_load", load)


def fill(row, column, data="x"):
    return tables.fill(dfk.BENCH, row, column, data)


@pytest.mark.parametrize("row", dfk.ROWS)
def test_every_row_separates_easy_classes(row):
    cell = fill(row, "corel1k")
    assert cell.value > 0.8  # chance is 0.4
    assert cell.low <= cell.value <= cell.high
    assert cell.scored == 2 * 18 * 17
    assert cell.measure == "mAP@20"
    assert cell.paper == dfk.PAPER["corel1k"].get(row)
    words = fill(row, "corel5k-words")
    assert words.value > 0.6  # chance is 0.4
    assert words.measure == "mAP"


def test_rows_and_cells_include_those_of_the_paper():
    plan = tables.plan(dfk.Bench("x", "y", dfk.ROWS, tuple(dfk.COLUMNS), dfk.run, has=dfk.has), "x")
    rows = ["euclidean", "fisher", "mmc", "rca", "dca", "sdpm", "dml-eig", "lmnn", "nca", "fess", "pd", "dfk"]
    assert list(dfk.ROWS) == rows
    assert {(row, column) for row in rows for column in ("corel1k", "corel5k", "corel5k-words")} <= set(plan)
    assert ("fess", "corel1k-scores") not in plan
    assert ("dfk", "corel1k-scores") in plan


def test_the_mean_over_class_columns_equals_the_overall_value():
    each = [fill("euclidean", f"corel1k/{name}").value for name in ("africa", "beach", "buildings")]
    assert np.mean(each) == pytest.approx(fill("euclidean", "corel1k").value)


@pytest.mark.parametrize("column", ["corel1k-scores", "corel5k-deep"])
def test_metrics_can_start_from_scores_or_deep_vectors(column):
    assert fill("dca", column).value > 0.8


def test_splits_are_stratified_and_test_labels_are_not_used():
    train, test = dfk.split(Y, 0.3, 0)
    assert np.bincount(Y[test]).tolist() == [6, 6, 6]
    assert set(train) | set(test) == set(range(60))
    wrong = Y.copy()
    wrong[test] = 0  # learning must not depend on the labels of the test set
    for row in ("dfk", "dca", "mmc"):
        found = [dfk.embed(row, SETS, y, train, test, 0, "sets", (row, str(i))) for i, y in enumerate((Y, wrong))]
        np.testing.assert_array_equal(*found)


def test_truncated_precision_is_zero_without_hits_and_nan_without_relevant_rows():
    Z = np.array([[0.0], [1.0], [1.1], [5.0], [9.0]])
    y = np.array([0, 1, 1, 0, 2])
    np.testing.assert_allclose(dfk.precisions(Z, y, 1), [0, 1, 1, 0, np.nan])
    np.testing.assert_allclose(dfk.precisions(Z, y, None), [1 / 3, 1, 1, 1 / 4, np.nan])
    several = np.array([[1, 0], [1, 1], [0, 1], [0, 1], [0, 0]])
    np.testing.assert_allclose(dfk.precisions(Z, several, 1), [1, 1, 1, 1, np.nan])


def test_similar_pairs_share_a_label_and_dissimilar_pairs_share_none():
    alike, unlike = dfk.draw_pairs(WORDS, 50, np.random.default_rng(0))
    assert len(alike) == len(unlike) == 50
    assert ((WORDS[alike[:, 0]] * WORDS[alike[:, 1]]).sum(axis=1) > 0).all()
    assert ((WORDS[unlike[:, 0]] * WORDS[unlike[:, 1]]).sum(axis=1) == 0).all()
    assert (alike[:, 0] != alike[:, 1]).all()
    first, second = dfk.draw_pairs(WORDS, 50, np.random.default_rng(0), same_first=True)
    np.testing.assert_array_equal(first[:, 0], second[:, 0])


def add(tar, name, payload):
    member = tarfile.TarInfo(name)
    member.size = len(payload)
    tar.addfile(member, io.BytesIO(payload))


def write_corel5k(folder, words=True):
    (folder / "corel5k").mkdir()
    random = np.random.default_rng(0)
    with tarfile.open(folder / "corel5k" / "corel5k.tar", "w") as tar:
        lines = []
        for i in range(20):
            pixels = random.integers(0, 256, (40, 48, 3), np.uint8)
            pixels[:: 2 + 3 * (i % 2)] = 0
            Image.fromarray(pixels).save(jpeg := io.BytesIO(), "jpeg")
            add(tar, f"train/{i % 2}/{i}.jpeg", jpeg.getvalue())
            lines.append(f"{i} {1 + i % 2} {3 + i % 3}  ")
        if words:
            add(tar, "labels/training_label", "\n".join(lines).encode())
            add(tar, "labels/test_label", b"99 1\n")
            add(tar, "labels/words", b"one two three four five")


def test_the_command_reads_pictures_and_words_and_caches_descriptors(tmp_path, capsys, monkeypatch):
    monkeypatch.undo()
    monkeypatch.setattr(dfk, "SPLITS", 2)
    monkeypatch.setattr(dfk, "_DONE", {})
    write_corel5k(tmp_path)
    words = ["bench", "run", "dfk", "--data", str(tmp_path), "--columns", "corel5k,corel5k-words"]
    words += ["--rows", "euclidean", "--json", "--keep", str(tmp_path / "kept")]
    assert cli.run(words) == 0
    classes, several = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert classes["value"] == 1  # two kinds of stripes
    assert 0.5 < several["value"] < 1
    found = dfk.describe_patches("corel5k", tmp_path, lambda *_: None)
    assert found.sets.shape == (20, 64)
    assert found.names.tolist() == sorted(found.names)
    y = dfk.load_words(found.names, tmp_path)
    assert y.shape == (20, 5)
    assert y.sum(axis=1).tolist() == [2] * 20
    monkeypatch.setattr(dfk, "_PATCH_SETS", {})
    monkeypatch.setattr(dfk, "_make_patches", None)  # must not be called, because the cache has the descriptors
    with vectors.caching(tmp_path / "kept"):
        again = dfk.describe_patches("corel5k", tmp_path, lambda *_: None)
    np.testing.assert_array_equal(again.sets.rows, found.sets.rows)


def test_a_picture_has_a_limited_and_reproducible_sample_of_patches(monkeypatch):
    monkeypatch.setattr(dfk, "PATCHES", 30)
    picture = np.random.default_rng(0).integers(0, 256, (60, 80, 3), np.uint8)
    local = dfk.SomePatches(points="both")
    rows, places = local.prepare(picture)
    assert rows.shape == (30, 384)
    assert places.shape == (30, 2)
    np.testing.assert_array_equal(rows, local.prepare(picture)[0])
    every = {row.tobytes() for row in OpponentSift(points="both").prepare(picture)[0]}
    assert {row.tobytes() for row in rows} <= every


def test_missing_datasets_and_words_are_errors(tmp_path):
    with pytest.raises(SourceError, match="No dataset corel5k in"):
        tables.plan(dfk.BENCH, tmp_path, columns=["corel5k"])
    write_corel5k(tmp_path, words=False)
    with pytest.raises(SourceError, match=r"Cannot read the words of .*labels/training_label"):
        dfk.load_words(np.array(["train/0/0.jpeg"]), tmp_path)
