"""Every error that Lookalike itself raises.

    LookalikeError
    ├── InputError              an invalid argument (also a ValueError)
    │   ├── NoDirectionError    a hyperplane without a direction
    │   ├── NoItemError         an id that no picture of the collection has
    │   ├── SpecError           a spec string that does not parse, or names an unknown option
    │   │   └── RefusedSpecError    a spec that clients of the service may not use
    │   └── UnknownNameError    a name that is not registered, with the nearest known one
    ├── ImageError              one file that could not be read as a picture; the message is the reason
    ├── SourceError             a folder, archive or list that could not be listed
    ├── MissingError            a missing optional package or file that a component needs
    └── StoreError              the collection's directory
        ├── NoCollectionError   no collection at this path
        ├── LockedError         another process is writing
        ├── FullError           the disk is full
        ├── ReadOnlyError       the collection is not writable
        ├── FormatError         not written by Lookalike, or in a format that cannot be read here
        │   └── NewerFormatError    written by a newer Lookalike
        └── DamagedError        a file of the collection is missing or damaged

The command line prints any of them as one line and exits with code 2; the service returns one JSON shape.
An estimator used before `fit` raises scikit-learn's own `NotFittedError`.
"""

import difflib
from collections.abc import Iterable

MOST_NAMES = 40
"""Known names that a message lists."""


class LookalikeError(Exception):
    """The root of the tree."""


class InputError(LookalikeError, ValueError):
    """An invalid argument."""


class NoDirectionError(InputError):
    """A hyperplane without a direction, as between marks whose vectors are all equal."""


class NoItemError(InputError):
    """An id that no picture of the collection has."""


class SpecError(InputError):
    """A spec string that does not parse, or names an unknown option."""


class RefusedSpecError(SpecError):
    """A spec that clients of the service may not use: it could name a file."""


class UnknownNameError(InputError):
    """A name that is not registered.

    >>> raise UnknownNameError("coder", "iq", ["itq", "lsh"])
    Traceback (most recent call last):
    lookalike.errors.UnknownNameError: No coder named 'iq'. Known: itq, lsh. Did you mean 'itq'?
    """

    def __init__(self, kind: str, name: object, known: Iterable[str]):
        names = sorted(known)
        some = ", ".join(names[:MOST_NAMES]) + (f" and {len(names) - MOST_NAMES:,} more" if names[MOST_NAMES:] else "")
        near = difflib.get_close_matches(str(name), names, n=1)
        hint = f" Did you mean '{near[0]}'?" if near else ""
        super().__init__(f"No {kind} named '{name}'. Known: {some or 'none'}.{hint}")


class ImageError(LookalikeError):
    """One file that could not be read as a picture; the message is the reason."""


class SourceError(LookalikeError):
    """A folder, archive or list that could not be listed."""


class MissingError(LookalikeError, ImportError):
    """A missing optional package or file that a component needs."""


class StoreError(LookalikeError):
    """An error about the collection's directory."""


class NoCollectionError(StoreError):
    """There is no collection at this path."""


class LockedError(StoreError):
    """Another process is writing to the collection or holds its lock."""


class FullError(StoreError):
    """The disk is full; earlier commits are safe."""


class ReadOnlyError(StoreError):
    """The collection is not writable."""


class FormatError(StoreError):
    """A file that was not written by Lookalike, or has a format that cannot be read here."""


class NewerFormatError(FormatError):
    """A file written by a newer Lookalike."""

    @classmethod
    def of(cls, file: object, version: int, latest: int) -> "NewerFormatError":
        """Return the error for a file of a format above the latest one that this Lookalike reads."""
        return cls(
            f"{file} was written by a newer Lookalike (format {version}, this one reads up to {latest})."
            " Update Lookalike."
        )


class DamagedError(StoreError):
    """A file of the collection is missing or damaged."""
