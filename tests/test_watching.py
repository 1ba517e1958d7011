"""`refresh --watch` and `Collection.watch`: changes in folders are added without another command."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from lookalike import Collection
from lookalike.errors import InputError, MissingError
from waiting import TIMEOUT_S


@pytest.fixture
def folder(tmp_path, pictures):
    """A folder with two pictures in a subfolder, and a function that returns another picture."""
    files = sorted(pictures.rglob("*.jpg"))
    inner = tmp_path / "photos" / "2024"
    inner.mkdir(parents=True)
    for file in files[:2]:
        shutil.copy(file, inner)
    return tmp_path / "photos", files[2:]


@pytest.mark.usefixtures("read_here")
def test_watch_yields_a_report_for_each_group_of_changes(folder, collection):
    photos, others = folder
    collection.add(photos, recipes="color")
    reports = collection.watch()
    assert next(reports).known == 2
    (photos / "notes.txt").write_text("/etc/passwd")  # not a list of sources
    (photos / ".hidden.jpg").write_bytes(others[0].read_bytes())
    shutil.copytree(others[0].parent, photos / "new folder", ignore=lambda _, names: names[1:])
    report = next(reports)
    assert (report.added, report.known, report.skipped) == (1, 0, {})
    first = sorted((photos / "2024").iterdir())[0]
    first.rename(photos / "moved.jpg")
    assert next(reports).moved == 1
    shutil.rmtree(photos / "2024")
    assert next(reports).gone == 1
    assert len(collection) == 2
    reports.close()


@pytest.mark.usefixtures("read_here")
def test_a_watched_folder_that_disappears_keeps_its_pictures(folder, collection, tmp_path):
    photos, others = folder
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(others[0], other)
    collection.add(photos, other, recipes="color")
    reports = collection.watch()
    next(reports)
    photos.rename(tmp_path / "unmounted")
    shutil.copy(others[1], other)
    report = next(reports)
    assert (report.added, report.gone, len(collection)) == (1, 0, 4)
    reports.close()


@pytest.mark.usefixtures("read_here")
def test_watching_needs_a_folder(folder, collection):
    photos, _ = folder
    collection.add(next((photos / "2024").iterdir()), recipes="color")
    with pytest.raises(InputError, match="no folder to watch"):
        next(collection.watch())


@pytest.mark.usefixtures("read_here")
def test_without_the_extra_the_error_names_it(folder, collection, monkeypatch):
    collection.add(folder[0], recipes="color")
    monkeypatch.setitem(sys.modules, "watchfiles", None)
    with pytest.raises(MissingError, match=r"pip install 'lookalike\[watch\]'"):
        next(collection.watch())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_refresh_watch_prints_a_json_object_per_change_and_stops_at_a_signal(folder, tmp_path, number):
    photos, others = folder
    path = photos / "own.lookalike"  # its own files are not changes
    with Collection(path, create=True) as collection:
        collection.add(photos, recipes="color", workers=1)
    command = [sys.executable, "-m", "lookalike", "-c", path, "refresh", "--watch", "--json", "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert json.loads(process.stdout.readline())["known"] == 2
        shutil.copy(others[0], photos / "new.jpg")
        assert json.loads(process.stdout.readline())["files"] == {str(photos / "new.jpg"): "added"}
        process.send_signal(number)
        out, errors = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert (process.returncode, out) == (0, "")
    assert errors.splitlines() == ["Waiting for changes. Press Ctrl-C to stop.", "Stopped."]
