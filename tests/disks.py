"""Functions for the small disks that the fixture `mount_disk` mounts."""

import os
import subprocess
from contextlib import suppress
from pathlib import Path


def fill(disk: Path) -> Path:
    """Fill a disk to the last byte; return the file that fills it."""
    filler = disk / "filler"
    with suppress(OSError), filler.open("ab", buffering=0) as stream:
        while stream.write(bytes(4096)):
            pass
    return filler


def free_bytes(disk: Path) -> int:
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


def remount(disk: Path, options: str) -> None:
    """Change the options of a mounted disk, such as "ro" or "size=9m"."""
    subprocess.run(["mount", "-o", f"remount,{options}", disk], check=True)
