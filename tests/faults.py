"""Inject faults at every call by which the store changes files: I/O errors, full disks, crashes and power cuts.

`Calls` numbers the calls of this process that change files below a folder: `open`, `write`, `fsync`, `rename`,
`unlink`, `mkdir`, `symlink`, and SQL statements that write. Python cannot intercept the calls that SQLite itself makes.
`run_points` runs a verb of a collection once per call, with a fault at that call, and checks the remaining files.
The test suite runs a sample of the points (`test_faults.py`), `benchmarks/fault_injection.py` all of them.
"""

import builtins
import errno
import io
import json
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
from PIL import Image

from lookalike import Collection
from lookalike.errors import FullError, StoreError
from lookalike.store import database, directory
from lookalike.store.directory import Store
from lookalike.store.jobs import JobLedger
from lookalike.store.schema import JOBS, JOBS_FILE
from reading import in_this_process

SQL_WRITES = ("INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP", "COMMIT", "VACUUM", "BEGIN IMMEDIATE")
PRAGMA_WRITES = ("PRAGMA user_version =", "PRAGMA application_id =", "PRAGMA journal_mode =", "PRAGMA wal_checkpoint")


class Call(NamedTuple):
    """A call that is about to change files."""

    number: int  # starts at 1
    verb: str  # "open", "write", …; for SQLite, the first word of the statement
    path: str  # "" for SQLite
    needs_space: bool  # whether it fails on a full disk


class Calls:
    """Intercept the calls of this process that change files below a folder. Use it as a context manager.

    `before` receives each call first and can raise an error instead. `disk` records the calls that succeed.
    """

    trusts_sqlite = True
    """Whether the calls that SQLite itself makes are not intercepted."""

    def __init__(self, folder: Path, before: Callable[[Call], None], disk: "Disk | None" = None):
        self.count = 0
        self._folder = os.fspath(folder) + "/"
        self._before = before
        self._disk = disk
        self._stack = ExitStack()

    def __enter__(self) -> "Calls":
        def patched(target: Any, name: str, make: Callable[[Any], Any]) -> None:
            self._stack.enter_context(patch.object(target, name, make(getattr(target, name))))

        for name in ("unlink", "remove", "rmdir", "mkdir", "rename", "replace"):
            patched(os, name, self._by_path)
        for name in ("fsync", "fdatasync", "write", "pwrite", "ftruncate", "sendfile"):
            patched(os, name, self._by_descriptor)
        patched(os, "symlink", self._symlink)
        patched(os, "open", self._os_open)
        for module in (io, builtins):
            patched(module, "open", self._open)
        for name in ("execute", "executemany"):
            patched(database.Connection, name, self._sql)
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def make(self, verb: str, path: str, call: Callable[[], Any]) -> Any:
        """Make a call, unless `before` raises."""
        self.count += 1
        frees = verb in ("unlink", "rmdir", "truncate", "BEGIN") or (verb == "open" and os.path.exists(path))
        self._before(Call(self.count, verb, path, not frees))
        return call()

    def _inside(self, path: Any) -> str | None:
        if isinstance(path, int):
            path = os.readlink(f"/proc/self/fd/{path}")
        found = os.path.abspath(os.fspath(path))
        return found if isinstance(found, str) and (found + "/").startswith(self._folder) else None

    def _by_path(self, real: Any) -> Any:
        verb = {"remove": "unlink", "replace": "rename"}.get(real.__name__, real.__name__)

        def call(path: Any, *rest: Any, **options: Any) -> Any:
            where = None if options.get("dir_fd") is not None else self._inside(path)
            if where is None:
                return real(path, *rest, **options)
            found = self.make(verb, where, lambda: real(path, *rest, **options))
            if self._disk:
                self._disk.follow(verb, where, *map(os.fspath, rest[:1] if verb == "rename" else ()))
            return found

        return call

    def _by_descriptor(self, real: Any) -> Any:
        verb = {"fsync": "fsync", "fdatasync": "fsync"}.get(real.__name__, "write")

        def call(descriptor: int, *rest: Any) -> Any:
            where = self._inside(descriptor)
            if where is None:
                return real(descriptor, *rest)
            # `Disk` simulates power cuts, so waiting for the real disk would only cost time.
            found = self.make(verb, where, lambda: None if verb == "fsync" else real(descriptor, *rest))
            if self._disk:
                self._disk.follow(verb, where)
            return found

        return call

    def _symlink(self, real: Any) -> Any:
        def call(target: Any, link: Any, *rest: Any, **options: Any) -> Any:
            where = self._inside(link)
            if where is None:
                return real(target, link, *rest, **options)
            return self.make("symlink", where, lambda: real(target, link, *rest, **options))

        return call

    def _os_open(self, real: Any) -> Any:
        def call(path: Any, flags: int, *rest: Any, **options: Any) -> Any:
            writes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT) and not flags & os.O_DIRECTORY
            where = self._inside(path) if writes and options.get("dir_fd") is None else None
            if where is None:
                return real(path, flags, *rest, **options)
            found = self.make("open", where, lambda: real(path, flags, *rest, **options))
            if self._disk:
                self._disk.follow("open", where)
            return found

        return call

    def _open(self, real: Any) -> Any:
        def call(path: Any, mode: str = "r", buffering: int = -1, *rest: Any, **options: Any) -> Any:
            where = None if isinstance(path, int) or not set(mode) & set("wax+") else self._inside(path)
            if where is None:
                return real(path, mode, buffering, *rest, **options)
            file = self.make("open", where, lambda: _CountedFile(self, path, mode.replace("t", "").replace("b", "")))
            if self._disk:
                self._disk.follow("open", where)
            if buffering == 0:
                return file
            buffered = io.BufferedRandom(file) if "+" in mode else io.BufferedWriter(file)
            return buffered if "b" in mode else io.TextIOWrapper(buffered, *rest, **options)

        return call

    def _sql(self, real: Any) -> Any:
        def call(connection: Any, statement: str, *values: Any) -> Any:
            text = statement.strip()
            if not text.upper().startswith(SQL_WRITES) and not text.startswith(PRAGMA_WRITES):
                return real(connection, statement, *values)
            return self.make(text.split()[0].upper(), "", lambda: real(connection, statement, *values))

        return call


class _CountedFile(io.FileIO):
    """A file whose writes are counted."""

    def __init__(self, calls: Calls, path: Any, mode: str):
        super().__init__(path, mode)
        self._calls = calls

    def write(self, data: Any) -> int:
        found: int = self._calls.make("write", os.fspath(self.name), lambda: io.FileIO.write(self, data))
        return found


Files = dict[str, bytes | None]
"""The content of files by their path relative to a folder; None for a subfolder."""


class _File:
    """The content of a file that survives a power cut, independent of its name."""

    def __init__(self, synced: bytes = b""):
        self.synced = synced


class Disk:
    """Simulates which files of a folder survive a power cut.

    A file keeps the content of its last `fsync`. Its name is certain to survive if its folder was synced afterwards.
    `trusts_sqlite`: files of SQLite survive with their current content, because its calls are not intercepted.
    """

    def __init__(self, folder: Path, *, trusts_sqlite: bool):
        self._folder = folder
        self._trusts_sqlite = trusts_sqlite
        self._now = {path: None if data is None else _File(data) for path, data in read_files(folder).items()}
        self._synced = dict(self._now)

    def follow(self, verb: str, path: str, target: str = "") -> None:
        """Record a call that succeeded."""
        name = os.path.relpath(path, self._folder)
        if verb == "open":
            self._now.setdefault(name, _File())
        elif verb == "mkdir":
            self._now[name] = None
        elif verb in ("unlink", "rmdir"):
            self._now.pop(name, None)
        elif verb == "rename":
            new = os.path.relpath(os.path.abspath(target), self._folder)
            for old in [old for old in self._now if old == name or old.startswith(f"{name}/")]:
                self._now[new + old.removeprefix(name)] = self._now.pop(old)
        elif verb == "fsync" and os.path.isdir(path):
            inside = {known for known in {*self._now, *self._synced} if (os.path.dirname(known) or ".") == name}
            for known in inside - self._now.keys():
                del self._synced[known]
            self._synced.update({known: self._now[known] for known in inside & self._now.keys()})
        elif verb == "fsync" and isinstance(file := self._now.get(name), _File):
            file.synced = Path(path).read_bytes()

    def left(self, *, names: bool) -> Files:
        """Return the files that survive a power cut now; `names`: with names that were not synced."""
        real = read_files(self._folder)
        where = {id(file): name for name, file in self._now.items() if file is not None}
        found: Files = {}
        for name, file in (self._now if names else self._synced).items():
            if file is None:
                found[name] = None
            elif self._trusts_sqlite and ".sqlite" in name:
                found[name] = real.get(where.get(id(file), ""), file.synced)
            else:
                found[name] = file.synced
        if self._trusts_sqlite:
            found |= {name: data for name, data in real.items() if name.endswith(("-wal", "-journal"))}
        found = {name: data for name, data in found.items() if not name.endswith("-shm")}
        return {name: data for name, data in found.items() if all(str(up) in found for up in Path(name).parents[:-1])}


def read_files(folder: Path) -> Files:
    """Return every file and folder below a folder, except SQLite's shared-memory files."""
    found: Files = {}
    for file in sorted(folder.rglob("*")):
        with suppress(FileNotFoundError):
            if not file.name.endswith("-shm"):
                found[str(file.relative_to(folder))] = None if file.is_dir() else file.read_bytes()
    return found


def write_files(folder: Path, files: Files) -> None:
    """Replace the content of a folder with these files."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, data in sorted(files.items()):
        if data is None:
            (folder / name).mkdir()
        else:
            (folder / name).write_bytes(data)


# The verbs


Step = Callable[[Collection, Path], object]
"""A call on a collection; the path is the folder of the pictures."""


@dataclass(frozen=True)
class Verb:
    """The steps of an operation on a collection. A step is acknowledged when it returns."""

    steps: list[Step]
    in_parts: bool = False  # a step has several commits and can be interrupted between them
    new: bool = False  # starts without a collection
    before: Callable[[Path], None] | None = None  # prepares the collection
    damage: Callable[[Path], None] | None = None  # prepares the collection and damages it


def _session(collection: Collection) -> Any:
    (found,) = [session.id for session in collection.sessions() if session.name == "red"]
    return collection.session(id=found, author="ada")


def _flip_bits(collection: Path) -> None:
    """Damage vectors of a feature, vectors of a fitted space, and a model."""
    for file in (*sorted(collection.glob("vectors/*[0-9].npy"))[::2], *collection.glob("models/*.npz")):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)


def _repair(collection: Collection) -> None:
    left = Collection.repair(collection.path).left
    assert not left, f"repair: {left}"


def _in_ledger(change: Callable[[JobLedger], object]) -> Step:
    """Return a step that opens the job ledger, as a starting service does, and changes it."""

    def step(collection: Collection, _: Path) -> None:
        with closing(JobLedger(collection.path, bool)) as ledger:
            change(ledger)

    return step


def _job(number: int, ended: float | None = None) -> dict[str, Any]:
    return {"kind": "refresh", "arguments": {"number": number}, "created": float(number), "ended": ended}


def write_job_files(collection: Path) -> None:
    """Write jobs in the format of an older version: two job files, the lock and a partly written file."""
    (collection / "jobs").mkdir()
    (collection / "jobs" / "lock").touch()
    (collection / "jobs" / ".4.json.1-1.part").write_text("{")
    for number, ended in ((1, 2.0), (3, None)):
        (collection / "jobs" / f"{number}.json").write_text(json.dumps({"id": number, **_job(number, ended)}))


def _write_ledger(collection: Path) -> None:
    with closing(JobLedger(collection, bool)) as ledger:
        for ended in (2.0, None):
            ledger.add(_job(1, ended))


VERBS = {
    "create": Verb([lambda c, pictures: c.add(pictures / "new", recipes=["color"])], in_parts=True, new=True),
    "add": Verb([lambda c, pictures: c.add(pictures / "new")], in_parts=True),
    "remove": Verb([lambda c, pictures: c.remove(pictures / "old" / "0.png", pictures / "old" / "3.png")]),
    "fit": Verb([lambda c, _: c.fit("small"), lambda c, _: c.fit("tiny = color() | pca(dim=2)")], in_parts=True),
    "mark": Verb(
        [
            lambda c, pictures: c.session(pictures / "old" / "1.png", name="red", author="ada"),
            lambda c, _: _session(c).round(k=3, window=3),
            lambda c, pictures: _session(c).mark(pictures / "old" / "2.png", pictures / "old" / "4.png"),
            lambda c, pictures: _session(c).mark(skip=pictures / "old" / "5.png"),
            lambda c, _: _session(c).undo(),
            lambda c, _: _session(c).finish(),
        ]
    ),
    "class": Verb(
        [
            lambda c, pictures: c.classes.add("sea", [pictures / "old" / "1.png", pictures / "old" / "2.png"]),
            lambda c, _: c.classes.rename("sea", "lake"),
            lambda c, pictures: c.classes.remove("lake", pictures / "old" / "1.png"),
            lambda c, _: c.classes.delete("kept"),
        ]
    ),
    "label": Verb([lambda c, pictures: c.import_labels(pictures)]),
    "compact": Verb([lambda c, _: c.compact()], in_parts=True),
    "map": Verb([lambda c, _: c.map("color")]),
    "remove space": Verb([lambda c, _: c.remove_space("small")], in_parts=True),
    "backup": Verb([lambda c, _: c.backup(c.path.with_name("backup"))] * 2, in_parts=True, before=_write_ledger),
    "job": Verb(
        [
            _in_ledger(lambda ledger: ledger.add(_job(1))),
            _in_ledger(lambda ledger: ledger.write(1, _job(1, 2.0))),
            _in_ledger(lambda ledger: ledger.add(_job(2))),
            _in_ledger(lambda ledger: ledger.remove([1])),
        ]
    ),
    "migrate jobs": Verb([_in_ledger(lambda _: None)], before=write_job_files),
    "repair": Verb([lambda c, _: _repair(c)], in_parts=True, damage=_flip_bits),
}


def draw_pictures(folder: Path) -> Path:
    """Write eight old and four new pictures of noise."""
    chance = np.random.default_rng(0)
    for part, n in (("old", 8), ("new", 4)):
        (folder / part).mkdir(parents=True)
        for i in range(n):
            Image.fromarray(chance.integers(0, 256, (8, 8, 3), np.uint8)).save(folder / part / f"{i}.png")
    return folder


def prepare(folder: Path, pictures: Path) -> Files:
    """Create a collection with every kind of content in `folder`/c; return the files of `folder`."""
    old = pictures / "old"
    with in_small(), Collection(folder / "c", create=True) as collection:
        for i in range(3):
            collection.add(old / f"{i}.png", recipes=["color", "small = color() | pca(dim=2) | l2()"])
        collection.fit("small")
        collection.add(old)
        collection.remove(old / "6.png", old / "7.png")
        collection.classes.add("kept", [old / "0.png", old / "1.png"])
        session = collection.session(old / "0.png", name="open", author="bob")
        session.mark(old / "1.png", old / "2.png")
    return read_files(folder)


@contextmanager
def scratch_folder() -> Iterator[Path]:
    """Create a temporary folder, in memory if possible, because SQLite waits for the disk at every commit."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        yield Path(folder)


@contextmanager
def in_small() -> Iterator[None]:
    """Read pictures in this process, because reading processes write nothing, and use a small reserve."""
    with in_this_process(), patch.object(directory, "RESERVE_BYTES", 4_096):
        yield


def read_state(collection: Collection) -> frozenset[Any]:
    """Return the content of a collection as facts that can be compared between runs."""
    facts: set[Any] = {("source", source) for source in collection.sources()}
    ids = []
    for item in collection.items():
        ids.append(item.id)
        facts.add(("item", item.id, item.width, item.content, *sorted(item.paths)))
    facts |= {("label", item, label) for item, labels in collection.labels(ids).items() for label in labels}
    facts |= {("class", known.name) for known in collection.classes.all()}
    for summary in collection.sessions():
        marks = frozenset(collection.session(id=summary.id).marks.items())
        facts.add(("session", summary.name, summary.author, summary.state, summary.rounds, marks))
    for space in collection.stats()["spaces"]:
        facts.add(("space", space["name"]))
        if ids and space["state"] != "raw":
            for item, row in zip(*collection.vectors(space["name"]), strict=True):
                facts.add(("vector", space["name"], int(item), blake2b(row.tobytes(), digest_size=8).hexdigest()))
    return frozenset(facts | read_jobs(collection.path))


def read_jobs(path: Path) -> set[Any]:
    """Return the jobs of a collection as facts, from rows or from files of an older version. Changes no file."""
    found = [json.loads(file.read_text()) for file in path.glob("jobs/*.json")]
    with tempfile.TemporaryDirectory() as copy:
        for file in path.glob("jobs.sqlite*"):
            if not file.name.endswith("-shm"):
                shutil.copy(file, copy)
        if Path(copy, "jobs.sqlite").exists():
            with closing(sqlite3.connect(Path(copy, "jobs.sqlite"))) as db:
                rows = db.execute("SELECT id, fields FROM jobs").fetchall()
            found += [{"id": number, **json.loads(fields)} for number, fields in rows]
    return {("job", json.dumps(job, sort_keys=True)) for job in found}


# The points


@dataclass
class Outcome:
    """The number of points per fault, the number of different states after crashes, and the problems found."""

    points: Counter[str] = field(default_factory=Counter)
    states: int = 0
    problems: list[str] = field(default_factory=list)


class _Crash(NamedTuple):
    """The files after a crash at a call, and the number of acknowledged steps."""

    call: Call
    fault: str
    acknowledged: int
    files: Files


class Points:
    """The points of one verb: its calls, and the expected state after each step."""

    def __init__(self, name: str, folder: Path, files: Files, pictures: Path, watch: type[Calls] = Calls):
        self._name = name
        self._watch = watch
        self._verb = VERBS[name]
        self._folder = folder
        self._files = {} if self._verb.new else files
        for change in (self._verb.before, self._verb.damage):
            if change is not None:
                write_files(folder, self._files)
                change(folder / "c")
                self._files = read_files(folder)
        self._pictures = pictures
        self._crashes: list[_Crash] = []
        self.states: list[frozenset[Any]] = []
        self.calls: list[Call] = []
        self._run_once()

    def run(self, stride: int = 1) -> Outcome:
        """Check every `stride`-th call with every fault that can occur there."""
        outcome = Outcome()
        for call in self.calls[::stride]:
            for fault, number in (("EIO", errno.EIO), ("ENOSPC", errno.ENOSPC)):
                if fault == "EIO" or call.needs_space:
                    outcome.points[fault] += 1
                    outcome.problems += self._describe(call, fault, lambda c=call, n=number: self._fail(c, n))
        checked = set()
        for crash in self._crashes:
            if (crash.call.number - 1) % stride == 0 or crash.call.number > len(self.calls):
                outcome.points[crash.fault] += 1
                key = crash.acknowledged, hash(tuple(sorted(crash.files.items(), key=lambda pair: pair[0])))
                if key not in checked:
                    checked.add(key)
                    outcome.problems += self._describe(
                        crash.call, crash.fault, lambda c=crash: self._reboot(c.files, c.acknowledged)
                    )
        outcome.states = len(checked)
        return outcome

    def _run_once(self) -> None:
        """Run the verb without a fault and record its calls, the state after each step, and the files after a crash."""
        write_files(self._folder, self._files)
        disk, acknowledged = Disk(self._folder, trusts_sqlite=self._watch.trusts_sqlite), 0

        def crash(call: Call) -> None:
            for fault, files in (
                ("kill", read_files(self._folder)),
                ("power cut", disk.left(names=False)),
                ("power cut, names kept", disk.left(names=True)),
            ):
                self._crashes.append(_Crash(call, fault, acknowledged, files))

        def note(call: Call) -> None:
            self.calls.append(call)
            crash(call)

        with in_small(), self._watch(self._folder, note, disk):
            collection = Collection(self._folder / "c", create=not self._files)
            self.states.append(read_state(collection))
            for step in self._verb.steps:
                step(collection, self._pictures)
                acknowledged += 1
                self.states.append(read_state(collection))
            crash(Call(len(self.calls) + 1, "return", "", needs_space=False))
            collection.close()

    def _fail(self, at: Call, number: int) -> None:
        """Check a run in which a call fails. On a full disk, all later calls that need space fail too.

        The result is checked three times: in this process, in the next process, and as if this process had been killed.
        """
        write_files(self._folder, self._files)

        def fail(call: Call) -> None:
            full = number == errno.ENOSPC and call.number > at.number and call.needs_space
            if full or call.number == at.number:
                raise make_error(call, number)

        acknowledged, error, collection = 0, None, None
        try:
            with in_small(), self._watch(self._folder, fail):
                collection = Collection(self._folder / "c", create=not self._files)
                for step in self._verb.steps:
                    step(collection, self._pictures)
                    acknowledged += 1
                collection.close()
        except StoreError as raised:
            error = raised
        if error is not None and number == errno.ENOSPC:
            assert isinstance(error, FullError), f"a full disk is reported as {error!r}"
        killed = read_files(self._folder)
        if error is not None and collection is not None:
            self._check(collection, acknowledged)
            collection.close()
        self._reopen(acknowledged)
        self._reboot(killed, acknowledged)

    def _reboot(self, files: Files, acknowledged: int) -> None:
        """Check the collection after a crash."""
        write_files(self._folder, files)
        self._reopen(acknowledged)

    def _reopen(self, acknowledged: int) -> None:
        """Open the collection as a new process would, check it, and run the remaining steps of the verb."""
        with in_small(), Collection(self._folder / "c", create=not self._files) as collection:
            found = self._check(collection, acknowledged)
            rest = self._verb.steps[acknowledged:]
            done = rest and found == self.states[acknowledged + 1] != self.states[acknowledged]
            if done and self._verb.damage is None:
                rest = rest[1:]  # done, though not acknowledged
            for step in rest:
                step(collection, self._pictures)
            self._check(collection, len(self._verb.steps))
        check_files(self._folder / "c")

    def _check(self, collection: Collection, acknowledged: int) -> frozenset[Any]:
        """Check that nothing is damaged and that the state is that of the last step, or between it and the next."""
        faults = collection.verify()
        if self._verb.damage is None or acknowledged == len(self._verb.steps):
            assert not faults, f"verify: {faults}"
        assert all("Run: lookalike repair" in fault for fault in faults)
        found = read_state(collection)
        before, after = self.states[acknowledged], self.states[min(acknowledged + 1, len(self.states) - 1)]
        if found not in (before, after):
            assert self._verb.in_parts, f"neither before nor after: lost {before - found}, new {found - before}"
            assert before & after <= found, f"lost: {(before & after) - found}"
            assert found <= before | after, f"unexpected: {found - (before | after)}"
        return found

    def _describe(self, call: Call, fault: str, check: Callable[[], None]) -> list[str]:
        try:
            check()
        except Exception as error:  # noqa: BLE001 (any error is a failure)
            where = f" of {Path(call.path).relative_to(self._folder)}" if call.path else ""
            return [f"{self._name}, {fault} at call {call.number}, {call.verb}{where}: {error!r:.600}"]
        return []


def make_error(call: Call, number: int) -> Exception:
    """Return the error that a failing call raises."""
    if call.path:
        return OSError(number, os.strerror(number), call.path)
    full = number == errno.ENOSPC
    error = sqlite3.OperationalError("database or disk is full" if full else "disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_FULL if full else sqlite3.SQLITE_IOERR
    return error


def check_files(path: Path) -> None:
    """Check that after the next writer, a closed collection contains no unknown files."""
    store = Store(path)
    with store.writer():
        named = {str(file.relative_to(path)) for file in store.vectors.files()}
    store.close()
    if (path / JOBS_FILE).exists():
        database.Database(path / JOBS_FILE, JOBS).close()
    known = {"catalogue.sqlite", "judgements.sqlite", JOBS_FILE, "jobs.lock", "lock", "reserve", *named}
    strays = {name for name, data in read_files(path).items() if data is not None} - known
    strays = {name for name in strays if not (name.startswith("derived/") and name.endswith(".json"))}
    assert not strays, f"left behind: {sorted(strays)}"


def run_points(
    folder: Path, names: dict[str, int], watch: type[Calls] = Calls
) -> Iterator[tuple[str, Points, Outcome]]:
    """Run every k-th point of these verbs (name → k) in an empty folder; yield the outcome of each verb."""
    pictures = draw_pictures(folder / "pictures")
    files = prepare(folder / "work", pictures)
    for name, stride in names.items():
        points = Points(name, folder / "work", files, pictures, watch)
        yield name, points, points.run(stride)
