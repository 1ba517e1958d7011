"""`repair`: every kind of damage is found, named with the command that repairs it, and repaired by that command."""

import json
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from damage import change_rows
from faults import in_small
from lookalike import Collection
from lookalike.cli import run
from lookalike.errors import DamagedError, NoCollectionError, StoreError
from lookalike.server.access import Access
from lookalike.store.database import connect as connect_database
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.store.jobs import JobLedger
from lookalike.store.schema import CATALOGUE
from serving import connect
from waiting import TIMEOUT_S, until

PIPELINE = "small = color() | pca(dim=8)"


@pytest.fixture(scope="module", autouse=True)
def _in_small() -> Iterator[None]:
    """Read pictures in this process, which is faster."""
    with in_small():
        yield


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures") / "pictures"
    random = np.random.default_rng(0)
    for kind in ("cloud", "fish", "flower", "sunset"):
        (folder / kind).mkdir(parents=True)
        for number in range(3):
            pixels = random.integers(0, 256, (6, 6, 3), np.uint8)
            Image.fromarray(pixels).resize((48, 48)).save(folder / kind / f"{kind}-{number}.png")
    return folder


@pytest.fixture(scope="module")
def whole(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A collection with all kinds of files, next to its backup. Tests never change it."""
    folder = tmp_path_factory.mktemp("whole")
    with Collection(folder / "c", create=True) as collection:
        for kind in sorted(pictures.iterdir()):
            collection.add(kind, recipes=PIPELINE)
        collection.fit("small")
        collection.classes.add("fish", [pictures / "fish"], author="anna")
        session = collection.session(ids(collection)[0], author="ben", name="sunny")
        session.mark(irrelevant=[ids(collection)[1]])
        collection.duplicates()
        from lookalike.store.backup import make_backup

        make_backup(collection.path, folder / "b")
    return folder


@pytest.fixture
def damaged(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test can damage."""
    shutil.copytree(whole, tmp_path / "copy")
    return tmp_path / "copy" / "c"


def ids(collection: Collection) -> list[int]:
    return [item.id for item in collection.items()]


def answers(collection: Collection) -> list[list[int]]:
    return [[result.id for result in collection.search(item, k=5)] for item in ids(collection)]


def truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size * 2 // 3])


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[104 if file.suffix == ".sqlite" else len(data) * 3 // 4] ^= 4  # in a database, this is a row count
    file.write_bytes(data)


def delete(file: Path) -> None:
    file.unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def make_directory(file: Path) -> None:
    file.unlink()
    file.mkdir()


def replace_database(file: Path) -> None:
    """Replace the file by a database of another program."""
    file.unlink()
    with closing(sqlite3.connect(file)) as db:
        db.execute("CREATE TABLE bookmarks (url)")


def swap(file: Path) -> None:
    """Replace the file by another of the same kind, or by a database if there is none."""
    others = [other for other in sorted(file.parent.glob(f"*{''.join(file.suffixes)}")) if other != file]
    collection = next(folder for folder in file.parents if (folder / "lock").exists())
    shutil.copy(others[0] if others else collection / "judgements.sqlite", file)


HARMS: list[Callable[[Path], None]] = [truncate, flip, delete, swap]

KINDS = {
    "base vectors": "vectors/color-2.npy",
    "ids of base vectors": "vectors/color-2.ids.npy",
    "derived vectors": "vectors/small-*[0-9].npy",
    "ids of derived vectors": "vectors/small-*.ids.npy",
    "model": "models/*.npz",
    "derived file": "derived/*.json",
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("harm", "backup"), [*((harm, False) for harm in HARMS), (flip, True)])
def test_damage_is_found_contained_and_repaired(damaged: Path, whole: Path, kind, harm, backup) -> None:
    file = sorted(damaged.glob(KINDS[kind]))[-1]
    with Collection(damaged) as collection:
        before = answers(collection)
    harm(file)
    with Collection(damaged) as collection:
        faults = collection.verify()
        if kind == "derived file" and harm is delete:
            assert faults == []  # only a cache is damaged
        else:
            assert faults
            assert all("Run: lookalike repair" in fault for fault in faults)
        assert collection.labels(ids(collection))  # everything else works
    report = Collection.repair(damaged, backup=damaged.with_name("b") if backup else None)
    assert report.left == []
    with Collection(damaged) as collection:
        assert collection.verify() == []
        assert answers(collection) == before
        assert collection.stats()["quarantined"] == []
    assert not list(damaged.glob("**/*.part"))


@pytest.mark.parametrize("kind", list(KINDS)[:4])
@pytest.mark.parametrize("harm", [Path.mkdir, lambda file: file.symlink_to(file.name)], ids=["directory", "loop"])
def test_a_segment_that_is_not_a_regular_file_is_damage(damaged: Path, kind: str, harm) -> None:
    (file,) = damaged.glob(KINDS[kind])
    file.unlink()
    harm(file)
    with Collection(damaged) as collection:
        assert collection.labels(ids(collection))  # everything else works
        (fault,) = collection.verify()
        assert fault.startswith(f"{file} is damaged: it is not a file")
        assert fault.endswith("Run: lookalike repair")
    assert Collection.repair(damaged).left == []
    with Collection(damaged) as collection:
        assert len(collection.vectors("small")[0]) == 12


@pytest.mark.parametrize("harm", HARMS)
def test_codes_of_damaged_vectors_are_skipped_until_they_are_repaired(
    damaged: Path, pictures: Path, tmp_path: Path, harm
) -> None:
    with Collection(damaged) as collection:
        collection.fit("codes(bits=8)")
    harm(damaged / "vectors" / "color-2.ids.npy")
    shutil.copytree(pictures / "fish", tmp_path / "more")
    for file in (tmp_path / "more").iterdir():
        file.write_bytes(file.read_bytes() + b" ")
    with Collection(damaged) as collection:
        assert len(collection.search(pictures / "fish" / "fish-0.png", space="codes", k=20)) == 9
        assert collection.add(tmp_path / "more").added == 3
    assert Collection.repair(damaged).left == []
    with Collection(damaged) as collection:
        assert len(collection.search(pictures / "fish" / "fish-0.png", space="codes", k=20)) == 15


@pytest.mark.parametrize("name", ["catalogue.sqlite", "judgements.sqlite"])
@pytest.mark.parametrize("harm", [*HARMS, empty, make_directory, replace_database])
def test_a_damaged_database_is_restored_from_a_backup(damaged: Path, name: str, harm) -> None:
    with Collection(damaged) as collection:
        before, labels = answers(collection), collection.labels(ids(collection))
    harm(damaged / name)
    try:
        with Collection(damaged) as collection:
            faults = collection.verify()
    except StoreError as error:
        faults = [str(error)]
    assert faults
    assert all("lookalike repair --from BACKUP" in fault for fault in faults)
    with pytest.raises(DamagedError, match="lookalike repair --from BACKUP"):
        Collection.repair(damaged)
    report = Collection.repair(damaged, backup=damaged.with_name("b"))
    assert report.left == []
    with Collection(damaged) as collection:
        assert collection.verify() == []
        assert answers(collection) == before
        assert collection.labels(ids(collection)) == labels
    if harm is not delete:
        assert list(damaged.glob(f"{name}.damaged-*"))


def test_search_and_add_work_while_judgements_are_damaged(damaged: Path, pictures: Path, tmp_path: Path) -> None:
    (damaged / "judgements.sqlite").write_bytes(b"no database" * 1000)
    shutil.copytree(pictures, tmp_path / "more")
    for file in (tmp_path / "more").rglob("*.png"):
        file.write_bytes(file.read_bytes() + b" ")
    with Collection(damaged) as collection:
        assert len(answers(collection)) == 12
        report = collection.add(tmp_path / "more")
        assert report.added == 12
        assert "not classified" in report.notes[0]
        assert any("judgements.sqlite" in fault and "repair --from" in fault for fault in collection.verify())
        with pytest.raises(StoreError, match="repair --from"):
            collection.label_counts()


def test_without_a_backup_an_empty_database_can_be_requested(damaged: Path) -> None:
    truncate(damaged / "judgements.sqlite")
    report = Collection.repair(damaged, without_backup=True)
    assert "replaced by an empty one" in report.done[0]
    with Collection(damaged) as collection:
        assert collection.verify() == []
        assert collection.label_counts() == {}
        assert len(answers(collection)) == 12


def test_a_damaged_model_does_not_prevent_adding_to_other_spaces(damaged: Path, pictures: Path, tmp_path: Path) -> None:
    with Collection(damaged) as collection:
        collection.fit("other = color() | pca(dim=4)")
    chain = {name: model for name, model in models(damaged).items() if model}
    flip(damaged / "models" / chain["small"])
    shutil.copytree(pictures / "fish", tmp_path / "more")
    for file in (tmp_path / "more").iterdir():
        file.write_bytes(file.read_bytes() + b" ")
    with Collection(damaged) as collection:
        assert collection.add(tmp_path / "more").added == 3
        new = [item.id for item in collection.items() if item.paths[0].startswith(str(tmp_path / "more"))]
        assert {result.id for result in collection.search(new[0], k=15, space="other")} >= set(new)
        known = pictures / "fish" / "fish-0.png"
        (tmp_path / "unknown.png").write_bytes(known.read_bytes() + b"  ")
        assert len(collection.search(known, space="small")) > 0  # its vector is stored
        with pytest.raises(DamagedError, match="Run: lookalike repair"):
            collection.search(tmp_path / "unknown.png", space="small")
    assert Collection.repair(damaged).left == []
    with Collection(damaged) as collection:
        assert {result.id for result in collection.search(new[0], k=15, space="small")} >= set(new)


def models(path: Path) -> dict[str, str | None]:
    with closing(sqlite3.connect(path / "catalogue.sqlite")) as db:
        return dict(db.execute("SELECT name, model FROM spaces"))


def test_pictures_with_missing_files_stay_quarantined_until_the_files_return(
    damaged: Path, pictures: Path, tmp_path: Path
) -> None:
    flip(damaged / "vectors" / "color-2.npy")
    away = pictures.rename(pictures.with_name("away"))
    try:
        report = Collection.repair(damaged)
        assert any("color-2.npy is quarantined" in fault for fault in report.left)
        with Collection(damaged) as collection:
            assert collection.stats()["quarantined"] == ["vectors/color-2.npy"]
    finally:
        away.rename(pictures)
    assert Collection.repair(damaged).left == []


ROWS = {
    "labels": "UPDATE labels SET label = 'fisk' WHERE item = (SELECT min(item) FROM labels)",
    "events": "UPDATE events SET kind = 'relevant' WHERE kind = 'irrelevant'",
    "sessions": "UPDATE sessions SET created_at = created_at + 1",
}


@pytest.mark.parametrize("table", ROWS)
@pytest.mark.parametrize("backup", [True, False])
def test_damaged_rows_are_found_and_replaced_or_moved_to_a_file(damaged: Path, table: str, backup: bool) -> None:
    with Collection(damaged) as collection:
        before = dump(damaged / "judgements.sqlite")
        collection.verify()
    change_rows(damaged / "judgements.sqlite", ROWS[table])
    with Collection(damaged) as collection:
        (fault,) = collection.verify()
        assert fault == f"judgements.sqlite: 1 row of {table} does not match its digest. Run: lookalike repair"
    report = Collection.repair(damaged, backup=damaged.with_name("b") if backup else None)
    assert report.left == []
    after = dump(damaged / "judgements.sqlite")
    if backup:
        assert (
            after.items() >= {table: before[table]}.items() or table == "labels"
        )  # a damaged key identifies a different row
        assert after["sessions"] == before["sessions"]
    elif table == "labels":
        assert len(after["labels"]) == len(before["labels"]) - 1
    (kept,) = damaged.glob("damaged-rows-*.json")
    assert list(json.loads(kept.read_text())) == [table]


def dump(file: Path) -> dict[str, list[tuple]]:
    with closing(sqlite3.connect(file)) as db:
        return {table: db.execute(f"SELECT * FROM {table}").fetchall() for table in ("labels", "events", "sessions")}


def test_a_damaged_row_is_never_copied_under_a_valid_digest(damaged: Path) -> None:
    change_rows(damaged / "judgements.sqlite", "UPDATE labels SET author = 'mallory'")
    with Collection(damaged) as collection:
        with pytest.raises(DamagedError, match=r"damaged row in labels\. Nothing was changed\. Run: lookalike repair"):
            collection.classes.rename("fish", "fishes")
        assert collection.label_counts() == {"fish": 3}
        assert collection.verify()


def dump_script(file: Path) -> str:
    """Return the script of `.dump` in the program sqlite3, which copies virtual tables by their declaration.

    Python's `iterdump` reads their rows, so they are removed from the file first.
    """
    with closing(sqlite3.connect(file, isolation_level=None)) as db:
        virtual = db.execute("SELECT name, sql FROM sqlite_master WHERE sql LIKE 'CREATE VIRTUAL%'").fetchall()
        db.execute("PRAGMA writable_schema = ON")
        db.executemany("DELETE FROM sqlite_master WHERE name = ?", [(name,) for name, _ in virtual])
    with closing(sqlite3.connect(file)) as db:
        lines = [*db.iterdump(), "PRAGMA writable_schema = ON;"]
    for name, sql in virtual:
        quoted = sql.replace("'", "''")
        lines.append(f"INSERT INTO sqlite_master VALUES ('table', '{name}', '{name}', 0, '{quoted}');")
    return "\n".join(lines)


@pytest.mark.parametrize("name", ["catalogue.sqlite", "judgements.sqlite"])
def test_repair_accepts_a_database_restored_from_its_dump(damaged: Path, name: str) -> None:
    file = damaged / name
    script = dump_script(file)
    file.unlink()
    with closing(sqlite3.connect(file)) as db:
        db.executescript(script)
    report = Collection.repair(damaged)
    assert report.left == []
    with Collection(damaged) as collection:
        assert collection.verify() == []
        assert collection.label_counts() == {"fish": 3}


def test_repair_needs_a_collection(tmp_path: Path) -> None:
    with pytest.raises(NoCollectionError, match="Nothing to repair"):
        Collection.repair(tmp_path)


def test_pictures_that_changed_or_are_missing_are_reported(damaged: Path, pictures: Path, tmp_path: Path) -> None:
    shutil.copytree(pictures, tmp_path / "p")
    with Collection(tmp_path / "new", create=True) as collection:
        collection.add(tmp_path / "p", recipes="color")
        assert collection.verify(pictures=True) == []
        changed, missing = sorted((tmp_path / "p").rglob("*.png"))[:2]
        changed.write_bytes(changed.read_bytes() + b" ")
        missing.unlink()
        assert collection.verify() == []
        faults = collection.verify(pictures=True)
    assert [fault.split(" Run")[0] for fault in sorted(faults)] == [
        f"{changed} has changed since it was added.",
        f"{missing} cannot be read: it is missing.",
    ]


def test_a_different_file_with_the_id_of_a_known_one_is_skipped(damaged: Path, pictures: Path, tmp_path: Path) -> None:
    """Simulate another picture whose digest has the same first 63 bits."""
    file = sorted(pictures.rglob("*.png"))[0]
    with Collection(damaged) as collection:
        (item,) = [item.id for item in collection.items() if item.paths[0] == str(file)]
    with closing(sqlite3.connect(damaged / "catalogue.sqlite")) as db, db:
        triggers = db.execute("SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = 'items'").fetchall()
        for (name,) in triggers:
            db.execute(f"DROP TRIGGER {name}")
        db.execute("UPDATE items SET content = ? WHERE id = ?", [bytes(32), item])
    copy = tmp_path / "copy of it.png"
    shutil.copy(file, copy)
    with Collection(damaged) as collection:
        report = collection.add(copy)
        assert list(report.skipped) == [str(copy)]
        assert "id" in report.skipped[str(copy)]
        assert report.copied == 0


def test_items_of_older_collections_get_the_digest_of_their_file(damaged: Path) -> None:
    with closing(connect_database(damaged / "catalogue.sqlite", CATALOGUE)) as db:
        before = db.execute("SELECT id, content FROM items").fetchall()
        db.execute("UPDATE items SET content = NULL")
    with Collection(damaged) as collection:
        assert {item.content for item in collection.items()} == {None}
        assert collection.verify(pictures=True) == []
        assert [(item.id, item.content) for item in collection.items()].sort() == before.sort()


def test_damaged_indexes_are_found_and_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lookalike.collection.indexes.LEAVES_MIN", 1_000)
    monkeypatch.setattr("lookalike.index.choice.FLAT_MAX", 500)
    rows = np.random.default_rng(0).random((1_200, 4), np.float32)
    store = Store(tmp_path / "c", create=True)
    with store.writer():
        with store.transaction():
            store.vectors.create_space("color()", ["color()"])
            store.vectors.create_space("plain", ["color()"], "color()")
        pending = store.vectors.write("color()", np.arange(1_200), rows)
        with store.transaction():
            store.items.add([Item(item, [], 1, 1, 1, "png", 0.0, None) for item in range(1_200)])
            store.vectors.commit(pending)
    store.close()
    with Collection(tmp_path / "c") as collection:
        collection.compact()
    files = sorted((tmp_path / "c" / "indexes").iterdir())
    assert {file.suffix for file in files} == {".faiss", ".leaves"}
    for place, harm in enumerate((truncate, flip, delete)):
        file = sorted((tmp_path / "c" / "indexes").iterdir())[place % 2]
        harm(file)
        with Collection(tmp_path / "c") as collection:
            (fault,) = collection.verify()
            assert file.name in fault
            assert fault.endswith("Run: lookalike repair")
            assert len(collection.search(7, k=5)) == 5  # by a scan, if the index cannot be opened
        assert Collection.repair(tmp_path / "c").left == []
        assert len(list((tmp_path / "c" / "indexes").iterdir())) == 2


TOKENS = [
    {"name": name, "role": "view", "sha256": digit * 64, "added_at": 1.0}
    for name, digit in (("anna", "a"), ("ben", "b"))
]


@pytest.fixture
def served(damaged: Path) -> Path:
    """A collection with tokens and jobs of a service, and a backup with both."""
    Access(damaged).add("anna", "view")
    with closing(JobLedger(damaged, bool)) as ledger:
        for number in range(1, 31):
            ledger.add({"text": "x" * 400, "ended": None if number == 30 else float(number)})
    with Collection(damaged) as collection:
        collection.backup(damaged.with_name("b"))
    return damaged


def spoil(file: Path) -> None:
    file.write_bytes(b"?" + file.read_bytes()[1:])


def read_jobs(collection: Path) -> list[int]:
    with closing(JobLedger(collection, bool)) as ledger:
        return list(ledger.read())


@pytest.mark.parametrize("harm", [truncate, spoil, swap])
def test_damage_to_the_files_of_the_service_is_found_and_repaired(served: Path, harm, capsys) -> None:
    for name in ("access.json", "jobs.sqlite"):
        harm(served / name)
    assert run(["-c", str(served), "verify"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    jobs, access = lines
    assert jobs.endswith(f"lookalike -c {served} repair")
    assert f"lookalike -c {served} repair --from BACKUP." in access
    assert run(["-c", str(served), "repair"]) == 1  # no token is valid, so the service accepts none
    assert capsys.readouterr().out.splitlines()[-1] == f"not repaired: {access}"
    assert run(["-c", str(served), "repair", "--from", str(served.with_name("b"))]) == 0
    assert "access.json was restored from the backup." in capsys.readouterr().out
    assert [entry.name for entry in Access(served).entries()] == ["anna"]
    assert (served / "access.json").stat().st_mode & 0o777 == 0o600
    assert run(["-c", str(served), "verify"]) == 0


@pytest.mark.parametrize("harm", [truncate, spoil, swap, empty, make_directory, replace_database])
def test_a_damaged_ledger_is_restored_from_a_backup(served: Path, harm, capsys) -> None:
    harm(served / "jobs.sqlite")
    assert run(["-c", str(served), "verify"]) == 1
    (line,) = capsys.readouterr().out.splitlines()
    assert "jobs.sqlite" in line
    assert line.endswith(f"un: lookalike -c {served} repair")
    with Collection(served) as collection:
        assert len(answers(collection)) == 12
        with pytest.raises(DamagedError, match=r"jobs\.sqlite"):
            collection.backup(served.with_name("b"))
    assert run(["-c", str(served), "repair", "--from", str(served.with_name("b"))]) == 0
    assert " restored from the backup; any others are lost. The damaged file is kept as " in capsys.readouterr().out
    # The damaged file can have more jobs than the backup: it also has the unfinished job.
    assert read_jobs(served)[:29] == list(range(1, 30))
    assert run(["-c", str(served), "verify"]) == 0


def test_damaged_jobs_are_restored_from_a_backup_and_unfinished_ones_removed(served: Path, capsys) -> None:
    change_rows(served / "jobs.sqlite", "UPDATE jobs SET fields = '{}' WHERE id IN (7, 30)")
    assert run(["-c", str(served), "verify"]) == 1
    assert capsys.readouterr().out == (
        f"jobs.sqlite: 2 rows of jobs do not match their digest. Run: lookalike -c {served} repair\n"
    )
    assert run(["-c", str(served), "repair", "--from", str(served.with_name("b"))]) == 0
    assert "jobs.sqlite, jobs: 1 row restored from the backup, 1 row removed." in capsys.readouterr().out
    assert read_jobs(served) == list(range(1, 30))
    with closing(JobLedger(served, bool)) as ledger:
        assert ledger.read()[7] == {"text": "x" * 400, "ended": 7.0}


def test_a_ledger_that_a_service_uses_is_not_replaced(served: Path, capsys) -> None:
    with closing(JobLedger(served, bool)):
        truncate(served / "jobs.sqlite")
        assert run(["-c", str(served), "repair"]) == 1
        assert "Stop the service, then run: lookalike -c" in capsys.readouterr().out
    assert run(["-c", str(served), "repair"]) == 0
    assert run(["-c", str(served), "verify"]) == 0


def test_valid_tokens_survive_the_repair_of_access_json(served: Path, capsys) -> None:
    (served / "access.json").write_text(json.dumps({"tokens": [TOKENS[0], {**TOKENS[1], "role": "king"}]}))
    assert run(["-c", str(served), "verify"]) == 1
    assert capsys.readouterr().out.endswith(f"Run: lookalike -c {served} repair\n")  # without a backup
    assert run(["-c", str(served), "repair"]) == 0
    assert "1 token kept, 1 invalid one removed" in capsys.readouterr().out
    assert [entry.name for entry in Access(served).entries()] == ["anna"]


def test_stats_and_the_command_line_name_quarantined_files(damaged: Path, capsys) -> None:
    flip(damaged / "vectors" / "color-2.npy")
    with Collection(damaged) as collection:
        collection.compact()
    capsys.readouterr()
    assert run(["-c", str(damaged), "stats"]) == 0
    assert (
        f"quarantined: vectors/color-2.npy; searches do not find its pictures. Run: lookalike -c {damaged} repair"
        in (capsys.readouterr().out)
    )
    assert run(["-c", str(damaged), "repair", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["left"] == []
    assert run(["-c", str(damaged), "repair"]) == 0
    assert capsys.readouterr().out == "Nothing needed repair.\n"


def test_a_service_survives_the_truncation_of_an_open_segment(damaged: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lookalike", "-c", str(damaged), "serve", "--port", "0"]
    with (tmp_path / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
    assert process.stdout is not None
    try:
        address = process.stdout.readline().split()[-1]
        with connect(address) as client:
            items = [item["id"] for item in client.get("/api/v1/items").json()["items"]]
            search = {"examples": [{"id": items[0]}], "k": 12}
            assert len(client.post("/api/v1/search", json=search).json()["results"]) == 12
            (file,) = damaged.glob("vectors/small-*[0-9].npy")
            with file.open("r+b") as stream:
                stream.truncate(100)
            until(lambda: "quarantined" in (tmp_path / "log").read_text())
            answer = client.post("/api/v1/search", json={"examples": [{"id": items[0]}], "k": 12, "space": "small"})
            assert answer.status_code in (200, 422)  # its only segment is quarantined, but the service runs
            assert len(client.get("/api/v1/items").json()["items"]) == 12
        assert file.name in (tmp_path / "log").read_text()
    finally:
        process.terminate()
        process.wait(TIMEOUT_S)
        process.stdout.close()
    assert process.returncode == 0


def test_a_damaged_access_json_is_not_restored_from_a_backup(served: Path, capsys) -> None:
    (served / "access.json").write_text(json.dumps({"tokens": [{**TOKENS[0], "role": "king"}]}))
    with Collection(served) as collection:
        collection.backup(served.with_name("b"))
    assert run(["-c", str(served), "repair", "--from", str(served.with_name("b"))]) == 1
    assert "has no valid token" in capsys.readouterr().out


def test_a_backup_given_as_a_collection_or_the_reverse_is_reported(damaged: Path, capsys) -> None:
    backup = damaged.with_name("b")
    assert run(["-c", str(backup), "repair"]) == 2
    assert f"{backup} is a backup, not a collection." in capsys.readouterr().err
    assert run(["restore", str(damaged), str(damaged.with_name("new"))]) == 2
    assert f"{damaged} is a collection, not a backup." in capsys.readouterr().err


def test_commands_in_json_name_the_collection(damaged: Path, capsys) -> None:
    flip(damaged / "vectors" / "color-2.npy")
    assert run(["-c", str(damaged), "verify", "--json"]) == 1
    (fault,) = json.loads(capsys.readouterr().out)["faults"]
    assert fault.endswith(f"Run: lookalike -c {damaged} repair")


def test_repair_removes_the_files_of_a_killed_repair(damaged: Path) -> None:
    (damaged / ".judgements.sqlite.1-2.part").write_bytes(b"half")
    assert Collection.repair(damaged).left == []
    assert not list(damaged.glob(".*.part"))


def test_a_damaged_upload_is_not_backed_up_and_is_restored(damaged: Path, pictures: Path) -> None:
    """Uploads are originals: the collection and its backup have the only copies."""
    upload = damaged / "uploads" / "0123456789abcdef-a.png"
    upload.parent.mkdir()
    data = sorted(pictures.rglob("*.png"))[0].read_bytes() + b" "
    upload.write_bytes(data)
    backup = damaged.with_name("b")
    with Collection(damaged) as collection:
        collection.add(upload.parent)
        collection.backup(backup)
        truncate(upload)
        (fault,) = collection.verify(pictures=True)
        assert "0123456789abcdef-a.png has changed since it was added. Run: lookalike repair --from BACKUP" in fault
        with pytest.raises(DamagedError, match="has changed since it was backed up"):
            collection.backup(backup)
    for harm in (lambda: None, upload.unlink):
        harm()
        assert "uploads/0123456789abcdef-a.png was restored from the backup." in (
            Collection.repair(damaged, backup=backup).done
        )
        assert upload.read_bytes() == data


def test_damaged_tokens_do_not_replace_those_of_a_backup(served: Path) -> None:
    spoil(served / "access.json")
    with Collection(served) as collection, pytest.raises(DamagedError, match=r"access\.json is damaged"):
        collection.backup(served.with_name("b"))
    assert run(["-c", str(served), "repair", "--from", str(served.with_name("b"))]) == 0


@pytest.mark.parametrize("name", ["catalogue.sqlite", "judgements.sqlite"])
def test_a_database_without_tables_is_damaged_and_not_new(damaged: Path, name: str) -> None:
    (damaged / name).unlink()
    with closing(sqlite3.connect(damaged / name)) as db:
        db.execute("CREATE TABLE x (y)")
        db.execute("DROP TABLE x")
    with pytest.raises(StoreError, match="lookalike repair --from BACKUP"), Collection(damaged) as collection:
        collection.label_counts()
    assert Collection.repair(damaged, backup=damaged.with_name("b")).left == []
    with Collection(damaged) as collection:
        assert collection.label_counts() == {"fish": 3}
        assert len(answers(collection)) == 12
