"""`lookalike classes` and `lookalike classify`."""

import json
import shutil

import pytest

import lookalike
from lookalike import cli
from lookalike.text import human_probability, many
from lookalike.types import format_id

KINDS = ("fish", "house", "flower")
VERBS = (
    "add",
    "remove",
    "list",
    "show",
    "rename",
    "merge",
    "split",
    "delete",
    "confirm",
    "reject",
    "hierarchy",
    "use",
    "evaluate",
)


@pytest.fixture
def own(made, tmp_path):
    return shutil.copytree(made, tmp_path / "own")


@pytest.fixture
def files(pictures):
    return {kind: sorted((pictures / kind).iterdir()) for kind in KINDS}


def test_class_names_that_are_numbers_are_left_aligned(call, files):
    call("classes", "add", "1999", *files["fish"][:3])
    assert [line.split()[0] for line in call("classes", "list")[1].splitlines()] == ["class", "1999"]
    assert all(line[0] != " " for line in call("classes", "list")[1].splitlines())


def test_classes_are_created_changed_and_deleted(call, own, files):
    code, out, err = call("classes", "list")
    assert (code, out) == (0, "")
    assert err.startswith(f"No classes yet. Create one: lookalike -c {own} classes add NAME IMAGE")
    assert call("classes", "add", "fish", *files["fish"][:3])[1] == "Added 3 pictures to fish, which now has 3.\n"
    assert call("classes", "add", "fish", *files["fish"])[1] == "Added 1 picture to fish, which now has 4.\n"
    call("classes", "add", "house", *files["house"][:3])
    assert call("classes", "list")[1].splitlines() == [
        "class  pictures  predicted  parents",
        "fish          4          0",
        "house         3          0",
    ]
    code, out, err = call("classify", files["house"][3], files["fish"][0])
    assert (code, err) == (0, "")
    head, first, second = out.splitlines()
    assert head.split() == ["class", "probability", "runner-up", "picture"]
    assert first.endswith(str(files["house"][3]))
    assert second.endswith(f"{files['fish'][0]}  (labels: fish)")
    assert call("classes", "remove", "fish", files["fish"][0])[1] == "Removed 1 picture from fish.\n"
    assert call("classes", "rename", "fish", "Fisch")[1] == "Renamed fish to Fisch (3 pictures).\n"
    assert call("classes", "merge", "Fisch", "house", "--into", "all")[1] == "all now has 6 pictures.\n"
    assert call("classes", "split", "all", "house", *files["house"][:3])[1] == "Moved 3 pictures from all to house.\n"
    assert call("classes", "delete", "all")[1] == "Deleted all, which had 3 pictures.\n"
    assert call("classes", "delete", "house", "--json")[1] == '{"name": "house", "pictures": 3}\n'
    assert call("classes", "list", "--json")[1] == "[]\n"


def test_predictions_are_stored_shown_confirmed_and_rejected(call, own, files):
    for kind in KINDS[:2]:
        call("classes", "add", kind, *files[kind][:3], "--author", "anna")
    code, out, _ = call("classify", "--all", "--json")
    kept = json.loads(out)
    assert sum(kept["predicted"].values()) + kept["none"] == 6
    with lookalike.Collection(own) as collection:
        guesses = [(name, guess) for name in kept["predicted"] for guess in collection.classes.show(name).predicted]
    (name, one), (other, two) = guesses[:2]
    shown = json.loads(call("classes", "show", name, "--json")[1])
    assert shown["predicted"][0]["id"] == format_id(one.item)
    assert shown["predicted"][0]["source"] == "predicted"
    assert {picture["author"] for picture in shown["pictures"]} == {"anna"}
    code, out, _ = call("classes", "show", name)
    assert out.startswith(f"{name}: 3 pictures, {kept['predicted'][name]} predicted.\n  hand anna ")
    assert f"predicted, {human_probability(one.probability)}" in out
    assert call("classes", "show", name, "-k", 0)[1].count("\n") == 1
    assert call("classes", "confirm", name, format_id(one.item))[1] == f"Confirmed 1 prediction of {name}.\n"
    code, out, _ = call("classes", "reject", other, format_id(two.item))
    assert out == f"Removed 1 prediction; {other} is never predicted for these again.\n"
    code, _, err = call("classes", "confirm", other, format_id(two.item))
    assert (code, "have no prediction" in err) == (2, True)
    call("classify", "--all")
    with lookalike.Collection(own) as collection:
        again = [(name, guess.item) for name in kept["predicted"] for guess in collection.classes.show(name).predicted]
    assert one.item not in [item for _, item in again]
    assert (other, two.item) not in again


def test_all_predictions_or_those_above_a_probability_are_confirmed(call, own, files):
    for kind in KINDS[:2]:
        call("classes", "add", kind, *files[kind][:2])
    call("classify", "--all")
    with lookalike.Collection(own) as collection:
        views = [collection.classes.show(kind) for kind in KINDS[:2]]
    view = max(views, key=lambda view: len(view.predicted))
    sure = sorted((guess.probability for guess in view.predicted), reverse=True)
    assert len(sure) > 1
    n = sum(one >= sure[0] for one in sure)
    assert (
        call("classes", "confirm", view.name, "--at-least", repr(sure[0]))[1]
        == f"Confirmed {many(n, 'prediction')} of {view.name}.\n"
    )
    assert (
        call("classes", "confirm", view.name, "--all")[1]
        == f"Confirmed {many(len(sure) - n, 'prediction')} of {view.name}.\n"
    )
    assert call("classes", "confirm", view.name, "--all")[1] == f"Confirmed 0 predictions of {view.name}.\n"
    assert "probability from 0 to 1. Got 2.0" in call("classes", "confirm", view.name, "--at-least", 2)[2]


def test_a_folder_is_classified_picture_by_picture(call, files, tmp_path):
    for kind in KINDS[:2]:
        call("classes", "add", kind, *files[kind])
    (tmp_path / "new" / "inner").mkdir(parents=True)
    shutil.copy(files["fish"][0], tmp_path / "new" / "inner" / "1.png")
    (tmp_path / "new" / "2.png").write_bytes(b"no")
    code, out, _ = call("classify", tmp_path / "new", files["house"][0], "--json")
    found = json.loads(out)
    assert [picture["labels"] for picture in found["pictures"]] == [["fish"], ["house"]]
    assert (code, list(found["skipped"])) == (1, [str(tmp_path / "new" / "2.png")])
    (tmp_path / "empty").mkdir()
    assert "No pictures in the folder" in call("classify", tmp_path / "empty")[2]


def test_equivalent_names_are_one_class_and_none_of_these_is_reserved(call, own, files):
    call("classes", "add", "cafe\u0301", files["fish"][0])
    call("classes", "add", "caf\u00e9 ", files["fish"][1])
    assert call("classes", "list", "--json")[1].count("name") == 1
    assert call("classes", "show", " cafe\u0301")[1].startswith("caf\u00e9: 2 pictures")
    with lookalike.Collection(own) as collection:  # as older versions could write it
        item = int(collection.vectors()[0][0])
        collection._store.judgements.add_labels([(item, "old "), (item, "Old")], author="anna", source="hand")
    assert call("classes", "add", "old", files["fish"][2])[1] == "Added 1 picture to old, which now has 2.\n"
    assert call("classes", "rename", "old", "old")[0] == 0
    assert [one["name"] for one in json.loads(call("classes", "list", "--json")[1])] == ["Old", "caf\u00e9", "old"]
    for words in (["add", "None of these"], ["rename", "old", "none of these "]):
        code, _, err = call("classes", *words)
        assert (code, "A class cannot be named" in err) == (2, True)


def test_commands_in_messages_include_the_collection_option(own, capsys, monkeypatch):
    words = ["classify", "--all"]
    for line in (["-c", str(own), *words], [*words, "--collection", str(own)]):
        assert cli.run(line) == 2
        assert f"lookalike -c {own} classes add NAME IMAGE…, or lookalike -c {own} label" in capsys.readouterr().err
    assert cli.run(["-c", str(own), *words, "--json"]) == 2
    assert f"lookalike -c {own} label" in json.loads(capsys.readouterr().err)["error"]["message"]
    monkeypatch.setenv("LOOKALIKE_COLLECTION", str(own))
    assert cli.run(words) == 2
    assert "Create one: lookalike classes add" in capsys.readouterr().err


def test_a_pipe_also_gets_progress_of_long_tasks(call, files, monkeypatch):
    for kind in KINDS[:2]:
        call("classes", "add", kind, *files[kind])
    monkeypatch.setattr(cli.output, "LINE_S", 0.0)
    err = call("classes", "evaluate")[2]
    assert err.splitlines()[0] == "evaluating: 0 of 9"
    assert call("classes", "evaluate", "--json")[2] == ""


def test_evaluation_is_a_table(call, pictures):
    code, _, err = call("classes", "evaluate")
    assert (code, "No class has pictures" in err) == (2, True)
    call("label", pictures)
    code, out, _ = call("classes", "evaluate")
    assert code == 0
    first, right, *_ = out.splitlines()
    assert first == "12 pictures of 3 classes, kind ncm, space plain."
    assert right.startswith("accuracy: ")
    assert {line.split()[0] for line in out.splitlines()[5:8]} == set(KINDS)
    found = json.loads(call("classes", "evaluate", "--kind", "second", "--space", "plain", "--json")[1])
    assert (found["kind"], found["pictures"], len(found["by_class"])) == ("second", 12, 3)


def test_settings_and_hierarchy_are_shown_and_changed(call, tmp_path):
    out = call("classes", "use")[1]
    assert out.splitlines()[:2] == ["space   first space", "kind    ncm"]
    out = call("classes", "use", "--kind", "second", "--no-on-add", "--reject", "0.1", "--json")[1]
    assert json.loads(out) == {"space": None, "kind": "second", "reject": 0.1, "on_add": False, "prior": 10.0}
    assert "on add  no" in call("classes", "use")[1]
    assert "\n0 labels, 0 classes, 0 predictions\n" in call("stats")[1]
    assert "No hierarchy" in call("classes", "hierarchy")[2]
    call("classes", "add", "07 horses")
    call("classes", "add", "8")
    assert call("classes", "list")[1].splitlines()[1:] == [
        "07 horses         0          0",
        "8                 0          0",
    ]
    (tmp_path / "tree.csv").write_text("fish,animal\nhouse,thing\n")
    assert call("classes", "hierarchy", tmp_path / "tree.csv")[1] == "The hierarchy has 2 pairs of child and parent.\n"
    assert json.loads(call("classes", "hierarchy", "--json")[1])[0] == {"child": "fish", "parent": "animal"}
    assert call("classes", "hierarchy")[1].splitlines()[1:] == ["fish   animal", "house  thing"]
    assert call("classes", "hierarchy", "--clear", "--json")[1] == "[]\n"
    assert call("classes", "hierarchy", "x.csv", "--clear")[0] == 2
    assert call("classes", "hierarchy", "--from-names", "--clear")[0] == 2


def test_a_session_becomes_a_class(call, own, files):
    with lookalike.Collection(own) as collection:
        session = collection.session(files["fish"][0])
        session.mark(relevant=files["fish"][1:], irrelevant=files["house"][0])
    assert call("classes", "add", "fish", "--session", session.id)[1] == "Added 4 pictures to fish, which now has 4.\n"
    assert call("classes", "add", "fish", files["fish"][0], "--session", session.id)[0] == 2
    code, _, err = call("classes", "add", "fish", "--session", session.id, "--author", "anna")
    assert (code, "under its author" in err) == (2, True)


def test_new_pictures_are_reported_by_class(call, files, pictures):
    for kind in KINDS:
        call("classes", "add", kind, *files[kind])
    out = call("add", pictures / "night", "--workers", 1)[1]
    assert out.splitlines()[0].startswith("4 added")
    assert out.splitlines()[1].startswith("classified: ")
    assert out.splitlines()[1].endswith(" none of these.")
    report = json.loads(call("add", pictures / "stripes", "--workers", 1, "--json")[1])
    assert sum(report["predicted"].values()) + report["none"] == 4


def test_pictures_that_cannot_be_classified_are_listed(call, files, tmp_path):
    call("classes", "add", "fish", files["fish"][0])
    (tmp_path / "bad.jpg").write_bytes(b"no")
    code, out, err = call("classify", files["fish"][1], tmp_path / "bad.jpg")
    assert code == 1
    assert f"skipped: {tmp_path / 'bad.jpg'}: it is " in out
    assert out.count("bad.jpg") == 1
    assert "no picture can be rejected" in err
    assert "1.00" not in out
    code, out, _ = call("classify", files["fish"][1], tmp_path / "bad.jpg", "--json")
    found = json.loads(out)
    assert code == 1
    assert [(picture["class"], picture["probability"]) for picture in found["pictures"]] == [("fish", None)]
    assert list(found["skipped"]) == [str(tmp_path / "bad.jpg")]


@pytest.mark.parametrize(
    "words",
    [
        ["classify"],
        ["classify", "a.jpg", "--all"],
        ["classes", "show", "nobody"],
        ["classes", "add", " "],
        ["classes", "merge", "fish", "--into", "all"],
        ["classes", "use", "--kind", "svm"],
        ["classes", "add", "fish", "nowhere.jpg"],
        ["classes", "confirm", "fish"],
        ["classes", "confirm", "fish", "a.jpg", "--all"],
    ],
)
def test_invalid_input_gives_one_line_and_exit_code_2(call, words):
    code, out, err = call(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert call(*words, "--json")[2].startswith('{"error": {"kind": ')


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(call, verb):
    code, out, _ = call("classes", verb, "--help")
    assert code == 0
    assert f"lookalike classes {verb}" in out.partition("Examples:")[2]
    assert f"\n  {verb} " in call("classes")[1]
