"""One page of all results: tables, plots and a verdict on each cell.

In: records of `bench.results`. Out: an HTML page that needs nothing beside it, or Markdown. Cells of several seeds are
one figure: their mean, and the least and greatest end of their intervals. Both pages are made of the same `Section`s.
"""

import html
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as numbers
from itertools import product
from pathlib import Path
from statistics import fmean
from string import ascii_lowercase

from lookalike.errors import InputError
from lookalike.store.whole import whole
from lookalike_bench.claims import ABSENT, CLAIMS, Absent, judge_order
from lookalike_bench.report_page import MARKS, draw_svg, page
from lookalike_bench.results import Record, latest
from lookalike_bench.tables import BENCHES, Cell, load, the_set
from lookalike_bench.verdict import judge

KINDS = ("reproduced", "better", "short", "not comparable", "")
NAMES = {"": "that no paper has"}


@dataclass(frozen=True)
class Section:
    """A bench as it is shown."""

    title: str
    columns: list[tuple[str, str]]
    """Names and measures."""
    rows: dict[str, dict[str, Cell]]
    """By row and column."""
    notes: dict[str, str]
    """Why figures are not comparable, and the letters that stand for it."""
    orders: list[tuple[str, str, str, str]]
    """Orders that the paper has: where, our column, whether they hold, our figures."""
    absent: list[Absent]

    @property
    def cells(self) -> list[Cell]:
        """All of them, row by row."""
        return [cell for row in self.rows.values() for cell in row.values()]

    def parts(self) -> list[tuple[list[tuple[str, str]], list[str]]]:
        """A table for each set: its columns, and the rows that have something in them."""
        sets: dict[str, list[tuple[str, str]]] = {}
        for name, measure in self.columns:
            sets.setdefault(the_set("", name), []).append((name, measure))
        found = []
        for columns in sets.values():
            names = {name for name, _ in columns}
            found.append((columns, [row for row, at in self.rows.items() if names & set(at)]))
        return found

    def cost(self) -> str:
        """What the cells took."""
        minutes, most = sum(cell.seconds for cell in self.cells) / 60, max(cell.peak_mb for cell in self.cells)
        return f"{len(self.cells)} cells, {minutes:,.1f} minutes, at most {most:,.0f} MB."

    def verdict(self, cell: Cell) -> str:
        """The verdict in a word or two; a letter in place of a long reason."""
        found = judge(cell)
        text = f"not comparable ({self.notes[cell.unlike]})" if found.kind == "not comparable" else found.text
        return f"{MARKS[found.kind]} {text}" if found.kind else ""


def write_html(records: Sequence[Record], target: Path) -> Path:
    """One page."""
    shown = sections(records)
    body = [f"<p>{html.escape(_origin(records))}</p>", _html_summary(records)]
    for section in shown:
        body += [f"<section><h2>{html.escape(section.title)}</h2>", *_html_table(section)]
        body.append(f"<p>{html.escape(section.cost())}</p>")
        body += [f"<p>({letter}) {html.escape(why)}.</p>" for why, letter in section.notes.items()]
        if section.orders:
            body += ["<h3>Orders that the paper found</h3><table>"]
            body += [
                f'<tr><td>{html.escape(where)}<small>{html.escape(column)}</small></td><td class="{kind.split()[0]}">'
                f"{html.escape(kind)}</td><td>{html.escape(figures)}</td></tr>"
                for where, column, kind, figures in section.orders
            ]
            body.append("</table>")
        if section.absent:
            body += ["<h3>Not run</h3><ul>"]
            body += [f"<li>{html.escape(one.where)}: {html.escape(one.why)}</li>" for one in section.absent]
            body.append("</ul>")
        body += [f"<details open><summary>Drawn</summary>{draw_svg(section.title, section.cells)}</details>"]
        body.append("</section>")
    return _write(target, page("\n".join(body)))


def write_markdown(records: Sequence[Record], target: Path) -> Path:
    """The same tables and verdicts for the docs."""
    shown = sections(records)
    parts = ["# Figures", "", _origin(records), "", summary(records), ""]
    for one in shown:
        parts += [f"## {one.title}", ""]
        for columns, rows in one.parts():
            heads = [f"`{name}` {measure}" for name, measure in columns]
            parts += ["| | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
            for row in rows:
                at = one.rows[row]
                boxes = (_markdown(one, at[name]) if name in at else "" for name, _ in columns)
                parts.append(f"| `{row}` | " + " | ".join(boxes) + " |")
            parts.append("")
        parts += [one.cost(), ""]
        parts += [f"- ({letter}) {why}." for why, letter in one.notes.items()]
        parts += ["", *(f"- {where}, `{column}`: **{kind}**. {text}" for where, column, kind, text in one.orders)]
        parts += ["", *(f"- Not run: {absent.where}, because {absent.why}." for absent in one.absent), ""]
    return _write(target, "\n".join(parts))


def summary(records: Sequence[Record]) -> str:
    """How many cells have which verdict, and what is not run.

    >>> from lookalike_bench.results import record
    >>> cell = Cell("toy", "one", "x", "mAP", 0.80, 0.79, 0.81, 0.80, "", 0, 1.5, 90.0, 7)
    >>> summary([record(cell)]).split(";")[0]
    '1 cells: 1 reproduced, 0 better, 0 short, 0 not comparable, 0 that no paper has'
    """
    kinds = count(records)
    told = ", ".join(f"{kinds[kind]} {NAMES.get(kind, kind)}" for kind in KINDS)
    held = orders(records)
    return (
        f"{kinds.total()} cells: {told}; of {held.total()} orders of methods {held['holds']} hold;"
        f" {len(ABSENT)} parts of the papers' tables are not run."
    )


def count(records: Sequence[Record]) -> Counter[str]:
    """How many cells have which verdict."""
    return Counter(judge(cell).kind for cell in merge(records))


def orders(records: Sequence[Record]) -> Counter[str]:
    """How many of the papers' orders of methods hold, and how many do not."""
    cells = merge(records)
    return Counter(found.kind for claim in CLAIMS if (found := judge_order(claim, cells)) is not None)


def sections(records: Sequence[Record]) -> list[Section]:
    """The benches in the order of their names, rows and columns in that of their tables."""
    if not records:
        raise InputError("There are no results to report. Run: lookalike bench run all --data DIR")
    cells = merge(records)
    return [_section(name, [cell for cell in cells if cell.bench == name]) for name in sorted({c.bench for c in cells})]


def _section(name: str, cells: list[Cell]) -> Section:
    bench = load(name) if name in BENCHES else None
    columns = dict.fromkeys((cell.column, cell.measure) for cell in cells)
    rows = dict.fromkeys(cell.row for cell in cells)
    if bench is not None:
        columns = dict.fromkeys(_in_order(columns, bench.columns))
        rows = dict.fromkeys(sorted(rows, key=lambda row: bench.rows.index(row) if row in bench.rows else -1))
    notes = dict.fromkeys(cell.unlike for cell in cells if cell.unlike)
    return Section(
        name if bench is None else f"{name}: {bench.about}",
        list(columns),
        {row: {cell.column: cell for cell in cells if cell.row == row} for row in rows},
        dict(zip(notes, _letters(), strict=False)),
        [
            (claim.where, claim.column, *found)
            for claim in CLAIMS
            if claim.bench == name and (found := judge_order(claim, cells)) is not None
        ],
        [one for one in ABSENT if one.bench == name],
    )


def _letters() -> Iterator[str]:
    """From a to z, then aa, ab and so on, as many as are wanted."""
    for length in numbers(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _in_order(columns: Iterable[tuple[str, str]], known: Sequence[str]) -> list[tuple[str, str]]:
    """As the bench has them, but by size where names differ in numbers: a bench may begin with the largest."""
    families = {re.sub(r"\d+", "#", name): place for place, name in reversed(list(enumerate(known)))}

    def key(column: tuple[str, str]) -> tuple[int, list[int]]:
        name = column[0]
        return families.get(re.sub(r"\d+", "#", name), -1), [int(number) for number in re.findall(r"\d+", name)]

    return sorted(columns, key=key)


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


def _origin(records: Sequence[Record]) -> str:
    whens = sorted(one.when[:10] for one in records)
    commits, machines = sorted({one.commit for one in records}), sorted({one.machine for one in records})
    days = whens[0] if whens[0] == whens[-1] else f"{whens[0]} to {whens[-1]}"
    return f"{days}; code {', '.join(commits)}; on {'; '.join(machines)}. Figures with their 95 % intervals."


def _html_summary(records: Sequence[Record]) -> str:
    kinds = count(records)
    boxes = "".join(
        f'<li class="{kind.split(" ")[0] or "none"}"><b>{kinds[kind]}</b> {MARKS[kind]} {NAMES.get(kind, kind)}</li>'
        for kind in KINDS
    )
    held = orders(records)
    boxes += f"<li><b>{held['holds']}</b> of {held.total()} orders hold</li>"
    return f'<ul class="summary">{boxes}<li><b>{len(ABSENT)}</b> parts of tables not run</li></ul>'


def _html_table(section: Section) -> list[str]:
    lines = []
    for columns, rows in section.parts():
        heads = "".join(f"<th>{html.escape(name)}<small>{html.escape(one)}</small></th>" for name, one in columns)
        lines.append(f'<div class="wide"><table><thead><tr><th></th>{heads}<th>cost</th></tr></thead><tbody>')
        for row in rows:
            at = {name: section.rows[row][name] for name, _ in columns if name in section.rows[row]}
            boxes = (_html_cell(section, at[name]) if name in at else "<td></td>" for name, _ in columns)
            seconds, most = sum(cell.seconds for cell in at.values()), max(cell.peak_mb for cell in at.values())
            cost = f"<td>{seconds:,.0f} s<small>{most:,.0f} MB</small></td>"
            lines.append(f"<tr><th>{html.escape(row)}</th>{''.join(boxes)}{cost}</tr>")
        lines.append("</tbody></table></div>")
    return lines


def _html_cell(section: Section, cell: Cell) -> str:
    paper = "" if cell.paper is None else f"<small>paper {_number(cell.paper)}</small>"
    kind, said = judge(cell).kind.split(" ")[0], section.verdict(cell)
    small = f'<small class="{kind}">{html.escape(said)}</small>' if said else ""
    interval = f"{_number(cell.low)}–{_number(cell.high)}"
    return f"<td>{_number(cell.value)}<small>{interval}</small>{paper}{small}</td>"


def _markdown(section: Section, cell: Cell) -> str:
    paper = "" if cell.paper is None else f", paper {_number(cell.paper)}"
    said = section.verdict(cell)
    interval = f"({_number(cell.low)}–{_number(cell.high)})"
    return f"{_number(cell.value)} {interval}{paper}" + (f": {said}" if said else "")


def _number(value: float) -> str:
    """Three places, or one where there are two before them."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _write(target: Path, text: str) -> Path:
    with whole(target) as part:
        part.write_text(text, encoding="utf-8")
    return target
