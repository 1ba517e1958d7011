"""`lookalike history` and `lookalike undo`."""

import json
import shutil

import pytest

pytestmark = pytest.mark.usefixtures("read_here")

KINDS = ("fish", "house")


@pytest.fixture
def own(made, tmp_path):
    return shutil.copytree(made, tmp_path / "own")


def test_changes_are_listed_undone_and_redone(call, pictures):
    assert call("history") == (0, "", "No changes yet.\n")
    assert call("undo")[0::2] == (2, "lookalike: There is nothing to undo.\n")
    call("classes", "add", "fish", pictures / "fish", "--author", "anna")
    call("classes", "rename", "fish", "trout")
    code, out, err = call("history")
    assert (code, err) == (0, "")
    head, renamed, added = (line.split("  ") for line in out.splitlines())
    assert [part.strip() for part in head if part] == ["action", "time", "author", "change", "undo"]
    assert [part.strip() for part in added if part][2:] == ["anna", "Added 4 pictures to fish", "can be undone"]
    assert "Renamed the class fish to trout" in renamed
    code, out, err = call("undo", 1)
    assert (code, out) == (2, "")
    assert "because action 2 (" in err
    out = call("undo")[1]
    assert out.startswith("Undid: renamed the class fish to trout. To redo it: lookalike -c ")
    assert out.endswith(" undo 3\n")
    assert (
        call("undo", "--json")[1]
        == json.dumps({"action": 4, "undid": 1, "text": "Undid: added 4 pictures to fish"}) + "\n"
    )
    assert "No classes yet" in call("classes", "list")[2]
    assert call("undo", 4)[1] == "Redid: added 4 pictures to fish.\n"
    found = json.loads(call("history", "-k", 1, "--json")[1])
    assert [(one["id"], one["text"], one["undoes"]) for one in found] == [(5, "Redid: added 4 pictures to fish", 4)]
    assert "4 older actions" in call("history", "-k", 1)[2]
    assert call("undo", 99)[0] == 2


def test_removed_pictures_come_back(call, pictures, tmp_path):
    folder = shutil.copytree(pictures / "house", tmp_path / "mine")
    (folder / "note.txt").unlink(missing_ok=True)
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes() + b"\0")  # other pictures than those of the collection
    call("add", folder)
    assert call("remove", folder)[1] == "Removed 4 pictures.\n"
    assert call("undo")[1] == "Undid: removed 4 pictures from the collection.\n"
    call("remove", folder)
    call("compact")
    next(folder.iterdir()).unlink()
    code, out, err = call("undo")
    assert (code, out) == (1, "Undid: removed 3 pictures from the collection.\n")
    assert "1 picture could not be brought back" in err
