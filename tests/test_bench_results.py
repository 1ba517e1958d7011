"""Results of benchmarks: stored, resumed, compared with papers and reported."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lookalike import cli
from lookalike.errors import InputError, MissingError
from lookalike_bench import report, results, tables
from lookalike_bench.report import Claim, judge, judge_order
from lookalike_bench.tables import Bench, Cell, PaperFigure, Score

CELL = Cell("toy", "one", "x", "mAP", 0.80, 0.79, 0.81, 0.80, "", 0, 1.5, 90.0, 7)


@pytest.fixture
def toy(monkeypatch):
    """A benchmark that counts its runs."""
    runs = []

    def run(row, column, data, seed, progress):
        runs.append((row, column, seed))
        return Score("mAP", 0.5, 0.4, 0.6, scored=1)

    bench = Bench("toy", "for tests", ("a", "b"), ("x", "y"), run, paper=lambda row, column: PaperFigure(0.55))
    monkeypatch.setitem(tables.BENCHES, "toy", "toy:BENCH")
    monkeypatch.setattr(tables, "load", lambda name: bench)
    return runs


def test_appended_records_are_read_back(tmp_path):
    file = tmp_path / "figures.jsonl"
    first, second = results.record(CELL), results.record(replace(CELL, row="two", value=float("nan")))
    results.append(file, first)
    results.append(file, second)
    again = results.read(file)
    assert again[0] == first
    assert again[1].cell.value != again[1].cell.value
    assert {"python", "numpy"} <= set(first.versions)
    assert first.commit
    assert "cores" in first.machine


def test_an_incomplete_line_is_skipped(tmp_path):
    file = tmp_path / "figures.jsonl"
    results.append(file, results.record(CELL))
    file.write_bytes(file.read_bytes() + b'{"cell": {"ben')
    results.append(file, results.record(replace(CELL, row="two")))
    assert [one.cell.row for one in results.read(file)] == ["one", "two"]


def test_other_files_are_rejected(tmp_path):
    (tmp_path / "other.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(InputError, match="Line 1 of"):
        results.read(tmp_path / "other.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"Cannot read .*bytes: "):
        results.read(tmp_path / "bytes")
    with pytest.raises(InputError, match="Cannot write results to"):
        results.append(tmp_path, results.record(CELL))
    assert results.read(tmp_path / "none") == []


@pytest.mark.parametrize(
    ("old", "new"),
    [("× as fast", "speed-up"), ("bytes an item", "bytes per item"), ("mAP of 20", "mAP@20"), ("ms", "ms")],
)
def test_measures_in_older_files_get_their_current_names(tmp_path, old, new):
    results.append(tmp_path / "older.jsonl", results.record(replace(CELL, measure=old)))
    assert [record.cell.measure for record in results.read(tmp_path / "older.jsonl")] == [new]


def test_a_measure_that_is_not_text_is_rejected(tmp_path):
    results.append(tmp_path / "other.jsonl", results.record(replace(CELL, measure=None)))
    with pytest.raises(InputError, match="measure must be text, got None"):
        results.read(tmp_path / "other.jsonl")


def test_an_interrupted_run_resumes(toy, tmp_path, capsys, monkeypatch):
    words = ["bench", "run", "toy", "--data", ".", "--results", str(tmp_path / "figures.jsonl"), "--json"]
    assert cli.run([*words, "--columns", "x"]) == 0
    assert cli.run(words) == 0
    assert toy == [("a", "x", 0), ("b", "x", 0), ("a", "y", 0), ("b", "y", 0)]
    assert [json.loads(line)["column"] for line in capsys.readouterr().out.splitlines()] == list("xxxxyy")
    assert cli.run([*words, "--columns", "x", "--seed", "1"]) == 0
    assert toy[4:] == [("a", "x", 1), ("b", "x", 1)]
    monkeypatch.setattr(results, "commit", lambda: "other")  # other code, other results
    assert cli.run([*words, "--columns", "x"]) == 0
    assert toy[6:] == [("a", "x", 0), ("b", "x", 0)]


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        ({}, "reproduced", "reproduced"),
        ({"paper": 0.829}, "below the paper", "below the paper by 0.029"),
        ({"paper": 0.819}, "reproduced", "reproduced"),
        ({"paper": 0.75}, "better", "better by 0.05"),
        ({"paper": None}, "", "not in the paper"),
        ({"unlike": "a drawing", "paper": None}, "not comparable", "not comparable because a drawing"),
        ({"unlike": "other pictures"}, "not comparable", "not comparable because other pictures"),
        (
            {"measure": "top-1 error %", "value": 40.0, "low": 39.0, "high": 41.0, "paper": 43.0},
            "better",
            "better by 3",
        ),
        (
            {"measure": "ms", "value": 5.0, "low": 4.9, "high": 5.1, "paper": 2.0},
            "below the paper",
            "below the paper by 3",
        ),
    ],
)
def test_a_cell_is_compared_with_the_papers_result(changes, kind, text):
    assert judge(replace(CELL, **changes)) == (kind, text)


@pytest.mark.parametrize(
    ("better", "measure", "kind"),
    [
        ((0.9, 0.89, 0.91), "mAP", "holds"),
        ((0.79, 0.78, 0.80), "mAP", "within intervals"),
        ((0.7, 0.69, 0.71), "mAP", "does not hold"),
        ((0.7, 0.69, 0.71), "ms", "holds"),
        ((0.9, 0.89, 0.91), "ms", "does not hold"),
    ],
)
def test_an_order_is_checked_by_the_intervals(better, measure, kind):
    claim = Claim("toy", "x", ("one", "two"), "a table")
    value, low, high = better
    cells = [replace(CELL, measure=measure), replace(CELL, row="two", measure=measure, value=value, low=low, high=high)]
    assert judge_order(claim, cells) == (kind, f"one 0.800 → two {value:.3f}")
    assert judge_order(claim, cells[:1]) is None


def test_columns_are_sorted_by_size_and_tables_by_dataset(tmp_path):
    columns = ("mnist/256", "cifar10-deep/64", "mnist/32")
    records = [results.record(replace(CELL, bench="hashing", row="itq", column=column)) for column in columns]
    (section,) = report.sections(records)
    assert [[name for name, _ in shown] for shown, _ in section.parts()] == [["mnist/32", "mnist/256"], [columns[1]]]


def test_seeds_are_averaged_and_the_last_run_counts():
    other = replace(CELL, seed=1, value=0.3, low=0.2, high=0.9)
    cells = [CELL, replace(CELL, value=0.1), other, replace(CELL, row="b")]
    merged = report.merge(map(results.record, cells))
    assert [(cell.row, cell.value, cell.low, cell.high) for cell in merged] == [
        ("one", pytest.approx(0.2), 0.2, 0.9),
        ("b", 0.80, 0.79, 0.81),
    ]


def test_the_report_is_one_page(tmp_path, capsys):
    file = tmp_path / "figures.jsonl"
    results.append(file, results.record(replace(CELL, bench="hashing", column="mnist/32", row="<i>tq")))
    results.append(file, results.record(replace(CELL, bench="hashing", column="mnist/64", paper=0.9)))
    words = ["bench", "report", str(file), "--html", str(tmp_path / "a.html"), "--markdown", str(tmp_path / "a.md")]
    assert cli.run(words) == 0
    page, text = (tmp_path / "a.html").read_text(), (tmp_path / "a.md").read_text()
    for shown in (page, text):
        assert "paper 0.900" in shown
        assert "▼ below the paper by 0.1" in shown
        assert "= reproduced" in shown
        assert "Table 3, NUS-WIDE" in shown
    assert "<svg" in page
    assert "&lt;i&gt;tq" in page
    assert "<i>" not in page
    assert "src=" not in page.replace("xmlns:xlink", "")
    assert "| `one` |  | 0.800" in text


def test_any_number_of_reasons_gets_letters(tmp_path):
    cells = [replace(CELL, row=f"r{i}", unlike=f"reason {i}") for i in range(28)]
    text = report.write_markdown([results.record(cell) for cell in cells], tmp_path / "a.md").read_text()
    for letters, i in (("a", 0), ("z", 25), ("aa", 26), ("ab", 27)):
        assert f"not comparable ({letters})" in text
        assert f"- ({letters}) reason {i}." in text
    assert [path.name for path in tmp_path.iterdir()] == ["a.md"]


def test_a_report_needs_results_and_a_target(tmp_path, capsys):
    assert cli.run(["bench", "report", str(tmp_path / "none"), "--html", "a.html"]) == 2
    assert "bench run all --results" in capsys.readouterr().err
    (tmp_path / "empty").touch()
    assert cli.run(["bench", "report", str(tmp_path / "empty"), "--html", str(tmp_path / "a.html")]) == 2
    assert "no results to report" in capsys.readouterr().err
    assert cli.run(["bench", "report", str(tmp_path / "empty")]) == 2
    results.append(tmp_path / "some", results.record(CELL))
    capsys.readouterr()
    assert cli.run(["bench", "report", str(tmp_path / "some"), "--html", str(Path("/none/a.html"))]) == 2
    assert "The folder /none does not exist. Create it first." in capsys.readouterr().err


def test_rows_cannot_be_chosen_for_all_benchmarks(capsys):
    assert cli.run(["bench", "run", "all", "--data", ".", "--rows", "deep"]) == 2
    assert "need one benchmark" in capsys.readouterr().err


def test_a_cell_that_needs_a_missing_package_is_skipped(monkeypatch, capsys, tmp_path):
    def run(row, column, data, seed, progress):
        if row == "a":
            raise MissingError("gizmo is not installed. Get it with: make gizmo")
        return Score("mAP", 0.5, 0.4, 0.6, scored=1)

    monkeypatch.setitem(tables.BENCHES, "toy", "toy:BENCH")
    monkeypatch.setattr(tables, "load", lambda name: Bench("toy", "for tests", ("a", "b"), ("x",), run))
    file = tmp_path / "figures.jsonl"
    assert cli.run(["bench", "run", "toy", "--data", ".", "--results", str(file)]) == 0
    said = capsys.readouterr()
    assert "toy  a  x  not run: gizmo is not installed. Get it with: make gizmo" in said.err
    assert "toy  b  x  mAP 0.500" in said.out
    assert [one.cell.row for one in results.read(file)] == ["b"]
