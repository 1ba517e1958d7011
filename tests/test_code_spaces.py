"""Spaces of codes in a collection."""

import re

import numpy as np
import pytest

from lookalike import Collection, cli
from lookalike.codes.bits import hamming
from lookalike.collection import fitting, indexes
from lookalike.collection.specs import parse_recipe
from lookalike.errors import DamagedError, InputError
from lookalike.index import choice
from lookalike.index.coded import Coded
from lookalike.registry import create
from lookalike.store.items import Item

KINDS = 4


def rows_of(ids):
    """Return unit vectors in KINDS clusters; the id determines the cluster."""
    random = np.random.default_rng(5)
    middles = random.normal(size=(KINDS, 24))
    X = middles[ids % KINDS] + 0.5 * np.array([np.random.default_rng(i).normal(size=24) for i in ids.tolist()])
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)


def put(collection, ids):
    """Add items with vectors, as `add` would."""
    ids = np.asarray(ids)
    store = collection._store
    with store.writer():
        collection._spaces.create(["color"])
        pending = store.vectors.write("color()", ids, rows_of(ids))
        with store.transaction():
            store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
            store.vectors.commit(pending)
        fitting.update_spaces(collection._spaces, lambda *_: None)


def label(collection, ids):
    pairs = [(int(item), f"kind {item % KINDS}") for item in ids]
    collection._store.judgements.add_labels(pairs, author="anna", source="hand")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A collection of four hundred items; `filled` is a copy."""
    path = tmp_path_factory.mktemp("made") / "collection"
    with Collection(path, create=True) as collection:
        put(collection, np.arange(400))
    return path


def row(collection, name):
    return next(space for space in collection.stats()["spaces"] if space["name"] == name)


def test_a_space_of_codes_is_searched_by_codes_and_re_ranked_by_vectors(filled, monkeypatch):
    assert filled.fit("itq(bits=32)") == {"itq": 400}
    ids, codes = filled.vectors("itq")
    X = filled.vectors("color")[1]
    coder = create("coder", "itq(bits=32)").fit(X)
    np.testing.assert_array_equal(codes, coder.encode(X))
    assert isinstance(filled.space("itq").index, Coded)
    monkeypatch.setattr(choice, "PLUS", 20)
    found = [result.id for result in filled.search(7, space="itq", k=5, effort="fast")]
    away = np.square(X - X[7]).sum(axis=1)
    near = np.lexsort((ids, hamming(codes[7:8], codes)[0]))[:40]
    assert found == ids[near[np.lexsort((ids[near], away[near]))][:5]].tolist()
    exact = filled.search(7, space="itq", k=5, effort="exact")
    assert [result.id for result in exact] == np.argsort(away, kind="stable")[:5].tolist()
    assert exact[0].score == 0


def test_stats_show_bytes_and_recall(filled, monkeypatch, capsys):
    monkeypatch.setattr(choice, "PLUS", 0)
    monkeypatch.setattr(choice, "TIMES", {"fast": 1, "balanced": 1})
    filled.fit("itq(bits=16)", "wide = color() | itq(bits=128)")
    narrow, wide = row(filled, "itq"), row(filled, "wide")
    assert (narrow["bits"], narrow["bytes_per_picture"], narrow["index"]) == (16, 2, "hamming")
    assert (wide["bits"], wide["bytes_per_picture"]) == (128, 16)
    assert 0 < narrow["index_recall"] < wide["index_recall"] <= 1
    assert (row(filled, "color")["bits"], row(filled, "color")["index_recall"]) == (None, None)
    assert row(filled, "color")["bytes_per_picture"] == 96
    assert cli.run(["-c", str(filled.path), "stats"]) == 0
    out = capsys.readouterr().out
    assert f"space itq: 400 × 16 bits, fitted on 400, hamming index with recall {narrow['index_recall']:.3f}, " in out
    assert ", 2 bytes per picture; color() | itq(bits=16)" in out


def test_recall_is_measured_once_and_again_after_large_changes(filled, monkeypatch):
    measured = []
    monkeypatch.setattr(indexes, "measure_recall", lambda *_: measured.append(1) or len(measured) / 10)
    filled.fit("itq(bits=16)")
    with Collection(filled.path) as again:
        assert [row(again, "itq")["index_recall"] for _ in range(2)] == [0.1, 0.1]
    put(filled, np.arange(400, 420))
    assert row(filled, "itq")["index_recall"] == 0.1
    put(filled, np.arange(420, 450))
    assert row(filled, "itq")["index_recall"] == 0.2
    filled.fit("itq")
    assert row(filled, "itq")["index_recall"] == 0.3
    assert len(measured) == 3


def test_a_collection_without_stored_recall_measures_it_at_the_next_add(filled):
    filled.fit("itq(bits=16)")
    store = filled._store
    with store.writer(), store.transaction() as db:
        db.execute("DELETE FROM recalls")
    assert row(filled, "itq")["index_recall"] is None
    put(filled, np.arange(400, 401))
    assert 0 < row(filled, "itq")["index_recall"] <= 1


def test_results_are_ranked_by_the_transformed_vectors(filled):
    filled.fit("small = color() | pca(dim=6) | l2() | itq(bits=16)")
    X = filled.vectors("color")[1]
    pca = create("transform", "pca(dim=6)").fit(X)
    rows = create("transform", "l2()").fit(pca.transform(X)).transform(pca.transform(X))
    away = np.square(rows - rows[3]).sum(axis=1)
    exact = filled.search(3, space="small", k=4, effort="exact")
    assert [result.id for result in exact] == np.argsort(away, kind="stable")[:4].tolist()
    np.testing.assert_allclose([result.score for result in exact], np.sort(away)[:4], atol=1e-5)
    assert filled.search(rows[3], space="small", k=1)[0].id == 3  # a transformed vector as the query
    assert filled.search([3, 7], without=4, space="small", k=3)


def test_codes_can_be_computed_from_distances_to_class_hyperplanes(filled):
    label(filled, range(80))
    assert filled.fit("few = color() | tsvmplanes(dim=8) | itq(bits=16)") == {"few": 80}
    ids, codes = filled.vectors("few")
    differ = hamming(codes[80:90], codes[:80])  # unlabelled against labelled pictures
    kinds = ids[:80][differ.argmin(axis=1)] % KINDS
    assert (kinds == ids[80:90] % KINDS).mean() > 0.8
    assert filled.search(7, space="few", k=1)[0].id == 7


def test_codes_follow_added_and_removed_items(filled):
    filled.fit("itq(bits=32)")
    put(filled, np.arange(400, 420))
    assert row(filled, "itq")["rows"] == 420
    assert filled.search(410, space="itq", k=1)[0].id == 410
    filled.remove(410, 3)
    assert row(filled, "itq")["rows"] == 418
    assert not {410, 3} & {result.id for result in filled.search(411, space="itq", k=30)}
    before = filled.search(411, space="itq", k=9)
    filled.compact()
    assert filled.search(411, space="itq", k=9) == before
    assert filled.verify() == []
    with Collection(filled.path) as again:
        assert again.search(411, space="itq", k=9) == before
    assert filled.fit("itq") == {"itq": 418}
    assert filled.verify() == []
    filled.remove_space("itq")
    assert [space["name"] for space in filled.stats()["spaces"]] == ["color"]


def test_codes_and_vectors_are_read_consistently(filled, monkeypatch):
    """Another process removes a picture after the codes were read and before the vectors are."""
    filled.fit("itq(bits=32)")
    vectors, waiting = filled._store.vectors, [3]
    blocks = vectors.blocks

    def meanwhile(space):
        found = blocks(space)
        if space == "itq" and waiting:
            with Collection(filled.path) as other:
                other.remove(waiting.pop())
        return found

    monkeypatch.setattr(vectors, "blocks", meanwhile)
    monkeypatch.setattr(choice, "PLUS", 200)  # its own kind and others
    filled._spaces.indexes._points.clear()
    found = [result.id for result in filled.search(7, space="itq", k=100, effort=1)]
    assert not waiting
    assert sum(item % KINDS == 3 for item in found) > 80
    assert 3 not in found


def test_codes_are_computed_when_pictures_are_added(collection, pictures):
    recipes = ["plain = fourier()", "short = fourier() | itq(bits=16)"]
    collection.add(pictures / "fish", pictures / "house", recipes=recipes, workers=1)
    assert row(collection, "short")["state"] == "raw"
    collection.fit("short")
    collection.add(pictures / "night", workers=1)
    codes = collection.vectors("short")[1]
    assert codes.shape == (12, 2)
    anew = Collection(collection.path)
    assert anew.search(pictures / "night" / "night-000.jpg", space="short", k=1)[0].score == 0
    results = anew.search(pictures / "sunset" / "sunset-000.jpg", space="short", k=3, where=True)
    assert all(result.box is not None for result in results)
    assert collection.verify() == []


def test_codes_are_exported(filled, tmp_path):
    filled.fit("itq(bits=16)")
    assert filled.export(tmp_path / "codes.npz", format="npz", space="itq") == 400
    with np.load(tmp_path / "codes.npz") as arrays:
        np.testing.assert_array_equal(arrays["vectors"], filled.vectors("itq")[1])


def test_coders_learn_from_labelled_and_unlabelled_pictures(filled):
    label(filled, range(60))
    filled._store.judgements.add_labels([(60, "odd"), (60, "even")], author="anna", source="hand")
    assert filled.fit("tsvm(bits=16)", labels=True) == {"tsvm": 60}
    ids, codes = filled.vectors("tsvm")
    X = filled.vectors("color")[1]
    y = [f"kind {i % KINDS}" if i < 60 else "" for i in range(400)]
    keep = np.arange(400) != 60  # items with two labels are ignored
    expected = create("coder", "tsvm(bits=16)").fit(X[keep], np.array(y)[keep])
    np.testing.assert_array_equal(codes, expected.encode(X))
    away = hamming(codes, codes)
    same = ids[:, None] % KINDS == ids % KINDS
    assert away[same].mean() < 0.3 * away[~same].mean()
    filled.fit("sdh(bits=8, anchors=20)")
    assert row(filled, "sdh")["fitted_on"] == 60


def test_the_collection_chooses_a_coder(filled, tmp_path):
    filled.fit("codes(bits=16)")
    assert row(filled, "codes")["chain"] == ["color()", "pq(bits=16)"]
    filled.remove_space("codes")
    label(filled, range(2 * fitting.LABEL_MIN * KINDS))
    fitted = filled.fit("codes(bits=8)")
    note = re.fullmatch(r"chose (\w+) \(mAP on held-out labels: (.+)\)", fitted.notes["codes"])
    names, values = zip(*(part.split() for part in note[2].split(", ")), strict=True)
    assert set(names) == {"pq", "itq", "tsvm", "sdh"}
    assert list(values) == sorted(values, reverse=True)
    assert row(filled, "codes")["chain"] == ["color()", f"{names[0]}(bits=8)"] == ["color()", f"{note[1]}(bits=8)"]
    assert filled.fit("codes")["codes"] in (80, 400)


def test_options_and_labels_restrict_the_coders_that_are_compared(filled):
    label(filled, range(2 * fitting.LABEL_MIN * KINDS))
    assert filled.fit("codes(bits=8, anchors=20)", labels=True).notes["codes"].startswith("chose sdh (")
    filled.remove_space("codes")
    assert " pq " not in filled.fit("codes(bits=8)", labels=True).notes["codes"]
    filled.remove_space("codes")
    with pytest.raises(
        InputError, match="None of the coders that 'codes' chooses from has all of the options anchors, iterations, C"
    ):
        filled.fit("codes(anchors=20, iterations=3, C=1)")


def test_explicit_labels_are_used_even_if_few(filled):
    label(filled, range(8))
    filled.fit("codes(bits=8)", labels=True)
    assert row(filled, "codes")["chain"] == ["color()", "tsvm(bits=8)"]


def test_feedback_and_classes_use_the_vectors(filled):
    filled.fit("itq(bits=16)")
    assert filled.space("itq").rows is filled.space("itq").feature_rows
    assert len(filled.session(7, without=8, space="itq").best(5)) == 5
    filled.classes.use(space="itq")
    filled.classes.add("zero", [0, 4, 8])
    filled.classes.add("one", [1, 5, 9])
    assert [prediction.nearest for prediction in filled.classes.classify([12, 13])] == ["zero", "one"]


def test_a_damaged_model_is_reported_and_a_fit_repairs_it(filled):
    filled.fit("itq(bits=16)")
    model = filled.path / "models" / filled.space("itq").stored.model
    model.write_bytes(model.read_bytes()[:-9])
    with Collection(filled.path) as again:
        assert any("Run: lookalike repair" in fault for fault in again.verify())
        with pytest.raises(DamagedError, match="Run: lookalike repair"):
            again.search(7, space="itq")
        again.fit("itq")
        assert again.verify() == []


@pytest.mark.parametrize(
    ("recipe", "message"),
    [
        (
            "x = color() | itq(bits=16) | l2()",
            r"A coder must be the last step of a chain.*Got l2\(\) after itq\(bits=16\)",
        ),
        ("x = color() | kernelslem() | itq(bits=16)", "has its own metric, which codes do not preserve"),
        ("x = color() | nothing()", "nothing"),
        ("x = itq()", "feature"),
    ],
)
def test_invalid_chains_are_refused(recipe, message):
    with pytest.raises(InputError, match=message):
        parse_recipe(recipe)


def test_invalid_bits_and_labels_are_refused_and_leave_no_space(filled):
    with pytest.raises(InputError, match="a multiple of 8, and at least 8"):
        filled.fit("itq(bits=12)")
    with pytest.raises(InputError, match="learns from pictures that have exactly one label"):
        filled.fit("tsvm(bits=8)")
    with pytest.raises(InputError, match="does not learn from labels"):
        filled.fit("itq(bits=8)", labels=True)
    with pytest.raises(InputError, match="cannot be calibrated"):
        filled.calibrate("itq(bits=8)")
    with pytest.raises(InputError, match="does not use negatives"):
        filled.fit("itq(bits=8)", negatives=filled.path)
    assert [space["name"] for space in filled.stats()["spaces"]] == ["color"]


def test_labels_of_one_class_are_too_few_for_supervised_codes(filled, capsys):
    label(filled, range(0, 80, KINDS))
    for spec in ("tsvm(bits=64)", "codes(bits=64)"):
        assert cli.run(["-c", str(filled.path), "fit", spec, "--labels"]) == 2
        said = capsys.readouterr().err
        assert "at least 2 labels. The collection has 20 such pictures with 1 label. Label pictures first:" in said
    assert [space["name"] for space in filled.stats()["spaces"]] == ["color"]  # no space was created


def test_the_command_line_fits_codes(filled, capsys):
    assert cli.run(["-c", str(filled.path), "fit", "codes(bits=64)"]) == 0
    assert capsys.readouterr().out == "codes: fitted on 400 pictures with pq(bits=64).\n"
    assert cli.run(["-c", str(filled.path), "search", f"{7:016x}", "--space", "codes", "-k", "3", "--json"]) == 0


def test_a_search_by_codes_opens_its_index_once_and_once_more_for_its_example(filled, monkeypatch):
    filled.fit("itq(bits=32)")
    filled.search(7, space="itq")
    opened = []
    searched = indexes.Indexes.searched
    monkeypatch.setattr(indexes.Indexes, "searched", lambda self, name: opened.append(name) or searched(self, name))
    filled.search(8, space="itq")
    assert opened == ["itq", "itq"]
