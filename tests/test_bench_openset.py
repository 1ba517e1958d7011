"""The benchmark of open sets: splits, measures and rules."""

from pathlib import Path

import numpy as np
import pytest

from lookalike_bench import openset, tables
from lookalike_bench.measures import calibration_error
from lookalike_bench.vectors import Rows

random = np.random.default_rng(8)
CLASSES, EACH = 24, 20
NAMES = np.array([f"c{c:02d}" for c in np.repeat(np.arange(CLASSES), EACH)])
X = np.repeat(random.normal(size=(CLASSES, 30)), EACH, axis=0) + random.normal(size=(CLASSES * EACH, 30)) * 1.2
ROWS = Rows((X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), NAMES, NAMES)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openset, "_DONE", {})
    monkeypatch.setattr(openset, "unit_vectors", lambda *_: ROWS)
    monkeypatch.setattr(openset, "REPEATS", 4)
    monkeypatch.setattr(openset, "DIM", 12)


def value(row: str, column: str) -> float:
    cell = tables.fill(openset.BENCH, row, column, Path("x"))
    assert cell.low <= cell.value <= cell.high
    return cell.value


def test_every_rule_separates_strangers_and_keeps_own_pictures() -> None:
    for row in openset.RULES:
        assert value(row, "corel1k/auroc-5") > 0.65
        assert value(row, "corel1k/own-5") < 0.25
        assert value(row, "corel1k/strangers-5") > value(row, "corel1k/own-5")


def test_probabilities_that_include_strangers_are_better() -> None:
    assert value("ncm", "corel1k/ece-5") < value("before", "corel1k/ece-5") / 1.5
    assert value("ncm", "corel1k/ece-noise-5") < 0.3
    assert not openset.BENCH.has("energy", "corel1k/ece-5")


def test_curves_rise() -> None:
    curve = [value("ncm", f"corel5k/rejected-{share}") for share in openset.CURVE]
    assert curve == sorted(curve)
    assert value("ncm", "corel5k/right-85") > value("ncm", "corel5k/right-25")


def test_trials_contain_every_picture_once_and_the_asked_share_of_wrong_labels() -> None:
    y = np.unique(NAMES, return_inverse=True)[1]
    (one, *_) = openset.trials(ROWS.X, y, 5, 0.0, seed=0)
    assert len(one.X) == 5 * CLASSES // 2
    assert len(one.X) + len(one.queries) == len(y)
    assert sorted(set(one.truth.tolist())) == [-1, *range(CLASSES // 2)]
    (noisy, *_) = openset.trials(ROWS.X, y, 5, 1.0, seed=0)
    assert (noisy.y != one.y).all()


def test_calibration_error_of_perfect_and_of_constant_probabilities() -> None:
    chances = random.random(20_000)
    assert calibration_error(chances, random.random(20_000) < chances) < 0.02
    assert calibration_error(np.full(4, 0.9), [True, False, False, False]) == pytest.approx(0.65)
