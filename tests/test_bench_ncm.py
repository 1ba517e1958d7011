"""The benchmark of learned metrics: splits, filled rows, and parameters chosen without the test set."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lookalike import cli
from lookalike.errors import SourceError, UnknownNameError
from lookalike_bench import datasets, ncm, tables, vectors
from lookalike_bench.ncm import METHODS, Method, choose, means
from lookalike_bench.vectors import TrainTest

CLASSES, EACH = 10, 40


def quiet(*_: object) -> None:
    """Ignore progress."""


def draw(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return classes in similar pairs that differ in eight columns, with four columns of large noise."""
    random = np.random.default_rng(seed)
    known = np.random.default_rng(99)
    kinds = 3 * np.repeat(known.normal(size=(CLASSES // 2, 8)), 2, axis=0)
    centres = np.concatenate([kinds + 1.2 * known.normal(size=(CLASSES, 8)), np.zeros((CLASSES, 4))], axis=1)
    y = np.arange(n) % CLASSES
    X = centres[y] + random.normal(size=(n, 12)) * ([1.0] * 8 + [9.0] * 4)
    return X.astype(np.float32), np.array([f"c{c}" for c in y])


GIVEN = TrainTest(*draw(CLASSES * EACH, 1), *draw(CLASSES * 30, 2))


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ncm, "_DONE", {})
    monkeypatch.setattr(ncm, "train_test", lambda *_: GIVEN)
    monkeypatch.setattr(ncm, "HELD_DIM", 6)


def error(row: str, column: str, data: Path = Path("x")) -> float:
    cell = tables.fill(ncm.BENCH, row, column, data)
    assert cell.low <= cell.value <= cell.high
    return cell.value


@pytest.fixture(scope="module")
def errors() -> dict[str, float]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ncm, "_DONE", {})
        rows = [row for row in METHODS if row not in ncm.ONLY or row == "ncmc-test"]
        found = {row: ncm.places(row, GIVEN, 6, 0, ("small",)) for row in rows}
    assert all(places.shape == (len(GIVEN.y_test),) for places in found.values())
    return {row: float(np.mean(places > 0)) for row, places in found.items()}


def test_rows_and_columns_match_the_papers_tables() -> None:
    rows = "ncm-l2 ncm-pca ncm-fda ncm-invcov ncmml ncmml-dot ncmc-10 second knn-l2 knn-pca lmnn lmnn-all lmnn-dynamic"
    usual = [row for row in ncm.BENCH.rows if row not in (*ncm.ONLY, *ncm.NEW_ROWS)]
    assert usual == [*rows.split(), "ridge", "wsabie", "jscl", "svm", "prior-l2", "prior-ncmml"]
    wanted = {"mnist/32", "mnist/512", "cifar10-fisher/256", "cifar10-deep/64", "corel5k-fisher/128", "corel5k-deep/64"}
    more = {"corel5k-deep/held-out", "corel5k-deep/new-1", "corel5k-deep/new-20", "ukbench2000/map"}
    assert wanted | more <= set(ncm.BENCH.columns)
    assert tables.load("ncm") is ncm.BENCH


def test_supervised_methods_ignore_uninformative_columns(errors: dict[str, float]) -> None:
    for row in ("ncm-fda", "ncmml", "ncmml-dot", "second", "lmnn", "lmnn-all", "lmnn-dynamic", "wsabie", "svm"):
        assert errors[row] < errors["ncm-l2"] - 0.1, row
    assert errors["ncmml"] <= errors["ncm-fda"] + 0.03
    assert errors["ncm-pca"] > errors["ncm-fda"]
    assert max(errors.values()) < 0.9  # chance level


def test_rows_of_full_length_are_computed_once_for_all_dimensions(monkeypatch: pytest.MonkeyPatch) -> None:
    first = error("ncm-l2", "mnist/32")
    monkeypatch.setattr(ncm, "choose", lambda *_: pytest.fail("computed again"))
    assert error("ncm-l2", "mnist/512") == first


def test_top_5_is_at_most_top_1() -> None:
    assert error("ncm-l2", "corel5k-deep/32-top5") < error("ncm-l2", "corel5k-deep/32")


@pytest.mark.parametrize("row", ["ncm-fda", "svm", "second", "ridge"])
def test_parameters_are_chosen_from_the_candidates_on_the_training_part_only(row: str) -> None:
    y = np.unique(GIVEN.y, return_inverse=True)[1]
    chosen = choose(METHODS[row], GIVEN.X, y, 6, 0)
    assert chosen in METHODS[row].candidates
    shuffled = GIVEN._replace(y_test=np.random.default_rng(0).permutation(GIVEN.y_test))
    right, wrong = (ncm.places(row, given, 6, 0, (key,)) for key, given in enumerate((GIVEN, shuffled)))
    assert np.mean(right > 0) < np.mean(wrong > 0)  # the same predictions, other true labels
    assert_array_equal(right[GIVEN.y_test == shuffled.y_test], wrong[GIVEN.y_test == shuffled.y_test])


def test_the_candidate_with_the_fewest_errors_on_held_out_rows_wins() -> None:
    y = np.unique(GIVEN.y, return_inverse=True)[1]
    asked = []

    def classify(X, y, C):
        score = means(X, y)

        def scorer(rows):
            asked.append(len(rows))
            return C * score(rows)  # with a negative C, the farthest class wins

        return scorer

    fake = Method(classify, candidates=({"C": -1.0}, {"C": 1.0}, {"C": 2.0}))
    assert choose(fake, GIVEN.X, y, 6, 0) == {"C": 1.0}
    assert asked == [len(y) // 5] * 3


@pytest.mark.parametrize("row", ["ncm-l2", "ncm-fda", "ncmml", "lmnn-dynamic", "second"])
def test_metrics_are_tested_on_classes_they_did_not_learn_from(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    learn = type(METHODS[row]).learn

    def spy(self, X, y, dim, seed, **params):
        seen.append((len(X), len(np.unique(y))))
        return learn(self, X, y, dim, seed, **params)

    monkeypatch.setattr(type(METHODS[row]), "learn", spy)
    out = ncm.held_out(row, GIVEN, 6, 0, seen_all=False)
    assert seen[-1] == (8 * EACH, 8)
    assert len(out) == 2 * 30
    ncm.held_out(row, GIVEN, 6, 0, seen_all=True)
    assert seen[-1] == (10 * EACH, 10)


def test_a_metric_learned_from_other_classes_is_better_than_none() -> None:
    assert error("ncmml", "corel5k-deep/held-out") < error("ncm-l2", "corel5k-deep/held-out") - 5


def test_more_pictures_of_a_new_class_help_and_a_prior_helps_with_few() -> None:
    plain = [error("ncmml", f"corel5k-deep/new-{n}") for n in (1, 20)]
    prior = error("prior-ncmml", "corel5k-deep/new-1")
    assert plain[1] < plain[0]
    assert prior < plain[0]


def test_methods_have_only_the_columns_that_fit_them() -> None:
    plan = tables.plan(ncm.Bench("x", "y", ncm.ROWS, tuple(ncm.COLUMNS), ncm.run, has=ncm.has), "x")
    assert ("svm", "corel5k-deep/held-out") not in plan
    assert ("prior-l2", "mnist/64") not in plan
    assert {("svm", "mnist/64"), ("prior-l2", "corel5k-deep/new-1"), ("jscl", "ukbench2000/map")} <= set(plan)


def test_the_papers_tables_have_its_rows_and_results() -> None:
    tables_of_it = {place for place in ncm.BENCH.places() if "fisher" in place[1]}
    assert all(ncm.paper(*place).value is not None and ncm.paper(*place).unlike for place in tables_of_it)
    figures = {
        ("svm", "corel5k-fisher/full-top5"): 38.2,
        ("ncmml", "corel5k-fisher/512-top5"): 37.0,
        ("lmnn-20", "corel5k-fisher/128-top5"): 50.4,
        ("ncmc-15", "corel5k-fisher/256-top5"): 35.3,
        ("ncmml", "corel5k-fisher/held-out-256-top5"): 40.4,
        ("jscl", "ukbench2000-fisher/4r4-512"): 3.36,
    }
    assert {place: ncm.paper(*place).value for place in figures} == figures
    assert ("svm", "corel5k-fisher/128-top5") not in tables_of_it
    assert ncm.paper("ncmml", "corel5k-deep/new-1").value is None  # Fig. 9 is a plot without published values
    assert ncm.paper("ncmml", "mnist/64") == tables.PaperFigure()


@pytest.mark.parametrize("row", ["ncm-l2", "ncm-fda", "ncmml"])
def test_retrieval_learns_from_another_dataset(row: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {
        "corel5k-deep": (GIVEN.X, GIVEN.y, GIVEN.y),
        "ukbench2000-deep": (GIVEN.X_test[:40], GIVEN.y_test[:40], GIVEN.y_test[:40]),
    }
    monkeypatch.setattr(ncm, "unit_vectors", lambda name, *_: found[name])
    assert 0.2 < error(row, "ukbench2000/map") <= 1
    assert 1 <= error(row, "ukbench2000/4r4") <= 4


def test_rows_without_projection_have_cells_in_the_papers_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    found = dict.fromkeys(("corel5k-fisher", "ukbench2000-fisher"), (GIVEN.X_test, GIVEN.y_test, GIVEN.y_test))
    monkeypatch.setattr(ncm, "unit_vectors", lambda name, *_: found[name])
    first = error("ncm-l2", "corel5k-fisher/full-top5")
    assert 0 <= first <= error("ncm-l2", "mnist/32")  # the top-5 error is at most the top-1 error
    assert 0 <= error("knn-l2", "corel5k-fisher/held-out-128-top5") <= 100
    assert 0 <= error("svm", "corel5k-fisher/held-in-128-top5") <= 100
    assert 1 <= error("ncm-l2", "ukbench2000-fisher/4r4-128") <= 4


def test_halves_are_stratified_and_reproducible() -> None:
    y = np.array(["b"] * 5 + ["a"] * 4)
    first, second = vectors.halves(y)
    assert_array_equal(np.sort(np.concatenate([first, second])), np.arange(9))
    assert sorted(y[first]) == ["a", "a", "b", "b", "b"]
    assert_array_equal(first, vectors.halves(y)[0])


def write_mnist(folder: Path, n: int = 60) -> None:
    (folder / "mnist").mkdir()
    random = np.random.default_rng(0)
    for part, rows in (("train", n), ("t10k", n // 2)):
        digits = (np.arange(rows) % 3).astype(np.uint8)
        pixels = random.integers(0, 40, (rows, 784)).astype(np.uint8) + 200 * (np.arange(784) % 3 == digits[:, None])
        for name, head, body in (("images-idx3", 16, pixels), ("labels-idx1", 8, digits)):
            payload = bytes(head) + body.astype(np.uint8).tobytes()
            (folder / "mnist" / f"{part}-{name}-ubyte.gz").write_bytes(gzip.compress(payload))


def test_the_command_fills_a_cell_from_files(tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setattr(ncm, "train_test", vectors.train_test)
    write_mnist(tmp_path)
    words = ["bench", "run", "ncm", "--data", str(tmp_path), "--columns", "mnist/32", "--rows", "ncm-l2", "--json"]
    assert cli.run(words) == 0
    cell = json.loads(capsys.readouterr().out)
    assert (cell["measure"], cell["value"], cell["scored"]) == ("top-1 error %", 0.0, 30)
    given = vectors.train_test("mnist", tmp_path)
    assert given.X.shape == (60, 784)
    assert given.X_test.shape == (30, 784)


def test_cifar_has_its_training_and_test_part(tmp_path, monkeypatch) -> None:
    (tmp_path / "cifar10").mkdir()
    images = np.random.default_rng(0).integers(0, 255, (6, 8, 8, 3)).astype(np.uint8)
    arrays = {"x_train": images[:4], "y_train": [0, 1, 0, 1], "x_test": images[4:], "y_test": [1, 0]}
    np.savez(tmp_path / "cifar10" / "cifar10_12k.npz", **arrays)
    monkeypatch.setattr(
        "lookalike_bench.vectors._make",
        lambda dataset, *_: {"X": np.eye(6, dtype=np.float32), "names": np.array(sorted(dataset.labels, reverse=True))},
    )
    given = vectors.train_test("cifar10-deep", tmp_path)
    assert given.y.tolist() == ["0", "1", "0", "1"]
    assert given.y_test.tolist() == ["1", "0"]
    assert {len(given.X), len(given.X_test)} == {4, 2}


def test_a_missing_dataset_is_an_error_before_the_first_cell(tmp_path) -> None:
    with pytest.raises(SourceError, match="No dataset mnist in"):
        tables.plan(ncm.BENCH, tmp_path, columns=["mnist/64"])
    with pytest.raises(SourceError, match="No dataset ukbench2000 in"):
        tables.plan(ncm.BENCH, tmp_path, columns=["ukbench2000/map"])
    with pytest.raises(UnknownNameError):
        vectors.train_test("mnist-deep", tmp_path)
    write_mnist(tmp_path)
    (tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(SourceError, match="t10k-labels"):
        datasets.mnist(tmp_path, test=True)
