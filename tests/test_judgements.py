"""What people said: labels with their provenance."""

import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from lookalike.errors import InputError
from lookalike.store.directory import Store
from lookalike.store.judgements import Judgements


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "judgements.sqlite"


@pytest.fixture
def judgements(file: Path) -> Iterator[Judgements]:
    file.touch()
    judgements = Judgements(file)
    yield judgements
    judgements.close()


def test_labels_come_back_by_item_and_by_label(judgements: Judgements) -> None:
    rows = [(7, "cat"), (7, "animal"), (2**63 - 1, "cat")]
    assert judgements.add_labels(rows, author="anna", source="csv") == 3
    assert judgements.labels([7, 8]) == {7: ["animal", "cat"], 8: []}
    assert judgements.labels(np.array([7, 8])) == {7: ["animal", "cat"], 8: []}
    assert judgements.items_with("cat").tolist() == [7, 2**63 - 1]
    assert judgements.items_with("dog").tolist() == []
    assert judgements.items_with("cat").dtype == np.int64
    assert judgements.label_counts() == {"animal": 1, "cat": 2}
    assert len(judgements) == 3


def test_who_said_it_first_stays(judgements: Judgements, file: Path) -> None:
    judgements.add_labels([(1, "cat")], author="anna", source="hand")
    assert judgements.add_labels([(1, "cat"), (1, "pet")], author="ben", source="csv") == 1
    with sqlite3.connect(file) as db:
        found = db.execute("SELECT label, author, source, at > 1e9 FROM labels ORDER BY label").fetchall()
    db.close()
    assert found == [("cat", "anna", "hand", 1), ("pet", "ben", "csv", 1)]


def test_labels_are_taken_back(judgements: Judgements) -> None:
    judgements.add_labels([(1, "cat"), (2, "cat")], author="anna", source="hand")
    assert judgements.remove_labels([(1, "cat"), (3, "cat")]) == 1
    assert judgements.items_with("cat").tolist() == [2]


def test_nothing_to_say_is_no_trouble(judgements: Judgements) -> None:
    assert judgements.add_labels([], author="anna", source="hand") == 0
    assert judgements.remove_labels([]) == 0
    assert judgements.labels([]) == {}


@pytest.mark.parametrize("label", ["", "  \n", "x" * 1_001, "\ud800"])
def test_a_label_that_says_nothing_is_refused_and_nothing_is_kept(judgements: Judgements, label: str) -> None:
    with pytest.raises(InputError, match="A label must"):
        judgements.add_labels([(1, "cat"), (2, label)], author="anna", source="hand")
    assert len(judgements) == 0


@pytest.mark.parametrize("label", ["größe", "猫", "a'b\"c; DROP TABLE labels", os.fsdecode(b"Z\xfcrich")])
def test_any_text_can_be_a_label(judgements: Judgements, label: str) -> None:
    judgements.add_labels([(1, label)], author="anna", source="folder")
    assert judgements.labels([1]) == {1: [label]}
    assert judgements.items_with(label).tolist() == [1]


def test_people_can_label_while_another_process_writes(tmp_path: Path) -> None:
    writer, other = Store(tmp_path / "c", create=True), Store(tmp_path / "c")
    with writer.writer(), writer.transaction():
        assert other.judgements.add_labels([(1, "cat")], author="anna", source="hand") == 1
    assert writer.judgements.label_counts() == {"cat": 1}
    writer.close()
    other.close()


def test_labels_outlive_their_catalogue(tmp_path: Path) -> None:
    store = Store(tmp_path / "c", create=True)
    store.judgements.add_labels([(1, "cat")], author="anna", source="hand")
    store.close()
    (tmp_path / "c" / "catalogue.sqlite").unlink()
    store = Store(tmp_path / "c", create=True)
    assert store.judgements.labels([1]) == {1: ["cat"]}
    assert store.judgements.verify() == []
    store.close()
