"""Atomic writes that survive a power cut, verified copies, and file system errors.

`atomic_write` writes a file under a temporary name, syncs it to disk and renames it. `copy_verified` reads a copy back.
`file_errors` turns errors of the operating system into those of `lookalike.errors`, such as FullError for a full disk.
"""

import errno
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import BinaryIO

from lookalike.errors import FullError, ReadOnlyError, StoreError
from lookalike.system import drop_cached, sync_file, sync_folder

FULL_DISK = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
"""Error numbers of a full disk or an exhausted quota."""

DIGEST_BYTES = 32
CHUNK_BYTES = 2**20


@contextmanager
def atomic_write(target: Path) -> Iterator[Path]:
    """Yield a temporary path to write to; at the end of the block, the file is renamed to `target`.

    After the block, the file is on disk. If the block raises, `target` does not change.

    >>> with atomic_write(Path("letter.txt")) as part:  # doctest: +SKIP
    ...     part.write_text("Dear Ada,")
    """
    # Hidden, so that programs that list the folder ignore it.
    part = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    with write_errors(target):
        try:
            yield part
            put_in_place(part, target)
        finally:
            part.unlink(missing_ok=True)


def remove_unfinished(folder: Path) -> None:
    """Remove the temporary files that killed processes left in a folder. No other process may be writing there."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


def put_in_place(temp: Path, target: Path) -> None:
    """Rename a complete file; afterwards both its content and its name survive a power cut."""
    with temp.open("rb") as stream:
        sync_file(stream.fileno())
    temp.rename(target)
    sync_folder(target.parent)


def make_folder(folder: Path) -> None:
    """Create a folder and its missing parents; their names survive a power cut."""
    if not folder.is_dir():
        make_folder(folder.parent)
        folder.mkdir(exist_ok=True)  # another process may create it first
        sync_folder(folder.parent)


def copy_verified(
    stream: BinaryIO, source: Path, target: Path, *, digest: str | None = None, mode: int = 0o666
) -> None:
    """Copy an open file and its modification time to the new file `target`, read it back and compare the digests.

    `digest` is that of the source, if it is known. `mode` are the permissions before the umask.
    """
    read, stat = blake2b(digest_size=DIGEST_BYTES), os.fstat(stream.fileno())
    with open(target, "wb", opener=lambda path, flags: os.open(path, flags, mode)) as out:
        for chunk in _chunks(stream, source):
            read.update(chunk)
            out.write(chunk)
        out.flush()
        os.utime(out.fileno(), ns=(stat.st_atime_ns, stat.st_mtime_ns))
        sync_file(out.fileno())
        drop_cached(out.fileno())
    if digest not in (None, read.hexdigest()):
        raise StoreError(f"{source} changed while it was copied. Try again.")
    with target.open("rb") as written:
        if digest_stream(written, target) != read.hexdigest():
            raise StoreError(f"{target} differs from the data that was written. Check the disk, or use another one.")


def digest_stream(stream: BinaryIO, path: Path) -> str:
    """Return the digest of an open file; `path` is for errors."""
    digest = blake2b(digest_size=DIGEST_BYTES)
    for chunk in _chunks(stream, path):
        digest.update(chunk)
    return digest.hexdigest()


def _chunks(stream: BinaryIO, path: Path) -> Iterator[bytes]:
    while True:
        with file_errors(path):
            chunk = stream.read(CHUNK_BYTES)
        if not chunk:
            return
        yield chunk


def damaged_name(file: Path) -> Path:
    """Return the path under which a damaged file is kept next to the repaired one."""
    return file.with_name(f"{file.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Like `file_errors`, for a block that writes: a missing permission raises ReadOnlyError."""
    with file_errors(path):
        try:
            yield
        except PermissionError as error:
            raise ReadOnlyError(f"{path} is not writable: {error.strerror}.") from error


@contextmanager
def file_errors(path: Path) -> Iterator[None]:
    """Raise a StoreError that names `path` instead of an OSError."""
    try:
        yield
    except BrokenPipeError:
        raise  # the caller's output was closed; no file failed
    except OSError as error:
        raise to_store_error(path, error) from error


def to_store_error(path: Path, error: OSError) -> StoreError:
    """Return the StoreError for an OSError that occurred at `path`."""
    if error.errno in FULL_DISK:
        return full_error(path, error)
    if error.errno == errno.EROFS:
        return ReadOnlyError(f"{path} is not writable: its disk is mounted read-only.")
    return StoreError(f"Cannot access {path}: {error}.")


def full_error(path: Path, reason: Exception) -> FullError:
    """Return the error for a full disk."""
    return FullError(
        f"No disk space left for {path}: {reason}. Committed changes are safe. Free some disk space and try again."
    )
