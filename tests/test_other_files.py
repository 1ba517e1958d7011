"""Counts of the files that are not in a collection: of types that are not read, and files with errors."""

import os
import shutil
from pathlib import Path

import pytest
from PIL import Image

from lookalike import Collection
from lookalike.collection import other_files
from lookalike.collection.other_files import OtherFiles, describe_types

COLOR = ["color"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "pictures"
    (folder / "videos").mkdir(parents=True)
    Image.new("RGB", (40, 30), "red").save(folder / "red.png")
    Image.new("RGB", (40, 30), "white").save(folder / "videos" / "white.png")
    for name in ("a.mp4", "videos/b.mp4", "videos/c.MP4", "videos/d.mov", "e.with space", "f"):
        (folder / name).touch()
    return folder


def test_counts_of_other_types_are_stored_and_follow_the_files(folder: Path, tmp_path: Path) -> None:
    with Collection(tmp_path / "c", create=True) as collection:
        report = collection.add(folder, recipes=COLOR)
        assert report.other_types == {".mp4": 3, "other": 2, ".mov": 1}
        assert list(report.other_types) == [".mp4", "other", ".mov"]  # the largest first
    with Collection(tmp_path / "c") as collection:
        assert collection.other_types() == collection.stats()["other_types"] == report.other_types
        (folder / "videos" / "c.MP4").unlink()
        assert collection.refresh(folder / "videos").other_types == {".mov": 1, ".mp4": 1}
        assert collection.other_types() == {".mp4": 2, "other": 2, ".mov": 1}
        collection.add(folder / "videos")  # inside another source: not counted twice
        assert collection.other_types() == {".mp4": 2, "other": 2, ".mov": 1}
        collection.remove(folder / "videos")
        assert collection.other_types() == {"other": 2, ".mp4": 1}
        shutil.rmtree(folder / "videos")
        collection.remove(folder)
        assert collection.other_types() == {}


def test_counts_of_a_source_whose_disk_is_not_mounted_are_kept(folder: Path, tmp_path: Path) -> None:
    with Collection(tmp_path / "c", create=True) as collection:
        before = collection.add(folder, recipes=COLOR).other_types
        folder.rename(tmp_path / "elsewhere")
        assert collection.refresh().other_types == {}
        assert collection.other_types() == before


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser can read every folder")
def test_a_folder_that_cannot_be_listed_is_reported_once(folder: Path, tmp_path: Path) -> None:
    with Collection(tmp_path / "c", create=True) as collection:
        (folder / "videos").chmod(0)
        assert list(collection.add(folder, recipes=COLOR).skipped) == [str(folder / "videos")]
        assert list(collection.refresh().known_skipped) == [str(folder / "videos")]
        (folder / "videos").chmod(0o755)
        assert collection.refresh().known_skipped == collection.skipped() == {}


def test_a_broken_link_is_reported_once_until_it_is_repaired(folder: Path, tmp_path: Path) -> None:
    (folder / "link.png").symlink_to(tmp_path / "blue.png")
    with Collection(tmp_path / "c", create=True) as collection:
        assert collection.add(folder, recipes=COLOR).skipped == {str(folder / "link.png"): "it is a broken link"}
        for _ in range(2):
            report = collection.refresh()
            assert (report.skipped, list(report.known_skipped)) == ({}, [str(folder / "link.png")])
            assert report.gone == 0
        Image.new("RGB", (40, 30), "blue").save(tmp_path / "blue.png")
        report = collection.refresh()
        assert (report.added, report.skipped, report.known_skipped, collection.skipped()) == (1, {}, {}, {})


def test_the_extra_that_reads_a_type_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = {".cr2": "raw", ".nef": "raw", ".heic": "heic"}
    monkeypatch.setattr(other_files, "missing_extras", lambda: missing)
    counts = {".cr2": 8, ".mp4": 4, ".nef": 1, ".heic": 1}
    assert describe_types(counts) == (
        "14 files of types Lookalike does not read: .cr2 8, .mp4 4, .nef 1, .heic 1."
        " To read .heic, install: pip install 'lookalike[heic]'"
        " To read .cr2 and .nef, install: pip install 'lookalike[raw]'"
    )
    monkeypatch.setattr(other_files, "missing_extras", dict)
    assert describe_types({".mp4": 1}) == "1 file of a type Lookalike does not read: .mp4 1."


def test_unusual_extensions_are_counted_together() -> None:
    counts = OtherFiles()
    for name in ("/a/README", "/a/notes.2020-01-01", "/a/x.averylongone", "/a/.b", "/a/c.é", "/b.zip::d/e.pdf"):
        counts.count(name)
    assert counts.totals() == {"other": 5, ".pdf": 1}
