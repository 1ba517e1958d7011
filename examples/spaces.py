"""Two spaces: pictures with similar content, and pictures with similar colours."""

from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.offsetbox import AnnotationBbox, OffsetImage

from lookalike import Collection, read
from lookalike.images import draw_folder

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)

figure, panels = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
with Collection("gallery.lookalike", create=True) as collection:
    collection.add("pictures", recipes=["deep", "thing", "color"])
    for panel, space in zip(panels, ("deep", "color"), strict=True):
        places = collection.map(space)
        items = collection.get(places.ids.tolist())
        panel.scatter(places.x, places.y, s=0)
        for x, y, item in zip(places.x, places.y, places.ids.tolist(), strict=True):
            thumbnail = read(items[item].paths[0], side=48).pixels
            panel.add_artist(
                AnnotationBbox(OffsetImage(thumbnail, zoom=0.22), (x, y), frameon=False)
            )
        panel.set(title=f"space: {space}", xticks=[], yticks=[])
figure.savefig("spaces.png", dpi=100)
