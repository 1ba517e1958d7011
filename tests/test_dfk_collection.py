"""The discriminative Fisher kernel in a collection: on vectors and on local descriptors."""

import json

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection, arrays, cli
from lookalike.collection import Space, chain, evaluation, fitting
from lookalike.collection.specs import parse_recipe
from lookalike.errors import InputError
from lookalike.learn.dfk import Dfk
from lookalike.learn.dfk_pictures import DfkPictures
from lookalike.registry import create

pytestmark = pytest.mark.usefixtures("read_here")

KINDS = ("fish", "house", "stripes")
OWN = "mine = sift() | dfk(k=3, patch_dim=8, max_iterations=10)"


def kinds(results):
    return [result.path.split("/")[-2] for result in results]


def test_on_vectors_new_pictures_use_the_same_chain(filled, pictures):
    assert filled.fit("dfk(k=2, max_iterations=20)", labels=pictures) == {"dfk": 12}
    ids, X = filled.vectors("plain")
    y = [names[0] for names in filled.labels(ids.tolist()).values()]
    expected = Dfk(k=2, max_iterations=20).fit(X.astype(np.float16), y).transform(X.astype(np.float16))
    np.testing.assert_allclose(filled.vectors("dfk")[1], expected, rtol=0.05, atol=0.05)  # stored as scaled bytes
    fish = pictures / "fish" / "fish-000.jpg"
    found = filled.search(fish, space="dfk", k=3)
    assert found[0].path == str(fish)
    filled.add(pictures / "night", workers=1)
    assert filled.vectors("dfk")[1].shape == (16, 2 * 97)
    assert filled.verify() == []


def test_on_local_descriptors_only_one_vector_per_picture_is_stored(filled, pictures):
    assert filled.fit(OWN, labels=pictures, workers=1) == {"mine": 12}
    space = filled.stats()["spaces"][1]
    assert space["chain"] == ["dfk(k=3, patch_dim=8, max_iterations=10, local='sift()')"]
    assert (space["dim"], space["rows"], space["feature_fitted_on"]) == (3 * 17, 12, 12)
    with pytest.raises(InputError, match=r"nothing to fit.*lookalike fit mine --labels"):
        filled.fit("mine")
    house = pictures / "house" / "house-001.jpg"
    assert filled.search(house, space="mine", k=1)[0].path == str(house)
    with Collection(filled.path) as again:  # as in a later process
        assert again.add(pictures / "night", workers=1).notes == []
        assert len(again.vectors("mine")[0]) == 16
        outside = np.asarray(Image.open(house))[:, ::-1]
        assert again.search(outside, space="mine", k=1)[0].path.split("/")[-2] == "house"
        assert again.verify() == []
    part = filled.search(house, space="mine", k=2, where=True)
    assert part[0].box is not None


def test_scores_can_be_compressed_by_later_steps(filled, pictures, capsys):
    assert filled.fit("small = fourier() | dfk(k=2, max_iterations=5) | pca(dim=4)", labels=pictures) == {"small": 12}
    assert filled.vectors("small")[1].shape == (12, 4)
    assert filled.fit("coded = fourier() | dfk(k=2, max_iterations=5) | pq(bits=32)", labels=True) == {"coded": 12}
    fish = pictures / "fish" / "fish-000.jpg"
    assert filled.search(fish, space="coded", k=1)[0].path == str(fish)
    feature, dfk, pca = filled.score_steps("small")
    assert (feature.numbers, dfk.numbers, dfk.recall, pca.bytes) == (48, 2 * 97, 1, 16)
    assert [row.numbers for row in filled.score_steps("coded")] == [48, 2 * 97, 4]
    assert cli.run(["-c", str(filled.path), "stats", "--steps", "small"]) == 0
    head, *rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert head == ["step", "dimensions", "bytes", "mAP", "recall"]
    assert [row[-4] for row in rows] == ["48", "194", "4"]
    assert cli.run(["-c", str(filled.path), "stats", "--steps", "small", "--json"]) == 0
    assert [row["bytes"] for row in json.loads(capsys.readouterr().out)] == [192, 776, 16]


def test_steps_are_compared_on_held_out_labelled_pictures(filled, monkeypatch):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 4)).astype(np.float32)
    X[:, 0] += 5 * (np.arange(200) % 2)
    seen = []
    said = {i: ["even", "odd"][i % 2 :][:1] for i in range(200)}
    for module in (evaluation, fitting):
        monkeypatch.setattr(module, "labels_of", lambda *_, **__: said)
    monkeypatch.setattr(evaluation, "sample_rows", lambda *_: (np.arange(200), X))
    flat = create("index", "flat")
    flat.add(np.arange(200), X)
    monkeypatch.setattr(Space, "feature_rows", flat)
    fit = evaluation.fit
    monkeypatch.setattr(evaluation, "fit", lambda *a: (seen.append(a), fit(*a))[1])
    with filled._store.writer():
        space = filled._spaces.create(["a = color() | fda(dim=1) | pca(dim=1) | pq(bits=8)"])[0]
    rows = filled.score_steps(space.name)
    _, sample, _, taught = seen[-1]
    assert (len(sample), len(taught.ids)) == (140, 140)
    assert [row.step for row in rows] == ["color()", "fda(dim=1)", "pca(dim=1)", "pq(bits=8)"]
    assert [row.bytes for row in rows] == [16, 4, 4, 1]
    assert rows[1].precision > rows[0].precision
    assert rows[1].recall == rows[2].recall == 1  # a rotated line has the same neighbours
    assert 0.2 < rows[3].recall < 1
    monkeypatch.setattr(evaluation, "labels_of", lambda *_, **__: {1: ["odd"], 2: ["even"]})
    with pytest.raises(InputError, match=r"at least 7 labelled pictures\. The collection has 2\."):
        filled.score_steps(space.name)


def test_a_feature_is_refitted_with_labels_on_request(filled, pictures, monkeypatch):
    seen, fit = [], Dfk.fit
    monkeypatch.setattr(Dfk, "fit", lambda self, X, y, **more: (seen.append(y), fit(self, X, y, **more))[1])
    assert filled.fit(f"{OWN} | pca(dim=4)", labels=pictures, workers=1) == {"mine": 12}
    ids, before = filled.vectors("mine")
    assert before.shape == (12, 4)
    assert filled.fit("mine") == {"mine": 12}  # only the PCA
    np.testing.assert_allclose(filled.vectors("mine")[1], before, atol=1e-4)
    odd = [(item, "odd") for item in ids[::2].tolist()]
    filled._store.judgements.add_labels(odd, author="anna", source="hand")
    assert filled.fit("mine", labels=True, workers=1) == {"mine": 12}
    assert [y.shape for y in seen] == [(12,), (12, 4)]  # now with several labels per picture


def test_only_dfk_uses_pictures_with_several_labels(filled, pictures, monkeypatch):
    filled.import_labels(pictures)
    ids = filled.vectors("plain")[0].tolist()
    filled._store.judgements.add_labels([(item, "odd") for item in ids[:5]], author="anna", source="hand")
    seen = []
    fit = Dfk.fit
    monkeypatch.setattr(Dfk, "fit", lambda self, X, y=None, **more: (seen.append(y), fit(self, X, y, **more))[1])
    assert filled.fit("dfk(k=2, max_iterations=5)") == {"dfk": 12}
    assert seen[-1].shape == (12, 4)
    assert seen[-1].sum() == 17
    assert filled.fit("fda(dim=2)") == {"fda": 7}
    assert filled.fit("both = fourier() | fda(dim=2) | dfk(k=2, max_iterations=5)") == {"both": 7}


def test_insufficient_labels_are_reported_and_leave_no_space(filled, pictures, tmp_path):
    with pytest.raises(InputError, match=r"has 0 labelled pictures with 0 labels\. Label pictures first"):
        filled.fit(OWN)
    with pytest.raises(InputError, match=r"has 0 such pictures with 0 labels"):
        filled.fit("dfk(k=2, max_iterations=3)")
    ids = filled.vectors("plain")[0].tolist()
    filled._store.judgements.add_labels([(item, "same") for item in ids], author="anna", source="hand")
    with pytest.raises(InputError, match=r"different labels. The collection has 12 labelled pictures with 1 label"):
        filled.fit(OWN)
    with pytest.raises(InputError, match=r"different labels. The collection has 12 such pictures with 1 label"):
        filled.fit("dfk(k=2, max_iterations=3)")
    assert [space["name"] for space in filled.stats()["spaces"]] == ["plain"]
    filled._store.judgements.add_labels([(ids[0], "once")], author="anna", source="hand")
    assert filled.fit("dfk(k=2, max_iterations=3)") == {"dfk": 12}  # one picture with another label is enough
    with pytest.raises(InputError, match=r"learns from labels\. To fit it, run: lookalike fit mine --labels"):
        Collection(tmp_path / "new", create=True).add(pictures / "fish", recipes=[OWN], workers=1)
    assert "learns from labels. To fit it" in filled.add(pictures / "fish", recipes=[OWN], workers=1).notes[0]
    assert filled.fit("mine", workers=1) == {"mine": 12}


def test_a_chain_can_start_with_a_local():
    assert parse_recipe("a = csift() | fisher(k=2) | l2()")[1] == ["fisher(k=2, local='csift()')", "l2()"]
    for wrong in ("sift()", "sift() | pca(dim=2)", "sift() | color()", "sift() | nothing()"):
        with pytest.raises(InputError, match="dfk, fisher or vlad"):
            parse_recipe(f"a = {wrong}")


def test_memory_for_long_vectors_between_steps_is_limited(monkeypatch):
    X = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    labelled = chain.Labelled(np.arange(40), X, np.arange(40) % 2)
    monkeypatch.setattr(chain, "STEP_BYTES", 4 * 14 * 10)  # ten rows of two Gaussians
    made = chain.fit(["color()", "dfk(k=2, max_iterations=2)", "pca(dim=3)"], X, labelled=labelled)
    assert made.widest(X[:1]) == 14
    dfk = made.steps[0]
    seen = create("transform", "pca(dim=3)").fit(dfk.transform(X[:10]))
    np.testing.assert_allclose(made.transform(X), seen.transform(dfk.transform(X)), atol=1e-4)
    whole = made.transform(X)
    monkeypatch.setattr(chain, "chunks", lambda n, row_bytes: arrays.chunks(n, 1, 7))
    np.testing.assert_allclose(made.transform(X), whole, atol=1e-5)


def labelled(feature, pictures, names):
    for path, said in zip(sorted(pictures.rglob("*.jpg")), names, strict=False):
        yield feature.prepare(np.asarray(Image.open(path))), said


def test_the_patches_that_a_feature_learns_from_fit_its_memory_limit(pictures, monkeypatch):
    held, fit = [], Dfk.fit
    monkeypatch.setattr(Dfk, "fit", lambda self, X, y, **_: held.append(X) or fit(self, X, y))
    for max_bytes in (2**24, 2**16):
        feature = DfkPictures(k=2, patch_dim=4, max_iterations=0)
        feature.fit(labelled(feature, pictures, [["a"], ["b"]] * 4), max_bytes=max_bytes)
        assert held[-1].rows.nbytes <= max_bytes
        assert len(held[-1].starts) == 9
        assert len(np.unique(np.diff(held[-1].starts))) == 1  # all pictures have the same size
    assert held[0].rows.nbytes == 152_768  # all patches
    assert held[1].rows.nbytes > 2**15


@pytest.mark.parametrize(
    ("options", "words"),
    [({"local": 3}, "spec of a local"), ({"max_iterations": -1}, "at least 0. Got -1"), ({"k": 0}, "from 1 to 4096")],
)
def test_wrong_options_are_refused(options, words):
    with pytest.raises(InputError, match=words):
        DfkPictures(**options)


def test_too_few_patches_are_refused():
    feature = DfkPictures(k=60, patch_dim=8)
    tiny = feature.prepare(np.zeros((8, 8, 3), np.uint8))
    with pytest.raises(InputError, match=r"at least 60 patches. Got \d+. Label more pictures"):
        feature.fit([(tiny, ["a"])])
