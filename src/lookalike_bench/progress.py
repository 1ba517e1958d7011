"""How far a long run is: cells done, what is being done, and about how long the rest may take.

In: cells that are to be filled, and each as it comes. Out: a bar on a terminal, a few words for a line elsewhere.
"""

import sys
from typing import TYPE_CHECKING

from lookalike.cli.lazy import Lazy

if TYPE_CHECKING:
    from rich import console, progress

    from lookalike_bench import jobs as running
    from lookalike_bench import results, tables
else:
    console, progress = Lazy("rich.console"), Lazy("rich.progress")

ENOUGH_S = 60.0
"""Of cells done, in seconds, after which their pace says something about the rest."""


class Clock:
    """How many cells are done, what the jobs are at, and how long the rest may take.

    A cell takes what it took in an earlier run, else what its bench expects, times how much longer than expected those
    of this run took.
    """

    def __init__(
        self,
        left: list[tuple["tables.Bench", list[tuple[str, str]]]],
        known: list["results.Record"],
        jobs: int,
        total: int,
    ):
        took = {(one.cell.bench, one.cell.row, one.cell.column): one.cell.seconds for one in known}
        self.waiting = {
            (bench.name, *place): took.get((bench.name, *place), bench.seconds(*place))
            for bench, places in left
            for place in places
        }
        self.jobs, self.total = jobs, total
        self.expected = self.taken = 0.0
        self.doing = [""] * jobs
        self.bar: progress.Progress | None = None

    def __enter__(self) -> "Clock":
        if sys.stderr is not None and sys.stderr.isatty():
            columns = (progress.BarColumn(), progress.TextColumn("{task.description}"))
            self.bar = progress.Progress(*columns, console=console.Console(stderr=True), transient=True)
            self.bar.start()
            self.bar.add_task("", total=self.total)
            self._show()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def watch(self, job: int, text: str) -> None:
        """A job tells what it is at."""
        self.doing[job] = text
        self._show()

    def tick(self, outcome: "running.Outcome") -> None:
        """A cell is done."""
        expected = self.waiting.pop((outcome.bench, outcome.row, outcome.column))
        if outcome.cell is not None:
            self.expected += expected
            self.taken += outcome.cell.seconds
        self._show()

    def __str__(self) -> str:
        if self.total == 1:
            return ""
        pace = self.taken / self.expected if self.expected > ENOUGH_S else 1.0
        minutes = pace * sum(self.waiting.values()) / self.jobs / 60
        done = f"{self.total - len(self.waiting)}/{self.total}"
        return f"  [{done}, about {minutes:.0f} min left]" if self.waiting else f"  [{done}]"

    def _show(self) -> None:
        if self.bar is not None:
            at = " · ".join(text for text in self.doing if text)
            self.bar.update(self.bar.task_ids[0], completed=self.total - len(self.waiting), description=f"{self} {at}")
