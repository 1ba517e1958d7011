"""Backups and restores: while other processes write, killed at any step, damaged; from the shell and the service."""

import json
import os
import shutil
import stat
import subprocess
import sys
from contextlib import closing
from hashlib import blake2b
from pathlib import Path

import pytest

from disks import fill
from lookalike import Collection, cli
from lookalike.errors import DamagedError, FormatError, FullError, InputError, LockedError, NoCollectionError
from lookalike.store.backup import Backup, make_backup, restore_backup
from lookalike.store.directory import Store
from lookalike.store.jobs import JobLedger, verify_jobs
from serving import add_token, copy_shelf, error, running
from store_worker import state_after
from waiting import until

pytestmark = pytest.mark.usefixtures("read_here")

RECIPE = "small = color() | pca(dim=4)"


@pytest.fixture(scope="module")
def made(shared):
    """A collection of some synthetic pictures with labels. Read-only."""
    return shared("color", "beach", "face")


@pytest.fixture
def photos(made, tmp_path):
    with Collection(shutil.copytree(made, tmp_path / "photos")) as collection:
        yield collection


@pytest.fixture
def target(tmp_path):
    return tmp_path / "backup"


def state(path):
    """Verify a collection and return its content in a form that can be compared."""
    with Collection(path) as collection:
        assert collection.verify() == []
        items = {item.id: item.paths for item in collection.items()}
        ids, X = collection.vectors()
        found = [(result.id, result.score) for result in collection.search(next(iter(items)), k=5)]
        return items, collection.labels(list(items)), ids.tobytes(), X.tobytes(), found


def flip(file, at=-1):
    data = bytearray(file.read_bytes())
    data[at] ^= 1
    file.write_bytes(data)


DAMAGE = {
    "flipped": flip,
    "header": lambda file: flip(file, 20),
    "truncated": lambda file: os.truncate(file, 200),
    "deleted": Path.unlink,
}


def segment(collection):
    """Return the file with the vectors of the first segment."""
    return min(file for file in (collection.path / "vectors").glob("*.npy") if not file.name.endswith(".ids.npy"))


def test_a_restored_collection_gives_the_same_results(photos, pictures, target, tmp_path):
    photos.import_labels(pictures)
    photos.fit(RECIPE)
    report = photos.backup(target)
    contents = {entry.digest: entry.bytes for entry in Backup(target).entries.values()}  # two spaces have the same ids
    assert (report.copied, report.bytes) == (len(contents), sum(contents.values()))
    assert not list(target.rglob("*-wal")) + list(target.rglob("*.part"))
    restored = Collection.restore(target, tmp_path / "new")
    assert restored.copied == report.copied + report.skipped == len(Backup(target).entries)
    assert state(tmp_path / "new") == state(photos.path)
    with Collection(tmp_path / "new") as collection:
        assert "small" in [space.name for space in collection.spaces]
        assert collection.add(pictures / "house", workers=1).added == 4
        assert collection.verify() == []


def test_a_second_backup_copies_only_new_files(photos, pictures, target):
    photos.backup(target)
    assert photos.backup(target).copied == 0
    before = set(Backup(target).entries)
    photos.add(pictures / "house", workers=1)
    report = photos.backup(target)
    new = set(Backup(target).entries) - before
    assert {Path(name).parent.name for name in new} == {"vectors"}
    assert report.copied == len(new) + 1  # and the catalogue
    assert {file.name for file in (target / "files").iterdir()} == {e.digest for e in Backup(target).entries.values()}


def test_a_backup_is_consistent_when_files_are_merged_meanwhile(photos, pictures, target, tmp_path):
    photos.add(pictures / "house", workers=1)
    merged = []

    def merge(stage, done, total):
        if stage == "backing up" and not merged:
            with Collection(photos.path) as other:
                merged.append(other.compact())

    photos.backup(target, merge)
    assert merged[0]["segments_before"] > merged[0]["segments_after"]
    Collection.restore(target, tmp_path / "new")
    assert state(tmp_path / "new") == state(photos.path)


def test_backups_during_writes_contain_exactly_what_was_committed(target, tmp_path):
    worker = Path(__file__).with_name("store_worker.py")
    pause_s = 0.02  # about the latency of a disk; in memory, steps would replace files faster than they are copied
    command = [sys.executable, worker, tmp_path / "busy", str(pause_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        try:
            until(lambda: writer.stdout.readline() == "done\n")
            seen = []
            for number in range(5):
                make_backup(tmp_path / "busy", target)
                restore_backup(target, tmp_path / f"new{number}")
                store = Store(tmp_path / f"new{number}")
                seen.append(len(store.items.sources()))
                assert set(store.items.ids().tolist()) == state_after(seen[-1])
                assert store.verify() == []
                for space in store.vectors.spaces():
                    assert store.vectors.verify(space, lambda *_: None) == []
                    assert set(store.vectors.live_ids(space).tolist()) == state_after(seen[-1])
                store.close()
            assert seen == sorted(seen)
        finally:
            writer.kill()
    assert seen[-1] > seen[0]


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_segment_is_not_backed_up_and_the_previous_backup_stays(photos, pictures, target, tmp_path, damage):
    photos.backup(target)
    expected = state(photos.path)
    photos.compact()
    photos.add(pictures / "house", workers=1)
    new = max((photos.path / "vectors").glob("*[0-9].npy"), key=os.path.getmtime)
    damage(new)
    with pytest.raises(DamagedError, match=f"{new}.*lookalike repair"):
        photos.backup(target)
    Collection.restore(target, tmp_path / "new")
    assert state(tmp_path / "new") == expected


def test_a_segment_damaged_after_its_backup_does_not_prevent_the_next_backup(photos, target, tmp_path):
    photos.backup(target)
    expected = state(photos.path)
    flip(segment(photos))
    assert photos.backup(target).copied == 0
    Collection.restore(target, tmp_path / "new")
    assert state(tmp_path / "new") == expected


def test_a_damaged_model_or_database_is_not_backed_up(photos, target):
    photos.fit(RECIPE)
    model = next((photos.path / "models").iterdir())
    sound = model.read_bytes()
    flip(model)
    with pytest.raises(DamagedError, match=f"{model}.*lookalike repair"):
        photos.backup(target)
    model.write_bytes(sound)
    photos.close()
    judgements = photos.path / "judgements.sqlite"
    data = judgements.read_bytes()
    judgements.write_bytes(data[: 9 * 4096] + bytes(4096) + data[10 * 4096 :])  # only an integrity check detects it
    with pytest.raises(DamagedError, match=f"{judgements}.*lookalike repair"):
        make_backup(photos.path, target)
    with pytest.raises(NoCollectionError, match="No backup"):
        Backup(target)


@pytest.mark.parametrize("name", ["catalogue.sqlite", "judgements.sqlite", "vectors"])
@pytest.mark.parametrize("damage", [flip, Path.unlink], ids=["flipped", "deleted"])
def test_restore_refuses_a_damaged_backup_and_names_the_file(photos, target, tmp_path, name, damage):
    photos.backup(target)
    found = Backup(target)
    name = next(known for known in found.entries if known.startswith(name))
    damage(found.file(name))
    with pytest.raises(DamagedError, match=f"{found.entries[name].digest}, its copy of {name}"):
        Collection.restore(target, tmp_path / "new")
    with pytest.raises(DamagedError, match=name):
        found.file(name)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["backup", "photos"]
    assert photos.backup(target).copied == 1  # this repairs it
    Collection.restore(target, tmp_path / "new")
    assert state(tmp_path / "new") == state(photos.path)


def test_a_damaged_or_foreign_manifest_is_refused(photos, target, tmp_path):
    photos.backup(target)
    manifest = target / "backup.json"
    written = manifest.read_text()
    for damaged in (written.replace("vectors/", "vectorz/", 1), written[:-9], "{}", "[1]"):
        manifest.write_text(damaged)
        with pytest.raises(DamagedError, match=str(manifest)):
            Collection.restore(target, tmp_path / "new")
    manifest.write_text(written.replace('"format": 1', '"format": 9'))
    with pytest.raises(FormatError, match="newer Lookalike"):
        Collection.restore(target, tmp_path / "new")
    with pytest.raises(FormatError, match="newer Lookalike"):
        photos.backup(target)
    manifest.write_text(damaged)
    assert photos.backup(target).copied == 0  # contents are found by their digests


def test_a_manifest_cannot_name_files_outside_the_collection(photos, target, tmp_path):
    photos.backup(target)
    described = json.loads((target / "backup.json").read_text())
    del described["digest"]
    for name in ("../evil", "/etc/evil", "vectors/../../evil", "evil", "vectors//x", "vectors"):
        forged = described | {"files": described["files"] | {name: described["files"]["judgements.sqlite"]}}
        forged["digest"] = blake2b(json.dumps(forged, sort_keys=True).encode(), digest_size=32).hexdigest()
        (target / "backup.json").write_text(json.dumps(forged))
        with pytest.raises(DamagedError, match=f"has an invalid entry, '{name}'"):
            Collection.restore(target, tmp_path / "new")


class Killed(BaseException):
    """Not an Exception, so that no code handles it as an error."""


class Killer:
    """Ends a run at the n-th change of the disk and prevents all later changes, as a kill does."""

    def __init__(self, monkeypatch):
        self.left = None
        for owner, name in ((os, "fsync"), (os, "mkdir"), (Path, "rename"), (Path, "unlink"), (shutil, "rmtree")):
            monkeypatch.setattr(owner, name, self.wrap(getattr(owner, name)))

    def wrap(self, change):
        def changed(*arguments, **options):
            if self.left is not None:
                self.left -= 1
                if self.left < 0:
                    raise Killed
            return change(*arguments, **options)

        return changed

    def run(self, n, verb):
        """Return whether a verb was killed at its n-th change."""
        self.left = n
        try:
            verb()
        except Killed:
            return True
        finally:
            self.left = None
        return False


def test_a_backup_killed_at_any_step_leaves_the_previous_or_the_new_one(
    photos, pictures, target, tmp_path, monkeypatch
):
    photos.backup(target)
    old = state(photos.path)
    photos.add(pictures / "house", workers=1)
    photos.compact()
    new = state(photos.path)
    kill, n, found = Killer(monkeypatch), 0, []
    shutil.copytree(target, tmp_path / "old")
    while kill.run(n, lambda: photos.backup(target)):
        Collection.restore(target, tmp_path / "restored")
        found.append(state(tmp_path / "restored"))
        shutil.rmtree(tmp_path / "restored")
        shutil.rmtree(target)
        shutil.copytree(tmp_path / "old", target)
        n += 1
    steps = found.index(new)
    assert 15 < steps < len(found)  # some steps are before and some after the new backup replaces the old one
    assert all(one == old for one in found[:steps])
    assert all(one == new for one in found[steps:])


def test_a_first_backup_killed_at_any_step_is_resumed(photos, target, tmp_path, monkeypatch):
    kill, n, resumed = Killer(monkeypatch), 0, 0
    while kill.run(n, lambda: photos.backup(target)):
        if not (target / "backup.json").exists():
            with pytest.raises(NoCollectionError, match=r"no backup\.json"):
                Collection.restore(target, tmp_path / "new")
        resumed = max(resumed, photos.backup(target).skipped)
        assert sorted(os.listdir(target)) == ["backup.json", "files", "lock"]
        shutil.rmtree(target)
        n += 1
    assert resumed == len(Backup(target).entries)
    Collection.restore(target, tmp_path / "new")
    assert state(tmp_path / "new") == state(photos.path)


def test_a_restore_killed_at_any_step_leaves_a_complete_collection_or_none(photos, target, tmp_path, monkeypatch):
    photos.backup(target)
    expected, new = state(photos.path), tmp_path / "new"
    kill, n, found = Killer(monkeypatch), 0, []
    while kill.run(n, lambda: Collection.restore(target, new)):
        found.append(new.exists())
        if new.exists():
            assert state(new) == expected
            shutil.rmtree(new)
        n += 1
    assert found[0] is False
    assert found == sorted(found)
    assert state(new) == expected
    assert not list(tmp_path.glob(".*"))


def test_a_full_disk_is_a_clear_error_and_leaves_the_previous_backup(photos, pictures, mount_disk, tmp_path):
    disk = mount_disk("2m")
    photos.backup(disk / "backup")
    expected = state(photos.path)
    photos.add(pictures / "house", workers=1)
    filler = fill(disk)
    with pytest.raises(FullError, match="No disk space left"):
        photos.backup(disk / "backup")
    Collection.restore(disk / "backup", tmp_path / "new")
    assert state(tmp_path / "new") == expected
    filler.unlink()
    photos.backup(disk / "backup")


def test_uploaded_pictures_are_restored_next_to_the_original_collection(photos, pictures, target, tmp_path):
    uploads = photos.path / "uploads"
    (uploads / ".removed").mkdir(parents=True)
    shutil.copy(pictures / "house" / "house-000.jpg", uploads / "1-house.jpg")
    shutil.copy(pictures / "house" / "house-001.jpg", uploads / ".removed" / "2-house.jpg")
    (uploads / ".3-house.jpg.7-7.part").write_text("of an upload that was killed")
    photos.add(uploads, workers=1)
    photos.backup(target)
    assert {name for name in Backup(target).entries if name.startswith("uploads")} == {
        "uploads/1-house.jpg",
        "uploads/.removed/2-house.jpg",
    }
    assert photos.backup(target).copied == 0
    Collection.restore(target, tmp_path / "new")
    with Collection(tmp_path / "new") as collection:
        item = collection.find(str(tmp_path / "new" / "uploads" / "1-house.jpg"))
        assert collection.get([item])[item].paths == [str(tmp_path / "new" / "uploads" / "1-house.jpg")]
        assert str(tmp_path / "new" / "uploads") in collection.sources()
        assert str(uploads) not in collection.sources()
        assert collection.read(item) == (uploads / "1-house.jpg").read_bytes()
        assert (tmp_path / "new" / "uploads" / "1-house.jpg").stat().st_mtime_ns == (
            (uploads / "1-house.jpg").stat().st_mtime_ns
        )
    assert (tmp_path / "new" / "uploads" / ".removed" / "2-house.jpg").exists()


def test_tokens_are_restored_and_only_their_owner_can_read_them(photos, target, tmp_path):
    add_token(photos.path, "anna", "judge")
    photos.backup(target)
    Collection.restore(target, tmp_path / "new")
    for file in (Backup(target).file("access.json"), tmp_path / "new" / "access.json"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert file.read_bytes() == (photos.path / "access.json").read_bytes()


def read_jobs(path):
    with closing(JobLedger(path, bool)) as ledger:
        return ledger.read()


def test_ended_jobs_are_restored_and_others_do_not_start_again(photos, target, tmp_path):
    with closing(JobLedger(photos.path, bool)) as ledger:
        for ended in (1.0, None, 2.5, None):
            ledger.add({"kind": "add", "ended": ended})
        photos.backup(target)  # while a service runs
        assert photos.backup(target).copied == 0
        ledger.write(2, {"kind": "add", "ended": 3.0})
        assert photos.backup(target).copied == 1
    Collection.restore(target, tmp_path / "new")
    assert read_jobs(tmp_path / "new") == {
        1: {"kind": "add", "ended": 1.0},
        2: {"kind": "add", "ended": 3.0},
        3: {"kind": "add", "ended": 2.5},
    }
    assert verify_jobs(tmp_path / "new") == []
    assert len(read_jobs(photos.path)) == 4


def test_a_backup_while_a_service_writes_jobs_contains_a_consistent_state(photos, target, tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from lookalike.store.jobs import JobLedger\n"
        "ledger = JobLedger(Path(sys.argv[1]), bool); print(flush=True)\n"
        "while True: ledger.add({'ended': 1.0}); time.sleep(0.002)"
    )
    with subprocess.Popen([sys.executable, "-c", code, photos.path], stdout=subprocess.PIPE) as service:
        try:
            service.stdout.readline()
            counts = []
            for number in range(4):
                photos.backup(target)
                Collection.restore(target, tmp_path / f"new{number}")
                found = list(read_jobs(tmp_path / f"new{number}"))
                assert found == list(range(1, len(found) + 1))
                assert verify_jobs(tmp_path / f"new{number}") == []
                counts.append(len(found))
        finally:
            service.kill()
    assert counts == sorted(counts)
    assert counts[-1] > counts[0]


def test_a_damaged_ledger_is_not_backed_up(photos, target):
    with closing(JobLedger(photos.path, bool)) as ledger:
        ledger.add({"ended": 1.0})
    photos.backup(target)
    file = photos.path / "jobs.sqlite"
    for damage in (DAMAGE["truncated"], lambda file: os.truncate(file, 0), lambda file: file.write_bytes(b"?" * 5_000)):
        data = file.read_bytes()
        damage(file)
        with pytest.raises(DamagedError, match=f"{file} .*is unchanged. Run: lookalike repair$"):
            photos.backup(target)
        file.write_bytes(data)
    assert photos.backup(target).copied == 0


def test_a_target_that_cannot_be_a_backup_is_refused(photos, target, tmp_path):
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "ada.txt").write_text("Dear Ada,")
    Collection(tmp_path / "other", create=True).close()
    for bad, why in (
        (photos.path, "inside"),
        (photos.path / "backup", "inside"),
        (tmp_path, "inside"),
        (tmp_path / "other", "is a collection"),
        (tmp_path / "letters", "is not empty"),
        (tmp_path / "letters" / "ada.txt", "is a file"),
    ):
        with pytest.raises(InputError, match=why):
            photos.backup(bad)
    photos.backup(target)
    for bad, why in ((tmp_path / "other", "not empty"), (target / "new", "inside"), (tmp_path, "inside|not empty")):
        with pytest.raises(InputError, match=why):
            Collection.restore(target, bad)
    for empty in ("letters", "letters/ada.txt", "nothing"):
        with pytest.raises(NoCollectionError, match="No backup"):
            Collection.restore(tmp_path / empty, tmp_path / "new")
    (tmp_path / "empty").mkdir()
    Collection.restore(target, tmp_path / "empty")
    assert state(tmp_path / "empty") == state(photos.path)


def test_a_backup_is_not_opened_as_a_collection(photos, target):
    photos.backup(target)
    for create in (False, True):
        with pytest.raises(NoCollectionError, match=f"is a backup.*lookalike restore {target}"):
            Collection(target, create=create)


def test_a_second_backup_at_the_same_time_is_refused(photos, target):
    tried = []

    def again(*_):
        if not tried:
            tried.append("backup")
            with pytest.raises(LockedError, match="Another process"):
                photos.backup(target)
            with pytest.raises(LockedError, match="Another process"):
                Collection.restore(target, target.with_name("new"))

    photos.backup(target)
    photos.backup(target, again)
    assert tried


def test_the_commands_report_what_they_did(photos, target, tmp_path, capsys):
    words = ["-c", str(photos.path), "backup", str(target)]
    assert cli.run(words) == 0
    assert "copied" in capsys.readouterr().out
    assert cli.run([*words, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["copied"], report["bytes"], report["skipped"]) == (0, 0, len(Backup(target).entries))
    assert cli.run(["restore", str(target), str(tmp_path / "new"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["copied"] == report["skipped"]
    assert cli.run(["restore", str(target), str(tmp_path / "new")]) == 2
    assert "is not empty" in capsys.readouterr().err
    assert cli.run(["restore", str(tmp_path), str(tmp_path / "newer")]) == 2


def test_the_service_writes_backups_only_to_its_backup_directory(shelf, target, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    judge, manage = add_token(own, "anna", "judge"), add_token(own, "otto", "manage")
    with running(own, backup_dir=target) as service:
        ask = {"json": {"kind": "backup"}, "headers": judge}
        assert "manage" in error(service.client.post("/api/v1/jobs", **ask), 403, "refused")
        body = {"kind": "backup", "target": str(tmp_path / "elsewhere")}
        error(service.client.post("/api/v1/jobs", json=body, headers=manage), 422, "input")
        job = service.post("/jobs", {"kind": "backup"}, 202, headers=manage)
        done = until(lambda: (now := service.get(f"/jobs/{job['id']}", headers=manage))["ended"] and now)
    assert (done["state"], done["arguments"]) == ("done", {})
    assert done["result"]["copied"] == len(Backup(target).entries)
    assert done["message"].endswith("all verified.")
    Collection.restore(target, tmp_path / "new")
    assert state(tmp_path / "new") == state(own)
    assert read_jobs(tmp_path / "new") == {}  # this backup had not ended when it was copied


def test_a_service_without_a_backup_directory_refuses_backups(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    with running(own) as service:
        answer = service.client.post("/api/v1/jobs", json={"kind": "backup"})
        assert "--backup-dir" in error(answer, 403, "refused")
    with pytest.raises(InputError, match="inside"), running(own, backup_dir=own / "backup"):
        pass
