"""Verification and repair of the files that only the service uses: access.json and jobs.sqlite."""

from pathlib import Path

from lookalike.atomic_files import atomic_write, damaged_name
from lookalike.collection import Backup, repair_jobs, verify_jobs
from lookalike.errors import DamagedError, LockedError
from lookalike.server.access import FILE, Access, salvage
from lookalike.text import many


def verify(collection: Path) -> list[str]:
    """Return a sentence for each damaged file."""
    return verify_jobs(collection) + _verify_access(Access(collection))


def repair(collection: str | Path, backup: str | Path | None) -> tuple[list[str], list[str]]:
    """Repair these files; return sentences about the repairs and about the remaining faults."""
    folder = Path(collection).expanduser().absolute()
    source = None if backup is None else Backup(Path(backup).expanduser())
    done, left = _repair_access(folder, source)
    try:
        return repair_jobs(folder, source) + done, left
    except LockedError:
        locked = "jobs.sqlite cannot be replaced while a service uses it. Stop the service, then run: lookalike repair"
        return done, [locked, *left]


def _verify_access(access: Access) -> list[str]:
    try:
        access.entries()
    except DamagedError as error:
        return [str(error)]
    return []


def _repair_access(folder: Path, backup: Backup | None) -> tuple[list[str], list[str]]:
    access = Access(folder)
    entries, invalid = salvage(access.path)
    if not invalid:
        return [], []
    copy = None if backup is None else backup.file(FILE)
    if copy is not None and salvage(copy)[1]:  # the backup has the damaged file
        copy = None
    if copy is None and not entries:
        return [], _verify_access(access)
    with atomic_write(damaged_name(access.path)) as part:
        part.touch(0o600)
        part.write_bytes(access.path.read_bytes())
    if copy is None:
        access.save(entries)
        return [f"{FILE}: {many(len(entries), 'token')} kept, {many(invalid, 'invalid one')} removed."], []
    with atomic_write(access.path) as part:
        part.touch(0o600)
        part.write_bytes(copy.read_bytes())
    return [f"{FILE} was restored from the backup."], []
