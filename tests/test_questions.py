"""Questions: MAO equals its slow reference, no strategy asks about excluded items, and a mix follows the estimate."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.errors import UnknownNameError
from lookalike.feedback.learners import Svm
from lookalike.feedback.questions import STRATEGIES, Candidates, choose_questions, diverse, draw
from lookalike.index.flat import Flat
from lookalike.index.queries import PointQuery
from lookalike.kernels import KERNELS
from reference.feedback import clusters, most_ambiguous_and_orthogonal

X, labels = clusters()
ids = np.arange(len(X)) * 3
index = Flat()
index.add(ids, X)
marked = np.array([0, 1, 100, 200, 300])
svm = Svm().fit(X[marked], np.array([1, 1, -1, -1, -1], np.int8))


def candidates(**options):
    taken = np.append(ids[marked], ids[5]).astype(np.int64)
    given = {"among": None, "ids": ids, "exclude": np.sort(taken)} | options
    return Candidates(index, effort=None, random=np.random.default_rng(0), **given)


@given(st.integers(0, 1000), st.integers(1, 12), st.integers(1, 8))
def test_mao_equals_its_slow_reference(seed, m, w):
    rows = np.random.default_rng(seed).integers(0, 4, (m, 2)).astype(np.float32)
    K = KERNELS["laplace"].pairs(rows.astype(np.float64), rows.astype(np.float64), 0.7)
    assert diverse(rows, w, "laplace", 0.7).tolist() == most_ambiguous_and_orthogonal(K.tolist(), w)


def test_short_rows_do_not_count_as_different_with_inner_products():
    rows = np.array([[1.0, 0.0], [0.01, 0.0], [0.0, 5.0]], np.float32)
    assert diverse(rows, 2, "linear", 1.0).tolist() == [0, 2]


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("unfound", [0, 120, None])
def test_questions_are_new_different_and_allowed(strategy, unfound):
    known = {"positives": 5, "unfound": unfound}
    asked = choose_questions(candidates(**known), svm, 9, strategy)
    assert len(asked) == len(set(asked.tolist())) == 9
    assert not np.isin(asked, [*ids[marked], ids[5]]).any()
    few = ids[40:46]
    among = choose_questions(candidates(among=few, ids=few, **known), svm, 9, strategy)
    assert sorted(among.tolist()) == few.tolist()
    assert len(choose_questions(candidates(exclude=ids, **known), svm, 9, strategy)) == 0


def test_each_strategy_asks_about_the_pictures_in_its_name():
    free = np.setdiff1d(ids, [*ids[marked], ids[5]])
    f = svm.unsure().distance(index.vectors(free))
    assert (
        choose_questions(candidates(), svm, 9, "maximum").tolist() == free[np.argsort(-f, kind="stable")[:9]].tolist()
    )
    asked = choose_questions(candidates(), svm, 9, "frontier")
    assert np.isin(asked, free[np.argsort(np.abs(f))[:90]]).all()
    assert asked[0] == free[np.argmin(np.abs(f))]


@pytest.mark.parametrize(
    ("n", "effort", "expected"), [(500, None, 1.0), (10**7, None, 0.02), (10**7, "exact", "exact")]
)
def test_ambiguous_items_are_searched_in_a_share_of_a_large_collection(monkeypatch, n, effort, expected):
    efforts = []
    search = Flat.search
    monkeypatch.setattr(
        Flat, "search", lambda *args, **options: efforts.append(options["effort"]) or search(*args, **options)
    )
    many = Candidates(index, None, ids[:3], effort, np.random.default_rng(0), ids=range(n))
    choose_questions(many, svm, 9, "frontier")
    assert efforts == [expected]


def test_a_mix_asks_for_matches_as_far_as_the_unfound_positives_are_within_reach():
    likely = choose_questions(candidates(), svm, 9, "maximum").tolist()
    ambiguous = choose_questions(candidates(), svm, 9, "frontier").tolist()
    for unfound, n in ((0, 9), (60, 9), (90, 6), (180, 3), (6000, 0), (None, 0)):
        asked = choose_questions(candidates(positives=5, unfound=unfound), svm, 9, "mix").tolist()
        assert asked[:n] == likely[:n]
        assert np.isin(asked[n:], ambiguous).all()
    for unfound in (None, 6000):  # with few positives an estimate is missing or rough
        first = choose_questions(candidates(positives=2, unfound=unfound), svm, 9, "mix").tolist()
        assert first[:7] == likely[:7]
        assert np.isin(first[7:], ambiguous).all()


def test_the_first_questions_follow_the_displayed_ranking():
    shown = PointQuery(X[400:401])
    first = [item for item in index.search(shown, 20).ids[0].tolist() if item not in ids[[*marked, 5]]]
    assert choose_questions(candidates(ranking=shown), svm, 9, "maximum").tolist() == first[:9]
    assert choose_questions(candidates(ranking=shown), svm, 9, "mix")[:7].tolist() == first[:7]
    assert (
        choose_questions(candidates(ranking=shown), svm, 9, "frontier").tolist()
        == choose_questions(candidates(), svm, 9, "frontier").tolist()
    )


def test_a_random_sample_has_no_excluded_ids_and_reaches_all_others():
    many = np.arange(100_000)
    out = np.arange(0, 100_000, 997)
    drawn = draw(many, out, 500, np.random.default_rng(1))
    assert len(set(drawn.tolist())) == 500
    assert not np.isin(drawn, out).any()
    assert abs(drawn.mean() - 50_000) < 5_000
    assert sorted(draw(np.arange(5), np.array([2]), 9, np.random.default_rng(0)).tolist()) == [0, 1, 3, 4]


def test_an_unknown_strategy_raises_an_error():
    with pytest.raises(UnknownNameError, match="Did you mean 'frontier'"):
        choose_questions(candidates(), svm, 9, "fronteer")
