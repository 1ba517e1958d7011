"""Plot tables of the documentation in docs/: learn.png, tsvm.png, dfk.png, retrieval.png, classes.png and
learning-curves.png. Part of `make gallery`.

The plots read the tables from the Markdown pages, so they always show the same numbers.
"""

import re
from pathlib import Path

import matplotlib.pyplot as plt

DOCS = Path(__file__).parents[1] / "docs"
OURS = "#2f6fde"


def read_table(page: str, head: str) -> tuple[list[str], dict[str, list[list[float]]]]:
    """Return the column names of the table whose first line starts with `head`, and the numbers of its cells by row."""
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
    """Plot each row of a table as a line; the columns are equally spaced."""
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
    """Plot the first columns of a table, one panel per column and one bar per row, with intervals if it has them."""
    _, rows = read_table(page, head)
    figure, panels = plt.subplots(1, len(across), figsize=(9.6, 4.2), layout="constrained")
    for column, (panel, label) in enumerate(zip(panels, across, strict=True)):
        for place, (name, cells) in enumerate(sorted(rows.items(), key=lambda row: row[1][column][0])):
            value, *interval = cells[column][:3]
            panel.barh(place, value, color=OURS if name in ("dfk", "deep") else "#b9c6e2")
            panel.plot(interval, [place] * len(interval), color="#333333")
            panel.text(0, place, f" {name}", va="center")
        panel.set(yticks=[], xlabel=label)
        panel.locator_params(axis="x", nbins=4)
    figure.savefig(DOCS / target, dpi=100)


def draw_learning_curves(target: str) -> None:
    """Plot the share found and the precision by round, one column of panels for each size of target."""
    figure, panels = plt.subplots(2, 3, figsize=(9.6, 5.6), layout="constrained")
    for i, measure in enumerate(("found", "precision")):
        for j, size in enumerate(("small", "medium", "broad")):
            columns, rows = read_table("experiments/feedback", f"| {measure}, {size} target |")
            rounds, panel = [int(column.split()[0]) for column in columns], panels[i, j]
            for number, (name, cells) in enumerate(rows.items()):
                color, width = (OURS, 3.5) if name == "gaussian-exact" else (plt.colormaps["tab10"](number), 1.5)
                panel.plot(
                    rounds, [cell[0] for cell in cells], "o-", color=color, linewidth=width, markersize=3, label=name
                )
            panel.set(title=f"{size.capitalize()} target", xlabel="Rounds", ylabel=measure.capitalize(), ylim=(0, None))
            panel.grid(alpha=0.3)
    figure.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=6)
    figure.savefig(DOCS / target, dpi=100)


def draw_open_set(target: str) -> None:
    """Plot the reliability of probabilities, and rejected strangers by rejected pictures of known classes."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
    columns, rows = read_table("experiments/classes", "| rule | 0.15 |")
    left.plot([0, 1], [0, 1], color="#999999", linestyle="--", linewidth=1)
    for name, cells in rows.items():
        style = (OURS, 3.5) if name == "ncm" else ("#333333", 1.5)
        label = {"before": "version 0.1"}.get(name, name)
        values = [cell[0] for cell in cells]
        left.plot([float(column) for column in columns], values, "o-", label=label, color=style[0], linewidth=style[1])
    left.set(xlabel="Probability of a suggestion", ylabel="Share of right suggestions", xlim=(0, 1), ylim=(0, 1))
    columns, rows = read_table("experiments/classes", "| rule | 1 % |")
    for number, (name, cells) in enumerate(rows.items()):
        color, width = (OURS, 3.5) if name == "ncm" else (plt.colormaps["tab10"](number + 1), 1.5)
        values = [cell[0] for cell in cells]
        shares = [float(column.split()[0]) / 100 for column in columns]
        right.plot(shares, values, "o-", label=name, color=color, linewidth=width)
    right.set(xlabel="Rejected pictures of known classes", ylabel="Rejected strangers", xlim=(0, 0.42), ylim=(0, 1))
    for panel in (left, right):
        panel.grid(alpha=0.3)
        panel.legend()
    figure.savefig(DOCS / target, dpi=100)


def main() -> None:
    """Draw all plots."""
    draw_curves("experiments/learn", "| method | 32 | 64 |", "Dimensions", "Test error (%)", "learn.png")
    draw_curves("codes", "| coder | 32 | 64 |", "Bits per digit", "mAP of the first 500 (%)", "tsvm.png")
    labels = ["corel1k, mAP@20", "corel5k, mAP", "corel5k-words, mAP"]
    draw_open_set("classes.png")
    draw_learning_curves("learning-curves.png")
    draw_bars("dfk", "| method | `corel1k`, mAP@20", labels, "dfk.png")
    labels = ["corel1k, mAP", "corel5k-split, mAP", "ukbench2000, 4·recall@4"]
    draw_bars("experiments/features", "| recipe | corel1k, mAP", labels, "retrieval.png")


if __name__ == "__main__":
    main()
