"""The neighbour graph, and spaces with smoothed rows: equal to a new computation after every change."""

from pathlib import Path

import numpy as np
import pytest

from lookalike import Collection
from lookalike.collection import fitting
from lookalike.encode.smooth import Smooth
from lookalike.errors import DamagedError, InputError
from lookalike.index import neighbours
from lookalike.index.neighbours import NeighbourGraph
from lookalike.limits import NEIGHBOURS
from lookalike.recipes import FORMER, RECIPES
from lookalike.store.items import Item
from reference.neighbours import nearest, smoothed

pytestmark = pytest.mark.usefixtures("read_here")

PIPELINE = "soft = color() | pca(dim=8) | l2() | smooth(k=3, alpha=2)"


def check_graph(graph, X):
    """Compare a graph with a new search. A list that has lost neighbours can be shorter, but not wrong."""
    n = len(graph)
    _, D = nearest(X[graph.ids], min(NEIGHBOURS, n - 1))
    listed = np.isfinite(graph.distances)[:, : D.shape[1]]
    np.testing.assert_allclose(graph.distances[:, : D.shape[1]][listed], D[listed], rtol=1e-4, atol=1e-5)
    places = graph.places[:, : D.shape[1]]
    found = ((X[graph.ids][:, None] - X[graph.ids][places]) ** 2).sum(axis=2)
    np.testing.assert_allclose(found[listed], D[listed], rtol=1e-4, atol=1e-5)
    assert listed[:, : min(5, n - 1)].all()


def test_a_graph_equals_a_new_search_after_every_change():
    random = np.random.default_rng(0)
    X = random.normal(size=(600, 6)).astype(np.float32)
    graph, ids = NeighbourGraph(), np.sort(random.choice(600, 200, replace=False))
    for _ in range(6):
        before = {item: set(graph.ids[row[row >= 0]]) for item, row in zip(graph.ids, graph.places, strict=True)}
        graph.update(ids, lambda ids: X[ids])
        check_graph(graph, X)
        now = {item: set(graph.ids[row[row >= 0]]) for item, row in zip(graph.ids, graph.places, strict=True)}
        assert set(graph.ids[~graph.changed]) == {item for item in now if now[item] == before.get(item)}
        graph.changed[:] = False
        removed, added = random.choice(ids, 15, replace=False), random.choice(600, 20)
        ids = np.union1d(np.setdiff1d(ids, removed), added)


@pytest.mark.parametrize("n", [0, 1, 2, 5, NEIGHBOURS])
def test_a_graph_of_few_rows_lists_all_others(n):
    X = np.random.default_rng(0).normal(size=(20, 4)).astype(np.float32)
    graph = NeighbourGraph()
    for size in (n, n + 3, n):
        graph.update(np.arange(size), lambda ids: X[ids])
        assert (graph.places >= 0).sum(axis=1).tolist() == [min(NEIGHBOURS, max(0, size - 1))] * size
        assert graph.is_complete
        if size > 1:
            check_graph(graph, X)


def test_equal_rows_are_neighbours_but_never_of_themselves():
    X = np.zeros((30, 4), np.float32)
    graph = NeighbourGraph()
    graph.update(np.arange(30), lambda ids: X[ids])
    assert not (graph.places == np.arange(30)[:, None]).any()
    assert np.all(graph.distances == 0)


@pytest.fixture
def small_cells(monkeypatch):
    """Divide small graphs into cells."""
    monkeypatch.setattr(neighbours, "EXACT_MAX", 100)
    monkeypatch.setattr(neighbours, "CELL_ROWS", 50)
    monkeypatch.setattr(neighbours, "PROBES", 6)


def clusters(n):
    random = np.random.default_rng(0)
    centres = random.normal(size=(40, 8))
    return (centres[random.integers(0, 40, n)] + random.normal(size=(n, 8))).astype(np.float32)


@pytest.mark.usefixtures("small_cells")
def test_a_large_graph_is_approximate_and_measures_its_recall():
    X, graph, steps = clusters(2_500), NeighbourGraph(), []
    graph.update(np.arange(1_000), lambda ids: X[ids], progress=lambda *step: steps.append(step))
    assert not graph.is_exact
    assert steps == sorted(steps)
    assert (steps[0], steps[-1]) == (("dividing rows into cells", 0, 1_000), ("finding neighbours", 1_000, 1_000))
    true, _ = nearest(X[:1_000], NEIGHBOURS)
    found = np.mean([np.isin(mine, own).mean() for mine, own in zip(graph.places, true, strict=True)])
    assert 0.85 < found < 1
    assert abs(graph.recall(lambda ids: X[ids]) - found) < 0.1
    for n in (1_020, 2_500):  # first with the same cells, then with new ones, because the old ones are too large
        graph.update(np.arange(n), lambda ids: X[ids])
        assert graph.is_complete
        assert graph.recall(lambda ids: X[ids]) > 0.75


@pytest.mark.usefixtures("small_cells")
def test_adding_to_a_large_graph_reads_only_the_rows_around_the_new_ones():
    X, graph, read = clusters(2_020), NeighbourGraph(), set()
    graph.update(np.arange(2_000), lambda ids: X[ids])
    graph.changed[:] = False

    def rows(ids):
        read.update(ids.tolist())
        return X[ids]

    graph.update(np.arange(2_001), rows)
    assert NEIGHBOURS < len(read) < 1_000
    lists = (graph.places == 2_000).any(axis=1)
    assert np.flatnonzero(graph.changed).tolist() == [*np.flatnonzero(lists), 2_000]
    graph.update(np.arange(2_020), rows)
    true, _ = nearest(X, NEIGHBOURS)
    rows, columns = np.nonzero(true >= 2_000)  # new rows in lists of old ones, and of new ones
    assert np.mean([np.isin(true[pair], graph.places[pair[0]]) for pair in zip(rows, columns, strict=True)]) > 0.75


def read_ahead(function, values):
    """Like `map`, but first read all values, as a cluster with many workers does."""
    return [function(value) for value in list(values)]


@pytest.mark.parametrize("cells", [False, True])
def test_tasks_that_run_elsewhere_give_the_same_graph(cells, request, monkeypatch):
    if cells:
        request.getfixturevalue("small_cells")
    monkeypatch.setattr(neighbours, "TASK_ROWS", 40)
    X = clusters(1_300)
    keys = np.random.default_rng(0).permutation(1_300)
    here, there = NeighbourGraph(), NeighbourGraph()
    for ids in (np.arange(1_000), np.arange(0, 1_300, 2), np.arange(100, 1_300)):
        here.update(ids, lambda ids: X[ids])
        there.update(ids, lambda found: X[np.argsort(keys)[found]], keys=keys[ids], run=read_ahead)
        assert (here.is_exact, there.is_exact) == (not cells, not cells)
        assert here.places.tolist() == there.places.tolist()
        np.testing.assert_allclose(there.distances, here.distances, rtol=1e-4, atol=1e-5)
        assert there.recall(lambda found: X[np.argsort(keys)[found]], keys=keys[ids], run=read_ahead) == here.recall(
            lambda ids: X[ids]
        )


@pytest.mark.parametrize("known", [0, 120])
def test_an_interrupted_update_continues_from_its_checkpoint(known, tmp_path, monkeypatch):
    monkeypatch.setattr(neighbours, "TASK_ROWS", 16)
    monkeypatch.setattr(neighbours, "CHECKPOINT_S", -1)
    monkeypatch.setattr(neighbours, "CHECKPOINT_SHARE", np.inf)
    X = np.random.default_rng(0).normal(size=(220, 4)).astype(np.float32)
    graph, file, saved = NeighbourGraph(), tmp_path / "graph", []
    graph.update(np.arange(known), lambda ids: X[ids])

    def save():
        graph.save(file)
        if len(saved) == 2:
            raise KeyboardInterrupt
        saved.append(1)

    with pytest.raises(KeyboardInterrupt):
        graph.update(np.arange(200), lambda ids: X[ids], checkpoint=save, run=read_ahead)
    again, steps = NeighbourGraph.load(file), []
    assert not again.is_complete
    again.update(np.arange(220), lambda ids: X[ids], progress=lambda _, done, total: steps.append((done, total)))
    assert steps[0] == (0, 220 - known - 3 * 16)
    check_graph(again, X)


def test_an_update_that_is_interrupted_before_its_first_checkpoint_can_be_repeated(monkeypatch):
    monkeypatch.setattr(neighbours, "TASK_ROWS", 16)
    X = np.random.default_rng(0).normal(size=(200, 4)).astype(np.float32)
    graph, steps = NeighbourGraph(), []
    graph.update(np.arange(120), lambda ids: X[ids])

    def interrupt(stage, done, total):
        steps.append(done)
        if len(steps) == 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        graph.update(np.arange(200), lambda ids: X[ids], progress=interrupt)
    graph.update(np.arange(200), lambda ids: X[ids])
    check_graph(graph, X)
    assert np.isfinite(graph.distances).all()


@pytest.mark.parametrize("damage", ["truncated", "empty", "other"])
def test_a_damaged_graph_is_rejected(tmp_path, damage):
    graph, file = NeighbourGraph(), tmp_path / "graph"
    graph.update(np.arange(30), lambda ids: ids[:, None].astype(np.float32))
    graph.save(file)
    data = file.read_bytes()
    file.write_bytes({"truncated": data[:-100], "empty": b"", "other": b"PK" + data[2:][::-1]}[damage])
    with pytest.raises(DamagedError, match="will be computed again"):
        NeighbourGraph.load(file)


def put(collection, ids):
    """Add items with random colour vectors that depend on their ids, as an add does."""
    X = np.stack([np.random.default_rng(item).random(32, np.float32) for item in ids])
    with collection._store.writer():
        collection._spaces.create([PIPELINE])
        pending = collection._store.vectors.write("color()", np.array(ids), X)
        with collection._store.transaction():
            collection._store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
            collection._store.vectors.commit(pending)


def check_smoothed(collection):
    """Compare the searched rows of a space with a new computation from its own rows."""
    ids, rows = collection.vectors("soft")
    own = collection.space("soft").rows.vectors(ids)
    assert collection.space("soft").has_smoothed_rows
    assert ids.tolist() == collection.space("soft").row_ids().tolist()
    np.testing.assert_allclose(rows, smoothed(own, 3, 2.0), atol=1 / 254)  # rounded once
    assert collection.verify() == []


@pytest.fixture
def soft(collection):
    put(collection, range(60))
    collection.fit("soft")
    return collection


def test_searches_use_smoothed_rows_and_other_methods_the_rows_of_the_space(soft):
    check_smoothed(soft)
    ids, rows = soft.vectors("soft")
    own = soft.space("soft").rows.vectors(ids)
    assert np.abs(rows - own).max() > 0.1
    assert soft.search(7, k=1)[0].score == pytest.approx(0, abs=1e-4)
    assert soft.space("soft").to_rows(soft.space("soft").feature_rows.vectors(ids)) == pytest.approx(own, abs=1 / 254)


def test_smoothed_rows_follow_added_and_removed_pictures(soft):
    put(soft, range(100, 120))
    soft.compact()  # updates all spaces
    check_smoothed(soft)
    soft.remove(*range(0, 60, 5), *range(100, 110))
    check_smoothed(soft)
    soft.fit("soft")
    check_smoothed(soft)
    with Collection(soft.path) as reader:
        check_smoothed(reader)


def test_an_update_rewrites_only_the_rows_that_changed(soft):
    name = soft.space("soft").smoothed_name
    (before,) = soft._store.vectors.blocks(name)
    put(soft, [100])
    with soft._store.writer():
        fitting.update_spaces(soft._spaces, lambda *_: None)
    blocks = soft._store.vectors.blocks(name)
    assert [block.segment for block in blocks[:-1]] == [before.segment]
    assert 1 < blocks[-1].n_live < 40
    check_smoothed(soft)


@pytest.mark.parametrize("damage", ["graph", "no graph", "segment"])
def test_repair_restores_a_damaged_graph_or_smoothed_segment(soft, damage):
    graph = soft.path / "indexes" / soft._store.vectors.structures.get("soft", "neighbours").file
    (segment,) = (file for file in (soft.path / "vectors").glob("soft-smoothed-*.npy") if "ids" not in file.name)
    soft.close()
    if damage == "no graph":
        graph.unlink()
    else:
        file = graph if damage == "graph" else segment
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 255
        file.write_bytes(data)
    with Collection(soft.path) as damaged:
        assert len(damaged.verify()) == 1
    assert Collection.repair(soft.path).left == []
    with Collection(soft.path) as repaired:
        check_smoothed(repaired)


def test_new_pictures_are_found_before_their_rows_are_smoothed(tmp_path, pictures, monkeypatch):
    with Collection(tmp_path / "c", create=True) as collection:
        files = sorted(pictures.rglob("*.jpg"))
        first, second = files[:12], files[12:20]
        collection.add(*first, recipes=[PIPELINE])
        collection.fit("soft")
        monkeypatch.setattr("lookalike.collection.fitting.update_smoothed", lambda *_: None)
        collection.add(*second)  # as if it were killed before the update
        assert len(collection.space("soft").index) == len(collection._store.items)
        assert collection.search(second[0], k=1)[0].path == str(second[0])
        monkeypatch.undo()
        collection.add(*second)
        check_smoothed(collection)


def test_a_picture_that_returns_before_the_graph_is_updated_is_smoothed(tmp_path, pictures, monkeypatch):
    with Collection(tmp_path / "c", create=True) as collection:
        files = sorted(pictures.rglob("*.jpg"))[:20]
        collection.add(*files, recipes=[PIPELINE])
        collection.fit("soft")
        monkeypatch.setattr("lookalike.collection.collection.update_smoothed", lambda *_: None)
        collection.remove(*files[:4])  # as if it were killed before the update
        monkeypatch.undo()
        collection.add(*files[:4])
        check_smoothed(collection)


def test_a_removed_space_leaves_nothing(soft):
    soft.remove_space("soft")
    assert soft._store.vectors.spaces() == {}
    assert list((soft.path / "vectors").glob("*.npy")) == []
    assert list((soft.path / "indexes").iterdir()) == []


def test_smooth_must_be_the_last_step(collection):
    with pytest.raises(InputError, match="smooth must be the last step of a chain"):
        collection.add(Path(), recipes=["x = color() | smooth() | l2()"])
    with pytest.raises(InputError, match="k must be a whole number from 1 to 10"):
        Smooth(k=11).fit(np.eye(3))


def test_a_space_of_an_older_version_is_smoothed_by_its_next_fit(collection, monkeypatch):
    former, current = ["color()", "pca(dim=8)", "l2()"], ["color()", "pca(dim=8)", "l2()", "smooth()"]
    put(collection, range(40))
    with collection._store.writer():
        collection._spaces.create([f"old = {' | '.join(former)}"])
    collection.fit("old")
    monkeypatch.setattr(fitting, "FORMER", {"old": former})
    monkeypatch.setattr(fitting, "RECIPES", {"old": current})
    collection.compact()
    assert not collection.space("old").has_smoothed_rows
    collection.fit("old")
    assert collection.space("old").specs == current
    assert collection.space("old").has_smoothed_rows
    assert collection.verify() == []


def test_the_former_pipelines_are_those_of_version_0_1():
    assert {"deep": RECIPES["deep-plain"]} == FORMER
    assert RECIPES["deep"] == [*FORMER["deep"], "smooth(k=5, alpha=3)"]
