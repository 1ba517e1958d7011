"""The shapes of what is sent and received, as the OpenAPI document shows them.

In: JSON of requests, checked here once: sizes, kinds, nothing unknown. Out: values for `Collection`. The shapes of
answers describe; `served` builds them.
"""

from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Path, Query
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from lookalike.collection import Filter, Order

MOST = 1_000
"""Ids in one request, and results in one answer."""

Id: TypeAlias = Annotated[str, StringConstraints(pattern="^[0-7][0-9a-f]{15}$")]
"""An item: 16 hexadecimal digits."""
ItemPath: TypeAlias = Annotated[str, Path(pattern="^[0-7][0-9a-f]{15}$", description="An item's id.")]
SessionPath: TypeAlias = Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="A session's id.")]
UploadId: TypeAlias = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]{22}$")]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
Ids: TypeAlias = Annotated[list[Id], Field(max_length=MOST)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Whole: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]


class Given(BaseModel):
    """A request's body: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class FilterIn(Given):
    """Which items to look at; what is left out does not count."""

    path: Text | None = None
    label: Name | None = None
    since: Annotated[float | None, Field(description="POSIX seconds.")] = None
    until: float | None = None
    min_side: Whole | None = None
    max_side: Whole | None = None
    min_bytes: Whole | None = None
    max_bytes: Whole | None = None

    def made(self) -> Filter | None:
        """As the collection takes it; None where everything passes."""
        given = {name: value for name in FilterIn.model_fields if (value := getattr(self, name)) is not None}
        return Filter(**given) if given else None


class ItemsQuery(FilterIn):
    """A page of items."""

    offset: Annotated[int, Field(ge=0, lt=2**31)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST)] = 200
    order: Order = "path"


class ExampleIn(Given):
    """A picture of the collection, or one that was uploaded; or a part of it."""

    id: Id | None = None
    upload: UploadId | None = None
    box: tuple[Share, Share, Share, Share] | None = Field(
        None, description="Left, top, right, bottom, as shares of width and height."
    )


class SearchIn(Given):
    """What is wanted, what is not, and where to look."""

    examples: list[ExampleIn] = Field(min_length=1, max_length=100)
    without: list[ExampleIn] = Field([], max_length=100)
    space: Name | None = None
    k: int = Field(50, ge=1, le=MOST)
    filter: FilterIn = Field(default_factory=FilterIn)
    where: bool = Field(False, description="Say in which part of each result the match is; slower.")


class LoginIn(Given):
    """A token."""

    token: str = Field(min_length=1, max_length=200)


class SessionIn(Given):
    """What a session starts from: examples, or a label that brings its pictures."""

    examples: list[ExampleIn] = Field([], max_length=100)
    without: list[ExampleIn] = Field([], max_length=100)
    label: Name | None = None
    space: Name | None = None
    name: Name | None = None


class MarksIn(Given):
    """What somebody says about pictures, in one step."""

    relevant: Ids = []
    irrelevant: Ids = []
    skip: Ids = []


class RoundIn(Given):
    """How much a round shows and asks."""

    k: int = Field(50, ge=1, le=MOST)
    window: int = Field(9, ge=1, le=100)
    filter: FilterIn = Field(default_factory=FilterIn)


class FinishIn(Given):
    """What it is called; by default the session's own name."""

    name: Name | None = None


class NameIn(Given):
    """A class."""

    name: Name


class MembersIn(NameIn):
    """Pictures of a class."""

    items: Ids = []


class RenameIn(NameIn):
    """A class and its new name."""

    to: Name


class MergeIn(Given):
    """Classes, and what they become."""

    names: list[Name] = Field(min_length=1, max_length=MOST)
    into: Name


class ClassifyIn(Given):
    """Pictures to be classified."""

    examples: list[ExampleIn] = Field(min_length=1, max_length=100)


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


SideQuery: TypeAlias = Annotated[int, Query(ge=16, le=2048, description="The longer side, in pixels, at most.")]
BoxQuery: TypeAlias = Annotated[
    str, Query(max_length=100, pattern=r"^[0-9.eE+-]+(,[0-9.eE+-]+){3}$", description="Left,top,right,bottom, 0 to 1.")
]
