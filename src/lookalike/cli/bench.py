"""`lookalike bench`: fill a table of figures, one cell at a time.

In: a bench's name, a folder of image sets. Out: one JSON line or one line of text per cell as soon as it is done, and a
table at the end on a terminal.
"""

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json
from lookalike.cli.terminal import bars, on_terminal, print_json, print_line, print_note, print_rich
from lookalike.errors import InputError

if TYPE_CHECKING:
    from rich import table

    from lookalike.bench import described, tables
    from lookalike.bench import plot as plots
else:
    table, tables, plots = Lazy("rich.table"), Lazy("lookalike.bench.tables"), Lazy("lookalike.bench.plot")
    described = Lazy("lookalike.bench.described")


def bench(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A bench, or list.")],
    data: Annotated[str | None, typer.Option("--data", metavar="DIR", help="The folder that holds the sets.")] = None,
    rows: Annotated[str | None, typer.Option("--rows", metavar="A,B", help="Only these rows.")] = None,
    columns: Annotated[str | None, typer.Option("--columns", metavar="X,Y", help="Only these columns.")] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Also draw the table: .png, .svg or .pdf.")
    ] = None,
    keep: Annotated[
        str | None, typer.Option("--keep", metavar="DIR", help="Keep the vectors of pictures here, for the next time.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="For whatever is random.")] = 0,
    json: Json = False,
) -> int:
    """Measure: rows are methods, columns are data sets.

    \b
    Examples:
      lookalike bench list
      lookalike bench retrieval --data ~/data --columns corel1k
      lookalike bench retrieval --data ~/data --rows deep,color --json
      lookalike bench retrieval --data ~/data --plot retrieval.png
    """
    if name == "list":
        return _list(json)
    chosen = tables.load(name)
    if data is None and chosen.needs_data:
        raise InputError(f"bench {name} needs data. Give --data DIR; docs/bench.md says what is expected there.")
    if plot is not None:
        plots.check_plot(plot)  # before the long run, not after it
    cells = []
    for row, column in tables.plan(chosen, data or "", rows=_split(rows), columns=_split(columns)):
        with described.keeping(keep), bars(f"{row} {column}: ") as progress:
            cell = tables.fill(chosen, row, column, data or "", seed=seed, progress=progress)
        cells.append(cell)
        if json:
            print_json(dataclasses.asdict(cell))
        else:
            print_line(f"{cell.bench}  {row}  {column}  {cell.measure} {_figure(cell)}  {_cost(cell)}")
    if on_terminal() and not json:
        print_rich(_table(chosen, cells))
    if plot is not None:
        print_note(f"Wrote {plots.write_plot(f'{chosen.name}: {chosen.about}', cells, plot)}")
    return 0


def _list(json: bool) -> int:
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
