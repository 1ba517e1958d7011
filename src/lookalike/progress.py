"""Progress bars in a terminal and in notebooks: `show_progress`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rich import progress
from rich.console import Console

from lookalike.types import Progress, silent


@contextmanager
def show_progress(title: str = "") -> Iterator[Progress]:
    """Show one progress bar per stage, with rate and remaining time; give the value to a parameter `progress`.

    In a terminal, the bars are on stderr and disappear at the end; in a notebook, they stay. Elsewhere, such as in a
    pipe, nothing is shown.

    Examples
    --------
    >>> with show_progress() as progress:  # doctest: +SKIP
    ...     collection.add("~/Pictures", progress=progress)
    """
    console = Console() if Console().is_jupyter else Console(file=sys.stderr)
    if sys.stderr is None or not (console.is_jupyter or sys.stderr.isatty()):
        yield silent
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.TextColumn("{task.fields[count]}"),
        progress.TextColumn("{task.fields[rate]}"),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=console, transient=not console.is_jupyter) as live:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int | None) -> None:
            if stage not in tasks:
                tasks[stage] = live.add_task(title + stage, total=total, count="", rate="")
            elapsed = next(task.elapsed for task in live.tasks if task.id == tasks[stage])
            rate = f"{done / elapsed:,.0f}/s" if done and elapsed else ""
            count = f"{done:,}" if total is None else f"{done:,}/{total:,}"
            live.update(tasks[stage], completed=done, total=total, count=count, rate=rate)

        yield report
