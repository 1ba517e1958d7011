"""Words on the command line: `search`, `feedback` and arguments that look like paths."""

import io
import json
import shutil
import sys
from pathlib import Path

import pytest


@pytest.fixture
def own(shared, tmp_path, monkeypatch):
    """A copy of a collection whose folders are named after what the pictures show; it has no kinds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    return Path(shutil.copytree(shared("color"), tmp_path / "own"))


def kinds_in(out):
    return [Path(line).parent.name for line in out.splitlines()]


def test_a_search_prints_what_it_understood_and_the_best_matches(call):
    code, out, err = call("search", "old fish in a howse", "-k", 3)
    assert (code, kinds_in(out)) == (0, ["fish"] * 3)
    assert err.splitlines() == [
        "old: unknown, ignored",
        "fish: 16 known kinds; 4 paths",
        "howse: unknown, ignored (similar words: hose, house, horse)",
    ]


def test_words_need_no_quotes(call):
    assert call("search", "fish", "near", "the", "house") == call("search", "fish near the house")


def test_negative_words_in_a_text_are_reported(call):
    assert call("search", "fish not house")[2].splitlines()[1].startswith("not: unknown, ignored")


def test_words_and_pictures_are_combined_and_can_be_negative(call, pictures):
    fish = pictures / "fish" / "fish-000.jpg"
    code, out, err = call(
        "search", "fish", "house", fish, "--not", "night", "--not", pictures / "beach" / "beach-000.jpg"
    )
    assert (code, kinds_in(out)[0]) == (0, "fish")
    assert [line.partition(":")[0] for line in err.splitlines()] == ["fish", "house", "night"]


def test_json_has_only_the_results(call):
    code, out, err = call("search", "fish", "-k", 2, "--json")
    assert (code, err) == (0, "")
    assert [result["score"] for result in json.loads(out)] == [0.55, 0.55]


@pytest.mark.parametrize("verb", ["search", "feedback"])
@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["fish.jpg"], "fish.jpg does not exist. To search for these words, give them with --words."),
        (["old/fish"], "old/fish does not exist. To search"),
        (["0f3a5c7e9b1d2f40"], "0f3a5c7e9b1d2f40 does not exist. To search"),
        (
            ["fish", "--not", "night.png"],
            "night.png does not exist. Give --not an existing picture, or words",
        ),
        (["./"], "./ is a folder, not a picture. To search"),
        (["elefant"], "Similar words: elephant."),
        ([""], "Words must have 1 to 200 characters. Got ''."),
        (["x" * 201], "Words must have 1 to 200 characters."),
        (["--not", "fish"], "needs at least one positive"),
    ],
)
def test_examples_that_mean_nothing_are_an_error(call, verb, given, message):
    code, out, err = call(verb, *given)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    "words", ['"fish', "fish*", "fish OR night", "NEAR(fish night)", "fish:night", "-fish", "fish\\0"]
)
def test_the_syntax_of_sqlite_has_no_meaning(call, words):
    assert call("search", "-k", 1, "--words", words)[0] == 0


def test_words_can_look_like_a_path(call):
    code, out, err = call("search", "--words", "old/fish.jpg", "-k", 2)
    assert (code, kinds_in(out)) == (0, ["fish"] * 2)
    assert "fish: 16 known kinds; 4 paths" in err.splitlines()


def test_a_folder_whose_name_is_given_without_a_slash_is_words(call, tmp_path):
    (tmp_path / "fish").mkdir()
    assert kinds_in(call("search", "fish", "-k", 1)[1]) == ["fish"]


def test_a_session_starts_from_positive_and_negative_words(call, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("yyy\n"))
    code, out, err = call("feedback", "fish", "--not", "night", "--window", 3, "--rounds", 1)
    assert code == 0
    assert err.splitlines()[:2] == ["fish: 16 known kinds; 4 paths", "night: 4 paths"]
    assert [Path(line).parent.name for line in out.splitlines() if "/3 " in line] == ["fish"] * 3
    assert "3 positive, 0 negative, 0 skipped." in out


def test_a_resumed_session_has_its_own_words(call):
    for given in (["fish"], ["--words", "fish"], ["--not", "fish"]):
        code, _, err = call("feedback", "--resume", "0f3a5c7e", *given)
        assert code == 2
        assert err.startswith("lookalike: --resume uses the session's own examples. Leave out IMAGE, WORDS, --words")
