"""Sharing: vectors, models and indexes on another file system; killed at any step, unmounted, full, read-only."""

import json
import os
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest

from disks import fill, remount
from forked import Forked
from lookalike import Collection, cli
from lookalike.errors import DamagedError, FullError, InputError, ReadOnlyError, StoreError
from lookalike.store.directory import Store
from lookalike.store.sharing import check_shared

pytestmark = pytest.mark.usefixtures("read_here")

FOLDERS = ("indexes", "models", "vectors")
MARKER = "lookalike-shared.json"
RECIPE = "small = color() | pca(dim=4) | l2() | smooth(k=2, alpha=3)"
"""Has vectors, a model and, for the neighbours, an index structure."""


@pytest.fixture(scope="module")
def made(shared, tmp_path_factory):
    """A collection with files of every kind. Read-only."""
    path = shutil.copytree(shared("color", "beach", "face"), tmp_path_factory.mktemp("made") / "c")
    with Collection(path) as collection:
        collection.fit(RECIPE)
    return path


@pytest.fixture
def where(made, tmp_path):
    return Path(shutil.copytree(made, tmp_path / "photos"))


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "mnt" / "photos"


@pytest.fixture
def photos(where, folder):
    """A shared collection."""
    with Collection(where) as collection:
        collection.share(folder)
        yield collection


@contextmanager
def unmounted(folder, *, empty=False):
    """Inside the block, a folder is missing or, with `empty`, is an empty mount point."""
    away = folder.with_name("away")
    folder.rename(away)
    if empty:
        folder.mkdir()
    try:
        yield
        assert not empty or not any(folder.iterdir())
    finally:
        if empty:
            folder.rmdir()
        away.rename(folder)


def results(path):
    """Return the vectors of a collection and the results of a search in a form that can be compared."""
    with Collection(path) as collection:
        rows = {name: collection.vectors(name) for name in ("color", "small")}
        found = collection.search(int(rows["color"][0][0]), k=5, space="small")
        return [(ids.tobytes(), X.tobytes()) for ids, X in rows.values()], [(one.id, one.score) for one in found]


def state(path):
    """Verify a collection and return its content in a form that can be compared."""
    with Collection(path) as collection:
        assert collection.verify() == []
        return {item.id: item.paths for item in collection.items()}, results(path)


def names(folder):
    """Return the files in the shared folders of a collection, or in their target."""
    return {f"{name}/{file.name}" for name in FOLDERS for file in (folder / name).iterdir()}


def assert_local(where, folder):
    """Check that a collection is not shared and has left nothing behind."""
    assert all((where / name).is_dir() and not (where / name).is_symlink() for name in FOLDERS)
    assert not list(where.glob("*.local")) + list(where.glob(MARKER))
    assert not folder.exists() or all(file.name.startswith(f".{MARKER}.") for file in folder.iterdir())


def test_a_shared_collection_gives_the_same_results_until_it_is_unshared(where, folder):
    expected, before, stages = state(where), names(where), []
    with Collection(where) as collection:
        size = collection.stats()["bytes"]
        report = collection.share(folder, lambda *stage: stages.append(stage))
        assert (report.folder, report.copied, report.skipped) == (str(folder), len(before), 0)
        assert report.bytes == sum((folder / name).stat().st_size for name in before)
        assert stages[-1] == ("sharing", len(before), len(before))
        assert size <= collection.stats()["bytes"] < size + 65536  # also the links, the markers and SQLite's log
    assert before == names(folder)
    assert {name.split("/")[0] for name in before} == set(FOLDERS)
    assert all(os.readlink(where / name) == str(folder / name) for name in FOLDERS)
    assert not list(where.glob("*.local"))
    assert state(where) == expected
    with Collection(where) as collection:
        assert collection.unshare().copied == len(before)
    assert_local(where, folder)
    assert names(where) == before
    assert state(where) == expected


def test_adding_removing_compacting_and_repairing_use_the_shared_folder(photos, pictures, folder, made, tmp_path):
    own = Path(shutil.copytree(made, tmp_path / "own"))
    with Collection(own) as other:
        for collection in (photos, other):
            collection.add(pictures / "house")
            collection.remove(pictures / "face")
            done = collection.compact()
            assert done["segments_after"] < done["segments_before"]
    assert state(photos.path) == state(own)
    assert names(photos.path) == names(folder)
    (folder / "vectors" / "stray.npy").touch()
    damaged = min((folder / "vectors").glob("*[0-9].npy"))
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\1")
    photos.close()
    assert Collection.repair(photos.path).left == []
    assert state(photos.path) == state(own)
    assert not (folder / "vectors" / "stray.npy").exists()
    assert all((photos.path / name).is_symlink() for name in FOLDERS)


def test_a_backup_of_a_shared_collection_is_restored_as_an_ordinary_one(photos, folder, tmp_path):
    with pytest.raises(InputError, match="inside its collection"):
        photos.backup(folder / "vectors" / "backup")
    photos.backup(tmp_path / "backup")
    Collection.restore(tmp_path / "backup", tmp_path / "restored")
    assert_local(tmp_path / "restored", tmp_path / "nowhere")
    expected = state(photos.path)
    shutil.rmtree(folder)
    assert state(tmp_path / "restored") == expected


def test_another_process_finds_the_files_after_they_were_moved(where, folder):
    with Collection(where) as reader, Collection(where) as writer:
        expected = reader.search(next(iter(reader.items())).id, k=5)
        for move in (lambda: writer.share(folder), writer.unshare):
            move()
            assert reader.check_open_files() == []
            assert reader.search(expected[0].id, k=5) == expected


@pytest.fixture(scope="module")
def run():
    """A function that runs a command in a process, and returns whether it was killed before its n-th change."""
    with Forked("sharer") as processes:

        def start(where, verb, folder, n):
            processes.start(str(where), verb, str(folder), n)
            code, _ = processes.finish()
            assert code in (0, -signal.SIGKILL)
            return code != 0

        yield start


@pytest.mark.parametrize("verb", ["share", "unshare"])
def test_a_command_killed_at_any_step_is_resumed_or_undone(where, folder, run, verb):
    expected, n_files = state(where), len(names(where))
    n, skipped, mixed = 0, [0], 0
    while True:
        with Collection(where) as collection:
            if verb == "unshare":
                collection.share(folder)
        if not run(where, verb, folder, n):
            break
        links = [(where / name).is_symlink() for name in FOLDERS]
        mixed += any(links) and not all(links)
        assert results(where) == expected[1], n
        with Collection(where) as collection:
            if verb == "share" and n % 3:  # the others are undone
                try:
                    skipped.append(collection.share(folder).skipped)
                except InputError:  # it was killed after its last change
                    assert not list(where.glob("*.local"))
                assert all((where / name).is_symlink() for name in FOLDERS)
            try:
                skipped.append(collection.unshare().skipped)
            except InputError:
                assert not (where / MARKER).exists()
        assert_local(where, folder)
        n += 1 if max(skipped) >= n_files - 1 else 5  # the copies of all files are alike
    assert mixed > 3
    assert max(skipped) == n_files
    assert state(where) == expected


def test_a_resumed_command_copies_a_file_again_if_its_copy_differs(where, folder):
    def stop(stage, done, total):
        if done == 4:
            raise KeyboardInterrupt

    expected = state(where)
    with Collection(where) as collection:
        with pytest.raises(KeyboardInterrupt):
            collection.share(folder, stop)
        copies = sorted(folder.glob("*/*"))
        copies[0].write_bytes(bytes(copies[0].stat().st_size))
        (folder / "vectors" / "old.npy").touch()
        (folder / "vectors" / ".new.npy.part").touch()
        assert collection.share(folder).skipped == len(copies) - 1 == 3
    assert state(where) == expected
    assert not list(folder.glob("vectors/old.npy")) + list(folder.glob("vectors/.*"))


def test_a_folder_that_is_missing_after_a_kill_is_restored_by_the_next_process_that_can_write(photos, folder):
    expected, path = state(photos.path), photos.path
    (path / "vectors").unlink()
    shutil.copytree(folder / "vectors", path / "vectors.local")
    with pytest.raises(StoreError, match=f"Resume it: lookalike cluster share {folder}"):
        check_shared(path)  # all that a process without permission can do
    assert state(path) == expected
    assert not (path / "vectors.local").exists()
    assert photos.share(folder).skipped > 0
    assert state(path) == expected


def test_a_copy_that_differs_is_never_used(where, folder, monkeypatch):
    real = os.fsync

    def spoil(file):
        real(file)
        if (path := os.readlink(f"/proc/self/fd/{file}")).endswith(".part") and "/vectors/" in path:
            Path(path).write_bytes(b"spoiled")

    expected = state(where)
    with monkeypatch.context() as patch, Collection(where) as collection:
        patch.setattr(os, "fsync", spoil)
        with pytest.raises(StoreError, match="differs from the data that was written"):
            collection.share(folder)
    assert not any((where / name).is_symlink() for name in FOLDERS)
    assert state(where) == expected


@pytest.mark.parametrize("empty", [False, True])
def test_a_file_system_that_is_not_mounted_is_an_error_and_is_not_changed(photos, folder, pictures, tmp_path, empty):
    expected, path = state(photos.path), photos.path
    with unmounted(folder, empty=empty):
        for verb in (
            lambda: Collection(path),
            lambda: Collection(path, create=True),
            lambda: Collection.repair(path),
            lambda: photos.add(pictures / "house"),
            photos.compact,
            photos.unshare,
            lambda: photos.backup(tmp_path / "backup"),
        ):
            with pytest.raises(StoreError, match=f"in {folder}, which is not available.* Mount"):
                verb()
    assert state(path) == expected


def test_files_that_disappear_while_a_collection_is_open_are_an_error(photos, folder, pictures):
    with Collection(photos.path) as reader:
        photos.add(pictures / "house")
        with unmounted(folder):
            for verb in (reader.vectors, reader.verify, lambda: reader.search(next(iter(reader.items())).id)):
                with pytest.raises(StoreError, match="Mount"):
                    verb()
        assert reader.verify() == []


def test_a_missing_folder_of_the_shared_directory_is_an_error(photos, folder):
    with unmounted(folder / "models"), pytest.raises(StoreError, match=f"{folder}/models of .* is missing"):
        Collection(photos.path)


def test_the_files_of_another_collection_are_not_used(photos, folder, made, tmp_path):
    other = Path(shutil.copytree(made, tmp_path / "other"))
    with Collection(other) as collection:
        collection.share(tmp_path / "mnt" / "other")
    with unmounted(folder):
        (tmp_path / "mnt" / "other").rename(folder)
        with pytest.raises(StoreError, match=f"belongs to the collection {other}, not to {photos.path}. Mount"):
            Collection(photos.path)
        folder.rename(tmp_path / "mnt" / "other")
    for wrong in (tmp_path / "mnt" / "other" / "models", tmp_path / "missing"):
        (photos.path / "models").unlink()
        (photos.path / "models").symlink_to(wrong)
        with pytest.raises(StoreError, match=f"must be a link to {folder}/models"):
            Collection(photos.path)
    assert names(tmp_path / "mnt" / "other") == names(made)


def test_a_collection_can_be_moved_but_a_copy_does_not_use_the_same_files(photos, folder, tmp_path):
    expected = state(photos.path)
    photos.close()
    copy = Path(shutil.copytree(photos.path, tmp_path / "copy", symlinks=True))
    with pytest.raises(StoreError, match=f"{copy} is a copy of {photos.path}"):
        Collection(copy)
    moved = photos.path.rename(tmp_path / "moved")
    shutil.rmtree(copy)
    assert state(moved) == expected
    assert json.loads((folder / MARKER).read_text())["collection"] == str(moved)
    full_copy = Path(shutil.copytree(moved, copy))  # with the files instead of the links
    assert state(full_copy) == expected
    with Collection(full_copy) as collection:
        collection.unshare()
    assert not (full_copy / MARKER).exists()
    assert state(moved) == expected
    with Collection(moved) as collection:
        collection.unshare()
    assert_local(moved, folder)


def test_a_link_that_a_user_made_works_and_is_an_error_if_it_leads_nowhere(where, folder, tmp_path):
    expected = state(where)
    shutil.move(where / "models", tmp_path / "models")
    (where / "models").symlink_to(tmp_path / "models")
    assert state(where) == expected
    with Collection(where) as collection, pytest.raises(InputError, match=f"{where}/models is a link"):
        collection.share(folder)
    shutil.rmtree(tmp_path / "models")
    with pytest.raises(StoreError, match=f"{tmp_path}/models is missing. Mount"):
        Collection(where)


def test_a_missing_catalogue_of_a_shared_collection_is_damage(photos):
    photos.close()
    (photos.path / "catalogue.sqlite").unlink()
    with pytest.raises(DamagedError, match=r"catalogue\.sqlite is missing, but vectors exist"):
        Store(photos.path, create=True)


def test_a_damaged_marker_is_an_error(photos, folder):
    for place in (folder, photos.path):
        sound = (place / MARKER).read_bytes()
        for damaged in (sound[:-9], b"[1]", b"{}"):
            (place / MARKER).write_bytes(damaged)
            with pytest.raises(DamagedError, match=f"{place / MARKER} is damaged"):
                Collection(photos.path)
        (place / MARKER).write_bytes(sound)
    Collection(photos.path).close()


def test_directories_that_cannot_be_used_are_named(where, photos, folder, made, tmp_path):
    other = Path(shutil.copytree(made, tmp_path / "other"))
    (tmp_path / "file").touch()
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "letter.txt").touch()
    expected = names(other)
    with Collection(other) as collection:
        for wrong, message in (
            (folder, f"{folder} belongs to the collection {where}. Choose"),
            (other / "shared", "cannot be inside the collection"),
            (tmp_path, "or contain it"),
            (tmp_path / "file", "is a file. Choose a directory"),
            (tmp_path / "full", "is not empty. Choose an empty or new directory"),
        ):
            with pytest.raises(InputError, match=message):
                collection.share(wrong)
        with pytest.raises(InputError, match=f"{other} is not shared"):
            collection.unshare()
        (other / "vectors" / "notes").mkdir()
        with pytest.raises(StoreError, match=r"vectors/notes is not a file of the collection\. Move"):
            collection.share(tmp_path / "new")
        with pytest.raises(InputError, match=f"Resume it: lookalike cluster share {tmp_path}/new, or undo it"):
            collection.share(tmp_path / "newer")
        collection.unshare()
        (other / "vectors" / "notes").rmdir()
    assert_local(other, tmp_path / "new")
    assert names(other) == expected
    for wrong in (folder, tmp_path / "new"):
        with pytest.raises(InputError, match=f"already shared, in {folder}. To move it.*lookalike cluster unshare"):
            photos.share(wrong)


def test_unsharing_leaves_the_files_of_others(photos, folder):
    (folder / "letter.txt").touch()
    (folder / "vectors" / "notes").mkdir()
    photos.unshare()
    assert sorted(path.name for path in folder.rglob("*")) == ["letter.txt", "notes", "vectors"]


def test_a_full_disk_is_a_clear_error_and_the_command_is_resumed(where, mount_disk):
    disk, expected = mount_disk("2m"), state(where)
    (disk / "photos").mkdir()
    filler = fill(disk)
    with Collection(where) as collection:
        with pytest.raises(FullError, match=f"No disk space left for {disk}/photos"):
            collection.share(disk / "photos")
        assert not (where / MARKER).exists()
        os.truncate(filler, filler.stat().st_size - 32_768)
        with pytest.raises(FullError, match="Free some disk space"):
            collection.share(disk / "photos")
        assert state(where) == expected
        filler.unlink()
        assert collection.share(disk / "photos").skipped > 0
        assert state(where) == expected


def test_a_read_only_directory_is_a_clear_error(where, mount_disk):
    disk, expected = mount_disk("2m"), state(where)
    remount(disk, "ro")
    with (
        Collection(where) as collection,
        pytest.raises(ReadOnlyError, match=r"read-only\. Choose a directory that you"),
    ):
        collection.share(disk / "photos")
    assert_local(where, disk)
    assert state(where) == expected


def test_the_commands_share_and_unshare(where, folder, capsys):
    def call(*words):
        code = cli.run(["-c", str(where), "cluster", *map(str, words)])
        return code, *capsys.readouterr()

    n = len(names(where))
    code, out, _ = call("share", folder)
    assert (code, out.split(" (")[0]) == (0, f"{n} files copied")
    assert out.endswith(" s.\n")
    code, _, err = call("share", folder)
    assert code == 2
    assert f"lookalike -c {where} cluster unshare" in err
    with unmounted(folder):
        code, _, err = call("unshare")
        assert code == 2
        assert err.count("\n") == 1
    code, out, _ = call("unshare", "--json")
    report = json.loads(out)
    assert report.keys() == {"folder", "copied", "skipped", "bytes", "seconds"}
    assert (code, report["copied"]) == (0, n)
    assert "\n  share " in call()[1]
