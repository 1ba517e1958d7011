"""Pairs of pictures that are no duplicates: kept for good, by content."""

import shutil
from itertools import combinations
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.store.apart import MOST
from lookalike.store.directory import Store

HERE = Path(__file__).parent
LAST = 2**63 - 1


@pytest.fixture
def said(tmp_path):
    store = Store(tmp_path / "c", create=True)
    yield store.judgements
    store.close()


def test_each_is_told_apart_from_each_other(said):
    assert said.apart.add([9, 2, 5, 2], author="anna") == 3
    assert said.apart.pairs() == {(2, 5), (2, 9), (5, 9)}
    assert said.apart.add([5, 9], author="ben") == 0  # said before
    assert said.apart.remove([9, 5]) == 1
    assert said.apart.remove([9, 5]) == 0
    assert len(said.apart) == 2


def test_one_alone_is_paired_with_itself(said):
    assert said.apart.add([LAST], author="anna") == 1
    assert said.apart.pairs() == {(LAST, LAST)}


@pytest.mark.parametrize("items", [[], range(MOST + 1), ["a"], [1.5], 7])
def test_what_cannot_be_told_apart_is_refused(said, items):
    with pytest.raises((InputError, TypeError)):
        said.apart.add(items, author="anna")
    assert len(said.apart) == 0


@settings(max_examples=10)
@given(groups=st.lists(st.sets(st.integers(0, 12), min_size=2, max_size=6), max_size=6))
def test_the_pairs_are_those_of_all_that_was_said(tmp_path_factory, groups):
    store = Store(tmp_path_factory.mktemp("apart") / "c", create=True)
    expected = set()
    for group in groups:
        pairs = set(combinations(sorted(group), 2))
        assert store.judgements.apart.add(group, author="anna") == len(pairs - expected)
        expected |= pairs
    assert store.judgements.apart.pairs() == expected
    store.close()


def test_verify_misses_a_table_that_is_gone(said):
    with said.database.transaction() as db:
        db.execute("DROP TABLE apart")
    assert any("table apart is missing" in fault for fault in said.verify())


@pytest.mark.parametrize("version", ["v1", "v2", "v3"])
def test_older_formats_tell_pictures_apart(version, tmp_path):
    shutil.copytree(HERE / "golden" / version, tmp_path / "c")
    store = Store(tmp_path / "c")
    assert store.judgements.apart.pairs() == set()
    assert store.judgements.apart.add([1, 2], author="anna") == 1
    assert store.judgements.verify() == []
    store.close()


def test_golden_judgements_v4(tmp_path):
    shutil.copytree(HERE / "golden" / "v4", tmp_path / "c")
    store = Store(tmp_path / "c")
    said = store.judgements
    assert said.verify() == []
    assert said.apart.pairs() == {(3, 141), (3, LAST), (141, LAST), (7, 7)}
    with said.database.reading() as db:
        assert {author for (author,) in db.execute("SELECT author FROM apart")} == {"größe \udcff", "ben"}
    assert said.labels([3]) == {3: ["cat"]}
    assert said.apart.add([141, 7], author="ben") == 1  # and it can be written on
    store.close()
