"""One page of results that compares each result with the paper's.

`write_html` and `write_markdown` write a page from records of `results`; both show the same `Section`s. A page starts
with a summary per paper, followed by all cells. Cells of several seeds become one: the mean of their values, with the
widest ends of their intervals. `judge` compares a cell with the paper's result. `judge_order` compares rankings of
methods, which is possible even when the pictures differ; `CLAIMS` lists the papers' orders and `NOT_RUN` the parts of
their tables that no benchmark runs.
"""

import html
import io
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import count as count_from
from itertools import pairwise, product
from pathlib import Path
from statistics import fmean
from string import ascii_lowercase
from typing import Literal, NamedTuple

from lookalike.atomic_files import atomic_write
from lookalike.errors import InputError
from lookalike_bench.plot import draw
from lookalike_bench.results import Record, latest
from lookalike_bench.tables import BENCHES, SMALLER_IS_BETTER, Cell, dataset_of, load

Kind = Literal["reproduced", "better", "below the paper", "not comparable", ""]
"""Kinds of verdict; "" if the paper has no such result."""
MARKS: dict[Kind, str] = {"reproduced": "=", "better": "▲", "below the paper": "▼", "not comparable": "≠", "": "·"}
"""A sign for each verdict, readable without colours."""
NO_PAPER = "not in a paper"
POINTS = 1.0
"""Distance to the paper's result, in per cent beyond our 95 % interval, that still counts as reproduced: seeds, splits
and image decoders change results by about as much."""
ORDER_KINDS = {
    "holds": "Ranking holds",
    "within intervals": "Ranking reversed within intervals",
    "does not hold": "Ranking does not hold",
}
"""Results of the comparison of a ranking of methods, and headings for them."""
LISTED = 6
"""Maximum number of cells below the paper that a summary lists."""
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
.reproduced, .holds { color: var(--good) } .better, .within { color: var(--best) } .below, .does { color: var(--bad) }
svg { max-width: 100%; height: auto; background: #fff }
"""


class Paper(NamedTuple):
    """The paper that a benchmark reproduces."""

    title: str
    source: str


class Plot(NamedTuple):
    """An image in the folder of the page, which Markdown pages show if it exists."""

    file: str
    about: str


PAPERS = {
    "dfk": Paper(
        "Discriminative Fisher kernels",
        'Wang, Li & Liu, "Learning discriminative Fisher kernel for image retrieval", 2013',
    ),
    "feedback": Paper(
        "Feedback with hyperplane queries",
        'Crucianu, Estevez, Oria & Tarel, "Hyperplane queries in a feature-space M-tree for speeding up active'
        ' learning"',
    ),
    "hashing": Paper(
        "Transductive SVM hashing",
        'Cevikalp, Elmas & Ozkan, "Large-scale image retrieval using transductive support vector machines", 2017',
    ),
    "ncm": Paper(
        "Nearest class means with learned metrics",
        'Mensink, Verbeek, Perronnin & Csurka, "Large scale metric learning for distance-based image classification on'
        ' open ended data sets", 2013',
    ),
    "slem": Paper(
        "Square-loss exemplar machines",
        'Rezende, Zepeda, Ponce, Bach & Pérez, "Kernel square-loss exemplar machines for image retrieval", CVPR 2017',
    ),
}
PLOTS = {
    "dfk": Plot("dfk.png", "Mean average precision of twelve methods on corel1k and corel5k"),
    "feedback": Plot("learning-curves.png", "Share found and precision by feedback round, for three sizes of target"),
    "hashing": Plot("tsvm.png", "mAP of the first 500 results by code length on MNIST"),
    "ncm": Plot("learn.png", "Classification error by dimension"),
    "slem": Plot("slem.png", "Figures 1 to 3 of the paper, measured on ukbench2000"),
    "retrieval": Plot("retrieval.png", "Quality of each recipe on three datasets"),
    "scaling": Plot("scaling.png", "CPU milliseconds by number of vectors"),
}
ROW_TITLES = {"scaling": "operation"}
"""What the rows of a benchmark are, if not methods."""
MEASURES = {
    "4·recall@4": "pictures of the same object among the first four results, including the query; 4 is perfect",
    "P@1": "share of queries whose first result other than the query shows the same object",
    "bytes per item": "memory per item",
    "mAP": "mean average precision of the whole ranking",
    "mAP@20": "mean average precision of the first 20 results",
    "mAP@500": "mean average precision of the first 500 results",
    "marks": "marks that a user gives until the precision reaches 80 %",
    "ms": "milliseconds; in `scaling`, of CPU time",
    "precision": "share of the target class among the first results after N feedback rounds (column `precision-N`)",
    "quality ratio": "our quality divided by that of the other library",
    "recall": "share of the true results that were found",
    "scored": "share of all vectors that a search scored",
    "share": "quality from 0 to 1, such as recall or accuracy",
    "speed-up": "time of the other library divided by ours",
    "top-1 error %": "test pictures whose first prediction is wrong, in per cent",
    "top-5 error %": "test pictures whose class is not among the first five predictions, in per cent",
    "× scan-f32": "speed-up over an exact float32 scan",
}
"""Explanations of measures."""


class Claim(NamedTuple):
    """A ranking of methods in a paper: rows of a column, the worst first."""

    bench: str
    column: str
    rows: tuple[str, ...]
    where: str


class NotRun(NamedTuple):
    """A part of a paper's tables that no benchmark runs."""

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
_LONG = "takes more than three hours"
_NO_SET = "we do not have the dataset"
NOT_RUN = (
    NotRun(
        "slem", "Table 1, Oxford5k and Oxford105k; AlexNet and NetVLAD", "we have neither the datasets nor the networks"
    ),
    NotRun("slem", "Table 2", "state of the art on Holidays and Oxford5k, which we do not have"),
    NotRun("slem", "Figs. 1 and 3, pools of up to 60,000 negatives", "our datasets have 1,000 of the same kind"),
    NotRun("feedback", "Figs. 6 and 7, ALOI", "we do not have its 110,250 pictures"),
    NotRun("ncm", "Table 3, learned metrics with 1,024 and all dimensions", _LONG),
    NotRun("ncm", "Tables 3 and 5, features with 64K dimensions", _LONG),
    NotRun("ncm", "Table 6", "we do not have ImageNet-10K"),
    NotRun("ncm", "Table 7, Holidays", _NO_SET),
    NotRun("hashing", "Table 1, CIFAR-100", _NO_SET),
    NotRun("hashing", "Table 2, ImageCLEF 2013", "its corrected labels were not published"),
    NotRun("hashing", "Table 3, NUS-WIDE", _NO_SET),
    NotRun("hashing", "Table 4, five deep networks", "the paper quotes these results from other papers"),
    NotRun(
        "hashing", "Fig. 5, precision along the ranking", "a plot without numbers; ours: `…-precision-N`, on request"
    ),
    NotRun("dfk", "Table 1, eight of ten classes", "eight of our ten Corel classes differ from the paper's"),
    NotRun("dfk", "Table 3, Caltech101", _NO_SET),
    NotRun("dfk", "Table 4, NNMF", "we have neither NNMF nor MIRFlickr; `corel5k-words` replaces MIRFlickr"),
)


class Verdict(NamedTuple):
    """How a cell compares with the paper's result."""

    kind: Kind
    text: str


def judge(cell: Cell) -> Verdict:
    """Compare a cell with the paper's result.

    >>> cell = Cell("hashing", "itq", "mnist/32", "mAP@500", .804, .80, .81, .7955, "", 0, 1.0, 1.0, 1)
    >>> judge(cell).text
    'reproduced'
    """
    if cell.unlike:
        return Verdict("not comparable", f"not comparable because {cell.unlike}")
    if cell.paper is None:
        return Verdict("", "not in the paper")
    slack = POINTS if "%" in cell.measure else POINTS / 100
    if cell.low - slack <= cell.paper <= cell.high + slack:
        return Verdict("reproduced", "reproduced")
    ahead = cell.paper - cell.value if cell.measure in SMALLER_IS_BETTER else cell.value - cell.paper
    if ahead > 0:
        return Verdict("better", f"better by {ahead:.3g}")
    return Verdict("below the paper", f"below the paper by {-ahead:.3g}")


class OrderFound(NamedTuple):
    """Whether a ranking "holds", is reversed "within intervals" or "does not hold", and our values."""

    kind: str
    text: str


def judge_order(claim: Claim, cells: Sequence[Cell]) -> OrderFound | None:
    """Check that each row is better than the one before it; None if a row has no cell."""
    ranked = _ranked(claim, cells)
    return None if ranked is None else _judge_ranked(ranked)


def _judge_ranked(ranked: Sequence[Cell]) -> OrderFound:
    shown = " → ".join(f"{cell.row} {cell.value:.3f}" for cell in ranked)
    kinds = [_compare(worse, better) for worse, better in pairwise(ranked)]
    kind = next((kind for kind in ("does not hold", "within intervals") if kind in kinds), "holds")
    return OrderFound(kind, shown)


def _ranked(claim: Claim, cells: Sequence[Cell]) -> list[Cell] | None:
    """The cells of a ranking, in the paper's order; None if a row has no cell."""
    by_row = {cell.row: cell for cell in cells if (cell.bench, cell.column) == (claim.bench, claim.column)}
    return [by_row[row] for row in claim.rows] if all(row in by_row for row in claim.rows) else None


class Order(NamedTuple):
    """A ranking of methods in the paper, and how it compares with ours."""

    where: str
    column: str
    measure: str
    kind: str
    """"holds", "within intervals" or "does not hold"."""
    values: str
    """Our values, in the paper's order."""
    swapped: list[tuple[str, str]]
    """Neighbouring rows, with our values, of which the first should be better than the second but is worse."""


def _orders(bench: str, cells: Sequence[Cell]) -> list[Order]:
    """The rankings of methods in the paper of a benchmark for which we have all cells."""
    found = []
    for claim in CLAIMS:
        ranked = _ranked(claim, cells) if claim.bench == bench else None
        if ranked is not None:
            pairs = [pair for pair in pairwise(ranked) if _compare(*pair) != "holds"]
            swapped = [(_named(better), _named(worse)) for worse, better in pairs]
            found.append(Order(claim.where, claim.column, ranked[0].measure, *_judge_ranked(ranked), swapped))
    return found


def _named(cell: Cell) -> str:
    return f"{cell.row} ({_number(cell.value)})"


def _compare(worse: Cell, better: Cell) -> str:
    if better.value == worse.value or (better.value > worse.value) == (better.measure not in SMALLER_IS_BETTER):
        return "holds"
    disjoint = better.high < worse.low or worse.high < better.low
    return "does not hold" if disjoint else "within intervals"


@dataclass(frozen=True)
class Section:
    """A benchmark as the pages show it."""

    bench: str
    title: str
    columns: list[tuple[str, str]]
    """Names and measures."""
    rows: dict[str, dict[str, Cell]]
    """By row and column."""
    notes: dict[str, str]
    """Reasons why results are not comparable, and the letters that stand for them."""
    orders: list[Order]
    not_run: list[NotRun]

    @property
    def cells(self) -> list[Cell]:
        """All cells, row by row."""
        return [cell for row in self.rows.values() for cell in row.values()]

    def parts(self) -> list[tuple[list[tuple[str, str]], list[str]]]:
        """One table per dataset: its columns, and the rows that have a cell in them."""
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
        return f"{len(self.cells)} cells, {minutes:,.1f} minutes, peak memory {most:,.0f} MB."

    def verdict(self, cell: Cell) -> str:
        """The verdict as a short text; a letter replaces a long reason."""
        found = judge(cell)
        text = f"not comparable ({self.notes[cell.unlike]})" if found.kind == "not comparable" else found.text
        return f"{MARKS[found.kind]} {text}" if found.kind else ""


def write_html(records: Sequence[Record], target: Path) -> Path:
    """Write an HTML page that needs no other file."""
    shown = sections(records)
    body = [f"<p>{html.escape(_origin(records))}</p>", _html_summary(records)]
    for section in shown:
        if section.bench in PAPERS:
            body += [f"<h2>{html.escape(PAPERS[section.bench].title)}</h2>", f"<p>{html.escape(_source(section))}</p>"]
            body.append(f"<p>{html.escape(_counts(section))}</p>")
            found = ((heading, html.escape(text.replace("`", ""))) for heading, text in _findings(section))
            body += ["<ul>", *(f"<li><b>{heading}:</b> {text}</li>" for heading, text in found), "</ul>"]
    for section in shown:
        body += [f"<section><h2>{html.escape(section.title)}</h2>", *_html_table(section)]
        body.append(f"<p>{html.escape(section.cost())}</p>")
        body += [f"<p>({letter}) {html.escape(why)}.</p>" for why, letter in section.notes.items()]
        if section.orders:
            body += ["<h3>Orders of methods in the paper</h3><table>"]
            body += [
                f"<tr><td>{html.escape(one.where)}<small>{html.escape(one.column)}</small></td>"
                f'<td class="{one.kind.split()[0]}">{html.escape(one.kind)}</td><td>{html.escape(one.values)}</td></tr>'
                for one in section.orders
            ]
            body.append("</table>")
        if section.not_run:
            body += ["<h3>Not run</h3><ul>"]
            body += [f"<li>{html.escape(one.where)}: {html.escape(one.why)}</li>" for one in section.not_run]
            body.append("</ul>")
        body += [f"<details open><summary>Plot</summary>{_draw_svg(section.title, section.cells)}</details>"]
        body.append("</section>")
    return _write(target, _page("\n".join(body)))


def write_markdown(records: Sequence[Record], target: Path) -> Path:
    """Write the same summary, tables and verdicts as Markdown."""
    shown = sections(records)
    parts = ["# Benchmark results", "", _origin(records), "", summary(records), ""]
    parts += [*_markdown_summary(shown, target.parent), *_markdown_legend(shown, target.parent)]
    for one in shown:
        parts += [f"### {one.title}", ""]
        for columns, rows in one.parts():
            parts += [*_markdown_table(one, columns, rows), ""]
        parts += [one.cost(), ""]
        parts += [f"- ({letter}) {why}." for why, letter in one.notes.items()]
        parts += ["", *(f"- Not run: {part.where} ({part.why})." for part in one.not_run), ""]
    return _write(target, re.sub(r"\n{3,}", "\n\n", "\n".join(parts)))


def _markdown_summary(shown: Sequence[Section], folder: Path) -> list[str]:
    """A table with one line per paper, then a section per paper with its plot."""
    with_paper = [section for section in shown if section.bench in PAPERS]
    others = [section for section in shown if section.bench not in PAPERS]
    kinds = [kind for kind in MARKS if kind]
    lines = ["## Summary", ""]
    if with_paper:
        lines += [
            f"| paper | benchmark | {' | '.join(kinds)} | rankings of methods: hold | reversed within intervals"
            " | do not hold |",
            "|---" * (len(kinds) + 5) + "|",
        ]
        for section in with_paper:
            counted, judged = _count(section.cells), Counter(one.kind for one in section.orders)
            numbers = [*(counted[kind] for kind in kinds), *(judged[kind] for kind in ORDER_KINDS)]
            title = PAPERS[section.bench].title
            lines.append(f"| {title} | `{section.bench}` | {' | '.join(map(str, numbers))} |")
        lines += [
            "",
            "The table counts cells (one method on one dataset with one measure) and rankings of methods,"
            " which can be compared even if the datasets or features differ from the paper's. The rankings below go"
            " from the worst method to the best, as in the paper, with our values.",
            "",
        ]
    for section in with_paper:
        lines += [f"### {PAPERS[section.bench].title}", "", _source(section), "", _counts(section), ""]
        lines += [f"- **{heading}:** {text}" for heading, text in _findings(section)]
        lines += ["", *_markdown_plot(section.bench, folder)]
    if others:
        lines += ["### Benchmarks without a paper", "", *(f"- `{one.bench}`: {one.cost()}" for one in others), ""]
        for section in others:
            lines += _markdown_plot(section.bench, folder)
    return lines


def _markdown_plot(bench: str, folder: Path) -> list[str]:
    plot = PLOTS.get(bench)
    return [f"![{plot.about}]({plot.file})", ""] if plot is not None and (folder / plot.file).exists() else []


def _markdown_legend(shown: Sequence[Section], folder: Path) -> list[str]:
    """Explain the tables and the measures that occur."""
    used = {cell.measure for section in shown for cell in section.cells}
    page = "[Benchmarks](bench.md)" if (folder / "bench.md").exists() else "docs/bench.md"
    lines = [
        "## All cells",
        "",
        "Each table is for one dataset or size. A row is a method (in `scaling`, an operation). A column is named"
        " `dataset/variant`, as in the option `--columns` of `lookalike bench run`; " + page + " explains every row and"
        " column. A cell contains our value, its 95 % interval, the paper's value if there is one, and the verdict:"
        " `=` reproduced, `▲` better, `▼` below the paper, `≠` not comparable (the letter refers to the reasons below"
        " the tables). A cell without a verdict has no counterpart in the paper. The measures are:",
        "",
        "| measure | meaning |",
        "|---|---|",
    ]
    for name in sorted(used):
        better = "smaller" if name in SMALLER_IS_BETTER else "larger"
        lines.append(f"| {name} | {MEASURES[name]}; {better} is better |" if name in MEASURES else f"| {name} | |")
    return [*lines, ""]


def _markdown_table(section: Section, columns: list[tuple[str, str]], rows: list[str]) -> list[str]:
    """A title with the dataset and the measure, and the table."""
    measures = dict.fromkeys(measure for _, measure in columns)
    if len(columns) == 1:
        title, heads = f"`{columns[0][0]}`, {columns[0][1]}", [f"`{columns[0][0]}`"]
    elif len(measures) == 1:
        title, heads = f"`{dataset_of('', columns[0][0])}`, {columns[0][1]}", [f"`{name}`" for name, _ in columns]
    else:
        title = f"`{dataset_of('', columns[0][0])}`: {', '.join(measures)}"
        heads = [f"`{name}` {measure}" for name, measure in columns]
    head = ROW_TITLES.get(section.bench, "method")
    lines = [f"**{title}**", "", f"| {head} | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for row in rows:
        at = section.rows[row]
        boxes = (_markdown(section, at[name]) if name in at else "" for name, _ in columns)
        lines.append(f"| `{row}` | " + " | ".join(boxes) + " |")
    return lines


def _source(section: Section) -> str:
    """The paper of a benchmark, as a sentence."""
    return f"{PAPERS[section.bench].source}."


def _counts(section: Section) -> str:
    """How many cells of a benchmark have which verdict, as a sentence."""
    counted = _count(section.cells)
    compared = len(section.cells) - counted[""]
    part = f"All {compared}" if compared == len(section.cells) else f"{compared} of the {len(section.cells)}"
    if not compared:
        return f"None of the {len(section.cells)} cells has a counterpart in the paper."
    if compared == counted["not comparable"]:
        return f"{part} cells have a counterpart in the paper, but none is comparable."
    found = ", ".join(f"{counted[kind]} {kind}" for kind in MARKS if kind and counted[kind])
    return f"{part} cells have a counterpart in the paper: {found}."


def _findings(section: Section) -> Iterator[tuple[str, str]]:
    """Yield a heading and a sentence for the cells below the paper, each reason and each ranking of methods."""
    below = [cell for cell in section.cells if judge(cell).kind == "below the paper"]
    if below:
        named = [f"`{cell.row}` on `{cell.column}` {judge(cell).text.rpartition('paper ')[2]}" for cell in below]
        more = f", and {len(below) - LISTED} more" if len(below) > LISTED else ""
        yield "Below the paper", f"{', '.join(named[:LISTED])}{more}."
    if section.notes:
        numbers = Counter(cell.unlike for cell in section.cells)
        yield "Not comparable", "; ".join(f"{why} ({numbers[why]} cells)" for why in section.notes) + "."
    for kind, heading in ORDER_KINDS.items():
        for one in section.orders:
            if one.kind == kind:
                place = f"{one.where.partition(', ')[2]}, `{one.column}`, {one.measure}"
                swapped = "".join(f" {better} is worse than {worse}." for better, worse in one.swapped)
                yield heading, f"{place}: {one.values}.{swapped}"


def summary(records: Sequence[Record]) -> str:
    """Numbers of cells by verdict, of orders by result, and of parts that are not run, as a sentence.

    >>> from lookalike_bench.results import record
    >>> cell = Cell("toy", "one", "x", "mAP", 0.80, 0.79, 0.81, 0.80, "", 0, 1.5, 90.0, 7)
    >>> summary([record(cell)]).split(".")[0]
    '1 cells: 1 reproduced, 0 better, 0 below the paper, 0 not comparable, 0 not in a paper'
    """
    kinds = count(records)
    counts = ", ".join(f"{kinds[kind]} {kind or NO_PAPER}" for kind in MARKS)
    found = orders(records)
    return (
        f"{kinds.total()} cells: {counts}. Of the {found.total()} rankings of methods reported in the papers,"
        f" {found['holds']} hold, {found['within intervals']} are reversed within the intervals and"
        f" {found['does not hold']} do not hold."
        f" {len(NOT_RUN)} parts of the papers' tables were not run."
    )


def count(records: Sequence[Record]) -> Counter[str]:
    """Numbers of cells by verdict."""
    return _count(merge(records))


def _count(cells: Iterable[Cell]) -> Counter[str]:
    return Counter(judge(cell).kind for cell in cells)


def orders(records: Sequence[Record]) -> Counter[str]:
    """Numbers of the papers' rankings of methods by result: "holds", "within intervals", "does not hold"."""
    cells = merge(records)
    return Counter(found.kind for claim in CLAIMS if (found := judge_order(claim, cells)) is not None)


def sections(records: Sequence[Record]) -> list[Section]:
    """Benchmarks sorted by name, with rows and columns in the order of their tables."""
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
        name,
        name if bench is None else f"{name}: {bench.about}",
        list(columns),
        {row: {cell.column: cell for cell in cells if cell.row == row} for row in rows},
        dict(zip(notes, _letters(), strict=False)),
        _orders(name, cells),
        [one for one in NOT_RUN if one.bench == name],
    )


def _letters() -> Iterator[str]:
    """Yield a to z, then aa, ab and so on."""
    for length in count_from(1):
        yield from map("".join, product(ascii_lowercase, repeat=length))


def _in_order(columns: Iterable[tuple[str, str]], known: Sequence[str]) -> list[tuple[str, str]]:
    """Columns in the order of the benchmark; columns that differ only in numbers are sorted by size."""
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
    return (
        f"{days}; commit {', '.join(commits)}; on {'; '.join(machines)}. Each value is followed by its 95 % interval."
    )


def _html_summary(records: Sequence[Record]) -> str:
    kinds = count(records)
    boxes = "".join(
        f'<li class="{kind.split(" ")[0] or "none"}"><b>{kinds[kind]}</b> {MARKS[kind]} {kind or NO_PAPER}</li>'
        for kind in MARKS
    )
    found = orders(records)
    boxes += f"<li><b>{found['holds']}</b> of {found.total()} rankings of methods hold</li>"
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
    kind, verdict = judge(cell).kind.split(" ")[0], section.verdict(cell)
    small = f'<small class="{kind}">{html.escape(verdict)}</small>' if verdict else ""
    interval = f"{_number(cell.low)}–{_number(cell.high)}"
    return f"<td>{_number(cell.value)}<small>{interval}</small>{paper}{small}</td>"


def _markdown(section: Section, cell: Cell) -> str:
    paper = "" if cell.paper is None else f", paper {_number(cell.paper)}"
    verdict = section.verdict(cell)
    interval = f"({_number(cell.low)}–{_number(cell.high)})"
    return f"{_number(cell.value)} {interval}{paper}" + (f": {verdict}" if verdict else "")


def _number(value: float) -> str:
    """Three decimals, or one for values of 10 and more."""
    return f"{value:.3f}" if abs(value) < 10 else f"{value:,.1f}"


def _write(target: Path, text: str) -> Path:
    with atomic_write(target) as part:
        part.write_text(text, encoding="utf-8")
    return target


def _page(body: str) -> str:
    """The page around a body."""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>Lookalike: benchmark results</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{STYLE}</style></head>\n<body><h1>Lookalike: benchmark results</h1>\n{body}</body></html>\n"
    )


def _draw_svg(title: str, cells: Sequence[Cell]) -> str:
    """A plot of the cells of a benchmark, as an SVG element."""
    drawn = io.StringIO()
    draw(title, cells).savefig(drawn, format="svg")
    return drawn.getvalue()[drawn.getvalue().index("<svg") :]
