"""Browsing: facets, the timeline and folders, compared with counts in plain Python."""

import itertools
import os
import zipfile
from collections import Counter
from datetime import UTC, datetime

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection, Filter
from lookalike.errors import InputError, UnknownNameError

CAMERAS = ("Canon EOS 5D", "NIKON D90", None)
SIZES = ((40, 30), (30, 40), (32, 32))
PLACES = ((48.2082, 16.3738), (48.2449, 16.4401), (-33.92, 18.42), None)
N = 36


def write(path, rng, number):
    """Write a picture with its own date, camera, lens, position, size and format."""
    camera, size, place = CAMERAS[number % 3], SIZES[number % 3 - number % 2], PLACES[number % 4]
    picture = Image.fromarray(rng.integers(0, 256, (*size[::-1], 3), np.uint8))
    exif = Image.Exif()
    if number % 5:
        exif.get_ifd(0x8769)[0x9003] = f"{2019 + number % 4}:{1 + number % 12:02d}:01 00:00:00"
    if camera:
        exif[0x0110] = camera
    if number % 2:
        exif.get_ifd(0x8769)[0xA434] = f"{35 * (1 + number % 2)} mm"
    if place:
        gps = exif.get_ifd(0x8825)
        gps.update({1: "N" if place[0] > 0 else "S", 2: (abs(place[0]), 0, 0), 3: "E", 4: (place[1], 0, 0)})
    picture.save(path, exif=exif)
    os.utime(path, (1.5e9 + 3e6 * number, 1.5e9 + 3e6 * number))


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    root, rng = tmp_path_factory.mktemp("browse"), np.random.default_rng(0)
    folders = ["Pictures", "Pictures/2024", "Pictures/2024/May", "Pictures/a%b_[1]"]
    for folder in folders:
        (root / folder).mkdir()
    for number in range(N):
        suffix = ("jpg", "png")[number % 7 == 0]
        write(root / folders[number % 4] / f"{number:02d}.{suffix}", rng, number)
    write(root / "zipped.jpg", rng, N)
    for copy in ("Pictures/2024/May", "Pictures/2024"):  # one picture in two folders
        (root / copy / "copy.jpg").write_bytes((root / "Pictures" / "04.jpg").read_bytes())
    with zipfile.ZipFile(root / "Pictures" / "old.zip", "w") as archive:
        archive.write(root / "zipped.jpg", "1999/b.jpg")
        archive.write(root / "zipped.jpg", "c.jpg")
    (root / "zipped.jpg").unlink()
    with Collection(root / "c.lookalike", create=True) as made:
        made.add(root / "Pictures", root / "Pictures" / "old.zip", recipes=["color"])
        made.classes.add("house", [root / "Pictures" / f"{number:02d}.jpg" for number in (4, 8, 12)])
        made.classes.add("boat", [root / "Pictures" / "16.jpg", root / "Pictures/2024/01.jpg"])
        made.classes.predict()
        yield made


def time_of(item):
    seconds = (
        item.taken_at if item.taken_at is not None else min(os.stat(p.split("::")[0]).st_mtime for p in item.paths)
    )
    return datetime.fromtimestamp(seconds, UTC)


def cell(exif):
    rounded = (int(np.floor(angle * 10 + 0.5)) / 10 for angle in (exif.latitude, exif.longitude))
    return None if exif.latitude is None else ",".join(f"{angle:.1f}" for angle in rounded)


def values_of(collection, item):
    """The values of an item for each facet."""
    labels = collection.labels([item.id])[item.id]
    suggestion = collection.predictions([item.id]).get(item.id)
    shape = "landscape" if item.width > item.height else "portrait" if item.width < item.height else "square"
    return {
        "year": [time_of(item).year],
        "camera": [item.exif.camera],
        "lens": [item.exif.lens],
        "place": [cell(item.exif) if item.exif.latitude is not None else None],
        "orientation": [shape],
        "file_format": [item.format],
        "label": labels,
        "labelled": [bool(labels)],
        "suggested": [suggestion.label if suggestion else None],
    }


def count(values):
    return {value: n for value, n in Counter(values).items() if value is not None}


def test_facets_count_the_items_that_pass_the_other_conditions(collection):
    table = {item.id: values_of(collection, item) for item in collection.items()}
    assert len({place for row in table.values() for place in row["place"]}) == 3
    conditions = [{}, {"camera": "NIKON D90"}, {"year": 2020, "orientation": "portrait"}, {"labelled": False}]
    conditions += [{"label": "house"}, {"place": "48.21,16.37"}, {"file_format": "png", "lens": "70 mm"}]
    for given in conditions:
        cells = {"place": "48.2,16.4"} if "place" in given else {}
        facets = collection.facets(Filter(**given))
        for name, found in facets.items():
            others = {other: value for other, value in (given | cells).items() if other != name}
            passing = [row for row in table.values() if all(value in row[other] for other, value in others.items())]
            assert found == count(value for row in passing for value in row[name]), (given, name)
            frequencies = list(found.values())
            assert name == "year" or frequencies == sorted(frequencies, reverse=True)
        for name, value in given.items():  # the count of a value is that of its filter
            expected = {
                item for item, row in table.items() if all((given | cells)[other] in row[other] for other in given)
            }
            assert {item.id for item in collection.items(Filter(**given))} == expected
            assert facets[name].get(cells.get(name, value), 0) == len(expected)


def test_predictions_are_a_filter_and_a_facet(collection):
    ids = [item.id for item in collection.items()]
    expected = {item for item, found in collection.predictions(ids).items() if found.label == "house"}
    assert expected
    assert {item.id for item in collection.items(Filter(suggested="house"))} == expected
    assert collection.facets()["suggested"]["house"] == len(expected)
    with pytest.raises(UnknownNameError, match="No label named 'hous'"):
        list(collection.items(Filter(suggested="hous")))


def test_the_timeline_is_the_order_of_the_page(collection):
    for among in (None, Filter(camera="NIKON D90"), Filter(since=1.58e9), Filter(year=1890)):
        items = collection.page(among, order="taken", limit=1_000).items
        months = [
            (month, len(list(group))) for month, group in itertools.groupby(f"{time_of(item):%Y-%m}" for item in items)
        ]
        assert list(collection.timeline(among).items()) == months


def test_folders_have_the_items_at_any_depth_and_each_item_once(collection):
    def folders(parent=None, among=None):
        return {row.path: (row.name, row.items, row.has_folders) for row in collection.folders(parent, among)}

    assert folders() == {"Pictures": ("Pictures", N + 1, True)}
    assert folders("Pictures") == {
        "Pictures/2024": ("2024", N // 2 + 1, True),
        "Pictures/a%b_[1]": ("a%b_[1]", N // 4, False),
        "Pictures/old.zip": ("old.zip", 1, True),
    }
    assert folders("Pictures/2024") == {"Pictures/2024/May": ("May", N // 4 + 1, False)}
    assert folders("Pictures/old.zip") == {"Pictures/old.zip::1999": ("1999", 1, False)}
    assert folders("Pictures/nothing") == folders("/nowhere") == {}
    levels = [None, "Pictures", "Pictures/2024", "Pictures/old.zip"]
    nested = {row.path: (row.name, row.items, row.has_folders) for row in collection.folders(nested=True)}
    assert nested == {path: row for level in levels for path, row in folders(level).items()}
    source = collection.sources()[0]
    assert folders(f"{source}/2024") == folders("Pictures/2024")
    for parent in (None, "Pictures", "Pictures/2024", "Pictures/old.zip"):
        for among in (Filter(), Filter(camera="NIKON D90", folder="Pictures/2024")):
            for path, (_, n, _) in folders(parent, among).items():
                assert len(list(collection.items(Filter(folder=path, camera=among.camera)))) == n
    absolute = {item.id for item in collection.items(Filter(folder=f"{source}/2024/"))}
    assert absolute == {item.id for item in collection.items(Filter(folder="Pictures/2024", relative=True))}


def test_counts_follow_the_catalogue(tmp_path):
    write(tmp_path / "1.png", np.random.default_rng(1), 1)
    with Collection(tmp_path / "c.lookalike", create=True) as collection:
        assert collection.timeline() == {}
        assert collection.folders() == []
        assert not any(collection.facets()[name] for name in ("year", "label", "labelled", "file_format"))
        collection.add(tmp_path, recipes=["color"])
        assert collection.facets()["file_format"] == {"png": 1}
        assert [folder.items for folder in collection.folders()] == [1]
        write(tmp_path / "2.jpg", np.random.default_rng(2), 2)
        collection.refresh()
        assert collection.facets()["file_format"] == {"jpeg": 1, "png": 1}
        assert [folder.items for folder in collection.folders()] == [2]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"year": 0}, "year must be 1 to 9999. Got 0"),
        ({"place": "48.2"}, "place must be latitude,longitude in degrees, such as 48.2,16.4. Got '48.2'"),
        ({"place": "91,0"}, "place must be latitude,longitude"),
        ({"place": "nan,0"}, "place must be latitude,longitude"),
        ({"orientation": "tall"}, "No orientation named 'tall'. Known: landscape, portrait, square"),
        ({"camera": ""}, "camera must have 1 to 4096 characters"),
        ({"folder": "/home", "relative": True}, "folder cannot start with a slash"),
    ],
)
def test_an_invalid_condition_is_rejected(fields, words):
    with pytest.raises(InputError, match=words):
        Filter(**fields)
