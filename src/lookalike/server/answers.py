"""The shapes of what is sent, as the OpenAPI document shows them.

In: nothing. Out: descriptions only: `served` and the routes build the answers themselves, without a detour through
models, and the fuzzed tests see to it that they fit.
"""

from typing import Any, Literal

from pydantic import BaseModel, Field


class Predicted(BaseModel):
    """What a picture is taken for."""

    label: str
    probability: float


class Item(BaseModel):
    """A picture of the collection."""

    id: str
    path: str | None
    paths: list[str]
    name: str
    width: int
    height: int
    format: str
    bytes: int
    taken: float | None = Field(description="POSIX seconds.")
    added: float
    labels: list[str]
    predicted: Predicted | None


class ItemsPage(BaseModel):
    """Some of the items that pass a filter."""

    total: int
    offset: int
    items: list[Item]


class Found(BaseModel):
    """One result."""

    item: Item
    score: float
    box: list[float] | None


class SearchOut(BaseModel):
    """Results, best first."""

    space: str
    seconds: float
    results: list[Found]


class UploadOut(BaseModel):
    """A picture to search with."""

    upload: str
    width: int
    height: int
    item: str | None = Field(description="Its id, where the collection has the very same file.")


class SessionOut(BaseModel):
    """Where a session stands. A list of sessions leaves the ids of the marks out."""

    id: str
    name: str | None
    space: str
    author: str
    started: float
    changed: float
    rounds: int
    marks: dict[str, int] = Field(description="How many relevant, irrelevant, skip.")
    finished: bool
    label: str | None
    relevant: list[str] = []
    irrelevant: list[str] = []
    skipped: list[str] = []


class UndoneOut(BaseModel):
    """What was taken back."""

    undone: dict[str, str]
    session: SessionOut


class Ranked(BaseModel):
    """A picture in a session's ranking."""

    item: Item
    score: float = Field(description="Minus the margin: smaller is better.")
    mark: str | None


class EstimateOut(BaseModel):
    """How many there may be in all."""

    value: int
    low: int
    high: int


class RoundOut(BaseModel):
    """What a round shows and asks."""

    number: int
    best: list[Ranked]
    questions: list[Item]
    found: int
    estimate: EstimateOut | None
    stop: str | None
    seconds: dict[str, float]
    notes: list[str]


class RankedOut(BaseModel):
    """A session's ranking."""

    best: list[Ranked]


class LogLine(BaseModel):
    """Something that happened in a session."""

    kind: str
    item: str
    round: int
    position: int | None
    author: str
    at: float
    undone: bool


class FinishedOut(BaseModel):
    """What a finished session left."""

    label: str
    labelled: int
    relevant: int
    irrelevant: int
    contradicted: list[str]


class NearOut(BaseModel):
    """A marked picture; without an item, an example from outside."""

    item: Item | None
    distance: float


class WhyOut(BaseModel):
    """What speaks for a picture, and against it."""

    margin: float | None = Field(description="Above 0 on the side of what is wanted; null before anything is learned.")
    nearest_relevant: list[NearOut]
    nearest_irrelevant: list[NearOut]
    box: list[float] | None


class ClassOut(BaseModel):
    """A class at a glance."""

    name: str
    pictures: int
    elsewhere: int = Field(description="Pictures of it that the collection does not have now.")
    predicted: int
    parents: list[str]


class Member(BaseModel):
    """A picture of a class, and who said so."""

    item: Item
    author: str
    when: float
    source: str


class Guessed(BaseModel):
    """A picture that is predicted to be of a class."""

    item: Item
    probability: float


class ClassView(BaseModel):
    """A page of a class."""

    name: str
    total: int
    total_predicted: int
    offset: int
    members: list[Member]
    predicted: list[Guessed]
    parents: list[str]


class ChangedOut(BaseModel):
    """A class that was changed, and how many pictures that was about."""

    name: str
    count: int


class VerdictOut(BaseModel):
    """What a picture is taken for."""

    id: str | None
    labels: list[str]
    label: str | None = Field(description="null: none of these.")
    probability: float
    runner_up: str | None
    runner_up_probability: float


class Me(BaseModel):
    """Who asks."""

    name: str
    role: Literal["view", "judge", "manage"]


class CollectionOut(BaseModel):
    """The collection at a glance."""

    name: str
    items: int
    spaces: list[dict[str, Any]]
    classes: int
    labelled: int
    me: Me
    roots: list[str]
    sources: list[str]
    limits: dict[str, int]
    version: str


class Error(BaseModel):
    """What went wrong, and what to do."""

    kind: str
    message: str
    field: str | None


class ErrorOut(BaseModel):
    """The shape of every error."""

    error: Error
