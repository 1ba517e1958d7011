"""Classes of three pictures each, and none of these. Green: right; red: wrong."""

from pathlib import Path

from lookalike import Collection
from lookalike.images import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)


def paths(kind: str, numbers: range) -> list[str]:
    """Some of the pictures of a kind."""
    return [f"pictures/{kind}/{kind}-00{i}.jpg" for i in numbers]


known = ["beach", "fish", "house", "flower"]
rows = []
with Collection("classes.lookalike", create=True) as collection:
    collection.add(*(f"pictures/{kind}" for kind in known))
    for kind in known:
        collection.classes.add(kind, paths(kind, range(3)))
    for kind in [*known, "balloons"]:  # of balloons it was told nothing
        row = []
        for prediction in collection.classify(paths(kind, range(3, 6))):
            said = prediction.label or "none of these"
            right = said == (kind if kind in known else "none of these")
            frame = "right" if right else "wrong"
            caption = f"{said}\n{prediction.probability:.2f}"
            row.append(Tile(prediction.path, caption, frame))
        rows.append(row)
write_sheet(list(zip(*rows, strict=True)), "classes.png")  # a column for each
