"""`lookalike bench`: run benchmarks, list them and report results.

`lookalike` attaches `app` through the entry point `lookalike.commands`. Importing this module is cheap, because every
`lookalike --help` imports it: the modules of `lookalike_bench` are imported when a command first uses them.
"""

import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import lookalike_bench as benches
from lookalike.cli.options import Json
from lookalike.cli.output import on_terminal, print_json, print_line, print_note, print_rich
from lookalike.errors import InputError
from lookalike.system import count_cores
from lookalike.text import human_seconds, many

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

    from lookalike_bench.jobs import Outcome
    from lookalike_bench.results import Record
    from lookalike_bench.tables import Bench, Cell

ALL = "all"
PACE_S = 60.0
"""Seconds of estimated work that must be done before its pace is used to estimate the time left."""

app = typer.Typer(name="bench", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def bench(ctx: typer.Context) -> None:
    """Run benchmarks and compare the results with the papers.

    A benchmark is a table: each row is a method, each column a dataset and a measure.

    \b
    Examples:
      lookalike bench list
      lookalike bench run retrieval --data ~/data --columns corel1k
      lookalike bench run all --data ~/data --results figures.jsonl
      lookalike bench report figures.jsonl --html figures.html
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
def run(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of a benchmark, or all.")],
    data: Annotated[
        str | None, typer.Option("--data", metavar="DIR", help="Folder with the datasets; see docs/bench.md.")
    ] = None,
    rows: Annotated[str | None, typer.Option("--rows", metavar="A,B", help="Fill only these rows.")] = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="X,Y", help="Fill only these columns.")] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Also plot the table in a .png, .svg or .pdf file.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Folder to cache vectors of pictures in.")
    ] = None,
    results: Annotated[
        str | None,
        typer.Option(
            "--results", metavar="FILE", help="File of JSON lines to append cells to; cells already in it are skipped."
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            help="Number of cells to run at the same time. Default: 1; with NAME all, the number of cores.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Random seed.")] = 0,
    json: Json = False,
) -> int:
    """Run one benchmark, or all. A failed cell is reported, and the others are still filled.

    \b
    Examples:
      lookalike bench run retrieval --data ~/data --rows deep,color --json
      lookalike bench run retrieval --data ~/data --plot retrieval.png
      lookalike bench run all --data ~/data --keep ~/vectors --results figures.jsonl
    """
    if name == ALL and (rows or columns or plot):
        raise InputError("--rows, --columns and --plot need one benchmark. Give its name instead of all.")
    if jobs is not None and jobs < 1:
        raise InputError(f"--jobs must be at least 1. Got {jobs}.")
    chosen = [benches.tables.load(one) for one in (sorted(benches.tables.BENCHES) if name == ALL else [name])]
    if data is None and any(one.needs_data for one in chosen):
        raise InputError(f"Benchmark {name} needs datasets. Give --data DIR; docs/bench.md lists the expected files.")
    if plot is not None:
        benches.plot.check_plot(plot)  # before the long run, not after it
    plans = [
        (one, benches.tables.plan(one, data or "", rows=_split_names(rows), columns=_split_names(columns)))
        for one in chosen
    ]
    jobs = jobs or (count_cores() if name == ALL else 1)
    filling = _Filling(plans, seed, None if results is None else _check_place(results), json)
    with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
        cache = scratch if keep is None and jobs > 1 else keep
        filling.run(benches.jobs.Settings(data or "", seed, cache), jobs)
    for one, places in plans:
        cells = [filling.cells[one.name, *place] for place in places if (one.name, *place) in filling.cells]
        if cells and on_terminal() and not json:
            print_rich(_table(one, cells))
        if cells and plot is not None:
            print_note(f"Wrote {benches.plot.write_plot(f'{one.name}: {one.about}', cells, plot)}")
    if filling.failed:
        raise InputError(f"{len(filling.failed)} of {filling.total} cells failed. The first: {filling.failed[0]}")
    return 0


class _Filling:
    """Fills the cells that are not yet in a results file; prints and saves each one."""

    def __init__(self, plans: list[tuple["Bench", list[tuple[str, str]]]], seed: int, file: Path | None, json: bool):
        self.file, self.json = file, json
        self.known: list[Record] = [] if file is None else benches.results.read(file)
        self.cells: dict[tuple[str, str, str], Cell] = {}
        self.left: list[tuple[Bench, list[tuple[str, str]]]] = []
        for one, places in plans:
            done = benches.results.done(self.known, one.name, seed)
            self.cells |= {(one.name, *place): done[place].cell for place in places if place in done}
            self.left.append((one, [place for place in places if place not in done]))
        self.total = sum(len(places) for _, places in plans)
        self.failed: list[str] = []

    def run(self, settings: "benches.jobs.Settings", jobs: int) -> None:
        """Print the known cells, then fill the others."""
        for cell in self.cells.values():
            self._print(cell, "")
        before, began = len(self.cells), time.monotonic()
        with _Clock(self.left, self.known, jobs, self.total) as clock:
            for outcome in benches.jobs.fill(self.left, settings, jobs, clock.watch):
                clock.count(outcome)
                self._take(outcome, str(clock))
        if self.total > 1:
            took = human_seconds(time.monotonic() - began)
            print_note(f"Filled {many(len(self.cells) - before, 'cell')} in {took}.")

    def _take(self, outcome: "Outcome", clock: str) -> None:
        if outcome.missing:
            print_note(f"{outcome.bench}  {outcome.row}  {outcome.column}  not run: {outcome.why}")
        elif outcome.cell is None:
            self.failed.append(f"{outcome.bench} {outcome.row} {outcome.column}: {outcome.why}")
            print_note(f"Failed: {self.failed[-1]}")
        else:
            self.cells[outcome.bench, outcome.row, outcome.column] = outcome.cell
            if self.file is not None:
                benches.results.append(self.file, benches.results.record(outcome.cell))
            self._print(outcome.cell, clock)

    def _print(self, cell: "Cell", clock: str) -> None:
        if self.json:
            print_json(dataclasses.asdict(cell))
            return
        print_line(f"{cell.bench}  {cell.row}  {cell.column}  {cell.measure} {_figure(cell)}  {_cost(cell)}{clock}")
        if sys.stdout is not None:
            sys.stdout.flush()  # so that `tail -f` shows each cell of a long run


class _Clock:
    """Counts cells and estimates the time left; on a terminal, also shows a progress bar on stderr.

    The estimate for a cell is the time of an earlier run, or else the time that its benchmark expects. Both are scaled
    by the ratio of actual to estimated time in this run.
    """

    def __init__(self, left: list[tuple["Bench", list[tuple[str, str]]]], known: list["Record"], jobs: int, total: int):
        took = {(one.cell.bench, one.cell.row, one.cell.column): one.cell.seconds for one in known}
        self.waiting = {
            (bench.name, *place): took.get((bench.name, *place), bench.seconds(*place))
            for bench, places in left
            for place in places
        }
        self.jobs, self.total = jobs, total
        self.expected_s = self.taken_s = 0.0
        self.doing = [""] * jobs
        self.bar: Progress | None = None

    def __enter__(self) -> "_Clock":
        if sys.stderr is not None and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn

            columns = (BarColumn(), TextColumn("{task.description}"))
            self.bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self.bar.start()
            self.bar.add_task("", total=self.total)
            self._show()
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.stop()

    def watch(self, job: int, text: str) -> None:
        """Show what a job is doing."""
        self.doing[job] = text
        self._show()

    def count(self, outcome: "Outcome") -> None:
        """Count a cell that is done."""
        expected_s = self.waiting.pop((outcome.bench, outcome.row, outcome.column))
        if outcome.cell is not None:
            self.expected_s += expected_s
            self.taken_s += outcome.cell.seconds
        self._show()

    def __str__(self) -> str:
        if self.total == 1:
            return ""
        pace = self.taken_s / self.expected_s if self.expected_s > PACE_S else 1.0
        minutes = pace * sum(self.waiting.values()) / self.jobs / 60
        done = f"{self.total - len(self.waiting)}/{self.total}"
        return f"  [{done}, about {minutes:.0f} min left]" if self.waiting else f"  [{done}]"

    def _show(self) -> None:
        if self.bar is not None:
            doing = " · ".join(text for text in self.doing if text)
            done = self.total - len(self.waiting)
            self.bar.update(self.bar.task_ids[0], completed=done, description=f"{self} {doing}")


@app.command("report")
def write_report(
    files: Annotated[list[str], typer.Argument(metavar="FILE", help="Files written by `bench run --results`.")],
    page: Annotated[
        str | None, typer.Option("--html", metavar="FILE", help="Write an HTML page with tables and plots.")
    ] = None,
    markdown: Annotated[
        str | None, typer.Option("--markdown", metavar="FILE", help="Write a Markdown page with tables.")
    ] = None,
) -> int:
    """Write a page of results.

    It contains a summary per paper, all tables, plots (HTML), and a comparison of each cell with the paper.

    \b
    Examples:
      lookalike bench report figures.jsonl --html figures.html
    """
    if page is None and markdown is None:
        raise InputError("No output file. Give --html FILE, --markdown FILE or both.")
    for one in files:
        if not Path(one).is_file():
            raise InputError(f"{one} does not exist. Create it with: lookalike bench run all --results {one}")
    for place in (page, markdown):
        if place is not None:
            _check_place(place)
    records = [record for one in files for record in benches.results.read(Path(one))]
    for write, target in ((benches.report.write_html, page), (benches.report.write_markdown, markdown)):
        if target is not None:
            print_note(f"Wrote {write(records, Path(target))}")
    return 0


@app.command("list")
def list_benches(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="List all rows and columns of this benchmark.")
    ] = None,
    json: Json = False,
) -> int:
    """List benchmarks.

    Shows the rows and groups of columns of every benchmark, or all rows and columns of one.

    \b
    Examples:
      lookalike bench list
      lookalike bench list hashing
    """
    chosen = [benches.tables.load(one) for one in (sorted(benches.tables.BENCHES) if name is None else [name])]
    if json:
        print_json([_summary(one) for one in chosen])
        return 0
    total_s = 0.0
    for one in chosen:
        costs_s = [one.seconds(row, column) for row, column in one.places()]
        total_s += sum(costs_s)
        print_line(f"{one.name}: {one.about}")
        print_line(f"  rows     {', '.join(one.rows)}")
        if name is not None:
            print_line(f"  columns  {', '.join(one.columns)}")
            print_line(f"  on request: {', '.join(one.on_request) or 'none'}")
            continue
        print_line(f"  columns  {', '.join(benches.tables.merge_names(one.usual(one.columns)))}")
        on_request = [column for column in one.columns if column in one.on_request]
        if on_request:
            print_line(f"  on request: {', '.join(benches.tables.merge_names(on_request))}")
        print_line(f"  time     about {sum(costs_s) / 60:.0f} min on one core, {many(len(costs_s), 'cell')}")
    if name is None:
        hours = f"about {total_s / 3600:.1f} hours"
        print_line(f"`bench run all` takes {hours} on one core; `bench list NAME` lists all columns.")
    return 0


def _summary(bench: "Bench") -> dict[str, object]:
    minutes = sum(bench.seconds(*place) for place in bench.places()) / 60
    return {
        "name": bench.name,
        "about": bench.about,
        "rows": bench.rows,
        "columns": bench.columns,
        "usual": {"rows": bench.usual(bench.rows), "columns": bench.usual(bench.columns)},
        "minutes": round(minutes, 1),
    }


def _table(bench: "Bench", cells: list["Cell"]) -> "Table":
    from rich.table import Table

    table = Table(title=f"{bench.name}: {bench.about}")
    table.add_column("")
    columns = list(dict.fromkeys((cell.column, cell.measure) for cell in cells))
    for column, measure in columns:
        table.add_column(f"{column}\n{measure}")
    for row in dict.fromkeys(cell.row for cell in cells):
        by_column = {cell.column: cell for cell in cells if cell.row == row}
        shown = (by_column.get(column) for column, _ in columns)
        table.add_row(row, *("" if cell is None else f"{_figure(cell)}\n{_cost(cell)}" for cell in shown))
    return table


def _figure(cell: "Cell") -> str:
    paper = "" if cell.paper is None else f", paper {cell.paper:.3f}"
    return f"{cell.value:.3f} ({cell.low:.3f}–{cell.high:.3f}{paper})"


def _cost(cell: "Cell") -> str:
    return f"{cell.seconds:.1f} s, {cell.peak_mb:,.0f} MB"


def _split_names(text: str | None) -> list[str] | None:
    """The names in a comma-separated list, without duplicates."""
    return None if text is None else list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def _check_place(target: str) -> Path:
    """Return the path of a file to write, or raise an error if its folder does not exist."""
    from lookalike.show import check_place  # imports Pillow and rich

    return check_place(target)
