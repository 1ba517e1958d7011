"""A round: never worse than no feedback, honest about what it presumes, useful on bad input."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from lookalike.errors import InputError, UnknownNameError
from lookalike.feedback import guard as guarding
from lookalike.feedback.guard import BLENDS, folds, guard, ranks_well
from lookalike.feedback.learners import Svdd, Svm
from lookalike.feedback.round import NEGATIVES, STRANGERS, Marks, play
from lookalike.feedback.user import EmulatedUser, emulate
from lookalike.index.flat import Flat
from lookalike.index.queries import HyperplaneQuery, PointQuery
from reference.feedback import clusters, hyperplane_between, pairs_in_order

X, labels = clusters(classes=10, per_class=60, spread=1.6)
ids = np.arange(len(X))
index = Flat()
index.add(ids, X)


def mark(items, signs):
    return Marks(np.array(items, np.int64), X[items], np.array(signs, np.int8))


def session(i, rounds=6, **options):
    """Precision by round, and that of no feedback at all, for a session that wants class i % 10."""
    user = EmulatedUser(ids, ids[labels == i % 10])
    items, signs = user.start(np.random.default_rng(i))
    plain = index.search(PointQuery(X[items[:1]]), 60).ids[0]
    first = Marks(items, X[items], signs)
    rounds = emulate(
        user, index, first, rounds, lambda marks, turn: play(index, marks, k=60, seed=i, turn=turn, **options)
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


def test_more_marks_teach_more(sessions):
    curve = np.mean([precision for precision, _ in sessions], axis=0)
    assert curve[6] > curve[3] > curve[0]


def test_the_guard_chooses_by_marks_that_were_held_out():
    random = np.random.default_rng(0)
    rows = random.normal(size=(60, 5)).astype(np.float32)
    noise = np.where(random.random(60) < 0.5, 1, -1).astype(np.int8)
    svm = Svm().fit(rows, noise)
    judged = guard(svm, rows.astype(np.float64), noise, np.ones(60))
    assert judged.blend in BLENDS
    assert ranks_well(svm.best().distance(rows), noise) > 0.95  # learned by heart
    assert ranks_well(judged.heldout, noise) < 0.75  # and the held-out marks know it


def test_what_is_held_out_has_not_been_seen():
    y = np.array([1, 1, 1, -1, -1, -1, -1, -1], np.int8)
    real = np.array([True] * 7 + [False])
    parts = folds(y, real)
    assert sorted(np.concatenate(parts).tolist()) == list(range(7))
    rows = np.random.default_rng(1).normal(size=(8, 3)).astype(np.float32)
    before = guard(Svm(gamma=1.0).fit(rows, y), rows.astype(np.float64), y, np.where(real, 1.0, 0.5))
    assert np.isnan(before.heldout[7])
    assert np.isfinite(before.heldout[:7]).all()


@pytest.mark.parametrize("share", BLENDS)
@pytest.mark.parametrize("kernel", ["gaussian", "laplace"])
def test_held_out_marks_and_the_collection_are_measured_alike(kernel, share, monkeypatch):
    """By distances to hyperplanes of length one, fitted without the marks that they judge."""
    monkeypatch.setattr(guarding, "_choose", lambda *_: share)
    rows, y = X[::20], np.where(labels[::20] < 4, 1, -1).astype(np.int8)
    svm = Svm(kernel).fit(rows, y)
    guarded = guard(svm, rows.astype(np.float64), y, np.ones(len(y)))
    assert guarded.query.length == pytest.approx(1)
    for out in folds(y, np.ones(len(y), bool)):
        kept = np.setdiff1d(np.arange(len(y)), out)
        a, b = hyperplane_between(svm.gram_[np.ix_(kept, kept)], y[kept], svm.costs_[kept], share)
        without = HyperplaneQuery(rows[kept][a != 0], a[a != 0], b, kernel=kernel, gamma=svm.gamma_)
        assert_allclose(guarded.heldout[out], without.distance(rows[out]), atol=1e-4)


def test_held_out_marks_overrule_the_rule_of_thumb():
    """The wanted are a tight group; some refusals are mistakes inside it, which an SVM learns by heart."""
    random = np.random.default_rng(0)
    rows = np.concatenate([random.normal(size=(20, 6)), 4 * random.normal(size=(20, 6))]).astype(np.float32)
    y = np.repeat([1, -1], 20).astype(np.int8)
    clean = guard(Svm(C=1e4).fit(rows, y), rows.astype(np.float64), y, np.ones(40))
    assert clean.blend == dict(guarding.THUMB)[5]
    y[:20:3] = -1
    judged = guard(Svm(C=1e4).fit(rows, y), rows.astype(np.float64), y, np.ones(40))
    assert judged.blend < clean.blend


def test_pairs_in_order_are_counted_as_by_hand():
    random = np.random.default_rng(0)
    scores, y = random.integers(0, 5, 20).astype(float), np.where(random.random(20) < 0.5, 1, -1)
    assert ranks_well(scores, y) == pytest.approx(pairs_in_order(scores, y))


def test_with_one_example_the_order_begins_as_that_of_the_example():
    played = play(index, mark([3], [1]), k=60)
    plain = index.search(PointQuery(X[3:4]), 60).ids[0]
    assert played.presumed == NEGATIVES
    assert played.blend == 0
    assert_array_equal(played.best, plain)
    assert play(index, mark([3, *range(100, 108)], [1] + [-1] * 8)).blend == 0.25
    assert played.found == 1
    assert played.estimate is None


def test_questions_are_neither_marked_nor_skipped_and_skipped_items_stay_ranked():
    marks = mark([0, 1, 2, 100, 200, 300], [1, 1, 1, -1, -1, -1])
    first = play(index, marks)
    skipped = first.questions
    second = play(index, marks, exclude=skipped)
    assert not np.isin(second.questions, np.append(skipped, marks.ids)).any()
    assert_array_equal(second.best, first.best)
    among = play(index, marks, among=ids[:30], k=99)
    assert len(among.best) == 30
    assert among.questions.max() < 30


def test_the_last_mark_of_an_item_counts():
    changed = play(index, mark([5, 0, 1, 100, 200, 5], [-1, 1, 1, -1, -1, 1]))
    assert changed.found == 3
    plain = play(index, mark([0, 1, 100, 200, 5], [1, 1, -1, -1, 1]))
    assert_array_equal(changed.best, plain.best)
    stranger = Marks(np.array([-1, 0, -1, 100]), X[[7, 0, 7, 100]], np.array([-1, 1, 1, -1], np.int8))
    assert play(index, stranger).found == 1


def test_only_refusals_lead_away_from_them():
    played = play(index, mark([0, 1, 2, 3], [-1] * 4), k=60)
    assert played.presumed == STRANGERS
    assert np.mean(labels[played.best] == 0) < 0.1
    assert len(played.questions) == 9


def test_a_collection_of_three():
    tiny = Flat()
    tiny.add(np.array([7, 8, 9]), X[:3])
    one = play(tiny, Marks(np.array([7]), X[:1], np.array([1], np.int8)), k=50)
    assert sorted(one.best.tolist()) == [7, 8, 9]
    assert sorted(one.questions.tolist()) == [8, 9]
    every = play(tiny, Marks(np.array([7, 8, 9]), X[:3], np.array([1, 1, 1], np.int8)))
    assert every.found == 3
    assert len(every.questions) == 0
    assert "nothing left to ask" in every.stop
    none = play(tiny, Marks(np.array([7, 8, 9]), X[:3], np.array([-1, -1, -1], np.int8)))
    assert none.found == 0


def test_an_item_that_is_gone_still_teaches():
    smaller = Flat()
    smaller.add(ids[1:], X[1:])
    played = play(smaller, mark([0, 1, 100], [1, 1, -1]), k=30)
    assert played.found == 1
    assert 0 not in played.best
    assert np.mean(labels[played.best] == 0) > 0.3
    assert len(play(smaller, mark([0, 1, 100], [1, 1, -1]), among=np.array([0, 1, 2])).best) == 2


def test_a_finished_class_is_told_and_an_unfinished_one_is_not():
    far, classes = clusters(classes=4, per_class=20, spread=0.1)
    small = Flat()
    small.add(np.arange(80), far)
    user = EmulatedUser(np.arange(80), np.arange(20))
    items, signs = user.start(np.random.default_rng(0))
    first = Marks(items, far[items], signs)
    rounds = [played for _, played in emulate(user, small, first, 7, lambda marks, turn: play(small, marks, turn=turn))]
    assert rounds[0].stop is None
    assert rounds[-1].stop is not None
    assert classes[rounds[-1].best[:20]].max() == 0


def test_an_emulated_session_ends_when_nothing_is_left_to_ask():
    tiny = Flat()
    tiny.add(ids[:12], X[:12])
    user = EmulatedUser(ids[:12], ids[:6])
    rounds = list(emulate(user, tiny, mark([0], [1]), 9, lambda marks, turn: play(tiny, marks, turn=turn)))
    assert [len(marks.ids) for marks, _ in rounds] == [1, 10, 12]
    last = rounds[-1][0]
    assert sorted(last.ids.tolist()) == list(range(12))
    assert_array_equal(last.y, np.where(last.ids < 6, 1, -1))
    assert_array_equal(last.X, X[last.ids])


def test_other_learners_and_strategies_may_be_used():
    played = play(index, mark([0, 1, 100], [1, 1, -1]), learner=Svdd(), strategy="maximum")
    assert played.estimate is None
    assert len(played.questions) == 9
    assert set(played.seconds) == {"train", "search", "select", "estimate"}
    assert played.scored >= 600
    assert play(index, mark([0, 100], [1, -1]), window=0).questions.tolist() == []


def test_the_same_seed_plays_the_same_round():
    marks = mark([0], [1])
    assert_array_equal(play(index, marks, seed=4).questions, play(index, marks, seed=4).questions)
    assert not np.array_equal(
        play(index, marks, seed=4, strategy="random").questions, play(index, marks, seed=5, strategy="random").questions
    )


def test_the_same_marks_are_ranked_the_same_in_every_round():
    for marks in (mark([0], [1]), mark([0, 1, 2, 100, 200, 300], [1, 1, 1, -1, -1, -1])):
        first, later = (play(index, marks, seed=4, turn=turn, strategy="random") for turn in (0, 7))
        assert_array_equal(first.best, later.best)
        assert_array_equal(first.scores, later.scores)
        assert first.estimate == later.estimate
        assert not np.array_equal(first.questions, later.questions)
    alone = mark([0, 100], [1, -1])
    assert not np.array_equal(play(index, alone, seed=4).scores, play(index, alone, seed=5).scores)  # others presumed


def test_only_what_may_be_ranked_counts_as_found():
    marks = mark([0, 1, 2, 100, 200, 300], [1, 1, 1, -1, -1, -1])
    assert play(index, marks).found == 3
    some = play(index, marks, among=np.append(ids[2:30], 400))
    assert some.found == 1
    assert some.estimate.high <= 29


def test_bad_input_is_refused_in_words():
    with pytest.raises(InputError, match="at least one mark"):
        play(index, mark([], []))
    with pytest.raises(InputError, match="nothing in the index"):
        play(Flat(), mark([0], [1]))
    with pytest.raises(InputError, match="finite"):
        play(index, Marks(np.array([0]), np.full((1, 12), np.nan, np.float32), np.array([1], np.int8)))
    with pytest.raises(InputError, match="12 columns"):
        play(index, Marks(np.array([0]), X[:1, :3], np.array([1], np.int8)))
    with pytest.raises(InputError, match="sign"):
        play(index, mark([0], [0]))
    with pytest.raises(InputError, match="k must be"):
        play(index, mark([0], [1]), k=0)
    with pytest.raises(InputError, match="gamma must be"):
        play(index, mark([0], [1]), learner=Svm(gamma=0.0))
    with pytest.raises(UnknownNameError, match="strategy"):
        play(index, mark([0], [1]), strategy="clever")
    with pytest.raises(InputError, match="relevant must be"):
        EmulatedUser(ids, np.array([9999]))


@pytest.mark.parametrize("scale", [0.0, 1e-20])
def test_rows_that_are_all_alike_are_ranked_by_likeness_and_asked_at_random(scale):
    index = Flat()
    X = (scale * np.random.default_rng(0).normal(size=(30, 4))).astype(np.float32)
    index.add(np.arange(30), X)
    played = play(index, Marks(np.array([3, 4]), X[3:5], np.array([1, -1], np.int8)), k=5, window=4)
    assert len(played.best) == 5
    assert len(played.questions) == 4
    assert (played.estimate, played.blend) == (None, 0.0)
