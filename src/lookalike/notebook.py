"""A widget for notebooks in which a user marks the pictures of a feedback session: `SessionWidget`.

Python sends the questions and the best pictures as traits; the browser sends what the user does as messages (see
`SessionWidget.handle`). The page code is `notebook.js`, a plain ES module, and `notebook.css`.
"""

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lookalike.collection import Item, Round, Session, format_id, parse_id
from lookalike.errors import LookalikeError, MissingError
from lookalike.text import many, printable

try:
    import anywidget
    import traitlets
except ImportError:
    raise MissingError(
        "The session widget needs anywidget. Install it with: pip install 'lookalike[notebook]'"
    ) from None

SIDE = 160
"""Longer side of a picture in pixels."""

FOLDER = Path(__file__).parent


class SessionWidget(anywidget.AnyWidget):
    """Mark the pictures of a session in a notebook: the first click on a question means yes, the second no.

    Parameters
    ----------
    session : an open session.
    k : number of results to show.
    window : number of questions per round.

    Examples
    --------
    >>> SessionWidget(collection.session("beach.jpg", name="beaches"))  # doctest: +SKIP
    """

    _esm = FOLDER / "notebook.js"
    _css = FOLDER / "notebook.css"
    title = traitlets.Unicode().tag(sync=True)
    name = traitlets.Unicode().tag(sync=True)
    questions: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)
    best: traitlets.List[dict[str, str]] = traitlets.List().tag(sync=True)
    status = traitlets.Unicode().tag(sync=True)
    finished = traitlets.Bool(False).tag(sync=True)
    answer = traitlets.Int(0).tag(sync=True)

    def __init__(self, session: Session, *, k: int = 20, window: int = 9):
        super().__init__()
        self.session = session
        self._k, self._window = k, window
        self._previews: dict[int, str] = {}
        self.name = session.summary.name or ""
        self.on_msg(lambda _, message, __: self.handle(message))
        self._try(self._resume)

    def handle(self, message: dict[str, Any]) -> None:
        """Do what the user asked for; an error becomes the status.

        The message has an `action`: "round", which stores the `marks`, {id: "relevant", "irrelevant" or "skip"}, and
        runs the next round; "undo", which undoes the last marks; "finish" with a `name`, which stores the marks and
        labels the relevant pictures.
        """
        actions = {"round": self._next_round, "undo": self._undo, "finish": self._finish}
        action = actions.get(message.get("action", ""))
        if action is not None:
            self._try(lambda: action(message))
        self.answer += 1  # the page waits for it

    def _try(self, act: Callable[[], None]) -> None:
        try:
            act()
        except (LookalikeError, OSError) as error:
            self.status = printable(str(error))

    def _resume(self) -> None:
        self._show(self.session.resume(self._k, self._window))

    def _mark(self, message: dict[str, Any]) -> None:
        marks = {parse_id(item): kind for item, kind in message.get("marks", {}).items()}
        given = {
            kind: [item for item, mark in marks.items() if mark == kind and item is not None]
            for kind in ("relevant", "irrelevant", "skip")
        }
        self.session.mark(**given)

    def _next_round(self, message: dict[str, Any]) -> None:
        self._mark(message)
        self._show(self.session.round(self._k, self._window))

    def _undo(self, _: dict[str, Any]) -> None:
        undone = self.session.undo()
        self._show(self.session.resume(self._k, self._window))
        self.status = f"Undid {many(len(undone), 'mark')}." if undone else "There is nothing to undo."

    def _finish(self, message: dict[str, Any]) -> None:
        self._mark(message)
        done = self.session.finish(message.get("name") or None)
        self.title, self.finished = repr(self.session)[1:-1], True
        self.status = f"{many(int(done.labelled), 'picture')} labelled as {done.name}."

    def _show(self, done: Round) -> None:
        marks = self.session.marks
        self.title = repr(self.session)[1:-1]
        self.questions = [self._tile(item.id, item, marks.get(item.id, "")) for item in done.questions]
        self.best = [self._tile(one.id, one.item, marks.get(one.id, "")) for one in done.best]
        estimate = "" if done.estimate is None else f" Estimated number of matches: {done.estimate.likely:,.0f}."
        self.status = f"Round {done.number}: {done.found:,} found.{estimate} {done.stop or ''}".strip()

    def _tile(self, id: int, item: Item | None, mark: str) -> dict[str, str]:
        name = next(iter(item.paths), "") if item is not None else ""
        return {
            "id": format_id(id),
            "name": printable(name.rpartition("/")[2]) or format_id(id),
            "image": self._preview(id),
            "mark": mark,
        }

    def _preview(self, id: int) -> str:
        if id not in self._previews:
            try:
                data = self.session.preview(id, SIDE)
            except LookalikeError:
                return ""  # the page shows the name only
            self._previews[id] = "data:image/jpeg;base64," + base64.b64encode(data).decode()
        return self._previews[id]
