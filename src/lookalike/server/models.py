"""The shapes of what is received: JSON and the words of an address, checked here once.

In: requests. Out: values for `Collection`, of bounded size, with nothing unknown in them. The shapes of what is sent
are in `answers`.
"""

from typing import Annotated, Any, TypeAlias

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

from lookalike.collection import Filter, Order
from lookalike.server.access import Person

MOST = 1_000
"""Ids in one request, and results in one answer."""
STARS = 4
"""Stars in a pattern of paths: to match one takes time that grows with the power of their number."""
DESCRIBED = 4
"""Pictures that a search may describe among those that only look things up."""

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
SideQuery: TypeAlias = Annotated[int, Query(ge=16, le=2048, description="The longer side, in pixels, at most.")]
BoxQuery: TypeAlias = Annotated[
    str, Query(max_length=100, pattern=r"^[0-9.eE+-]+(,[0-9.eE+-]+){3}$", description="Left,top,right,bottom, 0 to 1.")
]


def _check_glob(glob: str) -> str:
    if glob.count("*") > STARS:
        raise ValueError(f"A path may have {STARS} stars, for each costs time. Got {glob.count('*')}.")
    return glob


class Given(BaseModel):
    """A request's body: what it does not know, it refuses."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class FilterIn(Given):
    """Which items to look at; what is left out does not count."""

    path: Annotated[Text, AfterValidator(_check_glob)] | None = None
    label: Name | None = None
    since: Annotated[float | None, Field(description="POSIX seconds.")] = None
    until: float | None = None
    min_side: Whole | None = None
    max_side: Whole | None = None
    min_bytes: Whole | None = None
    max_bytes: Whole | None = None

    def made(self, person: Person) -> Filter | None:
        """The filter for `Collection`; None if everything passes. `path` matches paths as the person may see them."""
        given = {name: value for name in FilterIn.model_fields if (value := getattr(self, name)) is not None}
        return Filter(**given, relative=not person.may("manage")) if given else None


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

    @property
    def is_heavy(self) -> bool:
        """Whether many pictures have to be described."""
        new = [one for one in (*self.examples, *self.without) if one.upload is not None or one.box is not None]
        return self.where or len(new) > DESCRIBED


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


def form(field: str, *, several: bool = False) -> dict[str, Any]:
    """What the OpenAPI document says of a request that sends a file, or several, in a form's field."""
    file: dict[str, Any] = {"type": "string", "format": "binary"}
    properties = {field: {"type": "array", "items": file} if several else file}
    schema = {"type": "object", "required": [field], "properties": properties}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}
