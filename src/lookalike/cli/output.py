"""Output of the commands: results on stdout, messages and progress on stderr.

If the collection was given on the command line, commands in messages get the same option: "lookalike classes add"
becomes "lookalike -c DIR classes add". The library that writes the messages does not know the option.
"""

import json
import math
import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from lookalike.cli.lazy import Lazy
from lookalike.text import printable, shorten

if TYPE_CHECKING:
    from rich import console

    from lookalike import progress
    from lookalike.types import Progress
else:
    console, progress = Lazy("rich.console"), Lazy("lookalike.progress")


LINE_S = 10.0
"""Seconds between progress lines if stderr is not a terminal."""

_VERBS = (
    "add|backup|classes|classify|clip|cluster|compact|duplicates|explain|export|facets|feedback|fit|history|import|items|label"
    "|map|mcp|plan|refresh|remove|repair|saved|search|serve|sessions|split|stats|token|undo|verify"
)
_COMMAND = re.compile(rf"(?<![\w./-])lookalike (?=(?:{_VERBS})\b)")
_collection: list[str] = []  # the collection given on the command line, if any


def on_terminal() -> bool:
    """Whether stdout is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def print_line(text: str = "") -> None:
    """Print a line on stdout, with unprintable characters escaped."""
    _write(printable(text), sys.stdout)


def print_note(text: str) -> None:
    """Print a line on stderr, with unprintable characters escaped and the collection added to commands."""
    _write(printable(complete_commands(text)), sys.stderr)


def print_json(value: Any, *, error: bool = False) -> None:
    """Print a JSON value on one line and flush it; undecodable names are escaped, so the JSON is always valid."""
    stream = sys.stderr if error else sys.stdout
    _write(json.dumps(_valid(value)), stream)
    if stream is not None:
        stream.flush()


def print_either(json: bool, sentence: str, **values: Any) -> None:
    """Print the values as JSON, or the sentence."""
    print_json(values) if json else print_line(sentence)


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Print a table with aligned columns; numbers are right-aligned, except in the first column, which has names."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    numbers = [i > 0 and all(re.fullmatch(r"[-\d.,]*", row[i]) for row in rows) for i in range(len(head))]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        ]
        print_line("  ".join(cells).rstrip())


def print_missing(missing: Mapping[str, str]) -> None:
    """Print a note for each file that could not be written, with the reason."""
    for path, reason in missing.items():
        print_note(f"Not written: {path}: {reason}")


def show_time(seconds: float) -> str:
    """Return POSIX seconds as local date and time."""
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def print_rich(thing: Any) -> None:
    """Print a rich object on stdout, which must be a terminal."""
    console.Console(soft_wrap=True).print(thing)


def show_path(path: str | None) -> str:
    """Return a path for printing: shortened on a terminal, complete in a pipe."""
    return shorten(path) if on_terminal() or path is None else path


@contextmanager
def bars(title: str = "", *, lines: bool = False) -> Iterator["Progress"]:
    """Show one progress bar per stage on stderr, with rate and remaining time; they disappear at the end.

    If stderr is not a terminal, nothing is shown, or, with `lines`, one line every LINE_S seconds.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _Lines(title).report if lines else _silent
        return
    with progress.show_progress(title) as report:
        yield report


class _Lines:
    """Progress in a pipe or a log: one line every LINE_S seconds."""

    def __init__(self, title: str):
        self.title = title
        self._last = time.monotonic()

    def report(self, stage: str, done: int, total: int | None) -> None:
        """Print a line if the last one is old enough; a `Progress` callback."""
        if time.monotonic() - self._last >= LINE_S:
            self._last = time.monotonic()
            print_note(f"{self.title}{stage}: {done:,}" + ("" if total is None else f" of {total:,}"))


def _silent(stage: str, done: int, total: int | None) -> None:
    """Show no progress."""


def remember_collection(where: str | None) -> None:
    """Set the collection that was given on the command line; None if it was not given."""
    _collection[:] = [] if where is None else [where]


def complete_commands(message: str) -> str:
    """Add the collection that was given on the command line to the commands in a message.

    >>> remember_collection("my photos")
    >>> complete_commands("No classes yet. Create one: lookalike classes add NAME IMAGE")
    "No classes yet. Create one: lookalike -c 'my photos' classes add NAME IMAGE"
    >>> complete_commands("Create one: lookalike -c my.lookalike add FOLDER")  # already has the option
    'Create one: lookalike -c my.lookalike add FOLDER'
    >>> remember_collection(None)
    >>> complete_commands("Run: lookalike compact")
    'Run: lookalike compact'
    """
    return _COMMAND.sub(lambda _: f"lookalike -c {shlex.quote(_collection[0])} ", message) if _collection else message


def _write(text: str, stream: TextIO | None) -> None:
    if stream is not None:  # None: the stream was closed before Python started
        stream.write(text + "\n")


def _valid(value: Any) -> Any:
    """Return the value without lone surrogates, NaN and infinity, which strict JSON parsers reject."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_valid(key): _valid(inner) for key, inner in value.items()}
    return [_valid(inner) for inner in value] if isinstance(value, list | tuple) else value
