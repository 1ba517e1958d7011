"""The vector store: spaces, immutable segments, dead rows, merging and verification."""

import mmap
import pickle
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lookalike.errors import InputError, UnknownNameError
from lookalike.store import segments
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.store.npy_files import digest_file
from lookalike.store.segments import Block, merge_rows, open_block, split_rows
from lookalike.store.vectors import VectorStore

DIM = 4


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "c", create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("deep", ["color()"])
        yield store
    store.close()


@pytest.fixture
def vectors(store: Store) -> VectorStore:
    return store.vectors


def rows_for(ids: NDArray[np.int64], dtype: Any = np.float32) -> NDArray[Any]:
    """Rows that encode their id."""
    return (ids[:, None] + np.arange(DIM) / 8).astype(dtype)


def add(store: Store, *ids: int, space: str = "deep", dtype: Any = np.float32) -> None:
    """Add items with one row each, in one segment."""
    array = np.array(ids, np.int64)
    pending = store.vectors.write(space, array, rows_for(array, dtype))
    with store.transaction():
        store.items.add([Item(item, [], 1, 1, 1, "png", 0.0, None) for item in ids])
        store.vectors.commit(pending)


def remove(store: Store, *ids: int) -> None:
    with store.transaction():
        store.items.remove(ids)
        store.vectors.remove(ids)


def contents(vectors: VectorStore, space: str = "deep") -> dict[int, list[float]]:
    """Every live row by id. Fail if an id is alive twice."""
    found: dict[int, list[float]] = {}
    for block in vectors.blocks(space):
        keep = slice(None) if block.dead is None else ~block.dead
        for item, row in zip(block.ids[keep].tolist(), block.X[keep].tolist(), strict=True):
            assert item not in found
            found[item] = row
    return found


def verify(vectors: VectorStore, space: str = "deep") -> list[str]:
    return vectors.verify(space, lambda stage, done, total: None)


def folder(store: Store, name: str = "vectors") -> list[str]:
    return sorted(file.name for file in (store.path / name).iterdir())


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_rows_are_read_sorted_by_id_in_their_own_precision(store: Store, vectors: VectorStore, dtype: Any) -> None:
    add(store, 30, 10, 20, dtype=dtype)
    (block,) = vectors.blocks("deep")
    assert block.ids.tolist() == [10, 20, 30]
    assert block.X.dtype == dtype
    np.testing.assert_array_equal(block.X, rows_for(block.ids, dtype))
    assert block.dead is None
    assert verify(vectors) == []


def test_rows_are_read_only_memory_maps(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2)
    (block,) = vectors.blocks("deep")
    owner: Any = block.X
    while isinstance(owner, np.ndarray):
        owner = owner.base
    assert isinstance(owner, mmap.mmap)
    assert not block.X.flags.writeable
    assert not block.ids.flags.writeable


def test_files_are_plain_npy(store: Store) -> None:
    add(store, 2, 1)
    np.testing.assert_array_equal(np.load(store.path / "vectors" / "deep-1.ids.npy"), [1, 2])
    assert np.load(store.path / "vectors" / "deep-1.npy").shape == (2, DIM)
    assert folder(store) == ["deep-1.ids.npy", "deep-1.npy"]


def test_a_segment_that_is_not_in_the_catalogue_is_ignored(store: Store, vectors: VectorStore) -> None:
    vectors.write("deep", np.array([1]), np.ones((1, DIM), np.float32))
    assert vectors.blocks("deep") == []
    assert vectors.rows("deep") == 0
    assert vectors.live_ids("deep").tolist() == []


def test_the_first_segment_sets_the_dimension(store: Store, vectors: VectorStore) -> None:
    assert vectors.spaces()["deep"].dim is None
    add(store, 1)
    assert vectors.spaces()["deep"].dim == DIM
    pending = vectors.write("deep", np.array([2]), np.ones((1, 7), np.float32))
    with pytest.raises(InputError, match=r"'deep' has 4 dimensions\. Got 7"), store.transaction():
        vectors.commit(pending)


@pytest.mark.parametrize(
    ("ids", "X", "words"),
    [
        ([1, 1], np.ones((2, DIM), np.float32), "must be unique. Got 1 twice"),
        ([-1], np.ones((1, DIM), np.float32), "cannot be negative. Got -1"),
        ([1], np.full((1, DIM), np.nan, np.float32), "must be finite"),
        ([1], np.full((1, DIM), np.inf, np.float16), "must be finite"),
        ([1], np.ones((1, DIM)), "Got float64 of shape"),
        ([1, 2], np.ones((1, DIM), np.float32), "one row per id"),
        ([], np.ones((0, DIM), np.float32), "at least one"),
        ([1], np.ones(DIM, np.float32), "must be a matrix"),
    ],
)
def test_invalid_rows_are_rejected_and_leave_no_file(
    store: Store, vectors: VectorStore, ids: list[int], X: NDArray[Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        vectors.write("deep", np.array(ids, np.int64), X)
    assert folder(store) == []


def test_an_item_has_one_live_row_in_a_space(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2)
    with pytest.raises(InputError, match="already has vectors"):
        add(store, 2, 3)
    assert vectors.live_ids("deep").tolist() == [1, 2]
    remove(store, 2)
    add(store, 2, 3)
    assert contents(vectors) == {i: rows_for(np.array([i]))[0].tolist() for i in (1, 2, 3)}
    assert verify(vectors) == []


def test_removing_affects_every_space_and_ignores_unknown_ids(store: Store, vectors: VectorStore) -> None:
    with store.transaction():
        vectors.create_space("other", ["color()"])
    add(store, 1, 2, 3)
    add(store, 1, 3, space="other")
    remove(store, 3, 404)
    remove(store, 3)
    assert [b.dead.tolist() for b in vectors.blocks("deep") if b.dead is not None] == [[False, False, True]]
    assert (vectors.rows("deep"), vectors.rows("other")) == (2, 1)
    assert vectors.live_ids("other").tolist() == [1]
    assert verify(vectors) == verify(vectors, "other") == []


def test_items_without_a_live_row_are_missing(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2)
    with store.transaction():
        store.items.add([Item(9, [], 1, 1, 1, "png", 0.0, None)])
        vectors.remove([1])
    assert vectors.missing("deep").tolist() == [1, 9]


def test_stored_rows_can_be_read_by_number_even_in_another_process(store: Store, vectors: VectorStore) -> None:
    add(store, 5, 1, 9)
    add(store, 2, 7, dtype=np.float16)
    add(store, 3)
    remove(store, 5, 3)
    ids, numbers, rows = vectors.stored_rows("deep")
    assert ids.tolist() == [1, 2, 7, 9]
    pickled = pickle.dumps(rows)
    assert len(pickled) < 1_000  # names of files
    for readable in (rows, pickle.loads(pickled)):
        for order in ([0, 1, 2, 3], [3, 0, 3, 2], [1], []):
            assert readable(numbers[order]).tolist() == rows_for(ids[order]).tolist()


def test_unchanged_blocks_are_the_same_objects(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2)
    add(store, 3)
    before = vectors.blocks("deep")
    assert [a is b for a, b in zip(before, vectors.blocks("deep"), strict=True)] == [True, True]
    remove(store, 3)
    after = vectors.blocks("deep")
    assert after[0] is before[0]
    assert after[1].X is before[1].X
    assert before[1].dead is None  # a running search is not affected
    assert after[1].dead is not None


def test_uncommitted_rows_are_not_cached(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2, 3)
    with suppress(RuntimeError), store.transaction():
        vectors.remove([1])
        assert vectors.live_ids("deep").tolist() == [2, 3]
        raise RuntimeError
    assert vectors.live_ids("deep").tolist() == [1, 2, 3]
    with store.transaction():
        vectors.remove([2])  # the same number of dead rows as before, but different ones
    assert vectors.live_ids("deep").tolist() == [1, 3]


def test_spaces_keep_their_chain_and_order(store: Store, vectors: VectorStore) -> None:
    with store.transaction():
        vectors.create_space("a/b (odd) é", ["color()", "pca(dim=2)"], base="deep")
    assert list(vectors.spaces()) == ["deep", "a/b (odd) é"]
    space = vectors.spaces()["a/b (odd) é"]
    assert (space.chain, space.base, space.model, space.fitted_on) == (["color()", "pca(dim=2)"], "deep", None, None)
    add(store, 5, space="a/b (odd) é")
    assert list(contents(vectors, "a/b (odd) é")) == [5]


def test_a_name_can_be_used_once_and_a_base_must_exist(store: Store, vectors: VectorStore) -> None:
    with pytest.raises(InputError, match="Space 'deep' already exists"), store.transaction():
        vectors.create_space("deep", ["color()"])
    with pytest.raises(UnknownNameError, match="Did you mean 'deep'"), store.transaction():
        vectors.create_space("new", ["color()"], base="dep")


@pytest.mark.parametrize("verb", ["blocks", "rows", "live_ids", "missing", "merge", "bytes"])
def test_an_unknown_space_is_named_in_the_error(vectors: VectorStore, verb: str) -> None:
    with pytest.raises(UnknownNameError, match="No space named 'dep'"):
        getattr(vectors, verb)("dep")


def test_dropping_a_space_removes_its_files_and_leaves_the_others(store: Store, vectors: VectorStore) -> None:
    with store.transaction():
        vectors.create_space("pca", ["color()", "pca()"], base="deep")
    add(store, 1)
    add(store, 1, space="pca")
    with pytest.raises(InputError, match="base of pca"), store.transaction():
        vectors.drop_space("deep")
    with store.transaction():
        vectors.drop_space("pca")
    assert list(vectors.spaces()) == ["deep"]
    assert folder(store) == ["deep-1.ids.npy", "deep-1.npy"]


def model(store: Store, folder: str = "models", name: str | None = None) -> str:
    temp = store.vectors.new_file(folder, ".npz")
    temp.write_bytes(b"model")
    return store.vectors.put_in_place(temp, name)


def test_replacing_changes_rows_model_and_dimension_in_one_step(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2)
    first = model(store)
    with store.transaction():
        vectors.replace("deep", [], model=first, fitted_on=2)
        vectors.structures.set("deep", "points", model(store, "indexes", "hnsw-1.faiss"))
    assert (vectors.rows("deep"), folder(store), folder(store, "models")) == (0, [], [first])
    pendings = [vectors.write("deep", np.array([i]), np.ones((1, 9), np.float32)) for i in (1, 2)]
    second = model(store)
    with store.transaction():
        vectors.replace("deep", pendings, model=second, fitted_on=7)
    space = vectors.spaces()["deep"]
    assert (space.dim, space.model, space.fitted_on, vectors.structures.get("deep", "points")) == (9, second, 7, None)
    assert space.model_digest == digest_file(store.path / "models" / second)
    assert vectors.live_ids("deep").tolist() == [1, 2]
    assert (folder(store, "models"), folder(store, "indexes")) == ([second], [])
    assert verify(vectors) == []


def test_a_replacement_that_fails_leaves_the_old_rows_and_files(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2)
    same = [vectors.write("deep", np.array([1]), np.ones((1, DIM), np.float32)) for _ in range(2)]
    with pytest.raises(InputError, match="Got 1 twice"), store.transaction():
        vectors.replace("deep", same, model=None, fitted_on=None)
    with suppress(RuntimeError), store.transaction():
        vectors.replace("deep", same[:1], model=None, fitted_on=None)
        raise RuntimeError
    assert vectors.live_ids("deep").tolist() == [1, 2]
    assert verify(vectors) == []


def test_a_new_index_replaces_the_old_one(store: Store, vectors: VectorStore) -> None:
    for name in ("hnsw-1.faiss", "hnsw-2.faiss"):
        with store.transaction():
            vectors.structures.set("deep", "points", model(store, "indexes", name))
        assert vectors.structures.get("deep", "points").file == name
        assert folder(store, "indexes") == [name]
    with store.transaction():
        vectors.structures.set("deep", "points", None)
    assert folder(store, "indexes") == []


def test_a_segment_number_is_never_reused(store: Store, vectors: VectorStore) -> None:
    add(store, 1)
    add(store, 2)
    with pytest.raises(InputError):
        add(store, 2)  # number 3 was written, but is not in the catalogue
    vectors.merge("deep", everything=True)
    assert folder(store) == ["deep-3.ids.npy", "deep-3.npy", "deep-4.ids.npy", "deep-4.npy"]
    other = Store(store.path)
    assert other.vectors.write("deep", np.array([9]), np.ones((1, DIM), np.float32)).segment == 5
    other.close()


def test_eight_segments_of_similar_size_are_merged_into_one(store: Store, vectors: VectorStore) -> None:
    for i in range(7):
        add(store, 2 * i, 2 * i + 1)
        assert vectors.merge("deep") == 0
    add(store, 100, 101)
    before = contents(vectors)
    assert vectors.merge("deep") == 8
    assert [len(block.ids) for block in vectors.blocks("deep")] == [16]
    assert contents(vectors) == before
    assert len(folder(store)) == 2
    assert verify(vectors) == []


def test_the_number_of_segments_stays_small(store: Store, vectors: VectorStore) -> None:
    most = 0
    for i in range(100):
        add(store, i)
        vectors.merge("deep")
        most = max(most, len(vectors.blocks("deep")))
    assert most <= 7 + 7 + 1  # seven in each of the tiers 1 and 8, and one of 64
    assert sorted(contents(vectors)) == list(range(100))


def test_merging_everything_drops_dead_rows_and_is_done_once(store: Store, vectors: VectorStore) -> None:
    add(store, 5, 1, 9)
    add(store, 7, 3, dtype=np.float16)
    remove(store, 9, 7)
    stages = []
    assert vectors.merge("deep", everything=True, progress=lambda *step: stages.append(step)) == 2
    (block,) = vectors.blocks("deep")
    assert (block.ids.tolist(), block.dead, block.X.dtype) == ([1, 3, 5], None, np.float32)
    assert stages[-1] == ("merging deep", 3, 3)
    assert vectors.merge("deep", everything=True) == 0
    remove(store, 1, 3, 5)
    assert vectors.merge("deep") == 1
    assert (vectors.blocks("deep"), folder(store)) == ([], [])
    assert verify(vectors) == []


def test_a_segment_that_is_mostly_dead_is_rewritten(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2, 3, 4)
    remove(store, 1, 2)
    assert vectors.merge("deep") == 0
    remove(store, 3)
    assert vectors.merge("deep") == 1
    assert [block.ids.tolist() for block in vectors.blocks("deep")] == [[4]]


steps = st.lists(st.tuples(st.booleans(), st.sets(st.integers(0, 60), min_size=1, max_size=20)), max_size=12)


@settings(max_examples=25, deadline=None)
@given(steps=steps, everything=st.booleans(), max_rows=st.sampled_from([3, 10, 1000]))
def test_merging_changes_no_row(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, set[int]]], everything: bool, max_rows: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "MAX_ROWS", max_rows)
        patch.setattr(segments, "TIER", 2)
        store = Store(tmp_path_factory.mktemp("merge") / "c", create=True)
        expected: set[int] = set()
        with store.writer():
            with store.transaction():
                store.vectors.create_space("deep", ["color()"])
            for adding, ids in steps:
                if adding and ids - expected:
                    add(store, *ids - expected)
                    expected |= ids
                elif not adding:
                    remove(store, *ids)
                    expected -= ids
            store.vectors.merge("deep", everything=everything)
            got = contents(store.vectors)
            assert got == {i: rows_for(np.array([i]))[0].tolist() for i in expected}
            assert verify(store.vectors) == []
            if everything:
                assert len(store.vectors.blocks("deep")) <= len(split_rows(len(expected)))
        store.close()


def test_merged_rows_are_written_in_bounded_chunks() -> None:
    random = np.random.default_rng(0)
    ids = random.permutation(60_000)
    blocks = []
    for number, part in enumerate(map(np.sort, np.array_split(ids, [100, 30_000, 30_001]))):
        dead = random.random(len(part)) < 0.3 if number % 2 else None
        blocks.append(Block(part, part[:, None].astype(np.float32), dead, number, b""))
    chunks = list(merge_rows(blocks, max_bytes=24_000))
    assert max(chunk.nbytes + X.nbytes for chunk, X in chunks) <= 12_000
    merged = np.concatenate([chunk for chunk, _ in chunks])
    np.testing.assert_array_equal(merged, np.sort(np.concatenate([block.live_ids() for block in blocks])))
    np.testing.assert_array_equal(np.concatenate([X[:, 0] for _, X in chunks]), merged)


@pytest.mark.parametrize(("rows", "sizes"), [(0, []), (1, [1]), (2**20, [2**20]), (2**20 + 1, [2**19 + 1, 2**19])])
def test_merged_segments_are_few_and_equal(rows: int, sizes: list[int]) -> None:
    assert split_rows(rows) == sizes


@pytest.fixture
def late_reader(store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[VectorStore]:
    """A reader that opens its files just after another process has merged and deleted them."""
    add(store, 1)
    add(store, 2)
    merged = []

    def open_late(*args: Any) -> Block:
        if not merged:
            merged.append(True)
            store.vectors.merge("deep", everything=True)
        return open_block(*args)

    monkeypatch.setattr(segments, "open_block", open_late)
    reader = Store(store.path)
    yield reader.vectors
    reader.close()
    assert merged


def test_a_reader_retries_when_segments_were_merged(late_reader: VectorStore) -> None:
    assert [block.ids.tolist() for block in late_reader.blocks("deep")] == [[1, 2]]


def test_merged_segments_are_not_reported_as_damage(late_reader: VectorStore) -> None:
    assert verify(late_reader) == []


def test_a_reader_keeps_its_rows_while_they_are_merged(store: Store) -> None:
    add(store, 1)
    add(store, 2)
    reader = Store(store.path)
    before = reader.vectors.blocks("deep")
    store.vectors.merge("deep", everything=True)
    assert [block.X[0, 0] for block in before] == [1.0, 2.0]
    assert [block.ids.tolist() for block in reader.vectors.blocks("deep")] == [[1, 2]]
    reader.close()


def test_a_missing_segment_is_named_and_the_others_are_read(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    add(store, 1)
    add(store, 2)
    (store.path / "vectors" / "deep-1.ids.npy").unlink()
    reader = Store(store.path)
    for _ in range(2):
        assert reader.vectors.live_ids("deep").tolist() == [2]
    assert [record.getMessage().count("deep-1.ids.npy is missing") for record in caplog.records] == [1]
    reader.close()


def segments_of(store: Store, n: int) -> None:
    """Add segments of three rows each."""
    for first in range(0, 3 * n, 3):
        add(store, first, first + 1, first + 2)


@pytest.mark.parametrize("everything", [True, False])
def test_a_merge_never_copies_damage_but_quarantines_the_segment(
    store: Store, vectors: VectorStore, everything: bool
) -> None:
    segments_of(store, 10)
    before = contents(vectors)
    flip(store.path / "vectors" / "deep-2.npy", -1)
    vectors.merge("deep", everything=everything)
    assert vectors.quarantined("deep") == {"deep-2.npy": "does not match its digest"}
    assert contents(vectors) == {item: row for item, row in before.items() if item not in (3, 4, 5)}
    assert vectors.missing("deep").tolist() == [3, 4, 5]
    assert vectors.rows("deep") == 27
    assert verify(vectors) == ["vectors/deep-2.npy is quarantined: does not match its digest. Run: lookalike repair"]
    assert "deep-2.npy" in folder(store)  # kept until its pictures have rows again
    add(store, 3, 4, 5)
    vectors.release_quarantined("deep")
    assert contents(vectors) == before
    assert verify(vectors) == []
    assert "deep-2.npy" not in folder(store)


def test_a_merge_ends_for_damaged_ids(store: Store, vectors: VectorStore) -> None:
    segments_of(store, 10)
    ids = store.path / "vectors" / "deep-2.ids.npy"
    vectors.blocks("deep")  # open the files before the damage
    with ids.open("r+b") as file:
        file.seek(-24, 2)
        file.write(np.array([5, 4, 3]).tobytes())
    assert vectors.merge("deep", everything=True) == 9
    assert list(vectors.quarantined("deep")) == ["deep-2.npy"]


@given(st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=9), min_size=1, max_size=4), st.integers(1, 400))
@settings(max_examples=60, deadline=None)
def test_merging_rows_ends_for_ids_in_any_order(parts: list[list[int]], max_bytes: int) -> None:
    blocks = [
        Block(np.array(ids), np.ones((len(ids), 1), np.float32), None, number, b"") for number, ids in enumerate(parts)
    ]
    assert sum(len(ids) for ids, _ in merge_rows(blocks, max_bytes)) == sum(map(len, parts))


def test_new_rows_are_never_used_together_with_an_unreadable_segment_of_the_same_items(tmp_path: Path) -> None:
    store = Store(tmp_path / "c", create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("deep", ["color()"])
        add(store, 1)
        add(store, 2)
    store.close()
    lost = store.path / "vectors" / "deep-1.npy"
    data = lost.read_bytes()
    lost.unlink()
    store = Store(tmp_path / "c")
    with store.writer():
        add(store, 1)
    lost.write_bytes(data)  # as if its disk were mounted again
    store.close()
    store = Store(tmp_path / "c")
    assert contents(store.vectors).keys() == {1, 2}
    assert list(store.vectors.quarantined("deep")) == ["deep-1.npy"]
    store.close()


def test_a_segment_whose_file_returns_is_not_quarantined(tmp_path: Path) -> None:
    store = Store(tmp_path / "c", create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("deep", ["color()"])
        add(store, 1)
    store.close()
    store = Store(tmp_path / "c")
    file = store.path / "vectors" / "deep-1.npy"
    away = file.rename(tmp_path / "away")
    assert store.vectors.live_ids("deep").tolist() == []
    away.rename(file)
    with store.writer():
        add(store, 2)
    assert store.vectors.quarantined("deep") == {}
    assert contents(store.vectors).keys() == {1, 2}
    store.close()


def test_a_file_that_changes_while_it_is_open_is_noticed(store: Store, vectors: VectorStore) -> None:
    add(store, 1)
    add(store, 2)
    vectors.blocks("deep")
    assert vectors.find_changed() == {}
    (store.path / "vectors" / "deep-1.npy").write_bytes(b"short")
    before = store.version()
    assert vectors.find_changed() == {"deep": {1}}
    assert store.version() != before
    assert contents(vectors).keys() == {2}
    assert vectors.quarantine_changed() == ["deep-1.npy"]
    assert contents(vectors).keys() == {2}
    assert vectors.find_changed() == {}


def test_a_file_with_only_a_new_timestamp_is_still_used(store: Store, vectors: VectorStore) -> None:
    add(store, 1)
    vectors.blocks("deep")
    (store.path / "vectors" / "deep-1.npy").touch()
    assert vectors.find_changed() == {"deep": {1}}
    assert vectors.quarantine_changed() == []
    assert contents(vectors).keys() == {1}


def flip(file: Path, at: int) -> None:
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


DAMAGES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a bit of a row": (lambda file: flip(file, -1), "does not match its digest"),
    "a bit of an id": (lambda file: flip(file.with_suffix(".ids.npy"), -7), "does not match its digest"),
    "ids out of order": (lambda file: np.save(file.with_suffix(".ids.npy"), np.array([3, 2, 1])), "are not ascending"),
    "no numbers": (lambda file: np.save(file, np.full((3, DIM), np.nan, np.float32)), "not finite"),
    "another shape": (lambda file: np.save(file, np.ones((2, DIM), np.float32)), "not float32 of"),
    "another type": (lambda file: np.save(file, np.ones((3, DIM))), "not float64"),
    "the file's end": (lambda file: file.write_bytes(file.read_bytes()[:-5]), "is damaged"),
    "the file's start": (lambda file: flip(file, 0), "is damaged"),
    "an empty file": (lambda file: file.write_bytes(b""), "is damaged"),
    "no file": (lambda file: file.unlink(), "is missing"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_reported(store: Store, damage: str) -> None:
    add(store, 1, 2, 3)
    harm, words = DAMAGES[damage]
    harm(store.path / "vectors" / "deep-1.npy")
    faults = verify(store.vectors)
    assert re.search(f"deep-1.*{words}", " ".join(faults))


def test_wrong_entries_in_the_catalogue_are_reported(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2)
    add(store, 3)
    with store.transaction() as db:
        db.execute("UPDATE segments SET dead = 1 WHERE id = 1")
        store.items.remove([3])
    faults = " ".join(verify(vectors))
    assert "has 0 removed vectors, but the catalogue lists 1" in faults
    assert "Space 'deep': vectors without an item: 1." in faults


def test_an_item_that_is_alive_twice_is_found(store: Store, vectors: VectorStore) -> None:
    add(store, 1, 2)
    remove(store, 2)
    add(store, 2)
    with store.transaction() as db:
        db.execute("DELETE FROM dead")
        db.execute("UPDATE segments SET dead = 0")
    assert verify(vectors) == ["Space 'deep': items with two vectors: 1. Run: lookalike repair"]
