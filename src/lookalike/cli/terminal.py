"""What a command prints: JSON, lines, progress bars.

In: values and progress calls. Out: results on stdout, everything about them on stderr; bars only on a terminal.
"""

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO

from lookalike.cli import hints
from lookalike.cli.lazy import Lazy
from lookalike.text import printable, shorten

if TYPE_CHECKING:
    from rich import console, progress

    from lookalike.types import Progress
else:
    console, progress = Lazy("rich.console"), Lazy("rich.progress")


LINE_S = 10.0
"""Seconds between two lines about progress, where there are no bars."""


def on_terminal() -> bool:
    """Whether a person reads stdout."""
    return sys.stdout is not None and sys.stdout.isatty()


def print_line(text: str = "") -> None:
    """One line on stdout, whatever characters are in it."""
    _put(printable(text), sys.stdout)


def print_note(text: str) -> None:
    """One line on stderr, whatever characters are in it; commands that it names are for the collection at hand."""
    _put(printable(hints.complete(text)), sys.stderr)


def show_path(path: str | None) -> str:
    """A path for a line of stdout: short for a person, whole for a program."""
    return shorten(path) if on_terminal() or path is None else path


def print_rich(thing: Any) -> None:
    """A rich table on stdout; only ever on a terminal."""
    console.Console(soft_wrap=True).print(thing)


def print_json(value: Any, *, error: bool = False) -> None:
    """One JSON value on one line, at once; undecodable names are written as escapes, so that it is always valid."""
    stream = sys.stderr if error else sys.stdout
    _put(json.dumps(_valid(value)), stream)
    if stream is not None:
        stream.flush()


def say(json: bool, sentence: str, **values: Any) -> None:
    """A sentence, or the values in it as JSON."""
    print_json(values) if json else print_line(sentence)


@contextmanager
def bars(title: str = "", *, lines: bool = False) -> Iterator["Progress"]:
    """Progress bars with rate and time left, one per stage, on stderr, gone when done.

    Where that is no terminal: silence or, with `lines`, a line now and then while something takes long.
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield _Lines(title).report if lines else _silent
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[count]}"),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console.Console(stderr=True), transient=True) as live:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = live.add_task(title + stage, total=total, count="", rate="")
            elapsed = next(task.elapsed for task in live.tasks if task.id == tasks[stage])
            rate = f"{done / elapsed:,.0f}/s" if done and elapsed else ""
            count = f"{done:,}" if total is None else f"{done:,}/{total:,}"
            live.update(tasks[stage], completed=done, total=total, count=count, rate=rate)

        yield report


class _Lines:
    """Progress in a pipe or a log: a line when ten seconds have passed since the last."""

    def __init__(self, title: str):
        self.title = title
        self._last = time.monotonic()

    def report(self, stage: str, done: int, total: int | None) -> None:
        """As `Progress`."""
        if time.monotonic() - self._last >= LINE_S:
            self._last = time.monotonic()
            print_note(f"{self.title}{stage}: {done:,}" + ("" if total is None else f" of {total:,}"))


def _silent(stage: str, done: int, total: int | None) -> None:
    """Progress in a pipe."""


def _put(text: str, stream: TextIO | None) -> None:
    if stream is not None:  # Python's way to say that the stream was closed before it started
        stream.write(text + "\n")


def _valid(value: Any) -> Any:
    """The same value without what strict JSON readers refuse: lone surrogates, NaN and infinity."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_valid(key): _valid(inner) for key, inner in value.items()}
    return [_valid(inner) for inner in value] if isinstance(value, list | tuple) else value
