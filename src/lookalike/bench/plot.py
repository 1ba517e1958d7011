"""A bench as a picture: one panel a column, one bar a row, with the 95 % interval.

In: the cells of a table. Out: an image file (.png, .svg, .pdf). Needs the extra `bench`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lookalike.bench.tables import Cell
from lookalike.errors import InputError, MissingError

SUFFIXES = (".png", ".svg", ".pdf")
BAR, BEST = "#9fb7d9", "#2f6fde"
SMALLER = ("bytes an item", "marks", "ms", "scored", "top-1 error %", "top-5 error %", "width")
"""The measures that are better the smaller they are."""
ALONG = {"feedback": "round", "hashing": "returned", "ncm": "pictures of a new class"}
"""What the numbers of a bench's numbered columns count."""


def check_plot(target: str | Path) -> Path:
    """The path of a plot, refused where it could not be written at the end of a long run."""
    path = Path(target)
    if path.suffix.lower() not in SUFFIXES:
        raise InputError(f"A plot ends in {', '.join(SUFFIXES)}. Got {target}.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"There is no folder {path.absolute().parent} for the plot. Make it first.")
    _figure()
    return path


def write_plot(title: str, cells: Sequence[Cell], target: str | Path) -> Path:
    """Draw the cells of one bench; the best of each column stands out.

    Where all columns are numbered, at least three of each name (`corel5k/precision-1`, `-5`, `-10`), a panel a name and
    a line a row.
    """
    path = check_plot(target)
    numbered: dict[str, list[Cell]] = {}
    for cell in cells:
        name, _, number = cell.column.rpartition("-")
        numbered.setdefault(name if number.isdigit() else "", []).append(cell)
    if "" not in numbered and all(len({cell.column for cell in group}) >= 3 for group in numbered.values()):
        return _write_lines(title, numbered, path)
    columns = list(dict.fromkeys(cell.column for cell in cells))
    rows = list(dict.fromkeys(cell.row for cell in cells))
    figure = _figure()(figsize=(3.2 * len(columns) + 1, 0.36 * len(rows) + 1.3), layout="constrained")
    figure.suptitle(title)
    for axes, column in zip(figure.subplots(1, len(columns), sharey=True, squeeze=False)[0], columns, strict=True):
        shown = [cell for cell in cells if cell.column == column]
        best = (min if shown[0].measure in SMALLER else max)(cell.value for cell in shown)
        errors = [[cell.value - cell.low for cell in shown], [cell.high - cell.value for cell in shown]]
        axes.barh(
            [rows.index(cell.row) for cell in shown],
            [cell.value for cell in shown],
            xerr=errors,
            color=[BEST if cell.value == best else BAR for cell in shown],
            error_kw={"elinewidth": 1, "ecolor": "#555555"},
        )
        for cell in shown:
            axes.annotate(f" {cell.value:.3f}", (cell.high, rows.index(cell.row)), va="center", fontsize=8)
        axes.set_title(f"{column}, {shown[0].measure}", fontsize=10)
        axes.set_xlim(0, 1.25 * max(cell.high for cell in shown))
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_yticks(range(len(rows)), rows)
    figure.axes[0].invert_yaxis()  # shared: the first row is on top everywhere
    figure.savefig(path, dpi=120)
    return path


def _write_lines(title: str, panels: dict[str, list[Cell]], path: Path) -> Path:
    """A panel a name, a line a row, the number of the column along it."""
    figure = _figure()(figsize=(4.5 * len(panels) + 2, 4), layout="constrained")
    figure.suptitle(title)
    for axes, (name, cells) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        for row in dict.fromkeys(cell.row for cell in cells):
            line = sorted((int(cell.column.rpartition("-")[2]), cell) for cell in cells if cell.row == row)
            numbers = [number for number, _ in line]
            axes.plot(numbers, [cell.value for _, cell in line], marker="o", markersize=3, label=row)
            axes.fill_between(numbers, [cell.low for _, cell in line], [cell.high for _, cell in line], alpha=0.1)
        axes.set_title(name, fontsize=10)
        axes.set_xlabel(ALONG.get(cells[0].bench, ""))
        if max(numbers) >= 50 * max(1, min(numbers)):  # 1, 10, 100 …: else all but the last would be in a corner
            axes.set_xscale("log")
        axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    figure.axes[-1].legend(fontsize=8, loc="center left", bbox_to_anchor=(1, 0.5), frameon=False)
    figure.savefig(path, dpi=120)
    return path


def _figure() -> Any:
    """Matplotlib's figure, drawn without any display."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise MissingError("Plots need matplotlib. Get it with: pip install 'lookalike[bench]'") from None
    return Figure
