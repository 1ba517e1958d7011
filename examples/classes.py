"""Classify with three examples per class. Green: correct; red: wrong."""

from pathlib import Path

from lookalike import Collection
from lookalike.images import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)


def paths(kind: str, numbers: range) -> list[str]:
    """Return the paths of some pictures of a kind."""
    return [f"pictures/{kind}/{kind}-00{i}.jpg" for i in numbers]


known = ["beach", "fish", "house", "flower"]
rows = []
with Collection("classes.lookalike", create=True) as collection:
    collection.add(*(f"pictures/{kind}" for kind in known))
    for kind in known:
        collection.classes.add(kind, paths(kind, range(3)))
    for kind in [*known, "balloons"]:  # balloons has no class
        row = []
        for prediction in collection.classify(paths(kind, range(3, 6))):
            label = prediction.label or "none of these"
            right = label == (kind if kind in known else "none of these")
            frame = "right" if right else "wrong"
            caption = f"{label}\n{prediction.probability:.2f}"
            row.append(Tile(prediction.path, caption, frame))
        rows.append(row)
write_sheet(list(zip(*rows, strict=True)), "classes.png")  # one column per kind
