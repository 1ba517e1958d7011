"""Kernel SLEM with a shortlist: the same results as a scan, limited to the shortlist."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike import cli
from lookalike.collection import indexes
from lookalike.encode.kernel_slem import KernelSlem
from lookalike.errors import DamagedError, InputError
from lookalike.index import ann, choice
from lookalike.index.ann import Shortlisted
from lookalike.index.flat import Flat
from lookalike.index.queries import PointQuery, WeightedQuery
from lookalike.store.items import Item

N, D = 3_000, 12


def clustered(n, seed=0):
    """Unit vectors around a few centres, like pictures of a few kinds."""
    random = np.random.default_rng(seed)
    X = np.random.default_rng(99).normal(size=(60, D))[random.integers(60, size=n)] + 0.3 * random.normal(size=(n, D))
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Make a few thousand rows count as many."""
    monkeypatch.setattr(ann, "EXACT_ROWS", 10)


@pytest.fixture(scope="module", params=["gaussian", "poly", "linear"])
def slem(request):
    return KernelSlem(request.param, gamma=0.7, lam=0.01, rank=8).fit(clustered(500, seed=1))


@pytest.fixture(scope="module")
def built(slem):
    index = Shortlisted("hnsw")
    index.add(np.arange(N), slem.transform(clustered(N)))
    return index.build(encoder=slem)


@pytest.fixture(scope="module")
def flat(slem):
    index = Flat()
    index.add(np.arange(N), slem.transform(clustered(N)))
    return index


def test_scores_are_exact_and_nearly_all_results_are_found(built, flat, slem):
    query = slem.query(clustered(20, seed=2))
    found, true = built.search(query, 10), flat.search(query, 10)
    assert found.scored < 0.5 * true.scored
    shares = [len(set(a) & set(b)) / 10 for a, b in zip(found.ids.tolist(), true.ids.tolist(), strict=True)]
    assert np.mean(shares) > 0.95
    rows = flat.vectors(np.arange(N))
    expected = np.take_along_axis(query.score(rows), found.ids, axis=1)
    np.testing.assert_allclose(found.scores, expected, atol=1e-5)
    assert (np.diff(found.scores, axis=1) >= 0).all()


def test_exact_effort_is_exact_and_more_effort_scores_more_rows(built, flat, slem):
    query = slem.query(clustered(20, seed=3))
    assert built.search(query, 10, effort="exact").ids.tolist() == flat.search(query, 10).ids.tolist()
    scored = [built.search(query, 10, effort=effort).scored for effort in (1, 4, 20, 60)]
    assert scored == sorted(scored)
    assert scored[0] < scored[-1]
    fast, balanced = (built.search(query, 10, effort=effort) for effort in ("fast", None))
    assert fast.scored < balanced.scored == scored[2]
    assert built.recall(slem, 60) >= built.recall(slem, 0.1) - 0.02


def test_recall_is_the_share_of_the_nearest_others(built, flat, slem, monkeypatch):
    monkeypatch.setattr(choice, "PLUS", 0)
    ids = built.ids[:: N // choice.RECALL_QUERIES][: choice.RECALL_QUERIES]
    query = slem.compare(flat.vectors(ids))
    true, found = flat.search(query, 11).ids, built.search(query, 11, effort=1).ids
    shares = []
    for row, item in enumerate(ids):
        others = [other for other in true[row] if other != item]
        shares.append(np.mean([other in found[row] for other in others]))
    assert built.recall(slem, 1) == pytest.approx(np.mean(shares))
    assert np.mean(shares) < 1  # otherwise, the test would be trivial


def test_several_examples_are_answered_by_the_scan(built, flat, slem):
    query = WeightedQuery(slem.query(clustered(3, seed=10)), [0.5, 0.5, -0.4])
    assert built.search(query, 10).ids.tolist() == flat.search(query, 10).ids.tolist()


@settings(max_examples=4)
@given(st.integers(0, 2**32 - 1))
def test_added_and_removed_rows_take_effect_immediately(seed):
    random = np.random.default_rng(seed)
    slem = KernelSlem("gaussian", gamma=0.5, lam=0.01, rank=6).fit(clustered(300, seed=1))
    X = clustered(1_300, seed=seed % 1000)
    rows = slem.transform(X)
    index, twin = Shortlisted("hnsw"), Flat()
    for part in (slice(0, 1_200), slice(1_200, 1_300)):
        for one in (index, twin):
            one.add(np.arange(1_300)[part], rows[part])
        if part.start == 0:
            index.build(encoder=slem)
    gone = random.choice(1_300, 200, replace=False)
    assert index.remove(gone) == twin.remove(gone) == 200
    among = np.sort(random.choice(1_300, 700, replace=False))
    query = slem.compare(rows[random.integers(1_300, size=3)])
    found = index.search(query, 5, among=among, exclude=gone[:50], effort=100)
    true = twin.search(query, 5, among=among, exclude=gone[:50])
    assert found.ids.tolist() == true.ids.tolist()
    np.testing.assert_allclose(found.scores, true.scores, atol=1e-5)


@pytest.mark.parametrize("kind", ["hnsw", "ivfpq"])
def test_a_saved_index_needs_no_encoder(tmp_path, kind):
    slem, flat = KernelSlem(gamma=0.7, lam=0.01, rank=8).fit(clustered(500, seed=1)), Flat()
    flat.add(np.arange(1_100), slem.transform(clustered(1_100)))
    made = Shortlisted(kind).build(flat, encoder=slem)
    made.save(tmp_path / "index")
    again = Shortlisted.load(tmp_path / "index", flat)
    query = slem.query(clustered(5, seed=4))
    assert again.search(query, 7).ids.tolist() == made.search(query, 7).ids.tolist()
    other = Flat()
    other.add(np.arange(2), np.eye(2, D, dtype=np.float32))
    with pytest.raises(DamagedError, match="dimensions"):
        Shortlisted.load(tmp_path / "index", other)


def test_other_queries_and_unbuilt_indexes_are_answered_by_the_scan(built, flat, slem):
    point = PointQuery(flat.vectors(np.array([5])))
    assert built.search(point, 3).ids.tolist() == flat.search(point, 3).ids.tolist()
    empty = Shortlisted()
    assert empty.build(encoder=slem).recall(slem) == 1.0
    with pytest.raises(InputError, match="nothing to save"):
        Shortlisted().build(flat).save("nowhere")


def test_a_large_kernel_space_of_a_collection_gets_a_shortlist(collection, monkeypatch, capsys):
    monkeypatch.setattr(indexes, "choose", lambda n: "hnsw" if n > 1_000 else "flat")
    put(collection, np.arange(1_500))
    collection.fit("kernelslem(gamma=0.5, rank=8)")
    (row,) = [row for row in collection.stats()["spaces"] if row["name"] == "kernelslem"]
    assert row["index"] == "hnsw"
    index = collection.space("kernelslem").index
    assert isinstance(index, Shortlisted)
    slem = collection.space("kernelslem").chain.transforms[-1]
    assert row["index_recall"] == pytest.approx(index.recall(slem))
    assert cli.run(["-c", str(collection.path), "stats"]) == 0
    assert f"hnsw index with recall {row['index_recall']:.3f}" in capsys.readouterr().out
    found = collection.search(7, space="kernelslem", k=10)
    assert found[0].id == 7
    exact = collection.search(7, space="kernelslem", k=10, effort="exact")
    assert len({one.id for one in found} & {one.id for one in exact}) >= 9
    assert collection.search([7, 8], without=9, space="kernelslem", k=3)
    assert collection.verify() == []
    before = collection._store.vectors.structures.get("kernelslem", "points").file
    put(collection, np.arange(2_000, 2_300))
    collection.compact()
    assert collection._store.vectors.structures.get("kernelslem", "points").file != before
    assert collection.search(2_100, space="kernelslem", k=1)[0].id == 2_100
    collection.fit("kernelslem")
    assert collection.space("kernelslem").index.stale == 0


def put(collection, ids):
    """Store items with clustered unit vectors, as an add does."""
    store = collection._store
    with store.writer():
        collection._spaces.create(["color"])
        pending = store.vectors.write("color()", ids, clustered(len(ids), seed=int(ids[0])))
        with store.transaction():
            store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
            store.vectors.commit(pending)
