"""How classes are printed: lines and tables for people, JSON for scripts.

In: what the verbs of classes return. Out: text on stdout.
"""

import dataclasses
import re
import time
from typing import TYPE_CHECKING

from lookalike.cli.lazy import Lazy
from lookalike.cli.terminal import print_json, print_line, print_note, show_path
from lookalike.text import many

if TYPE_CHECKING:
    from lookalike import Collection, types
    from lookalike.collection import ClassView, Evaluation, Prediction, PredictionCounts
else:
    types = Lazy("lookalike.types")

NONE = "none of these"


def print_view(collection: "Collection", view: "ClassView", k: int | None, json: bool) -> None:
    """A class with its pictures."""
    members, predicted = view.members[:k], view.predicted[:k]
    items = collection.get([said.item for said in members] + [guess.item for guess in predicted])
    paths = {item: next(iter(found.paths), None) for item, found in items.items()}
    if json:
        said = [
            {"id": types.format_id(m.item), "path": paths[m.item], "author": m.author, "source": m.source, "at": m.at}
            for m in members
        ]
        guessed = [
            {"id": types.format_id(p.item), "path": paths[p.item], "probability": p.probability}
            | {"source": "predicted", "space": p.space, "model": p.model, "at": p.at}
            for p in predicted
        ]
        print_json({"name": view.name, "parents": view.parents, "pictures": said, "predicted": guessed})
        return
    of = f", a kind of {', '.join(view.parents)}" if view.parents else ""
    print_line(f"{view.name}{of}: {many(len(view.members), 'picture')}, {len(view.predicted):,} predicted.")
    for m in members:
        when = time.strftime("%Y-%m-%d", time.localtime(m.at))
        print_line(f"  {f'{m.source} {m.author} {when}':32}  {show_path(paths[m.item])}")
    for p in predicted:
        print_line(f"  {f'predicted {p.probability:.2f}':32}  {show_path(paths[p.item])}")


def print_predictions(predictions: list["Prediction"], skipped: dict[str, str], json: bool) -> None:
    """What pictures are taken for, and those that could not be read."""
    if json:
        rows = [
            {"id": None if v.id is None else types.format_id(v.id), "path": v.path, "class": v.label}
            | {"probability": v.probability, "nearest": v.nearest, "runner_up": v.runner_up}
            | {"runner_up_probability": v.runner_up_probability, "labels": v.labels}
            for v in predictions
        ]
        print_json({"pictures": rows, "skipped": skipped})
        return
    lines = []
    for v in predictions:
        rest = f"then {v.runner_up} {v.runner_up_probability:.2f}" if v.runner_up is not None else ""
        if v.label is None:
            rest = "" if v.nearest is None else f"nearest {v.nearest}"
        chance = "" if v.label is None else f"{v.probability:.2f}"
        said = f"  (people say: {', '.join(v.labels)})" if v.labels else ""
        lines.append([v.label or NONE, chance, rest, f"{show_path(v.path)}{said}"])
    if lines:
        print_table(["class", "sure", "", "picture"], lines)
    for name, reason in skipped.items():
        print_line(f"skipped: {name}: {reason}")


def print_predicted(found: "PredictionCounts", json: bool) -> None:
    """What came of a classification that was kept."""
    if json:
        print_json({"predicted": found.classes, "none": found.none})
        return
    print_line(f"{many(sum(found.classes.values()), 'picture')} classified, {found.none:,} {NONE}.")
    if found.classes:
        print_table(["class", "predicted"], [[name, f"{n:,}"] for name, n in found.classes.items()])


def print_evaluation(found: "Evaluation", k: int, json: bool) -> None:
    """Figures of all classes, then of each."""
    if json:
        print_json(dataclasses.asdict(found))
        return
    of = many(found.classes, "class", "classes")
    print_line(f"{many(found.pictures, 'picture')} of {of}: {found.kind} in {found.space}.")
    print_line(f"right: {found.accuracy:.3f} of the pictures, {found.class_accuracy:.3f} as the mean over classes.")
    print_line(f"{NONE}: said of {found.own_none:.3f} of them, wrongly;")
    strangers = "not known, of one class" if found.strangers_none is None else f"{found.strangers_none:.3f}"
    print_line(f"  of pictures whose class was left out, rightly: {strangers}.")
    rows = [
        [c.name, f"{c.pictures:,}", _share(c.right), _share(c.none), c.mistaken_for or ""] for c in found.by_class[:k]
    ]
    print_table(["class", "pictures", "right", "none", "mistaken for"], rows)
    if found.confused:
        print_line("Most often mistaken:")
        for truth, guess, n in found.confused:
            print_line(f"  {n:>5,} × {truth} for {guess}")
    if len(found.by_class) > k:
        left = many(len(found.by_class) - k, "class", "classes")
        print_note(f"Better than these: {left}. To see more: -k {len(found.by_class)}")
    for note in found.notes:
        print_note(note)


def print_table(head: list[str], rows: list[list[str]]) -> None:
    """Columns as wide as they must be; numbers to the right."""
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
    numbers = [all(re.fullmatch(r"[-\d.,]*", row[i]) for row in rows) for i in range(len(head))]
    for row in (head, *rows):
        cells = [
            cell.rjust(width) if number else cell.ljust(width)
            for cell, width, number in zip(row, widths, numbers, strict=True)
        ]
        print_line("  ".join(cells).rstrip())


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
