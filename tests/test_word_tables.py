"""The table of the words in paths: it follows every change of the paths, and damage is found and repaired."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from damage import change_rows
from lookalike import Collection
from lookalike.errors import DamagedError, StoreError
from lookalike.store.backup import make_backup
from lookalike.store.database import Database, connect
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.store.schema import CATALOGUE
from lookalike.text import split_words

GOLDEN = Path(__file__).parent / "golden"
WORDS = ["beach", "größe", "img", "café"]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with closing(Store(tmp_path / "c", create=True)) as store:
        yield store


def add(store: Store, **paths: int) -> None:
    """Add items under these names, where _ stands for a space."""
    with store.writer(), store.transaction():
        store.items.add([Item(item, [], 1, 1, 1, "jpeg", 0.0, None) for item in paths.values()])
        store.items.link([(f"/photos/{name.replace('_', ' ')}.jpg", 1, 1, item) for name, item in paths.items()])


def found(store: Store, *words: str) -> list[int]:
    return store.items.with_path_words([[word] for word in words]).tolist()


def stale(store: Store) -> list[str]:
    with closing(Database(store.path / "catalogue.sqlite", CATALOGUE)) as database:
        return database.stale_words()


def test_items_are_found_by_all_words_of_their_paths(store: Store) -> None:
    add(store, sandy_beach=2**63 - 1, beach_12=2, Größe=3)
    assert found(store, "beach") == [2, 2**63 - 1]
    assert found(store, "beach", "sandy") == [2**63 - 1]
    assert found(store, "beach", "grosse") == []
    assert store.items.with_path_words([["sandy", "grosse"]]).tolist() == [3, 2**63 - 1]
    assert store.items.with_path_words([["photos"]], 2).tolist() == [2, 3]
    assert store.items.with_path_words([]).tolist() == []


def test_words_are_found_by_their_start(store: Store) -> None:
    add(store, sandy_beach=1, beaches=2, beacon=3, beach_bar=4)
    assert store.items.path_words("beac", 10) == ["beach", "beaches", "beacon"]
    assert store.items.path_words("bea", 2) == ["beach", "beaches"]
    assert store.items.path_words("beaches", 2) == ["beaches"]
    assert store.items.path_words("z", 10) == []


def test_a_picture_is_found_until_its_last_path_with_the_word_is_removed(store: Store) -> None:
    add(store, beach=1, sandy_beach=1, beach_too=1)
    with store.writer(), store.transaction():
        store.items.unlink(["/photos/beach.jpg", "/photos/sandy beach.jpg"])
    assert (found(store, "beach"), found(store, "sandy")) == ([1], [])
    with store.writer(), store.transaction():
        store.items.remove([1])
    assert found(store, "beach") == []
    assert stale(store) == []


def test_the_words_of_a_changed_file_find_its_new_picture(store: Store) -> None:
    add(store, beach=1)
    add(store, beach=2)
    assert found(store, "beach") == [2]
    with store.writer(), store.transaction():
        store.items.skip([("/photos/beach.jpg", 1, 1, "truncated")])
    assert found(store, "beach") == []
    assert stale(store) == []


def test_only_the_first_hundred_copies_of_a_picture_are_found_by_their_words(store: Store) -> None:
    with store.writer(), store.transaction():
        store.items.add([Item(1, [], 1, 1, 1, "jpeg", 0.0, None)])
        store.items.link([(f"/photos/{n}{'x' * n}.jpg", 1, n, 1) for n in range(1, 150)])
    assert found(store, 100 * "x") == [1]
    assert found(store, 101 * "x") == []
    with store.writer(), store.transaction():
        store.items.link([("/photos/2xx.jpg", 1, 1_000, 1)])  # now the latest
    assert found(store, 101 * "x") == [1]
    assert found(store, "xx") == []
    with store.writer(), store.transaction():
        store.items.unlink(["/photos/1x.jpg"])
    assert found(store, 102 * "x") == [1]
    assert stale(store) == []


def test_a_failed_transaction_does_not_change_the_words(store: Store) -> None:
    add(store, beach=1)
    with suppress(RuntimeError), store.writer(), store.transaction():
        store.items.link([("/photos/desert.jpg", 1, 1, 1)])
        store.items.unlink(["/photos/beach.jpg"])
        assert (found(store, "beach"), found(store, "desert")) == ([], [1])
        raise RuntimeError
    assert (found(store, "beach"), found(store, "desert")) == ([1], [])


names = st.text("ab é/_9\udcff", min_size=1, max_size=4).map("/home/{}".format)
changes = st.lists(
    st.one_of(
        st.tuples(st.just("link"), names, st.integers(1, 3), st.integers(1, 2)),
        st.tuples(st.just("skip"), names),
        st.tuples(st.just("unlink"), names),
        st.tuples(st.just("remove"), st.integers(1, 3)),
        st.tuples(st.just("move"), st.sampled_from(["/home", "/home/a", "/b"])),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None)
@given(changes)
def test_the_words_are_those_of_the_paths_after_any_changes(tmp_path_factory, changes) -> None:
    with closing(Store(tmp_path_factory.mktemp("words") / "c", create=True)) as store, store.writer():
        with store.transaction():
            store.items.set_home("/home")
        for kind, *values in changes:
            with store.transaction():
                if kind == "link":
                    store.items.add([Item(values[1], [], 1, 1, 1, "jpeg", 0.0, None)])
                    store.items.link([(values[0], 1, values[2], values[1])])
                elif kind == "skip":
                    store.items.skip([(values[0], 1, 1, "truncated")])
                elif kind == "unlink":
                    store.items.unlink(values)
                elif kind == "remove":
                    store.items.remove(values)
                else:
                    store.items.set_home(values[0])
        texts = {item: " ".join(found.paths) for item, found in store.items.get([1, 2, 3]).items()}
        for word in {"a", "b", *(word for text in texts.values() for word in split_words(text))}:
            assert found(store, word) == [item for item, text in texts.items() if word in split_words(text)]
        assert stale(store) == []


@pytest.mark.parametrize("version", ["v1", "v7", "v10", "v12"])
def test_the_words_in_the_paths_of_older_catalogues_are_found(version: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / version, tmp_path / "c")
    with closing(Store(tmp_path / "c")) as store:
        assert stale(store) == []
        everything = store.items.get(store.items.ids().tolist())
        for item, one in everything.items():
            for word in split_words(" ".join(one.paths)):
                assert item in found(store, word)


def test_golden_v12(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v12", tmp_path / "c")
    with closing(Store(tmp_path / "c")) as store:
        assert store.verify() == []
        assert found(store, "strande", "copy") == [3]
        assert found(store, "wolves") == [2**63 - 1]
        assert found(store, "photos") == [3, 141, 2**63 - 1]
        with store.writer(), store.transaction():  # it is writable
            store.items.unlink(["/photos/Strände/Größe 12.JPG"])
            store.remove([141])
        assert (found(store, "strande"), found(store, "photos")) == ([], [3, 2**63 - 1])
        assert store.verify() == []


def damage_words(file: Path) -> None:
    """Damage the segments of the table."""
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE path_words_data SET block = zeroblob(length(block)) WHERE id > 10")


def remove_segments(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("DELETE FROM path_words_data WHERE id > 10")


def change_version(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("UPDATE path_words_config SET v = 0 WHERE k = 'version'")


def forget_words(file: Path) -> None:
    """Change paths without their words."""
    change_rows(file, "DELETE FROM paths WHERE path LIKE '%desert%'")


def empty_words(file: Path) -> None:
    with closing(sqlite3.connect(file)) as db, db:
        db.execute("INSERT INTO path_words (path_words) VALUES ('delete-all')")


@pytest.mark.parametrize("harm", [damage_words, remove_segments, forget_words, empty_words])
def test_damaged_words_are_found_and_rebuilt(store: Store, harm) -> None:
    add(store, beach=1, desert=2, sandy_beach=3)
    file = store.path / "catalogue.sqlite"
    store.close()
    harm(file)
    with Collection(store.path) as collection:
        assert collection.verify() == ["catalogue.sqlite: path_words is damaged. Run: lookalike repair"]
    report = Collection.repair(store.path)
    assert report.done[0] == "catalogue.sqlite: path_words was rebuilt."
    assert report.left == []
    with closing(Store(store.path)) as again:
        assert found(again, "beach") == [1, 3]


def test_a_search_of_damaged_words_names_the_repair(store: Store) -> None:
    add(store, beach=1)
    store.close()
    remove_segments(store.path / "catalogue.sqlite")
    with (
        closing(Store(store.path)) as again,
        pytest.raises(DamagedError, match=r"catalogue\.sqlite is damaged\. Run: lookalike repair$"),
    ):
        found(again, "beach")


def test_a_catalogue_whose_words_cannot_be_rebuilt_is_restored_from_a_backup(store: Store, tmp_path: Path) -> None:
    add(store, beach=1)
    store.close()
    make_backup(store.path, tmp_path / "b")
    change_version(store.path / "catalogue.sqlite")
    with closing(Store(store.path)) as again, pytest.raises(DamagedError, match="repair --from BACKUP"):
        found(again, "beach")
    with Collection(store.path) as collection:
        assert collection.verify()[0].endswith("Run: lookalike repair --from BACKUP")
    assert Collection.repair(store.path, backup=tmp_path / "b").left == []
    with closing(Store(store.path)) as again:
        assert found(again, "beach") == [1]


def test_a_damaged_path_is_removed_with_its_words(store: Store) -> None:
    add(store, beach=1, desert=2)
    store.close()
    change_rows(store.path / "catalogue.sqlite", "UPDATE paths SET path = '/photos/forest.jpg' WHERE item = 2")
    with Collection(store.path) as collection:
        assert "1 row of paths does not match its digest" in collection.verify()[0]
    report = Collection.repair(store.path)
    assert (report.done[0], report.left) == ("catalogue.sqlite: path_words was rebuilt.", [])
    with closing(Store(store.path)) as again:
        assert [found(again, word) for word in ("beach", "desert", "forest")] == [[1], [], []]
        assert again.verify() == []


def test_a_sqlite_without_fts5_is_reported(tmp_path: Path) -> None:
    (tmp_path / "c.sqlite").touch()
    with pytest.raises(StoreError, match=r"has no FTS5\. Use a Python whose SQLite has it"):
        connect(tmp_path / "c.sqlite", [script.replace("fts5", "fts0") for script in CATALOGUE if "fts5" in script])
