"""Saved searches: they repeat a search, and report the pictures that were added since the user last looked."""

import shutil
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

from damage import change_rows
from lookalike import Collection, Crop, Filter
from lookalike.errors import FormatError, InputError, UnknownNameError
from lookalike.store.judgements import Judgements
from lookalike.store.saved_searches import MAX_SAVED

pytestmark = pytest.mark.usefixtures("read_here")

GOLDEN = Path(__file__).parent / "golden"


@pytest.fixture
def own(shared, tmp_path):
    """A writable collection of pictures of fish and houses."""
    with Collection(shutil.copytree(shared("color", "fish", "house"), tmp_path / "own")) as collection:
        yield collection


def altered(folder, pictures, kind, number):
    """Copy a picture with other bytes, so that it is a new item."""
    target = folder / f"{kind}-new-{number}.jpg"
    target.write_bytes((sorted((pictures / kind).glob("*.jpg"))[number]).read_bytes() + bytes([number]))
    return target


def ids(results):
    return [(found.id, found.score) for found in results]


@pytest.mark.parametrize(
    "options",
    [
        {"k": 5},
        {"k": 5, "filter": Filter(path="*fish*", min_side=10)},
        {"k": 5, "filter": Filter(labelled=False, orientation="landscape", relative=True)},
        {"k": 8, "within": 0.3, "space": "color"},
        {"k": 4, "rerank": True},
    ],
)
def test_a_saved_search_repeats_a_search(own, pictures, options):
    first, second, third = (item.id for _, item in zip(range(3), own.items(), strict=False))
    outside = pictures / "night" / "night-000.jpg"
    box = Crop(second, (0.1, 0.1, 0.7, 0.8))
    vector = own.describe([third])[0]
    for number, examples in enumerate([[first], [outside, box], [vector]]):
        saved = own.saved_searches.save(f"search {number}", examples, without=[second], author="anna", **options)
        assert saved.author == "anna"
        with Collection(own.path) as again:
            run = again.saved_searches.run(saved.id)
        expected = own.search(examples, without=[second], **options)
        assert np.allclose([score for _, score in ids(run.results)], [score for _, score in ids(expected)], atol=1e-5)
        assert {found.id for found in run.results} == {found.id for found in expected}
        assert (run.new, run.notes, run.search) == ([], [], saved)
        assert saved.query.filter == options.get("filter")


def test_an_example_from_outside_is_needed_only_once(own, tmp_path, pictures):
    copy = Path(shutil.copy(pictures / "night" / "night-000.jpg", tmp_path / "mine.jpg"))
    item = next(own.items(Filter(path="fish/*")))
    box = Crop(item.id, (0.2, 0.2, 0.9, 0.9))
    saved = own.saved_searches.save("both", [copy, box], k=3, filter=Filter(path="house/*"))
    before = own.saved_searches.run("both")
    copy.unlink()
    own.remove(item.id)
    run = own.saved_searches.run(saved.id)
    assert run.notes == []
    assert ids(run.results) == ids(before.results)
    assert [example.name for example in saved.query.positive] == [str(copy), None]


def test_new_results_are_those_that_were_added_after_the_search_was_seen(own, pictures, tmp_path):
    fish = sorted((pictures / "fish").glob("*.jpg"))[0]
    options = {"k": 6, "filter": Filter(path="*fish*")}
    own.saved_searches.save("fish", fish, **options)
    assert own.saved_searches.count_new("fish") == 0
    folder = tmp_path / "more"
    folder.mkdir()
    for number in range(3):
        altered(folder, pictures, "fish", number)
        altered(folder, pictures, "house", number)
    known = {item.id for item in own.items()}
    own.add(folder)
    run = own.saved_searches.run("fish")
    expected = [found.id for found in own.search(fish, **options)]  # brute force: in the results, and not known before
    assert [found.id for found in run.results] == expected
    assert run.new == [item for item in expected if item not in known]
    assert 0 < len(run.new) == own.saved_searches.count_new("fish") < 6
    altered(folder, pictures, "fish", 3)
    own.refresh()
    own.saved_searches.mark_seen("fish", until=run.newest)  # the last picture was added after this run
    later = own.saved_searches.run("fish")
    assert set(later.new).isdisjoint(run.new)
    assert len(later.new) == 1
    own.saved_searches.mark_seen("fish")
    assert own.saved_searches.count_new("fish") == 0
    assert own.saved_searches.get("fish").seen_at > run.search.seen_at
    own.saved_searches.mark_seen("fish", until=1e18)  # a client cannot hide later pictures
    own.remove(str(folder))
    own.add(folder)
    assert own.saved_searches.count_new("fish") > 0


def test_removed_examples_are_left_out_with_a_note(own):
    first, second = (item.id for _, item in zip(range(2), own.items(), strict=False))
    own.saved_searches.save("pair", [first, second], k=3)
    own.remove(first)
    run = own.saved_searches.run("pair")
    assert ids(run.results) == ids(own.search(second, k=3))
    assert run.notes == [f"The example {first:016x} is no longer in the collection."]
    own.remove(second)
    with pytest.raises(InputError, match=r"has no positive example left.*lookalike saved delete"):
        own.saved_searches.run("pair")


def test_a_vector_of_another_feature_is_left_out_with_a_note(own, pictures):
    outside = pictures / "night" / "night-000.jpg"
    saved = own.saved_searches.save("mixed", [outside, next(own.items()).id])
    own.close()
    file = own.path / "judgements.sqlite"
    with closing(Judgements(file)) as judgements:
        query = judgements.saved_searches.get(saved.id).query
        query["positive"][0]["feature"] = "other()"
        changed = judgements.saved_searches.add("changed", query, newest=0.0, author="x")
    with Collection(own.path) as again:
        run = again.saved_searches.run(changed)
        assert len(run.notes) == 1
        assert "night-000.jpg is ignored: another feature computed its vector" in run.notes[0]


def test_searches_are_listed_renamed_and_removed(own):
    item = next(own.items()).id
    searches = own.saved_searches
    beach = searches.save("beach", item, words=["sea"], without_words="city", k=7, likely=0.8)
    assert beach.query.summary == "“sea”, 1 picture, not “city”; the 7 best; at least 80 % likely"
    searches.save("Ärger", item)
    searches.save(" any ", item)
    assert [search.name for search in searches.all()] == ["any", "beach", "Ärger"]
    assert searches.get(beach.id) == searches.get("beach") == beach
    with pytest.raises(InputError, match=r"'beach' is already saved\. Choose another name"):
        searches.save("beach", item)
    with pytest.raises(InputError, match="already saved"):
        searches.rename("any", "beach")
    assert searches.rename("beach", "beach").name == "beach"
    assert searches.rename("beach", "shore").id == beach.id
    searches.remove("shore")
    with pytest.raises(UnknownNameError, match="No saved search named 'shore'"):
        searches.get("shore")
    for call in (searches.run, searches.mark_seen, searches.remove, searches.count_new):
        with pytest.raises(UnknownNameError):
            call("\ud800")


def test_a_search_that_cannot_run_is_not_saved(own):
    item = next(own.items()).id
    for wrong in ({"k": 0}, {"likely": 2}, {"within": -1}, {"space": "nothing"}):
        with pytest.raises(InputError):
            own.saved_searches.save("x", item, **wrong)
    with pytest.raises(InputError, match="at least one positive"):
        own.saved_searches.save("x", without=item)
    for name in ("", " ", "x" * 2_000, "\ud800"):
        with pytest.raises(InputError, match="name of a saved search"):
            own.saved_searches.save(name, item)
    assert own.saved_searches.all() == []


def test_the_number_of_saved_searches_is_limited(tmp_path):
    (tmp_path / "j.sqlite").touch()
    with closing(Judgements(tmp_path / "j.sqlite")) as judgements:
        columns = "(id, name, author, query, created_at, seen_at, newest)"
        with judgements.database.transaction() as db:
            db.executemany(
                f"INSERT INTO saved_searches {columns} VALUES (?1, ?1, 'x', '{{}}', 0, 0, 0)",
                [(f"s{number}",) for number in range(MAX_SAVED)],
            )
        with pytest.raises(InputError, match="at most 1,000 saved searches"):
            judgements.saved_searches.add("one more", {}, newest=0.0, author="x")


def test_the_golden_judgements_of_format_7_can_be_read(tmp_path):
    shutil.copytree(GOLDEN / "v14", tmp_path / "c")
    name = "größe \udcff"
    with closing(Judgements(tmp_path / "c" / "judgements.sqlite")) as judgements:
        empty, saved = judgements.saved_searches.all()
        assert (empty.name, empty.query, empty.newest) == ("empty", {}, 0)
        assert (saved.name, saved.author, saved.newest) == (name, name, 1e9)
        assert saved.query == {"words": ["größe"], "filter": {"path": f"*{name}*"}, "k": 50}
        assert saved.seen_at >= saved.created_at > 1e9
        judgements.saved_searches.rename(saved.id, "other")
        assert judgements.database.verify() == []


def test_judgements_of_format_6_get_saved_searches(tmp_path):
    shutil.copytree(GOLDEN / "v11", tmp_path / "c")
    with closing(Judgements(tmp_path / "c" / "judgements.sqlite")) as judgements:
        judgements.saved_searches.add("first", {"k": 1}, newest=2.0, author="anna")
        assert [(one.name, one.query) for one in judgements.saved_searches.all()] == [("first", {"k": 1})]
        assert len(judgements.actions) == 4
        assert judgements.database.verify() == []


def test_damaged_searches_are_found_and_restored_from_a_backup(own, tmp_path):
    item = next(own.items()).id
    own.saved_searches.save("kept", item, k=3)
    own.backup(tmp_path / "backup")
    own.saved_searches.save("lost", item, k=3)
    own.close()
    change_rows(own.path / "judgements.sqlite", "UPDATE saved_searches SET newest = newest + 1")
    with Collection(own.path) as again:
        assert "2 rows of saved_searches do not match their digest" in again.verify()[0]
    assert "1 row restored from the backup, 1 row removed" in str(
        Collection.repair(own.path, backup=tmp_path / "backup").done
    )
    with Collection(own.path) as again:
        assert [search.name for search in again.saved_searches.all()] == ["kept"]
        assert again.saved_searches.count_new("kept") == 0
        assert again.verify() == []


def test_a_query_of_a_newer_version_is_named_and_can_be_deleted(own):
    saved = own.saved_searches.save("old", next(own.items()).id)
    rows = own._store.judgements.saved_searches
    query = rows.get(saved.id).query | {"filter": {"colour": "red"}}
    newer = rows.add("newer", query, newest=0.0, author="x")
    with pytest.raises(FormatError, match=r"'newer' was written by a newer Lookalike.*colour.*saved delete"):
        own.saved_searches.run(newer)
    own.saved_searches.remove(newer)
    assert own.saved_searches.all() == [saved]
