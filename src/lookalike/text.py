"""Formatting of paths, counts, sizes and durations, parsing of counts, sizes and durations, and the words of a text."""

import json
import math
import os
import re
import unicodedata
from collections.abc import Iterable
from pathlib import Path

from lookalike.errors import InputError

BYTES = {"B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}
COUNTS = {"": 1, "k": 1e3, "M": 1e6, "G": 1e9}
SECONDS = {"s": 1, "ms": 1e-3, "min": 60, "h": 3_600}
MARK_NAMES = {"relevant": "positive", "irrelevant": "negative", "skip": "skipped"}
"""Names of the kinds of marks, for users."""

MAX_STEM_BYTES = 180
"""Maximum length of the name of a file, without its suffix. File systems allow 255 bytes in total."""

_UNSAFE = re.compile(r'[\x00-\x1f\x7f-\x9f\ud800-\udfff<>:"/\\|?*\u202a-\u202e\u2066-\u2069]')
"""Characters that Windows does not allow, that cannot be encoded, or that change the direction of text."""
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)$", re.IGNORECASE)


def printable(text: str) -> str:
    r"""Escape characters that are not printable, so that a file name cannot move the cursor or break a line.

    >>> printable("a\udcffb\n")
    'a\\udcffb\\n'
    """
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def many(n: int, one: str, several: str | None = None) -> str:
    """Return a count with its noun, in the same format as `many` in the page's JavaScript.

    >>> many(1, "group"), many(2_000, "picture"), many(0, "class", "classes")
    ('1 group', '2,000 pictures', '0 classes')
    """
    return f"{n:,} {one if n == 1 else several or one + 's'}"


def split_words(text: str) -> list[str]:
    """Return the words of a text in lower case, without accents; anything but letters separates words.

    The catalogue stores these words, so a change needs a migration that rebuilds its word tables.

    >>> split_words("Café_2024/Größe-12.JPG")
    ['cafe', 'grosse', 'jpg']
    """
    text = text.casefold()
    if not text.isascii():
        decomposed = unicodedata.normalize("NFKD", text)
        text = "".join(c for c in decomposed if not unicodedata.category(c).startswith("M")).casefold()
    return re.findall(r"[^\W\d_]+", text)


def join_words(words: Iterable[str], conjunction: str) -> str:
    """Join words for a message.

    >>> join_words([".png", ".jpg", ".jpeg"], "or")
    '.png, .jpg or .jpeg'
    """
    *first, last = words
    return f"{', '.join(first)} {conjunction} {last}" if first else last


def human_probability(probability: float) -> str:
    """Format a probability, like `likely` in the page's JavaScript: never 0 or 100 %, because it is an estimate.

    >>> [human_probability(p) for p in (0.874, 1.0, 0.003)]
    ['87 %', 'over 99 %', 'under 1 %']
    """
    if probability > 0.99:
        return "over 99 %"
    return "under 1 %" if probability < 0.01 else f"{math.floor(100 * probability + 0.5)} %"


def shorten(path: str | None, width: int | None = None) -> str:
    """Return a path relative to the current or home directory if possible; only its end if it exceeds `width`.

    >>> shorten("/data/holiday/beach/0001.jpg", width=16)
    '…/beach/0001.jpg'
    """
    if path is None:
        return "(no path)"
    for folder, short in ((_current_directory(), ""), (Path(os.path.expanduser("~")), "~/")):
        if folder is not None and path.startswith(f"{folder}/"):
            path = short + path.removeprefix(f"{folder}/")
            break
    text = printable(path)
    return text if width is None or len(text) <= width else "…" + text[len(text) - max(width, 2) + 1 :]


def safe_names(names: Iterable[str], suffix: str | None = None, reserved: Iterable[str] = ()) -> list[str]:
    """Return names of files that are safe on all systems and unique, even if upper and lower case are the same.

    With `suffix`, it replaces the suffixes. `reserved` names, in lower case, are not used.

    >>> safe_names(["a.jpg", "A.jpg", "../x?.png", "con.gif"])
    ['a.jpg', 'A (2).jpg', '.._x_.png', 'con_.gif']
    """
    used, safe = set(reserved), []
    for name in names:
        stem, dot, end = _UNSAFE.sub("_", name).rpartition(".")
        stem, end = (stem, dot + end[:16]) if stem else (end, "")
        stem = stem.encode()[:MAX_STEM_BYTES].decode(errors="ignore").strip(" ") or "picture"
        stem += "_" * bool(_DEVICES.match(stem.partition(".")[0]) or stem.endswith("."))
        end = (end if suffix is None else suffix).rstrip(" .")
        count, tried = 1, stem + end
        while tried.casefold() in used:
            count += 1
            tried = f"{stem} ({count}){end}"
        used.add(tried.casefold())
        safe.append(tried)
    return safe


def safe_folders(names: Iterable[str]) -> dict[str, str]:
    """Return the name of a folder for each of these names: safe, unique, as `safe_names`, and not hidden.

    >>> safe_folders(["a/b", ".git", "v1.2"])
    {'a/b': 'a_b', '.git': '_git', 'v1.2': 'v1.2'}
    """
    names = list(names)
    ended = [re.sub(r"^\.", "_", name) + "." for name in names]  # the last dot is removed; other dots start no suffix
    return dict(zip(names, safe_names(ended), strict=True))


RENAMED = "lookalike_labels.json"
"""The file next to class folders with the labels that cannot be names of folders, by the names used instead."""


def renamed_labels(folders: dict[str, str]) -> str:
    """Return the text of the file RENAMED for the folders of labels; an empty string if all have the label's name.

    >>> renamed_labels({"a/b": "a_b", "dog": "dog"})
    '{\\n "a_b": "a/b"\\n}\\n'
    """
    renamed = {folder: label for label, folder in folders.items() if folder != label}
    return json.dumps(renamed, ensure_ascii=False, indent=1) + "\n" if renamed else ""


def human_bytes(count: float) -> str:
    """Format a number of bytes with a unit.

    >>> human_bytes(1_234_567)
    '1.2 MB'
    """
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB", "GB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} TB"


def human_seconds(seconds: float) -> str:
    """Format a duration with a unit and about two digits.

    >>> [human_seconds(s) for s in (0.0004, 0.0123, 7.2, 600, 9_000, 200_000)]
    ['0.4 ms', '12 ms', '7.2 s', '10 min', '2.5 h', '2.3 days']
    """
    for below, unit, size in ((1, "ms", 1e-3), (120, "s", 1), (7_200, "min", 60), (172_800, "h", 3_600)):
        if seconds < below:
            return f"{_two_digits(seconds / size)} {unit}"
    return f"{_two_digits(seconds / 86_400)} days"


def parse_bytes(option: str, text: str) -> float:
    """Parse a number of bytes above 0.

    >>> parse_bytes("--ram", "1.5GB")
    1500000000.0
    """
    return _parse_with_unit(option, text, BYTES, "2GB, 512MB or 1.5GiB")


def parse_count(option: str, text: str) -> int:
    """Parse a whole number of at least 1.

    >>> parse_count("--items", "2.5M"), parse_count("--items", "10,000")
    (2500000, 10000)
    """
    number = _parse_with_unit(option, re.sub(r"(?<=\d),(?=\d{3}\b)", "", text), COUNTS, "250k, 10M or 5000")
    if number < 1:
        raise InputError(f"{option} must be at least 1. Got {text!r}.")
    return round(number)


def parse_seconds(option: str, text: str) -> float:
    """Parse a duration above 0 and return seconds.

    >>> parse_seconds("--latency", "50ms")
    0.05
    """
    return _parse_with_unit(option, text, SECONDS, "50ms or 1.5s")


def _current_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # the current directory was removed
        return None


def _two_digits(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}".removesuffix(".0")


def _parse_with_unit(option: str, text: str, units: dict[str, float], example: str) -> float:
    match = re.fullmatch(r"\s*([-+]?[0-9.]+(?:e[0-9]+)?)\s*([a-zA-Z]*)\s*", text)
    sizes = {name.lower(): size for name, size in units.items()}
    try:
        number = float(match[1]) * sizes[match[2].lower()] if match else math.nan
    except (ValueError, KeyError):
        number = math.nan
    if not math.isfinite(number):
        allowed = ", ".join(name for name in units if name)
        raise InputError(f"{option} must be a number with a unit ({allowed}), such as {example}. Got {text!r}.")
    if number <= 0:
        raise InputError(f"{option} must be above 0, such as {example}. Got {text!r}.")
    return number
