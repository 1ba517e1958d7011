"""`make gallery` also draws figures of the method pages that are tables there, so that the two never differ.

In: tables in docs/learn.md, docs/codes.md and docs/dfk.md. Out: docs/learn.png, docs/tsvm.png, docs/dfk.png.
"""

import re
from pathlib import Path

import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
OURS = "#2f6fde"


def read_table(page: str, head: str) -> tuple[list[str], dict[str, list[list[float]]]]:
    """The table whose first line begins with `head`: names of its columns; name of a row → the numbers of each cell."""
    lines = (DOCS / f"{page}.md").read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(head))
    columns = [cell.strip() for cell in lines[start].strip("|").split("|")][1:]
    rows = {}
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        rows[name.strip("*`")] = [[float(number) for number in re.findall(r"\d*\.\d+|\d+", cell)] for cell in cells]
    return columns, rows


def draw_curves(page: str, head: str, across: str, up: str, target: str) -> None:
    """A line for each row of a table, its columns being numbers that double."""
    columns, rows = read_table(page, head)
    figure, panel = plt.subplots(figsize=(7.2, 4.2), layout="constrained")
    for number, (name, cells) in enumerate(rows.items()):
        color, width = (OURS, 3.5) if name in ("ncmml", "tsvm") else (plt.colormaps["tab20"](number + 2), 1.5)
        values = [cell[0] for cell in cells]
        panel.plot(range(len(columns)), values, marker="o", label=name, color=color, linewidth=width)
    panel.set(xticks=range(len(columns)), xticklabels=columns, xlabel=across, ylabel=up)
    panel.grid(alpha=0.3)
    figure.legend(loc="outside right center")
    figure.savefig(DOCS / target, dpi=100)


def draw_bars(page: str, head: str, across: list[str], target: str) -> None:
    """A bar with its 95 % interval for each row of a table's first columns, a panel each."""
    _, rows = read_table(page, head)
    figure, panels = plt.subplots(1, len(across), figsize=(9.6, 4.2), layout="constrained")
    for column, (panel, label) in enumerate(zip(panels, across, strict=True)):
        for place, (name, cells) in enumerate(sorted(rows.items(), key=lambda row: row[1][column][0])):
            value, low, high = cells[column][:3]
            panel.barh(place, value, color=OURS if name == "dfk" else "#b9c6e2")
            panel.plot([low, high], [place, place], color="#333333")
            panel.text(0, place, f" {name}", va="center")
        panel.set(yticks=[], xlabel=label)
        panel.locator_params(axis="x", nbins=4)
    figure.savefig(DOCS / target, dpi=100)


def main() -> None:
    """Draw all of them."""
    draw_curves("learn", "| row | 32 | 64 |", "dimensions", "error in per cent", "learn.png")
    draw_curves("codes", "| coder | 32 | 64 |", "bits per digit", "mAP of the first 500", "tsvm.png")
    labels = ["corel1k, mAP of the first 20", "corel5k, mAP of all", "corel5k by words, mAP of all"]
    draw_bars("dfk", "| row | `corel1k`, mAP of 20", labels, "dfk.png")


if __name__ == "__main__":
    main()
