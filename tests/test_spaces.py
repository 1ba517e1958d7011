"""Spaces of a collection: recipes, fits, and indexes that stay in sync with the store."""

import gc
import os
import weakref
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from lookalike import Collection, cli
from lookalike.collection import indexes
from lookalike.collection.specs import parse_recipe
from lookalike.errors import InputError, UnknownNameError
from lookalike.index.leaves import Leaves
from lookalike.registry import create
from lookalike.store.items import Item

pytestmark = pytest.mark.usefixtures("read_here")


def put(collection, ids):
    """Store items with random unit vectors, as an add does."""
    X = np.random.default_rng(int(ids[0])).normal(size=(len(ids), 32)).astype(np.float32)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    store = collection._store
    with store.writer():
        collection._spaces.create(["color"])
        pending = store.vectors.write("color()", ids, X)
        with store.transaction():
            store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
            store.vectors.commit(pending)


def test_a_large_space_gets_a_faiss_index_that_stays_in_sync(collection, monkeypatch):
    monkeypatch.setattr(indexes, "choose", lambda n: "hnsw" if n > 1_500 else "flat")
    put(collection, np.arange(2_000))
    collection.compact()
    assert collection.stats()["index"] == {"color": "hnsw"}
    assert collection.search(7, k=1)[0].id == 7
    put(collection, np.arange(2_000, 2_100))
    collection.remove(11)
    with Collection(collection.path) as reader:
        assert reader.search(2_050, k=1)[0].id == 2_050
        found = {result.id for result in reader.search(7, k=3_000, effort="exact")}
        assert found == set(range(2_100)) - {11}
        assert reader.verify() == []
    put(collection, np.arange(3_000, 3_900))
    before = collection._store.vectors.structures.get("color()", "points").file
    collection.compact()
    assert collection._store.vectors.structures.get("color()", "points").file != before
    assert collection.space("color").index.stale < 0.01


def test_a_damaged_index_only_costs_time_and_is_rebuilt(collection, monkeypatch):
    monkeypatch.setattr(indexes, "choose", lambda n: "hnsw")
    put(collection, np.arange(2_000))
    collection.compact()
    file = collection.path / "indexes" / collection._store.vectors.structures.get("color()", "points").file
    file.write_bytes(b"nonsense")
    with Collection(collection.path) as again:
        assert again.search(7, k=1)[0].id == 7
        again.compact()
        assert again.space("color").index.kind == "hnsw"
    assert not file.exists()


def test_a_large_space_gets_leaves_for_feedback_that_stay_in_sync(collection, monkeypatch):
    monkeypatch.setattr(indexes, "LEAVES_MIN", 1_500)
    put(collection, np.arange(2_000))
    collection.compact()
    file = collection._store.vectors.structures.get("color()", "hyperplanes").file
    assert isinstance(collection.space("color").feedback_index, Leaves)
    recall = collection.stats()["spaces"][0]["feedback_recall"]
    assert recall == collection.space("color").feedback_index.recall
    assert recall["balanced"] >= 0.95
    put(collection, np.arange(2_000, 2_050))
    collection.remove(11)
    with Collection(collection.path) as reader:
        index = reader.space("color").feedback_index
        assert isinstance(index, Leaves)
        assert index.ids.tolist() == sorted(set(range(2_050)) - {11})
        session = reader.session(7)
        assert session.round(k=5, window=3).best[0].id == 7
        assert reader.verify() == []
    collection.compact()
    assert collection._store.vectors.structures.get("color()", "hyperplanes").file == file  # not rebuilt yet
    (collection.path / "indexes" / file).write_bytes(b"nonsense")
    with Collection(collection.path) as again:
        assert "does not match its digest" in again.verify()[0]
        assert again.session(7).round(k=5, window=3).best[0].id == 7
        again.compact()
        assert again.verify() == []


def stop_at(stage, calls):
    def progress(name, done, total):
        calls.append((name, done))
        if name == stage:
            raise KeyboardInterrupt

    return progress


def test_leaves_whose_build_is_interrupted_resume_until_the_rows_change(collection, monkeypatch):
    monkeypatch.setattr(indexes, "LEAVES_MIN", 1_500)
    folder, vectors = collection.path / "indexes", collection._store.vectors
    put(collection, np.arange(2_000))
    (other := folder / "mine.leaves").mkdir()  # is not removed
    with pytest.raises(KeyboardInterrupt):
        collection.compact(progress=stop_at("finding cells", []))
    other.rmdir()
    for stage in ("finding cells", "writing cells", "sorting into leaves"):
        with pytest.raises(KeyboardInterrupt):
            collection.compact(progress=stop_at(stage, []))
        assert len(list(folder.iterdir())) == (1 if stage == "finding cells" else 2)
        assert vectors.structures.get("color()", "hyperplanes") is None
        with Collection(collection.path) as reader:
            assert reader.session(7).round(k=5, window=3).best[0].id == 7
            assert reader.verify() == []
    calls = []
    collection.compact(progress=stop_at(None, calls))
    assert {name for name, _ in calls} & {"finding cells", "assigning cells", "writing cells"} == set()
    assert [file.name for file in folder.iterdir()] == [vectors.structures.get("color()", "hyperplanes").file]
    assert isinstance(collection.space("color").feedback_index, Leaves)
    put(collection, np.arange(2_000, 2_500))
    with pytest.raises(KeyboardInterrupt):
        collection.compact(progress=stop_at("sorting into leaves", calls))
    stale = set(folder.iterdir())
    assert len(stale) == 3
    with collection._store.writer():
        assert set(folder.iterdir()) == stale
    put(collection, np.arange(2_500, 2_600))
    with pytest.raises(KeyboardInterrupt):
        collection.compact(progress=stop_at("finding cells", calls))
    left = set(folder.iterdir())
    assert len(left) == 2
    assert left & stale == {folder / vectors.structures.get("color()", "hyperplanes").file}
    collection.remove(7)  # removes the unfinished files of the earlier rows
    with collection._store.writer():
        assert len(list(folder.iterdir())) == 1


def test_leaves_of_an_older_version_are_rebuilt_with_a_measured_recall(collection, monkeypatch, capsys):
    monkeypatch.setattr(indexes, "LEAVES_MIN", 1_500)
    put(collection, np.arange(2_000))
    collection.compact()
    path = collection.path / "indexes" / collection._store.vectors.structures.get("color()", "hyperplanes").file
    path.unlink()
    with path.open("wb") as file:
        np.savez(file, size=np.array(64))  # as until version 0.1
    with Collection(collection.path) as again:
        assert again.stats()["spaces"][0]["feedback_recall"] is None
        assert again.session(7).round(k=5, window=3).best[0].id == 7
        again.compact()
        assert again.stats()["spaces"][0]["feedback_recall"] == {"fast": 1, "balanced": 1}
    assert cli.run(["-c", str(collection.path), "stats"]) == 0
    assert "feedback with recall 1.000 (fast), 1.000 (balanced)" in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["flat", "hnsw"])
def test_an_open_index_grows_when_another_process_adds_pictures(collection, monkeypatch, kind):
    monkeypatch.setattr(indexes, "choose", lambda n: kind)
    monkeypatch.setattr(indexes, "LEAVES_MIN", 1_500)
    put(collection, np.arange(2_000))
    collection.compact()
    opened = []
    with Collection(collection.path) as reader:
        read = reader._spaces.indexes.open
        monkeypatch.setattr(reader._spaces.indexes, "open", lambda *told: opened.append(told) or read(*told))
        before = reader.space("color").index, reader.space("color").feedback_index
        loaded = len(opened)
        put(collection, np.arange(2_000, 2_100))
        put(collection, np.arange(2_100, 2_110))
        assert reader.search(2_105, k=1)[0].id == 2_105
        after = reader.space("color").index, reader.space("color").feedback_index
        assert [index.ids.tolist() for index in after] == [list(range(2_110))] * 2
        assert [len(index) for index in before] == [2_000, 2_000]  # running searches are not affected
        assert len(opened) == loaded  # nothing was loaded again
        assert isinstance(after[1], Leaves)
        collection.remove(7)
        collection.compact()
        for index in (reader.space("color").index, reader.space("color").feedback_index):
            assert index.ids.tolist() == sorted(set(range(2_110)) - {7})


def test_uncommitted_changes_are_not_cached(collection):
    put(collection, np.arange(20))
    store = collection._store

    def bury_and_fail():
        with store.transaction():
            store.vectors.remove([3])
            assert 3 not in collection.space("color").index
            raise RuntimeError

    with store.writer(), pytest.raises(RuntimeError):
        bury_and_fail()
    assert 3 in collection.space("color").index


def deleted_files_open(folder):
    """Number of deleted files inside a folder that this process still has open."""
    links = []
    for file in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the descriptor of this listing itself
            links.append(os.readlink(f"/proc/self/fd/{file}"))
    return sum(link.startswith(str(folder)) and link.endswith(" (deleted)") for link in links)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux")
def test_a_space_that_another_process_removed_is_closed_with_its_model(collection):
    put(collection, np.arange(100))
    with Collection(collection.path) as reader:
        for n in range(3):
            slem, codes = f"slem-{n}", f"codes-{n}"
            collection.fit(f"{slem} = color() | slem(lam=0.01)", f"{codes} = color() | itq(bits=8)")
            for space in (slem, codes):
                reader.search(7, space=space)
                reader.session(7, space=space).round()
            kept = [weakref.ref(part) for part in (reader.space(slem).chain, reader.space(codes).index)]
            for space in (slem, codes):
                collection.remove_space(space)
            reader.search(7)
            gc.collect()
            assert deleted_files_open(collection.path) == 0
            assert [part() for part in kept] == [None, None]


def test_a_removed_space_is_unknown(collection):
    put(collection, np.arange(100))
    collection.fit("slem(lam=0.01)")
    with Collection(collection.path) as reader:
        space = reader.space("slem")
        assert space.dim == 32
        collection.remove_space("slem")
        for use in ("specs", "chain", "index", "rows", "feedback_index", "dim", "rows_version", "is_fitted"):
            with pytest.raises(UnknownNameError, match="No space named 'slem'"):
                getattr(space, use)


def test_feedback_on_kernel_slem_learns_from_its_feature(collection):
    put(collection, np.arange(100))
    collection.fit("kernelslem(rank=8)")
    session = collection.session(7, space="kernelslem")
    assert session.round(k=5, window=3).best[0].id == 7
    assert collection.space("kernelslem").rows is collection.space("kernelslem").feature_rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("depe", "Did you mean 'deep'"),
        ("color() | l2()", "must have the form NAME = "),
        ("deep = color()", "a built-in recipe"),
        ("mine = colour()", "No feature named 'colour'"),
        ("mine = color() | pca(dims=3)", "No option of pca named 'dims'"),
        ("mine = l2()", "No feature named 'l2'"),
    ],
)
def test_an_invalid_recipe_is_rejected_before_anything_is_written(collection, tmp_path, text, message):
    with pytest.raises(InputError, match=message):
        collection.add(tmp_path, recipes=[text])
    assert collection.stats()["spaces"] == []


def test_a_file_named_in_a_pipeline_becomes_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    name, chain = parse_recipe("mine = onnx(path='net.onnx', size=32)")
    assert name == "mine"
    assert chain == [f"onnx(path={str(tmp_path / 'net.onnx')!r}, size=32)"]


def test_a_name_belongs_to_one_chain(collection, pictures):
    collection.add(pictures / "fish", recipes=["mine = color()"], workers=1)
    with pytest.raises(InputError, match="exists with another chain"):
        collection.add(pictures / "fish", recipes=["mine = color() | l2()"], workers=1)
    with pytest.raises(UnknownNameError, match="Known: mine"):
        collection.search(pictures / "fish" / "fish-000.jpg", space="mein")


def test_a_space_without_transforms_has_nothing_to_fit(collection, pictures):
    collection.add(pictures / "fish", recipes=["color"], workers=1)
    with pytest.raises(InputError, match="nothing to fit"):
        collection.fit("color")


def test_a_space_with_its_own_metric_is_searched_by_it(collection, pictures):
    spec = "kernelslem(gamma=1.0, lam=0.01, rank=8)"
    collection.add(pictures, recipes=["plain = color()", f"sharp = color() | {spec}"])
    collection.fit("sharp")
    ids, X = collection.vectors("plain")
    slem = create("transform", spec).fit(X)
    scores = slem.query(X[:1]).score(slem.transform(X))[0]
    with Collection(collection.path) as again:
        results = again.search(int(ids[0]), space="sharp", k=len(ids))
        assert [result.score for result in results] == pytest.approx(np.sort(scores), abs=1e-4)
        assert results[0].id == ids[0]
        outside = again.search(str(again.get([int(ids[0])])[int(ids[0])].paths[0]), space="sharp", k=1, where=True)
        assert (outside[0].id, len(outside[0].box)) == (ids[0], 4)
        assert again.verify() == []


def test_several_examples_are_combined_by_their_scores_in_that_metric(collection, pictures):
    collection.add(pictures, recipes=["plain = color()", "sharp = color() | kernelslem(gamma=1.0, lam=0.01, rank=8)"])
    collection.fit("sharp")
    ids = [int(item) for item in collection.vectors("plain")[0][:3]]
    each = [{r.id: r.score for r in collection.search(item, space="sharp", k=1_000)} for item in ids]
    both = collection.search(ids[:2], without=ids[2], space="sharp", k=1_000)
    for result in both:
        one, other, unwanted = (scores[result.id] for scores in each)
        assert result.score == pytest.approx((one + other) / 2 - 0.5 * unwanted, abs=1e-5)
    assert [r.score for r in both] == sorted(r.score for r in both)
