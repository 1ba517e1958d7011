"""The benchmark of codes: every row of the paper is filled, ties are averaged, and coders never see the queries."""

import gzip
import json

import numpy as np
import pytest

from lookalike import cli
from lookalike.codes.queries import CodeQuery
from lookalike.errors import SourceError
from lookalike.index.queries import PointQuery
from lookalike_bench import hashing, tables, vectors
from lookalike_bench.vectors import TrainTest
from reference import codes as slow
from reference import ties


def quiet(*_):
    """Ignore progress."""


def idx(array):
    """Return the bytes of an idx file: a header, whose content is not read, and the values."""
    header = bytes(4 + 4 * array.ndim)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def few_trees(monkeypatch):
    """Learn each bit of fasthash from 3 shallow trees, which is faster and leaves some codes imperfect."""
    create = hashing.registry.create

    def create_small(kind, spec):
        small = {"trees": 3, "depth": 2} if spec.name == "fasthash" else {}
        return create(kind, hashing.registry.Spec(spec.name, {**spec.params, **small}))

    monkeypatch.setattr(hashing.registry, "create", create_small)


@pytest.fixture
def digits(tmp_path):
    """A tiny MNIST: three kinds of pixels, 300 rows in the database and 12 queries."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 256, (3, 28, 28))
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, n in (("train", 300), ("t10k", 12)):
        labels = np.arange(n) % 3
        pixels = np.clip(kinds[labels] + random.normal(scale=150, size=(n, 28, 28)), 0, 255)
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(idx(pixels))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    return tmp_path


def test_rows_and_columns_match_the_papers_tables():
    rows = ["tsvm", "sdh", "fasthash", "lsh", "sh", "shd", "sklsh", "itq", "pca-rr", "pq", "euclidean"]
    assert [row for row in hashing.BENCH.rows if row not in ("tsvm-hinge", hashing.CHOSEN)] == rows
    for name in ("mnist", "cifar10-fisher", "cifar10-deep"):
        assert {f"{name}/{bits}" for bits in (32, 64, 128, 256)} <= set(hashing.BENCH.columns)
    assert set(hashing.PAPER["mnist"]) == set(rows)
    assert hashing.PAPER["mnist"]["itq"][0] == 79.55


def test_semi_supervised_rows_get_some_unlabelled_items_of_each_class():
    y = np.array(list("aaaaaabbb"))
    shown = hashing.hide(y, 2, seed=0)
    assert {label: int((shown == label).sum()) for label in ("a", "b", "")} == {"a": 4, "b": 2, "": 3}
    assert (shown[shown != ""] == y[shown != ""]).all()
    assert (shown != hashing.hide(y, 2, seed=3)).any()


def test_noise_changes_a_share_of_labels_for_supervised_rows():
    y = np.array(list("abc") * 50)
    told = hashing.add_noise(y, 0.2, seed=0)
    assert (told != y).sum() == 30
    assert set(told) == set("abc")
    assert (told != hashing.add_noise(y, 0.2, seed=1)).any()
    noisy = {row for row in hashing.BENCH.rows if hashing.BENCH.has(row, "mnist/64-noise")}
    assert noisy == {"tsvm", "tsvm-hinge", "sdh", "fasthash"}


def test_label_noise_affects_coders_but_not_the_measure(digits, monkeypatch):
    truth, told, measured = vectors.train_test("mnist", digits).y, [], []

    class Spy(hashing.HingeTsvmh):
        def fit(self, X, y):
            told.append(y)
            return super().fit(X[:60], y[:60])

    real = hashing.rank
    monkeypatch.setattr(hashing, "HingeTsvmh", Spy)
    monkeypatch.setattr(hashing, "rank", lambda rows, ask, y, *rest: measured.append(y) or real(rows, ask, y, *rest))
    assert tables.fill(hashing.BENCH, "tsvm-hinge", "mnist/32-noise", digits).paper is None
    assert 0.15 < (told[0] != truth)[told[0] != ""].mean() < 0.25
    assert (measured[0] == truth).all()


@pytest.mark.parametrize("kind", ["codes", "points"])
def test_the_measure_is_the_mean_over_every_order_of_ties(kind, monkeypatch):
    monkeypatch.setattr(hashing, "K", 4)
    monkeypatch.setattr(hashing, "FIRST", (1, 4))
    random = np.random.default_rng(1)
    y, wanted = np.array(list("abababa")), np.array(["a", "b"])
    if kind == "codes":
        rows, asked = (random.integers(0, 4, (n, 1), np.uint8) for n in (7, 2))
        ask, score = CodeQuery, slow.hamming
    else:
        rows, asked = (random.integers(0, 3, (n, 1)).astype(np.float32) for n in (7, 2))
        ask, score = PointQuery, lambda a, b: float((a - b) @ (a - b))
    sizes, relevant = hashing.rank(rows, lambda part: ask(asked[part]), y, wanted, quiet)
    found, share = hashing.tied_average_precision(sizes, relevant, 4), hashing.tied_precision(sizes, relevant, 4)
    for i in range(2):
        scores = [score(asked[i], row) for row in rows]
        groups = [[bool(y[j] == wanted[i]) for j in range(7) if scores[j] == value] for value in sorted(set(scores))]
        assert found[i] == pytest.approx(ties.mean_over_orders(groups, 4))
        assert share[i] == pytest.approx(ties.mean_over_orders(groups, 4, lambda hits, k: sum(hits[:k]) / k))


@pytest.mark.usefixtures("few_trees")
def test_every_row_is_filled(digits):
    for row in (row for row in hashing.BENCH.rows if hashing.has(row, "mnist/32")):
        cell = tables.fill(hashing.BENCH, row, "mnist/32", digits)
        spread = tables.fill(hashing.BENCH, row, "mnist/32-ties", digits)
        assert 0.3 < cell.value <= 1
        assert cell.paper == (None if row == "tsvm-hinge" else hashing.PAPER["mnist"][row][0] / 100)
        assert cell.scored == 12 * 300
        assert 0 <= spread.value <= 1
        assert cell.value > 0.9 or row not in hashing.LABELLED
        assert spread.paper is None
        assert spread.value == 0 or row not in ("pq", "euclidean")  # real numbers rarely tie
        assert spread.value > 0 or row not in ("lsh", "sh", "sklsh", "pca-rr")


def test_precision_falls_along_a_ranking_and_columns_of_one_length_share_it(digits, monkeypatch):
    first = tables.fill(hashing.BENCH, "itq", "mnist/32-precision-1", digits)
    monkeypatch.setattr(hashing, "rank", None)  # must not be called again
    last = tables.fill(hashing.BENCH, "itq", "mnist/32-precision-1000", digits)
    assert first.measure == "precision@1"
    assert first.value > 0.8
    assert last.value == pytest.approx(300 / 3 / 1000, abs=0.01)  # all relevant items, in 1,000 places


@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("row", ["lsh", "fasthash"])
def test_short_codes_reuse_the_coder_of_long_ones(digits, monkeypatch, row):
    alone = tables.fill(hashing.BENCH, row, "mnist/32", digits)
    monkeypatch.setattr(hashing, "_GROUPS", {})
    monkeypatch.setattr(hashing, "_LONGEST", {})
    tables.fill(hashing.BENCH, row, "mnist/64", digits)
    monkeypatch.setattr(hashing, "learn", None)  # must not be called again
    assert tables.fill(hashing.BENCH, row, "mnist/32", digits).value == alone.value


def test_coders_never_see_the_queries(monkeypatch, tmp_path):
    seen = []

    class Spy:
        labels = True

        def __init__(self, bits, random_state):
            pass

        def fit(self, X, y=None):
            seen.append((len(X), None if y is None else len(y)))
            return self

        def encode(self, X):
            return np.zeros((len(X), 4), np.uint8)

        def query(self, X):
            return CodeQuery(self.encode(X))

    monkeypatch.setattr(hashing.registry, "create", lambda kind, spec: Spy(**spec.params))
    X, queries = np.zeros((9, 3), np.float32), np.ones((2, 3), np.float32)
    split = TrainTest(X, np.array(list("abcabcabc")), queries, np.array(["a", "b"]))
    codes, ask = hashing._ready("mnist", "lsh", 32, 0, split, False, tmp_path)
    assert seen == [(9, 9)]
    assert codes.shape == (9, 4)
    assert ask(slice(0, 2)).score(codes).shape == (2, 9)


def test_a_missing_dataset_is_an_error_before_the_first_cell(tmp_path):
    for column in ("mnist/32", "cifar10-fisher/64"):
        with pytest.raises(SourceError, match="Expected"):
            tables.plan(hashing.BENCH, tmp_path, columns=[column])


def test_the_command_prints_cells(digits, capsys):
    assert (
        cli.run(["bench", "run", "hashing", "--data", str(digits), "--rows", "lsh", "--columns", "mnist/32", "--json"])
        == 0
    )
    (line,) = capsys.readouterr().out.splitlines()
    assert json.loads(line)["measure"] == "mAP@500"
