"""Adding files whose pictures are already in the collection."""

import contextlib
import shutil
import sqlite3
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lookalike.collection import adding, chain
from lookalike.images import sources, workers
from lookalike.store.schema import row_digest

pytestmark = pytest.mark.usefixtures("read_here")

COLOR = ["color"]
N = 5


def draw(folder, *seeds):
    """Write pictures that all have the same size in bytes."""
    folder.mkdir(exist_ok=True)
    for seed in seeds:
        pixels = np.random.default_rng(seed).integers(0, 256, (20, 30, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{seed:03}.bmp")
    return folder


def outcomes(report):
    return {
        name: n for name in ("added", "known", "copied", "moved", "changed", "gone") if (n := getattr(report, name))
    }


@pytest.fixture
def folder(tmp_path):
    return draw(tmp_path / "folder", *range(N))


def test_copied_and_moved_files_are_linked_without_decoding_them(collection, folder, monkeypatch):
    collection.add(folder, recipes=COLOR)
    monkeypatch.setattr(workers, "read", None)  # decoding would be an error
    shutil.copytree(folder, folder / "copies")
    report = collection.add(folder)
    assert (outcomes(report), report.skipped) == ({"known": N, "copied": N}, {})
    (folder / "copies").rename(folder / "moved")
    report = collection.refresh()
    assert (outcomes(report), report.skipped) == ({"known": N, "moved": N}, {})
    assert [len(item.paths) for item in collection.items()] == [2] * N


@pytest.mark.parametrize(("seconds", "seen"), [(-1.0, {*range(1, N + 1)}), (np.inf, {0, N})])
def test_an_add_commits_after_some_seconds(collection, folder, monkeypatch, seconds, seen):
    monkeypatch.setattr(adding, "COMMIT_S", seconds)
    sizes = set()
    collection.add(folder, recipes=COLOR, progress=lambda *_: sizes.add(len(collection)))
    assert sizes - {0} == seen - {0}


def test_camera_data_is_stored_and_a_refresh_adds_it_to_older_collections(collection, tmp_path, monkeypatch):
    exif = Image.Exif()
    exif[0x0110] = "Pixel 8"
    Image.new("RGB", (8, 8)).save(tmp_path / "a.jpg", exif=exif)
    Image.new("RGB", (8, 9)).save(tmp_path / "b.png")
    collection.add(tmp_path, recipes=COLOR)
    stored = {item.id: item.exif for item in collection.items()}
    assert sorted(one.camera or "" for one in stored.values()) == ["", "Pixel 8"]

    with contextlib.closing(sqlite3.connect(collection.path / "catalogue.sqlite")) as db:
        db.create_function("row_digest", -1, row_digest)
        db.execute("DELETE FROM exif")  # as after an upgrade
        db.commit()
    assert [item.exif for item in collection.items()] == [None, None]
    monkeypatch.setattr(workers, "read", None)  # decoding would be an error
    assert outcomes(collection.add(tmp_path)) == {"known": 2}
    report = collection.refresh()
    assert (outcomes(report), report.skipped) == ({"known": 2}, {})
    assert report.notes == ["The camera data of 2 known pictures was read, for filters and facets."]
    assert {item.id: item.exif for item in collection.items()} == stored
    assert collection.refresh().notes == []


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "zip"])
def test_members_of_a_moved_archive_are_linked_without_decoding_them(collection, folder, tmp_path, monkeypatch, suffix):
    kind = {"tar": "tar", "tar.gz": "gztar", "zip": "zip"}[suffix]
    archive = Path(shutil.make_archive(str(tmp_path / "archive"), kind, folder))
    collection.add(archive, recipes=COLOR)
    monkeypatch.setattr(workers, "read", None)  # decoding would be an error
    moved = archive.rename(tmp_path / f"moved.{suffix}")
    report = collection.add(moved)
    assert (outcomes(report), report.skipped) == ({"copied": N}, {})
    assert sorted(path for item in collection.items() for path in item.paths if path.startswith(str(moved))) == [
        f"{moved}::{i:03}.bmp" for i in range(N)
    ]


@pytest.mark.usefixtures("reading_processes")
def test_the_process_that_adds_reads_no_file(collection, folder, monkeypatch):
    monkeypatch.setattr(sources, "read_bytes", None)  # reading in this process would be an error
    collection.add(folder, recipes=COLOR, workers=1)
    draw(folder, *range(N, 2 * N))  # new pictures of a known size
    shutil.copy(folder / "000.bmp", folder / "copy.bmp")
    report = collection.add(folder, workers=1)
    assert (outcomes(report), report.skipped) == ({"added": N, "known": N, "copied": 1}, {})


def test_copies_are_found_even_if_there_are_too_many_pictures_to_compare_them_with(collection, folder, monkeypatch):
    collection.add(folder, recipes=COLOR)
    monkeypatch.setattr(adding, "KNOWN_IDS", 2)
    shutil.copytree(folder, folder / "copies")
    assert outcomes(collection.add(folder)) == {"known": N, "copied": N}
    assert len(collection) == N
    assert collection.verify() == []


@pytest.mark.parametrize("known", [False, True])
def test_a_file_with_the_id_of_a_different_picture_is_skipped(collection, folder, monkeypatch, known):
    monkeypatch.setattr(workers, "content_id", lambda content: 7)
    for path in sorted(folder.iterdir())[2:]:
        path.unlink()
    if known:
        collection.add(folder / "000.bmp", recipes=COLOR)
    for name in ("skipped", "known_skipped"):  # the reason is stored
        report = collection.add(folder, recipes=COLOR)
        ((path, reason),) = getattr(report, name).items()
        assert path == str(folder / "001.bmp")
        assert "belongs to a different picture" in reason
    assert [item.paths for item in collection.items()] == [[str(folder / "000.bmp")]]


def test_a_moved_picture_whose_old_file_was_replaced_is_kept(collection, folder, monkeypatch):
    collection.add(folder, recipes=COLOR)
    monkeypatch.setattr(adding, "COMMIT_ROWS", 1)  # the old picture is removed before its new path is seen
    monkeypatch.setattr(chain, "DESCRIBE_BATCH", 1)
    (folder / "000.bmp").rename(folder / "moved.bmp")
    draw(folder, N).joinpath(f"{N:03}.bmp").rename(folder / "000.bmp")
    done = []
    report = collection.add(
        folder, progress=lambda stage, n, total: done.append((n, total)) if stage == "reading" else None
    )
    assert outcomes(report) == {"known": N - 1, "changed": 1, "added": 1}
    assert len(collection) == N + 1
    assert done[-1] == (N + 1, N + 1)
    assert collection.verify() == []
    assert outcomes(collection.add(folder)) == {"known": N + 1}
