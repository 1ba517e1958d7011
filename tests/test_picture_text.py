"""The text in pictures: reading it, resuming, searching it, and its rows in the catalogue."""

import shutil
import socket
import sqlite3
import tracemalloc
from contextlib import closing
from importlib.machinery import ModuleSpec
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont
from typer.testing import CliRunner

from lookalike import Collection
from lookalike.cli import app
from lookalike.errors import MissingError
from lookalike.images import TextReader
from lookalike.store.directory import Store
from reading import in_this_process

GOLDEN = Path(__file__).parent / "golden"
HAS_RAPIDOCR = find_spec("rapidocr") is not None
TEXTS = {10: "Café du Marché", 20: "two tulips", 30: "", 40: "a cafe"}
"""The text in a picture by the brightness of its first pixel, for the stand-in."""
CAFE = "cafe: similar to known kinds (cafe); text in 1 picture"


class StandIn:
    """Reads the text of a picture of `paint`; fails for the brightness 50."""

    def __call__(self, pixels):
        return TEXTS[int(round(pixels[0, 0].mean(), -1))]


def paint(folder: Path, **brightness: int) -> None:
    folder.mkdir(exist_ok=True)
    for name, value in brightness.items():
        Image.fromarray(np.full((40, 40, 3), value, np.uint8)).save(folder / f"{name}.png")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch) -> Path:
    """Three pictures; the stand-in reads a text in two of them."""
    monkeypatch.setattr("lookalike.collection.collection.TextReader", StandIn)
    paint(tmp_path / "photos", one=10, two=20, three=30)
    with in_this_process():
        yield tmp_path / "photos"


def open_new(folder: Path) -> Collection:
    return Collection(folder.parent / "c", create=True)


def names(results) -> list[str]:
    return sorted(Path(result.path).stem for result in results)


def test_the_text_in_pictures_is_found_by_words(folder):
    with open_new(folder) as collection:
        report = collection.add(folder, recipes="color", ocr=True)
        assert report.notes[-1] == "Read 3 pictures and found text in 2."
        assert names(collection.search(words="marche")) == ["one"]
        assert names(collection.search(words="tulip")) == ["two"]  # also the singular
        assert [found.summary for found in collection.understand("cafe")] == [CAFE]


def test_text_is_only_read_on_request(folder):
    with open_new(folder) as collection:
        assert not any("Text" in note for note in collection.add(folder, recipes="color").notes)
        assert collection.understand("cafe")[0].texts == 0
        assert collection.refresh(ocr=True).notes == ["Read 3 pictures and found text in 2."]


def test_pictures_are_read_once_even_without_text(folder):
    with open_new(folder) as collection:
        collection.add(folder, recipes="color", ocr=True)
        paint(folder, four=40)
        assert collection.add(folder, ocr=True).notes == ["Read 1 picture and found text in 1."]
        assert collection.refresh(ocr=True).notes == []


def test_only_the_given_sources_are_read(folder):
    paint(folder.parent / "others", four=40)
    with open_new(folder) as collection:
        collection.add(folder, recipes="color")
        notes = collection.add(folder.parent / "others", ocr=True).notes
        assert notes == ["Read 1 picture and found text in 1."]
        assert collection.refresh(folder / "one.png", ocr=True).notes[-1].startswith("Read 1 picture and found text")


def test_an_interrupted_run_continues_with_the_other_pictures(folder):
    def interrupt(step, done, total):
        if (step, done) == ("reading text", 2):
            assert total == 3
            raise KeyboardInterrupt

    with open_new(folder) as collection:
        with pytest.raises(KeyboardInterrupt):
            collection.add(folder, recipes="color", ocr=True, progress=interrupt)
        assert collection.add(folder, ocr=True).notes[-1].startswith("Read 1 picture and found text")


def test_a_picture_that_cannot_be_read_is_reported_and_tried_again(folder):
    paint(folder, broken=50)
    with open_new(folder) as collection:
        report = collection.add(folder, recipes="color", ocr=True)
        assert report.notes[-1] == (
            f"Text could not be read in 1 picture, such as {folder / 'broken.png'}: KeyError: 50."
            " The next --ocr tries again."
        )
        assert "Text could not be read in 1 picture" in collection.refresh(ocr=True).notes[-1]


def test_the_members_of_an_archive_are_read(folder):
    archive = shutil.make_archive(str(folder), "gztar", folder)
    with open_new(folder) as collection:
        assert "found text in 2." in collection.add(archive, recipes="color", ocr=True).notes[-1]
        assert names(collection.search(words="tulips")) == ["photos.tar.gz::two"]


def test_the_text_of_a_removed_picture_is_removed_and_restored(folder):
    with open_new(folder) as collection:
        collection.add(folder, recipes="color", ocr=True)
        collection.remove(folder / "two.png")
        assert collection.understand("tulips")[0].texts == 0
        collection.undo()
        assert names(collection.search(words="tulips")) == ["two"]
        assert collection.verify() == []


def test_damaged_text_is_found_and_read_again(folder):
    with open_new(folder) as collection:
        collection.add(folder, recipes="color", ocr=True)
    with closing(sqlite3.connect(folder.parent / "c" / "catalogue.sqlite")) as db, db:
        db.execute("INSERT INTO text_words (text_words) VALUES ('delete-all')")
    with Collection(folder.parent / "c") as collection:
        assert collection.verify() == ["catalogue.sqlite: text_words is damaged. Run: lookalike repair"]
    report = Collection.repair(folder.parent / "c")
    assert (report.done[0], report.left) == ("catalogue.sqlite: text_words was rebuilt.", [])
    with Collection(folder.parent / "c") as collection:
        assert names(collection.search(words="tulips")) == ["two"]


def test_the_command_line_reads_text(folder):
    where = ["--collection", str(folder.parent / "c")]
    added = CliRunner().invoke(app, [*where, "add", str(folder), "--recipe", "color", "--ocr"])
    assert added.exit_code == 0, added.output
    assert "Read 3 pictures and found text in 2." in added.output
    searched = CliRunner().invoke(app, [*where, "search", "cafe"])
    assert CAFE in searched.output
    assert "one.png" in searched.output


def test_golden_v13(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v13", tmp_path / "c")
    with closing(Store(tmp_path / "c")) as store:
        assert store.verify() == []
        assert store.items.with_text_words([["cafe"], ["open"]]).tolist() == [3]
        assert store.items.without_text().tolist() == [2**63 - 1]
        with store.writer(), store.transaction():  # it is writable
            store.items.set_texts({2**63 - 1: "open"})
            store.remove([3])
        assert store.items.with_text_words([["open"]]).tolist() == [2**63 - 1]
        assert store.verify() == []


@pytest.mark.parametrize("version", ["v1", "v10", "v12"])
def test_no_text_was_looked_for_in_the_pictures_of_older_catalogues(version: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / version, tmp_path / "c")
    with closing(Store(tmp_path / "c")) as store:
        assert store.items.without_text().tolist() == store.items.ids().tolist()
        assert store.verify() == []


def test_a_missing_package_is_named_before_anything_is_added(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("lookalike.images.text_reader.find_spec", lambda name: None)
    paint(tmp_path / "photos", one=10)
    with Collection(tmp_path / "c", create=True) as collection:
        with pytest.raises(MissingError, match=r"needs the package rapidocr\. .* pip install 'lookalike\[ocr\]'$"):
            collection.add(tmp_path / "photos", recipes="color", ocr=True)
        assert len(collection) == 0


# The reader itself, with the networks of rapidocr.


def draw_text(*lines: str) -> np.ndarray:
    picture = Image.new("RGB", (500, 200), "white")
    for i, line in enumerate(lines):
        ImageDraw.Draw(picture).text((20, 20 + 80 * i), line, fill="black", font=ImageFont.load_default(size=40))
    return np.asarray(picture)


@pytest.fixture
def no_network(monkeypatch):
    """Any use of a socket raises an error."""

    def fail(*args, **kwargs):
        raise AssertionError("the network was used")

    for name in ("socket", "create_connection", "getaddrinfo"):
        monkeypatch.setattr(socket, name, fail)


@pytest.mark.skipif(not HAS_RAPIDOCR, reason="rapidocr is not installed")
def test_text_is_read_without_the_network(no_network):
    reader = TextReader()
    assert reader(draw_text("Invoice 2024", "Tulip Street")).splitlines() == ["Invoice 2024", "Tulip Street"]
    assert reader(draw_text()) == ""
    assert reader(np.zeros((3, 4_000, 3), np.uint8)) == ""  # rapidocr fails for a picture this thin


@pytest.mark.skipif(not HAS_RAPIDOCR, reason="rapidocr is not installed")
def test_a_very_long_picture_needs_little_memory():
    reader, picture = TextReader(), np.full((2, 40_000, 3), 255, np.uint8)
    reader(picture[:, :2_000])  # load the networks
    tracemalloc.start()
    try:
        assert reader(picture) == ""
        assert tracemalloc.get_traced_memory()[1] < 300e6
    finally:
        tracemalloc.stop()


@pytest.mark.skipif(not HAS_RAPIDOCR, reason="rapidocr is not installed")
def test_a_network_that_is_missing_is_an_error_and_not_downloaded(tmp_path, monkeypatch, no_network):
    models = Path(find_spec("rapidocr").origin).parent / "models"
    shutil.copytree(models, tmp_path / "models", ignore=shutil.ignore_patterns("*_rec_*"))
    spec = ModuleSpec("rapidocr", None, origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr("lookalike.images.text_reader.find_spec", lambda name: spec)
    with pytest.raises(MissingError, match=r"rapidocr has no file models/\*_rec_\*\.onnx"):
        TextReader()


@pytest.mark.skipif(not HAS_RAPIDOCR, reason="rapidocr is not installed")
def test_text_is_read_in_other_processes(tmp_path):
    (tmp_path / "photos").mkdir()
    Image.fromarray(draw_text("Tulip Street")).save(tmp_path / "photos" / "sign.png")
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(tmp_path / "photos", recipes="color", ocr=True, workers=1)
        assert names(collection.search(words="tulips")) == ["sign"]
