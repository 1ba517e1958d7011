"""Search by example: three pictures and their results. Green: the same kind."""

from pathlib import Path

from lookalike import Collection
from lookalike.images import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)

rows = []
with Collection("gallery.lookalike", create=True) as collection:
    collection.add("pictures")
    for kind in ("beach", "fish", "face"):
        example = f"pictures/{kind}/{kind}-000.jpg"
        row = [Tile(example, kind, "example")]
        for result in collection.search(example, k=6)[1:]:  # the first is itself
            right = Path(result.path).parent.name == kind
            frame = "right" if right else "wrong"
            row.append(Tile(result.path, f"{result.score:.2f}", frame))
        rows.append(row)
write_sheet(rows, "search.png")
