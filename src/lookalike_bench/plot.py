"""Plots of benchmarks: one panel per column and one bar per row, with 95 % intervals; or lines for numbered columns.

Image files are .png, .svg or .pdf. Needs the extra `bench`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lookalike.errors import InputError, MissingError
from lookalike.show import check_place
from lookalike.text import join_words
from lookalike_bench.tables import RATIO, SMALLER_IS_BETTER, Cell

SUFFIXES = (".png", ".svg", ".pdf")
ACROSS = 4
"""Panels side by side."""
COLOURS = 10
"""Line colours of matplotlib."""
BAR, BEST = "#9fb7d9", "#2f6fde"
ALONG = {"feedback": "round", "hashing": "results", "ncm": "pictures per new class", "scaling": "vectors"}
"""Label of the x axis for each benchmark."""
POWERS = ("scaling",)
"""Benchmarks whose curves are powers of the number on the x axis: both axes are logarithmic."""


def check_plot(target: str | Path) -> Path:
    """Return the path of a plot, or raise an error, before a long run, if it could not be written."""
    path = check_place(target)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"The file name of a plot must end in {join_words(SUFFIXES, 'or')}. Got {target}.")
    _figure()
    return path


def write_plot(title: str, cells: Sequence[Cell], target: str | Path) -> Path:
    """Draw the cells of one benchmark to a file."""
    path = check_plot(target)
    draw(title, cells).savefig(path, dpi=120)
    return path


def draw(title: str, cells: Sequence[Cell]) -> Any:
    """A figure of the cells of one benchmark; the best of each column is highlighted.

    If all columns are numbered, at least three of each name (`corel5k/precision-1`, `-5`, `-10`), there is a panel per
    name and a line per row.
    """
    numbered: dict[str, list[Cell]] = {}
    for cell in cells:
        name, _, number = cell.column.rpartition("-")
        numbered.setdefault(name if number.isdigit() else "", []).append(cell)
    if "" not in numbered and all(len({cell.column for cell in group}) >= 3 for group in numbered.values()):
        return _draw_lines(title, numbered)
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = list(dict.fromkeys(cell.row for cell in cells))
    figure, panels = _panels(title, len(columns), 3.2, 0.36 * len(rows) + 1)
    for axes, column in zip(panels, columns, strict=True):
        shown = [cell for cell in cells if cell.column == column]
        best = (min if shown[0].measure in SMALLER_IS_BETTER else max)(cell.value for cell in shown)
        base = (
            1 if shown[0].measure == RATIO else 0
        )  # the bar of a speed-up starts at 1 and points left if we are slower
        errors = [[cell.value - cell.low for cell in shown], [cell.high - cell.value for cell in shown]]
        axes.barh(
            [rows.index(cell.row) for cell in shown],
            [cell.value - base for cell in shown],
            left=base,
            xerr=errors,
            color=[BEST if cell.value == best else BAR for cell in shown],
            error_kw={"elinewidth": 1, "ecolor": "#555555"},
        )
        for cell in shown:
            axes.annotate(f" {cell.value:.3f}", (cell.high, rows.index(cell.row)), va="center", fontsize=8)
        axes.set_title(f"{column}, {shown[0].measure}", fontsize=10)
        if base:
            axes.set_xscale("log")
            axes.set_xlim(min(0.5, *(cell.low / 2 for cell in shown)), max(2, *(8 * cell.high for cell in shown)))
        else:
            axes.set_xlim(0, 1.25 * max(cell.high for cell in shown))
        axes.set_ylim(len(rows) - 0.5, -0.5)  # the first row is on top
        axes.set_yticks(range(len(rows)), rows)
    return figure


def _draw_lines(title: str, numbered: dict[str, list[Cell]]) -> Any:
    """A panel per name, a line per row, over the number of the column; with many rows, a panel per kind of row."""
    split = max(len({cell.row for cell in cells}) for cells in numbered.values()) > 2 * COLOURS
    if split:
        numbered = _by_kind([cell for cells in numbered.values() for cell in cells])
    figure, panels = _panels(title, len(numbered), 4.5, 3.6)
    for axes, (name, cells) in zip(panels, numbered.items(), strict=True):
        numbers = {cell: int(cell.column.rpartition("-")[2]) for cell in cells}
        for place, row in enumerate(dict.fromkeys(cell.row for cell in cells)):
            style = "-" if place < COLOURS else "--"  # colours repeat
            line = sorted((cell for cell in cells if cell.row == row), key=numbers.__getitem__)
            along = [numbers[cell] for cell in line]
            axes.plot(along, [cell.value for cell in line], style, marker="o", markersize=3, label=row)
            axes.fill_between(along, [cell.low for cell in line], [cell.high for cell in line], alpha=0.1)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel(ALONG.get(cells[0].bench, ""))
        few, many = min(numbers.values()), max(numbers.values())
        if many >= 50 * max(1, few) or cells[0].bench in POWERS:  # 1, 10, 100 …
            axes.set_xscale("log")
        if cells[0].bench in POWERS:
            axes.set_yscale("log")
            axes.set_ylabel(cells[0].measure)
        else:
            axes.set_ylim(bottom=0)
    for axes in panels if split else panels[-1:]:
        axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    return figure


def _by_kind(cells: Sequence[Cell]) -> dict[str, list[Cell]]:
    """Cells by measure and first word of their row; rows with a unique first word share a panel."""
    rows = dict.fromkeys(cell.row for cell in cells)
    words = [row.partition("-")[0] for row in rows]
    kinds: dict[str, list[Cell]] = {}
    for cell in cells:
        word, name = cell.row.partition("-")[0], cell.column.rpartition("-")[0]
        kinds.setdefault(f"{word if words.count(word) > 1 else 'other'}, {name}", []).append(cell)
    return kinds


def _panels(title: str, count: int, width: float, height: float) -> tuple[Any, list[Any]]:
    """A figure with `count` panels of this size in inches, at most ACROSS side by side."""
    across = min(count, ACROSS)
    down = -(-count // across)
    figure = _figure()(figsize=(width * across + 1, height * down + 0.3), layout="constrained")
    figure.suptitle(title)
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for unused in panels[count:]:
        unused.remove()
    for axes in panels[:count]:
        axes.spines[["top", "right"]].set_visible(False)
    return figure, panels[:count]


def _figure() -> Any:
    """Matplotlib's Figure class, which needs no display."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingError("Plots need matplotlib. Install it with: pip install 'lookalike[bench]'") from None
    return Figure
