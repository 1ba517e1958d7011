"""A round is never worse than no feedback, reports assumed negatives, and raises errors on invalid input."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from lookalike.errors import InputError, UnknownNameError
from lookalike.feedback import EmulatedUser, Learner, Marks, Ranking, Svdd, Svm, emulate, run_round
from lookalike.feedback.round import MIN_NEGATIVES, PRESUMED_POSITIVES
from lookalike.index.flat import Flat
from lookalike.index.queries import PointQuery
from reference.feedback import clusters

X, labels = clusters(classes=10, per_class=60, spread=1.6)
ids = np.arange(len(X))
index = Flat()
index.add(ids, X)


def mark(items, signs):
    return Marks(np.array(items, np.int64), X[items], np.array(signs, np.int8))


def session(i, rounds=6, **options):
    """Precision per round, and precision without feedback, of a session that searches for class i % 10."""
    user = EmulatedUser(ids, ids[labels == i % 10])
    items, signs = user.start(np.random.default_rng(i))
    plain = index.search(PointQuery(X[items[:1]]), 60).ids[0]
    first = Marks(items, X[items], signs)
    rounds = emulate(
        user, index, first, rounds, lambda marks, turn: run_round(index, marks, k=60, seed=i, turn=turn, **options)
    )
    return np.array([user.precision(played.best) for _, played in rounds]), user.precision(plain)


@pytest.fixture(scope="module")
def sessions():
    return [session(i) for i in range(6)]


def test_feedback_is_never_worse_than_none(sessions):
    gain = np.array([precision - plain for precision, plain in sessions])  # (sessions, rounds + 1)
    assert np.all(gain.mean(axis=0) >= 0)
    assert np.all(gain[:, 3:] >= -0.02)
    assert gain.min() >= -0.1
    assert gain[:, -1].mean() > 0.2


def test_more_marks_give_a_better_ranking(sessions):
    curve = np.mean([precision for precision, _ in sessions], axis=0)
    assert curve[6] > curve[3] > curve[0]


def test_with_one_example_the_ranking_is_that_of_a_search_by_example():
    played = run_round(index, mark([3], [1]), k=60)
    plain = index.search(PointQuery(X[3:4]), 60).ids[0]
    assert played.presumed == MIN_NEGATIVES
    assert played.blend == 0
    assert_array_equal(played.best, plain)
    assert played.found == 1
    assert played.estimate is None


def test_without_a_second_positive_only_the_negatives_leave_the_ranking():
    plain = index.search(PointQuery(X[3:4]), 600).ids[0]
    negative = plain[1:10].tolist()
    played = run_round(index, mark([3, *negative], [1] + [-1] * 9), k=600)
    assert played.blend == 0
    assert_array_equal(played.best, plain[~np.isin(plain, negative)])


def test_items_marked_negative_are_not_ranked():
    marks = mark([0, 1, 2, 100, 200, 300], [1, 1, 1, -1, -1, -1])
    played = run_round(index, marks, k=600)
    assert sorted(played.best.tolist()) == np.setdiff1d(ids, [100, 200, 300]).tolist()
    again = run_round(index, mark([100, 0, 1, 2, 200, 300, 100], [-1, 1, 1, 1, -1, -1, 1]), k=600)
    assert 100 in again.best


def test_a_round_asks_for_the_best_candidates_when_the_estimate_is_small():
    far, classes = clusters(classes=40, per_class=12, spread=0.1)
    small = Flat()
    small.add(np.arange(480), far)
    seen = np.flatnonzero(classes == 0)[:4].tolist() + np.flatnonzero(classes > 0)[::50].tolist()
    played = run_round(small, Marks(np.array(seen), far[seen], np.where(classes[seen] == 0, 1, -1).astype(np.int8)))
    assert played.estimate.likely < 60
    assert_array_equal(played.questions, played.best[~np.isin(played.best, seen)][:9])


def test_questions_can_begin_with_given_items():
    marks = mark([0, 100, 200], [1, -1, -1])
    skipped, among = np.array([7]), np.delete(ids, 8)
    plain = run_round(index, marks, exclude=skipped, among=among).questions
    asked = run_round(index, marks, exclude=skipped, among=among, ask_first=np.array([301, 0, 7, 8, 250])).questions
    assert asked[:2].tolist() == [301, 250]
    assert_array_equal(asked[2:], plain[~np.isin(plain, [301, 250])][:7])
    assert run_round(index, marks, window=0, ask_first=ids).questions.tolist() == []


def test_questions_exclude_marked_and_skipped_items_but_skipped_items_are_ranked():
    marks = mark([0, 1, 2, 100, 200, 300], [1, 1, 1, -1, -1, -1])
    first = run_round(index, marks)
    skipped = first.questions
    second = run_round(index, marks, exclude=skipped)
    assert not np.isin(second.questions, np.append(skipped, marks.ids)).any()
    assert_array_equal(second.best, first.best)
    among = run_round(index, marks, among=ids[:30], k=99)
    assert len(among.best) == 30
    assert among.questions.max() < 30


def test_the_last_mark_of_an_item_counts():
    changed = run_round(index, mark([5, 0, 1, 100, 200, 5], [-1, 1, 1, -1, -1, 1]))
    assert changed.found == 3
    plain = run_round(index, mark([0, 1, 100, 200, 5], [1, 1, -1, -1, 1]))
    assert_array_equal(changed.best, plain.best)
    stranger = Marks(np.array([-1, 0, -1, 100]), X[[7, 0, 7, 100]], np.array([-1, 1, 1, -1], np.int8))
    assert run_round(index, stranger).found == 1


def test_with_only_negatives_the_ranking_moves_away_from_them():
    played = run_round(index, mark([0, 1, 2, 3], [-1] * 4), k=60)
    assert played.presumed == PRESUMED_POSITIVES
    assert np.mean(labels[played.best] == 0) < 0.1
    assert len(played.questions) == 9


def test_a_collection_of_three_pictures_is_enough():
    tiny = Flat()
    tiny.add(np.array([7, 8, 9]), X[:3])
    one = run_round(tiny, Marks(np.array([7]), X[:1], np.array([1], np.int8)), k=50)
    assert sorted(one.best.tolist()) == [7, 8, 9]
    assert sorted(one.questions.tolist()) == [8, 9]
    every = run_round(tiny, Marks(np.array([7, 8, 9]), X[:3], np.array([1, 1, 1], np.int8)))
    assert every.found == 3
    assert len(every.questions) == 0
    assert "No questions are left" in every.stop
    none = run_round(tiny, Marks(np.array([7, 8, 9]), X[:3], np.array([-1, -1, -1], np.int8)))
    assert none.found == 0


def test_a_mark_of_a_removed_item_still_counts():
    smaller = Flat()
    smaller.add(ids[1:], X[1:])
    played = run_round(smaller, mark([0, 1, 100], [1, 1, -1]), k=30)
    assert played.found == 1
    assert 0 not in played.best
    assert np.mean(labels[played.best] == 0) > 0.3
    assert len(run_round(smaller, mark([0, 1, 100], [1, 1, -1]), among=np.array([0, 1, 2])).best) == 2


def test_a_round_suggests_to_stop_only_when_a_class_is_complete():
    far, classes = clusters(classes=4, per_class=20, spread=0.1)
    small = Flat()
    small.add(np.arange(80), far)
    user = EmulatedUser(np.arange(80), np.arange(20))
    items, signs = user.start(np.random.default_rng(0))
    first = Marks(items, far[items], signs)
    rounds = [
        played for _, played in emulate(user, small, first, 7, lambda marks, turn: run_round(small, marks, turn=turn))
    ]
    assert rounds[0].stop is None
    stopped = [played for played in rounds if played.stop and "nearly all" in played.stop]
    assert stopped
    assert min(played.found for played in stopped) >= 17
    assert classes[rounds[-1].best[:20]].max() == 0


def test_an_emulated_session_ends_when_nothing_is_left_to_ask():
    tiny = Flat()
    tiny.add(ids[:12], X[:12])
    user = EmulatedUser(ids[:12], ids[:6])
    rounds = list(emulate(user, tiny, mark([0], [1]), 9, lambda marks, turn: run_round(tiny, marks, turn=turn)))
    assert [len(marks.ids) for marks, _ in rounds] == [1, 10, 12]
    last = rounds[-1][0]
    assert sorted(last.ids.tolist()) == list(range(12))
    assert_array_equal(last.y, np.where(last.ids < 6, 1, -1))
    assert_array_equal(last.X, X[last.ids])


def test_other_learners_and_strategies_can_be_used():
    played = run_round(index, mark([0, 1, 100], [1, 1, -1]), learner=Svdd(), strategy="maximum")
    assert played.estimate is None
    assert len(played.questions) == 9
    assert set(played.seconds) == {"train", "search", "select", "estimate"}
    assert played.scored >= 600
    assert run_round(index, mark([0, 100], [1, -1]), window=0).questions.tolist() == []


class NearestPositive:
    """A custom learner with only the protocol. It ranks by similarity to the first positive mark."""

    kernel, gamma_ = "linear", 1.0

    def fit(self, X, y, weights=None):
        self.query = PointQuery(X[y > 0][:1])
        return self

    def best(self):
        return self.query

    unsure = best

    def ranking(self):
        return Ranking(self.query)


def test_a_round_needs_only_the_protocol_of_a_learner():
    assert isinstance(NearestPositive(), Learner)
    played = run_round(index, mark([3, 100], [1, -1]), k=20, learner=NearestPositive())
    assert_array_equal(played.best, index.search(PointQuery(X[3:4]), 20).ids[0])
    assert (played.estimate, played.blend, len(played.questions)) == (None, 1.0, 9)


def test_the_same_seed_gives_the_same_round():
    marks = mark([0], [1])
    assert_array_equal(run_round(index, marks, seed=4).questions, run_round(index, marks, seed=4).questions)
    assert not np.array_equal(
        run_round(index, marks, seed=4, strategy="random").questions,
        run_round(index, marks, seed=5, strategy="random").questions,
    )


def test_the_same_marks_are_ranked_the_same_in_every_round():
    for marks in (mark([0], [1]), mark([0, 1, 2, 100, 200, 300], [1, 1, 1, -1, -1, -1])):
        first, later = (run_round(index, marks, seed=4, turn=turn, strategy="random") for turn in (0, 7))
        assert_array_equal(first.best, later.best)
        assert_array_equal(first.scores, later.scores)
        assert first.estimate == later.estimate
        assert not np.array_equal(first.questions, later.questions)
    alone = mark([0, 100], [1, -1])  # assumed negatives depend on the seed
    assert not np.array_equal(run_round(index, alone, seed=4).scores, run_round(index, alone, seed=5).scores)


def test_only_items_that_can_be_ranked_count_as_found():
    marks = mark([0, 1, 2, 100, 200, 300], [1, 1, 1, -1, -1, -1])
    assert run_round(index, marks).found == 3
    some = run_round(index, marks, among=np.append(ids[2:30], 400))
    assert some.found == 1
    assert some.estimate.high <= 29


def test_bad_input_raises_an_error():
    with pytest.raises(InputError, match="at least one mark"):
        run_round(index, mark([], []))
    with pytest.raises(InputError, match="The index is empty"):
        run_round(Flat(), mark([0], [1]))
    with pytest.raises(InputError, match="finite"):
        run_round(index, Marks(np.array([0]), np.full((1, 12), np.nan, np.float32), np.array([1], np.int8)))
    with pytest.raises(InputError, match="12 columns"):
        run_round(index, Marks(np.array([0]), X[:1, :3], np.array([1], np.int8)))
    with pytest.raises(InputError, match="sign"):
        run_round(index, mark([0], [0]))
    with pytest.raises(InputError, match="k must be"):
        run_round(index, mark([0], [1]), k=0)
    with pytest.raises(InputError, match="gamma must be"):
        run_round(index, mark([0], [1]), learner=Svm(gamma=0.0))
    with pytest.raises(UnknownNameError, match="strategy"):
        run_round(index, mark([0], [1]), strategy="clever")
    with pytest.raises(InputError, match="relevant must contain"):
        EmulatedUser(ids, np.array([9999]))


@pytest.mark.parametrize("scale", [0.0, 1e-20])
def test_equal_rows_are_ranked_by_similarity_and_asked_at_random(scale):
    index = Flat()
    X = (scale * np.random.default_rng(0).normal(size=(30, 4))).astype(np.float32)
    index.add(np.arange(30), X)
    played = run_round(index, Marks(np.array([3, 4]), X[3:5], np.array([1, -1], np.int8)), k=5, window=4)
    assert len(played.best) == 5
    assert len(played.questions) == 4
    assert (played.estimate, played.blend) == (None, 0.0)
