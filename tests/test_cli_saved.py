"""`lookalike saved`, `search --save`, `search --export` and `lookalike split`."""

import csv
import json
import shutil
import zipfile
from pathlib import Path

import pytest

import lookalike

pytestmark = pytest.mark.usefixtures("read_here")


@pytest.fixture
def own(shared, tmp_path):
    return Path(shutil.copytree(shared("color", "fish", "house"), tmp_path / "own"))


def add_fish(own, pictures, tmp_path, n):
    """Add n pictures of fish that the collection does not have."""
    folder = tmp_path / "more"
    folder.mkdir(exist_ok=True)
    for number in range(n):
        data = (pictures / "fish" / f"fish-00{number}.jpg").read_bytes()
        (folder / f"fish-{number}.jpg").write_bytes(data + bytes([n]))
    with lookalike.Collection(own) as collection:
        collection.add(folder)


def test_a_search_is_saved_and_shows_what_is_new(call, own, pictures, tmp_path):
    assert call("saved")[2].startswith("No saved searches yet. Save one: lookalike -c")
    fish = pictures / "fish" / "fish-000.jpg"
    code, out, err = call("search", fish, "-k", 6, "--within", 0.5, "--save", "my fish")
    assert code == 0
    assert f"lookalike -c {own} saved run 'my fish'" in err
    assert call("search", fish, "--save", "my fish")[0] == 2
    assert call("saved", "run", "my fish")[1] == out
    head, row = call("saved")[1].splitlines()
    assert head.split("  ")[0] == "id"
    assert "my fish" in row
    assert row.endswith("1 picture; the 6 best; score up to 0.5")
    add_fish(own, pictures, tmp_path, 2)
    (listed,) = json.loads(call("saved", "--json")[1])
    assert (listed["name"], listed["new"]) == ("my fish", 2)
    code, out, err = call("saved", "run", listed["id"], "--json")
    results = json.loads(out)
    assert sum(one["new"] for one in results) == 2
    places = [str(place) for place, one in enumerate(results, 1) if one["new"]]
    assert f": 2 results: {', '.join(places)}." in err
    code, out, err = call("saved", "run", "my fish", "--new", "--seen")
    assert len(out.splitlines()) == 2
    assert "/more/" in out
    assert json.loads(call("saved", "--json")[1])[0]["new"] == 0
    assert call("saved", "run", "my fish", "--new")[2].endswith(": 0 results.\n")


def test_saved_searches_are_renamed_and_deleted(call, pictures):
    for name in ("one", "two"):
        call("search", pictures / "fish" / "fish-000.jpg", "--save", name)
    assert "already saved" in call("saved", "rename", "one", "two")[2]
    assert call("saved", "rename", "one", "three")[1] == "Renamed to three.\n"
    assert call("saved", "delete", "three", "two")[1] == "Deleted 2 saved searches.\n"
    call("search", pictures / "fish" / "fish-001.jpg", "--save", "four")
    assert call("saved", "delete", "four", "three")[0] == 2
    assert len(json.loads(call("saved", "--json")[1])) == 1
    call("saved", "delete", "four")
    code, _, err = call("saved", "delete", "three")
    assert (code, err) == (2, "lookalike: No saved search named 'three'. Known: none.\n")


def test_a_search_that_cannot_run_is_listed(call, own, pictures, tmp_path):
    fish = pictures / "fish" / "fish-000.jpg"
    call("search", pictures / "fish" / "fish-001.jpg", "--save", "first")
    call("search", fish, "--save", "second")
    call("remove", fish)
    add_fish(own, pictures, tmp_path, 1)
    code, out, err = call("saved", "--json")
    assert (code, [one["new"] for one in json.loads(out)]) == (0, [1, None])
    assert "The saved search 'second' has no positive example left" in err


def test_results_are_exported(call, pictures, tmp_path):
    fish = pictures / "fish" / "fish-000.jpg"
    expected = json.loads(call("search", fish, "-k", 4, "--json")[1])
    table, listed, folder = tmp_path / "found.csv", tmp_path / "found.json", tmp_path / "found"
    code, _, err = call("search", fish, "-k", 4, "--export", table)
    assert (code, err) == (0, f"Exported 4 results to {table}\n")
    with table.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(row["rank"], row["id"], row["path"]) for row in rows] == [
        (str(rank), one["id"], one["path"]) for rank, one in enumerate(expected, 1)
    ]
    assert [float(row["score"]) for row in rows] == pytest.approx([one["score"] for one in expected], abs=1e-6)
    call("search", fish, "-k", 4, "--export", listed)
    found = json.loads(listed.read_text())
    assert [(one["rank"], one["id"], one["score"]) for one in found] == [
        (rank, one["id"], one["score"]) for rank, one in enumerate(expected, 1)
    ]
    call("search", fish, "-k", 4, "--export", tmp_path / "found.txt")
    assert (tmp_path / "found.txt").read_text().splitlines() == [one["path"] for one in expected]
    call("search", fish, "-k", 4, "--save", "fish")
    assert call("saved", "run", "fish", "--export", folder)[0] == 0
    copies = sorted(folder.iterdir())
    assert [copy.name for copy in copies] == [
        f"{rank} {Path(one['path']).name}" for rank, one in enumerate(expected, 1)
    ]
    assert [copy.read_bytes() for copy in copies] == [Path(one["path"]).read_bytes() for one in expected]
    call("search", fish, "-k", 4, "--export", tmp_path / "found.zip")
    with zipfile.ZipFile(tmp_path / "found.zip") as archive:
        assert {name: archive.read(name) for name in archive.namelist()} == {
            copy.name: copy.read_bytes() for copy in copies
        }
    code, _, err = call("search", fish, "--export", folder, "--save", "again")
    assert (code, err) == (
        2,
        f"lookalike: {folder} is not empty. Give a folder that is empty or does not exist yet.\n",
    )
    assert [one["name"] for one in json.loads(call("saved", "--json")[1])] == ["fish"]


def test_missing_pictures_are_reported(call, own, pictures, tmp_path):
    add_fish(own, pictures, tmp_path, 1)
    (tmp_path / "more" / "fish-0.jpg").unlink()
    code, _, err = call("search", pictures / "fish" / "fish-000.jpg", "-k", 2, "--export", tmp_path / "found")
    assert code == 1
    assert "Exported 1 result to" in err
    assert "fish-0.jpg: Cannot read item" in err


def test_a_split_is_printed_and_written(call, pictures, tmp_path):
    code, out, err = call("split")
    assert (code, out) == (2, "")
    assert "No picture to split has a label" in err
    for kind in ("fish", "house"):
        call("classes", "add", kind, pictures / kind)
    code, out, err = call("split", "--shares", "1/1/1", "--together", "none")
    head, fish, house, total = out.splitlines()
    assert head.split() == ["class", "train", "validation", "test"]
    assert sum(map(int, fish.split()[1:])) == sum(map(int, house.split()[1:])) == 4
    assert sum(map(int, total.split()[1:])) == 8
    code, out, err = call("split", tmp_path / "set", "--label", "fish", "--layout", "folders", "--layout", "coco")
    assert (code, out.splitlines()[-1]) == (0, f"Wrote {tmp_path / 'set'}.")
    assert len(list((tmp_path / "set").glob("*/fish/*.jpg"))) == 4
    assert "The class 'fish' has no picture in" in err
    found = json.loads(call("split", "--json")[1])
    assert sum(map(len, found["parts"].values())) == 8
    assert set(found) == {"parts", "classes", "groups", "warnings", "missing"}
    assert "--shares must be three numbers" in call("split", "--shares", "a")[2]
    assert "The shares must be three numbers" in call("split", "--shares", "1/1")[2]
