"""One page of all results: tables, plots and a verdict on each cell.

In: records of `bench.results`. Out: an HTML page that needs nothing beside it, or Markdown. Cells of several seeds are
one figure: their mean, and the least and greatest end of their intervals.
"""

import html
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean

from lookalike.bench.plot import draw
from lookalike.bench.results import Record, latest
from lookalike.bench.tables import BENCHES, Cell, load
from lookalike.bench.verdict import judge
from lookalike.errors import InputError

STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --dim: #5b6670; --line: #d8dde2; --page: #fff }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebee; --dim: #a3adb7; --line: #3a424a; --page: #14181c } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto;
  max-width: 76rem; padding: 0 1rem }
section { overflow-x: auto; margin-bottom: 3rem }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
small { color: var(--dim); display: block }
.reproduced { color: #1a7f4b } .better { color: #2f6fde } .short { color: #c8372d }
svg { max-width: 100%; height: auto; background: #fff }
"""


def write_html(records: Sequence[Record], target: Path) -> Path:
    """One page."""
    benches = _benches(records)
    parts = [
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Lookalike: figures</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head>\n<body><h1>Lookalike: figures</h1>",
        f"<p>{html.escape(_origin(records))}</p>",
    ]
    for name, cells in benches.items():
        parts += [f"<section><h2>{html.escape(_title(name))}</h2>", *_html_table(cells), _drawing(name, cells)]
        parts.append("</section>")
    return _write(target, "\n".join([*parts, "</body></html>\n"]))


def write_markdown(records: Sequence[Record], target: Path) -> Path:
    """The same tables and verdicts for the docs."""
    benches = _benches(records)
    parts = ["# Figures", "", _origin(records), ""]
    for name, cells in benches.items():
        columns = list(dict.fromkeys(cell.column for cell in cells))
        parts += [f"## {_title(name)}", "", "| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
        for row in dict.fromkeys(cell.row for cell in cells):
            at = {cell.column: cell for cell in cells if cell.row == row}
            shown = (f"{_figure(at[column])}. {_verdict(at[column])}" if column in at else "" for column in columns)
            parts.append(f"| `{row}` | " + " | ".join(text.rstrip(". ") for text in shown) + " |")
        parts.append("")
    return _write(target, "\n".join(parts))


def merge(records: Iterable[Record]) -> list[Cell]:
    """The last figures of each row and column, seeds joined, in the order in which they first came."""
    by_place: dict[tuple[str, str, str], list[Cell]] = {}
    for one in latest(records):
        by_place.setdefault((one.cell.bench, one.cell.row, one.cell.column), []).append(one.cell)
    return [
        replace(
            cells[-1],
            value=fmean(cell.value for cell in cells),
            low=min(cell.low for cell in cells),
            high=max(cell.high for cell in cells),
            seconds=sum(cell.seconds for cell in cells),
        )
        for cells in by_place.values()
    ]


def _benches(records: Sequence[Record]) -> dict[str, list[Cell]]:
    if not records:
        raise InputError("There are no results to report. Run: lookalike bench run all --data DIR")
    found: dict[str, list[Cell]] = {}
    for cell in merge(records):
        found.setdefault(cell.bench, []).append(cell)
    return found


def _origin(records: Sequence[Record]) -> str:
    whens = sorted(one.when[:10] for one in records)
    commits, machines = sorted({one.commit for one in records}), sorted({one.machine for one in records})
    days = whens[0] if whens[0] == whens[-1] else f"{whens[0]} to {whens[-1]}"
    return f"{days}; code {', '.join(commits)}; on {'; '.join(machines)}. Figures with their 95 % intervals."


def _title(name: str) -> str:
    return f"{name}: {load(name).about}" if name in BENCHES else name


def _html_table(cells: Sequence[Cell]) -> list[str]:
    columns = list(dict.fromkeys((cell.column, cell.measure) for cell in cells))
    heads = "".join(f"<th>{html.escape(name)}<small>{html.escape(measure)}</small></th>" for name, measure in columns)
    lines = [f"<table><tr><th></th>{heads}</tr>"]
    for row in dict.fromkeys(cell.row for cell in cells):
        at = {cell.column: cell for cell in cells if cell.row == row}
        boxes = (_html_cell(at[name]) if name in at else "<td></td>" for name, _ in columns)
        lines.append(f"<tr><th>{html.escape(row)}</th>{''.join(boxes)}</tr>")
    return [*lines, "</table>"]


def _html_cell(cell: Cell) -> str:
    kind = judge(cell).kind.split(" ")[0]
    said = _verdict(cell)
    small = f'<small class="{kind}">{html.escape(said)}</small>' if said else ""
    return f"<td>{html.escape(_figure(cell))}{small}</td>"


def _figure(cell: Cell) -> str:
    return f"{cell.value:.3f} ({cell.low:.3f}–{cell.high:.3f})"


def _verdict(cell: Cell) -> str:
    return "" if cell.paper is None else f"paper {cell.paper:.3f}: {judge(cell).text}"


def _drawing(name: str, cells: Sequence[Cell]) -> str:
    drawn = io.StringIO()
    draw(name, cells).savefig(drawn, format="svg")
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]


def _write(target: Path, text: str) -> Path:
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(f"Cannot write {target}: {error.strerror}.") from None
    return target
