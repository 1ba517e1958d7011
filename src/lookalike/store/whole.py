"""Files that are there whole, or not at all.

In: a path, and what is to be there. Out: the file, on the disk when the call returns, and its name outlasts a power
cut; or what was there before, and an error that says why.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lookalike.errors import ReadOnlyError
from lookalike.store.files import settle
from lookalike.store.schema import translated


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Errors of the disk while `path` is written, turned into ours."""
    with translated(path):
        try:
            yield
        except PermissionError as error:
            raise ReadOnlyError(f"{path} can only be read here: {error.strerror}.") from error


def sweep(folder: Path) -> None:
    """Remove what a process that was killed left of files of this folder; nobody else may be writing there."""
    for part in folder.glob(".*.part"):
        part.unlink(missing_ok=True)


@contextmanager
def whole(target: Path) -> Iterator[Path]:
    """A path beside `target`, to be written to in the block: `target` once the block has ended well, else gone.

    >>> with whole(Path("letter.txt")) as part:  # doctest: +SKIP
    ...     part.write_text("Dear Ada,")
    """
    part = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")  # nobody lists it
    with writing(target):
        try:
            yield part
            settle(part, target)
        finally:
            part.unlink(missing_ok=True)
