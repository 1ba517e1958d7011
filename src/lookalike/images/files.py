"""A path in, the file's bytes out; or the reason why not.

In: the path of a regular file. Out: its bytes, within `Limits`. Pipes, devices and folders are refused and never waited
for; whatever the system says is an `ImageError` of a few words.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from lookalike.errors import ImageError


@dataclass(frozen=True, slots=True)
class Limits:
    """What is refused before anything is decoded: a guard against files that unpack to more than a machine holds."""

    max_bytes: int = 512 * 2**20  # of one file, and of the memory of an archive's decoder
    max_pixels: int = 200_000_000
    max_listing_bytes: int = 2**30  # memory for the list of an archive's members

    def check_bytes(self, size: int) -> None:
        """Raise ImageError for a file of more than `max_bytes`."""
        if size > self.max_bytes:
            raise ImageError(f"{size} bytes, at most {self.max_bytes} are read")

    def check_pixels(self, width: int, height: int) -> None:
        """Raise ImageError for a picture of more than `max_pixels`."""
        if width * height > self.max_pixels:
            raise ImageError(f"{width} × {height} pixels, at most {self.max_pixels} are read")


LIMITS = Limits()


def read_bytes(path: str | Path, limits: Limits = LIMITS) -> bytes:
    """A regular file's bytes."""
    try:
        found = Path(path).stat()
        check_regular(found)
        limits.check_bytes(found.st_size)
        # Should a pipe have taken the file's place since, nobody waits for it.
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            data = file.read(found.st_size + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise ImageError(explain(error)) from None
    limits.check_bytes(len(data))
    return data


def check_regular(found: os.stat_result) -> None:
    """Raise ImageError for what is not a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise ImageError("a folder, not a file" if stat.S_ISDIR(found.st_mode) else "not a regular file")


def explain(error: Exception) -> str:
    """In a few words, why the system would not give us a file."""
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "a link that leads to itself"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
