"""Move the vectors, models and indexes of a collection to a shared file system, and back.

    <collection>/vectors                 a link to DIR/vectors; likewise models and indexes
    <collection>/vectors.local           temporary: the folder on the local disk, while it is moved
    <collection>/lookalike-shared.json   the marker: an id, DIR, and the directory of the collection
    DIR/lookalike-shared.json            the same file; if it is missing, the file system is not mounted

`share` and `unshare` copy every file and read it back, then replace the folders, and remove files last. Both can be
killed at any point: each folder is then a link, a local folder, or missing. It is missing only if `vectors.local` is
complete, and the next process renames that back (`restore_folders`). Either command then resumes.
"""

import json
import os
import secrets
import shlex
import shutil
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lookalike.atomic_files import atomic_write, copy_verified, digest_stream, file_errors, make_folder, write_errors
from lookalike.errors import DamagedError, InputError, ReadOnlyError, StoreError
from lookalike.system import sync_folder
from lookalike.types import Progress, silent

if TYPE_CHECKING:
    from lookalike.store.directory import Store

FOLDERS = ("vectors", "models", "indexes")
"""The folders of files that the catalogue lists. These can be shared."""

MARKER = "lookalike-shared.json"


@dataclass(frozen=True, slots=True)
class ShareReport:
    """Result of `share` or `unshare`."""

    folder: str  # on the shared file system
    copied: int  # files
    skipped: int  # files that an interrupted command had already copied
    bytes: int  # of the copied files
    seconds: float


@dataclass(frozen=True, slots=True)
class _Marker:
    """The content of a marker."""

    id: str
    folder: str  # on the shared file system
    collection: str  # real path of the collection's directory


def check_shared(path: Path) -> None:
    """Raise StoreError if folders of the collection at `path` are links and their files are not available.

    The same applies if the files belong to another collection, or if this collection is a copy.
    """
    links = [folder for folder in FOLDERS if (path / folder).is_symlink()]
    own = _read_marker(path)
    if own is None:  # not shared by this module
        for folder in links:
            if not (path / folder).is_dir():
                raise StoreError(f"{path / folder} is a link, and {_target(path / folder)} is missing. Mount its disk.")
        return
    if missing := find_moving(path):
        raise StoreError(
            f"{path / missing[0]} is missing, because a command was interrupted. Resume it:"
            f" lookalike cluster share {shlex.quote(own.folder)}, or: lookalike cluster unshare"
        )
    for folder in links:
        if _target(path / folder) != os.path.join(own.folder, folder):
            raise StoreError(
                f"{path / folder} must be a link to {os.path.join(own.folder, folder)}, not to"
                f" {_target(path / folder)}. Correct the link."
            )
    if links:
        _check_target(path, own, links)


def find_moving(path: Path) -> list[str]:
    """Return the folders that are missing because a command that moves them was killed, or is running."""
    return [
        folder for folder in FOLDERS if not os.path.lexists(path / folder) and os.path.lexists(_aside(path, folder))
    ]


def restore_folders(path: Path) -> None:
    """Rename back the folders that a killed command left under a temporary name. Needs the writer lock."""
    with write_errors(path):
        for folder in find_moving(path):
            _aside(path, folder).rename(path / folder)
            sync_folder(path)


def record_collection(path: Path) -> None:
    """Update the markers of a shared collection whose directory was moved. Needs the writer lock."""
    own, home = _read_marker(path), os.path.realpath(path)
    if own is not None and own.collection != home and (path / FOLDERS[0]).is_symlink():
        for folder in (Path(own.folder), path):
            _write_marker(folder, replace(own, collection=home))


def share(store: "Store", folder: Path, progress: Progress = silent) -> ShareReport:
    """Move the folders of a collection to a directory on a shared file system. Needs the writer lock.

    `folder` is an absolute path: a new or empty directory, or the one of an interrupted call, which is then resumed.
    """
    started, path = time.monotonic(), store.path
    marker = _start(path, folder)
    folder = Path(marker.folder)
    with write_errors(folder):
        for name in FOLDERS:
            make_folder(folder / name)
    local = [name for name in FOLDERS if not (path / name).is_symlink()]
    for name in local:
        _check_files(store, path / name)
    copies = _copy_files(store, {path / name: folder / name for name in local}, "sharing", progress)
    with write_errors(path):
        for name in local:
            (path / name).rename(_aside(path, name))
            (path / name).symlink_to(folder / name)
            sync_folder(path)
    _change_version(store)
    with write_errors(path):
        for name in FOLDERS:
            if _aside(path, name).exists():
                shutil.rmtree(_aside(path, name))
    return ShareReport(str(folder), *copies, time.monotonic() - started)


def unshare(store: "Store", progress: Progress = silent) -> ShareReport:
    """Move the folders of a shared collection back into its directory. Needs the writer lock.

    Also removes the copies of a call of `share` that was interrupted.
    """
    started, path = time.monotonic(), store.path
    own = _read_marker(path)
    if own is None:
        raise InputError(f"{path} is not shared. There is nothing to do.")
    folder = Path(own.folder)
    linked = [name for name in FOLDERS if (path / name).is_symlink()]
    with write_errors(path):
        for name in linked:
            make_folder(_aside(path, name))
    copies = _copy_files(store, {path / name: _aside(path, name) for name in linked}, "unsharing", progress)
    check_shared(path)  # if the file system was unmounted in the meantime, files were not copied
    with write_errors(path):
        for name in linked:
            (path / name).unlink()
            _aside(path, name).rename(path / name)
            sync_folder(path)
    _change_version(store)
    if _belongs(folder, own, os.path.realpath(path)):
        _remove_copies(folder, [f"{file.parent.name}/{file.name}" for file in store.vectors.files()])
    _remove_marker(path)
    return ShareReport(str(folder), *copies, time.monotonic() - started)


def _aside(path: Path, folder: str) -> Path:
    return path / f"{folder}.local"


def _target(link: Path) -> str:
    with file_errors(link):
        return os.readlink(link)


def _read_marker(folder: Path) -> _Marker | None:
    """Return the marker in a folder, or None if there is none."""
    file = folder / MARKER
    with file_errors(file):
        try:
            return _Marker(**json.loads(file.read_bytes()))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (ValueError, TypeError, RecursionError):
            raise DamagedError(
                f"{file} is damaged. The directory of the collection and the shared one have the same file:"
                " replace it with the other."
            ) from None


def _write_marker(folder: Path, marker: _Marker) -> None:
    _remove_parts(folder)
    with atomic_write(folder / MARKER) as part:
        part.write_text(json.dumps(asdict(marker), indent=1))


def _remove_parts(folder: Path) -> None:
    """Remove unfinished markers that killed processes have left."""
    with write_errors(folder):
        for part in folder.glob(f".{MARKER}.*.part"):
            part.unlink(missing_ok=True)


def _remove_marker(folder: Path) -> None:
    _remove_parts(folder)
    with write_errors(folder):
        (folder / MARKER).unlink(missing_ok=True)
        sync_folder(folder)


def _belongs(folder: Path, own: _Marker, home: str | None = None) -> bool:
    """Whether a folder has the marker of a collection, and its directory is `home`, if that is given."""
    with suppress(StoreError):
        found = _read_marker(folder)
        return found is not None and found.id == own.id and home in (None, found.collection)
    return False


def _check_target(path: Path, own: _Marker, links: Sequence[str]) -> None:
    """Raise StoreError if the shared folder is not mounted, or is not that of this collection."""
    reason = "its marker is missing"
    try:
        found = _read_marker(Path(own.folder))
    except DamagedError:
        raise
    except StoreError as error:
        found, reason = None, str(error).rstrip(".")
    if found is None:
        raise StoreError(
            f"The vectors of {path} are in {own.folder}, which is not available: {reason}. Mount its file system, and"
            " try again."
        )
    if found.id != own.id:
        raise StoreError(
            f"{own.folder} belongs to the collection {found.collection}, not to {path}. Mount the file system with the"
            " files of this collection there, and try again."
        )
    for folder in links:
        if not (path / folder).is_dir():
            raise StoreError(
                f"The folder {os.path.join(own.folder, folder)} of {path} is missing. Mount its file system, or restore"
                " a backup: lookalike restore BACKUP NEW_COLLECTION"
            )
    _check_not_a_copy(path, found)


def _check_not_a_copy(path: Path, marker: _Marker) -> None:
    """Raise StoreError if the marker names the directory of another collection with the same id, which exists."""
    other = Path(marker.collection)
    if str(other) != os.path.realpath(path) and _belongs(other, marker) and not os.path.samefile(other, path):
        raise StoreError(
            f"{path} is a copy of {other}, and both use the files in {marker.folder}. Remove the copy. To copy a shared"
            " collection, use: lookalike backup, and lookalike restore"
        )


def _start(path: Path, folder: Path) -> _Marker:
    """Check the directory to share into, write both markers, and return their content."""
    own = _read_marker(path)
    links = [name for name in FOLDERS if (path / name).is_symlink()]
    if own is None and links:
        raise InputError(f"{path / links[0]} is a link. Replace it with the folder that it leads to, and try again.")
    if own is not None:
        if links == list(FOLDERS) and not any(_aside(path, name).exists() for name in FOLDERS):
            raise InputError(
                f"{path} is already shared, in {own.folder}. To move it, first run: lookalike cluster unshare"
            )
        if Path(own.folder).resolve() == folder.resolve():
            folder = Path(own.folder)
        elif links or _belongs(Path(own.folder), own):
            raise InputError(
                f"Sharing in {own.folder} was interrupted. Resume it: lookalike cluster share"
                f" {shlex.quote(own.folder)}, or undo it: lookalike cluster unshare"
            )
        else:  # killed before anything was copied
            own = None
    _check_place(path, folder, own)
    marker = _Marker(own.id if own else secrets.token_hex(16), str(folder), os.path.realpath(path))
    _write_marker(path, marker)  # first, so that the other one never belongs to an unknown collection
    try:
        with write_errors(folder):
            make_folder(folder)
        _write_marker(folder, marker)
    except BaseException as error:
        if own is None and not _belongs(folder, marker):
            _remove_marker(path)
        if isinstance(error, ReadOnlyError):
            raise ReadOnlyError(f"{error} Choose a directory that you can write to.") from None
        raise
    return marker


def _check_place(path: Path, folder: Path, own: _Marker | None) -> None:
    """Raise InputError if a directory cannot hold the files of the collection."""
    inner, outer = folder.resolve(), path.resolve()
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        raise InputError(
            f"The shared directory cannot be inside the collection or contain it. Got {folder} for {path}. Choose"
            " another directory."
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder} is a file. Choose a directory.")
    found = _read_marker(folder)
    if found is not None and (own is None or found.id != own.id):
        raise InputError(f"{folder} belongs to the collection {found.collection}. Choose an empty or new directory.")
    if found is not None:
        _check_not_a_copy(path, found)
    elif folder.exists():
        with file_errors(folder):
            for entry in folder.iterdir():
                left = entry.name in FOLDERS and entry.is_dir() and not any(entry.iterdir())
                if not left and not entry.name.startswith(f".{MARKER}."):  # left by a killed command
                    raise InputError(f"{folder} is not empty. Choose an empty or new directory.")


def _check_files(store: "Store", folder: Path) -> None:
    """Raise StoreError if a folder has something that is not a file of the collection. It would be lost."""
    named = store.vectors.files()
    with file_errors(folder):
        for entry in folder.iterdir():
            if entry not in named or not entry.is_file():
                raise StoreError(f"{entry} is not a file of the collection. Move it elsewhere, and try again.")


def _copy_files(store: "Store", folders: dict[Path, Path], stage: str, progress: Progress) -> tuple[int, int, int]:
    """Copy the files of the collection from some folders to others; return the counts for the report.

    Files that the collection does not have are removed from the targets: a killed command has left them.
    """
    named = store.vectors.files()
    files = sorted(file for file in named if file.parent in folders and file.is_file())  # `verify` reports missing ones
    for source, target in folders.items():
        with write_errors(target):
            for file in target.iterdir():
                if file.is_file() and source / file.name not in named:
                    file.unlink()
    sizes = []
    for done, file in enumerate(files):
        progress(stage, done, len(files))
        if _copy(file, folders[file.parent] / file.name):
            sizes.append(file.stat().st_size)
    progress(stage, len(files), len(files))
    return len(sizes), len(files) - len(sizes), sum(sizes)


def _copy(source: Path, target: Path) -> bool:
    """Copy a file and verify the copy; False if the target already has the same content."""
    with file_errors(source), source.open("rb") as stream:
        if target.is_file() and target.stat().st_size == os.fstat(stream.fileno()).st_size:
            with target.open("rb") as written:
                if digest_stream(written, target) == digest_stream(stream, source):
                    return False
            stream.seek(0)
        with atomic_write(target) as part:
            copy_verified(stream, source, part)
    return True


def _change_version(store: "Store") -> None:
    """Make other processes reopen the files that they could not open while a folder was replaced."""
    with store.transaction():
        pass


def _remove_copies(folder: Path, names: Iterable[str]) -> None:
    """Remove these files of the collection and unfinished ones, the folders if they are then empty, and the marker."""
    with write_errors(folder):
        for name in names:
            (folder / name).unlink(missing_ok=True)
        for name in FOLDERS:
            for part in (folder / name).glob("*.part"):
                part.unlink(missing_ok=True)
            with suppress(OSError):  # a network file system keeps files that are open
                (folder / name).rmdir()
    _remove_marker(folder)
