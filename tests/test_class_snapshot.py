"""Snapshots of the class model on disk: a snapshot plus later changes equals a model built from all labels."""

import contextlib
import multiprocessing
import os
import signal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.test_class_model import QUERIES, X, agree, apply, label, nearest_means, put, start, steps

from lookalike.collection import class_model
from lookalike.collection.class_model import ClassModel, LabelTable
from lookalike.collection.classes import Classes
from lookalike.collection.space import Spaces
from lookalike.errors import InputError
from lookalike.store import models
from lookalike.store.directory import Store
from waiting import TIMEOUT_S


@pytest.fixture(autouse=True)
def always_write_snapshots(monkeypatch):
    monkeypatch.setattr(class_model, "SNAPSHOT_MIN", 1)
    monkeypatch.setattr(class_model, "RECALIBRATE_SHARE", 0.0)


@pytest.fixture
def store(tmp_path):
    made = start(tmp_path)
    yield made
    made.close()


def opened(store):
    """Return a model as a new process would load it."""
    return ClassModel(Spaces(store))


def forbid_full_reads(monkeypatch, store):
    """Make any later attempt to read all labels fail."""
    monkeypatch.setattr(store.judgements.classes, "all_labels", None)


@pytest.mark.parametrize("kind", ["ncm", "second"])
@settings(max_examples=8)
@given(changes=st.lists(steps, min_size=1, max_size=8), compact=st.booleans())
def test_a_snapshot_plus_later_changes_equals_a_full_rebuild(tmp_path_factory, kind, changes, compact):
    store = start(tmp_path_factory.mktemp("made"))
    label(store, (0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "c"), (4, "a"))
    Classes(Spaces(store)).use(kind=kind)
    opened(store).predict(QUERIES)
    for step in changes:
        with contextlib.suppress(InputError):
            apply(store, *step)
    if compact:
        store.judgements.compact()
    try:
        mine = opened(store)
        guesses = mine.predict(QUERIES)
    except InputError:
        left = [item for name in store.judgements.label_counts() for item in store.judgements.items_with(name).tolist()]
        assert not store.items.get(left)
        store.close()
        return
    store.class_snapshot_file.unlink(missing_ok=True)
    fresh = opened(store)
    for one, other in zip(guesses, fresh.predict(QUERIES), strict=True):
        assert one.probability == pytest.approx(other.probability, abs=1e-3)
    assert agree(guesses, nearest_means(store)) or kind == "second"
    for one, other in ((mine, fresh), (fresh, mine)):
        for code, n, mean in zip(one._model.classes_, one._model.sizes(), one._model.means(), strict=True):
            at = other._model.classes_.tolist().index(other._table.code(one._table.names[code]))
            assert other._model.sizes()[at] == n
            np.testing.assert_allclose(other._model.means()[at], mean, atol=1e-12)
    if kind == "second":
        np.testing.assert_allclose(mine._model.scatter_, fresh._model.scatter_, atol=1e-11)
    store.close()


def test_a_new_process_reads_only_the_changes(store, monkeypatch):
    label(store, *((item, "abc"[item % 3]) for item in range(9)))
    opened(store).predict(QUERIES)
    forbid_full_reads(monkeypatch, store)
    monkeypatch.setattr(class_model, "RECALIBRATE_SHARE", 1.0)
    label(store, (9, "new"), (10, "new"))
    store.judgements.remove_labels([(0, "a")])
    looked = []
    examples = class_model._examples
    monkeypatch.setattr(
        class_model, "_examples", lambda pairs, index: looked.append(len(pairs)) or examples(pairs, index)
    )
    assert agree(opened(store).predict(QUERIES), nearest_means(store))
    assert looked == [1, 2]


def test_the_model_follows_removed_and_added_pictures(store):
    label(store, *((item, "abc"[item % 3]) for item in range(9)))
    opened(store).predict(QUERIES)
    for verb in ("remove", "add"):
        apply(store, verb, 4, "")
        assert agree(opened(store).predict(QUERIES), nearest_means(store))


@pytest.mark.parametrize("how", ["empty", "truncated", "flipped", "other format", "missing", "a folder"])
def test_an_unreadable_snapshot_is_ignored(store, how):
    label(store, *((item, "abc"[item % 3]) for item in range(9)))
    before = opened(store).predict(QUERIES)
    data = store.class_snapshot_file.read_bytes()
    if how == "other format":
        arrays = models.load_arrays(store.class_snapshot_file)
        arrays["about_"] = np.frombuffer(arrays["about_"].tobytes().replace(b'"format": 1', b'"format": 9'), np.uint8)
        models.save_arrays(store.class_snapshot_file, arrays)
    elif how == "missing":
        store.class_snapshot_file.unlink()
    elif how == "a folder":
        store.class_snapshot_file.unlink()
        store.class_snapshot_file.mkdir()
    else:
        middle = len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
        store.class_snapshot_file.write_bytes({"empty": b"", "truncated": data[:middle], "flipped": flipped}[how])
    assert opened(store).predict(QUERIES) == before


def test_a_snapshot_of_other_judgements_is_ignored(store, tmp_path):
    label(store, (0, "a"), (1, "a"), (2, "b"), (3, "b"))
    opened(store).predict(QUERIES)
    kept = store.class_snapshot_file.read_bytes()
    other = start(tmp_path / "other")
    label(other, (8, "a"), (9, "a"), (10, "b"), (11, "b"), (7, "b"))  # the same number of changes plus one
    other.class_snapshot_file.parent.mkdir()
    other.class_snapshot_file.write_bytes(kept)
    assert agree(opened(other).predict(QUERIES), nearest_means(other))
    other.close()


def test_other_settings_another_space_and_ncmc_rebuild_the_model(store):
    label(store, *((item, "abc"[item % 3]) for item in range(9)))
    classes = Classes(Spaces(store))
    opened(store).predict(QUERIES)
    kept = store.class_snapshot_file.read_bytes()
    classes.use(kind="second")
    second = opened(store)
    second.predict(QUERIES)
    assert second._model.kind == "second"
    assert store.class_snapshot_file.read_bytes() != kept
    classes.use(kind="ncmc")
    kept = store.class_snapshot_file.read_bytes()
    opened(store).predict(QUERIES)
    assert store.class_snapshot_file.read_bytes() == kept


def test_predictions_work_when_no_snapshot_can_be_written(store, monkeypatch):
    label(store, *((item, "abc"[item % 3]) for item in range(9)))
    (store.path / "derived").write_text("not a folder")
    assert agree(opened(store).predict(QUERIES), nearest_means(store))
    monkeypatch.setattr(class_model, "SNAPSHOT_BYTES", 10)
    (store.path / "derived").unlink()
    opened(store).predict(QUERIES)
    assert not store.class_snapshot_file.exists()


def test_the_next_writer_removes_files_of_a_killed_process(store):
    store.class_snapshot_file.parent.mkdir()
    left = store.class_snapshot_file.with_name("classes.npz.1.part")
    left.write_bytes(b"half")
    with store.writer():
        assert not left.exists()


def work(path, seed, done):
    """Label, classify and write snapshots until the process is killed."""
    class_model.SNAPSHOT_MIN = 1
    random = np.random.default_rng(seed)
    store = Store(path)
    model = opened(store)
    while True:
        item, name = int(random.integers(12)), "abcd"[random.integers(4)]
        store.judgements.add_labels([(item, name)], author="anna", source="hand")
        store.judgements.remove_labels([(int(random.integers(2, 12)), "abcd"[random.integers(4)])])
        model.predict(QUERIES)
        done.set()


def test_two_processes_killed_while_writing_leave_a_correct_state(store):
    label(store, (0, "a"), (1, "b"))
    context = multiprocessing.get_context("spawn")
    events = [context.Event() for _ in range(2)]
    workers = [context.Process(target=work, args=(store.path, seed, done)) for seed, done in enumerate(events)]
    for worker in workers:
        worker.start()
    assert all(done.wait(TIMEOUT_S) for done in events)
    for worker in workers:
        os.kill(worker.pid, signal.SIGKILL)
        worker.join()
    assert store.class_snapshot_file.exists()
    assert agree(opened(store).predict(QUERIES), nearest_means(store))


def test_a_label_table_equals_a_set_of_pairs():
    random = np.random.default_rng(0)
    table, truth = LabelTable.from_pairs([(3, "a")]), {(3, "a")}
    for _ in range(200):
        changes = [(int(random.integers(6)), "abc"[random.integers(3)], bool(random.integers(2))) for _ in range(3)]
        table.apply([*changes, (None, None, False)])
        for item, name, added in changes:
            (truth.add if added else truth.discard)((item, name))
        pairs = list(zip(table.items.tolist(), (table.names[code] for code in table.codes), strict=True))
        assert set(pairs) == truth
        assert len(pairs) == len(truth)
        assert (np.diff(table.items) >= 0).all()
        table.match(np.array([1, 3, 5]), everything=False)
        assert set(table.items[table.in_model].tolist()) <= {1, 3, 5}


def test_vectors_added_again_are_used(store):
    label(store, *((item, "abc"[item % 3]) for item in range(9)))
    apply(store, "remove", 11, "")
    opened(store).predict(QUERIES)
    label(store, (11, "c"))
    with store.writer():
        put(store, [11])
    model = opened(store)
    assert agree(model.predict(QUERIES), nearest_means(store))
    assert model._table.in_model.all()
    assert np.isclose(model._model.sums_.sum(), X[[*range(9), 11]].astype(float).sum())
