"""Open-ended classes in a collection."""

import numpy as np
import pytest

from lookalike import Collection
from lookalike.collection import resolve
from lookalike.errors import ImageError, InputError, StoreError, UnknownNameError
from lookalike.images.demo import draw_folder
from lookalike.store.database import Database
from lookalike.types import format_id

pytestmark = pytest.mark.usefixtures("read_here")

KINDS = ("fish", "house", "flower", "night", "stripes")


@pytest.fixture
def with_classes(filled, pictures):
    """The filled collection with a class of three pictures for each of three kinds."""
    for kind in KINDS[:3]:
        filled.classes.add(kind, files(pictures, kind)[:3], author="anna")
    return filled


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    """Other pictures of the same kinds."""
    folder = tmp_path_factory.mktemp("more")
    draw_folder(folder, per_kind=2, random_state=77)
    return folder


def files(pictures, kind):
    return sorted((pictures / kind).iterdir())


def ids(collection, pictures, kind):
    return sorted(item.id for item in collection.items() if item.paths[0].startswith(f"{pictures / kind}/"))


def counts(collection):
    return {summary.name: (summary.pictures, summary.predicted) for summary in collection.classes.all()}


def test_a_new_class_is_immediately_used_for_predictions(with_classes, pictures, more):
    assert counts(with_classes) == {"fish": (3, 0), "flower": (3, 0), "house": (3, 0)}
    verdicts = with_classes.classify([files(pictures, "fish")[3], files(more, "house")[0]])
    assert [verdict.nearest for verdict in verdicts] == ["fish", "house"]
    assert [verdict.path for verdict in verdicts] == [str(files(pictures, "fish")[3]), str(files(more, "house")[0])]
    assert verdicts[0].id in ids(with_classes, pictures, "fish")
    assert verdicts[0].labels == []
    assert 1 > verdicts[0].probability > verdicts[0].runner_up_probability > 0
    assert with_classes.classify(files(pictures, "fish")[0])[0].labels == ["fish"]
    assert with_classes.classes.add("fish", files(pictures, "fish")) == 1  # only new pictures count


def test_pictures_are_given_by_path_id_folder_bytes_pixels_or_vector(with_classes, pictures):
    path = files(pictures, "house")[3]
    (item,) = {v.id for v in with_classes.classify(path)}
    vector = with_classes.vectors()[1][with_classes.vectors()[0] == item][0]
    alike = with_classes.classify([path, str(path), item, path.read_bytes(), vector])
    assert {verdict.nearest for verdict in alike} == {"house"}
    assert np.ptp([verdict.probability for verdict in alike]) < 1e-6
    assert alike[-1].id is alike[-1].path is None
    from lookalike.images.decoding import read

    assert with_classes.classify([read(path).pixels])[0].nearest == "house"
    assert with_classes.classes.add("night", pictures / "night") == 4
    with pytest.raises(InputError, match="lookalike add"):
        with_classes.classes.add("night", pictures / "sunset")
    with pytest.raises(InputError, match="is not in the collection"):
        with_classes.classes.add("night", files(pictures, "sunset")[0])
    with pytest.raises(InputError, match="No file or item"):
        with_classes.classes.add("night", "nowhere.jpg")
    assert counts(with_classes)["night"] == (4, 0)


def test_unreadable_pictures_are_reported_or_raise_an_error(with_classes, pictures, tmp_path):
    (tmp_path / "bad.jpg").write_bytes(b"no picture")
    told = {}
    verdicts = with_classes.classify([tmp_path / "bad.jpg", files(pictures, "fish")[0]], on_skip=told.__setitem__)
    assert len(verdicts) == 1
    assert told == {str(tmp_path / "bad.jpg"): "it is text, not an image"}
    assert with_classes.classify([tmp_path / "bad.jpg"], on_skip=told.__setitem__) == []
    with pytest.raises(ImageError, match=r"bad\.jpg"):
        with_classes.classify(tmp_path / "bad.jpg")
    with pytest.raises(InputError, match="NaN"):
        with_classes.classify(np.full(with_classes.vectors()[1].shape[1], np.nan, np.float32))


def test_many_files_are_read_in_other_processes_with_the_same_predictions(with_classes, pictures, more, monkeypatch):
    (more / "text.jpg").write_bytes(b"no picture")
    examples = [more, pictures / "fish", 12, with_classes.vectors()[1][0]]
    skipped, expected_skips = {}, {}
    expected = with_classes.classify(examples, on_skip=expected_skips.__setitem__)
    monkeypatch.setattr(resolve, "MANY_FILES", 4)
    assert with_classes.classify(examples, on_skip=skipped.__setitem__) == expected
    assert skipped == expected_skips
    assert skipped[str(more / "text.jpg")] == "it is text, not an image"
    with pytest.raises(ImageError, match=r"text\.jpg"):
        with_classes.classify(more)


def test_the_reasons_for_skipped_pictures_do_not_name_them(with_classes, tmp_path):
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "link.jpg").symlink_to("nowhere")
    told = {}
    with_classes.classify([tmp_path, "nowhere.jpg", 12], on_skip=told.__setitem__)
    assert told == {
        str(tmp_path / "empty.jpg"): "it is empty",
        str(tmp_path / "link.jpg"): "it is a broken link",
        "nowhere.jpg": "it is neither a file nor an item of the collection",
        format_id(12): "it is neither a file nor an item of the collection",
    }


def test_missing_classes_or_pictures_give_clear_errors(filled, collection, pictures):
    with pytest.raises(InputError, match="collection is empty"):
        collection.classify(files(pictures, "fish")[0])
    assert collection.classes.all() == []
    for verb in (lambda: filled.classify(files(pictures, "fish")[0]), filled.classes.predict, filled.classes.evaluate):
        with pytest.raises(InputError, match="No class has pictures in the collection yet"):
            verb()
    filled.classes.add("fish", files(pictures, "fish")[0])
    (verdict,) = filled.classify(files(pictures, "night")[0])
    assert (verdict.label, verdict.probability, verdict.runner_up) == ("fish", None, None)
    assert not filled.classes.can_reject()
    with pytest.raises(InputError, match="No class has two pictures"):
        filled.classes.predict()
    with pytest.raises(InputError, match="needs a class with at least two pictures"):
        filled.classes.evaluate()
    filled.classes.add("fish", files(pictures, "fish"))
    assert filled.classes.can_reject()  # one class is enough for "none of these"
    assert filled.classes.evaluate().strangers_none is None


def test_with_one_class_probabilities_need_two_pictures_of_it_and_another_picture(collection, pictures):
    fish, night = files(pictures, "fish"), files(pictures, "night")
    collection.add(pictures / "fish", recipes=["color"])
    for labelled in (fish[:1], fish):  # one picture, then all pictures of the collection
        collection.classes.add("fish", labelled)
        assert {found.probability for found in collection.classify([fish[1], night[0]])} == {None}
    collection.add(pictures / "house")
    near, far = collection.classify([fish[1], night[0]])
    assert 0 < far.probability < near.probability < 1


def test_the_error_for_an_unknown_name_suggests_the_nearest_one(with_classes, pictures):
    picture = files(pictures, "fish")[0]
    for verb in (
        lambda: with_classes.classes.show("fihs"),
        lambda: with_classes.classes.remove("fihs", picture),
        lambda: with_classes.classes.confirm("fihs", picture),
        lambda: with_classes.classes.reject("fihs", picture),
        lambda: with_classes.classes.delete("fihs"),
    ):
        with pytest.raises(UnknownNameError, match="Did you mean 'fish'"):
            verb()
    with pytest.raises(UnknownNameError, match="Known: kind, on_add, prior, reject, space"):
        with_classes.classes.use(knid="ncm")
    with pytest.raises(UnknownNameError, match="kind of class model"):
        with_classes.classes.use(kind="svm")
    with pytest.raises(UnknownNameError, match="No space"):
        with_classes.classes.use(space="deep")
    for reject in (0.0, 1.0, -1, "x"):
        with pytest.raises(InputError, match="reject must"):
            with_classes.classes.use(reject=reject)
    assert with_classes.classes.settings.kind == "ncm"


def test_predictions_are_not_labels_and_can_be_confirmed_or_rejected(with_classes):
    found = with_classes.classes.predict()
    assert sum(found.classes.values()) + found.none == 11  # all except the nine labelled ones
    (name, first), (other, wrong) = [
        (name, guess) for name in found.classes for guess in with_classes.classes.show(name).predicted
    ][:2]
    assert 0 < first.probability <= 1
    assert (first.space, first.model) == ("plain", f"ncm {with_classes._store.judgements.classes.changes(0)[0]}")
    assert with_classes.labels([first.item]) == {first.item: []}
    assert with_classes.label_counts() == {"fish": 3, "flower": 3, "house": 3}
    assert with_classes.classes.confirm(name, first.item, author="ben") == 1
    assert with_classes.labels([first.item]) == {first.item: [name]}
    (said,) = [said for said in with_classes.classes.show(name).members if said.item == first.item]
    assert (said.author, said.source) == ("ben", "confirmed")
    assert with_classes.classes.reject(other, wrong.item) == 1
    with_classes.classes.predict()
    assert wrong.item not in [guess.item for guess in with_classes.classes.show(other).predicted]
    assert with_classes.classify(wrong.item)[0].nearest != other


def test_predictions_are_removed_and_renamed_with_their_class(with_classes):
    with_classes.classes.use(reject=0.01)
    with_classes.classes.predict()
    before = counts(with_classes)
    with_classes.classes.rename("fish", "Fisch")
    with_classes.classes.merge("house", "flower", into="house")
    assert counts(with_classes) == {
        "Fisch": before["fish"],
        "house": tuple(sum(pair) for pair in zip(before["house"], before["flower"], strict=True)),
    }
    with_classes.classes.delete("house")
    assert counts(with_classes) == {"Fisch": before["fish"]}
    assert {found.nearest for found in with_classes.classify([item.id for item in with_classes.items()])} == {"Fisch"}


def test_new_pictures_are_classified_when_they_are_added(with_classes, more):
    report = with_classes.add(more / "fish", more / "house", workers=1)
    assert report.added == sum(report.predicted.values()) + report.none == 4
    assert set(report.predicted) <= {"fish", "house", "flower"}
    assert {name: n for name, (_, n) in counts(with_classes).items() if n} == report.predicted
    with_classes.classes.use(on_add=False)
    report = with_classes.add(more / "flower", workers=1)
    assert (report.added, report.predicted, report.none) == (2, {}, 0)
    assert report.notes == []


def test_an_add_without_classes_is_silent_and_one_that_cannot_classify_explains_why(filled, pictures, more):
    assert filled.add(more / "fish", workers=1).notes == []
    filled.classes.add("fish", files(pictures, "fish")[0])
    (note,) = filled.add(more / "house", workers=1).notes
    assert note.startswith("New pictures were not classified: No class has two pictures yet")
    filled.classes.add("fish", files(pictures, "fish")[1])
    report = filled.add(more / "night", workers=1)
    assert sum(report.predicted.values()) + report.none == 4  # including those of the previous add


def test_pictures_of_a_killed_add_are_classified_by_the_next(with_classes, more, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(with_classes.classes, "predict_new", lambda progress: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            with_classes.add(more / "fish", workers=1)
    report = with_classes.add(more / "fish", workers=1)
    assert (report.added, report.known) == (0, 2)
    assert sum(report.predicted.values()) + report.none == 2
    assert sum(with_classes.add(more / "fish", workers=1).predicted.values()) == 0


def test_predictions_never_change_labels(with_classes, pictures, more):
    with_classes.add(more / "fish", workers=1)
    here = [item for item in with_classes.items() if item.paths[0].startswith(str(more))]
    with_classes.classes.add("odd", [here[0].id])  # a label other than the prediction
    with_classes.classes.predict()
    assert with_classes.labels([here[0].id]) == {here[0].id: ["odd"]}
    predicted = {guess.item for name in counts(with_classes) for guess in with_classes.classes.show(name).predicted}
    labelled = {item.id for item in with_classes.items() if with_classes.labels([item.id])[item.id]}
    assert not predicted & labelled
    assert with_classes.verify() == []


def test_labels_of_removed_pictures_are_kept_and_used_when_they_are_added_again(with_classes, pictures):
    query = with_classes.vectors()[1][0]
    before = with_classes.classify(query)
    with_classes.remove(pictures / "fish")
    (fish,) = [summary for summary in with_classes.classes.all() if summary.name == "fish"]
    assert (fish.pictures, fish.elsewhere) == (0, 3)
    assert with_classes.classify(query)[0].nearest != "fish"
    assert with_classes.classes.show("fish").members == []
    with_classes.add(pictures / "fish", workers=1)
    assert with_classes.classify(query)[0].nearest == before[0].nearest
    assert with_classes.classify(query)[0].probability == pytest.approx(before[0].probability)


def test_labels_of_another_process_are_used(with_classes, pictures):
    night = files(pictures, "night")
    assert with_classes.classify(night[3])[0].nearest != "night"
    with Collection(with_classes.path) as other:
        other.classes.add("night", night[:3])
    assert with_classes.classify(night[3])[0].nearest == "night"


def test_a_refitted_space_rebuilds_the_class_model(with_classes, pictures):
    with_classes.classes.use(space=next(iter(with_classes.fit("metric = fourier() | fda(dim=2)"))))
    query = files(pictures, "house")[3]
    first = with_classes.classify(query)[0]
    with_classes.classes.add("night", pictures / "night")
    with_classes.fit("metric")
    again = with_classes.classify(query)[0]
    with Collection(with_classes.path) as other:
        fresh = other.classify(query)[0]
    assert again.probability == pytest.approx(fresh.probability, abs=1e-4)
    assert again.nearest == first.nearest == "house"
    with_classes.remove_space("metric")
    with pytest.raises(InputError, match=r"'metric', which was removed.*lookalike classes use --space plain"):
        with_classes.classify(query)
    report = with_classes.add(pictures / "sunset", workers=1)
    assert "New pictures were not classified: Classes use the space 'metric'" in report.notes[0]
    assert with_classes.classes.use(on_add=False).space == "metric"  # other settings can be set
    with_classes.classes.use(space="plain")
    assert with_classes.classify(query)[0].nearest == "house"
    with_classes.remove_space("plain")
    with pytest.raises(InputError, match="All spaces were removed"):
        with_classes.search(query)


def test_a_finished_session_is_a_class(filled, pictures):
    fish, house = ids(filled, pictures, "fish"), ids(filled, pictures, "house")
    session = filled.session(fish[0], author="anna")
    session.mark(relevant=fish[1:3], irrelevant=[fish[3], house[0]])
    done = filled.classes.add_session(session.id, "fish")
    assert (done.labelled, done.irrelevant) == (3, 2)
    assert counts(filled) == {"fish": (3, 0)}
    assert {said.source for said in filled.classes.show("fish").members} == {"session"}
    filled.classes.use(reject=0.01)
    filled.classes.predict()
    predicted = {guess.item for guess in filled.classes.show("fish").predicted}
    assert not predicted & {fish[3], house[0]}  # negatives are never predicted
    assert filled.classify(fish[3])[0].label is None
    with pytest.raises(InputError, match="No session"):
        filled.classes.add_session("00000000", "fish")


def test_negatives_of_a_session_are_no_longer_predicted(filled, pictures):
    fish = ids(filled, pictures, "fish")
    filled.classes.add("fish", fish[:2])
    filled._store.judgements.predictions.add([(fish[2], "fish", 0.9), (fish[3], "fish", 0.8)], space="plain", model="")
    assert filled.stats()["predictions"] == 2
    filled.remove(fish[3])
    assert filled.stats()["predictions"] == 1  # only pictures of the collection count
    session = filled.session(fish[0])
    session.mark(irrelevant=fish[2])
    session.finish("fish")
    assert filled.classes.show("fish").predicted == []


def test_a_name_with_old_rejections_can_be_used_again(filled, pictures):
    fish, house = ids(filled, pictures, "fish"), ids(filled, pictures, "house")
    filled._store.judgements.add_labels([(fish[0], "a")], author="anna", source="csv")
    filled.classes.add("b", fish[1:3])
    for name in "ab":
        filled.classes.reject(name, house[0])
    filled.classes.remove("a", fish[0])  # only its rejections remain
    assert filled.classes.rename("b", "a") == 2
    assert filled._store.judgements.predictions.rejected([house[0]]) == {house[0]: {"a"}}


def test_a_hierarchy_is_looked_up_by_the_names_of_the_classes(filled):
    filled.classes.add("zzxqy")
    with pytest.raises(InputError, match="No class has a name that WordNet knows"):
        filled.classes.named_hierarchy()
    filled.classes.add("my poodle")
    filled.classes.add("goldfish")
    filled.classes.set_hierarchy(filled.classes.named_hierarchy())
    parents = dict(filled.classes.hierarchy())
    assert (parents["my poodle"], parents["poodle.n.01"], parents["goldfish"]) == (
        "poodle.n.01",
        "dog.n.01",
        "goldfish.n.01",
    )
    assert "zzxqy" not in parents
    assert [one.name for one in filled.classes.all()] == ["goldfish", "my poodle", "zzxqy"]


def test_a_hierarchy_is_read_from_a_file_or_from_folders(with_classes, tmp_path):
    tree = tmp_path / "tree.csv"
    tree.write_text("child,parent\nfish,animal\nfox,animal\n")
    assert with_classes.classes.set_hierarchy(tree) == 2
    with_classes.classes.add("fox")
    assert [(s.name, s.pictures, s.parents) for s in with_classes.classes.all()][1:3] == [
        ("flower", 3, []),
        ("fox", 0, ["animal"]),
    ]
    (tmp_path / "sorted" / "animal" / "fish").mkdir(parents=True)
    (tmp_path / "sorted" / "animal" / "fox" / "red fox").mkdir(parents=True)
    with_classes.classes.set_hierarchy(tmp_path / "sorted")
    assert with_classes.classes.hierarchy() == [("fish", "animal"), ("fox", "animal"), ("red fox", "fox")]
    with Collection(with_classes.path) as other:
        assert len(other.classes.hierarchy()) == 3
    for bad, problem in (
        (tmp_path / "nowhere.csv", "Cannot read a hierarchy"),
        (tmp_path / "sorted" / "animal" / "fox", "needs nested folders"),
        ([("a", "b"), ("b", "a")], "no cycle"),
    ):
        with pytest.raises(InputError, match=problem):
            with_classes.classes.set_hierarchy(bad)
    assert len(with_classes.classes.hierarchy()) == 3


def test_a_read_only_collection_can_classify_but_not_be_labelled(with_classes, pictures, monkeypatch):
    path, fish = with_classes.path, files(pictures, "fish")[3]
    monkeypatch.setattr("lookalike.store.database.os.access", lambda *_: False)
    with Collection(path) as reader:
        assert isinstance(reader._store.judgements.database, Database)
        assert reader.classify(fish)[0].nearest == "fish"
        assert len(reader.classes.all()) == 3
        assert reader.classes.evaluate().pictures == 9
        for verb in (
            lambda: reader.classes.add("fish", fish),
            lambda: reader.classes.rename("fish", "Fisch"),
            reader.classes.predict,
        ):
            with pytest.raises(StoreError, match="is not writable"):
                verb()


def test_evaluation_classifies_each_picture_without_itself(filled, pictures):
    filled.import_labels(pictures)
    found = filled.classes.evaluate()
    assert (found.space, found.kind, found.pictures, found.classes, found.folds) == ("plain", "ncm", 20, 5, 4)
    at, X = filled.vectors()
    y = np.array([filled.labels([item])[item][0] for item in at.tolist()])
    rank = np.array([sum(y[:i] == name) for i, name in enumerate(y)])
    from lookalike.classes.open_set import OpenSet

    said = np.empty(20, dtype="U20")
    for fold in range(4):
        said[rank == fold] = OpenSet(reject=0.05).fit(X[rank != fold], y[rank != fold]).predict(X[rank == fold])
    assert found.accuracy == pytest.approx(np.mean(said == y))
    assert found.own_none == pytest.approx(np.mean(said == "none of these"))
    for figures in found.by_class:
        mine = said[y == figures.name]
        assert figures.right == pytest.approx(np.mean(mine == figures.name))
        assert figures.none == pytest.approx(np.mean(mine == "none of these"))
    wrong = [(t, s) for t, s in zip(y.tolist(), said.tolist(), strict=True) if s not in (t, "none of these")]
    assert sum(pair.pictures for pair in found.confused) == len(wrong)
    for pair in found.confused:
        mistaken = at[(y == pair.label) & (said == pair.predicted)].tolist()
        assert (pair.pictures, pair.ids) == (len(mistaken), mistaken)
    assert [figures.right for figures in found.by_class] == sorted(figures.right for figures in found.by_class)
    assert 0 <= found.strangers_none <= 1
    assert filled.classes.evaluate(kind="second").kind == "second"
    assert filled.classes.settings.kind == "ncm"


def test_evaluation_of_random_labels_is_at_chance_even_in_a_supervised_space(filled):
    random = np.random.default_rng(0)
    nonsense = [(int(item), "ab"[random.integers(2)]) for item in filled.vectors()[0]]
    filled._store.judgements.add_labels(nonsense, author="anna", source="hand")
    filled.fit("fda(dim=1)")
    filled.classes.use(space="fda", reject=0.01)
    fooled = [v.nearest == dict(nonsense)[v.id] for v in filled.classify([item for item, _ in nonsense])]
    assert np.mean(fooled) == 1.0  # the metric has memorised the labels
    assert filled.classes.evaluate().accuracy < 0.75


def test_one_class_cannot_be_evaluated_in_a_supervised_space(with_classes):
    with_classes.fit("fda(dim=2)")
    for kind in KINDS[1:3]:
        with_classes.classes.delete(kind)
    assert with_classes.classes.evaluate(space="plain").classes == 1
    with pytest.raises(InputError, match=r"needs pictures of two classes .* has 3 labelled pictures in 1 class\."):
        with_classes.classes.evaluate(space="fda")


def test_evaluation_handles_pictures_with_several_classes_and_classes_of_one_picture(with_classes, pictures):
    fish = files(pictures, "fish")
    with_classes.classes.add("animal", fish[:3])
    with_classes.classes.add("lonely", files(pictures, "night")[0])
    found = with_classes.classes.evaluate()
    assert found.pictures == 9
    assert found.notes == ["Classes with only one picture, which cannot be tested: 1."]
    by_name = {figures.name: figures for figures in found.by_class}
    assert (by_name["lonely"].judged, by_name["lonely"].right) == (0, None)
    assert by_name["fish"].right == by_name["animal"].right  # both names are correct


def test_adding_to_many_classes_reads_only_the_new_labels(filled, monkeypatch):
    from lookalike.collection import class_model

    names = [(int(item), f"class {i}") for i, item in enumerate(filled.vectors()[0])]
    filled._store.judgements.add_labels(names, author="anna", source="hand")
    filled.classify(names[0][0])
    looked = []
    examples = class_model._examples
    monkeypatch.setattr(
        class_model, "_examples", lambda pairs, index: looked.append(len(pairs)) or examples(pairs, index)
    )
    monkeypatch.setattr(filled._store.judgements.classes, "all_labels", None)  # the whole table is not read again
    filled.classes._names.add("new", [names[0][0]], author="anna")
    filled.classes._model._update()
    assert looked == [1]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (lambda made: made.session(id=5), "No session with the id 5"),
        (lambda made: made.session(label=5), "must be text .* Got 5"),
        (lambda made: made.session(label="fish", author=5), "An author must be text. Got 5"),
        (lambda made: made.session(label="fish").finish(5), "must be text .* Got 5"),
        (lambda made: made.session(label="fish").round("x"), "k must be a whole number of at least 1. Got 'x'"),
        (lambda made: made.session(label="fish").round(filter=5), "filter must be a Filter.* Got 5"),
        (lambda made: made.simulate(label="fish", rounds="x"), "rounds must be a whole number of at least 0"),
        (lambda made: made.simulate(label="fish", window=0), "window must be a whole number of at least 1"),
        (lambda made: made.simulate(label=5), "No label named '5'. Known: fish"),
        (lambda made: made.classes.add(5, []), "must be text .* Got 5"),
        (lambda made: made.classes.add("fish", [], author=5), "An author must be text. Got 5"),
        (lambda made: made.classes.add("fish", [], author="\ud800"), "An author must be text. Got"),
        (lambda made: made.classes.add_session(5), "No session with the id 5"),
        (lambda made: made.classes.split("fish", "eels", []), "the pictures of 'fish' to move to 'eels'. Got none"),
        (lambda made: made.classes.use(space=5), "space must be the name of a space"),
        (lambda made: made.classes.use(on_add="no"), "on_add must be True or False. Got 'no'"),
        (lambda made: made.classes.use(prior=True), "prior must be a number of pictures above 0. Got True"),
        (lambda made: made.classes.evaluate(space=5), "space must be the name of a space"),
        (lambda made: made.classes.set_hierarchy(5), r"pairs of names, \(child, parent\). Got 5"),
        (lambda made: made.classes.set_hierarchy([("cat",)]), "pairs of names"),
        (lambda made: made.search(made.vectors()[1][0], k=2.5), "k must be a whole number of at least 1. Got 2.5"),
        (lambda made: made.search(made.vectors()[1][0], effort=[]), r"effort must be a number above 0.* Got \[\]"),
        (lambda made: made.search(made.vectors()[1][0], space=5), "No space named '5'. Known: plain"),
        (lambda made: made.get(["a"]), r"Ids must be a list of integers. Got \['a'\]"),
        (lambda made: made.labels(5), "Ids must be a list of integers. Got 5"),
        (lambda made: made.add(5), "A path must be text or a Path. Got 5"),
        (lambda made: made.import_labels(None), "A path must be text or a Path. Got None"),
        (lambda made: made.export(5), "must be a path or an open text file. Got 5"),
        (lambda made: made.export(made.path / "x", format=5), "No format named '5'"),
    ],
)
def test_a_value_of_the_wrong_type_is_refused_with_a_clear_message(with_classes, wrong, message):
    with pytest.raises(InputError, match=message):
        wrong(with_classes)


def test_numpy_settings_are_stored_as_plain_numbers(with_classes):
    assert with_classes.classes.use(reject=np.float32(0.25)).reject == 0.25
    assert with_classes.classes.settings.reject == 0.25
