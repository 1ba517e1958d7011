"""`lookalike bench`: fill tables of figures, one cell at a time, and report them.

In: a bench's name, a folder of image sets. Out: one JSON line or one line of text per cell as soon as it is done, and a
table at the end on a terminal; a page of all results.
"""

import dataclasses
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.bench_clock import Clock
from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json
from lookalike.cli.output import on_terminal, print_json, print_line, print_note, print_rich
from lookalike.errors import InputError
from lookalike.text import many
from lookalike.units import human_seconds

if TYPE_CHECKING:
    from rich import table

    from lookalike import show
    from lookalike.bench import families, report, results, tables
    from lookalike.bench import jobs as running
    from lookalike.bench import plot as plots
    from lookalike.images import workers
else:
    table, show = Lazy("rich.table"), Lazy("lookalike.show")
    tables, plots, running = Lazy("lookalike.bench.tables"), Lazy("lookalike.bench.plot"), Lazy("lookalike.bench.jobs")
    report, results = Lazy("lookalike.bench.report"), Lazy("lookalike.bench.results")
    families, workers = Lazy("lookalike.bench.families"), Lazy("lookalike.images.workers")

ALL = "all"
Results = Annotated[
    str | None,
    typer.Option("--results", metavar="FILE", help="Results as JSON lines; what is there already is not run again."),
]

app = typer.Typer(name="bench", rich_markup_mode=None)


@app.callback(invoke_without_command=True)
def bench(ctx: typer.Context) -> None:
    """Measure: tables of figures, rows are methods, columns are data sets.

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
    name: Annotated[str, typer.Argument(metavar="NAME", help="A bench, or all.")],
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="The folder that holds the sets.")] = None,
    rows: Annotated[str | None, typer.Option("--rows", metavar="A,B", help="Only these rows.")] = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="X,Y", help="Only these columns.")] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Also draw the table: .png, .svg or .pdf.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Keep the vectors of pictures here, for the next time.")
    ] = None,
    kept: Results = None,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", metavar="N", help="Cells at a time; as many as there are cores for all, else 1."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="For whatever is random.")] = 0,
    json: Json = False,
) -> int:
    """Fill a table, one cell at a time; or all tables. A cell that fails is told, and the others go on.

    \b
    Examples:
      lookalike bench run retrieval --data ~/data --rows deep,color --json
      lookalike bench run retrieval --data ~/data --plot retrieval.png
      lookalike bench run all --data ~/data --keep ~/vectors --results figures.jsonl
    """
    if name == ALL and (rows or columns or plot):
        raise InputError("Rows, columns and a plot are of one bench. Name it instead of all.")
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1. Got {jobs}.")
    benches = [tables.load(one) for one in (sorted(tables.BENCHES) if name == ALL else [name])]
    if data is None and any(chosen.needs_data for chosen in benches):
        raise InputError(f"bench {name} needs data. Give --data DIR; docs/bench.md says what is expected there.")
    if plot is not None:
        plots.check_plot(plot)  # before the long run, not after it
    plans = {one.name: tables.plan(one, data or "", rows=_split(rows), columns=_split(columns)) for one in benches}
    file = None if kept is None else show.check_place(kept)
    known = [] if file is None else results.read(file)
    cells: dict[tuple[str, str, str], tables.Cell] = {}
    left: list[tuple[tables.Bench, list[tuple[str, str]]]] = []
    for one in benches:
        done = results.done(known, one.name, seed)
        cells |= {(one.name, *place): done[place].cell for place in plans[one.name] if place in done}
        left.append((one, [place for place in plans[one.name] if place not in done]))
    for cell in cells.values():
        _print(cell, "", json)
    total = sum(len(places) for places in plans.values())
    jobs = jobs or (workers.count_cores() if name == ALL else 1)
    failed, before, began = [], len(cells), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as scratch:
        orders = running.Orders(data or "", seed, scratch if keep is None and jobs > 1 else keep)
        with Clock(left, known, jobs, total) as clock:
            for outcome in running.fill(left, orders, jobs, clock.watch):
                clock.tick(outcome)
                if outcome.missing:
                    print_note(f"{outcome.bench}  {outcome.row}  {outcome.column}  not run: {outcome.why}")
                    continue
                if outcome.cell is None:
                    failed.append(f"{outcome.bench} {outcome.row} {outcome.column}: {outcome.why}")
                    print_note(f"Failed: {failed[-1]}")
                    continue
                cells[outcome.bench, outcome.row, outcome.column] = outcome.cell
                if file is not None:
                    results.append(file, results.record(outcome.cell))
                _print(outcome.cell, str(clock), json)
    if total > 1:
        took = human_seconds(time.monotonic() - began)
        print_note(f"Filled {many(len(cells) - before, 'cell')} in {took}.")
    for one in benches:
        mine = [cells[one.name, *place] for place in plans[one.name] if (one.name, *place) in cells]
        if on_terminal() and not json and mine:
            print_rich(_table(one, mine))
        if plot is not None and mine:
            print_note(f"Wrote {plots.write_plot(f'{one.name}: {one.about}', mine, plot)}")
    if failed:
        raise InputError(f"{len(failed)} of {total} cells failed, the first of them {failed[0]}")
    return 0


def _print(cell: "tables.Cell", clock: str, json: bool) -> None:
    if json:
        print_json(dataclasses.asdict(cell))
    else:
        print_line(f"{cell.bench}  {cell.row}  {cell.column}  {cell.measure} {_figure(cell)}  {_cost(cell)}{clock}")
        if sys.stdout is not None:
            sys.stdout.flush()  # somebody may be watching the file it goes to


@app.command("report")
def write_report(
    kept: Annotated[list[str], typer.Argument(metavar="FILE", help="Results that `bench run --results` wrote.")],
    page: Annotated[str | None, typer.Option("--html", metavar="FILE", help="A page with tables and plots.")] = None,
    markdown: Annotated[str | None, typer.Option("--markdown", metavar="FILE", help="The tables as Markdown.")] = None,
) -> int:
    """Make one page of results: tables, plots, and a verdict on each cell that the papers have too.

    \b
    Examples:
      lookalike bench report figures.jsonl --html figures.html
    """
    if page is None and markdown is None:
        raise InputError("Say where the report goes: --html FILE, --markdown FILE or both.")
    for one in kept:
        if not Path(one).is_file():
            raise InputError(f"There is no {one}. Results are written by: lookalike bench run all --results {one}")
    for place in (page, markdown):
        if place is not None:
            show.check_place(place)
    records = [record for one in kept for record in results.read(Path(one))]
    for write, target in ((report.write_html, page), (report.write_markdown, markdown)):
        if target is not None:
            print_note(f"Wrote {write(records, Path(target))}")
    return 0


@app.command("list")
def list_benches(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="All rows and columns of this one.")] = None,
    json: Json = False,
) -> int:
    """Name every bench, its rows, and families of columns; of one bench, all its columns.

    \b
    Examples:
      lookalike bench list
      lookalike bench list hashing
    """
    benches = [tables.load(one) for one in (sorted(tables.BENCHES) if name is None else [name])]
    if json:
        print_json([_described(one) for one in benches])
        return 0
    seconds = 0.0
    for one in benches:
        costs = {(row, column): one.seconds(row, column) for row, column in one.places()}
        seconds += sum(costs.values())
        print_line(f"{one.name}: {one.about}")
        print_line(f"  rows     {', '.join(one.rows)}")
        if name is not None:
            print_line(f"  columns  {', '.join(one.columns)}")
            print_line(f"  on request: {', '.join(one.on_request) or 'none'}")
            continue
        print_line(f"  columns  {', '.join(families.join(one.usual(one.columns)))}")
        asked = [column for column in one.columns if column in one.on_request]
        if asked:
            print_line(f"  if named {', '.join(families.join(asked))}")
        print_line(f"  time     about {sum(costs.values()) / 60:.0f} min on one core, {many(len(costs), 'cell')}")
    if name is None:
        print_line(f"`bench run all` fills {_hours(seconds)} of one core's work; `bench list NAME` names every column.")
    return 0


def _described(bench: "tables.Bench") -> dict[str, object]:
    usual = {"rows": bench.usual(bench.rows), "columns": bench.usual(bench.columns)}
    minutes = sum(bench.seconds(*place) for place in bench.places()) / 60
    return {"name": bench.name, "about": bench.about, "rows": bench.rows, "columns": bench.columns} | {
        "usual": usual,
        "minutes": round(minutes, 1),
    }


def _hours(seconds: float) -> str:
    return f"about {seconds / 3600:.1f} hours"


def _table(bench: "tables.Bench", cells: list["tables.Cell"]) -> "table.Table":
    made = table.Table(title=f"{bench.name}: {bench.about}")
    made.add_column("")
    columns = list(dict.fromkeys((cell.column, cell.measure) for cell in cells))
    for column, measure in columns:
        made.add_column(f"{column}\n{measure}")
    for row in dict.fromkeys(cell.row for cell in cells):
        at = {cell.column: cell for cell in cells if cell.row == row}
        shown = (at.get(column) for column, _ in columns)
        made.add_row(row, *("" if cell is None else f"{_figure(cell)}\n{_cost(cell)}" for cell in shown))
    return made


def _figure(cell: "tables.Cell") -> str:
    paper = "" if cell.paper is None else f", paper {cell.paper:.3f}"
    return f"{cell.value:.3f} ({cell.low:.3f}–{cell.high:.3f}{paper})"


def _cost(cell: "tables.Cell") -> str:
    return f"{cell.seconds:.1f} s, {cell.peak_mb:,.0f} MB"


def _split(text: str | None) -> list[str] | None:
    """Names between commas, each once."""
    return None if text is None else list(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
