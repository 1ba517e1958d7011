"""Read the bytes of a picture file, within `Limits`.

Folders, pipes and devices are rejected without waiting for data. Errors of the operating system become an `ImageError`
with a short reason.
"""

import errno
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from lookalike.errors import ImageError
from lookalike.system import READ_FLAGS


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits that are checked before decoding, as protection from files that unpack to more than fits in memory."""

    max_bytes: int = 512 * 2**20  # size of one file; also the memory limit of an archive's decoder
    max_pixels: int = 200_000_000
    max_listing_bytes: int = 2**30  # memory for the list of an archive's members

    def check_bytes(self, size: int) -> None:
        """Raise ImageError for a file of more than `max_bytes`."""
        if size > self.max_bytes:
            raise ImageError(f"it has {size} bytes; the limit is {self.max_bytes}")

    def check_pixels(self, width: int, height: int) -> None:
        """Raise ImageError for a picture of more than `max_pixels`."""
        if width * height > self.max_pixels:
            raise ImageError(f"it has {width} × {height} pixels; the limit is {self.max_pixels}")


LIMITS = Limits()


def read_bytes(path: str | Path, limits: Limits = LIMITS) -> bytes:
    """Return the bytes of a regular file. Raises ImageError with the reason if they cannot be read."""
    try:
        found = Path(path).stat()
        check_regular(found)
        limits.check_bytes(found.st_size)
        # Non-blocking, in case a pipe has replaced the file in the meantime.
        with os.fdopen(os.open(path, READ_FLAGS), "rb") as file:
            data = file.read(found.st_size + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        raise ImageError(describe_error(error)) from None
    limits.check_bytes(len(data))
    return data


def check_regular(found: os.stat_result) -> None:
    """Raise ImageError if this is not the status of a regular file."""
    if not stat.S_ISREG(found.st_mode):
        raise ImageError("it is a folder, not a file" if stat.S_ISDIR(found.st_mode) else "it is not a regular file")


def describe_error(error: Exception) -> str:
    """Return a short reason why a file could not be read."""
    if isinstance(error, PermissionError):
        return "permission denied"
    if isinstance(error, FileNotFoundError):
        return "it does not exist"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "it is a link that points to itself"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
