"""Paths relative to their source, and patterns that match them."""

import sqlite3

import pytest

from lookalike import Collection, Filter
from lookalike.errors import InputError
from lookalike.images.demo import draw_folder
from lookalike.images.sources import matcher, relative_to


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        ("/a/Pictures/2024/x.jpg", "Pictures/2024/x.jpg"),
        ("/a/Pictures/2024/old.zip::deep/x.jpg", "Pictures/2024/old.zip::deep/x.jpg"),
        ("/a/Pictures2/x.jpg", "x.jpg"),  # no known source contains it
        ("/a/new.zip::deep/x.jpg", "new.zip::deep/x.jpg"),
        ("/b/one.jpg", "one.jpg"),
        ("/b/two.jpg", "two.jpg"),
        ("/c/sub/x.jpg", "c/sub/x.jpg"),
        ("/a/Pictures", "Pictures"),
        ("x.jpg", "x.jpg"),
    ],
)
def test_a_path_is_shown_from_the_name_of_its_outermost_source(path, shown):
    sources = ["/a/Pictures/2024", "/a/Pictures", "/a/new.zip", "/b/one.jpg", "/b/list.txt", "/c/*/x.jpg"]
    assert relative_to(sources)(path) == shown


def test_all_paths_are_inside_the_root_folder():
    assert relative_to(["/"])("/a/x.jpg") == "a/x.jpg"


@pytest.mark.parametrize(
    "pattern", ["x", "*x*", "a/x", "a/*", "?/x", "[a-b]/x", "[!a]/x", "[^a]/x", "[x", "[]x]", "*", "a"]
)
def test_patterns_match_relative_paths_with_the_rules_of_sqlite(pattern):
    paths = ["x", "a/x", "b/x", "c/a/x", "z::a/x", "z::x", "[x", "a/]", "a", "xa/b"]
    globs = [pattern.replace("[!", "[^"), pattern.replace("[", "[[]")]
    globs = [begin + one for begin in ("", "*/", "*::") for one in globs]
    query = " OR ".join(["? GLOB ?"] * len(globs))
    for path in paths:
        values = [value for one in globs for value in (path, one)]
        expected = bool(sqlite3.connect(":memory:").execute(f"SELECT {query}", values).fetchone()[0])
        assert matcher(pattern)(path) is expected, path


def test_a_collection_filters_and_exports_relative_paths(tmp_path):
    draw_folder(tmp_path / "above" / "Pictures", per_kind=1, random_state=0)
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(tmp_path / "above" / "Pictures", recipes="color", workers=1)
        assert list(collection.items(Filter(path="*above*", relative=True))) == []
        everything = list(collection.items(Filter(path="Pictures/*", relative=True)))
        assert len(everything) == len(collection) == len(list(collection.items(Filter(path="*above*"))))
        shown = collection.relative_paths()
        lines = "".join(collection.lines("paths", relative=True)).splitlines()
        assert lines == [shown(path) for item in everything for path in item.paths]
        assert lines[0].startswith("Pictures/")
    with pytest.raises(InputError, match="start with a slash"):
        Filter(path="/above/*", relative=True)
