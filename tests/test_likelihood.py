"""The likelihood of results: calibration on labels, marks and distances, cut-offs, and how they are shown."""

import json

import numpy as np
import pytest

from lookalike import Collection, Filter, cli
from lookalike.cli import search as cli_search
from lookalike.collection import Cutoff
from lookalike.errors import InputError
from lookalike.features.kinds import encode_kinds
from lookalike.show import HALF_LINE
from lookalike.store.items import Item
from lookalike.text import human_probability
from serving import copy_shelf, running

KINDS, DIM = 8, 16
TIGER, BUS = 292, 779


def scatter(n, spread, seed):
    """Rows (n, DIM) around the centres of overlapping kinds; the kind of row i is i % KINDS."""
    centres = np.random.default_rng(1).normal(size=(KINDS, DIM))
    kinds = np.arange(n) % KINDS
    return (centres[kinds] + spread * np.random.default_rng(seed).normal(size=(n, DIM))).astype(np.float32), kinds


def make(path, X, paths=None, P=None):
    """Create a collection with these vectors and probabilities of kinds; the ids start at 0."""
    collection = Collection(path, create=True)
    store, ids = collection._store, np.arange(len(X))
    with store.writer():
        collection._spaces.create(["deep-plain"])
        pending = [store.vectors.write("efficientnet()", ids, X)]
        if P is not None:
            pending.append(store.vectors.write(collection._spaces.kinds.name, ids, encode_kinds(P)))
        with store.transaction():
            store.items.add_source("/photos")
            store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
            store.items.link([(f"/photos/{i % 2}/{i}.jpg", 1, 1, int(i)) for i in ids])
            for one in pending:
                store.vectors.commit(one)
    return collection


def label(collection, kinds, ids):
    rows = [(int(i), f"kind {kinds[i]}") for i in ids]
    collection._store.judgements.add_labels(rows, author="anna", source="hand")


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Eight hundred pictures of eight overlapping kinds; the first half has labels. Read-only."""
    X, kinds = scatter(800, 0.9, seed=2)
    with make(tmp_path_factory.mktemp("made") / "c", X) as collection:
        label(collection, kinds, range(400))
        yield collection, kinds


@pytest.fixture
def small(tmp_path):
    """Sixty-four pictures without labels."""
    X, kinds = scatter(64, 0.5, seed=2)
    with make(tmp_path / "c", X) as collection:
        yield collection, kinds


def check_calibration(predicted, right, tolerance=0.1):
    """Compare the mean prediction with the share of right results, in each part of the predictions."""
    predicted, right = np.array(predicted), np.array(right)
    assert predicted.max() - predicted.min() > 0.4
    for low, high in ((0, 0.35), (0.35, 0.65), (0.65, 1.01)):
        part = (predicted >= low) & (predicted < high)
        if part.sum() >= 100:
            assert predicted[part].mean() == pytest.approx(right[part].mean(), abs=tolerance)


def test_the_likelihood_from_labels_is_the_share_of_right_results(labelled):
    collection, kinds = labelled
    predicted, right = [], []
    for item in range(400, 460):
        results = collection.search(item, k=201, likely=0)[1:]
        predicted += [result.likely for result in results]
        right += [kinds[result.id] == kinds[item] for result in results]
    check_calibration(predicted, right)


def test_it_does_not_increase_with_the_score_and_names_its_source(labelled):
    collection, _ = labelled
    results = collection.search(500, k=200, likely=0)
    shares = [result.likely for result in results]
    assert shares == sorted(shares, reverse=True)
    assert 0 <= shares[-1] < shares[0] < 1
    assert results.estimated_from == "400 labelled pictures"


def test_several_examples_and_negative_ones_are_calibrated_as_such(labelled):
    collection, kinds = labelled
    random, predicted, right = np.random.default_rng(0), [], []
    for _ in range(60):
        kind = random.integers(KINDS)
        wanted = random.choice(np.flatnonzero(kinds == kind)[50:], 2, replace=False)
        unwanted = random.choice(np.flatnonzero(kinds != kind), 1)
        results = collection.search(wanted.tolist(), without=unwanted.tolist(), k=200, likely=0)
        predicted += [result.likely for result in results if result.id not in wanted]
        right += [kinds[result.id] == kind for result in results if result.id not in wanted]
    check_calibration(predicted, right)


def test_the_likelihood_from_distances_separates_planted_pictures_from_chance(tmp_path):
    random = np.random.default_rng(3)
    X = random.normal(size=(3_000, 256)).astype(np.float32)
    for query in range(20):  # 40 planted pictures each, from very similar to nearly random
        planted = slice(100 + 40 * query, 140 + 40 * query)
        X[planted] = X[query] + np.linspace(0.2, 6, 40)[:, None] * X[planted]
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    predicted, right = [], []
    with make(tmp_path / "c", X) as collection:
        for query in range(20):
            results = collection.search(query, k=101, likely=0)
            predicted += [result.likely for result in results[1:]]
            right += [100 + 40 * query <= result.id < 140 + 40 * query for result in results[1:]]
        assert results.estimated_from == "the distances of 2,000 random pictures, which is optimistic"
    check_calibration(predicted, right)


def test_results_beyond_the_cutoffs_are_left_out(labelled):
    collection, _ = labelled
    every = collection.search(500, k=200, likely=0)
    likely = collection.search(500, k=200, likely=0.5)
    assert [r.id for r in likely] == [r.id for r in every if r.likely >= 0.5]
    assert 1 < len(likely) < 200
    assert likely.cutoff == Cutoff(len(likely), 200, likely[-1].score, None, 0.5, "400 labelled pictures")
    within = collection.search(500, k=200, within=every[9].score)
    assert len(within) == 10
    assert (within.cutoff.inside, within.cutoff.of, within.cutoff.estimated_from) == (10, 200, "")
    both = collection.search(500, k=200, within=every[9].score, likely=every[4].likely)
    assert len(both) == min(10, sum(r.likely >= every[4].likely for r in every))
    none = collection.search(500, k=200, likely=1.0)
    assert (none, none.cutoff.score) == ([], None)
    assert len(collection.search(500, k=3, likely=0.0)) == 3


def test_a_calibration_is_reused_until_labels_marks_or_pictures_change(small):
    collection, kinds = small
    assert collection.search(0)[0].likely is None  # nothing is cached
    label(collection, kinds, range(60))
    assert collection.search(0, likely=0).estimated_from == "60 labelled pictures"
    cached = collection.search(0)
    assert cached.estimated_from == "60 labelled pictures"
    assert cached.cutoff is None
    assert cached.half is not None
    label(collection, kinds, [60])
    assert collection.search(0)[0].likely is None
    assert collection.search(0, likely=0).estimated_from == "61 labelled pictures"
    collection.remove(60)
    assert collection.search(0)[0].likely is None
    assert collection.search(0, likely=0).estimated_from == "60 labelled pictures"
    collection.session(0)
    assert collection.search(0)[0].likely is None


def test_marks_of_open_sessions_serve_if_there_are_few_labels(small):
    collection, kinds = small
    label(collection, kinds, range(8))
    session = collection.session(0)
    same = [i for i in range(1, 64) if kinds[i] == kinds[0]]
    session.mark(same, [i for i in range(1, 64) if kinds[i] != kinds[0]])
    results = collection.search(0, k=20, likely=0)
    assert results.estimated_from == "64 marked pictures"
    assert results[1].likely > 0.8 > 0.2 > results[-1].likely
    label(collection, kinds, range(60))
    assert collection.search(0, likely=0).estimated_from == "60 labelled pictures"


def test_labels_that_cannot_calibrate_are_not_used(small):
    collection, _ = small
    rows = [(i, f"own {i}") for i in range(64)]  # no picture has another one of its label
    collection._store.judgements.add_labels(rows, author="anna", source="hand")
    assert "random pictures" in collection.search(0, likely=0).estimated_from


def test_labels_that_mean_nothing_give_a_low_likelihood(small):
    collection, kinds = small
    label(collection, np.random.default_rng(0).permutation(kinds), range(64))
    assert collection.search(0, likely=0)[0].likely < 0.4  # although it is the example itself


def test_filters_apply_to_the_results_and_not_to_the_calibration(labelled, small):
    for collection, source in ((labelled[0], "400 labelled pictures"), (small[0], "64 random pictures")):
        results = collection.search(8, k=10, likely=0, filter=Filter(path="*/1/*"))
        assert len(results) == 10
        assert all(result.id % 2 for result in results)
        assert source in results.estimated_from
        assert collection.search(8, likely=0, filter=Filter(path="*/nowhere/*")) == []


@pytest.mark.parametrize("space", ["itq(bits=32)", "kernelslem(gamma=0.1)", "ncmml(dim=4)"])
def test_codes_and_spaces_with_their_own_measure_are_calibrated(small, space):
    collection, kinds = small
    label(collection, kinds, range(64))
    collection.fit(space)
    name = space.partition("(")[0]
    for options in ({}, {"without": [1]}):
        results = collection.search([0, KINDS], space=name, k=30, likely=0, **options)
        assert results.estimated_from == "64 labelled pictures"
        assert results[0].likely > results[-1].likely
    results = collection.search(0, space=name, k=30, likely=0, filter=Filter(path="*/0/*"))
    assert results[0].likely > 0.5


def test_small_and_empty_collections_are_explained(tmp_path):
    with Collection(tmp_path / "empty", create=True) as collection, pytest.raises(InputError, match="is empty"):
        collection.search(0, likely=0.5)
    with make(tmp_path / "c", scatter(10, 1.0, seed=0)[0]) as collection:
        with pytest.raises(InputError, match=r"from 50 pictures or more, and the space has 10"):
            collection.search(0, likely=0.5)
        assert collection.search(0, within=0.0)[0].id == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"likely": 1.5}, "likely must be a number from 0 to 1. Got 1.5"),
        ({"likely": -0.1}, "likely must be"),
        ({"likely": float("nan")}, "likely must be"),
        ({"within": -1.0}, "within must be a finite number of at least 0. Got -1.0"),
        ({"likely": 0.5, "rerank": True}, "re-ranked results is unknown"),
    ],
)
def test_impossible_cutoffs_are_rejected(small, options, message):
    with pytest.raises(InputError, match=message):
        small[0].search(0, **options)


@pytest.fixture
def kinds_collection(tmp_path):
    """Sixty pictures; the network sees tigers with growing certainty, and buses in the others."""
    X, _ = scatter(60, 0.5, seed=4)
    P = np.full((60, 1000), 1e-6, np.float32)
    P[:, TIGER] = np.linspace(0.9, 0.02, 60)
    P[:, BUS] = 0.95 - P[:, TIGER]
    with make(tmp_path / "c", X, P=P) as collection:
        yield collection


def test_the_likelihood_of_words_is_that_of_their_kinds(kinds_collection):
    results = kinds_collection.search(words="tiger", k=60, likely=0)
    assert [result.likely for result in results[:3]] == pytest.approx([0.9, 0.885, 0.871], abs=0.02)
    assert results.estimated_from == "the network's probabilities"
    feline = kinds_collection.search(words="feline", k=60, likely=0.5)
    assert [result.id for result in feline] == list(range(len(feline)))
    assert len(feline) == pytest.approx(28, abs=2)
    assert feline.cutoff.of == 60
    assert feline.understood[0].text == "feline"
    assert kinds_collection.search(words="tiger")[0].likely is None


def test_labels_and_predictions_count_for_words(kinds_collection):
    kinds_collection.classes.add("tiger", [59])
    kinds_collection._store.judgements.predictions.add([(58, "tiger", 0.95)], space="deep-plain", model="ncm 1")
    results = kinds_collection.search(words="tiger", k=60, likely=0)
    assert [(result.id, round(result.likely, 2)) for result in results[:2]] == [(59, 1.0), (58, 0.95)]
    assert results.estimated_from == "labels, paths and the network's probabilities"


def test_several_words_and_pictures_have_the_smallest_probability(kinds_collection):
    one, both = (kinds_collection.search(words=words, k=60, likely=0) for words in ("tiger", "tiger on a bus"))
    assert max(result.likely for result in both) < 0.52 < max(result.likely for result in one)
    without = kinds_collection.search(words="tiger", without_words="bus", k=60, likely=0)
    assert without[0].likely == pytest.approx(0.9, abs=0.03)
    mixed = kinds_collection.search(0, words="tiger", k=60, likely=0)
    distances = "the distances of 60 random pictures, which is optimistic"
    assert mixed.estimated_from == f"the network's probabilities and {distances}"
    assert mixed[0].id == 0
    assert [r.likely for r in mixed] == sorted((r.likely for r in mixed), reverse=True)


def test_words_without_a_kind_have_no_likelihood(kinds_collection):
    with pytest.raises(InputError, match="likelihood of 'beach' is unknown"):
        kinds_collection.search(words="beach", likely=0.5)
    kinds_collection.classes.add("beach", [3])
    assert [result.id for result in kinds_collection.search(words="beach", likely=0.5)] == [3]


def test_a_space_with_a_text_encoder_estimates_from_distances(kinds_collection, monkeypatch):
    space, X = type(kinds_collection.space()), kinds_collection.space().rows.vectors(np.array([8]))
    monkeypatch.setattr(space, "takes_text", True)
    monkeypatch.setattr(space, "is_fitted", True)
    monkeypatch.setattr("lookalike.collection.chain.Chain.embed_text", lambda self, texts: X, raising=False)
    results = kinds_collection.search(words="bus", k=20, likely=0)
    assert results[0].id == 8
    assert results[0].likely > 0.8 > 0.2 > results[-1].likely
    assert results.estimated_from == "the distances of 60 random pictures, which is optimistic"


def test_the_command_line_prints_likelihoods_and_the_cutoff(labelled, capsys, monkeypatch):
    collection, _ = labelled
    query = ["-c", str(collection.path), "search", f"{500:016x}", "-k", "200"]

    def call(*words):
        assert cli.run([*query, *words]) == 0
        return capsys.readouterr()

    expected = collection.search(500, k=200, likely=0.6)
    shown = call("--likely", "0.6")
    assert len(shown.out.splitlines()) == len(expected)
    assert shown.out.splitlines()[0].split("  ")[:2] == ["0.0000", human_probability(expected[0].likely)]
    assert shown.err == f"{expected.cutoff.summary}\n"
    assert "at least 60 % likely" in shown.err
    assert "estimated from 400 labelled pictures" in shown.err
    assert json.loads(call("--likely", "0.6", "--json").out)[1]["likely"] == pytest.approx(expected[1].likely)
    assert call("--within", "0.5").err == "1 of 200 results has a score of at most 0.5.\n"
    assert call().out.splitlines()[0].split() == ["0.0000", "/photos/0/500.jpg"]  # for scripts, always the same
    assert "likely" not in json.loads(call("--json").out)[0]
    monkeypatch.setattr(cli_search, "on_terminal", lambda: True)
    lines = call()
    rows = lines.out.splitlines()
    half = collection.search(500, k=200).half
    assert HALF_LINE in rows[half + 1]
    assert "likely" in rows[0]
    assert human_probability(expected[0].likely) in rows[1]
    assert "estimated from 400 labelled pictures" in lines.err
    assert cli.run([*query, "--likely", "2"]) == 2


def test_the_service_returns_likelihoods_and_the_cutoff(shelf, tmp_path):
    with running(copy_shelf(shelf, tmp_path)) as service:
        first = service.get("/items")["items"][0]["id"]
        plain = service.post("/search", {"examples": [{"id": first}], "k": 20})
        assert plain["cutoff"] is None
        assert plain["results"][0]["likely"] is None
        found = service.post("/search", {"examples": [{"id": first}], "k": 20, "likely": 0.5, "within": 0.9})
        expected = service.collection.search(int(first, 16), k=20, likely=0.5, within=0.9)
        assert [r["likely"] for r in found["results"]] == pytest.approx([r.likely for r in expected], abs=1e-4)
        assert found["cutoff"]["inside"] == len(expected) > 1
        assert found["cutoff"]["summary"] == expected.cutoff.summary
        assert found["estimated_from"] == "60 labelled pictures"
        for wrong in ({"likely": 1.1}, {"within": -1}, {"likely": "often"}):
            service.post("/search", {"examples": [{"id": first}], **wrong}, status=422)
