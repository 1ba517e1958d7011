"""Create, verify and restore backups of a collection. Other processes can write during a backup.

A backup is a directory with the contents of the collection's files, named by their digests, and a manifest that maps
each file to its content:

    backup.json      the manifest: format, time, source, and the size and digest of each file of the collection
    files/<digest>   the contents; `<digest>` is the BLAKE2b digest of the file, in hexadecimal
    lock             held by the process that writes the backup, shared by processes that restore it

A file in `files/` never changes, so a new backup cannot damage the previous one. Renaming the new manifest into place
is the only step that replaces the previous backup. A process that is killed before this step leaves the old backup;
one that is killed after it leaves the new backup. Files that the new manifest does not list are removed last.
"""

import json
import os
import re
import shutil
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import partial
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any

import lookalike
from lookalike.atomic_files import (
    DIGEST_BYTES,
    atomic_write,
    copy_verified,
    digest_stream,
    file_errors,
    remove_unfinished,
    write_errors,
)
from lookalike.errors import DamagedError, InputError, LockedError, NewerFormatError, NoCollectionError, StoreError
from lookalike.store import npy_files
from lookalike.store.database import Database, database_errors, read_version
from lookalike.store.directory import MANIFEST
from lookalike.store.items import Items
from lookalike.store.jobs import verify_jobs
from lookalike.store.schema import CATALOGUE, DATABASES, JOBS, JOBS_FILE, add_functions
from lookalike.store.segments import ListedSegment, list_segments, open_block
from lookalike.store.sharing import FOLDERS, check_shared
from lookalike.system import sync_folder, try_lock
from lookalike.types import Progress, silent

FORMAT = 1
TRIES = 20
"""Maximum number of times that the catalogue is copied if other processes merge files in the meantime."""

ACCESS = "access.json"
UPLOADS = "uploads"
CONTENTS = "files"
COPIES = "databases.part"
"""Folder for copies of the databases until they are checked and stored."""

UNCHANGED = "The previous backup, if there is one, is unchanged."

_DIGEST = re.compile(f"[0-9a-f]{{{2 * DIGEST_BYTES}}}")


@dataclass(frozen=True, slots=True)
class BackupReport:
    """Result of a backup or a restore."""

    copied: int  # files
    skipped: int  # files that the backup already had
    bytes: int  # of the copied files
    seconds: float


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of the collection in a manifest."""

    bytes: int
    digest: str
    key: str  # identifies the content without reading it: the digest in the catalogue, or size and time; "" if unknown


class Backup:
    """The manifest of a backup. `file` verifies the content of one file. See also `open_backup`.

    Parameters
    ----------
    path : the backup's directory.

    """

    def __init__(self, path: Path):
        self.path = Path(path).absolute()
        with file_errors(self.path / MANIFEST):
            try:
                data = (self.path / MANIFEST).read_bytes()
            except (FileNotFoundError, NotADirectoryError):
                if (self.path / "catalogue.sqlite").exists():
                    raise NoCollectionError(
                        f"{self.path} is a collection, not a backup. Give a directory that `lookalike backup` created."
                    ) from None
                raise NoCollectionError(
                    f"No backup at {self.path}: there is no {MANIFEST}. Create one with: lookalike backup {self.path}"
                ) from None
        self.entries = _parse(self.path / MANIFEST, data)

    def file(self, name: str) -> Path | None:
        """Verify the content of one file of the collection and return its path, or None if it is not in the backup.

        `name` is relative to the collection's directory, such as "judgements.sqlite". Raises DamagedError if the
        backup's own copy is damaged or missing.
        """
        entry = self.entries.get(name)
        if entry is None:
            return None
        stored = _stored(self.path, entry.digest)
        if not _is_sound(stored, entry):
            raise DamagedError(
                f"The backup at {self.path} is damaged: {stored}, its copy of {name}, is missing or does not match"
                " its digest. Use another backup, or update this one from the collection: lookalike backup DIR"
            )
        return stored

    def differs(self, name: str, file: Path) -> bool:
        """Whether a file is missing or its content is not that in the backup."""
        return not _is_sound(file, self.entries[name])


@contextmanager
def open_backup(path: Path) -> Iterator[Backup]:
    """Open the backup in a directory. Other processes cannot update it inside the block."""
    with _locked(Path(path), shared=True):
        yield Backup(path)


def make_backup(source: Path, target: Path, progress: Progress = silent) -> BackupReport:
    """Create or update the backup in the directory `target`. It needs no writer lock and does not block writers.

    Every file of the backup is read back and compared with its digest, including files that are not copied again.
    Raises DamagedError if a file of the collection is damaged or missing; the previous backup is then unchanged.
    """
    started = time.monotonic()
    source, target = Path(source).absolute(), Path(target).absolute()
    check_target(source, target)
    with write_errors(target):
        target.mkdir(parents=True, exist_ok=True)
        sync_folder(target.parent)
    with _locked(target):
        run = _BackupRun(source, target, progress)
        try:
            with database_errors(source):
                run.store_all()
            run.write_manifest()
        finally:
            with suppress(StoreError):  # the next run removes them
                run.remove_temporary()
        run.remove_unnamed()
    copied = [run.entries[name].bytes for name in run.copied & run.entries.keys()]
    return BackupReport(len(copied), len(run.entries) - len(copied), sum(copied), time.monotonic() - started)


def check_target(source: Path, target: Path) -> None:
    """Raise InputError if the collection at `source` cannot be backed up to the directory `target`."""
    inner = target.resolve()
    places = [source.resolve(), *((source / folder).resolve() for folder in FOLDERS)]  # the folders may be shared
    if any(inner.is_relative_to(outer) or outer.is_relative_to(inner) for outer in places):
        raise InputError(
            f"A backup cannot be inside its collection or contain it. Got {target} for the collection {source}."
            " Choose another directory."
        )
    if target.exists() and not target.is_dir():
        raise InputError(f"A backup must be a directory, but {target} is a file. Choose another name.")
    if (target / "catalogue.sqlite").exists():
        raise InputError(f"{target} is a collection, not a backup. Choose another directory.")
    with file_errors(target):
        names = set(os.listdir(target)) if target.exists() else set()
    ours = {CONTENTS, COPIES, "lock", *(name for name in names if name.startswith(f".{MANIFEST}."))}
    if MANIFEST not in names and not names <= ours:  # a first backup that was killed leaves no manifest
        raise InputError(f"{target} is not empty and is not a backup. Choose an empty or new directory.")


def restore_backup(source: Path, target: Path, progress: Progress = silent) -> BackupReport:
    """Create a new collection at `target` from the backup in the directory `source`.

    Every file is compared with its digest. The collection appears at `target` only when it is complete.
    """
    started = time.monotonic()
    source, target = Path(source).absolute(), Path(os.path.realpath(target))
    with open_backup(source) as found:
        real = source.resolve()
        if target.is_relative_to(real) or real.is_relative_to(target):
            raise InputError(f"{target} cannot be inside the backup {source} or contain it. Choose another path.")
        if target.exists() and (not target.is_dir() or any(target.iterdir())):
            raise InputError(
                f"{target} already exists and is not empty. Choose a new path: lookalike restore {source} PATH"
            )
        part = target.with_name(f".{target.name}.restore")
        with write_errors(target):
            part.mkdir(parents=True, exist_ok=True)
        with _locked(part):
            try:
                _restore(found, part, target, progress)
            except BaseException:
                shutil.rmtree(part, ignore_errors=True)
                raise
    size = sum(entry.bytes for entry in found.entries.values())
    return BackupReport(len(found.entries), 0, size, time.monotonic() - started)


class _BackupRun:
    """One run of `make_backup`; collects the entries of the new manifest."""

    def __init__(self, source: Path, target: Path, progress: Progress):
        self.entries: dict[str, Entry] = {}
        self.copied: set[str] = set()
        self._source = source
        self._target = target
        self._progress = progress
        self._copies = target / COPIES
        self._sound: set[str] = set()  # digests whose content was read back in this run
        try:
            self._known = Backup(target).entries
        except (NoCollectionError, DamagedError):  # stored contents can still be found by their digests
            self._known = {}
        self.remove_temporary()
        with write_errors(target):
            self._copies.mkdir()
            (target / CONTENTS).mkdir(exist_ok=True)
            remove_unfinished(target)
            remove_unfinished(target / CONTENTS)
            sync_folder(target)

    def store_all(self) -> None:
        """Store the contents of every file of the collection."""
        self._store_database("judgements.sqlite")
        for _ in range(TRIES):
            if self._store_catalogue():
                break
        else:
            raise LockedError(
                f"Other processes replaced files of {self._source} {TRIES} times during the backup."
                " Try again when fewer pictures are being added."
            )
        self._store_uploads()
        self._store_jobs()
        with suppress(FileNotFoundError):
            self._store_content(ACCESS, self._source / ACCESS)
            try:
                json.loads((self._source / ACCESS).read_bytes())
            except ValueError as error:
                raise _damaged(f"{self._source / ACCESS} is damaged: {error}.") from None

    def write_manifest(self) -> None:
        """Write the manifest, which replaces the previous backup."""
        described: dict[str, Any] = {
            "format": FORMAT,
            "lookalike": lookalike.__version__,
            "made_at": time.time(),
            "source": str(self._source),
            "files": {name: asdict(self.entries[name]) for name in sorted(self.entries)},
        }
        described["digest"] = _manifest_digest(described)
        with atomic_write(self._target / MANIFEST) as part:
            part.write_text(json.dumps(described, indent=1))

    def remove_temporary(self) -> None:
        """Remove the copies of the databases."""
        with write_errors(self._copies):
            if self._copies.exists():
                shutil.rmtree(self._copies)

    def remove_unnamed(self) -> None:
        """Remove contents that the manifest does not list."""
        named = {entry.digest for entry in self.entries.values()}
        with write_errors(self._target):
            for file in (self._target / CONTENTS).iterdir():
                if _DIGEST.fullmatch(file.name) and file.name not in named:
                    file.unlink()

    def _store_catalogue(self) -> bool:
        """Store the catalogue and the files it refers to; return False if another process replaced one of them."""
        copied = self._store_database("catalogue.sqlite")
        with closing(_open_copy(copied)) as db:
            version = read_version(db)
            spaces = [name for (name,) in db.execute("SELECT name FROM spaces ORDER BY rowid")]
            segments = [row for space in spaces for row in list_segments(db, space)]
            fitted = db.execute("SELECT model, model_digest FROM spaces WHERE model IS NOT NULL").fetchall()
            indexes = db.execute("SELECT file, digest FROM structures").fetchall()
        steps: list[Callable[[], None]] = [partial(self._store_segment, row) for row in segments]
        steps += [partial(self._store_digested, f"models/{file}", digest) for file, digest in fitted]
        steps += [partial(self._store_digested, f"indexes/{file}", digest) for file, digest in indexes]
        self._known |= self.entries  # an earlier attempt may have stored files that the catalogue no longer lists
        self.entries = {name: self.entries[name] for name in DATABASES}
        try:
            for done, step in enumerate(steps):
                self._progress("backing up", done, len(steps))
                step()
        except FileNotFoundError as error:
            check_shared(self._source)
            if _version_of(self._source / "catalogue.sqlite") == version:
                raise _damaged(f"{error.filename} is missing.") from None
            return False
        self._progress("backing up", len(steps), len(steps))
        return True

    def _store_database(self, name: str) -> Path:
        """Copy a database at one commit, check the copy, store it, and return the path of the copy."""
        copy = self._copies / name
        copy.unlink(missing_ok=True)
        _copy_database(self._source / name, copy, DATABASES[name])
        self._store_content(name, copy)
        return copy

    def _store_segment(self, row: ListedSegment) -> None:
        rows = f"vectors/{row.file}"
        ids = f"vectors/{npy_files.ids_file(Path(row.file)).name}"
        half = len(row.digest) // 2
        keys = {ids: row.digest[:half].hex(), rows: row.digest[half:].hex()}
        if all(self._reuse_known(name, key) for name, key in keys.items()):
            return
        try:
            block = open_block(self._source / "vectors", row, None)
        except DamagedError as error:
            raise _damaged(str(error)) from None
        if not block.intact:
            raise _damaged(f"{self._source / rows} does not match its digest.")
        for name, key in keys.items():
            self._store_content(name, self._source / name, key)

    def _store_digested(self, name: str, digest: bytes | None) -> None:
        """Store a file and check that it matches its digest in the catalogue, if there is one."""
        self._store(name, None if digest is None else digest.hex())
        if digest not in (None, npy_files.digest_file(_stored(self._target, self.entries[name].digest))):
            raise _damaged(f"{self._source / name} does not match its digest.")

    def _store_uploads(self) -> None:
        """Store the pictures that clients uploaded.

        The folders are listed until nothing is new, because a file can move to another folder in the meantime.
        """
        tried: set[str] = set()
        while new := set(_list_uploads(self._source)) - tried:
            for done, name in enumerate(sorted(new)):
                self._progress("backing up uploads", done, len(new))
                with suppress(FileNotFoundError):
                    self._store(name)
            self._progress("backing up uploads", len(new), len(new))
            tried |= new

    def _store_jobs(self) -> None:
        """Store the jobs that have ended. A restored collection must not restart the others, such as this backup."""
        source, copy = self._source / JOBS_FILE, self._copies / JOBS_FILE
        if faults := verify_jobs(self._source):
            raise _damaged(re.split(" Run: | If it is damaged, run: ", faults[0])[0])
        if source.exists():
            _copy_database(source, copy, JOBS, delete="DELETE FROM jobs WHERE json_extract(fields, '$.ended') IS NULL")
            self._store_content(JOBS_FILE, copy)

    def _store(self, name: str, key: str | None = None) -> None:
        """Store a file whose content never changes under its name.

        `key` is the digest of the content in the catalogue. By default, size and modification time identify the
        content. Raises FileNotFoundError if the file is missing.
        """
        if key is None:
            stat = (self._source / name).stat()
            key = f"{stat.st_size}-{stat.st_mtime_ns}"
        if self._reuse_known(name, key):
            return
        self._store_content(name, self._source / name, key)
        known = self._known.get(name)
        if known is not None and known.digest != self.entries[name].digest:
            raise _damaged(
                f"{self._source / name} has changed since it was backed up, but such files must never change."
            )

    def _reuse_known(self, name: str, key: str) -> bool:
        """Reuse the content in the previous backup without reading the collection; return False if there is none."""
        entry = self._known.get(name)
        if entry is None or entry.key != key or not self._has(entry):
            return False
        self.entries[name] = entry
        return True

    def _store_content(self, name: str, source: Path, key: str = "") -> None:
        """Read a file, and copy it if its content is not yet in the backup."""
        with source.open("rb") as stream:
            entry = Entry(os.fstat(stream.fileno()).st_size, digest_stream(stream, source), key)
            if not self._has(entry):
                stream.seek(0)
                with atomic_write(_stored(self._target, entry.digest)) as part:
                    copy_verified(stream, source, part, digest=entry.digest, mode=_mode(name))
                self._sound.add(entry.digest)
                self.copied.add(name)
        self.entries[name] = entry

    def _has(self, entry: Entry) -> bool:
        """Whether this content is in the backup and undamaged."""
        if entry.digest not in self._sound and _is_sound(_stored(self._target, entry.digest), entry):
            self._sound.add(entry.digest)
        return entry.digest in self._sound


def _damaged(fault: str) -> DamagedError:
    return DamagedError(f"{fault} {UNCHANGED} Run: lookalike repair")


def _parse(file: Path, data: bytes) -> dict[str, Entry]:
    """Return the entries of a manifest. Raises DamagedError if it is not valid."""
    try:
        found = json.loads(data)
        version, expected = int(found["format"]), found.pop("digest")
        if version > FORMAT:
            raise NewerFormatError.of(file, version, FORMAT)
        if expected != _manifest_digest(found):
            raise ValueError("it does not match its own digest")
        entries = {name: Entry(**entry) for name, entry in found["files"].items()}
        if bad := [
            name for name, entry in entries.items() if not _is_name(name) or not _DIGEST.fullmatch(entry.digest)
        ]:
            raise ValueError(f"it has an invalid entry, {bad[0]!r:.80}")
        if missing := [name for name in DATABASES if name not in entries]:
            raise ValueError(f"it does not list {missing[0]}")
        return entries
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(
            f"{file} is damaged: {error}. Use another backup, or update this one: lookalike backup DIR"
        ) from None


def _manifest_digest(described: dict[str, Any]) -> str:
    return blake2b(json.dumps(described, sort_keys=True).encode(), digest_size=DIGEST_BYTES).hexdigest()


def _is_name(name: str) -> bool:
    """Whether this file name is allowed in a manifest: it must be inside the collection's directory."""
    parts = PurePosixPath(name).parts
    if "\0" in name or ".." in parts or str(PurePosixPath(name)) != name:
        return False
    return name in (*DATABASES, JOBS_FILE, ACCESS) or (len(parts) > 1 and parts[0] in (*FOLDERS, UPLOADS))


def _stored(backup: Path, digest: str) -> Path:
    return backup / CONTENTS / digest


def _mode(name: str) -> int:
    """Return the permissions of a file before the umask. `access.json` is private, because it is enough to log in."""
    return 0o600 if name == ACCESS else 0o666


def _is_sound(stored: Path, entry: Entry) -> bool:
    """Whether a stored file has the size and digest of its entry."""
    try:
        with stored.open("rb") as stream:
            return os.fstat(stream.fileno()).st_size == entry.bytes and digest_stream(stream, stored) == entry.digest
    except FileNotFoundError:
        return False


def _list_uploads(source: Path) -> Iterator[str]:
    def fail(error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise error

    for folder, _, names in os.walk(source / UPLOADS, onerror=fail):
        for name in names:
            file = Path(folder, name)
            if not (name.startswith(".") and name.endswith(".part")) and file.is_file() and not file.is_symlink():
                yield file.relative_to(source).as_posix()


def _version_of(catalogue: Path) -> int:
    with closing(Database(catalogue, CATALOGUE)) as database:
        return database.version()


def _copy_database(source: Path, copy: Path, migrations: Sequence[str], delete: str | None = None) -> None:
    """Copy a database with SQLite's online backup and check the copy. `delete` is SQL that removes rows from the copy.

    The copy is one file without a WAL. It is written without locks, which many network drives do not support. No other
    process uses the file.
    """
    with closing(Database(source, migrations)) as database, database.reading() as db:
        if faults := database.verify():
            raise _damaged(faults[0].partition(" Run: ")[0])
        with database_errors(copy), closing(sqlite3.connect(f"{copy.as_uri()}?nolock=1", uri=True)) as target:
            if delete is None:
                db.backup(target)
            else:
                _copy_without(db, target, delete)
    with closing(_open_copy(copy)) as db:
        try:
            faults = [text for (text,) in db.execute("PRAGMA integrity_check") if text != "ok"]
        except sqlite3.DatabaseError as error:  # too damaged to check
            faults = [str(error)]
    if faults:
        raise _damaged(f"{source} is damaged: {faults[0]}.")


def _copy_without(source: sqlite3.Connection, target: sqlite3.Connection, delete: str) -> None:
    """Copy a small database without some rows. They are deleted in memory, because changes to a WAL need locks."""
    with closing(sqlite3.connect(":memory:")) as memory:
        source.backup(memory)
        add_functions(memory)
        memory.execute(delete)
        memory.commit()
        memory.backup(target)


def _open_copy(copy: Path) -> sqlite3.Connection:
    return sqlite3.connect(f"{copy.as_uri()}?immutable=1", uri=True)


def _restore(found: Backup, part: Path, target: Path, progress: Progress) -> None:
    """Write a collection to the folder `part`, then rename that to `target`."""
    _empty(part)  # left by a restore that was killed
    for done, (name, entry) in enumerate(found.entries.items()):
        progress("restoring", done, len(found.entries))
        stored = found.file(name)
        assert stored is not None, "the manifest lists it"
        with write_errors(part / name), stored.open("rb") as stream:
            (part / name).parent.mkdir(parents=True, exist_ok=True)
            copy_verified(stream, stored, part / name, digest=entry.digest, mode=_mode(name))
    progress("restoring", len(found.entries), len(found.entries))
    # Paths inside the collection, such as those of uploads, must refer to its new location.
    with closing(Database(part / "catalogue.sqlite", CATALOGUE)) as database, database.transaction():
        Items(database).set_home(str(target))
    with write_errors(target):
        for folder, _, _ in os.walk(part):
            sync_folder(Path(folder))
        part.rename(target)
        sync_folder(target.parent)


def _empty(folder: Path) -> None:
    """Remove everything in a folder except its lock."""
    with write_errors(folder):
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name != "lock":
                path.unlink()


@contextmanager
def _locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold the lock of a folder; `shared` allows other processes to hold it at the same time, to read."""
    handle = _open_lock(folder / "lock", shared)
    try:
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _open_lock(file: Path, shared: bool) -> int | None:
    """Return a handle that holds the lock, or None if a backup to be read has no lock file."""
    with write_errors(file):
        try:
            handle = os.open(file, os.O_RDONLY if shared else os.O_RDWR | os.O_CREAT, 0o666)
        except (FileNotFoundError, NotADirectoryError):
            if shared:
                return None
            raise
        if not try_lock(handle, shared=shared):
            os.close(handle)
            raise LockedError(f"Another process is using {file.parent}. Try again when it has finished.")
    return handle
