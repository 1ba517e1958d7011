"""`lookalike bench`: fill tables of figures, one cell at a time, and report them.

In: a bench's name, a folder of image sets. Out: one JSON line or one line of text per cell as soon as it is done, and a
table at the end on a terminal; a page of all results.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json
from lookalike.cli.terminal import bars, on_terminal, print_json, print_line, print_note, print_rich
from lookalike.errors import InputError, MissingError

if TYPE_CHECKING:
    from rich import table

    from lookalike.bench import described, report, results, tables
    from lookalike.bench import plot as plots
else:
    table, tables, plots = Lazy("rich.table"), Lazy("lookalike.bench.tables"), Lazy("lookalike.bench.plot")
    described, results = Lazy("lookalike.bench.described"), Lazy("lookalike.bench.results")
    report = Lazy("lookalike.bench.report")

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
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="For whatever is random.")] = 0,
    json: Json = False,
) -> int:
    """Fill a table, one cell at a time; or all tables.

    \b
    Examples:
      lookalike bench run retrieval --data ~/data --rows deep,color --json
      lookalike bench run retrieval --data ~/data --plot retrieval.png
      lookalike bench run all --data ~/data --keep ~/vectors --results figures.jsonl
    """
    if name == ALL and (rows or columns or plot):
        raise InputError("Rows, columns and a plot are of one bench. Name it instead of all.")
    benches = [tables.load(one) for one in (sorted(tables.BENCHES) if name == ALL else [name])]
    if data is None and any(chosen.needs_data for chosen in benches):
        raise InputError(f"bench {name} needs data. Give --data DIR; docs/bench.md says what is expected there.")
    if plot is not None:
        plots.check_plot(plot)  # before the long run, not after it
    plans = [
        (chosen, tables.plan(chosen, data or "", rows=_split(rows), columns=_split(columns))) for chosen in benches
    ]
    file = None if kept is None else Path(kept)
    known = [] if file is None else results.read(file)
    clock = _Clock(sum(len(places) for _, places in plans))
    for chosen, places in plans:
        done = results.done(known, chosen.name, seed)
        cells = []
        for row, column in places:
            if (row, column) in done:
                cell = done[row, column].cell
                clock.skip()
            else:
                try:
                    with described.keeping(keep), bars(f"{clock}{chosen.name} {row} {column}: ") as progress:
                        cell = tables.fill(chosen, row, column, data or "", seed=seed, progress=progress)
                except MissingError as error:
                    clock.skip()
                    print_note(f"{chosen.name}  {row}  {column}  not run: {error}")
                    continue
                clock.tick(cell.seconds)
                if file is not None:
                    results.append(file, results.record(cell))
            cells.append(cell)
            if json:
                print_json(dataclasses.asdict(cell))
            else:
                print_line(f"{cell.bench}  {row}  {column}  {cell.measure} {_figure(cell)}  {_cost(cell)}")
        if on_terminal() and not json:
            print_rich(_table(chosen, cells))
        if plot is not None and cells:
            print_note(f"Wrote {plots.write_plot(f'{chosen.name}: {chosen.about}', cells, plot)}")
    return 0


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
    records = [record for one in kept for record in results.read(Path(one))]
    for write, target in ((report.write_html, page), (report.write_markdown, markdown)):
        if target is not None:
            print_note(f"Wrote {write(records, Path(target))}")
    return 0


class _Clock:
    """How many cells are done, and how long the rest may take: what a cell took so far in the mean."""

    def __init__(self, total: int):
        self.total, self.done, self.timed, self.seconds = total, 0, 0, 0.0

    def skip(self) -> None:
        self.done += 1

    def tick(self, seconds: float) -> None:
        self.done += 1
        self.timed += 1
        self.seconds += seconds

    def __str__(self) -> str:
        if self.total == 1:
            return ""
        left = (self.total - self.done) * self.seconds / max(1, self.timed)
        eta = f", about {left / 60:.0f} min left" if self.timed else ""
        return f"[{self.done + 1}/{self.total}{eta}] "


@app.command("list")
def list_benches(json: Json = False) -> int:
    """Name every bench, its rows and its columns."""
    benches = [tables.load(name) for name in sorted(tables.BENCHES)]
    if json:
        print_json([{"name": b.name, "about": b.about, "rows": b.rows, "columns": b.columns} for b in benches])
    for one in () if json else benches:
        print_line(f"{one.name}: {one.about}")
        print_line(f"  rows     {', '.join(one.rows)}")
        print_line(f"  columns  {', '.join(one.columns)}")
    return 0


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
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]
