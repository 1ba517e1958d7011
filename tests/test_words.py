import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lookalike.classes import OpenSet, Words, words
from lookalike.errors import InputError

WORDS = Words.load()


def lemmas(text):
    return [term.lemma for term in WORDS.read(text)]


def only(text):
    (term,) = WORDS.read(text)
    return term


def best(term, k=1):
    return [WORDS.classes[c] for c in np.argsort(-term.weights, kind="stable")[:k]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("birds", "bird"),
        ("Foxes", "fox"),
        ("puppies", "puppy"),
        ("firemen", "fireman"),
        ("geese", "goose"),
        ("Wolves", "wolf"),
        ("mice", "mouse"),
        ("the dog's", "dog"),
        ("fire engines", "fire engine"),
        ("snow geese", "snow goose"),
        ("sheep", "sheep"),
        ("glass", "glass"),
        ("sunglasses", "sunglasses"),
        ("cola", "cola"),
    ],
)
def test_plurals_are_read_as_their_singular(text, expected):
    assert lemmas(text) == [expected]


@pytest.mark.parametrize(
    "text", ["polar bear", "Polar Bears", "polar-bear", "polar_bear", "polarbear", "a “polar  bear”!"]
)
def test_a_name_of_several_words_is_one_term_however_it_is_written(text):
    assert lemmas(text) == ["polar bear"]


def test_the_longest_name_wins():
    assert lemmas("golden retriever and retriever") == ["golden retriever", "retriever"]
    assert lemmas("bear, polar bear") == ["bear", "polar bear"]


def test_punctuation_separates_names():
    assert lemmas("polar, bear")[-1] == "bear"
    assert lemmas("fire/engine") != lemmas("fire engine")


def test_stop_words_are_dropped_unless_they_are_part_of_a_name():
    assert lemmas("a photo of the dog on a boat with an umbrella") == ["dog", "boat", "umbrella"]
    assert lemmas("can opener") == ["can opener"]
    assert lemmas("bird of prey") == ["bird of prey"]
    assert lemmas("cab in a forest") == ["cab", "forest"]  # not "cabin"
    assert lemmas("The and of, a") == []


def test_terms_are_in_order_and_show_the_text_as_typed():
    terms = WORDS.read("Horses, zzxqy & Fire-Engines")
    assert [term.text for term in terms] == ["Horses", "zzxqy", "Fire-Engines"]


@pytest.mark.parametrize("text", ["", "   ", "?!", "\n\t", "...", "'"])
def test_a_text_without_words_has_no_terms(text):
    assert WORDS.read(text) == []


@pytest.mark.parametrize("text", ["happiness", "justice", "love", "zzxqy", "собака", "犬", "कुत्ता", "🐶", "12345"])
def test_words_that_say_nothing_about_pictures_are_unknown(text):
    term = only(text)
    assert (term.text, term.lemma, term.kinds) == (text, None, 0)
    assert not term.weights.any()


@given(st.text(max_size=words.MAX_CHARACTERS))
def test_any_text_is_read(text):
    place = 0
    for term in WORDS.read(text):
        place = text.index(term.text, place) + len(term.text)
        assert term.weights.shape == (1000,)
        assert term.weights.dtype == np.float32
        assert term.weights.min() >= 0
        assert term.weights.max() <= 1
        assert (term.lemma is None) == (not term.weights.any())


def test_a_text_that_is_too_long_is_rejected():
    with pytest.raises(InputError, match="at most 200 characters"):
        WORDS.read("dog " * 51)
    with pytest.raises(InputError, match="at most 200 characters"):
        WORDS.read(None)


def test_kinds_are_the_classes_with_full_weight_for_the_first_sense():
    bird = only("birds")
    assert bird.kinds == 59
    assert np.flatnonzero(bird.weights == 1).tolist() == [*range(7, 25), *range(80, 101), *range(127, 147)]
    assert only("poodle").kinds == 3
    assert only("golden retriever").kinds == 1


def test_the_name_of_a_class_finds_the_class():
    assert len(set(WORDS.classes)) == 1000
    assert (WORDS.classes[207], WORDS.classes[999]) == ("golden retriever", "toilet tissue")
    missed = []
    for c, name in enumerate(WORDS.classes):
        weights = [term.weights[c] for term in WORDS.read(name.split(" (")[0])]
        if max(weights) < words.LINKED**words.POWER * 0.9:
            missed.append(name)
    assert missed == []


def test_similar_classes_have_more_weight_than_others():
    assert best(only("polar bear"), 4)[0] == "ice bear"
    assert set(best(only("polar bear"), 4)[1:]) == {"brown bear", "American black bear", "sloth bear"}
    lion = only("lion").weights
    tiger, dog, truck = (lion[WORDS.classes.index(name)] for name in ("tiger", "beagle", "tow truck"))
    assert 1 > tiger > dog > truck


def test_the_first_sense_of_a_word_has_the_most_weight():
    crane = only("crane")
    assert crane.kinds == 2
    assert best(crane, 2) == ["crane (lifting device)", "crane (wading bird)"]
    assert crane.weights[134] < crane.weights[517] == 1


def test_classes_whose_definition_mentions_the_word_have_a_small_weight():
    snow = only("snow")
    assert snow.kinds == 0
    assert {"snowmobile", "snowplow", "ski"} <= set(best(snow, 8))
    assert 0.01 < snow.weights.max() < 0.1


def test_a_young_animal_finds_its_kind():
    for young, kind in (("kitten", "tabby"), ("puppy", "beagle"), ("foal", "sorrel")):
        term = only(young)
        assert term.weights[WORDS.classes.index(kind)] == term.weights.max()


@pytest.mark.parametrize("text", ["man", "woman", "people", "person", "human", "Homo sapiens", "child"])
def test_words_for_people_do_not_find_apes(text):
    apes = [WORDS.classes.index(name) for name in ("gorilla", "chimpanzee", "orangutan", "baboon")]
    for term in WORDS.read(text):
        assert term.weights[apes].max() < 1e-4


def test_unknown_words_get_similar_known_words():
    assert only("elefant").suggestions == ["elephant"]
    assert "giraffe" in only("girafe").suggestions
    assert only("zzxqy").suggestions == []
    assert only("elephant").suggestions == []


def test_completions_start_with_the_prefix_and_the_most_useful_is_first():
    assert WORDS.complete("do")[:2] == ["door", "dog"]
    assert "polar bear" in WORDS.complete("Polar-b")
    assert WORDS.complete("golden ret") == ["golden retriever"]
    assert len(WORDS.complete("s")) == 8
    assert len(WORDS.complete("s", k=20)) == 20
    assert WORDS.complete("") == WORDS.complete("zzxqy") == WORDS.complete("犬") == []
    with pytest.raises(InputError, match="k must be"):
        WORDS.complete("s", k=0)


def test_all_completions_are_known_words():
    for prefix in "abcdefghijklmnopqrstuvwxyz":
        for lemma in WORDS.complete(prefix, k=30):
            assert lemmas(lemma) == [lemma]


def test_the_hierarchy_gives_a_class_without_images_the_mean_of_its_relatives():
    random = np.random.default_rng(0)
    X = np.concatenate([random.normal(place, 0.1, (5, 2)) for place in ([-2, 0], [2, 0], [0, 9])])
    y = np.repeat(["beagles", "my old poodle", "truck"], 5)
    model = OpenSet("ncm").fit(X, y).add_class("golden retriever")
    model.use_hierarchy(WORDS.hierarchy([*model.classes_.tolist(), "zzxqy"]))
    assert model.predict([[0.0, 1.5]]).tolist() == ["golden retriever"]


def test_the_hierarchy_ignores_names_that_are_unknown():
    assert WORDS.hierarchy(["zzxqy", "", "happiness", "x" * 300]).pairs == []


def test_a_class_name_of_several_words_is_placed_by_its_last_noun():
    assert WORDS.hierarchy(["the beagle's red truck"]).ancestors("the beagle's red truck")[0] == "truck.n.01"


def test_names_of_the_tree_can_be_names_of_classes():
    tree = WORDS.hierarchy(["dog.n.01", "beagle"])
    assert "dog.n.01" in tree.ancestors("beagle")
    assert tree.ancestors("dog.n.01")[0] == "canine.n.02"


def test_the_table_is_small_and_has_its_licence():
    table = Path(words.__file__).with_name("wordnet.npz")
    assert table.stat().st_size < 1_500_000
    assert "Princeton University" in table.with_name("wordnet-licence.txt").read_text()


def test_importing_the_package_does_not_load_the_words():
    check = "import sys, lookalike.classes; sys.exit('lookalike.classes.words' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)
    assert Words.load() is Words.load()
