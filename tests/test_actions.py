"""Actions: the history of changes to labels, classes, duplicates and pictures, and undo."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike import Collection
from lookalike.errors import ConflictError, DamagedError, InputError, LookalikeError, NoItemError
from lookalike.store import actions
from lookalike.store.judgements import Judgements
from lookalike.store.schema import RECORDED

pytestmark = pytest.mark.usefixtures("read_here")

GOLDEN = Path(__file__).parent / "golden"
KINDS = ("fish", "house")


@pytest.fixture
def judgements(tmp_path: Path) -> Iterator[Judgements]:
    (tmp_path / "judgements.sqlite").touch()
    with closing(Judgements(tmp_path / "judgements.sqlite").database) as database:
        opened = Judgements(database.path)
        opened.classes.add("cat", [1, 2], author="anna")
        opened.predictions.add([(3, "cat", 0.9), (4, "cat", 0.8), (5, "cat", 0.7)], space="s", model="m")
        yield opened
        opened.close()


def rows(judgements: Judgements) -> dict[str, list[tuple[object, ...]]]:
    """Return all rows that actions can change."""
    with judgements.database.reading() as db:
        return {
            table: sorted(db.execute(f"SELECT {columns.replace(' ', ', ')} FROM {table}"), key=repr)
            for table, (columns, _, _) in RECORDED.items()
        }


def assert_undone(judgements: Judgements, before: dict[str, list[tuple[object, ...]]]) -> None:
    """Undo the last action, redo it and undo it again; it must restore exactly these rows."""
    after = rows(judgements)
    last = judgements.actions.last()
    assert last is not None
    undone = judgements.actions.undo(last.id, author="ben")
    assert rows(judgements) == before
    assert undone.action is not None
    judgements.actions.undo(undone.action, author="ben")
    assert rows(judgements) == after
    judgements.actions.undo(last.id, author="ben")
    assert rows(judgements) == before
    assert judgements.database.verify() == []


CHANGES = {
    "Added 2 pictures to cat": lambda j: j.classes.add("cat", [6, 7], author="anna"),
    "Created the class dog": lambda j: j.classes.add("dog", [], author="anna"),
    "Removed 1 picture from cat": lambda j: j.remove_labels([(1, "cat")], author="anna"),
    "Confirmed cat for 2 pictures": lambda j: j.predictions.confirm("cat", [3, 4], author="anna"),
    "Rejected cat for 2 pictures": lambda j: j.predictions.reject("cat", [3, 8], author="anna"),
    "Renamed the class cat to dog": lambda j: j.classes.rename("cat", "dog", author="anna"),
    "Moved 1 picture from cat to dog": lambda j: j.classes.split("cat", "dog", [1], author="anna"),
    "Deleted the class cat with 2 pictures": lambda j: j.classes.delete("cat", author="anna"),
    "Imported 1 label": lambda j: j.add_labels([(1, "pet")], author="anna", source="csv"),
    "Set the hierarchy of classes to 1 pair": lambda j: j.classes.set_parents([("cat", "pet")], author="anna"),
    "Marked 3 pairs of pictures as not duplicates": lambda j: j.not_duplicates.add([1, 2, 3], author="anna"),
}


@pytest.mark.parametrize("text", CHANGES)
def test_every_change_is_in_the_history_and_can_be_undone_and_redone(judgements: Judgements, text: str) -> None:
    before = rows(judgements)
    changed = CHANGES[text](judgements)
    newest = judgements.actions.all()[0]
    assert (newest.text, newest.author, newest.id, newest.can_undo) == (text, "anna", changed.action, True)
    assert_undone(judgements, before)
    assert [action.text for action in judgements.actions.all(limit=3)] == [
        f"Undid: {text[0].lower()}{text[1:]}",
        f"Redid: {text[0].lower()}{text[1:]}",
        f"Undid: {text[0].lower()}{text[1:]}",
    ]


def test_undoing_a_merge_separates_the_classes_again(judgements: Judgements) -> None:
    judgements.classes.add("dog", [2, 9], author="anna")
    for label in ("cat", "dog"):
        judgements.predictions.reject(label, [5], author="anna")
    before = rows(judgements)
    judgements.classes.merge(["cat", "dog"], "dog", author="anna")
    assert judgements.actions.all()[0].text == "Merged cat into dog, 3 pictures in total"
    assert_undone(judgements, before)


def test_undoing_the_end_of_a_session_reopens_it(judgements: Judgements) -> None:
    session = judgements.sessions.start(author="anna", space="s", name=None, marks={11: "relevant", 12: "irrelevant"})
    before = rows(judgements)
    judgements.finish(session, "bird", author="anna")
    assert judgements.actions.all()[0].text == "Finished a session: added 1 picture to bird"
    assert_undone(judgements, before)
    assert judgements.sessions.get(session).finished_at is None


def test_a_call_that_changes_nothing_is_not_an_action(judgements: Judgements) -> None:
    n = len(judgements.actions)
    assert judgements.classes.add("cat", [1, 2], author="anna").action is None
    assert judgements.remove_labels([(99, "cat")], author="anna").action is None
    with pytest.raises(LookalikeError):
        judgements.classes.rename("cat", "cat", author="anna")
    assert len(judgements.actions) == n


def test_an_action_is_not_undone_if_a_later_action_changed_the_same_data(judgements: Judgements) -> None:
    added = judgements.classes.add("cat", [6, 7], author="anna").action
    removed = judgements.remove_labels([(6, "cat")], author="ben").action
    assert added is not None
    assert removed is not None
    before = rows(judgements)
    with pytest.raises(
        InputError, match=rf"action {removed} \(Removed 1 picture from cat\) changed the same data. Undo that one"
    ):
        judgements.actions.undo(added, author="anna")
    assert rows(judgements) == before
    judgements.actions.undo(removed, author="anna")
    judgements.actions.undo(added, author="anna")
    assert judgements.items_with("cat").tolist() == [1, 2]
    with pytest.raises(ConflictError, match="already undone by action"):
        judgements.actions.undo(added, author="anna")
    with pytest.raises(NoItemError, match="There is no action 999"):
        judgements.actions.undo(999, author="anna")


def test_a_renamed_class_with_new_pictures_keeps_its_name(judgements: Judgements) -> None:
    renamed = judgements.classes.rename("cat", "dog", author="anna").action
    added = judgements.classes.add("dog", [9], author="anna").action
    assert renamed is not None
    assert added is not None
    with pytest.raises(InputError, match=rf"action {added} \(Added 1 picture to dog\)"):
        judgements.actions.undo(renamed, author="anna")
    judgements.actions.undo(added, author="anna")
    judgements.actions.undo(renamed, author="anna")
    assert judgements.items_with("cat").tolist() == [1, 2]


def test_a_redone_action_counts_as_a_later_change_to_a_renamed_class(judgements: Judgements) -> None:
    imported = judgements.add_labels([(9, "dog")], author="anna", source="csv").action
    assert imported is not None
    undone = judgements.actions.undo(imported, author="anna").action
    renamed = judgements.classes.rename("cat", "dog", author="anna").action
    assert undone is not None
    assert renamed is not None
    judgements.actions.undo(undone, author="anna")
    with pytest.raises(ConflictError, match=r"Redid: imported 1 label.*Undo that one first"):
        judgements.actions.undo(renamed, author="anna")
    judgements.actions.undo(imported, author="anna")
    judgements.actions.undo(renamed, author="anna")
    assert judgements.classes.counts() == {"cat": 2}


def test_an_undo_that_would_change_nothing_is_a_conflict(judgements: Judgements) -> None:
    created = judgements.classes.add("dog", [], author="anna").action
    added = judgements.classes.add("dog", [9], author="anna").action
    assert created is not None
    assert added is not None
    before, n = rows(judgements), len(judgements.actions)
    with pytest.raises(ConflictError, match="changed since"):
        judgements.actions.undo(created, author="ben")
    assert (rows(judgements), len(judgements.actions)) == (before, n)
    judgements.actions.undo(added, author="ben")
    judgements.actions.undo(created, author="ben")
    assert "dog" not in judgements.classes.counts()


def test_undo_never_leaves_a_picture_both_labelled_and_rejected(judgements: Judgements) -> None:
    removed = judgements.remove_labels([(1, "cat")], author="anna").action
    rejected = judgements.predictions.reject("cat", [1], author="anna").action
    assert removed is not None
    assert rejected is not None
    with pytest.raises(ConflictError, match="Rejected cat for 1 picture"):
        judgements.actions.undo(removed, author="anna")
    redo = judgements.actions.undo(rejected, author="anna").action
    assert redo is not None
    added = judgements.classes.add("cat", [1], author="anna").action
    with pytest.raises(ConflictError, match=f"action {added} "):
        judgements.actions.undo(redo, author="anna")


def test_actions_with_huge_numbers_do_not_exist(judgements: Judgements) -> None:
    with pytest.raises(NoItemError, match=f"There is no action {10**30}"):
        judgements.actions.undo(10**30, author="anna")
    assert judgements.actions.all(offset=10**30) == []
    assert len(judgements.actions.all(limit=10**30)) == 1


def test_undo_keeps_other_pictures_of_a_class_and_newer_predictions(judgements: Judgements) -> None:
    first = judgements.classes.add("dog", [9], author="anna").action
    judgements.classes.add("dog", [10], author="anna")
    rejected = judgements.predictions.reject("cat", [3], author="anna").action
    judgements.predictions.add([(3, "dog", 0.6)], space="s", model="m")
    assert first is not None
    assert rejected is not None
    judgements.actions.undo(first, author="anna")
    judgements.actions.undo(rejected, author="anna")
    assert "dog" in judgements.classes.named()
    assert judgements.predictions.get([3])[3].label == "dog"
    assert judgements.predictions.rejected([3]) == {}


def test_the_golden_judgements_of_format_6_can_be_read(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v11", tmp_path / "c")
    name = "größe \udcff"
    with closing(Judgements(tmp_path / "c" / "judgements.sqlite")) as judgements:
        assert [(action.id, action.text, action.can_undo) for action in judgements.actions.all()] == [
            (4, f"Undid: deleted the class {name} with 2 pictures", True),
            (3, "Removed 1 picture from the collection", True),
            (2, f"Deleted the class {name} with 2 pictures", False),
            (1, f"Added 2 pictures to {name}", True),
        ]
        saved = {"columns": ["id", "content"], "rows": [[141, {"hex": "ff"}]]}
        assert judgements.actions.removed(3) == ({"items": saved}, [f"/{name}"])
        assert judgements.actions.undo(1, author="ben") == 3
        assert judgements.classes.counts() == {}
        assert judgements.database.verify() == []


STEP = st.tuples(
    st.sampled_from(["add", "remove", "confirm", "reject", "rename", "merge", "split", "delete", "apart", "tree"]),
    st.sampled_from("abc"),
    st.sampled_from("abcd"),
    st.lists(st.integers(1, 5), min_size=1, max_size=3, unique=True),
)


def make_judgements(folder: Path) -> Judgements:
    """Three classes, and predictions for two pictures."""
    file = folder / "judgements.sqlite"
    file.touch()
    judgements = Judgements(file)
    for label, item in (("a", 1), ("b", 2), ("c", 3)):
        judgements.classes.add(label, [item], author="x")
    judgements.predictions.add([(4, "a", 0.9), (5, "b", 0.9)], space="s", model="m")
    return judgements


def change(judgements: Judgements, verb: str, one: str, other: str, items: list[int]) -> None:
    """Make a change; an invalid one must change nothing."""
    names, before = judgements.classes, rows(judgements)
    try:
        match verb:
            case "add":
                names.add(one, items, author="x")
            case "remove":
                judgements.remove_labels([(item, one) for item in items], author="x")
            case "confirm":
                judgements.predictions.confirm(one, items, author="x")
            case "reject":
                judgements.predictions.reject(one, items, author="x")
            case "rename":
                names.rename(one, other, author="x")
            case "merge":
                names.merge([one, other], other, author="x")
            case "split":
                names.split(one, other, items, author="x")
            case "delete":
                names.delete(one, author="x")
            case "apart":
                judgements.not_duplicates.add(items, author="x")
            case "tree":
                names.set_parents([(one, other)], author="x")
    except InputError:
        assert rows(judgements) == before


@settings(max_examples=40, deadline=None)
@given(steps=st.lists(STEP, min_size=1, max_size=8))
def test_undoing_all_actions_from_last_to_first_restores_every_state(
    steps: list[tuple[str, str, str, list[int]]], tmp_path_factory: pytest.TempPathFactory
) -> None:
    judgements = make_judgements(tmp_path_factory.mktemp("actions"))
    history = []
    for step in steps:
        before, n = rows(judgements), len(judgements.actions)
        change(judgements, *step)
        if len(judgements.actions) > n:
            history.append((judgements.actions.all(limit=1)[0].id, before))
    for number, before in reversed(history):
        judgements.actions.undo(number, author="x")
        assert rows(judgements) == before
    judgements.close()


Row = tuple[str, tuple[object, ...]]


def entered(judgements: Judgements) -> set[Row]:
    """Return the rows that users entered, with their tables."""
    return {(table, row) for table, found in rows(judgements).items() if table != "predictions" for row in found}


@settings(max_examples=60, deadline=None)
@given(steps=st.lists(STEP | st.integers(0, 99), max_size=16))
def test_an_undo_in_any_order_restores_what_its_action_changed_or_nothing(
    steps: list[tuple[str, str, str, list[int]] | int], tmp_path_factory: pytest.TempPathFactory
) -> None:
    judgements = make_judgements(tmp_path_factory.mktemp("actions"))
    changes: dict[int, tuple[set[Row], set[Row]]] = {}  # by action: the rows that it removed and added
    for step in steps:
        before, n = entered(judgements), len(judgements.actions)
        if not isinstance(step, int):
            change(judgements, *step)
        elif changes:
            number = sorted(changes)[step % len(changes)]
            removed, added = changes[number]
            try:
                assert judgements.actions.undo(number, author="y").action is not None
            except ConflictError:
                assert entered(judgements) == before
                continue
            after, names = entered(judgements), {str(row[1]) for table, row in entered(judgements) if table == "labels"}
            kept = {(table, row) for table, row in added if table == "classes" and row[0] in names}
            assert before - after == added - removed - kept
            assert after - before == removed - added
        if len(judgements.actions) > n:
            after = entered(judgements)
            changes[judgements.actions.all(limit=1)[0].id] = before - after, after - before
    found = [{row[:2] for table, row in entered(judgements) if table == name} for name in ("labels", "rejections")]
    assert not found[0] & found[1]
    judgements.close()


def test_compact_drops_what_is_needed_to_undo_old_actions(
    judgements: Judgements, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = judgements.actions.all()[0]
    judgements.compact()
    assert judgements.actions.get(first.id).can_undo
    monkeypatch.setattr(actions, "KEEP_S", -1.0)
    judgements.compact()
    assert not judgements.actions.get(first.id).can_undo
    assert judgements.actions.last() is None
    with pytest.raises(ConflictError, match="lookalike compact"):
        judgements.actions.undo(first.id, author="anna")


def test_a_damaged_action_is_not_undone(judgements: Judgements) -> None:
    (action,) = judgements.actions.all()
    with closing(sqlite3.connect(judgements.database.path)) as db, db:
        db.execute("UPDATE action_rows SET digest = x'00' WHERE name = 'labels'")
    with pytest.raises(DamagedError, match=r"Action 1 .* is damaged"):
        judgements.actions.undo(action.id, author="anna")
    assert judgements.items_with("cat").tolist() == [1, 2]


# Removal


def test_undo_brings_removed_pictures_back_without_reading_them(filled, pictures, monkeypatch):
    filled.classes.add("fish", pictures / "fish")
    ids, vectors = filled.vectors()
    items = {item.id: item for item in filled.items()}
    sources = filled.sources()
    removed = filled.remove(pictures / "fish", author="anna")
    assert (removed, len(filled)) == (4, 4)
    assert filled.actions()[0].text == "Removed 4 pictures from the collection"
    monkeypatch.setattr("lookalike.collection.adding.Adding.describe_missing", lambda *_: pytest.fail("it reads files"))
    assert filled.undo(removed.action, author="ben") == 4
    assert {item.id: item for item in filled.items()} == items
    assert sorted(filled.sources()) == sorted(sources)
    found_ids, found = filled.vectors()
    np.testing.assert_array_equal(found_ids, ids)
    np.testing.assert_array_equal(found, vectors)
    assert filled.verify() == []
    assert filled.actions()[0].text == "Undid: removed 4 pictures from the collection"
    with pytest.raises(ConflictError, match="already undone"):
        filled.undo(removed.action)
    with pytest.raises(ConflictError, match="lookalike remove"):
        filled.undo(filled.actions()[0].id)


def test_undo_reads_removed_pictures_again_after_compact(filled, pictures, tmp_path):
    ids, vectors = filled.vectors()
    removed = filled.remove(pictures / "fish")
    filled.compact()
    assert filled.undo() == 4
    found_ids, found = filled.vectors()
    np.testing.assert_array_equal(found_ids, ids)
    np.testing.assert_allclose(found, vectors, atol=1e-6)
    assert filled.verify() == []
    assert removed.action is not None


def test_pictures_without_vectors_and_files_are_left_out(collection, pictures, tmp_path):
    folder = tmp_path / "mine"
    folder.mkdir()
    for file in sorted((pictures / "fish").iterdir()):
        (folder / file.name).write_bytes(file.read_bytes())
    collection.add(folder, recipes=["plain = fourier()"])
    first, *others = sorted(folder.iterdir())
    some = collection.remove(first)
    every = collection.remove(folder)
    collection.compact()
    first.unlink()
    with pytest.raises(ConflictError, match="files are missing"):
        collection.undo(some.action)
    others[0].unlink()
    assert collection.undo(every.action) == 2
    assert sorted(item.paths[0] for item in collection.items()) == [str(file) for file in others[1:]]
    assert collection.verify() == []


def test_pictures_that_were_added_again_need_no_undo(filled, pictures):
    removed = filled.remove(pictures / "fish")
    filled.add(pictures / "fish")
    with pytest.raises(ConflictError, match="in the collection again"):
        filled.undo(removed.action)


def test_a_failed_removal_is_not_in_the_history(filled, pictures, monkeypatch):
    def fail(*_):
        raise RuntimeError

    monkeypatch.setattr("lookalike.store.directory.Store.remove", fail)
    with pytest.raises(RuntimeError):
        filled.remove(pictures / "fish")
    assert filled.actions() == []
    with pytest.raises(InputError, match="nothing to undo"):
        filled.undo()


def test_pictures_can_be_removed_even_if_the_history_cannot_be_written(filled: Collection, pictures, monkeypatch):
    def fail(*_, **__):
        raise DamagedError("damaged")

    monkeypatch.setattr(actions.Actions, "record_removal", fail)
    removed = filled.remove(pictures / "fish")
    assert (removed, removed.action) == (4, None)


def test_a_removal_of_too_many_pictures_is_in_the_history_but_their_rows_are_not_saved(filled, pictures, monkeypatch):
    for module in ("lookalike.store.actions", "lookalike.collection.removals"):
        monkeypatch.setattr(f"{module}.MAX_REMOVED", 3)
    monkeypatch.delattr("lookalike.store.items.Items.save")
    removed = filled.remove(pictures / "fish")
    assert (removed, removed.action) == (4, None)
    (action,) = filled.actions()
    assert action.reason == "Removals of more than 3 pictures cannot be undone. Add their folder again."
