"""The table at which a person and a session sit.

In: a session, and answers one at a time. Out: rounds as text or JSON, and as a contact sheet; marks in the session.
"""

import dataclasses
import os
from typing import TYPE_CHECKING, Any

from lookalike.cli.keys import Keys, inline
from lookalike.cli.lazy import Lazy
from lookalike.cli.terminal import on_terminal, print_json, print_line, print_note, show_path
from lookalike.errors import InputError

if TYPE_CHECKING:
    from lookalike import Collection, Filter, show, types
    from lookalike.collection import Item, Result, Round, Session
else:
    show, types = Lazy("lookalike.show"), Lazy("lookalike.types")

KEYS = {"y": "relevant", "n": "irrelevant", "s": "skip"}
HELP = "y yes · n no · s skip · u undo · f finish · q leave"
SHOWN = 20
"""Of the best, how many are listed and drawn."""


@dataclasses.dataclass
class Table:
    """Where a person and a session sit: shows rounds, takes answers."""

    collection: "Collection"
    session: "Session"
    k: int
    window: int
    filter: "Filter | None"
    sheet: str | None
    json: bool
    keys: Keys = dataclasses.field(default_factory=Keys, init=False)

    def play(self, rounds: int | None) -> str:
        """So many rounds, or until somebody leaves; returns "leave", "finish" or "done"."""
        if self.session.summary.state == "finished" or rounds == 0:
            self._show_best(self.session.best(self.k, filter=self.filter))
            return "done"
        played = 0
        while rounds is None or played < rounds:
            found = self.session.round(self.k, self.window, filter=self.filter)
            self._show(found)
            said = self._ask(found.questions) if found.questions else self._ask_what_now()
            if said != "next":
                return said
            played += 1
        self._show_best(self.session.best(self.k, filter=self.filter))
        return "done"

    def _ask(self, questions: list["Item"]) -> str:
        """One picture after the other; an undo goes back to the picture it is about."""
        if not self.json:
            print_line(HELP)
        at = 0
        while at < len(questions):
            item = questions[at]
            if not self.json:
                print_line(f"  {at + 1}/{len(questions)}  {show_path(_path(item))}")
            key = self.keys.read()
            if key is None or key == "q":
                return "leave"
            if key == "f":
                return "finish"
            if key == "u":
                at = self._undo(questions, at)
            elif key in KEYS:
                self.session.mark(**{KEYS[key]: [item.id]})
                at += 1
            else:
                print_note(f"{key!r} is not one of the keys: {HELP}")
        return "next"

    def _ask_what_now(self) -> str:
        """There is no picture to ask about: what is left is to take something back, or to end."""
        if not self.json:
            print_line("u undo · f finish · q leave")
        key = self.keys.read()
        if key == "u":
            self._undo([], 0)
            return "next"
        return "finish" if key == "f" else "leave"

    def _undo(self, questions: list["Item"], at: int) -> int:
        """Take a step back; where to ask again."""
        undone = self.session.undo()
        if not undone:
            print_note("There is nothing left to undo.")
        for item, kind in undone.items():
            known = self.collection.get([item])
            print_note(
                f"Taken back: {show_path(_path(known[item]) if item in known else types.format_id(item))}, {kind}."
            )
        places = [place for place, question in enumerate(questions) if question.id in undone]
        return min(places, default=at)

    def _show(self, found: "Round") -> None:
        seconds = sum(found.seconds.values())
        drawn = self._draw(found)
        if self.json:
            print_json(
                {
                    "session": self.session.id,
                    "round": found.number,
                    "best": [_result(result) for result in found.best],
                    "questions": [{"id": types.format_id(item.id), "path": _path(item)} for item in found.questions],
                    "found": found.found,
                    "estimate": None if found.estimate is None else dataclasses.asdict(found.estimate),
                    "stop": found.stop,
                    "seconds": seconds,
                    "scored": found.scored,
                    "notes": found.notes,
                    "sheet": drawn,
                }
            )
            return
        how_many = found.estimate
        about = f" of about {how_many.likely:.0f} ({how_many.low:.0f}–{how_many.high:.0f})" if how_many else ""
        print_line(f"Round {found.number}: found {found.found}{about}, in {seconds * 1000:.0f} ms.")
        for note in found.notes:
            print_note(note)
        self._show_best(found.best)
        if found.stop:
            print_line(found.stop)
        if drawn:
            print_line(f"Contact sheet: {show_path(drawn)}")
            if on_terminal():
                inline(drawn)

    def _show_best(self, best: list["Result"]) -> None:
        if self.json:
            print_json({"session": self.session.id, "best": [_result(result) for result in best]})
            return
        marks = self.session.marks
        print_line("The best so far:")
        for rank, result in enumerate(best, 1):
            print_line(f"  {rank:>3}  {marks.get(result.id, ''):10}  {show_path(result.path)}")

    def _draw(self, found: "Round") -> str | None:
        """A sheet with the questions above and the best below; a folder that cannot be written is only a pity."""
        if self.json and self.sheet is None:
            return None
        marks = self.session.marks
        frames: dict[str, show.Frame] = {"relevant": "right", "irrelevant": "wrong"}
        asked = [
            show.Tile(_path(item), f"question {n}\n{os.path.basename(_path(item) or '')}", "example")
            for n, item in enumerate(found.questions, 1)
        ]
        best = [
            show.Tile(
                result.path, f"{rank}\n{os.path.basename(result.path or '')}", frames.get(marks.get(result.id, ""))
            )
            for rank, result in enumerate(found.best, 1)
        ]
        try:
            return str(show.write_sheet(show.arrange(asked, best), self.sheet or f"feedback-{self.session.id}.png"))
        except InputError as error:
            print_note(str(error))
            return None


def _result(result: "Result") -> dict[str, Any]:
    return {"id": types.format_id(result.id), "path": result.path, "score": result.score}


def _path(item: "Item") -> str | None:
    return next(iter(item.paths), None)
