"""Calibration of λ and γ in a collection."""

import shutil

import numpy as np
import pytest

from lookalike import Collection, cli
from lookalike.collection import calibration
from lookalike.collection.calibration import VARIANTS, variants
from lookalike.encode.calibration import calibrate, calibrate_labels
from lookalike.encode.slem import Slem
from lookalike.encode.whiten import PCA
from lookalike.errors import InputError
from lookalike.images.decoding import read
from lookalike.kernels import typical_gamma
from lookalike.registry import create, parse

pytestmark = pytest.mark.usefixtures("read_here")

KINDS = ("fish", "house", "flower", "night", "stripes")
FEATURE = create("feature", "fourier()")


def altered(collection, ids):
    """Return the vectors of the variants of pictures, (m, VARIANTS, d), computed one by one."""
    items = collection.get(ids)
    return np.stack([FEATURE.extract(variants(read(items[item].paths[0]).pixels)) for item in ids])


def test_parameters_are_chosen_by_altered_pictures_against_the_whole_collection(filled):
    ids, X = filled.vectors("plain")
    report = filled.calibrate("slem()", workers=1)
    lams = [trial.params for trial in report.trials]
    expected = calibrate(Slem, lams, X, X[:5], altered(filled, ids[:5].tolist()))
    assert report.params == expected.params
    assert (report.space, report.questions, report.pool, report.fitted_on) == ("slem", 5, 20, 20)
    for mine, other in zip(report.trials, expected.trials, strict=True):
        assert mine.params == other.params
        assert mine.precision == pytest.approx(other.precision, abs=1e-3)
    assert report.chain == ["fourier()", f"slem(lam={report.params['lam']!r})"]
    assert filled.stats()["spaces"][1]["chain"] == report.chain
    expected = Slem(**report.params).fit(X).transform(X)
    np.testing.assert_allclose(filled.vectors("slem")[1], expected, atol=1 / 254)  # unit rows as scaled bytes


def test_calibration_is_reproducible_under_every_name_of_the_space(filled):
    first = filled.calibrate("slem()", workers=1)
    assert filled.calibrate("slem", workers=1) == first
    assert filled.calibrate("slem(lam=7.0)") == first
    with pytest.raises(InputError, match="exists with another chain"):
        filled.calibrate("slem = fourier() | pca(dim=3) | slem()", workers=1)


def test_a_kernel_gets_both_parameters_and_keeps_the_others(filled):
    report = filled.calibrate("kernelslem(rank=8)", workers=1)
    assert len(report.trials) == 7
    assert set(report.params) == {"lam", "gamma"}  # γ from the typical distance in the pool
    X = filled.vectors("plain")[1]
    assert report.params["gamma"] == float(f"{typical_gamma('gaussian', X):.3g}")
    assert create("transform", report.chain[-1]).rank == 8
    assert filled.search(next(filled.items()).id, space="kernelslem", k=1)[0].score < 1e-3


def test_earlier_transforms_are_fitted_as_in_the_final_space(filled):
    ids, X = filled.vectors("plain")
    report = filled.calibrate("own = fourier() | pca(dim=4) | slem()", workers=1)
    pca = PCA(dim=4).fit(X)
    variants_ = altered(filled, ids[:5].tolist())
    lams = [trial.params for trial in report.trials]
    rows = pca.transform(variants_.reshape(5 * VARIANTS, -1)).reshape(5, VARIANTS, 4)
    expected = calibrate(Slem, lams, pca.transform(X), pca.transform(X[:5]), rows)
    assert report.params == expected.params
    assert [trial.precision for trial in report.trials] == pytest.approx(
        [trial.precision for trial in expected.trials], abs=1e-3
    )


def test_a_pool_from_another_collection_excludes_the_queries(filled, pictures, tmp_path):
    with Collection(tmp_path / "other", create=True) as other:
        other.add(pictures / "night", pictures / "stripes", pictures / "fish", recipes=["plain = fourier()"], workers=1)
        theirs = other.vectors("plain")[0]
    report = filled.calibrate("slem()", negatives=tmp_path / "other")
    asked = filled.vectors("plain")[0][:5]
    assert np.isin(asked, theirs).any()
    assert report.pool == 12 - np.isin(asked, theirs).sum()


def test_labels_are_used_on_request(filled, pictures):
    with pytest.raises(InputError, match="exactly one label"):
        filled.calibrate("slem()", labels=True)
    filled.import_labels(pictures)
    report = filled.calibrate("slem()", labels=True)
    ids, X = filled.vectors("plain")
    y = [labels[0] for labels in filled.labels(ids[:10].tolist()).values()]
    expected = calibrate_labels(Slem, [trial.params for trial in report.trials], X[:10], y, X)
    assert report.params == expected.params
    assert (report.questions, report.pool) == (10, 20)


def test_candidates_scale_with_the_length_of_vectors():
    rows = np.random.default_rng(0).normal(size=(50, 4)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    one = calibration._candidates(["lam"], parse("slem()"), rows, labels=False)
    assert [candidate["lam"] for candidate in one] == list(calibration.GRID["lam"])
    long = calibration._candidates(["lam"], parse("slem()"), 10 * rows, labels=False)
    assert [candidate["lam"] for candidate in long] == [100, 10, 1, 0.1, 0.01, 1e-3, 1e-4]
    both = calibration._candidates(["lam", "gamma"], parse("kernelslem()"), 10 * rows, labels=True)
    assert {candidate["lam"] for candidate in both} == set(calibration.GRID["lam"])
    assert sorted({candidate["gamma"] for candidate in both}) == [0.001, 0.003, 0.01, 0.03]


def test_transforms_without_lam_are_refused(filled):
    with pytest.raises(InputError, match="must have the option lam"):
        filled.calibrate("plain")
    with pytest.raises(InputError, match="must have the option lam"):
        filled.calibrate("flat = fourier() | pca(dim=4)")


def test_too_few_pictures_are_refused_and_missing_files_are_replaced(tmp_path, pictures):
    shutil.copytree(pictures / "fish", tmp_path / "fish")
    with Collection(tmp_path / "few", create=True) as few:
        few.add(tmp_path / "fish", recipes=["plain = fourier()"], workers=1)
        with pytest.raises(InputError, match="at least 8 pictures"):
            few.calibrate("slem()", workers=1)
        assert [row["name"] for row in few.stats()["spaces"]] == ["plain"]  # the space was not created
        few.add(pictures / "night", recipes=["plain = fourier()"], workers=1)
        shutil.rmtree(tmp_path / "fish")
        report = few.calibrate("slem()", workers=1)  # other pictures replace the missing ones
        assert (report.questions, report.pool, report.space) == (2, 8, "slem")


def test_variants_differ_from_the_original_and_are_reproducible():
    for shape in [(1, 1, 3), (64, 48, 3), (10, 300, 3)]:
        image = np.random.default_rng(0).integers(0, 256, shape, np.uint8)
        made = variants(image)
        assert len(made) == VARIANTS
        for one, again in zip(made, variants(image), strict=True):
            assert one.dtype == np.uint8
            assert one.ndim == 3
            assert one.size
            assert one.tobytes() == again.tobytes()
            assert shape == (1, 1, 3) or one.shape != shape or not np.array_equal(one, image)


def test_the_command_line_marks_the_choice(filled, capsys):
    where = str(filled.path)
    assert cli.run(["-c", where, "fit", "slem()", "--calibrate", "--workers", "1"]) == 0
    head, *rows, chosen, fitted = capsys.readouterr().out.splitlines()
    assert head.split()[:2] == ["lam", "precision"]
    assert len(rows) == len(calibration.GRID["lam"])
    (star,) = [row for row in rows if row.startswith("*")]
    lam = filled.stats()["spaces"][1]["chain"][-1]
    assert float(star.split()[1]) == create("transform", lam).lam
    assert lam in chosen
    assert fitted == "slem: fitted on 20 pictures."
    assert cli.run(["-c", where, "fit", "slem", "--calibrate", "--json", "--workers", "1"]) == 0
    assert '"trials": [{"params": {"lam": ' in capsys.readouterr().out
    for words in (["slem", "--labels"], ["--calibrate"], ["slem", "plain", "--calibrate"]):
        assert cli.run(["-c", where, "fit", *words]) == 2
        assert "--calibrate" in capsys.readouterr().err
