"""The comparison with other libraries, on few rows: both sides compute the same results. Times are not checked."""

import sys

import numpy as np
import pytest

from lookalike import cli
from lookalike.errors import MissingError, SourceError
from lookalike.index import threads
from lookalike_bench import feedback, hyperplane, peers, search_peers, side_by_side, tables
from lookalike_bench.datasets import LabelledVectors
from lookalike_bench.peers import BENCH
from lookalike_bench.side_by_side import Place, in_turns, one_thread

FAKE = """
import numpy as np

class LMNN:
    def __init__(self, n_neighbors, n_components, init):
        self.d = n_components

    def fit(self, X, y):
        assert len(X) == len(y)
        self.components_ = np.eye(self.d, X.shape[1])

NCA = RCA = None
"""


@pytest.fixture
def small(monkeypatch, tmp_path):
    for module, name, value in (
        (side_by_side, "N", 2_400),
        (side_by_side, "LEARNED", 240),
        (side_by_side, "SPLITS", 1),
        (hyperplane, "CLUSTERS", 12),
        (search_peers, "TURNS", 2),
        (search_peers, "BATCHES", 1),
        (search_peers, "CODES", 3_000),
        (search_peers, "TUNING_QUERIES", 3),
        (search_peers, "PLANE_TURNS", 1),
        (search_peers, "PLANE_TUNING", 1),
        (peers, "CLASSIFIED", 600),
        (peers, "TURNS", 1),
        (peers, "ENCODED", 12),
        (peers, "METRIC_LEARN", tmp_path / "none"),
        (peers, "SESSIONS", 1),
        (peers, "ROUNDS", 2),
        (peers, "SESSION_ROWS", 800),
    ):
        monkeypatch.setattr(module, name, value)
    return tmp_path  # a data folder of its own, so that tests do not share cached results


def test_every_row_is_filled_or_names_the_missing_package(small):
    for row in BENCH.rows:
        if row.startswith("metric-learn"):
            with pytest.raises(MissingError, match="Install it with: make peers"):
                tables.fill(BENCH, row, "drawn/speed", small)
            continue
        speed, quality, ours, theirs = (tables.fill(BENCH, row, f"drawn/{figure}", small) for figure in peers.FIGURES)
        assert 0 < speed.low <= speed.value <= speed.high
        assert 0 < theirs.value <= 1
        assert quality.value == pytest.approx(ours.value / theirs.value)
        exactly = row.startswith(("faiss-flat", "faiss-binary", "sklearn-neighbours", "bc-tree-exact"))
        assert ours.value == theirs.value == 1 if exactly else ours.value > 0.2, row
        if row.startswith(("scan", "sklearn-svc")):
            assert theirs.value > 0.97, row  # an exhaustive search in float32


def test_a_dataset_in_the_data_folder_replaces_synthetic_vectors(small, monkeypatch):
    random = np.random.default_rng(0)
    labels = np.repeat([f"{i}" for i in range(8)], 80)
    X = (3 * random.normal(size=(8, 16))[labels.astype(int)] + random.normal(size=(640, 16))).astype(np.float32)
    monkeypatch.setitem(feedback.SETS, "mnist", lambda folder, progress: LabelledVectors(X, labels))
    rows = ("faiss-flat", "faiss-binary", "scan-linear-maximum", "sklearn-linearsvc", "sklearn-centroid", "rocchio")
    for row in rows:
        assert tables.fill(BENCH, row, "mnist/theirs", small).value > 0.7, row
    assert side_by_side.grouped(Place("mnist", small, 0)).y.max() == 7
    assert not BENCH.has("faiss-binary-tables", "mnist/speed")


def test_times_below_the_clocks_resolution_do_not_divide_by_zero():
    seconds = {"neither": (0.0, 0.0), "theirs": (0.0, 1.0), "ours": (1.0, 0.0)}
    ours, theirs = (lambda one: (seconds[one][0], None)), (lambda one: (seconds[one][1], None))
    neither, theirs_alone, ours_alone = in_turns(ours, theirs, list(seconds), lambda *_: 1.0).speed
    assert neither == 1
    assert 0 < ours_alone < 1e-3 < 1e3 < theirs_alone < float("inf")


def test_datasets_are_on_request_and_missing_ones_are_errors(tmp_path):
    assert all(column.startswith("drawn/") for _, column in tables.plan(BENCH, ""))
    with pytest.raises(SourceError, match="No dataset mnist in"):
        tables.plan(BENCH, tmp_path, columns=["mnist/speed"])


def test_metric_learn_runs_in_a_separate_environment(small, monkeypatch):
    (small / "bin").mkdir()
    (small / "bin" / "python").symlink_to(sys.executable)
    monkeypatch.setattr(peers, "METRIC_LEARN", small)
    monkeypatch.delenv("PYTHONPATH", raising=False)
    with pytest.raises(MissingError, match=r"does not run in .*No module named 'metric_learn'.*make peers"):
        tables.fill(BENCH, "metric-learn-lmnn", "drawn/speed", small)
    (small / "metric_learn.py").write_text(FAKE)
    monkeypatch.setenv("PYTHONPATH", str(small))
    assert tables.fill(BENCH, "metric-learn-lmnn", "drawn/theirs", small).value > 0.3


def test_the_command_skips_libraries_that_are_not_installed(small, capsys):
    assert cli.run(["bench", "run", "peers", "--rows", "metric-learn-rca", "--columns", "drawn/speed"]) == 0
    assert "metric-learn-rca  drawn/speed  not run: metric-learn needs" in capsys.readouterr().err


def test_sides_alternate_and_the_thread_limit_is_lifted():
    order = []
    sides = [lambda asked, side=side: (order.append(side) or 2.0, asked) for side in "ab"]
    found = in_turns(*sides, [0.1, 0.2, 0.3], lambda asked, answer: answer)
    assert "".join(order) == "abbaab"
    assert found.speed == [1, 1, 1]
    assert found.ours == found.theirs == [0.1, 0.2, 0.3]
    before, seen = threads.CORES, []
    with pytest.raises(ZeroDivisionError), one_thread():
        seen.append(threads.CORES / 0)
    with one_thread():
        seen.append(threads.CORES)
    assert seen == [1]
    assert before == threads.CORES
