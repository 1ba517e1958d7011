"""Find duplicates: pictures that were re-encoded, resized, cropped or brightened."""

from pathlib import Path

from PIL import Image, ImageEnhance

from lookalike import Collection
from lookalike.images import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)

Path("copies").mkdir(exist_ok=True)
for kind in ("flower", "house", "beach"):
    picture = Image.open(f"pictures/{kind}/{kind}-000.jpg")
    picture.save(f"copies/{kind}-again.jpg", quality=30)
    picture.resize((200, 150)).save(f"copies/{kind}-smaller.jpg")
    picture.crop((20, 10, 310, 230)).save(f"copies/{kind}-cropped.jpg", quality=90)
    ImageEnhance.Brightness(picture).enhance(1.2).save(f"copies/{kind}-brighter.jpg")

rows = []
with Collection("copies.lookalike", create=True) as collection:
    collection.add(
        "copies", "pictures/flower", "pictures/house", "pictures/beach", recipes="color"
    )
    for group in collection.duplicates("same"):
        items = collection.get(group.items).values()
        rows.append([Tile(item.paths[0], Path(item.paths[0]).stem) for item in items])
write_sheet(rows, "duplicates.png")
