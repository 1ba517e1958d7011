"""The catalogue: items, paths, skipped files, filters."""

import fnmatch
import os
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lookalike.errors import InputError
from lookalike.store.directory import Store
from lookalike.store.items import BATCH, Filter, Item, Items, Seen


def make(item: int, **changes: object) -> Item:
    fields = {"bytes": 100, "width": 640, "height": 480, "format": "jpeg", "added_at": 1.0, "taken_at": None}
    return Item(item, [], **{**fields, **changes})  # type: ignore[arg-type]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "c", create=True)
    with store.writer():
        yield store
    store.close()


@pytest.fixture
def items(store: Store) -> Items:
    return store.items


def fill(store: Store, paths: dict[str, int], **changes: object) -> None:
    """Add items with these paths."""
    with store.transaction():
        store.items.add([make(item, **changes) for item in set(paths.values())])
        store.items.link([(path, 100, 5, item) for path, item in paths.items()])


def test_an_item_has_all_its_paths_sorted(store: Store, items: Items) -> None:
    fill(store, {"/b.jpg": 7, "/a.jpg": 7}, taken_at=3.5)
    assert items.get([7, 8]) == {7: Item(7, ["/a.jpg", "/b.jpg"], 100, 640, 480, "jpeg", 1.0, 3.5)}
    assert items.first_paths([7, 8]) == {7: "/a.jpg"}
    assert (len(items), items.n_paths()) == (1, 2)


def test_items_are_returned_in_the_requested_order(store: Store, items: Items) -> None:
    fill(store, {f"/{i}": i for i in range(1_300)})
    asked = [1_200, 3, 999, 2**62, 0]
    assert list(items.get(asked)) == [1_200, 3, 999, 0]
    assert list(items.get(np.array(asked))) == [1_200, 3, 999, 0]


def test_adding_an_item_again_changes_nothing(store: Store, items: Items) -> None:
    fill(store, {"/a": 1}, width=10)
    fill(store, {"/a": 1}, width=99)
    assert items.get([1])[1].width == 10


def test_ids_of_63_bits_are_stored(store: Store, items: Items) -> None:
    largest = 2**63 - 1
    fill(store, {"/a": largest, "/b": 0})
    assert items.ids().tolist() == [0, largest]
    assert list(items.get([largest])) == [largest]
    assert items.ids().dtype == np.int64


def test_paths_are_saved_with_their_item_or_reason(store: Store, items: Items) -> None:
    fill(store, {"/a": 1})
    with store.transaction():
        items.skip([("/broken", 12, 34, "truncated")])
    assert items.seen(["/a", "/broken", "/unknown"]) == {
        "/a": Seen(100, 5, 1, None),
        "/broken": Seen(12, 34, None, "truncated"),
    }
    assert items.skipped() == {"/broken": "truncated"}


def test_a_path_has_an_item_or_a_reason_never_both(store: Store, items: Items) -> None:
    fill(store, {"/a": 1, "/b": 1})
    with store.transaction():
        assert items.skip([("/a", 1, 1, "unreadable")]) == []
        assert items.skip([("/b", 1, 1, "unreadable")]) == [1]  # the item has no path left
    assert (items.n_paths(), list(items.skipped())) == (0, ["/a", "/b"])
    with store.transaction():
        items.link([("/a", 2, 2, 1)])
    assert list(items.skipped()) == ["/b"]
    assert items.seen(["/a"]) == {"/a": Seen(2, 2, 1, None)}


def test_a_changed_file_leaves_its_old_item_without_a_path(store: Store, items: Items) -> None:
    fill(store, {"/a": 1})
    with store.transaction():
        items.add([make(2)])
        assert items.link([("/a", 9, 9, 2)]) == [1]
    assert items.get([1])[1].paths == []


def test_removing_paths_returns_the_items_without_a_path(store: Store, items: Items) -> None:
    fill(store, {"/a": 1, "/b": 1, "/c": 2})
    with store.transaction():
        assert items.unlink(["/a", "/c", "/unknown"]) == [2]
        assert items.unlink(["/b"]) == [1]
    assert len(items) == 2


def test_removing_items_removes_their_paths(store: Store, items: Items) -> None:
    fill(store, {f"/{i}": i for i in range(3 * BATCH)})
    with store.transaction():
        assert items.remove([0, 1, 2, 2**40]) == 3
        assert items.remove(range(3 * BATCH)) == 3 * BATCH - 3
    assert (len(items), items.n_paths()) == (0, 0)


def test_a_path_cannot_refer_to_a_missing_item(store: Store, items: Items) -> None:
    with pytest.raises(Exception, match="FOREIGN KEY"), store.transaction():
        items.link([("/a", 1, 1, 404)])
    assert items.n_paths() == 0


def test_writing_outside_a_transaction_raises_an_assertion_error(items: Items) -> None:
    with pytest.raises(AssertionError):
        items.add([make(1)])


def test_items_are_found_by_size_up_to_a_limit(store: Store, items: Items) -> None:
    fill(store, {"/a": 1}, bytes=10)
    fill(store, {"/b": 2}, bytes=2**40)
    fill(store, {"/c": 3}, bytes=10)

    def found(sizes: Iterable[int], limit: int = 100) -> dict[int, list[int]]:
        return {size: sorted(ids.tolist()) for size, ids in items.ids_by_size(sizes, limit).items()}

    assert found([10, 11, 2**40]) == {10: [1, 3], 2**40: [2]}
    assert found(range(5_000)) == {10: [1, 3]}
    assert found([]) == {}
    assert sum(map(len, found([10, *range(1_000, 2_000), 2**40], 2).values())) == 2


def test_sources_keep_their_order_and_are_unique(store: Store, items: Items) -> None:
    with store.transaction():
        for spec in ("/z", "/a", "/z"):
            items.add_source(spec)
    assert items.sources() == ["/z", "/a"]
    with store.transaction():
        items.remove_source("/z")
        items.remove_source("/unknown")
    assert items.sources() == ["/a"]


UNDER = ["/p", "/p/a", "/p/b/c", "/p.tar", "/p::in/x", "/p/z.tar::y", "/pq", "/q", "/p0", "/o/p/a"]


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        ("/p", {"/p", "/p/a", "/p/b/c", "/p::in/x", "/p/z.tar::y"}),
        ("/p/", {"/p/a", "/p/b/c", "/p/z.tar::y"}),
        ("/", set(UNDER)),
        ("/nowhere", set()),
        ("/p/z.tar", {"/p/z.tar::y"}),
    ],
)
def test_paths_under_a_folder_or_an_archive(store: Store, items: Items, root: str, expected: set[str]) -> None:
    fill(store, dict.fromkeys(UNDER, 1))
    found = list(items.paths_under(root))
    assert {path for path, _ in found} == expected
    assert len(found) == len(expected)


def test_paths_can_be_removed_during_an_iteration(store: Store, items: Items) -> None:
    fill(store, {f"/p/{i:06}": i for i in range(3 * BATCH)})
    seen = 0
    for path, _ in items.paths_under("/p"):
        seen += 1
        if seen % 100 == 0:
            with store.transaction():
                items.unlink([path])
    assert seen == 3 * BATCH
    assert items.n_paths() == 3 * BATCH - seen // 100


def test_names_that_are_not_unicode_are_found(store: Store, items: Items) -> None:
    path = os.fsdecode(b"/photos/Z\xfcrich/\xff.jpg")
    fill(store, {path: 1})
    with store.transaction():
        items.skip([(path + "x", 1, 1, f"cannot read {path}")])
        items.add_source(str(Path(path).parent))
    assert items.first_paths([1]) == {1: path}
    assert path in items.seen([path])
    assert items.skipped() == {path + "x": f"cannot read {path}"}
    assert [p for p, _ in items.paths_under(os.fsdecode(b"/photos/Z\xfcrich"))] == [path, path + "x"]
    assert items.select(Filter(path="*/Z*.jpg")).tolist() == [1]
    assert items.select(Filter(path=os.fsdecode(b"/photos/Z\xfcrich/\xff*"))).tolist() == [1]


GLOBS = {
    "/home/me/2020/a.jpg": 1,
    "/home/me/2020/deep/b.jpg": 2,
    "/home/me/x.tar::2020/c.jpg": 3,
    "/home/me/[2020]/d.jpg": 4,
    "/home/me/12020/e.JPG": 5,
}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("*", [1, 2, 3, 4, 5]),
        ("*.jpg", [1, 2, 3, 4]),
        ("2020/*.jpg", [1, 2, 3]),
        ("a.jpg", [1]),
        ("c.jpg", [3]),
        ("x.tar::*", [3]),
        ("/home/me/2020/*", [1, 2]),
        ("/home/me/2020/?.jpg", [1]),
        ("/2020/*", []),
        ("[2020]/d.jpg", [4]),
        ("/home/me/[2020]/d.jpg", [4]),
        ("[ab].jpg", [1, 2]),
        ("[!ab].jpg", [3, 4]),
        ("me", []),
    ],
)
def test_a_path_filter_matches_the_whole_path_or_its_last_part(
    store: Store, items: Items, path: str, expected: list[int]
) -> None:
    fill(store, GLOBS)
    with store.transaction():
        items.skip([("/home/me/2020/skipped.jpg", 1, 1, "broken")])
    assert items.select(Filter(path=path)).tolist() == expected


def test_the_time_is_when_it_was_taken_or_the_earliest_modification_of_its_files(store: Store, items: Items) -> None:
    with store.transaction():
        items.add([make(1, taken_at=100.0), make(2), make(3)])
        items.link([("/a", 1, int(900e9), 1), ("/b", 1, int(300e9), 2), ("/c", 1, int(200e9), 2)])
    assert items.select(Filter(since=100, until=150)).tolist() == [1]
    assert items.select(Filter(since=101)).tolist() == [2]
    assert items.select(Filter(until=200)).tolist() == [1, 2]  # 3 has neither
    assert items.select(Filter(since=-5.0)).tolist() == [1, 2]


def test_the_side_is_the_shorter_one(store: Store, items: Items) -> None:
    fill(store, {"/a": 1}, width=100, height=3_000)
    fill(store, {"/b": 2}, width=3_000, height=2_000)
    assert items.select(Filter(min_side=101)).tolist() == [2]
    assert items.select(Filter(max_side=100)).tolist() == [1]


def test_conditions_are_combined_with_and(store: Store, items: Items) -> None:
    fill(store, {"/a.jpg": 1, "/b.png": 2}, bytes=5)
    fill(store, {"/c.jpg": 3}, bytes=50)
    assert items.select(Filter()).tolist() == [1, 2, 3]
    assert items.select(Filter(path="*.jpg", min_bytes=5, max_bytes=49)).tolist() == [1]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"since": 2.0, "until": 1.0}, "since must not exceed until. Got 2.0 and 1.0"),
        ({"min_side": -1}, "min_side must be at least 0. Got -1"),
        ({"max_bytes": -1}, "max_bytes must be at least 0"),
        ({"min_bytes": 3, "max_bytes": 2}, "min_bytes must not exceed max_bytes"),
        ({"since": float("nan")}, "since must be a number below"),
        ({"path": ""}, "path must have 1 to 4096 characters. Got 0"),
        ({"path": "*" * 5_000}, "Got 5000"),
        ({"label": ""}, "label must have"),
    ],
)
def test_an_invalid_filter_is_rejected(fields: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=words):
        Filter(**fields)  # type: ignore[arg-type]


names = st.lists(st.text("ab.*?[é", min_size=1, max_size=4), min_size=1, max_size=3).map("/".join)


@settings(max_examples=30, deadline=None)
@given(names=st.lists(names, min_size=1, max_size=8, unique=True), pattern=st.text("ab.*?/é", min_size=1, max_size=6))
def test_globs_match_like_a_shell(tmp_path_factory: pytest.TempPathFactory, names: list[str], pattern: str) -> None:
    store = Store(tmp_path_factory.mktemp("glob") / "c", create=True)
    paths = ["/" + name for name in names]
    with store.writer():
        fill(store, {path: i for i, path in enumerate(paths)})
    tails = [[path, *(path[i + 1 :] for i, c in enumerate(path) if c == "/")] for path in paths]
    parts = [part[:1] if pattern.startswith("/") else part for part in tails]
    expected = [i for i, part in enumerate(parts) if any(fnmatch.fnmatchcase(tail, pattern) for tail in part)]
    assert store.items.select(Filter(path=pattern)).tolist() == expected
    store.close()


def test_an_unchanged_folder_is_looked_up_with_few_queries(store: Store, items: Items) -> None:
    paths = [f"/home/somebody/pictures/2020/holiday/IMG_{i:05}.jpg" for i in range(5_000)]
    fill(store, {path: i for i, path in enumerate(paths)})
    asked: list[str] = []
    with items._db.reading() as db:
        db.set_trace_callback(asked.append)
    assert len(items.seen(paths)) == 5_000
    assert 0 < len(asked) < 5_000 / 100


@given(st.lists(st.tuples(st.floats(-1e12, 1e12), st.none() | st.floats(-1e300, 1e300)), max_size=5))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_item_round_trips_exactly(store: Store, items: Items, times: list[tuple[float, float | None]]) -> None:
    names = ['/a,b"c', "/é\n", "/\udcff\udcfe", "/z"]
    made = [Item(i, [], 1, 2, 3, 'we"b\\p', added, taken) for i, (added, taken) in enumerate(times)]
    with store.transaction():
        items.remove(range(5))
        items.add(made)
        items.link([(f"{name}{item.id}", 1, 1, item.id) for item in made for name in reversed(names)])
    expected = {
        item.id: replace(item, paths=sorted((f"{name}{item.id}" for name in names), key=os.fsencode)) for item in made
    }
    assert items.get(range(9)) == expected
    assert items.has(expected)
    assert not items.has([*expected, 7])
