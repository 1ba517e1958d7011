"""The tables of classes and predictions: what is kept, and what yields to what."""

import multiprocessing
import shutil
import sqlite3
from pathlib import Path

import pytest

from lookalike.errors import InputError, UnknownNameError
from lookalike.store.directory import Store
from lookalike.store.judgements import Judgements
from lookalike.store.schema import JUDGEMENTS

HERE = Path(__file__).parent


@pytest.fixture
def said(tmp_path):
    (tmp_path / "judgements.sqlite").touch()
    judgements = Judgements(tmp_path / "judgements.sqlite")
    yield judgements
    assert judgements.database.verify() == []
    judgements.close()


def label(said, *pairs):
    return said.add_labels(pairs, author="anna", source="hand")


def predict(said, *rows):
    return said.predictions.add(rows, space="deep", model="ncm 1")


def sources(said, name):
    return {member.item: (member.author, member.source) for member in said.classes.members(name)}


def test_every_label_is_a_class_and_so_is_a_name_without_pictures(said):
    label(said, (1, "cat"), (2, "cat"), (2, "pet"))
    assert said.classes.add("fox", [], author="ben") == 0
    assert said.classes.add("cat", [2, 3], author="ben") == 1
    assert said.classes.counts() == {"cat": 3, "fox": 0, "pet": 1}
    assert sources(said, "cat") == {1: ("anna", "hand"), 2: ("anna", "hand"), 3: ("ben", "hand")}
    said.remove_labels([(2, "pet"), (1, "cat"), (2, "cat"), (3, "cat")])
    assert said.classes.counts() == {"cat": 0, "fox": 0}  # what was named stays, what was only a label is gone


def test_an_unknown_name_is_an_error_with_the_nearest_known_one(said):
    label(said, (1, "cat"))
    for verb in (
        lambda: said.classes.rename("cst", "dog"),
        lambda: said.classes.delete("cst"),
        lambda: said.classes.merge(["cat", "cst"], "both"),
        lambda: said.classes.split("cst", "new", [1], author="anna"),
    ):
        with pytest.raises(UnknownNameError, match=r"No class named 'cst'\. Known: cat\. Did you mean 'cat'"):
            verb()
    assert said.classes.counts() == {"cat": 1}


def test_a_class_is_renamed_everywhere(said):
    label(said, (1, "cat"), (2, "cat"), (3, "dog"))
    predict(said, (5, "cat", 0.9))
    said.predictions.reject("cat", [6], author="anna")
    said.classes.set_parents([("cat", "animal"), ("dog", "animal")])
    session = said.sessions.start("deep", author="anna", name="cat", marks={1: "relevant", 7: "irrelevant"})
    said.finish(session, "cat")
    assert said.classes.rename("cat", "Kätzchen") == 2
    assert said.classes.counts() == {"Kätzchen": 2, "dog": 1}
    assert said.classes.parents() == [("Kätzchen", "animal"), ("dog", "animal")]
    assert said.predictions.get([5])[5].label == "Kätzchen"
    assert said.predictions.rejected([6, 7]) == {6: {"Kätzchen"}, 7: {"Kätzchen"}}
    assert sources(said, "Kätzchen")[1] == ("anna", "hand")
    for new, problem in (("dog", "merge"), ("Kätzchen", "already"), ("animal", "hierarchy"), (" ", "must be text")):
        with pytest.raises(InputError, match=problem):
            said.classes.rename("Kätzchen", new)


def test_classes_are_merged_into_a_new_one_or_one_of_them(said):
    label(said, (1, "cat"), (2, "cat"), (2, "lion"), (3, "lion"), (4, "dog"))
    predict(said, (8, "cat", 0.9), (9, "lion", 0.8))
    said.predictions.reject("cat", [5, 6], author="anna")
    said.predictions.reject("lion", [6], author="anna")
    with pytest.raises(InputError, match="to the classes to merge"):
        said.classes.merge(["cat", "lion"], "dog")
    with pytest.raises(InputError, match="at least two"):
        said.classes.merge(["cat", "cat"], "pets")
    assert said.classes.merge(["cat", "lion"], "feline") == 3
    assert said.classes.counts() == {"dog": 1, "feline": 3}
    assert [p.item for p in said.predictions.of("feline")] == [8, 9]
    assert said.predictions.rejected([5, 6]) == {6: {"feline"}}  # 5 was no cat, but may be a lion
    assert said.classes.merge(["feline", "dog"], "dog") == 4
    assert said.classes.counts() == {"dog": 4}


def test_a_class_is_split(said):
    label(said, (1, "cat"), (2, "cat"), (3, "cat"))
    with pytest.raises(InputError, match="1 of the 2 pictures are not in 'cat'"):
        said.classes.split("cat", "lion", [3, 4], author="anna")
    with pytest.raises(InputError, match="the pictures of 'cat' to move to 'lion'"):
        said.classes.split("cat", "lion", [], author="anna")
    assert said.classes.split("cat", "lion", [3], author="ben") == 1
    assert said.classes.counts() == {"cat": 2, "lion": 1}
    assert sources(said, "lion") == {3: ("anna", "hand")}
    with pytest.raises(InputError, match="already"):
        said.classes.split("cat", "lion", [1], author="ben")


def test_predictions_are_removed_with_their_class(said):
    label(said, (1, "cat"), (2, "dog"))
    said.classes.add("fox", [3], author="anna")
    assert predict(said, (11, "cat", 0.9), (12, "dog", 0.9), (13, "fox", 0.9)) == {"cat": 1, "dog": 1, "fox": 1}
    assert said.classes.delete("cat") == 1
    said.remove_labels([(2, "dog"), (3, "fox")])  # the last of dog; fox was named, and stays
    assert said.predictions.items_by_label() == {"fox": [13]}
    said.classes.delete("fox")
    assert said.predictions.items_by_label() == {}
    assert predict(said, (11, "cat", 0.9)) == {}  # by somebody who does not know yet


def test_a_labelled_item_has_no_prediction(said):
    label(said, (1, "cat"), (2, "dog"))
    assert predict(said, (1, "dog", 0.99), (3, "cat", 0.6), (4, "cat", 0.7)) == {"cat": 2}
    assert label(said, (3, "dog")) == 1
    assert [p.item for p in said.predictions.of("cat")] == [4]
    assert said.labels([1, 3, 4]) == {1: ["cat"], 3: ["dog"], 4: []}
    assert len(said) == 3  # predictions are no labels


def test_a_prediction_is_confirmed_or_rejected_permanently(said):
    label(said, (1, "cat"), (2, "dog"))
    predict(said, (3, "cat", 0.6), (4, "cat", 0.7), (5, "cat", 0.8))
    assert said.predictions.confirm("cat", [3], author="ben") == 1
    assert sources(said, "cat")[3] == ("ben", "confirmed")
    with pytest.raises(InputError, match="1 of the 2 pictures have no prediction 'cat'"):
        said.predictions.confirm("cat", [4, 9], author="ben")
    assert said.predictions.reject("cat", [4], author="ben") == 1
    assert predict(said, (4, "cat", 0.9), (5, "cat", 0.9)) == {"cat": 1}
    assert predict(said, (4, "dog", 0.9)) == {"dog": 1}
    assert said.predictions.rejected([3, 4]) == {4: {"cat"}}
    with pytest.raises(InputError, match="are labelled 'cat'"):
        said.predictions.reject("cat", [1, 5], author="ben")
    assert label(said, (4, "cat")) == 1  # a second thought
    assert said.predictions.rejected([4]) == {}


def test_irrelevant_marks_of_a_finished_session_are_rejections_unless_the_item_is_labelled(said):
    marks = {1: "relevant", 2: "irrelevant", 3: "irrelevant", 4: "skip"}
    session = said.sessions.start("deep", author="anna", name="cat", marks=marks)
    assert said.predictions.rejected([1, 2, 3, 4]) == {}
    said.finish(session, "cat")
    label(said, (3, "cat"))
    assert said.predictions.rejected([1, 2, 3, 4]) == {2: {"cat"}}


def test_every_prediction_can_be_replaced_at_once(said):
    label(said, (1, "cat"))
    predict(said, (3, "cat", 0.6), (4, "cat", 0.7))
    assert said.predictions.add([(5, "cat", 0.5)], space="deep", model="ncm 2", replace_all=True) == {"cat": 1}
    assert said.predictions.items_by_label() == {"cat": [5]}
    (kept,) = said.predictions.of("cat")
    assert (kept.probability, kept.space, kept.model, kept.at > 1e9) == (0.5, "deep", "ncm 2", True)


def test_class_models_in_memory_can_follow_changes(said):
    label(said, (1, "cat"), (2, "cat"))
    last, pairs = said.classes.all_labels()
    assert sorted(pairs) == [(1, "cat"), (2, "cat")]
    assert said.classes.changes(last) == (last, [])
    label(said, (1, "cat"))  # said before
    assert said.classes.changes(last) == (last, [])
    said.remove_labels([(1, "cat")])
    said.classes.rename("cat", "dog")
    said.classes.update_settings(kind="second")
    now, changes = said.classes.changes(last)
    assert changes == [
        (1, "cat", False), (2, "dog", True), (2, "cat", False), (None, None, False), (None, None, False),
    ]  # fmt: skip
    assert now == last + 5
    said.compact()
    assert said.classes.changes(now) == (now, [])
    assert said.classes.changes(now - 1) == (now, [(None, None, False)])
    assert said.classes.changes(last) == (now, None)  # it was told long ago
    assert said.classes.settings() == {"kind": "second"}


def _write(path, start):
    judgements = Judgements(path)
    for item in range(start, start + 60):
        judgements.add_labels([(item, f"class {item % 7}")], author=str(start), source="hand")
        judgements.predictions.add([(item + 1_000, "class 0", 0.5)], space="deep", model="ncm 1")
    judgements.close()


def test_two_processes_that_label_at_once_lose_nothing(said, tmp_path):
    context = multiprocessing.get_context("spawn")
    label(said, (0, "class 0"))
    writers = [context.Process(target=_write, args=(tmp_path / "judgements.sqlite", start)) for start in (100, 200)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert sum(said.classes.counts().values()) == 121
    last, changes = said.classes.changes(0)
    assert len({(item, name) for item, name, added in changes if added}) == 121 == last
    assert len(said.predictions.of("class 0")) == 120


@pytest.mark.parametrize("version", ["v1", "v2"])
def test_labels_of_older_formats_are_classes(version, tmp_path):
    shutil.copytree(HERE / "golden" / version, tmp_path / "c")
    store = Store(tmp_path / "c")
    before = store.judgements.label_counts()
    assert store.judgements.classes.counts() == before
    assert before
    name = next(iter(before))
    assert store.judgements.classes.rename(name, "other") == before[name]
    assert store.verify() == []
    store.close()
    with sqlite3.connect(tmp_path / "c" / "judgements.sqlite") as db:
        assert db.execute("PRAGMA user_version").fetchone() == (len(JUDGEMENTS),)
    db.close()


def test_golden_judgements_v3(tmp_path):
    shutil.copytree(HERE / "golden" / "v3", tmp_path / "c")
    store = Store(tmp_path / "c")
    said, name = store.judgements, "größe \udcff"
    assert store.verify() == []
    assert said.classes.counts() == {"cat": 3, "fox": 0, name: 1}
    assert sources(said, "cat") == {3: ("anna", "csv"), 141: ("ben", "hand"), 9: ("anna", "confirmed")}
    assert said.classes.parents() == [("cat", "animal"), ("fox", "animal")]
    assert said.classes.settings() == {"kind": "second", "reject": 0.1}
    (guess,) = said.predictions.of(name)
    assert (guess.item, guess.probability, guess.space, guess.model) == (8, 0.5, "small", "second 6")
    assert said.predictions.rejected([7, 8, 9]) == {7: {"cat"}}
    last, changes = said.classes.changes(0)
    assert [change for change in changes if change[2]] == [
        (3, "cat", True), (2**63 - 1, name, True), (141, "cat", True), (9, "cat", True),
    ]  # fmt: skip
    assert said.add_labels([(8, "cat")], author="ben", source="hand") == 1  # and it can be written on
    assert said.predictions.of(name) == []
    assert said.classes.changes(last)[1] == [(8, "cat", True)]
    store.close()
