"""One page of results, with a verdict on each figure that a paper reports.

`write_html` and `write_markdown` make a page of records of `results`; both show the same `Section`s. Cells of several
seeds become one figure: the mean of their values, with the widest ends of their intervals. `judge` compares a cell with
the paper's figure. `judge_order` compares orders of methods, which is possible even when the pictures differ; `CLAIMS`
lists the papers' orders and `NOT_RUN` the parts of their tables that no bench runs.
"""

import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from itertools import product
from pathlib import Path
from statistics import fmean
from string import ascii_lowercase
from typing import Literal, NamedTuple

from lookalike.atomic_files import atomic_write
from lookalike.errors import InputError
from lookalike_bench.plot import draw
from lookalike_bench.results import Record, latest
from lookalike_bench.tables import BENCHES, SMALLER_IS_BETTER, Cell, dataset_of, load

Kind = Literal["reproduced", "better", "short", "not comparable", ""]
"""Of a verdict; "" if the paper has no such figure."""
MARKS: dict[Kind, str] = {"reproduced": "=", "better": "▲", "short": "▼", "not comparable": "≠", "": "·"}
"""A sign for each verdict, readable without colours."""
NO_PAPER = "that no paper has"
POINTS = 1.0
"""Distance to the paper's figure, in per cent beyond our 95 % interval, that still counts as reproduced: seeds, splits
and image decoders change figures by about as much."""
STYLE = """
:root { color-scheme: light dark; --ink: #1d2329; --dim: #5b6670; --line: #d8dde2; --page: #fff;
  --good: #14683c; --best: #1f55b8; --bad: #b3261e }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ebee; --dim: #a3adb7; --line: #3a424a; --page: #14181c;
  --good: #5fd394; --best: #8db4ff; --bad: #ff8a80 } }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--page); margin: 2rem auto;
  max-width: 90rem; padding: 0 1rem }
section { margin-bottom: 3rem } .wide, details { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
tbody th { position: sticky; left: 0; background: var(--page); white-space: nowrap }
small { color: var(--dim); display: block; white-space: nowrap }
.summary { display: flex; flex-wrap: wrap; gap: .5rem; list-style: none; padding: 0 }
.summary li { border: 1px solid var(--line); border-radius: .5rem; padding: .4rem .8rem }
.summary b { font-size: 1.3em }
.reproduced, .holds { color: var(--good) } .better, .within { color: var(--best) } .short, .does { color: var(--bad) }
svg { max-width: 100%; height: auto; background: #fff }
"""


class Claim(NamedTuple):
    """An order of methods in a paper: rows of a column, the worst first."""

    bench: str
    column: str
    rows: tuple[str, ...]
    where: str


class NotRun(NamedTuple):
    """A part of a paper's tables that no bench runs."""

    bench: str
    where: str
    why: str


_TOP5 = "corel5k-fisher/128-top5"
CLAIMS = (
    Claim("slem", "ukbench2000/deep", ("cosine", "pcaw", "linear", "poly-full"), "slem, Table 1"),
    Claim("slem", "ukbench2000/vlad", ("cosine", "pcaw", "linear", "poly-full"), "slem, Table 1"),
    Claim("slem", "ukbench2000/deep", ("poly-16", "poly-32", "poly-full"), "slem, Fig. 2"),
    Claim("slem", "ukbench2000/deep-ms", ("esvm", "linear"), "slem, Fig. 1"),
    Claim("feedback", "coil100-classic/precision-10", ("gaussian-exact", "laplace-exact"), "fsm-tree, Fig. 5"),
    Claim("feedback", "coil100-classic/precision-10", ("gaussian-exact", "angular-exact"), "fsm-tree, Fig. 5"),
    Claim("feedback", "coil100-classic/precision-10", ("laplace-pac", "laplace-exact"), "fsm-tree, Fig. 5"),
    Claim("feedback", "coil100-classic/scored-10", ("laplace-exact", "laplace-pac"), "fsm-tree, Fig. 4"),
    Claim("feedback", "coil100-classic/scored-10", ("laplace-pac", "gaussian-pac"), "fsm-tree, Fig. 4"),
    Claim("ncm", _TOP5, ("ncm-pca", "ncm-invcov", "ncm-fda", "ncmml", "ncmc-10"), "ncm, Tables 3 and 4"),
    Claim("ncm", _TOP5, ("knn-pca", "lmnn-10", "lmnn-all", "dynamic-10"), "ncm, Table 2"),
    Claim("ncm", _TOP5, ("ncmml", "ncmc-test", "ncmc-10"), "ncm, Table 4"),
    Claim("ncm", "corel5k-deep/new-1", ("ncmml", "prior-ncmml"), "ncm, Fig. 9"),
    Claim("ncm", "ukbench2000-fisher/4r4-128", ("ncm-pca", "ncm-l2", "ncmml"), "ncm, Table 7"),
    Claim("hashing", "mnist/64", ("lsh", "itq", "tsvm", "fasthash"), "tsvm-hashing, Table 5"),
    Claim("hashing", "cifar10-fisher/64", ("lsh", "itq", "sdh", "fasthash", "tsvm"), "tsvm-hashing, Table 4"),
    Claim("hashing", "cifar10-deep/64", ("lsh", "itq", "tsvm", "sdh", "fasthash"), "tsvm-hashing, Table 4"),
    Claim("dfk", "corel1k", ("euclidean", "lmnn", "pd", "dfk"), "dfk, Table 1"),
    Claim("dfk", "corel5k", ("euclidean", "lmnn", "pd", "dfk"), "dfk, Table 2"),
)
_LONG = "takes longer than three hours allow"
NOT_RUN = (
    NotRun(
        "slem", "Table 1, Oxford5k and Oxford105k; AlexNet and NetVLAD", "we have neither the sets nor the networks"
    ),
    NotRun("slem", "Table 2", "state of the art on Holidays and Oxford5k, which we do not have"),
    NotRun("slem", "Fig. 1 and 3, pools of up to 60,000 negatives", "our sets have 1,000 of the same kind"),
    NotRun("feedback", "Fig. 6 and 7, ALOI", "we do not have its 110,250 pictures"),
    NotRun("ncm", "Table 3, 1,024 numbers and full length of learned metrics", _LONG),
    NotRun("ncm", "Tables 3 and 5, features of 64K numbers", _LONG),
    NotRun("ncm", "Table 6", "we do not have ImageNet-10K"),
    NotRun("ncm", "Table 7, Holidays", "we do not have the set"),
    NotRun("hashing", "Table 1, CIFAR-100", "we do not have the set"),
    NotRun("hashing", "Table 2, ImageCLEF 2013", "its corrected labels were not published"),
    NotRun("hashing", "Table 3, NUS-WIDE", "we do not have the set"),
    NotRun("hashing", "Table 4, five deep networks of others", "figures that the paper took from elsewhere"),
    NotRun("hashing", "Fig. 5, precision along the ranking", "a drawing; ours: columns `…-precision-N`, by name"),
    NotRun("dfk", "Table 1, eight of ten classes", "our ten classes of Corel are others"),
    NotRun("dfk", "Table 3, Caltech101", "we do not have the set"),
    NotRun("dfk", "Table 4, NNMF", "we have no such method, nor MIRFlickr: `corel5k-words` stands for it"),
)


class Verdict(NamedTuple):
    """How a cell compares with the paper's figure."""

    kind: Kind
    text: str


def judge(cell: Cell) -> Verdict:
    """Compare a cell with the paper's figure.

    >>> cell = Cell("hashing", "itq", "mnist/32", "mAP@500", .804, .80, .81, .7955, "", 0, 1.0, 1.0, 1)
    >>> judge(cell).text
    'reproduced'
    """
    if cell.unlike:
        return Verdict("not comparable", f"not comparable because {cell.unlike}")
    if cell.paper is None:
        return Verdict("", "the paper has no such figure")
    slack = POINTS if "%" in cell.measure else POINTS / 100
    if cell.low - slack <= cell.paper <= cell.high + slack:
        return Verdict("reproduced", "reproduced")
    ahead = cell.paper - cell.value if cell.measure in SMALLER_IS_BETTER else cell.value - cell.paper
    if ahead > 0:
        return Verdict("better", f"better by {ahead:.3g}")
    return Verdict("short", f"short by {-ahead:.3g}")


class OrderFound(NamedTuple):
    """Whether an order "holds", is reversed "within intervals" or "does not hold", and our figures."""

    kind: str
    text: str


def judge_order(claim: Claim, cells: Sequence[Cell]) -> OrderFound | None:
    """Check that each row is better than the one before it; None if a row has no cell."""
    by_row = {cell.row: cell for cell in cells if (cell.bench, cell.column) == (claim.bench, claim.column)}
    if not all(row in by_row for row in claim.rows):
        return None
    shown = " → ".join(f"{row} {by_row[row].value:.3f}" for row in claim.rows)
    kinds = [_compare(by_row[worse], by_row[better]) for worse, better in zip(claim.rows, claim.rows[1:], strict=False)]
    kind = next((kind for kind in ("does not hold", "within intervals") if kind in kinds), "holds")
    return OrderFound(kind, shown)


def _compare(worse: Cell, better: Cell) -> str:
    if better.value == worse.value or (better.value > worse.value) == (better.measure not in SMALLER_IS_BETTER):
        return "holds"
    disjoint = better.high < worse.low or worse.high < better.low
    return "does not hold" if disjoint else "within intervals"


@dataclass(frozen=True)
class Section:
    """A bench as the pages show it."""

    title: str
    columns: list[tuple[str, str]]
    """Names and measures."""
    rows: dict[str, dict[str, Cell]]
    """By row and column."""
    notes: dict[str, str]
    """Reasons why figures are not comparable, and the letters that stand for them."""
    orders: list[tuple[str, str, str, str]]
    """Orders of methods in the paper: where, our column, whether it holds, our figures."""
    not_run: list[NotRun]

    @property
    def cells(self) -> list[Cell]:
        """All cells, row by row."""
        return [cell for row in self.rows.values() for cell in row.values()]

    def parts(self) -> list[tuple[list[tuple[str, str]], list[str]]]:
        """A table for each image set: its columns, and the rows that have a cell in them."""
        sets: dict[str, list[tuple[str, str]]] = {}
        for name, measure in self.columns:
            sets.setdefault(dataset_of("", name), []).append((name, measure))
        found = []
        for columns in sets.values():
            names = {name for name, _ in columns}
            found.append((columns, [row for row, at in self.rows.items() if names & set(at)]))
        return found

    def cost(self) -> str:
        """Number of cells, their time and peak memory."""
        minutes, most = sum(cell.seconds for cell in self.cells) / 60, max(cell.peak_mb for cell in self.cells)
        return f"{len(self.cells)} cells, {minutes:,.1f} minutes, at most {most:,.0f} MB."

    def verdict(self, cell: Cell) -> str:
        """The verdict in short; a letter replaces a long reason."""
        found = judge(cell)
        text = f"not comparable ({self.notes[cell.unlike]})" if found.kind == "not comparable" else found.text
        return f"{MARKS[found.kind]} {text}" if found.kind else ""


def write_html(records: Sequence[Record], target: Path) -> Path:
    """Write an HTML page that needs no other file."""
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
        if section.not_run:
            body += ["<h3>Not run</h3><ul>"]
            body += [f"<li>{html.escape(one.where)}: {html.escape(one.why)}</li>" for one in section.not_run]
            body.append("</ul>")
        body += [f"<details open><summary>Drawn</summary>{_draw_svg(section.title, section.cells)}</details>"]
        body.append("</section>")
    return _write(target, _page("\n".join(body)))


def write_markdown(records: Sequence[Record], target: Path) -> Path:
    """Write the same tables and verdicts as Markdown."""
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
        parts += ["", *(f"- Not run: {part.where}, because {part.why}." for part in one.not_run), ""]
    return _write(target, "\n".join(parts))


def summary(records: Sequence[Record]) -> str:
    """Numbers of cells by verdict, of orders that hold, and of parts that are not run.

    >>> from lookalike_bench.results import record
    >>> cell = Cell("toy", "one", "x", "mAP", 0.80, 0.79, 0.81, 0.80, "", 0, 1.5, 90.0, 7)
    >>> summary([record(cell)]).split(";")[0]
    '1 cells: 1 reproduced, 0 better, 0 short, 0 not comparable, 0 that no paper has'
    """
    kinds = count(records)
    counts = ", ".join(f"{kinds[kind]} {kind or NO_PAPER}" for kind in MARKS)
    held = orders(records)
    return (
        f"{kinds.total()} cells: {counts}; of {held.total()} orders of methods {held['holds']} hold;"
        f" {len(NOT_RUN)} parts of the papers' tables are not run."
    )


def count(records: Sequence[Record]) -> Counter[str]:
    """Numbers of cells by verdict."""
    return Counter(judge(cell).kind for cell in merge(records))


def orders(records: Sequence[Record]) -> Counter[str]:
    """Numbers of the papers' orders of methods that hold and that do not."""
    cells = merge(records)
    return Counter(found.kind for claim in CLAIMS if (found := judge_order(claim, cells)) is not None)


def sections(records: Sequence[Record]) -> list[Section]:
    """Benches in the order of their names, with rows and columns in the order of their tables."""
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
        [one for one in NOT_RUN if one.bench == name],
    )


def _letters() -> Iterator[str]:
    """Yield a to z, then aa, ab and so on."""
    for length in count_from(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _in_order(columns: Iterable[tuple[str, str]], known: Sequence[str]) -> list[tuple[str, str]]:
    """Columns in the order of the bench, but by size if names differ only in numbers."""
    families = {re.sub(r"\d+", "#", name): place for place, name in reversed(list(enumerate(known)))}

    def key(column: tuple[str, str]) -> tuple[int, list[int]]:
        name = column[0]
        return families.get(re.sub(r"\d+", "#", name), -1), [int(number) for number in re.findall(r"\d+", name)]

    return sorted(columns, key=key)


def merge(records: Iterable[Record]) -> list[Cell]:
    """One cell per row and column, of the latest records, in the order of their first records."""
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
        f'<li class="{kind.split(" ")[0] or "none"}"><b>{kinds[kind]}</b> {MARKS[kind]} {kind or NO_PAPER}</li>'
        for kind in MARKS
    )
    held = orders(records)
    boxes += f"<li><b>{held['holds']}</b> of {held.total()} orders hold</li>"
    return f'<ul class="summary">{boxes}<li><b>{len(NOT_RUN)}</b> parts of tables not run</li></ul>'


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
    """Three decimals; one from 10 on."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _write(target: Path, text: str) -> Path:
    with atomic_write(target) as part:
        part.write_text(text, encoding="utf-8")
    return target


def _page(body: str) -> str:
    """The page around a body."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Lookalike: figures</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><h1>Lookalike: figures</h1>\n{body}</body></html>\n"
    )


def _draw_svg(title: str, cells: Sequence[Cell]) -> str:
    """A plot of the cells of a bench, as an SVG element."""
    drawn = io.StringIO()
    draw(title, cells).savefig(drawn, format="svg")
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
