"""SLEM: a picture as the classifier that tells it from others: who pushes most?"""

from pathlib import Path

from lookalike import Collection
from lookalike.images import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)

rows = []
with Collection("gallery.lookalike", create=True) as collection:
    collection.add("pictures")
    collection.fit("slem(lam=0.01)")  # the collection itself is the pool of negatives
    for kind in ("sunset", "house", "chart"):
        example = f"pictures/{kind}/{kind}-000.jpg"
        pushes = collection.explain(example, space="slem", k=6)[1:]  # first is itself
        tiles = [Tile(push.path, f"pushes {push.push:.1f}") for push in pushes]
        rows.append([Tile(example, kind, "example"), *tiles])
write_sheet(rows, "slem.png")
