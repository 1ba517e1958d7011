"""Run a feedback session: three rounds of questions, then the best pictures."""

from pathlib import Path

from lookalike import Collection
from lookalike.images import draw_folder
from lookalike.show import Tile, write_sheet

if not Path("pictures").exists():
    draw_folder("pictures", per_kind=6)


def is_evening(path: str) -> bool:
    """Answer a question: the simulated user looks for sunsets and night scenes."""
    return Path(path).parent.name in ("sunset", "night")


rows = []
with Collection("gallery.lookalike", create=True) as collection:
    collection.add("pictures")
    session = collection.session("pictures/sunset/sunset-000.jpg", name="evening")
    for number in range(1, 4):
        questions = session.round(k=8, window=8).questions
        yes = [item.id for item in questions if is_evening(item.paths[0])]
        no = [item.id for item in questions if item.id not in yes]
        session.mark(relevant=yes, irrelevant=no)
        frames = {**dict.fromkeys(yes, "right"), **dict.fromkeys(no, "wrong")}
        caption = f"question in round {number}"
        rows.append(
            [Tile(item.paths[0], caption, frames[item.id]) for item in questions]
        )
    rows.append([Tile(best.path, "best result") for best in session.best(k=8)])
write_sheet(rows, "session.png")
