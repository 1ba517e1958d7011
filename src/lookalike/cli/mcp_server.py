"""The tools of `lookalike mcp`: what an assistant can do with a collection.

`Tools` has one method per tool. The annotations and docstrings are the descriptions that the assistant reads. Results
are dataclasses, which MCP clients receive as JSON with a schema. Errors are one line of text.
"""

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from mcp.server import MCPServer
from mcp.server.mcpserver import Image
from mcp.server.mcpserver.exceptions import ToolError
from mcp.types import ToolAnnotations
from pydantic import Field

import lookalike
from lookalike.collection import Collection, Filter, Finished, Item, Result, format_id, is_url, parse_id
from lookalike.errors import InputError, LookalikeError, NoItemError

INSTRUCTIONS = (
    "Tools for one collection of the user's pictures. Pictures have ids of 16 hexadecimal digits. Search first, then"
    " show the pictures that you want to see. Scores are distances: smaller is better."
)

MAX_K = 100
"""Maximum number of pictures in one result."""

Id = Annotated[str, Field(description="Id of a picture: 16 hexadecimal digits.", pattern="^[0-9a-f]{16}$")]
Ids = Annotated[list[Id], Field(description="Ids of pictures.", max_length=MAX_K)]
K = Annotated[int, Field(description="Number of pictures.", ge=1, le=MAX_K)]
Picture = Annotated[str, Field(description="Id of a picture in the collection, or path of a picture file.")]
Label = Annotated[str | None, Field(description="Only pictures with this label.")]
Folder = Annotated[str | None, Field(description="Only pictures in this folder, such as Pictures/2024 or /photos.")]
SessionId = Annotated[str, Field(description="Id of a session, as start_session and sessions return it.")]


@dataclass(frozen=True)
class Found:
    """A picture."""

    id: str
    path: str | None
    score: float | None
    likely: float | None
    labels: list[str]


@dataclass(frozen=True)
class Class:
    """A class of pictures."""

    name: str
    pictures: int
    suggested: int


@dataclass(frozen=True)
class Classified:
    """The predicted class of a picture; `label` is null if no class matches."""

    picture: str
    label: str | None
    probability: float | None
    nearest: str | None
    labels: list[str]


@dataclass(frozen=True)
class SessionState:
    """A feedback session."""

    id: str
    name: str | None
    state: str
    rounds: int
    relevant: int
    irrelevant: int


@dataclass(frozen=True)
class RoundState:
    """A round of a session: the best pictures, and the pictures to mark next."""

    session: str
    round: int
    found: int
    best: list[Found]
    questions: list[Found]
    stop: str | None


@dataclass(frozen=True)
class Labelled:
    """The number of pictures that got a label."""

    label: str
    labelled: int


class Tools:
    """The tools for one collection; `author` is the author of changes."""

    def __init__(self, collection: Collection, author: str | None):
        self._collection = collection
        self._author = author

    def search(
        self,
        words: Annotated[str | None, Field(description="What the pictures show, such as: dog on grass.")] = None,
        pictures: Annotated[list[Picture] | None, Field(description="Pictures to find similar ones to.")] = None,
        without: Annotated[list[Picture] | None, Field(description="Pictures that results must not resemble.")] = None,
        label: Label = None,
        folder: Folder = None,
        k: K = 10,
    ) -> list[Found]:
        """Search pictures by words, by example pictures, or by both; best first."""
        if not words and not pictures:
            raise InputError("Give words, pictures or both to search for.")
        found = self._collection.search(
            [_check_picture(one) for one in pictures or []],
            words=words or (),
            without=[_check_picture(one) for one in without or []],
            k=k,
            filter=Filter(label=label, folder=folder),
        )
        if not found and found.understood and not any(meaning.is_known for meaning in found.understood):
            raise InputError(f"None of these words is known: {words}")
        return self._results(found)

    def similar(self, id: Id, k: K = 10) -> list[Found]:
        """List the pictures that are most similar to a picture of the collection, without the picture itself."""
        item = self._item(id).id
        return self._results([one for one in self._collection.search(item, k=k + 1) if one.id != item][:k])

    def show(
        self,
        id: Id,
        side: Annotated[int, Field(description="Maximum width and height in pixels.", ge=32, le=1_600)] = 512,
    ) -> list[Any]:
        """Show a picture as an image, with its path, size, labels and suggested class."""
        item = self._item(id)
        labels = ", ".join(self._collection.labels([item.id])[item.id]) or "none"
        predicted = self._collection.predictions([item.id]).get(item.id)
        suggested = f"\nsuggested class: {predicted.label}" if predicted is not None else ""
        about = f"{next(iter(item.paths), id)}\n{item.width} × {item.height}\nlabels: {labels}{suggested}"
        return [about, Image(data=self._collection.preview(item, side), format="jpeg")]

    def classify(
        self, pictures: Annotated[list[Picture], Field(description="Pictures.", min_length=1, max_length=MAX_K)]
    ) -> list[Classified]:
        """Predict the class of pictures from the user's classes, with a probability; nothing is stored."""
        predicted = self._collection.classify([_check_picture(one) for one in pictures])
        return [
            Classified(one, found.label, found.probability, found.nearest, found.labels)
            for one, found in zip(pictures, predicted, strict=True)
        ]

    def classes(self) -> list[Class]:
        """List the user's classes, with their numbers of pictures and of suggested pictures."""
        return [Class(one.name, one.pictures, one.predicted) for one in self._collection.classes.all()]

    def stats(self) -> dict[str, Any]:
        """Count pictures, labels and classes, and list the spaces of the collection."""
        return self._collection.glance()

    def sessions(self) -> list[SessionState]:
        """List the feedback sessions, most recently used first."""
        return [
            SessionState(one.id, one.name, one.state, one.rounds, one.relevant, one.irrelevant)
            for one in self._collection.sessions()
        ]

    def start_session(
        self,
        words: Annotated[str | None, Field(description="What the pictures show.")] = None,
        pictures: Annotated[list[Picture] | None, Field(description="Positive examples.")] = None,
        name: Annotated[str | None, Field(description="Name of the session, and of the label it leads to.")] = None,
        k: K = 10,
    ) -> RoundState:
        """Start a feedback session: a search that improves with marks. Returns the first round, with its questions."""
        positive = [_check_picture(one) for one in pictures or []]
        session = self._collection.session(positive, words=words or (), name=name, author=self._author)
        return self._run_round(session.id, k)

    def mark(
        self,
        session: SessionId,
        relevant: Ids | None = None,
        irrelevant: Ids | None = None,
        skip: Ids | None = None,
        k: K = 10,
    ) -> RoundState:
        """Mark pictures of a session as relevant or irrelevant, or skip them, and run its next round."""
        items = [[self._item(one).id for one in ids or ()] for ids in (relevant, irrelevant, skip)]
        self._collection.session(id=session, author=self._author).mark(*items)
        return self._run_round(session, k)

    def finish_session(
        self,
        session: SessionId,
        name: Annotated[str | None, Field(description="Label. Default: the name of the session.")] = None,
    ) -> Labelled:
        """Give the relevant pictures of a session a label, and end the session."""
        done: Finished = self._collection.session(id=session, author=self._author).finish(name)
        return Labelled(done.name, int(done.labelled))

    def label(self, name: Annotated[str, Field(description="Name of the label.")], ids: Ids) -> Labelled:
        """Give pictures a label. The user can undo this with: lookalike undo"""
        items = [self._item(one).id for one in ids]
        return Labelled(name, int(self._collection.classes.add(name, items, author=self._author)))

    def _run_round(self, session: str, k: int) -> RoundState:
        done = self._collection.session(id=session, author=self._author).round(k)
        questions = [Result(item.id, next(iter(item.paths), None), 0.0) for item in done.questions]
        shown = [Found(one.id, one.path, None, None, one.labels) for one in self._results(questions)]
        return RoundState(session, done.number, done.found, self._results(done.best), shown, done.stop)

    def _item(self, id: str) -> Item:
        number = parse_id(id)
        found = {} if number is None else self._collection.get([number])
        if number is None or number not in found:
            raise NoItemError(f"No picture with the id {id} in the collection.")
        return found[number]

    def _results(self, results: list[Result]) -> list[Found]:
        labels = self._collection.labels([one.id for one in results])
        return [Found(format_id(one.id), one.path, round(one.score, 6), one.likely, labels[one.id]) for one in results]


READING = (Tools.search, Tools.similar, Tools.show, Tools.classify, Tools.classes, Tools.stats, Tools.sessions)
CHANGING = (Tools.start_session, Tools.mark, Tools.finish_session, Tools.label)


def create_server(collection: Collection, *, author: str | None) -> MCPServer[Any]:
    """Return an MCP server for a collection; without an author, its tools change nothing."""
    tools = Tools(collection, author)
    server: MCPServer[Any] = MCPServer(
        "lookalike",
        instructions=INSTRUCTIONS,
        version=lookalike.__version__,
        log_level="ERROR",
        middleware=[_join_lines],
    )
    for method in (*READING, *(CHANGING if author is not None else ())):
        hints = ToolAnnotations(read_only_hint=method in READING, destructive_hint=False, open_world_hint=False)
        structured = None if method is not Tools.show else False
        server.tool(annotations=hints, structured_output=structured)(_report_errors(getattr(tools, method.__name__)))
    return server


def _check_picture(picture: str) -> str:
    """Return the id or path of a picture.

    URLs are rejected, because a web page could make the assistant contact them, and folders, because one could be a
    whole disk.
    """
    if is_url(picture):
        raise InputError("A picture must be an id or the path of a file. URLs are not allowed.")
    if os.path.isdir(os.path.expanduser(picture)):
        raise InputError(f"{picture} is a folder. Give ids of pictures or paths of picture files.")
    return picture


def _report_errors(tool: Callable[..., Any]) -> Callable[..., Any]:
    """Return a tool whose errors the assistant can read."""

    @functools.wraps(tool)
    def run(*given: Any, **named: Any) -> Any:
        try:
            return tool(*given, **named)
        except (LookalikeError, OSError) as error:
            raise ToolError(str(error)) from error

    return run


async def _join_lines(ctx: Any, call_next: Callable[[Any], Any]) -> Any:
    """Put error messages on one line; those about invalid arguments have several."""
    result = await call_next(ctx)
    if isinstance(result, dict) and result.get("isError"):
        for part in result["content"]:
            part["text"] = " ".join(part["text"].split())
    return result
