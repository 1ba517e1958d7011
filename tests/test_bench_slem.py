"""The benchmark of SLEM: negatives, test set, and parameters chosen without the test set."""

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lookalike import cli
from lookalike.encode.kernel_slem import KernelSlem
from lookalike.encode.whiten import L2
from lookalike.errors import SourceError
from lookalike_bench import slem, tables
from lookalike_bench.slem import Base, Outcome
from lookalike_bench.vectors import Rows, describe
from reference.ranking import leave_one_out

pytestmark = pytest.mark.usefixtures("read_here")

OBJECTS, PER_OBJECT = 48, 4


def quiet(*_: object) -> None:
    """Ignore progress."""


def make_base(foreign: int = 0) -> Base:
    """Return four views of each object, with small differences between objects and large ones between views."""
    random = np.random.default_rng(0)
    things = np.repeat(random.normal(size=(OBJECTS, 24)) * ([0.2] * 20 + [0.0] * 4), PER_OBJECT, axis=0)
    views = random.normal(size=(len(things), 24)) * ([0.05] * 20 + [1.0] * 4)
    X = L2().transform(things + views + 1)
    others = L2().transform(random.normal(size=(foreign, 24)) + 1) if foreign else X[:0]
    return Base(X, np.repeat(np.arange(OBJECTS), PER_OBJECT).astype(str), others, 24)


@pytest.fixture(scope="module")
def base() -> Base:
    return make_base()


@pytest.fixture(scope="module")
def outcomes(base: Base) -> dict[str, Outcome]:
    small = [{"gamma": 0.3, "lam": lam} for lam in (1e-4, 1e-2)]
    with pytest.MonkeyPatch.context() as patch:
        for name, row in slem.ROWS.items():
            if row.candidates is slem.KERNEL:
                patch.setitem(slem.ROWS, name, slem._Row(row.make, small))
        patch.setitem(slem.ROWS, "esvm", slem._Row(slem.ROWS["esvm"].make, slem.HINGE[-3:], slow=True))
        return {name: slem.measure(name, base, quiet) for name in slem.ROWS}


def test_rows_and_columns_match_the_papers_table() -> None:
    kernels = [f"{kernel}-{rank}" for kernel in ("gaussian", "poly") for rank in (16, 32, 256, "full")]
    assert list(slem.BENCH.rows) == ["cosine", "pcaw", "lda", "esvm", "linear", *kernels]
    for feature in ("deep", "vlad", "fisher", "classic"):
        assert {f"ukbench2000/{feature}", f"ukbench2000/{feature}-4r4"} <= set(slem.BENCH.columns)
    assert {"ukbench2000/deep-foreign", "corel5k/deep", "corel5k/vlad", "corel1k/deep"} <= set(slem.BENCH.columns)


def test_ukbench_is_split_by_the_number_of_the_object() -> None:
    labels = np.random.default_rng(0).permutation(np.arange(2000) // 4).astype(str)  # in random order
    pool, asked, test = slem.split(labels)
    assert set(labels[pool]) == {str(i) for i in range(125)}
    assert set(labels[asked]) == {str(i) for i in range(125, 250)}
    assert set(labels[test]) == {str(i) for i in range(250, 500)}
    assert_array_equal(np.sort(np.concatenate([pool, asked, test])), np.arange(2000))


@pytest.mark.parametrize("shown", [7, 500], ids=["in chunks", "in one batch"])
def test_ranks_equal_the_reference(base: Base, shown: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slem, "CHUNK_BYTES", 64 * len(base.X) * shown)
    precision, found = slem.rank(L2(), base.X, base.X, base.labels, quiet)
    precisions, firsts = leave_one_out(base.X.astype(np.float64), base.labels.tolist())
    assert_allclose(precision, precisions)
    assert_allclose(found, firsts)


def test_kernel_rows_are_ranked_by_their_own_score(base: Base) -> None:
    encoder = KernelSlem("poly", rank=None, lam=0.01).fit(base.X[:96])
    X, labels = base.X[96:], base.labels[96:]
    rows = encoder.transform(X)
    precision, _ = slem.rank(encoder, X, rows, labels, quiet)
    scores = encoder.query(X).score(rows)
    for query in (0, 17, 95):
        order = [row for row in np.argsort(scores[query], kind="stable") if row != query]
        at = np.flatnonzero(labels[order] == labels[query])
        assert precision[query] == pytest.approx(np.mean(np.arange(1, len(at) + 1) / (at + 1)))


def test_every_row_is_filled_and_slem_beats_cosine_on_objects(outcomes: dict[str, Outcome]) -> None:
    means = {name: outcome.precision.mean() for name, outcome in outcomes.items()}
    q = OBJECTS * PER_OBJECT // 2
    for outcome in outcomes.values():
        assert outcome.precision.shape == outcome.found.shape == (q,)
        assert outcome.scored == q * q
        assert min(outcome.ms) > 0
    assert min(means[name] for name in means if name != "cosine") > means["cosine"] + 0.02
    assert means["linear"] > means["cosine"] + 0.2


@pytest.mark.parametrize("kernel", ["gaussian", "poly"])
def test_a_rank_above_the_number_of_negatives_is_full_rank(outcomes: dict[str, Outcome], kernel: str) -> None:
    some, every = outcomes[f"{kernel}-256"], outcomes[f"{kernel}-full"]
    assert some.params == every.params
    assert some.precision.mean() == pytest.approx(every.precision.mean(), abs=1e-3)
    assert outcomes[f"{kernel}-16"].precision.mean() != pytest.approx(every.precision.mean(), abs=1e-3)


def test_parameters_are_chosen_from_the_candidates(outcomes: dict[str, Outcome]) -> None:
    assert [name for name, outcome in outcomes.items() if not outcome.params] == ["cosine", "pcaw", "lda"]
    assert outcomes["linear"].params in slem.LINEAR
    assert outcomes["esvm"].params in slem.HINGE


def test_parameters_are_chosen_without_the_test_part(base: Base, outcomes: dict[str, Outcome]) -> None:
    test = slem.split(base.labels)[2]
    X, labels = base.X.copy(), base.labels.copy()
    labels[test] = np.random.default_rng(1).permutation(labels[test])
    shuffled = slem.measure("linear", base._replace(labels=labels), quiet)
    assert shuffled.params == outcomes["linear"].params
    assert shuffled.precision.mean() < outcomes["linear"].precision.mean() - 0.2
    X[test] = L2().transform(np.random.default_rng(1).normal(size=X[test].shape))
    assert slem.measure("linear", base._replace(X=X), quiet).params == outcomes["linear"].params


def test_foreign_negatives_replace_those_of_the_dataset(monkeypatch: pytest.MonkeyPatch) -> None:
    base = make_base(foreign=500)
    pools = []

    class Noted(L2):
        def fit(self, X, y=None):  # type: ignore[no-untyped-def]
            pools.append(X)
            return super().fit(X)

    monkeypatch.setitem(slem.ROWS, "linear", slem._Row(lambda d, lam: Noted(), [{"lam": 1.0}]))
    slem.measure("linear", base, quiet)
    own = {row.tobytes() for row in base.X}
    assert [len(pool) for pool in pools] == [OBJECTS, 2 * OBJECTS]  # a quarter and a half of all pictures
    assert not any(row.tobytes() in own for pool in pools for row in pool)
    assert_array_equal(pools[0], pools[1][:OBJECTS])


def test_the_own_pool_is_the_test_part_with_the_same_parameters(
    base: Base, outcomes: dict[str, Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    pools = []
    make = slem.ROWS["linear"].make

    def noted(d, **params):  # type: ignore[no-untyped-def]
        slem_ = make(d, **params)
        fit = slem_.fit
        slem_.fit = lambda X: (pools.append(X), fit(X))[1]
        return slem_

    monkeypatch.setitem(slem.ROWS, "linear", slem._Row(noted, slem.LINEAR))
    own = slem.measure("linear", base._replace(pool="own"), quiet)
    assert own.params == outcomes["linear"].params
    assert_array_equal(pools[-1], base.X[slem.split(base.labels)[2]])


def test_esvm_is_calibrated_and_tested_on_balanced_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    labels = np.repeat(np.arange(125), 4).astype(str)
    few = slem._few(labels)
    assert len(set(few.tolist())) == slem.FEW
    assert np.unique(labels[few], return_counts=True)[1].tolist() == [4] * 25
    three = np.repeat(["a", "b", "c"], 100)
    assert np.unique(three[slem._few(three)], return_counts=True)[1].tolist() == [33] * 3
    rows = np.random.default_rng(0).permutation(300)
    kept = slem._thin(rows, three, 100)
    assert len(kept) == 100
    assert np.ptp(np.unique(three[kept], return_counts=True)[1]) <= 1
    assert_array_equal(np.sort(slem._thin(rows, three, 300)), np.arange(300))


def test_long_rows_are_replaced_by_short_ones_with_the_same_inner_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slem, "_BASES", {})
    X = np.random.default_rng(0).normal(size=(30, 200)).astype(np.float32)
    X[3] = X[4]
    monkeypatch.setattr(slem, "describe", lambda *_: Rows(X, np.array(["a"] * 30), np.array(["a.jpg"] * 30)))
    base = slem.load_base(slem.COLUMNS["ukbench2000/deep"], Path("here"), quiet)
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    assert base.X.shape == (30, 30)
    assert base.d == 200
    assert_allclose(base.X @ base.X.T, unit @ unit.T, atol=1e-5)


@pytest.fixture(scope="module")
def data(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the synthetic pictures as ukbench; each kind is an object."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "ukbench2000").mkdir()
    with tarfile.open(folder / "ukbench2000/ukbench2000_max256.tar", "w") as archive:
        for number, path in enumerate(sorted(pictures.rglob("*.jpg"))):
            archive.add(path, f"ukbench{number:05}.jpg")
    return folder


def test_a_missing_dataset_is_an_error_before_the_first_cell(data: Path) -> None:
    tables.plan(slem.BENCH, data, columns=["ukbench2000/deep"])
    with pytest.raises(SourceError, match="No dataset corel5k in"):
        tables.plan(slem.BENCH, data, columns=["ukbench2000/deep-foreign"])


def test_the_command_computes_vectors_once_and_columns_share_results(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(slem, "base_recipe", lambda _: "base = color()")  # no network needed
    calls = []
    real = slem.measure
    monkeypatch.setattr(slem, "measure", lambda row, *rest: calls.append(row) or real(row, *rest))
    words = ["bench", "run", "slem", "--data", str(data), "--rows", "cosine,linear", "--json", "--columns"]
    names = ["ukbench2000/deep", "ukbench2000/deep-4r4", "ukbench2000/deep-ms"]
    assert cli.run([*words, ",".join(names)]) == 0
    cells = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [cell["measure"] for cell in cells[::2]] == ["mAP", "4·recall@4", "ms"]
    assert calls == ["cosine", "linear"]  # one calibration per row, shared by three columns
    assert all(cell["low"] <= cell["value"] <= cell["high"] for cell in cells)
    assert [(cell["paper"], bool(cell["unlike"])) for cell in cells[1:3]] == [(0.823, True), (None, False)]
    X, labels, _ = describe("ukbench2000", "color", data)
    test = slem.split(labels)[2]
    precisions, firsts = leave_one_out(L2().transform(X[test]).astype(np.float64), labels[test].tolist())
    assert cells[0]["value"] == pytest.approx(np.mean(precisions))
    assert cells[2]["value"] == pytest.approx(np.mean(firsts))
    assert cells[0]["scored"] == len(test) ** 2
