"""SLEM: each picture becomes the classifier that tells it from the others; who pushes it away most?"""

from pathlib import Path

from lookalike import Collection
from lookalike.images.demo import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=8)

rows = []
with Collection("gallery.lookalike", create=True) as collection:
    collection.add("pictures")
    collection.fit("slem(lam=0.01)")  # the collection itself is the pool of negatives
    for kind in ("sunset", "house", "chart"):
        example = f"pictures/{kind}/{kind}-000.jpg"
        pushes = collection.explain(example, space="slem", k=7)[1:]  # it is in the pool itself: that is the first
        rows.append([Tile(example, kind, "example"), *(Tile(p.path, f"pushes {p.push:.1f}") for p in pushes)])
write_sheet(rows, "slem.png")
