"""The benchmark of feedback: the protocol, the peers, and cached distances."""

import gzip
import tarfile

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image

from lookalike.errors import SourceError
from lookalike.feedback.learners import Svm
from lookalike.feedback.round import Marks
from lookalike.index.flat import Flat
from lookalike_bench import datasets, feedback, plot, tables
from lookalike_bench.datasets import LabelledVectors
from lookalike_bench.feedback import CachedFlat, SplitIndex
from reference.feedback import clusters

X, labels = clusters(classes=4, per_class=40, spread=1.2)
base = LabelledVectors(X, labels.astype(str))


def quiet(*_):
    """Ignore progress."""


@pytest.mark.parametrize("kernel", ["gaussian", "laplace", "laplace-l2", "angular", "angular-l2", "linear"])
def test_cached_distances_do_not_change_results(kernel):
    cached, flat = CachedFlat(), Flat()
    for index in (cached, flat):
        index.add(np.arange(160), X)
    y = np.where(labels == 0, 1, -1).astype(np.int8)
    for rows in (slice(0, 160, 9), slice(0, 160, 7)):  # the second time, some are cached
        svm = Svm(kernel).fit(X[rows], y[rows])
        for query in (svm.best(), svm.unsure()):
            mine, his = (i.search(query, 20, exclude=np.arange(3)) for i in (cached, flat))
            assert_allclose(mine.scores, his.scores, rtol=1e-3, atol=1e-5)
            assert_array_equal(mine.ids, his.ids)


def test_sessions_follow_the_protocol():
    outcome = feedback.measure("gaussian-exact", base, 4, quiet, rounds=3)
    assert outcome.precision.shape == (4, 4)
    assert outcome.precision[:, -1].mean() > outcome.precision[:, 0].mean()
    assert_array_equal(outcome.scored, 1.0)
    assert len(outcome.ms) == feedback.TIMED
    estimated = ~np.isnan(outcome.width)
    assert estimated[:, -1].any()
    assert not estimated[:, 0].any()  # a single positive mark is not enough for an estimate
    assert np.all(outcome.width[estimated] >= 1)
    assert np.isin(outcome.coverage[estimated], (0, 1)).all()
    assert np.all(outcome.bias[estimated] > 0)
    assert np.isnan(outcome.bias[~estimated]).all()
    assert np.all(np.diff(outcome.found, axis=1) >= 0)
    assert outcome.found[:, 0] == pytest.approx(1 / 40)


@pytest.mark.parametrize("search", ["pac", "fast"])
def test_sessions_can_choose_questions_by_approximate_search(search):
    outcome = feedback.measure(f"gaussian-{search}", base, 2, quiet, rounds=2)
    assert outcome.precision[:, -1].mean() > outcome.precision[:, 0].mean()
    assert np.all(outcome.scored > 0)
    assert search == "fast" or np.all(outcome.scored[:, 0] != 1)  # a tree also scores its inner nodes
    assert_array_equal(outcome.scored[:, 1:], 1)  # after that, no question is about an ambiguous row
    assert len(outcome.ms) == 2
    assert_array_equal(
        outcome.precision[:, 0], feedback.measure("gaussian-exact", base, 2, quiet, rounds=0).precision[:, 0]
    )


@pytest.mark.parametrize("row", feedback.PEERS)
def test_methods_without_an_estimate_have_no_coverage(row):
    outcome = feedback.measure(row, base, 1, quiet, rounds=1)
    assert np.isnan(outcome.coverage).all()
    assert np.isnan(outcome.width).all()
    assert np.isfinite(outcome.precision).all()
    assert_array_equal(outcome.scored, 1.0)


def test_small_targets_keep_a_few_items_and_sessions_find_them():
    few = feedback.shrink(base, "1", np.random.default_rng(0))
    counts = {name: np.count_nonzero(few.labels == name) for name in ("0", "1", "2", "3")}
    assert 15 <= counts.pop("1") < 40
    assert set(counts.values()) == {40}
    rows = ("gaussian-exact", "ask-random", "no-feedback")
    ours, chance, none = (feedback.measure(row, base, 2, quiet, rounds=3, small=True) for row in rows)
    assert ours.found[:, -1].mean() > chance.found[:, -1].mean() + 0.3
    assert_array_equal(none.worse, 0)
    assert_array_equal(ours.worse[:, -1], 0)


def test_a_session_without_questions_left_keeps_its_precision():
    outcome = feedback.measure("gaussian-exact", LabelledVectors(X[::8], base.labels[::8]), 1, quiet, rounds=4)
    assert_array_equal(outcome.precision[0, 2:], outcome.precision[0, 2])


@pytest.mark.parametrize("peer", feedback.PEERS)
def test_peers_rank_all_rows_and_ask_about_unmarked_ones(peer):
    marks = Marks(np.array([0, 1, 50, 90]), X[[0, 1, 50, 90]], np.array([1, 1, -1, -1], np.int8))
    order, questions, _ = feedback.ask_peer(peer, X, marks, seed=0)
    assert sorted(order.tolist()) == list(range(160))
    assert np.mean(labels[order[:40]] == 0) > 0.5
    assert len(questions) == 9
    assert not np.isin(questions, marks.ids).any()


def test_only_frontier_queries_go_to_the_second_index_and_are_counted():
    small, large = Flat(), Flat()
    small.add(np.arange(10), X[:10])
    large.add(np.arange(160), X)
    split = SplitIndex(large, small)
    svm = Svm().fit(X[::40], np.array([1, -1, -1, -1], np.int8))
    assert split.search(svm.best(), 160).scored == 160
    assert split.search(svm.unsure(), 160).scored == split.scored == 10
    assert split.asked == 1
    assert split.share() == 10 / 160
    assert split.share() == 1  # no queries since then
    assert len(split) == len(split.ids) == 160


def test_a_cell_is_filled_from_shared_sessions(tmp_path, monkeypatch):
    folder = tmp_path / "mnist"
    folder.mkdir()
    random = np.random.default_rng(0)
    pixels = (random.integers(0, 40, (200, 784)) + 200 * (np.arange(784) % 10 == np.arange(200)[:, None] % 10)).astype(
        np.uint8
    )
    for name, head, body in (("images-idx3", 16, pixels), ("labels-idx1", 8, (np.arange(200) % 10).astype(np.uint8))):
        (folder / f"train-{name}-ubyte.gz").write_bytes(gzip.compress(bytes(head) + body.tobytes()))
    monkeypatch.setitem(feedback.SESSIONS, "mnist", 2)
    bench = tables.load("feedback")
    measures = ("precision-10", "marks-80", "scored-10", "ms", "coverage-8", "width-8", "bias-10", "stop-95", "stop-85")
    columns = [f"mnist/{measure}" for measure in measures]
    cells = [
        tables.fill(bench, *cell, tmp_path)
        for cell in tables.plan(bench, tmp_path, rows=["gaussian-exact"], columns=columns)
    ]
    assert cells[0].value == 1
    assert cells[1].value < 9 * 16
    assert cells[2].value == 1
    assert cells[3].value > 0
    assert 0 <= cells[4].value <= 1
    assert cells[5].value >= 1
    assert [cell.value for cell in cells[6:]] == [1, 1, 0]


def test_coil_is_written_as_an_archive_of_labelled_pictures(tmp_path):
    (tmp_path / "coil100").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (3, 32, 32, 3)).astype(np.uint8)
    np.savez(tmp_path / datasets.FILES["coil100"][0], x=pixels, y=np.array([7, 7, 10]))
    dataset = datasets.coil100(tmp_path, tmp_path / "coil100.tar")
    assert dataset.labels == {"0000.png": "7", "0001.png": "7", "0002.png": "10"}
    with tarfile.open(dataset.source) as tar, Image.open(tar.extractfile("0001.png")) as image:
        assert_array_equal(np.asarray(image), pixels[1])


def test_numbered_columns_are_plotted_as_lines(tmp_path, monkeypatch):
    drawn = []
    real = plot._draw_lines
    monkeypatch.setattr(plot, "_draw_lines", lambda title, panels: drawn.append(list(panels)) or real(title, panels))
    cells = [
        tables.Cell("feedback", row, f"{name}-{turn}", "precision", 0.5, 0.4, 0.6, None, "", 0, 1.0, 1.0, 1)
        for row in ("a", "b")
        for name in ("corel5k/precision", "mnist/precision")
        for turn in (1, 5, 10)
    ]
    plot.write_plot("sessions", cells, tmp_path / "curves.png")
    assert drawn == [["corel5k/precision", "mnist/precision"]]
    plot.write_plot("sessions", cells[:2], tmp_path / "bars.png")
    assert len(drawn) == 1
    assert (tmp_path / "curves.png").stat().st_size > 10_000


def test_a_missing_dataset_is_an_error_before_the_first_cell(tmp_path):
    for name in feedback.SETS:
        with pytest.raises(SourceError, match=f"No dataset {name.split('-')[0]} in"):
            tables.plan(feedback.BENCH, tmp_path, columns=[f"{name}/ms"])
