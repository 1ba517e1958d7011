"""What may be a label, or a person's name: some text.

In: a label, the name of a session, which becomes one, or who says so. Out: how SQLite is given it.
"""

import unicodedata

from lookalike.errors import InputError
from lookalike.store.schema import text

MAX_LABEL = 1_000
"""Characters a label may have."""
NONE = "none of these"
"""What is said of a picture that is of no class: no new class may be named so."""


def check_label(label: str, what: str = "A label") -> bytes:
    """The label as SQLite is given it; InputError where it cannot be one."""
    if not isinstance(label, str) or not label.strip() or len(label) > MAX_LABEL or "\0" in label:
        raise InputError(
            f"{what} must be text of 1 to {MAX_LABEL} characters, not all blank, without NUL. Got {label!r:.80}."
        )
    return check_text(label, what)


def tidy(label: str) -> str:
    """The one form in which new names are kept: letters composed (NFC), no blanks around.

    >>> tidy(" cafe\u0301 ") == "caf\u00e9"
    True
    """
    return unicodedata.normalize("NFC", label).strip()


def check_text(value: str, what: str = "An author") -> bytes:
    """The text as SQLite is given it; InputError where it is none."""
    try:
        if isinstance(value, str):
            return text(value)
    except UnicodeEncodeError:  # a lone surrogate
        pass
    raise InputError(f"{what} must be text. Got {value!r:.80}.")
