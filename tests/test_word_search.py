"""Searching by words: the network's kinds, the user's own words, and both combined with pictures."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike import Collection, Filter
from lookalike.classes import Words
from lookalike.classes.words import plurals, singulars
from lookalike.errors import InputError
from lookalike.features.kinds import encode_kinds
from lookalike.store.items import Item
from lookalike.text import split_words
from towers import KINDS, PIXELS

DOG, CAT, TIGER, BUS = 207, 281, 292, 779  # golden retriever, tabby, tiger, school bus
PATHS = {
    1: ("/photos/a/1.jpg", DOG),
    2: ("/photos/a/2.jpg", CAT),
    3: ("/photos/a/3.jpg", TIGER),
    4: ("/photos/a/4.jpg", BUS),
    5: ("/photos/garden party/5.jpg", BUS),
    6: ("/photos/a/my dogs.jpg", BUS),
    7: ("/photos/a/hotdog_7.jpg", BUS),
}


@pytest.fixture
def collection(tmp_path):
    """Seven pictures whose kinds, paths and vectors are known; picture 7 is most similar to picture 1."""
    with Collection(tmp_path / "c", create=True) as collection:
        store = collection._store
        P = np.full((len(PATHS), 1000), 1e-5, np.float32)
        P[np.arange(len(PATHS)), [kind for _, kind in PATHS.values()]] = 0.9
        X = np.random.default_rng(0).normal(size=(len(PATHS), 1280)).astype(np.float32)
        X[6] = X[0] + 0.1 * X[6]
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        ids = np.array(list(PATHS), np.int64)
        with store.writer():
            collection._spaces.create(["deep-plain"])
            rows = store.vectors.write("efficientnet()", ids, X)
            kinds = store.vectors.write(collection._spaces.kinds.name, ids, encode_kinds(P))
            with store.transaction():
                store.items.add_source("/photos")
                store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
                store.items.link([(path, 1, 1, item) for item, (path, _) in PATHS.items()])
                store.vectors.commit(rows)
                store.vectors.commit(kinds)
        yield collection


def found(collection, *words, **options):
    return [result.id for result in collection.search(words=list(words), **options)]


def test_the_classes_of_the_test_are_those_of_the_network():
    names = [Words.load().classes[number] for number in (DOG, CAT, TIGER, BUS)]
    assert names == ["golden retriever", "tabby", "tiger", "school bus"]


def test_a_word_finds_the_kinds_below_it(collection):
    assert found(collection, "tiger")[0] == 3
    assert set(found(collection, "feline", k=2)) == {2, 3}
    assert found(collection, "retriever")[0] == 1


def test_the_best_pictures_of_several_segments_are_found(collection):
    store, random = collection._store, np.random.default_rng(1)
    for start in range(100, 500, 100):
        ids = np.arange(start, start + 100)
        P = np.full((100, 1000), 1e-5, np.float32)
        P[:, DOG], P[:, BUS] = random.permuted(np.linspace(0.1, 0.9, 100)), 0.05
        with store.writer(), store.transaction():
            store.items.add([Item(int(i), [], 1, 1, 1, "jpeg", 0.0, None) for i in ids])
        with store.writer():
            rows = store.vectors.write(collection._spaces.kinds.name, ids, encode_kinds(P))
            with store.transaction():
                store.vectors.commit(rows)
    everything = found(collection, "retriever", k=1000)
    assert len(everything) > 400
    for k in (1, 7, 150):
        assert found(collection, "retriever", k=k) == everything[:k]


def test_scores_are_best_first_and_pictures_without_a_match_are_left_out(collection):
    results = collection.search(words="tiger")
    scores = [result.score for result in results]
    assert scores == sorted(scores)
    assert 0 <= scores[0] < 1
    assert 4 not in [result.id for result in results]


def test_names_of_files_and_folders_count_as_words(collection):
    assert set(found(collection, "dogs", k=2)) == {1, 6}  # not 7: "hotdog" is another word
    assert found(collection, "party") == [5]
    assert collection.understand("garden party")[0].paths == 1
    with pytest.raises(InputError, match="'photosx' is unknown"):
        found(collection, "photosx")


def place(collection, *paths, source="/photos"):
    """Add pictures 11, 12, … with these paths, and without kinds."""
    store = collection._store
    with store.writer(), store.transaction():
        store.items.add_source(source)
        store.items.add([Item(item, [], 1, 1, 1, "jpeg", 0.0, None) for item, _ in enumerate(paths, 11)])
        store.items.link([(path, 1, 1, item) for item, path in enumerate(paths, 11)])


def paths_with(collection, words):
    return [meaning.paths for meaning in collection.understand(words)]


def test_folders_above_a_source_do_not_count_as_words(collection):
    place(
        collection, "/home/anna/tigers/trip/a.jpg", "/home/anna/tigers/trip/anna.jpg", source="/home/anna/tigers/trip"
    )
    assert paths_with(collection, "anna") == [1]
    assert paths_with(collection, "tigers") == [0]
    assert paths_with(collection, "trips") == [2]
    assert paths_with(collection, "dogs") == [1]


def test_only_file_names_count_in_a_list_of_paths(collection):
    place(collection, "/disk/wolves/a.jpg", "/disk/b/wolf.jpg", source="/home/anna/list.txt")
    assert paths_with(collection, "wolf") == [1]


def test_accents_plurals_and_hyphens_do_not_matter_in_paths(collection):
    place(collection, "/photos/Strände/Größe.jpg", "/photos/T-Shirts_3.jpg", "/photos/stories/red-car.jpg")
    for words, n in {"grosse": 1, "STRÄNDE": 1, "strande": 1, "t-shirt": 1, "story": 1, "cars": 1}.items():
        assert sum(paths_with(collection, words)) == n, words
    assert paths_with(collection, "shirt story") == [1, 1]
    assert sum(paths_with(collection, "3")) == 0


def test_irregular_plurals_do_not_matter_in_paths_and_labels(collection):
    place(collection, "/photos/children/1.jpg", "/photos/tomato/2.jpg", "/photos/knives_3.jpg")
    for words in ("child", "children", "tomatoes", "tomato", "knife"):
        assert paths_with(collection, words) == [1], words
    collection.classes.add("geese", [11])
    assert [meaning.labels for meaning in collection.understand("goose")] == [{"geese": 1}]


@pytest.mark.parametrize("words", ["grandma's house", "Grandma’s houses", "grandma house"])
def test_the_s_of_a_possessive_does_not_matter(collection, words):
    place(collection, "/photos/my grandma/house.jpg", "/photos/Grandma's house/2.jpg")
    assert paths_with(collection, words) == [2, 2]


def test_copies_of_a_picture_count_once(collection):
    place(collection, "/photos/sand/1.jpg")
    with collection._store.writer(), collection._store.transaction():
        collection._store.items.link([("/photos/more sand/1.jpg", 1, 1, 11)])
    assert paths_with(collection, "sand") == [1]


def test_the_words_of_removed_pictures_are_found_again_after_an_undo(collection):
    removed = collection.remove(6)
    assert paths_with(collection, "dogs") == [0]
    collection.undo(removed.action)
    assert paths_with(collection, "dogs") == [1]


@given(st.text("abchimnosxyzé", min_size=1), st.text("abchimnosxyzé", min_size=1))
def test_words_match_if_they_have_a_form_in_common(word, other):
    """Searches use the plurals of the forms of a word, because only the words themselves are stored."""
    assert all(word in singulars(plural) for plural in plurals(word))
    assert all(word in plurals(singular) for singular in singulars(word))
    assert split_words(word) == split_words(split_words(word)[0])


def test_labels_outrank_the_network(collection):
    collection.classes.add("tiger cub", [4])
    assert found(collection, "tiger", k=2) == [4, 3]
    assert collection.understand("tigers")[0].labels == {"tiger cub": 1}


def test_a_text_of_stop_words_finds_labels_and_folders(collection):
    place(collection, "/photos/May/1.jpg")
    collection.classes.add("Will", [4])
    assert found(collection, "will") == [4]
    assert found(collection, "a photo of Will", k=1) == [4]
    assert found(collection, "may") == [11]
    with pytest.raises(InputError, match="no word to search for"):
        found(collection, "the")


def test_a_predicted_class_counts_by_its_probability(collection):
    collection.classes.add("pet", [1])
    collection._store.judgements.predictions.add([(4, "pet", 0.8)], space="deep-plain", model="ncm 1")
    assert found(collection, "pet", k=2) == [1, 4]


def test_labels_of_removed_pictures_are_not_found(collection):
    collection.classes.add("tiger cub", [4])
    collection.remove(4)
    assert found(collection, "tiger", k=1) == [3]


def test_several_words_must_all_match(collection):
    collection.classes.add("beach", [1, 4])
    assert found(collection, "retriever on the beach")[0] == 1


def test_negative_words_and_pictures_lower_the_rank(collection):
    assert found(collection, "feline", without_words="tiger", k=1) == [2]
    collection.classes.add("pet", [1, 2])
    assert found(collection, "pet", without=[1], k=1) == [2]


def test_words_are_combined_with_pictures(collection):
    assert [result.id for result in collection.search(1, words="bus", k=1)] == [7]  # a bus that is similar to picture 1
    assert [result.id for result in collection.search(3, words="feline", k=2)] == [3, 2]


def test_filters_apply(collection):
    assert found(collection, "feline", filter=Filter(path="*/2.jpg")) == [2]
    assert found(collection, "party", filter=Filter(path="*/2.jpg")) == []


def test_unknown_words_are_explained(collection):
    with pytest.raises(InputError, match="Similar words: elephant"):
        found(collection, "elefant")
    (word,) = collection.understand("elefant")
    assert not word.is_known
    assert "unknown, ignored (similar words: elephant" in word.summary
    assert found(collection, "elefant tiger")[0] == 3


def test_only_unknown_words_have_similar_words(collection):
    assert collection.understand("elefant")[0].suggestions
    collection.classes.add("elefant", [4])
    assert not collection.understand("elefant")[0].suggestions


def test_a_text_without_letters_is_not_called_unknown(collection):
    collection.classes.add("2019", [1])
    with pytest.raises(InputError, match=r"'2019' has no letters.*filter by label"):
        found(collection, "2019")


@pytest.mark.parametrize("words", ["", "  ", "the", "!?", "x" * 201])
def test_text_without_words_is_rejected(collection, words):
    with pytest.raises(InputError):
        found(collection, words)


def test_rerank_and_where_need_pictures(collection):
    for option in ("rerank", "where"):
        with pytest.raises(InputError, match="search by words"):
            found(collection, "tiger", **{option: True})
    with pytest.raises(InputError, match="at least one positive"):
        collection.search(without_words="tiger")


def test_completions_are_labels_folders_and_kinds(collection):
    collection.classes.add("tiger cub", [1])
    assert collection.complete("tig")[:2] == ["tiger cub", "tiger"]
    assert "garden party" in collection.complete("garde")
    assert collection.complete("Garden P")[0] == "garden party"
    assert "hotdog_7.jpg" not in collection.complete("hotd")
    assert collection.complete(" ") == []


def test_completions_start_with_the_last_words_of_a_text(collection):
    assert collection.complete("my garden p")[0] == "garden party"
    assert collection.complete("bus not polar b")[0] == "polar bear"
    collection.classes.add("bus stop", [1])
    assert collection.complete("garden bus s")[0] == "bus stop"
    assert "tiger" in collection.complete("bus tige")
    assert collection.complete("bus t") == []  # one letter starts too many words


def test_a_session_starts_from_words(collection):
    session = collection.session(words="feline", name="cats")
    assert {result.id for result in session.best(2)} == {2, 3}
    again = collection.session(id=session.id)
    assert [result.id for result in again.best(7)] == [result.id for result in session.best(7)]
    with pytest.raises(InputError, match="Give only its id"):
        collection.session(words="feline", id=session.id)


def test_a_session_from_words_asks_about_their_results_until_three_pictures_are_positive(collection):
    session = collection.session(words="bus")
    assert [(example.words, example.positive) for example in session.examples] == [("bus", True)]
    assert found(collection, "bus") == [4, 5, 6, 7]
    assert [item.id for item in session.round(window=2).questions] == [4, 5]
    session.mark(irrelevant=4, skip=5)
    assert [item.id for item in session.round(window=2).questions] == [6, 7]
    session.mark(relevant=[1, 2, 3])  # picture 7 is most similar to picture 1
    assert [item.id for item in session.round(window=1).questions] == [7]


def test_negative_words_of_a_session_lower_the_rank_of_their_matches(collection):
    session = collection.session(words="feline", without_words="tiger")
    assert [(example.words, example.positive) for example in session.examples] == [("feline", True), ("tiger", False)]
    assert [item.id for item in session.round(window=2).questions] == found(collection, "feline", without_words="tiger")
    ranked = [result.id for result in session.best(7)]
    assert ranked.index(2) < ranked.index(3)
    with pytest.raises(InputError, match="as positive and as negative"):
        collection.session(words="tiger", without_words="tiger")
    with pytest.raises(InputError, match="at least one positive example"):
        collection.session(without_words="tiger")


def test_a_session_from_words_continues_when_its_words_became_unknown(collection):
    collection.classes.add("blorbs", [1, 2])
    session = collection.session(words="blorbs")
    collection.classes.delete("blorbs")
    assert len(session.round(window=2).questions) == 2


def test_a_collection_without_kinds_explains_what_is_missing(tmp_path, collection):
    collection.remove_space("deep-plain")
    collection.classes.add("tiger", [4])
    assert found(collection, "tiger") == [4]
    with pytest.raises(InputError, match="--recipe deep"):
        found(collection, "bus")


def test_a_collection_of_an_older_version_is_refreshed_and_needs_no_recipe(collection):
    store = collection._store
    with store.writer(), store.transaction():
        store.vectors.drop_space(collection._spaces.kinds.name)
    for _ in ("before a command creates the kinds", "after it"):
        with pytest.raises(InputError, match=r"recognize them: lookalike refresh$"):
            found(collection, "bus")
        with store.writer():
            collection._spaces.create_kinds()


def test_an_empty_collection_has_no_results(tmp_path):
    with Collection(tmp_path / "empty", create=True) as empty:
        empty.add(tmp_path, recipes="deep-plain")
        assert found(empty, "bus") == []


@pytest.fixture(scope="module")
def clipped(pictures, towers, tmp_path_factory):
    """A collection with a text encoder; its paths do not contain the names of kinds, but the number of the kind."""
    folder = tmp_path_factory.mktemp("clipped")
    (folder / "album").mkdir()
    for number, kind in enumerate(KINDS):
        for picture in sorted((pictures / kind).iterdir()):
            shutil.copy(picture, folder / "album" / f"{number}-{picture.name[-7:]}")
    with Collection(folder / "collection", create=True) as collection:
        collection.add_clip(*towers, **PIXELS)
        collection.add(folder / "album", workers=1)
        yield collection


def kinds_found(results):
    return {KINDS[int(Path(result.path).name[0])] for result in results}


@pytest.mark.usefixtures("read_here")
def test_a_space_with_a_text_encoder_answers_words(clipped):
    for kind in KINDS:
        assert kinds_found(clipped.search(words=kind, k=3)) == {kind}
    scores = [result.score for result in clipped.search(words="night", k=20)]
    assert scores == sorted(scores)
    assert 0 <= scores[0] < 0.2


@pytest.mark.usefixtures("read_here")
def test_words_that_a_text_encoder_compares_are_not_unknown(clipped):
    assert "sunset" not in Words.load().complete("sunset")
    for meanings in (clipped.understand("sunset"), clipped.search(words="sunset").understood):
        assert [meaning.summary for meaning in meanings] == ["sunset: compared by the text encoder of clip"]
        assert meanings[0].is_known
        assert not meanings[0].suggestions


@pytest.mark.usefixtures("read_here")
def test_the_users_own_words_come_before_the_text_encoder(clipped):
    night, *_ = clipped.search(words="night", k=1)
    clipped.classes.add("sunset", [night.id])
    assert clipped.search(words="sunset", k=1)[0].id == night.id
    assert "sunset" in kinds_found(clipped.search(words="sunset", k=2))
    clipped.classes.delete("sunset")


@pytest.mark.usefixtures("read_here")
def test_the_likelihood_of_results_of_a_text_encoder_comes_from_distances(clipped, monkeypatch):
    monkeypatch.setattr("lookalike.collection.likelihood.MIN_PICTURES", len(clipped))
    results = clipped.search(words="night", k=20, likely=0)
    assert results.estimated_from == "the distances of 20 random pictures, which is optimistic"
    shares = [result.likely for result in results]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > shares[-1] >= 0
    kept = clipped.search(words="night", k=20, likely=shares[0])
    assert len(kept) < 20
    assert kinds_found(kept[:3]) == {"night"}


@pytest.mark.usefixtures("read_here")
def test_a_session_can_start_from_a_text_encoder(clipped):
    assert kinds_found(clipped.session(words="night").best(3)) == {"night"}
