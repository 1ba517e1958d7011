"""The bench of codes: every row of the paper, ties averaged over, and the queries never learned from."""

import gzip
import json

import numpy as np
import pytest

from lookalike import cli
from lookalike.bench import datasets, hashing, tables
from lookalike.bench.hashing import Split
from lookalike.codes.queries import CodeQuery
from lookalike.errors import SourceError
from lookalike.index.queries import PointQuery
from reference import codes as slow
from reference import ties


def quiet(*_):
    """No progress."""


def idx(array):
    """Bytes of an idx file: a header, whose content nobody reads, and the numbers."""
    header = bytes(4 + 4 * array.ndim)
    return gzip.compress(header + array.astype(np.uint8).tobytes())


@pytest.fixture
def digits(tmp_path):
    """A tiny MNIST: three kinds of pixels, 700 to search among and 12 to ask for."""
    random = np.random.default_rng(0)
    kinds = random.integers(0, 256, (3, 28, 28))
    folder = tmp_path / "mnist"
    folder.mkdir()
    for name, n in (("train", 700), ("t10k", 12)):
        labels = np.arange(n) % 3
        pixels = np.clip(kinds[labels] + random.normal(scale=150, size=(n, 28, 28)), 0, 255)
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(idx(pixels))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(idx(labels))
    return tmp_path


def test_rows_and_columns_are_those_of_the_tables():
    rows = ["tsvm", "sdh", "fasthash", "lsh", "sh", "shd", "sklsh", "itq", "pca-rr", "pq", "euclidean"]
    assert list(hashing.BENCH.rows) == rows
    for name in ("mnist", "cifar10-fisher", "cifar10-deep"):
        assert {f"{name}/{bits}" for bits in (32, 64, 128, 256)} <= set(hashing.BENCH.columns)
    assert set(hashing.PAPER["mnist"]) == set(rows)
    assert hashing.PAPER["mnist"]["itq"][0] == 79.55


def test_some_of_each_class_are_without_a_label_for_the_row_that_learns_from_such():
    y = np.array(list("aaaaaabbb"))
    shown = hashing.hide(y, 2, seed=0)
    assert {label: int((shown == label).sum()) for label in ("a", "b", "")} == {"a": 4, "b": 2, "": 3}
    assert (shown[shown != ""] == y[shown != ""]).all()
    assert (shown != hashing.hide(y, 2, seed=3)).any()


@pytest.mark.parametrize("kind", ["codes", "points"])
def test_the_measure_is_the_mean_over_every_order_of_ties(kind, monkeypatch):
    monkeypatch.setattr(hashing, "K", 4)
    random = np.random.default_rng(1)
    y, wanted = np.array(list("abababa")), np.array(["a", "b"])
    if kind == "codes":
        rows, asked = (random.integers(0, 4, (n, 1), np.uint8) for n in (7, 2))
        ask, score = CodeQuery, slow.hamming
    else:
        rows, asked = (random.integers(0, 3, (n, 1)).astype(np.float32) for n in (7, 2))
        ask, score = PointQuery, lambda a, b: float((a - b) @ (a - b))
    sizes, relevant = hashing.rank(rows, lambda part: ask(asked[part]), y, wanted, quiet)
    found = hashing.tied_average_precision(sizes, relevant, 4)
    for i in range(2):
        scores = [score(asked[i], row) for row in rows]
        groups = [[bool(y[j] == wanted[i]) for j in range(7) if scores[j] == value] for value in sorted(set(scores))]
        assert found[i] == pytest.approx(ties.mean_over_orders(groups, 4))


def test_cells_are_filled_for_every_row_that_is_there(digits):
    for row in hashing.BENCH.rows:
        cell = tables.fill(hashing.BENCH, row, "mnist/32", digits)
        spread = tables.fill(hashing.BENCH, row, "mnist/32-ties", digits)
        assert 0.3 < cell.value <= 1
        assert cell.paper == hashing.PAPER["mnist"][row][0] / 100
        assert cell.scored == 12 * 700
        assert 0 <= spread.value <= 1
        assert cell.value > 0.9 or row not in ("tsvm", "sdh", "fasthash")
        assert spread.paper is None
        assert spread.value == 0 or row not in ("pq", "euclidean")  # real numbers hardly ever tie
        assert spread.value > 0 or row not in ("lsh", "sh", "sklsh", "pca-rr")


def test_coders_never_see_the_queries(monkeypatch):
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
    split = Split(X, np.array(list("abcabcabc")), queries, np.array(["a", "b"]))
    codes, ask = hashing._ready("mnist", "lsh", 32, 0, split)
    assert seen == [(9, 9)]
    assert codes.shape == (9, 4)
    assert ask(slice(0, 2)).score(codes).shape == (2, 9)


def test_cifar_is_split_by_its_own_parts(tmp_path, monkeypatch):
    (tmp_path / "cifar10").mkdir()
    random = np.random.default_rng(0)
    parts = {f"x_{name}": random.integers(0, 256, (n, 32, 32, 3), np.uint8) for name, n in (("train", 6), ("test", 3))}
    np.savez(tmp_path / "cifar10/cifar10_12k.npz", y_train=np.arange(6) % 2, y_test=np.arange(3) % 2, **parts)

    def described(dataset, recipe, folder, progress):
        names = sorted(dataset.labels, reverse=True)
        return np.arange(len(names), dtype=np.float32)[:, None], np.array(names)

    monkeypatch.setattr("lookalike.bench.described._make", described)
    split = hashing.SETS["cifar10-fisher"][1](tmp_path, quiet)
    assert split.X.shape == (6, 1)
    assert split.queries.shape == (3, 1)
    assert split.y.tolist() == ["1", "0", "1", "0", "1", "0"]
    assert split.wanted.tolist() == ["0", "1", "0"]
    dataset = datasets.cifar10(tmp_path, tmp_path / "again.tar")
    assert dataset.labels["test/00001.png"] == "1"


def test_a_missing_set_is_refused_before_the_first_cell(tmp_path):
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
