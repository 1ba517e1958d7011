import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.index.ids import IdTable, check_ids, sort_ids, without

some_ids = st.lists(st.integers(0, 60), unique=True, max_size=20)


@given(st.lists(st.tuples(st.booleans(), some_ids), max_size=12), some_ids)
@settings(max_examples=150, deadline=None)
def test_equals_a_dictionary_after_any_changes(steps, asked):
    table, truth = IdTable(), {}
    for row, (adding, ids) in enumerate(steps):
        if adding:
            new = [id_ for id_ in ids if id_ not in truth]
            rows = 100 * row + np.arange(len(new))
            table.add(np.array(new, np.int64), rows)
            truth.update(zip(new, rows.tolist(), strict=True))
        else:
            gone = table.remove(np.array(ids, np.int64))
            assert sorted(gone.tolist()) == sorted(truth.pop(id_) for id_ in ids if id_ in truth)
    assert table.ids().tolist() == sorted(truth)
    assert table.rows(np.array(asked, np.int64)).tolist() == [truth.get(id_, -1) for id_ in asked]


def test_a_rejected_add_changes_nothing():
    table = IdTable()
    table.add(np.array([3, 1]), np.array([0, 1]))
    for ids, message in [([5, 5], "Got 5 more than once"), ([7, 1], "such as 1")]:
        with pytest.raises(InputError, match=message):
            table.add(np.array(ids), np.array([2, 3]))
    assert table.ids().tolist() == [1, 3]


def test_many_small_adds_give_few_runs():
    table = IdTable()
    for id_ in np.random.default_rng(0).permutation(1_000):
        table.add(np.array([id_]), np.array([id_ + 5]))
    assert len(table._runs) <= 10
    assert (table.rows(np.arange(1_000)) == np.arange(5, 1_005)).all()


@given(st.lists(st.integers(0, 60)), st.lists(st.integers(0, 60)))
def test_sorted_ids_are_ascending_and_unique(ids, others):
    ids, others = np.array(ids, np.int64), np.array(others, np.int64)
    assert sort_ids(ids).tolist() == sorted(set(ids.tolist()))
    assert without(sort_ids(ids), sort_ids(others)).tolist() == sorted(set(ids.tolist()) - set(others.tolist()))


def test_ids_of_any_integer_type_become_int64():
    for ids in ([1, 2], np.array([1, 2], np.uint8), np.array([1, 2], np.uint64), ()):
        assert check_ids(ids).dtype == np.int64


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([-1], "ids must be between 0"),
        (np.array([2**63], np.uint64), "ids must be between 0"),
        ([0.0], "ids must be whole numbers"),
        (["a"], "ids must be whole numbers"),
        (5, "ids must have one dimension"),
    ],
)
def test_invalid_ids_are_rejected(ids, message):
    with pytest.raises(InputError, match=message):
        check_ids(ids)
