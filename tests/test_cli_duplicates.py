"""`lookalike duplicates` and `lookalike map`."""

import json
import re
import shutil

import pytest
from PIL import Image

from lookalike import Collection
from lookalike.cli import output, run


@pytest.fixture(scope="module")
def filled(pictures, tmp_path_factory):
    folder = tmp_path_factory.mktemp("duplicates")
    shutil.copytree(pictures, folder / "p")
    with Image.open(folder / "p" / "beach" / "beach-000.jpg") as photo:
        photo.resize((160, 120)).save(folder / "p" / "small.jpg")
    shutil.copy(folder / "p" / "face" / "face-000.jpg", folder / "p" / "again.jpg")
    with Collection(folder / "c", create=True) as collection:
        collection.add(folder / "p", recipes=["color"], workers=1)
    return folder


@pytest.fixture
def call(filled, capsys):
    def run_it(*words):
        code = run(["-c", str(filled / "c"), *map(str, words)])
        return code, *capsys.readouterr()

    return run_it


def test_groups_are_written_as_text_json_and_html(call, filled, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "LINE_S", 0.0)
    code, out, err = call("duplicates", "--workers", 1, "--html", tmp_path / "both.html")
    assert code == 0
    assert [line.split(":")[0] for line in err.splitlines()[:-1]][:1] == ["comparing pictures"]  # not silent in a pipe
    assert err.splitlines()[-2] == "1 group, 2 pictures."
    assert err.splitlines()[-1].startswith("Also at several paths: 1 picture. See: lookalike -c ")
    page = (tmp_path / "both.html").read_text()
    assert (page.count("<figure"), page.count("the same file at 2 paths"), page.count("the same photo")) == (3, 1, 1)
    assert [line.rpartition("/")[2] for line in out.splitlines()[1:]] == ["beach-000.jpg", "small.jpg"]
    code, out, err = call("duplicates", "--tier", "identical", "--json", "--html", tmp_path / "d.html")
    (group,) = json.loads(out)["groups"]
    assert [path.rpartition("/")[2] for path in group["items"][0]["paths"]] == ["again.jpg", "face-000.jpg"]
    assert (group["tier"], group["items"][0]["distance"]) == ("identical", 0.0)
    assert "d.html" in err
    page = (tmp_path / "d.html").read_text()
    assert page.count("<figure") == 1
    assert "again.jpg" in page
    code, _, err = call("duplicates", "--tier", "identical", "--path", "house/*")
    assert (code, err) == (0, "No duplicates found.\n")
    code, out, err = call("duplicates", "--html", tmp_path / "none" / "d.html")  # fails before the search, not after it
    assert (code, out) == (2, "")
    assert "Create it first" in err


def test_a_rule_marks_copies_in_text_and_json(call, filled):
    code, out, err = call("duplicates", "--workers", 1, "--keep", "largest")
    lines = out.splitlines()
    assert code == 0
    assert [line[0] for line in lines[1:]] == [" ", "x"]
    assert "smaller copy, 25 % of the pixels" in lines[2]
    assert "Marked with x: 1 file. Nothing was deleted." in err
    code, out, _ = call("duplicates", "--workers", 1, "--keep", filled / "p", "--json")
    answer = json.loads(out)
    assert (code, answer["marked"]) == (0, [])  # all are in this folder
    assert [item["relation"] for item in answer["groups"][0]["items"]] == [
        "largest",
        "smaller copy, 25 % of the pixels",
    ]
    words = ["duplicates", "--tier", "identical", "--keep", filled / "p" / "face", "--json"]
    assert json.loads(call(*words)[1])["marked"] == [str(filled / "p" / "again.jpg")]
    assert json.loads(call(*words, "--reference", filled / "p" / "again.jpg")[1])["marked"] == []


def test_json_counts_the_pictures_without_detail(tmp_path, capsys):
    (tmp_path / "p").mkdir()
    for grey in range(3):
        Image.new("RGB", (80, 60), (grey, grey, grey)).save(tmp_path / "p" / f"{grey}.png")
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(tmp_path / "p", recipes=["color"], workers=1)
    assert run(["-c", str(tmp_path / "c"), "duplicates", "--workers", "1", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == {"groups": [], "without_detail": 3}
    assert "Not compared: 3 pictures with too little detail" in err


def test_dismiss_is_permanent_and_accepts_paths_and_ids(call, filled):
    small = filled / "p" / "small.jpg"
    with Collection(filled / "c") as collection:
        item = f"{collection.find(str(filled / 'p' / 'beach' / 'beach-000.jpg')):016x}"
    assert call("duplicates", "dismiss", small, item, "--author", "anna")[:2] == (
        0,
        "Marked 1 pair as not duplicates.\n",
    )
    assert json.loads(call("duplicates", "dismiss", small, item, "--json")[1]) == {"pairs": 0}
    assert call("duplicates", "--workers", 1)[1] == ""


def test_one_picture_can_be_dismissed_only_if_it_has_several_paths(call, filled):
    single = filled / "p" / "beach" / "beach-001.jpg"
    for words in ([single], [single, single]):
        code, out, err = call("duplicates", "dismiss", *words)
        assert (code, out) == (2, "")
        assert "Give two or more pictures" in err
        assert f"lookalike -c {filled / 'c'} duplicates dismiss IMAGE IMAGE. Got one picture with one path." in err
    face = filled / "p" / "face" / "face-000.jpg"
    for words in ([face], [face, filled / "p" / "again.jpg"]):
        assert call("duplicates", "dismiss", *words)[:2] == (0, "Marked the copies of 1 picture as intended.\n")
    assert call("duplicates", "--tier", "identical")[1] == ""


@pytest.mark.parametrize(
    "words",
    [
        ["duplicates", "--tier", "twins"],
        ["duplicates", "--keep", "newest"],
        ["duplicates", "--keep", "largest", "--reference", "/no/such"],
        ["duplicates", "--reference", "/no/such"],
        ["duplicates", "--crops"],
        ["duplicates", "dismiss"],
        ["duplicates", "dismiss", "/no/such.jpg"],
        ["duplicates", "dismiss", "0000000000000001"],
        ["duplicates", "--tier", "alike", "--space", "nothing"],
        ["map", "--points", "0"],
        ["map", "--plot", "map.txt"],
        ["map", "--space", "nothing"],
    ],
)
def test_invalid_input_gives_one_line_and_exit_code_2(call, words):
    code, out, err = call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)


def test_a_map_is_written_as_json_and_as_a_picture(call, tmp_path, monkeypatch):
    monkeypatch.setattr(output, "LINE_S", 0.0)
    code, out, err = call("map", "--json", "--plot", tmp_path / "m.png")
    assert err.startswith("drawing a map: ")  # not silent in a pipe
    found = json.loads(out)
    assert (code, found["space"], len(found["ids"])) == (0, "color", len(found["x"]))
    with Image.open(tmp_path / "m.png") as sheet:
        assert sheet.size[0] > 48
    drawn, total, hidden = map(int, re.findall(r"m\.png with (\d+) of (\d+) pictures\. Left out .*: (\d+)\.", err)[0])
    assert drawn + hidden == total == len(found["ids"])
    assert call("map")[1] == f"Map of space color: {total} of {total} pictures.\n"
