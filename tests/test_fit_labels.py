"""Spaces whose transforms learn from labels."""

import json

import numpy as np
import pytest

from lookalike import cli
from lookalike.collection import fitting
from lookalike.collection.chain import Labelled, fit
from lookalike.errors import InputError
from lookalike.registry import create

pytestmark = pytest.mark.usefixtures("read_here")

KINDS = ("fish", "house", "flower", "night", "stripes")


def test_a_metric_is_fitted_on_the_pictures_with_one_label(filled, pictures):
    assert filled.fit("fda(dim=3)", labels=pictures) == {"fda": 20}
    ids, X = filled.vectors("plain")
    labels = filled.labels(ids.tolist())
    y = [labels[item][0] for item in ids.tolist()]
    expected = create("transform", "fda(dim=3)").fit(X, y).transform(X)
    there, found = filled.vectors("fda")
    assert there.tolist() == ids.tolist()
    atol = np.abs(expected).max() / 254 + 0.1  # rows and features are stored as scaled bytes
    np.testing.assert_allclose(found, expected, rtol=1e-2, atol=atol)
    assert filled.stats()["spaces"][1]["fitted_on"] == 20


def test_a_metric_ignores_pictures_with_several_labels_or_none(filled, pictures):
    filled.import_labels(pictures)
    ids = filled.vectors("plain")[0].tolist()
    filled._store.judgements.add_labels([(ids[0], "odd"), (ids[1], "odd")], author="anna", source="hand")
    filled._store.judgements.remove_labels([(ids[2], filled.labels([ids[2]])[ids[2]][0])])
    filled._store.judgements.add_labels([(7, "gone")], author="anna", source="hand")  # not a picture of the collection
    assert filled.fit("fda(dim=3)") == {"fda": 17}
    assert len(filled.vectors("fda")[0]) == 20


def test_earlier_transforms_are_fitted_on_all_pictures():
    random = np.random.default_rng(0)
    X = random.normal(size=(60, 8)).astype(np.float32)
    labelled = Labelled(np.arange(20), X[:20], np.arange(20) % 2)
    chain = fit(["color()", "pca(dim=4)", "fda(dim=1)"], X, labelled=labelled)
    pca = create("transform", "pca(dim=4)").fit(X)
    fda = create("transform", "fda(dim=1)").fit(pca.transform(X[:20]), labelled.y)
    np.testing.assert_allclose(chain.transform(X), fda.transform(pca.transform(X)), atol=1e-5)


def test_too_few_labels_are_reported_and_leave_no_space(filled):
    with pytest.raises(
        InputError, match=r"has 0 such pictures with 0 labels\. Label pictures first: lookalike label SOURCE"
    ):
        filled.fit("ncmml(dim=4)")
    some = filled.vectors()[0].tolist()[:4]
    filled._store.judgements.add_labels([(item, "one") for item in some], author="anna", source="hand")
    with pytest.raises(InputError, match="has 4 such pictures with 1 label"):
        filled.fit("ncmml(dim=4)")
    assert [space["name"] for space in filled.stats()["spaces"]] == ["plain"]
    assert filled.fit() == {}


def test_an_add_never_fits_supervised_spaces(filled, pictures, monkeypatch):
    filled.import_labels(pictures)
    monkeypatch.setattr(fitting, "FIT_MIN", 5)
    own = ["metric = fourier() | fda(dim=3)", "small = fourier() | pca(dim=3)"]
    filled.add(pictures / "balloons", recipes=own, workers=1)
    states = {space["name"]: space["state"] for space in filled.stats()["spaces"]}
    assert states == {"plain": "ready", "metric": "raw", "small": "fitted"}
    assert filled.fit() == {"metric": 20, "small": 24}
    filled.add(pictures / "sunset", workers=1)  # new pictures use the fitted model
    assert len(filled.vectors("metric")[0]) == 28
    assert filled.verify() == []


def test_labels_for_unsupervised_spaces_are_refused(filled, pictures):
    with pytest.raises(InputError, match=r"'slem' does not learn from labels. Its chain is fourier\(\) \| slem\(\)"):
        filled.fit("slem()", labels=True)
    with pytest.raises(InputError, match=r"nowhere\.csv does not exist"):
        filled.fit("fda(dim=3)", labels=pictures / "nowhere.csv")


def test_lambda_after_a_metric_is_also_calibrated(filled, pictures):
    report = filled.calibrate("both = fourier() | fda(dim=4) | slem()", labels=pictures)
    assert (report.questions, report.fitted_on) == (10, 20)


def test_the_command_line_imports_labels_or_uses_those_of_the_collection(filled, pictures, tmp_path, capsys):
    table = tmp_path / "labels.csv"
    rows = [f"{path},{path.parent.name}" for kind in KINDS for path in sorted((pictures / kind).iterdir())[:3]]
    table.write_text("\n".join(["path,label", *rows, "nowhere.jpg,fish"]))
    where = ["-c", str(filled.path), "fit"]
    assert cli.run([*where, "fda(dim=3)", "--import-labels", str(table)]) == 0
    out, err = capsys.readouterr()
    assert out == "fda: fitted on 15 of 20 pictures (those with one label).\n"
    told = f"Not in the collection: 1 name from {table}.\nTo evaluate: lookalike -c {filled.path} classes evaluate"
    assert err.startswith(told)
    assert cli.run([*where, f"--import-labels={table}", "fda", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"fitted": {"fda": 15}, "notes": {}}
    assert cli.run([*where, "fda", "--labels", str(table)]) == 2  # the syntax of 0.1
    assert f"{table} is a file, not a space." in capsys.readouterr().err
    assert cli.run([*where, "--labels", "fda"]) == 0
    assert cli.run([*where, "fda", "--labels", "--json"]) == 0
    text, data = capsys.readouterr().out.splitlines()
    assert text == "fda: fitted on 15 of 20 pictures (those with one label)."
    assert json.loads(data)["fitted"] == {"fda": 15}
    assert cli.run([*where, "slem()", "--calibrate", "--labels", "--workers", "1"]) == 0
    assert "with 10 labelled pictures" in capsys.readouterr().out
    assert cli.run([*where, "slem", "--labels"]) == 2
    assert "does not learn from labels" in capsys.readouterr().err


def test_json_contains_the_notes_of_the_text_output(filled, pictures, capsys):
    filled.import_labels(pictures)
    where = ["-c", str(filled.path), "fit", "ncmml()", "--labels"]
    assert cli.run(where) == 0
    (note,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("ncmml: ")]
    assert cli.run([*where, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["notes"] == {"ncmml": note.removeprefix("ncmml: ").removesuffix(".")}


@pytest.mark.parametrize("bad", ['"fish-001.jpg,fish\nfish-002.jpg,fish\n', 'fish-001.jpg,"fish\nfish-002.jpg,"fish\n'])
def test_a_stray_quote_is_refused_and_nothing_is_labelled(collection, pictures, tmp_path, bad):
    collection.add(pictures / "fish", recipes=["plain = fourier()"], workers=1)
    file = tmp_path / "labels.csv"
    file.write_text("path,label\n" + bad)
    with pytest.raises(InputError, match="Cannot read labels"):
        collection.import_labels(file)
    assert collection.label_counts() == {}


def test_whitespace_around_a_label_is_removed(collection, pictures, tmp_path):
    collection.add(pictures / "fish", recipes=["plain = fourier()"], workers=1)
    file = tmp_path / "labels.csv"
    first, second = sorted((pictures / "fish").iterdir())[:2]
    file.write_text(f"path,label\n{first}, fish \n{second},fish\n")
    assert collection.import_labels(file).labelled == 2
    assert collection.label_counts() == {"fish": 2}
