"""The command line."""

import json
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import typer
from PIL import Image

import lookalike
from lookalike import cli
from lookalike.cli import options, output
from lookalike.collection import adding
from lookalike.errors import LookalikeError
from waiting import TIMEOUT_S, until

COMMANDS = [
    "add", "remove", "refresh", "fit", "search", "items", "stats", "verify", "compact", "export", "label", "demo",
    "recipes", "bench run", "explain", "feedback", "sessions", "plan",
]  # fmt: skip
PROGRAM = [sys.executable, "-m", "lookalike"]


@dataclass
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run a command line in this process."""

    def run(*words: object) -> Outcome:
        capsys.readouterr()
        code = cli.run([str(word) for word in words])
        return Outcome(code, *capsys.readouterr())

    return run


@pytest.fixture(scope="module")
def filled(shared: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection of the synthetic pictures with the recipe `color`. Read-only."""
    return Path(shutil.copytree(shared("color"), tmp_path_factory.mktemp("filled") / "collection"))


@pytest.fixture
def own(filled: Path, tmp_path: Path) -> Path:
    """A writable copy of the filled collection."""
    return Path(shutil.copytree(filled, tmp_path / "own"))


@pytest.fixture
def first(pictures: Path) -> Path:
    return sorted(pictures.rglob("*.jpg"))[0]


def test_help_lists_every_command_and_each_has_an_example(call: Callable[..., Outcome]) -> None:
    listing = call("--help")
    assert listing.code == 0
    for name in COMMANDS:
        assert f"\n  {name.split()[0]} " in listing.out
        page = call(*name.split(), "--help")
        assert page.code == 0
        assert "Examples:\n    lookalike " in page.out
        assert "--json" in page.out
    assert call().out == listing.out


def command_groups(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The names of all commands that have commands."""
    names = command.list_commands(None) if hasattr(command, "list_commands") else []
    if names:
        yield path
    for name in names:
        yield from command_groups(command.get_command(None, name), (*path, name))


@pytest.mark.parametrize("group", list(command_groups(typer.main.get_command(cli.app))), ids=" ".join)
def test_no_summary_in_the_help_is_cut_at_80_columns(
    call: Callable[..., Outcome], group: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    listing = call(*group, "--help").out.partition("\nCommands:\n")[2]
    assert listing
    for line in listing.splitlines():
        assert re.fullmatch(r"  \S+ +[A-Z].*\.", line), line
        assert len(line) <= 80
        assert not line.endswith(("...", "…"))


def test_the_version_is_printed(call: Callable[..., Outcome]) -> None:
    assert call("--version").out == f"lookalike {lookalike.__version__}\n"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [("sea", "search"), ("classes re", "remove rename reject"), ("search --li", "--likely"), ("add pic", "")],
)
def test_bash_completes_commands_and_options(typed: str, completed: str, tmp_path: Path) -> None:
    script = """lookalike --install-completion bash >&2
source ~/.bashrc
COMP_WORDS=(lookalike $1) COMP_CWORD=$(wc -w <<< "$1")
_lookalike_completion lookalike
echo "${COMPREPLY[*]}"
"""
    (tmp_path / ".bashrc").touch()
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    shown = subprocess.run(
        ["bash", "-c", script, "bash", typed],
        env={**os.environ, "HOME": str(tmp_path), "PATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split() == completed.split(), shown.stderr


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys, lookalike.cli\n"
        "assert lookalike.cli.run(['--help']) == 0 and lookalike.cli.run(['search', '--help']) == 0\n"
        "heavy = {'numpy', 'rich', 'PIL', 'cv2', 'faiss', 'onnxruntime', 'sklearn', 'numba', 'torch'}\n"
        "assert not heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


def test_importing_collections_loads_no_learning_libraries() -> None:
    code = "import sys, lookalike.collection; print({'scipy', 'sklearn', 'numba', 'faiss', 'torch'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout == "set()\n"


def test_add_then_search_finds_the_picture_itself_first(
    call: Callable[..., Outcome], pictures: Path, tmp_path: Path, first: Path
) -> None:
    where = tmp_path / "new"
    added = call("-c", where, "add", pictures / first.parent.name, "--recipe", "color", "--json")
    assert added.code == 0
    assert (added.json["added"], added.json["skipped"]) == (4, {})
    found = call("-c", where, "search", first, "-k", 3, "--json")
    assert found.code == 0
    assert [list(hit) for hit in found.json] == [["id", "path", "score"]] * 3
    assert found.json[0]["path"] == str(first)
    assert found.json[0]["score"] == pytest.approx(0, abs=1e-5)
    assert [hit["score"] for hit in found.json] == sorted(hit["score"] for hit in found.json)


def test_a_search_accepts_an_id_instead_of_a_path(call: Callable[..., Outcome], filled: Path, first: Path) -> None:
    by_path = call("-c", filled, "search", first, "--json").json
    name = by_path[0]["id"]
    assert len(name) == 16
    assert call("-c", filled, "search", name, "--json").json == by_path


def test_not_can_be_repeated_anywhere(call: Callable[..., Outcome], filled: Path, pictures: Path) -> None:
    a, b, c, d = sorted(pictures.rglob("*.jpg"))[:4]
    after = call("-c", filled, "search", a, "--not", b, "--not", c, "-k", 5, "--json")
    before = call("-c", filled, "search", "--not", b, f"--not={c}", "-k", 5, a, "--json")
    other = call("-c", filled, "search", a, c, "--not", b, "-k", 5, "--json")
    assert after.json == before.json != other.json
    assert call("-c", filled, "search", a, "--not", b, c, "-k", 5, "--json").json == other.json  # one per --not
    ended = call("-c", filled, "search", a, "--not", b, "--json", "-k", 5, "--", d)
    assert ended.json == call("-c", filled, "search", a, d, "--not", b, "-k", 5, "--json").json
    nothing = call("-c", filled, "search", "--not", a)
    assert nothing.code == 2
    assert "at least one positive example" in nothing.err


def test_the_collection_can_be_specified_in_four_ways(
    call: Callable[..., Outcome], filled: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = call("-c", filled, "stats", "--json").json
    assert call("stats", "--collection", filled, "--json").json == expected
    monkeypatch.setenv("LOOKALIKE_COLLECTION", str(filled))
    assert call("stats", "--json").json == expected
    monkeypatch.delenv("LOOKALIKE_COLLECTION")
    monkeypatch.chdir(tmp_path)
    shutil.copytree(filled, tmp_path / ".lookalike")
    assert call("stats", "--json").json["items"] == expected["items"]


def test_stats_have_the_keys_that_scripts_use(call: Callable[..., Outcome], filled: Path, pictures: Path) -> None:
    stats = call("-c", filled, "stats", "--json").json
    assert {"items", "skipped", "spaces", "bytes", "index"} <= set(stats)
    assert stats["items"] == len(list(pictures.rglob("*.jpg")))
    assert stats["index"] == {"color": "flat"}
    text = call("-c", filled, "stats")
    assert f"{stats['items']} pictures" in text.out
    assert "space color:" in text.out


def test_skipped_files_are_listed_with_reasons_and_the_exit_code_is_1(
    call: Callable[..., Outcome], first: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    shutil.copy(first, folder / "good.jpg")
    (folder / "broken.jpg").write_bytes(first.read_bytes()[:100])
    text = call("-c", tmp_path / "c", "add", folder, "--recipe", "color")
    assert text.code == 1
    assert text.out.startswith("1 added, 1 skipped in ")
    line = text.out.splitlines()[1]
    assert line.startswith(f"skipped: {folder}/broken.jpg: ")
    assert len(line) > len(f"skipped: {folder}/broken.jpg: ")
    again = call("-c", tmp_path / "c", "refresh", "--json")
    assert (again.code, again.json["known"], again.json["skipped"]) == (0, 1, {})  # nothing new is wrong
    assert list(again.json["known_skipped"]) == [f"{folder}/broken.jpg"]
    (folder / "broken.jpg").write_bytes(first.read_bytes()[:200])
    changed = call("-c", tmp_path / "c", "refresh", "--json")
    assert (changed.code, list(changed.json["skipped"])) == (1, [f"{folder}/broken.jpg"])


def test_files_of_other_types_are_counted_and_skipped_files_are_listed_on_request(
    call: Callable[..., Outcome], first: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    shutil.copy(first, folder / "good.jpg")
    (folder / "broken.jpg").write_bytes(b"")
    for name in ("a.mp4", "b.MP4", "c.txt", "d.xmp", "Thumbs.db", ".DS_Store"):
        (folder / name).touch()
    sentence = "3 files of types Lookalike does not read: .mp4 2, .txt 1."
    assert sentence in call("-c", tmp_path / "c", "add", folder, "--recipe", "color").out.splitlines()
    again = call("-c", tmp_path / "c", "refresh").out.splitlines()
    assert again[0].startswith("0 added, 1 unchanged, 0 skipped in ")
    assert again[1:] == [
        sentence,
        f"1 file skipped as before. Run: lookalike -c {tmp_path}/c stats --skipped",
    ]
    listed = call("-c", tmp_path / "c", "stats", "--skipped")
    assert (listed.code, listed.out) == (0, f"{folder}/broken.jpg: it is empty\n{sentence}\n")
    as_json = call("-c", tmp_path / "c", "stats", "--skipped", "--json").json
    assert as_json == {"skipped": {f"{folder}/broken.jpg": "it is empty"}, "other_types": {".mp4": 2, ".txt": 1}}
    assert sentence in call("-c", tmp_path / "c", "stats").out.splitlines()
    (folder / "broken.jpg").unlink()
    for name in ("a.mp4", "b.MP4", "c.txt"):
        (folder / name).unlink()
    call("-c", tmp_path / "c", "refresh")
    assert call("-c", tmp_path / "c", "stats", "--skipped").out == "0 files skipped.\n"


def test_remove_and_refresh_and_compact_and_verify(
    call: Callable[..., Outcome], own: Path, pictures: Path, first: Path
) -> None:
    total = call("-c", own, "stats", "--json").json["items"]
    assert call("-c", own, "remove", first.parent, "--json").json == {"removed": 4}
    assert (
        call("-c", own, "remove", "--path", f"*/{sorted(pictures.iterdir())[1].name}/*").out == "Removed 4 pictures.\n"
    )
    assert call("-c", own, "stats", "--json").json["items"] == total - 8
    done = call("-c", own, "compact", "--json")
    assert done.json["bytes_after"] <= done.json["bytes_before"]
    assert "→" in call("-c", own, "compact").out
    assert call("-c", own, "verify", "--json").json == {"clean": True, "faults": []}
    assert call("-c", own, "refresh", "--json").json["added"] == 8
    assert call("-c", own, "stats", "--json").json["items"] == total


def test_verify_exits_1_when_something_is_wrong(call: Callable[..., Outcome], own: Path) -> None:
    assert call("-c", own, "verify").code == 0
    segment = max(own.rglob("*.npy"), key=lambda path: path.stat().st_size)
    segment.chmod(0o644)
    data = bytearray(segment.read_bytes())
    data[-5] ^= 0xFF
    segment.write_bytes(data)
    wrong = call("-c", own, "verify", "--json")
    assert wrong.code == 1
    assert wrong.json["clean"] is False
    assert len(wrong.json["faults"]) >= 1


def test_pictures_are_counted_and_the_values_are_filters(
    call: Callable[..., Outcome], filled: Path, pictures: Path
) -> None:
    def count(*words: str | Path) -> int:
        return len(call("-c", filled, "items", "--json", *words).json)

    counts = call("-c", filled, "facets", "--json").json
    options = {"year": "--year", "orientation": "--orientation", "file_format": "--file-format"}
    for facet, option in options.items():
        assert counts[facet] == {value: count(option, value) for value in counts[facet]}
        assert sum(counts[facet].values()) == count()
    assert counts["labelled"] == {"no": count("--unlabelled")}
    assert call("-c", filled, "facets", "--by", "year", "--json").json == counts["year"]
    months = call("-c", filled, "facets", "--by", "month", "--json").json
    assert sum(months.values()) == count()
    folders = call("-c", filled, "facets", "--by", "folder", "--folder", pictures, "--json").json
    assert folders == {folder: count("--folder", folder) for folder in folders}
    assert len(folders) == len(list(pictures.iterdir()))
    assert re.search(r"^facet +value +pictures\nyear +\d{4} ", call("-c", filled, "facets").out)
    assert "must be latitude,longitude" in call("-c", filled, "items", "--place", "here").err


def test_items_are_listed_and_filtered(call: Callable[..., Outcome], filled: Path, pictures: Path, first: Path) -> None:
    everything = call("-c", filled, "items", "--json").json
    assert len(everything) == len(list(pictures.rglob("*.jpg")))
    assert {"id", "paths", "width", "height", "bytes", "labels"} <= set(everything[0])
    kind = first.parent.name
    some = call("-c", filled, "items", "--path", f"*/{kind}/*")
    assert len(some.out.splitlines()) == 4
    assert all(f"/{kind}/" in line for line in some.out.splitlines())
    assert call("-c", filled, "items", "--min-side", 100_000).out == ""
    assert call("-c", filled, "items", "--until", "1990-01-01", "--json").json == []
    today = time.strftime("%Y-%m-%d")
    assert len(call("-c", filled, "items", "--since", today, "--until", today, "--json").json) == len(everything)
    found = call("-c", filled, "search", first, "--path", f"*/{kind}/*", "--json").json
    assert len(found) == 4


def test_imported_labels_can_be_filters(call: Callable[..., Outcome], own: Path, first: Path, tmp_path: Path) -> None:
    table = tmp_path / "labels.csv"
    table.write_text(f"path,label\n{first},nice\n/not/there.jpg,nice\n")
    report = call("-c", own, "label", table, "--json")
    assert report.code == 1
    assert report.json == {"labelled": 1, "unknown": ["/not/there.jpg"]}
    assert [item["labels"] for item in call("-c", own, "items", "--label", "nice", "--json").json] == [["nice"]]
    assert "not in the collection: /not/there.jpg" in call("-c", own, "label", table).out
    for command in (["search", first], ["items"], ["export"], ["remove"], ["duplicates"]):
        typo = call("-c", own, *command, "--label", "nise")
        assert (typo.code, typo.out) == (2, "")
        assert "No label named 'nise'. Known: nice. Did you mean 'nice'?" in typo.err


def test_export_writes_to_stdout_and_to_files(
    call: Callable[..., Outcome], filled: Path, pictures: Path, tmp_path: Path
) -> None:
    names = sorted(str(path) for path in pictures.rglob("*.jpg"))
    assert sorted(call("-c", filled, "export", "--format", "paths").out.splitlines()) == names
    assert len(call("-c", filled, "export", "--json").json) == len(names)
    written = call("-c", filled, "export", tmp_path / "v.npz", "--format", "npz", "--json")
    assert written.json == {"items": len(names), "target": str(tmp_path / "v.npz")}
    assert (tmp_path / "v.npz").stat().st_size > 0
    both = call("-c", filled, "export", "--format", "csv", "--json")
    assert both.code == 2
    assert "cannot both write to standard output" in both.err


def test_fit_reports_the_number_of_pictures(call: Callable[..., Outcome], own: Path, pictures: Path) -> None:
    added = call("-c", own, "add", pictures, "--recipe", "small = color() | pca(dim=8)", "--json")
    assert added.code == 0
    n = len(list(pictures.rglob("*.jpg")))
    assert call("-c", own, "fit", "--json").json == {"fitted": {"small": n}, "notes": {}}
    assert call("-c", own, "fit", "small").out == f"small: fitted on {n} pictures.\n"
    unknown = call("-c", own, "fit", "smal")
    assert unknown.code == 2
    assert "Did you mean 'small'?" in unknown.err


def test_a_part_can_be_searched_and_results_have_boxes(
    call: Callable[..., Outcome], filled: Path, pictures: Path, tmp_path: Path
) -> None:
    image, sheet = pictures / "house" / "house-000.jpg", tmp_path / "found.png"
    words = ["-c", filled, "search", image, "--box", "0.1,0.2,0.9,1", "--where", "-k", "3"]
    found = call(*words, "--json", "--sheet", sheet)
    assert [len(result["box"]) for result in found.json] == [4, 4, 4]
    assert sheet.exists()
    assert re.match(r"\d\.\d{4}  \d\.\d\d,\d\.\d\d,\d\.\d\d,\d\.\d\d  /", call(*words).out)
    assert "box" not in call("-c", filled, "search", image, "--json").json[0]
    for box, message in (("1,2", "--box must be"), ("0,0,0,1", "A box must be"), ("a,b,c,d", "--box must be")):
        refused = call("-c", filled, "search", image, "--box", box)
        assert (refused.code, message in refused.err) == (2, True)
    two = call("-c", filled, "search", image, image, "--box", "0,0,1,1")
    assert (two.code, "a part of one picture" in two.err) == (2, True)


def test_search_writes_a_sheet_and_a_page(
    call: Callable[..., Outcome], filled: Path, first: Path, tmp_path: Path
) -> None:
    name = call("-c", filled, "search", first, "-k", 1, "--json").json[0]["id"]
    sheet, page = tmp_path / "s.jpg", tmp_path / "s.html"
    done = call("-c", filled, "search", name, "-k", 6, "--sheet", sheet, "--html", page, "--json")
    assert (done.code, len(done.json)) == (0, 6)
    assert f"Wrote {sheet}" in done.err
    with Image.open(sheet) as image:
        assert image.width > 600
    text = page.read_text()
    assert text.count("<figure") == 7
    assert name in text
    refused = call("-c", filled, "search", first, "--sheet", tmp_path / "s.gif")
    assert refused.code == 2
    assert "must end in .png" in refused.err
    for option in ("--sheet", "--html"):
        assert "Create it first" in call("-c", filled, "search", first, option, tmp_path / "none" / "s.png").err


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["sarch", "x.jpg"], "Did you mean 'search'?"),
        (["search", "x.jpg", "-k", "0"], "Invalid value for '-k'"),
        (["search", "x.jpg", "-k", "many"], "Invalid value for '-k': it is not a valid integer. Try:"),
        (["duplicates", "--tier", "sam"], "Invalid value for '--tier': 'sam' is not one of"),
        (["search", "x.jpg", "--colour"], "No such option: --colour"),
        (["search", "/no/such.jpg"], "/no/such.jpg"),
        (["search", "0123456789abcdef"], "0123456789abcdef"),
        (["items", "--since", "yesterday"], "--since must be a date such as"),
        (["items", "--min-side", "9", "--max-side", "3"], "3"),
        (["add"], "Missing argument 'SOURCE'"),
        (["add", "/no/such/folder"], "/no/such/folder"),
        (["add", "/tmp", "--recipe", "depe"], "Did you mean 'deep'?"),
        (["remove"], "give either ids and paths or a filter"),
        (["remove", "nothing-like-this"], "nothing-like-this"),
        (["label", "/no/labels.csv"], "/no/labels.csv"),
        (["export", "/no/such/folder/x.json"], "/no/such/folder/x.json"),
        (["bench", "run", "retrieva"], "Did you mean 'retrieval'?"),
        (["bench", "run", "retrieval"], "Give --data DIR"),
    ],
)
def test_invalid_input_gives_one_line_and_exit_code_2(
    call: Callable[..., Outcome], own: Path, words: list[str], complaint: str
) -> None:
    plain = call("-c", own, *words)
    assert (plain.code, plain.out) == (2, "")
    assert complaint in plain.err
    assert plain.err.startswith("lookalike: ")
    assert len(plain.err.splitlines()) == 1
    machine = call("-c", own, *words, "--json")
    assert (machine.code, machine.out) == (2, "")
    error = json.loads(machine.err)["error"]
    assert set(error) == {"kind", "message"}
    assert complaint in error["message"]


def test_the_error_for_a_missing_collection_names_its_path(call: Callable[..., Outcome], tmp_path: Path) -> None:
    for words in (["stats"], ["search", "x.jpg"], ["refresh"], ["verify"], ["items"]):
        missing = call("-c", tmp_path / "none", *words)
        assert missing.code == 2
        assert str(tmp_path / "none") in missing.err
    assert not (tmp_path / "none").exists()


def test_every_lookalike_error_is_printed_on_one_line(
    call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, filled: Path
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise LookalikeError("first line\nsecond \x1b[31mline")

    monkeypatch.setattr(lookalike.Collection, "stats", fail)
    outcome = call("-c", filled, "stats")
    assert (outcome.code, outcome.err) == (2, "lookalike: first line second \\x1b[31mline\n")


def test_ctrl_c_exits_with_130_and_reports_that_commits_are_safe(
    call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, filled: Path
) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(lookalike.Collection, "stats", stop)
    outcome = call("-c", filled, "stats")
    assert outcome.code == 130
    assert "Committed changes are safe" in outcome.err


def test_a_second_writer_is_refused_or_waits(call: Callable[..., Outcome], own: Path, pictures: Path) -> None:
    code = (
        "import sys, lookalike\n"
        "collection = lookalike.Collection(sys.argv[1])\n"
        "with collection._store.writer(0.0):\n"
        "    print('writing', flush=True)\n"
        "    sys.stdin.readline()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", code, str(own)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline() == "writing\n"
        refused = call("-c", own, "remove", pictures, "--wait", 0.2)
        assert refused.code == 2
        assert len(refused.err.splitlines()) == 1
        assert call("-c", own, "stats").code == 0
    finally:
        other.communicate("\n", timeout=TIMEOUT_S)
    assert call("-c", own, "remove", pictures, "--wait", 5).code == 0


def test_undecodable_names_are_printed_and_json_stays_valid(first: Path, tmp_path: Path) -> None:
    folder = tmp_path / "odd"
    folder.mkdir()
    name = os.fsencode(folder) + b"/caf\xe9\n\x1b[31m.jpg"
    shutil.copy(first, os.fsdecode(name))
    with lookalike.Collection(tmp_path / "c", create=True) as collection:
        collection.add(folder, recipes=["color"])
    code = (
        "import sys\n"
        "from lookalike.cli import run\n"
        "for words in (['search', sys.argv[2]], ['search', sys.argv[2], '--json'], ['items', '--json']):\n"
        "    assert run(['-c', sys.argv[1], *words]) == 0\n"
        "    print('=====')\n"
        "assert run(['-c', sys.argv[1], 'export', '--format', 'paths']) == 0\n"
    )
    words = [sys.executable, "-c", code, tmp_path / "c", name]
    env = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, check=True, capture_output=True, env=env)
    plain, found, items, paths = done.stdout.split(b"=====\n")
    assert plain.count(b"\n") == 1
    assert rb"caf\udce9\n\x1b[31m.jpg" in plain
    for text in (found, items):
        assert len(json.loads(text)) == 1
        json.dumps(json.loads(text), ensure_ascii=False).encode("utf-8")  # it has no lone surrogates
    assert paths == name + b"\n"


def test_a_closed_pipe_ends_quietly(filled: Path) -> None:
    for words in (["items"], ["search", "--help"]):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run([*PROGRAM, "-c", filled, *words], stdout=write, stderr=subprocess.PIPE, check=False)
        os.close(write)
        assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_an_export_to_a_full_disk_names_the_file_and_what_to_do(filled: Path) -> None:
    done = subprocess.run(
        [*PROGRAM, "-c", filled, "export", "/dev/full", "--format", "csv"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "/dev/full" in done.stderr
    assert "Free some disk space" in done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line(filled: Path) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*PROGRAM, "-c", filled, "stats"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"No space left" in done.stderr


def on_a_terminal(*words: object) -> tuple[int, str]:
    """Run a command line in a pseudo-terminal of 80 columns; return its exit code and output."""
    pid, handle = pty.fork()
    if pid == 0:
        os.environ.update(COLUMNS="80", LINES="24", TERM="xterm")
        os.execv(sys.executable, [*PROGRAM, *map(str, words)])
    shown = b""
    while True:
        try:
            part = os.read(handle, 65536)
        except OSError:  # on Linux: the other side is closed
            break
        if not part:
            break
        shown += part
    os.close(handle)
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())  # without colours and cursor moves
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), plain


def test_a_terminal_gets_progress_bars_and_a_table(filled: Path, pictures: Path, first: Path, tmp_path: Path) -> None:
    code, shown = on_a_terminal("-c", tmp_path / "c", "add", first.parent, "--recipe", "color")
    assert code == 0
    assert "reading" in shown
    assert "4/4" in shown
    assert "/s" in shown
    assert "4 added" in shown
    code, shown = on_a_terminal("-c", filled, "search", first, "-k", 3)
    assert code == 0
    lines = [line for line in shown.splitlines() if line.strip()]
    assert lines[0].split() == ["#", "score", "picture"]
    assert lines[1].rstrip().endswith(first.name)
    assert all(len(line) <= 80 for line in lines)


def test_a_pipe_gets_only_plain_lines(call: Callable[..., Outcome], filled: Path, first: Path) -> None:
    found = call("-c", filled, "search", first, "-k", 3)
    assert found.err == ""
    assert found.out.splitlines()[0] == f"0.0000  {first}"
    assert len(found.out.splitlines()) == 3
    nothing = call("-c", filled, "search", first, "--path", "/nowhere/*")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "No pictures found.\n")


def test_an_add_interrupted_by_ctrl_c_can_be_resumed(pictures: Path, tmp_path: Path) -> None:
    words = [*PROGRAM, "-c", tmp_path / "c", "add", pictures, "--recipe", "color", "--workers", "1"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    until(lambda: psutil.Process(process.pid).children())  # it starts reading
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to every process of the group
    _, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 130
    assert err.decode().splitlines() == ["Stopped. Committed changes are safe. Run the same command again to continue."]
    again = subprocess.run([*words, "--json"], check=True, capture_output=True)
    report = json.loads(again.stdout)
    assert report["added"] + report["known"] == len(list(pictures.rglob("*.jpg")))


def test_recipes_are_listed_with_their_chains(call: Callable[..., Outcome]) -> None:
    rows = call("recipes", "--json").json
    assert {row["name"] for row in rows} == set(lookalike.recipes.RECIPES)
    assert all(row["chain"] and row["about"] for row in rows)
    text = call("recipes").out
    assert all(row["about"] in text for row in rows)


def test_demo_generates_indexes_searches_and_can_be_repeated(
    call: Callable[..., Outcome], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(adding, "DEFAULT", ("color",))  # the network is tested elsewhere
    monkeypatch.setattr("lookalike.cli.demo.PER_KIND", 3)
    told = call("demo")
    assert told.code == 0
    assert "of the same kind" in told.out
    assert "lookalike -c photos.lookalike add ~/Pictures" in told.out
    with Image.open(tmp_path / "demo-results.png") as sheet:
        assert sheet.width > 1000
    again = call("demo", "--json")
    assert again.code == 0
    assert again.json["pictures"] == len(list((tmp_path / "demo-pictures").rglob("*.jpg"))) > 30
    first = again.json["searches"][0]
    assert first["query"] not in [result["path"] for result in first["results"]]
    assert call("stats", "--json").json["items"] == again.json["pictures"]


def test_dates_are_days_or_times() -> None:
    day = options.parse_date("--since", "2024-03-01")
    assert options.parse_date("--until", "2024-03-01", last=True) == pytest.approx(day + 86_400, abs=0.01)
    assert options.parse_date("--since", "2024-03-01T06:00") == day + 6 * 3_600
    assert options.parse_date("--until", "1970-01-01T00:00:10+00:00", last=True) == 10


def test_json_is_valid_for_strict_readers(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json({"a\udcff": [float("nan"), float("inf"), 0.5, "é\udce9"], "n": None})
    assert json.loads(capsys.readouterr().out) == {"a\\udcff": [None, None, 0.5, "é\\udce9"], "n": None}


@pytest.mark.parametrize(("text", "value"), [(None, None), ("0.5", 0.5), ("fast", "fast")])
def test_effort_is_a_number_or_a_name(text: str | None, value: float | str | None) -> None:
    assert options.parse_effort(text) == value


def test_hints_cover_every_command_that_uses_a_collection():
    listing = {line.split()[0] for line in _commands()}
    verbs = set(re.findall(r"[a-z]+", output._VERBS))
    assert verbs == listing - {"bench", "demo", "recipes", "restore"}


def _commands() -> list[str]:
    text = subprocess.run([*PROGRAM, "--help"], capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  ([a-z]+)  ", text.partition("Commands:")[2], re.MULTILINE)
