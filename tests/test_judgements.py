"""Judgements: labels with their author and source, and pictures that are not duplicates of each other."""

import os
import shutil
import sqlite3
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.store.directory import Store
from lookalike.store.judgements import MAX_NOT_DUPLICATES, Judgements

GOLDEN = Path(__file__).parent / "golden"
LAST = 2**63 - 1


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "judgements.sqlite"


@pytest.fixture
def judgements(file: Path) -> Iterator[Judgements]:
    file.touch()
    judgements = Judgements(file)
    yield judgements
    judgements.close()


def test_labels_are_listed_by_item_and_by_label(judgements: Judgements) -> None:
    rows = [(7, "cat"), (7, "animal"), (2**63 - 1, "cat")]
    assert judgements.add_labels(rows, author="anna", source="csv") == 3
    assert judgements.labels([7, 8]) == {7: ["animal", "cat"], 8: []}
    assert judgements.labels(np.array([7, 8])) == {7: ["animal", "cat"], 8: []}
    assert judgements.items_with("cat").tolist() == [7, 2**63 - 1]
    assert judgements.items_with("dog").tolist() == []
    assert judgements.items_with("cat").dtype == np.int64
    assert judgements.label_counts() == {"animal": 1, "cat": 2}
    assert len(judgements) == 3


def test_a_label_keeps_its_first_author_and_source(judgements: Judgements, file: Path) -> None:
    judgements.add_labels([(1, "cat")], author="anna", source="hand")
    assert judgements.add_labels([(1, "cat"), (1, "pet")], author="ben", source="csv") == 1
    with sqlite3.connect(file) as db:
        found = db.execute("SELECT label, author, source, at > 1e9 FROM labels ORDER BY label").fetchall()
    db.close()
    assert found == [("cat", "anna", "hand", 1), ("pet", "ben", "csv", 1)]


def test_labels_can_be_removed(judgements: Judgements) -> None:
    judgements.add_labels([(1, "cat"), (2, "cat")], author="anna", source="hand")
    assert judgements.remove_labels([(1, "cat"), (3, "cat")]) == 1
    assert judgements.items_with("cat").tolist() == [2]


def test_empty_lists_are_accepted(judgements: Judgements) -> None:
    assert judgements.add_labels([], author="anna", source="hand") == 0
    assert judgements.remove_labels([]) == 0
    assert judgements.labels([]) == {}


@pytest.mark.parametrize("label", ["", "  \n", "x" * 1_001, "\ud800"])
def test_an_invalid_label_is_rejected_and_nothing_is_saved(judgements: Judgements, label: str) -> None:
    with pytest.raises(InputError, match="A label must"):
        judgements.add_labels([(1, "cat"), (2, label)], author="anna", source="hand")
    assert len(judgements) == 0


@pytest.mark.parametrize("label", ["größe", "猫", "a'b\"c; DROP TABLE labels", os.fsdecode(b"Z\xfcrich")])
def test_any_text_can_be_a_label(judgements: Judgements, label: str) -> None:
    judgements.add_labels([(1, label)], author="anna", source="folder")
    assert judgements.labels([1]) == {1: [label]}
    assert judgements.items_with(label).tolist() == [1]


def test_labels_can_be_added_while_another_process_writes(tmp_path: Path) -> None:
    writer, other = Store(tmp_path / "c", create=True), Store(tmp_path / "c")
    with writer.writer(), writer.transaction():
        assert other.judgements.add_labels([(1, "cat")], author="anna", source="hand") == 1
    assert writer.judgements.label_counts() == {"cat": 1}
    writer.close()
    other.close()


def test_labels_survive_the_loss_of_the_catalogue(tmp_path: Path) -> None:
    store = Store(tmp_path / "c", create=True)
    store.judgements.add_labels([(1, "cat")], author="anna", source="hand")
    store.close()
    (tmp_path / "c" / "catalogue.sqlite").unlink()
    store = Store(tmp_path / "c", create=True)
    assert store.judgements.labels([1]) == {1: ["cat"]}
    assert store.verify() == []
    store.close()


def test_every_item_is_paired_with_every_other_item(judgements: Judgements) -> None:
    assert judgements.not_duplicates.add([9, 2, 5, 2], author="anna") == 3
    assert judgements.not_duplicates.pairs() == {(2, 5), (2, 9), (5, 9)}
    assert judgements.not_duplicates.add([5, 9], author="ben") == 0
    assert judgements.not_duplicates.remove([9, 5]) == 1
    assert judgements.not_duplicates.remove([9, 5]) == 0
    assert len(judgements.not_duplicates) == 2


def test_a_single_item_is_paired_with_itself(judgements: Judgements) -> None:
    assert judgements.not_duplicates.add([LAST], author="anna") == 1
    assert judgements.not_duplicates.pairs() == {(LAST, LAST)}


@pytest.mark.parametrize("items", [[], range(MAX_NOT_DUPLICATES + 1), ["a"], [1.5], 7])
def test_items_that_cannot_be_paired_are_rejected(judgements: Judgements, items) -> None:
    with pytest.raises((InputError, TypeError)):
        judgements.not_duplicates.add(items, author="anna")
    assert len(judgements.not_duplicates) == 0


@settings(max_examples=10)
@given(groups=st.lists(st.sets(st.integers(0, 12), min_size=2, max_size=6), max_size=6))
def test_pairs_of_all_calls_are_stored(tmp_path_factory: pytest.TempPathFactory, groups: list[set[int]]) -> None:
    store = Store(tmp_path_factory.mktemp("pairs") / "c", create=True)
    expected: set[tuple[int, int]] = set()
    for group in groups:
        pairs = set(combinations(sorted(group), 2))
        assert store.judgements.not_duplicates.add(group, author="anna") == len(pairs - expected)
        expected |= pairs
    assert store.judgements.not_duplicates.pairs() == expected
    store.close()


def test_verify_reports_a_missing_table(judgements: Judgements) -> None:
    with judgements.database.transaction() as db:
        db.execute("DROP TABLE apart")
    assert any("table apart is missing" in fault for fault in judgements.database.verify())


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_older_formats_accept_pairs(version: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / version, tmp_path / "c")
    store = Store(tmp_path / "c")
    assert store.judgements.not_duplicates.pairs() == set()
    assert store.judgements.not_duplicates.add([1, 2], author="anna") == 1
    assert store.verify() == []
    store.close()


def test_golden_judgements_v4(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v4", tmp_path / "c")
    store = Store(tmp_path / "c")
    judgements = store.judgements
    assert store.verify() == []
    assert judgements.not_duplicates.pairs() == {(3, 141), (3, LAST), (141, LAST), (7, 7)}
    with judgements.database.reading() as db:
        assert {author for (author,) in db.execute("SELECT author FROM apart")} == {"größe \udcff", "ben"}
    assert judgements.labels([3]) == {3: ["cat"]}
    assert judgements.not_duplicates.add([141, 7], author="ben") == 1
    store.close()
