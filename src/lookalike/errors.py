"""All errors that Lookalike itself raises.

    LookalikeError
    ├── InputError              invalid argument (also a ValueError)
    │   ├── ConflictError       action that cannot be undone, for example because of a later change
    │   ├── NoDirectionError    hyperplane without a direction
    │   ├── NoItemError         id or name of a picture that does not exist
    │   ├── SpecError           spec string that does not parse or has an unknown option
    │   │   └── RefusedSpecError    spec that clients of the service may not use
    │   └── UnknownNameError    unknown name; the message suggests the closest known one
    ├── ImageError              file that cannot be read as a picture; the message is the reason
    ├── SourceError             folder, archive or list that cannot be read
    ├── MissingError            missing optional package or file that a component needs
    ├── ClusterError            cluster that cannot be reached or used
    └── StoreError              problem with the directory of a collection
        ├── NoCollectionError   no collection at this path
        ├── LockedError         another process is writing
        ├── FullError           the disk is full
        ├── ReadOnlyError       the collection is not writable
        ├── FormatError         not written by Lookalike, or in an unsupported format
        │   └── NewerFormatError    written by a newer Lookalike
        └── DamagedError        file of the collection is missing or damaged

    FewerDimensionsWarning      a fit has fewer dimensions than were requested (a UserWarning)

The command line prints an error as one line and exits with code 2. The service returns it as a JSON object.
An estimator used before `fit` raises scikit-learn's own `NotFittedError`.
"""

import difflib
from collections.abc import Iterable

MOST_NAMES = 40
"""Maximum number of known names that a message lists."""


class LookalikeError(Exception):
    """Base class of all errors that Lookalike raises."""


class InputError(LookalikeError, ValueError):
    """An invalid argument."""


class ConflictError(InputError):
    """An action that cannot be undone, because the same data has changed since, or because it was already undone."""


class NoDirectionError(InputError):
    """A hyperplane without a direction, for example between marks with equal vectors."""


class NoItemError(InputError):
    """An id that is not in the collection, or a name that is neither a file nor an id."""


class SpecError(InputError):
    """A spec string that does not parse or has an unknown option."""


class RefusedSpecError(SpecError):
    """A spec that clients of the service may not use, because it could name a file."""


class UnknownNameError(InputError):
    """An unknown name. The message lists the known names and suggests the closest one.

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


class FewerDimensionsWarning(UserWarning):
    """A fit has fewer dimensions than were requested, because the data do not have more."""


class ImageError(LookalikeError):
    """A file that cannot be read as a picture; the message is the reason."""


class SourceError(LookalikeError):
    """A folder, archive or list that cannot be read."""


class MissingError(LookalikeError, ImportError):
    """A missing optional package or file that a component needs."""


class ClusterError(LookalikeError):
    """A cluster that cannot be reached or used."""


class StoreError(LookalikeError):
    """A problem with the directory of a collection."""


class NoCollectionError(StoreError):
    """No collection at this path."""


class LockedError(StoreError):
    """Another process is writing to the collection or holds its lock."""


class FullError(StoreError):
    """The disk is full; earlier commits are safe."""


class ReadOnlyError(StoreError):
    """The collection is not writable."""


class FormatError(StoreError):
    """A file that was not written by Lookalike, or has an unsupported format."""


class NewerFormatError(FormatError):
    """A file written by a newer Lookalike."""

    @classmethod
    def of(cls, file: object, version: int, latest: int) -> "NewerFormatError":
        """Return the error for a file whose format is newer than the latest supported one."""
        return cls(
            f"{file} was written by a newer Lookalike (format {version}, this one reads up to {latest})."
            " Update Lookalike."
        )


class DamagedError(StoreError):
    """A file of the collection is missing or damaged."""
