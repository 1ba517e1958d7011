"""SLEM: list the negatives with the most influence on a picture's classifier."""

from pathlib import Path

from lookalike import Collection
from lookalike.images import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)

rows = []
with Collection("gallery.lookalike", create=True) as collection:
    collection.add("pictures")
    collection.fit("slem(lam=0.01)")  # negatives: the collection itself
    for kind in ("sunset", "house", "chart"):
        example = f"pictures/{kind}/{kind}-000.jpg"
        pushes = collection.explain(example, space="slem", k=6)[
            1:
        ]  # the first is itself
        tiles = [Tile(push.path, f"influence {push.push:.1f}") for push in pushes]
        rows.append([Tile(example, kind, "example"), *tiles])
write_sheet(rows, "slem.png")
