"""Benchmarks: tables that are filled one cell at a time."""

import io
import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image
from rich.console import Console

from lookalike import cli
from lookalike.errors import SourceError, UnknownNameError
from lookalike.index.rerank import rerank
from lookalike.recipes import RECIPES
from lookalike_bench import retrieval, tables
from lookalike_bench.cli import _table
from lookalike_bench.measures import average_precision
from lookalike_bench.report import CLAIMS, NOT_RUN
from lookalike_bench.tables import Bench, Cell, PaperFigure, Score
from reference.ranking import leave_one_out

pytestmark = pytest.mark.usefixtures("read_here")

KEYS = [
    "bench",
    "row",
    "column",
    "measure",
    "value",
    "low",
    "high",
    "paper",
    "unlike",
    "seed",
    "seconds",
    "peak_mb",
    "scored",
]


def score(row: str, column: str, data: Path, seed: int, progress: object) -> Score:
    return Score("m", len(row) + seed, 0.0, 9.0, scored=7)


TOY = Bench(
    "toy", "a table for tests", ("one", "three"), ("x", "y"), score, paper=lambda row, column: PaperFigure(2.5, "other")
)


@pytest.fixture(scope="module")
def data(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the synthetic pictures as corel1k, one of them twice, and as ukbench, in groups of four."""
    folder = tmp_path_factory.mktemp("data")
    paths = sorted(pictures.rglob("*.jpg"))
    (folder / "corel1k").mkdir()
    with tarfile.open(folder / "corel1k/corel1k.tar", "w") as archive:
        for path in paths:
            archive.add(path, f"{path.parent.name}/{path.name}")
        archive.add(paths[0], f"{paths[0].parent.name}/again.jpg")
    (folder / "ukbench2000").mkdir()
    with tarfile.open(folder / "ukbench2000/ukbench2000_max256.tar", "w") as archive:
        for number, path in enumerate(paths):
            archive.add(path, f"ukbench{number:05}.jpg")
    return folder


def test_a_plan_is_column_by_column_in_the_given_order() -> None:
    assert tables.plan(TOY, ".") == [("one", "x"), ("three", "x"), ("one", "y"), ("three", "y")]
    assert tables.plan(TOY, ".", rows=["three", "one"], columns=["y"]) == [("three", "y"), ("one", "y")]


def test_a_cell_has_its_score_position_and_cost() -> None:
    cell = tables.fill(TOY, "three", "y", ".", seed=10)
    assert (cell.bench, cell.row, cell.column, cell.measure) == ("toy", "three", "y", "m")
    assert (cell.value, cell.low, cell.high, cell.paper, cell.unlike, cell.scored) == (15, 0.0, 9.0, 2.5, "other", 7)
    assert cell.seconds >= 0
    assert 1 < cell.peak_mb < 100_000


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
def test_peak_memory_is_measured_per_cell() -> None:
    def run(row: str, *rest: object) -> Score:
        if row == "large":
            np.ones(200 * 2**17).sum()  # 200 MB
        return score(row, "x", Path(), 0, None)

    bench = Bench("toy", "", ("large", "small"), ("x",), run)
    large, small = (tables.fill(bench, row, "x", ".") for row in bench.rows)
    assert large.peak_mb > small.peak_mb + 150


def test_the_error_for_an_unknown_name_suggests_the_nearest_one() -> None:
    with pytest.raises(UnknownNameError, match=r"No row named 'tree'\. .*Did you mean 'three'\?"):
        tables.plan(TOY, ".", rows=["tree"])
    with pytest.raises(UnknownNameError, match="No column named 'z'"):
        tables.plan(TOY, ".", columns=["z"])
    with pytest.raises(UnknownNameError, match="Did you mean 'retrieval'"):
        tables.load("retreival")


def test_a_missing_dataset_is_an_error_before_the_first_cell(data: Path) -> None:
    with pytest.raises(SourceError, match="No dataset corel5k in"):
        tables.plan(retrieval.BENCH, data, rows=["color"], columns=["ukbench2000", "corel5k"])


def test_every_benchmark_loads_and_has_its_name() -> None:
    for name in tables.BENCHES:
        bench = tables.load(name)
        assert bench.name == name
        assert bench.rows
        assert bench.columns


def test_retrieval_has_every_recipe_and_every_dataset() -> None:
    assert list(retrieval.BENCH.rows) == [*RECIPES, "deep-rerank", "deep-plain-rerank"]
    ours = ["corel1k", "corel5k", "corel1k-outside", "corel5k-split", "ukbench2000-outside", "ukbench2000"]
    assert list(retrieval.BENCH.columns[:7]) == [*ours, "ukbench2000-first"]
    assert retrieval.BENCH.usual(retrieval.BENCH.columns) == ["ukbench2000", "ukbench2000-first"]
    assert {"holidays", "oxford5k", "nuswide"} <= set(retrieval.BENCH.on_request)


def test_ranking_equals_the_reference(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 5)).astype(np.float32)
    X[7] = X[3]  # a duplicate
    labels = [str(label) for label in random.integers(0, 6, 60)]
    precisions, firsts = leave_one_out(X.astype(np.float64), labels)
    monkeypatch.setattr(retrieval, "CHUNK_BYTES", 64 * 60 * 7)  # seven queries at a time
    steps: list[int] = []
    every = {"queries": np.arange(60), "database": np.arange(60)}
    measure = retrieval.COLUMNS["corel1k"].value
    ours = retrieval.rank(X, np.array(labels), measure, lambda *step: steps.append(step[1]), **every)
    assert_allclose(ours, precisions)
    assert steps[-1] == 60
    assert len(steps) == 9
    ours = retrieval.rank(X, np.array(labels), retrieval.COLUMNS["ukbench2000"].value, lambda *_: None, **every)
    assert_allclose(ours, firsts)


def test_a_split_ranks_only_the_database() -> None:
    X = np.array([[0.0], [1.0], [0.1], [5.0]], np.float32)
    labels = np.array(["a", "a", "b", "b"])
    measure = retrieval.COLUMNS["corel5k-split"].value
    ours = retrieval.rank(X, labels, measure, lambda *_: None, queries=np.array([0, 3]), database=np.array([1, 2]))
    assert_allclose(ours, [1 / 2, 1 / 2])  # each ranks the other class first


def test_a_ranking_can_be_re_ranked() -> None:
    random = np.random.default_rng(0)
    X, labels = random.normal(size=(60, 5)).astype(np.float32), random.integers(0, 6, 60).astype(str)
    measure = retrieval.COLUMNS["corel5k-split"].value
    queries, database = np.array([0]), np.arange(1, 60)
    ours = retrieval.rank(X, labels, measure, lambda *_: None, queries=queries, database=database, reranks=True)
    order = 1 + np.argsort(rerank(X[0], X[1:]))
    assert_allclose(ours, average_precision(labels[order][None] == labels[0]))


def test_a_plot_is_drawn_and_an_invalid_path_fails_before_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tables, "load", lambda name: TOY)
    assert cli.run(["bench", "run", "toy", "--data", ".", "--plot", str(tmp_path / "toy.png")]) == 0
    with Image.open(tmp_path / "toy.png") as drawn:
        assert drawn.width > 400
    capsys.readouterr()
    cases = (("toy.txt", "The file name of a plot must end in"), ("none/toy.png", "does not exist. Create it first."))
    for target, message in cases:
        assert cli.run(["bench", "run", "toy", "--data", ".", "--plot", str(tmp_path / target)]) == 2
        captured = capsys.readouterr()
        assert message in captured.err
        assert captured.out == ""


@pytest.fixture(scope="module")
def engine(data: Path) -> list[Cell]:
    return [tables.fill(retrieval.BENCH, "color", column, data) for column in ("corel1k", "ukbench2000")]


def test_retrieval_uses_a_collection(engine: list[Cell], pictures: Path) -> None:
    n = len(list(pictures.rglob("*.jpg")))
    corel, ukbench = engine
    assert (corel.measure, corel.scored) == ("mAP", (n + 1) ** 2)  # the duplicated picture counts twice
    assert (ukbench.measure, ukbench.scored) == ("4·recall@4", n**2)
    assert 0.3 < corel.low <= corel.value <= corel.high <= 1
    assert 1 <= ukbench.value <= 4
    assert corel.paper is None


def test_the_command_prints_one_json_line_per_cell(
    data: Path, engine: list[Cell], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["bench", "run", "retrieval", "--data", str(data), "--rows", "color", "--columns", "corel1k, ukbench2000"]
    assert cli.run([*words, "--seed", "1", "--json"]) == 0
    cells = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [list(cell) for cell in cells] == [KEYS, KEYS]
    assert [cell["column"] for cell in cells] == ["corel1k", "ukbench2000"]
    assert [cell["value"] for cell in cells] == [cell.value for cell in engine]  # bit for bit the same as before
    assert cells[0]["low"] != engine[0].low  # another seed, another resampling
    assert cli.run([*words[:-1], "corel5"]) == 2
    assert "Did you mean 'corel" in capsys.readouterr().err


def test_a_pipe_gets_one_line_per_cell(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(tables, "load", lambda name: TOY)
    assert cli.run(["bench", "run", "toy", "--data", ".", "--columns", "y"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(",")[0] for line in lines] == [
        "toy  one  y  m 3.000 (0.000–9.000",
        "toy  three  y  m 5.000 (0.000–9.000",
    ]


def test_a_row_named_twice_is_filled_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(tables, "load", lambda name: TOY)
    assert cli.run(["bench", "run", "toy", "--data", ".", "--rows", "one, three,one", "--columns", "y,y"]) == 0
    assert [line.split()[:3] for line in capsys.readouterr().out.splitlines()] == [
        ["toy", "one", "y"],
        ["toy", "three", "y"],
    ]


def test_the_list_shows_rows_and_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["bench", "list", "--json"]) == 0
    found = {bench["name"]: bench["rows"] for bench in json.loads(capsys.readouterr().out)}
    assert list(found) == sorted(tables.BENCHES)
    assert found["retrieval"] == list(retrieval.BENCH.rows)
    assert cli.run(["bench", "list"]) == 0
    shown = capsys.readouterr().out
    assert "  columns  mnist/{32,64,128,256}, cifar10-{fisher,deep}/{32,64,128,256}\n" in shown
    assert "hours on one core" in shown
    assert cli.run(["bench", "list", "retrieval"]) == 0
    assert "columns  corel1k, corel5k, corel1k-outside, corel5k-split, ukbench2000-outside" in capsys.readouterr().out


def test_every_benchmark_estimates_its_time_and_has_valid_paper_results() -> None:
    with_figures: set[str] = set()
    for bench in map(tables.load, tables.BENCHES):
        for row, column in bench.places():
            assert bench.seconds(row, column) > 0
            paper = bench.paper(row, column).value
            assert paper is None or 0 < paper < (100 if bench.name == "ncm" else 1), (bench.name, row, column)
            with_figures |= {bench.name} if paper is not None else set()
        for name in bench.on_request:
            row, _, column = name.rpartition(" ")
            assert name in (*bench.rows, *bench.columns) or (row in bench.rows and column in bench.columns), name
    assert with_figures == {"dfk", "hashing", "ncm", "slem"}


def test_every_claim_refers_to_existing_cells() -> None:
    for claim in CLAIMS:
        assert set(claim.rows) <= {row for row, column in tables.load(claim.bench).places() if column == claim.column}
    assert {part.bench for part in NOT_RUN} <= set(tables.BENCHES)


def test_a_table_shows_the_papers_result_next_to_ours() -> None:
    cells = [
        Cell("toy", row, column, "mAP", 0.5, 0.4, 0.6, paper, "", 0, 1.0, 100.0, 9)
        for row in ("one", "three")
        for column, paper in (("x", 0.55), ("y", None))
    ]
    console = Console(width=100, file=io.StringIO())
    console.print(_table(TOY, cells))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert text.count("0.500 (0.400–0.600, paper 0.550)") == 2
    assert text.count("0.500 (0.400–0.600)") == 2
    assert text.index("one") < text.index("three")
