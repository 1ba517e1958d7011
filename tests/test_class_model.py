"""The class model in memory follows changes of labels, pictures and spaces, and equals a newly built one."""

import threading

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike.collection.class_model import ClassModel
from lookalike.collection.classes import Classes
from lookalike.collection.space import Spaces
from lookalike.errors import InputError
from lookalike.store.directory import Store
from lookalike.store.items import Item

X = np.random.default_rng(0).normal(size=(12, 4)).astype(np.float32)
QUERIES = np.random.default_rng(1).normal(size=(9, 4)).astype(np.float32)


def put(store, items):
    """Add pictures with these ids to the collection."""
    ids = np.array(sorted(items), np.int64)
    pending = store.vectors.write("color()", ids, X[ids])
    with store.transaction():
        store.items.add([Item(int(item), [], 1, 8, 8, "png", 0.0, None) for item in ids])
        store.vectors.commit(pending)


def start(folder):
    """Create a collection of twelve pictures with the vectors X."""
    store = Store(folder / "c", create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("color()", ["color()"])
            store.vectors.create_space("plain", ["color()"], "color()")
        put(store, range(12))
    return store


@pytest.fixture
def store(tmp_path):
    made = start(tmp_path)
    yield made
    made.close()


def label(store, *pairs):
    store.judgements.add_labels(pairs, author="anna", source="hand")


def nearest_means(store):
    """Return for each query the set of nearest classes, with several at the same distance, by brute force."""
    means = {}
    for name in store.judgements.label_counts():
        items = [item for item in store.judgements.items_with(name).tolist() if store.items.get([item])]
        if items:
            means[name] = X[items].astype(np.float64).mean(axis=0)
    far = [{name: np.sum((query - mean) ** 2) for name, mean in means.items()} for query in QUERIES]
    return [{name for name in row if row[name] < min(row.values()) + 1e-5} for row in far]


def agree(guesses, nearest):
    return all(guess.nearest in names for guess, names in zip(guesses, nearest, strict=True))


steps = st.one_of(
    st.tuples(st.just("label"), st.integers(0, 11), st.sampled_from("abc")),
    st.tuples(st.just("remove label"), st.integers(0, 11), st.sampled_from("abc")),
    st.tuples(st.sampled_from(["remove", "add"]), st.integers(0, 11), st.just("")),
    st.tuples(st.just("rename"), st.sampled_from("abc"), st.sampled_from("abcd")),
    st.tuples(st.just("merge"), st.sampled_from("abc"), st.sampled_from("abc")),
)


def apply(store, verb, one, other):
    names = store.judgements.classes
    if verb == "label":
        label(store, (one, other))
    elif verb == "remove label":
        store.judgements.remove_labels([(one, other)])
    elif verb == "rename":
        names.rename(one, other)
    elif verb == "merge":
        names.merge([one, other], into=other)
    else:
        with store.writer():
            if verb == "add" and not store.items.get([one]):
                put(store, [one])
            elif verb == "remove":
                with store.transaction():
                    store.remove([one])


@pytest.mark.parametrize("kind", ["ncm", "second"])
@settings(max_examples=12)
@given(changes=st.lists(steps, min_size=1, max_size=10))
def test_an_updated_model_equals_a_newly_built_one(tmp_path_factory, kind, changes):
    store = start(tmp_path_factory.mktemp("made"))
    label(store, (0, "a"), (1, "a"), (2, "b"), (3, "b"), (4, "c"))
    spaces = Spaces(store)
    Classes(spaces).use(kind=kind)
    kept = ClassModel(spaces)
    kept.predict(QUERIES)
    for step in changes:
        try:
            apply(store, *step)
        except InputError:
            continue
        try:
            fresh = ClassModel(Spaces(store)).predict(QUERIES)
        except InputError:  # no class has a picture
            with pytest.raises(InputError, match="No class has pictures"):
                kept.predict(QUERIES)
            continue
        mine = kept.predict(QUERIES)
        if kind == "ncm":
            assert agree(mine, nearest_means(store))
        for one, other in zip(mine, fresh, strict=True):
            assert one.probability == pytest.approx(other.probability, abs=1e-3)
            assert one.nearest == other.nearest or one.probability == pytest.approx(one.runner_up_probability, abs=1e-3)
    store.close()


def test_an_update_reads_only_the_changed_rows(store, monkeypatch):
    from lookalike.classes.open_set import OpenSet

    label(store, *((item, "abc"[item % 3]) for item in range(9)))
    model = ClassModel(Spaces(store))
    model.predict(QUERIES)
    added, removed = [], []
    add, remove = OpenSet.partial_fit, OpenSet.remove
    monkeypatch.setattr(OpenSet, "partial_fit", lambda self, X, y: added.append(len(X)) or add(self, X, y))
    monkeypatch.setattr(OpenSet, "remove", lambda self, X, y: removed.append(len(X)) or remove(self, X, y))
    label(store, (9, "new"), (10, "new"))
    store.judgements.remove_labels([(0, "a")])
    model.predict(QUERIES)
    model.predict(QUERIES)
    assert (added, removed) == ([2], [1])


def test_a_model_older_than_the_log_is_rebuilt(store):
    label(store, (0, "a"), (1, "b"))
    model = ClassModel(Spaces(store))
    model.predict(QUERIES)
    label(store, (2, "c"), (3, "c"))
    store.judgements.remove_labels([(0, "a")])
    store.judgements.compact()
    assert agree(model.predict(QUERIES), nearest_means(store))


def test_threads_that_label_and_classify_concurrently_end_in_the_same_state(store):
    label(store, (0, "a"), (1, "b"))
    spaces = Spaces(store)
    model = ClassModel(spaces)
    failed = []

    def work(name):
        try:
            for item in range(12):
                label(store, (item, name))
                model.predict(QUERIES)
                if item % 3 == 0:
                    store.judgements.remove_labels([(item, name)])
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert agree(model.predict(QUERIES), nearest_means(store))
    assert store.judgements.label_counts() == dict.fromkeys("abcd", 8)


def test_a_picture_with_two_labels_counts_for_both(store):
    label(store, (0, "a"), (0, "b"), (1, "c"))
    (guess,) = ClassModel(Spaces(store)).predict(X[:1])
    assert {guess.nearest, guess.runner_up} == {"a", "b"}
    assert guess.probability == pytest.approx(guess.runner_up_probability)


def test_rejected_classes_are_not_predicted_and_the_others_keep_their_proportions(store):
    label(store, *((item, "abc"[item % 3]) for item in range(12)))
    model = ClassModel(Spaces(store))
    (guess,) = model.predict(QUERIES[:1])
    (other,) = model.predict(QUERIES[:1], [{guess.nearest}])
    assert other.nearest == guess.runner_up
    assert 0 < other.probability + other.runner_up_probability < 1  # the rest: the picture belongs to no class
    (third,) = model.predict(QUERIES[:1], [{guess.nearest, other.nearest}])
    assert third.nearest == other.runner_up
    (nothing,) = model.predict(QUERIES[:1], [{"a", "b", "c", "unknown"}])
    assert (nothing.label, nothing.nearest, nothing.runner_up, nothing.probability) == (None, None, None, 0.0)


def test_probabilities_and_none_of_these_match_the_classifier(store):
    from lookalike.classes.open_set import OpenSet

    labels = ["abc"[item % 3] for item in range(12)]
    label(store, *enumerate(labels))
    reference = OpenSet(reject=0.05).use_background(X, unlabelled=np.zeros(12, bool)).fit(X, labels)
    far = np.concatenate([QUERIES, 100 + QUERIES])
    guesses = ClassModel(Spaces(store)).predict(far)
    assert [guess.label or "none of these" for guess in guesses] == reference.predict(far).tolist()
    assert "none of these" in reference.predict(far)
    best = reference.predict_proba(far).max(axis=1) * reference.known_proba(far)
    np.testing.assert_allclose([guess.probability for guess in guesses], best, atol=1e-4)


def test_a_class_can_have_any_name(store):
    names = ["none of these", "-1", "0", "größe \udcff", "a" * 1_000]
    label(store, *enumerate(names))
    guesses = ClassModel(Spaces(store)).predict(X[:5])
    assert [guess.label for guess in guesses] == names


def test_changed_settings_and_hierarchies_take_effect_immediately(store):
    classes = Classes(Spaces(store))
    classes.add("a", [0, 1])
    classes.add("b", [2, 3])
    classes.add("empty", [])
    far = X[:1] + 50
    assert classes.classify(far[0])[0].label is None
    assert {classes.classify(row)[0].nearest for row in QUERIES} <= {"a", "b"}
    classes.set_hierarchy([("a", "all"), ("b", "all"), ("empty", "all")])
    middle = X[:4].mean(axis=0)
    assert classes.classify(middle)[0].nearest == "empty"
    classes.set_hierarchy([])
    assert classes.classify(middle)[0].nearest != "empty"
    classes.use(kind="second", reject=0.9)
    assert classes._model.state().model.startswith("second")


def test_the_model_is_recalibrated_when_enough_labels_have_changed(store, monkeypatch):
    from lookalike.classes.open_set import OpenSet
    from lookalike.collection import class_model

    monkeypatch.setattr(class_model, "RECALIBRATE_SHARE", 0.25)
    label(store, *((item, "abc"[item % 3]) for item in range(8)))
    model = ClassModel(Spaces(store))
    model.predict(QUERIES)
    chosen = []
    again = OpenSet.recalibrate
    monkeypatch.setattr(OpenSet, "recalibrate", lambda self, X, y: chosen.append(len(X)) or again(self, X, y))
    for item in (8, 9, 10):  # after the third, 3 of 11 labels have changed, more than a quarter
        label(store, (item, "abc"[item % 3]))
        assert agree(model.predict(QUERIES), nearest_means(store))  # the means are always current
    assert chosen == [11]


def test_none_of_these_is_possible_once_a_class_has_two_pictures(store, monkeypatch):
    from lookalike.collection import class_model

    monkeypatch.setattr(class_model, "RECALIBRATE_SHARE", 1.0)
    label(store, *((item, f"class {item}") for item in range(9)))
    model = ClassModel(Spaces(store))
    model.predict(QUERIES)
    assert not model.state().can_reject
    label(store, (9, "class 0"))
    assert model.state().can_reject


@pytest.mark.parametrize("kind", ["ncm", "second", "ncmc"])
def test_two_pictures_per_class_are_enough_to_separate_own_pictures_from_others(tmp_path, kind):
    draw = np.random.default_rng(4)
    centres = draw.normal(size=(20, 16)) * 3
    truth = np.repeat(np.arange(20), 8)
    rows = (centres[truth] + draw.normal(size=(160, 16))).astype(np.float32)
    store = Store(tmp_path / "many", create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("color()", ["color()"])
            store.vectors.create_space("plain", ["color()"], "color()")
        pending = store.vectors.write("color()", np.arange(160), rows)
        with store.transaction():
            store.items.add([Item(item, [], 1, 8, 8, "png", 0.0, None) for item in range(160)])
            store.vectors.commit(pending)
    label(store, *((8 * c + i, f"class {c}") for c in range(10) for i in (0, 1)))
    classes = Classes(Spaces(store))
    classes.use(kind=kind)
    unlabelled = np.array([item for item in range(160) if item % 8 > 1])
    found = classes.classify(unlabelled.tolist())
    suggested = np.array([one.label is not None for one in found])
    own = truth[unlabelled] < 10
    assert suggested[own].mean() > 0.8  # version 0.1 suggested nothing with kind="second"
    assert suggested[~own].mean() < 0.4
    chances = np.array([one.probability for one in found])
    assert chances[own].mean() > chances[~own].mean() + 0.3
    classes.use(kind="ncm")
    for c in range(1, 10):
        classes.delete(f"class {c}")
    alone = np.array([one.probability for one in classes.classify(unlabelled.tolist())])  # one class is left
    assert alone[truth[unlabelled] == 0].mean() > 0.5 > 0.2 > alone[truth[unlabelled] > 0].mean()
    store.close()
