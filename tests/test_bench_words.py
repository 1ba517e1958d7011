"""The benchmark of words: relevance by annotations that Lookalike never reads, and rankings with pictures left out."""

import io
import json
import tarfile

import numpy as np
import pytest

from lookalike import Collection, cli
from lookalike.errors import SourceError
from lookalike_bench import datasets, tables, words
from lookalike_bench.vectors import cached_collection, caching

pytestmark = pytest.mark.usefixtures("read_here")

NAMES = ["house", "outside", "flower"]


@pytest.fixture(scope="module")
def data(pictures, tmp_path_factory):
    """A data folder with 12 pictures as corel5k, in folders named after what they do not show."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "corel5k").mkdir()
    with tarfile.open(folder / "corel5k/corel5k.tar", "w") as tar:
        lines = []
        for number, path in enumerate(
            sorted(path for name in ("beach", "flower", "house") for path in (pictures / name).iterdir())
        ):
            tar.add(path, f"train/flower/{number}.jpeg")
            name = 1 + NAMES.index("flower" if path.parent.name == "flower" else "house")
            lines.append(f"{number} {name} 2 ")
        for member, text in (("words", "\n".join(NAMES)), ("training_label", "\n".join(lines)), ("test_label", "\n")):
            header = tarfile.TarInfo(f"labels/{member}")
            header.size = len(text)
            tar.addfile(header, io.BytesIO(text.encode()))
    return folder


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(words, "LEAST", 4)
    monkeypatch.setattr(words, "FIRST", 4)
    monkeypatch.setattr(words, "ROUNDS", 1)
    monkeypatch.setattr(words, "EXAMPLES", {"one-example": 1, "five-examples": 2})
    monkeypatch.setattr(words, "_DONE", {})


def test_pictures_that_a_search_leaves_out_count_in_random_order():
    relevant = np.array([3, 5])
    assert words.rate(relevant, [3, 4, 5, 6], 4) == pytest.approx(((1 + 2 / 3) / 2, 2 / 4))
    ahead, behind = words.rate(relevant, [3], 3), [words.rate(relevant, order, 3) for order in ([3, 5, 9], [3, 9, 5])]
    assert ahead == pytest.approx(np.mean(behind, axis=0))
    assert words.rate(relevant, [], 4) == pytest.approx((np.mean([1, 5 / 6, 3 / 4, 7 / 12, 1 / 2, 5 / 12]), 2 / 4))


def test_every_row_is_measured_with_a_cached_collection(data, tmp_path, capsys, monkeypatch):
    command = ["bench", "run", "words", "--data", str(data), "--keep", str(tmp_path), "--json"]
    columns = [
        "corel5k/map",
        "corel5k/unknown",
        "corel5k/precision-0",
        "corel5k/precision-1",
        "corel5k/kinds-precision-1",
    ]
    assert cli.run([*command, "--columns", ",".join(columns)]) == 0
    cells = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    found = {(cell["row"], cell["column"].partition("/")[2]): cell["value"] for cell in cells}
    assert len(found) == 4 + 1 + 3 * 2
    assert found["wordnet", "unknown"] == 1  # "outside" is a stop word
    assert found["wordnet", "map"] < 1  # names of folders are not searched
    assert found["chance", "map"] < found["one-example", "map"] <= 1
    assert found["session-from-example", "precision-1"] > 0.5
    monkeypatch.setattr(Collection, "add", None)  # must not be called again
    with caching(tmp_path), cached_collection(datasets.load("corel5k", data), "deep") as collection:
        assert len(collection) == 12
        assert collection.label_counts() == {}
        assert collection.understand("flower house")[0].paths == 0


def test_words_without_pictures_or_names_are_an_error_before_the_first_cell(data, tmp_path):
    with pytest.raises(SourceError, match="No dataset corel5k"):
        tables.plan(words.BENCH, tmp_path)
    (tmp_path / "corel5k").mkdir()
    with tarfile.open(tmp_path / "corel5k/corel5k.tar", "w") as tar, tarfile.open(data / "corel5k/corel5k.tar") as old:
        tar.addfile(old.getmember("train/flower/0.jpeg"), old.extractfile("train/flower/0.jpeg"))
    with pytest.raises(SourceError, match="labels/words"):
        tables.plan(words.BENCH, tmp_path)
