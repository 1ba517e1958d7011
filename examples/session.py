"""A session: three rounds of questions, and the best at the end."""

from pathlib import Path

from lookalike import Collection
from lookalike.images import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)


def wanted(path: str) -> bool:
    """What this person has in mind: evening, whether by the sea or in a town."""
    return Path(path).parent.name in ("sunset", "night")


rows = []
with Collection("gallery.lookalike", create=True) as collection:
    collection.add("pictures")
    session = collection.session("pictures/sunset/sunset-000.jpg", name="evening")
    for number in range(1, 4):
        asked = session.round(k=8, window=8).questions
        yes = [item.id for item in asked if wanted(item.paths[0])]
        no = [item.id for item in asked if item.id not in yes]
        session.mark(relevant=yes, irrelevant=no)
        frames = {**dict.fromkeys(yes, "right"), **dict.fromkeys(no, "wrong")}
        said = f"asked in round {number}"
        rows.append([Tile(item.paths[0], said, frames[item.id]) for item in asked])
    rows.append([Tile(best.path, "best at the end") for best in session.best(k=8)])
write_sheet(rows, "session.png")
