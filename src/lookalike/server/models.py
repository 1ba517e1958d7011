"""The JSON of every request and every response.

Requests are pydantic models: sizes are bounded and unknown fields are rejected. Responses are typed dictionaries: a
handler builds them without validation at run time, mypy checks that each has exactly the fields of its definition, and
the OpenAPI document describes them.
"""

from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from lookalike.collection import Filter, Order
from lookalike.server.access import Person, Role

MAX_ITEMS = 1_000
"""Ids in a request, and items in a response."""
MAX_WILDCARDS = 4
"""Stars in a path pattern: the time for a match grows exponentially with their number."""
FAST_EXAMPLES = 4
"""Examples without stored vectors that the lane "search" accepts; they must be described first."""

Id: TypeAlias = Annotated[str, StringConstraints(pattern="^[0-7][0-9a-f]{15}$")]
"""The id of an item: 16 hexadecimal digits."""
ItemPath: TypeAlias = Annotated[str, Path(pattern="^[0-7][0-9a-f]{15}$", description="An item's id.")]
SessionPath: TypeAlias = Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="A session's id.")]
JobPath: TypeAlias = Annotated[str, Path(pattern="^[1-9][0-9]{0,8}$", description="A job's id.")]
UploadId: TypeAlias = Annotated[str, StringConstraints(pattern="^[A-Za-z0-9_-]{22}$")]
UploadPath: TypeAlias = Annotated[str, Path(pattern="^[A-Za-z0-9_-]{22}$")]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
Ids: TypeAlias = Annotated[list[Id], Field(max_length=MAX_ITEMS)]
SomeIds: TypeAlias = Annotated[list[Id], Field(min_length=1, max_length=MAX_ITEMS)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
Offset: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
Limit: TypeAlias = Annotated[int, Field(ge=1, le=MAX_ITEMS)]
TierName: TypeAlias = Literal["identical", "same", "alike"]
SideQuery: TypeAlias = Annotated[int, Query(ge=16, le=2048, description="Maximum of the longer side, in pixels.")]
BoxQuery: TypeAlias = Annotated[
    str, Query(max_length=100, pattern=r"^[0-9.eE+-]+(,[0-9.eE+-]+){3}$", description="Left,top,right,bottom, 0 to 1.")
]


class RequestModel(BaseModel):
    """A request body or query; unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def file_form(field: str, *, several: bool = False) -> dict[str, Any]:
    """Return the OpenAPI description of a request that sends a file, or several, in a form field."""
    file: dict[str, Any] = {"type": "string", "format": "binary"}
    properties = {field: {"type": "array", "items": file} if several else file}
    schema = {"type": "object", "required": [field], "properties": properties}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


# Items


def _check_glob(glob: str) -> str:
    if glob.count("*") > MAX_WILDCARDS:
        raise ValueError(f"A path pattern may contain at most {MAX_WILDCARDS} stars. Got {glob.count('*')}.")
    return glob


class FilterIn(RequestModel):
    """Conditions that items must meet; omitted ones do not apply."""

    path: Annotated[Text, AfterValidator(_check_glob)] | None = None
    label: Name | None = None
    since: Annotated[float | None, Field(description="POSIX seconds.")] = None
    until: float | None = None
    min_side: Count | None = None
    max_side: Count | None = None
    min_bytes: Count | None = None
    max_bytes: Count | None = None

    def to_filter(self, person: Person) -> Filter | None:
        """Return the filter for `Collection`; None if every item passes. `path` matches paths that the person sees."""
        given = {name: value for name in FilterIn.model_fields if (value := getattr(self, name)) is not None}
        return Filter(**given, relative=not person.may("manage")) if given else None


class ItemsQuery(FilterIn):
    """A page of items."""

    offset: Offset = 0
    limit: Limit = 200
    order: Order = "path"


class ExportQuery(FilterIn):
    """Items to export, and the format."""

    format: Literal["json", "csv", "paths", "coco"] = "json"


class PredictionOut(TypedDict):
    """The predicted class of a picture."""

    label: str
    probability: float


class ItemOut(TypedDict):
    """A picture of the collection."""

    id: str
    path: str | None
    paths: list[str]
    name: str
    width: int
    height: int
    format: str
    bytes: int
    taken: Annotated[float | None, Field(description="POSIX seconds.")]
    added: float
    labels: list[str]
    predicted: PredictionOut | None


class ItemsOut(TypedDict):
    """A page of the items that pass a filter."""

    total: int
    offset: int
    items: list[ItemOut]


# Search


class ExampleIn(RequestModel):
    """A picture of the collection, an upload, or a part of one."""

    id: Id | None = None
    upload: UploadId | None = None
    box: tuple[Share, Share, Share, Share] | None = Field(
        None, description="Left, top, right, bottom, as shares of width and height."
    )


Examples: TypeAlias = Annotated[list[ExampleIn], Field(max_length=100)]
SomeExamples: TypeAlias = Annotated[list[ExampleIn], Field(min_length=1, max_length=100)]


class SearchIn(RequestModel):
    """Positive and negative examples, and where to search."""

    examples: SomeExamples
    without: Examples = []
    space: Name | None = None
    k: int = Field(50, ge=1, le=MAX_ITEMS)
    filter: FilterIn = Field(default_factory=FilterIn)
    where: bool = Field(False, description="Return the matching part of each result; slower.")

    @property
    def is_slow(self) -> bool:
        """Whether the search must describe many pictures first."""
        new = [one for one in (*self.examples, *self.without) if one.upload is not None or one.box is not None]
        return self.where or len(new) > FAST_EXAMPLES


class ResultOut(TypedDict):
    """One result of a search."""

    item: ItemOut
    score: float
    box: list[float] | None


class SearchOut(TypedDict):
    """The results of a search, best first."""

    space: str
    seconds: float
    results: list[ResultOut]


class UploadOut(TypedDict):
    """A picture that was uploaded to search with."""

    upload: str
    width: int
    height: int
    item: Annotated[str | None, Field(description="Id of the item with the same file, if the collection has it.")]


# Feedback sessions


class SessionIn(RequestModel):
    """Start of a session: examples, or a label whose pictures are the examples."""

    examples: Examples = []
    without: Examples = []
    label: Name | None = None
    space: Name | None = None
    name: Name | None = None


class MarksIn(RequestModel):
    """Marks for pictures, in one step."""

    relevant: Ids = []
    irrelevant: Ids = []
    skip: Ids = []


class RoundIn(RequestModel):
    """Number of results and of questions in a round."""

    k: int = Field(50, ge=1, le=MAX_ITEMS)
    window: int = Field(9, ge=1, le=100)
    filter: FilterIn = Field(default_factory=FilterIn)


class FinishIn(RequestModel):
    """Name of the class; by default the name of the session."""

    name: Name | None = None


class MarkCountsOut(TypedDict):
    """The number of marks of each kind."""

    relevant: int
    irrelevant: int
    skip: int


class SessionSummaryOut(TypedDict):
    """A session without its marks."""

    id: str
    name: str | None
    space: str
    author: str
    started: float
    changed: float
    rounds: int
    marks: MarkCountsOut
    finished: bool
    label: str | None


class SessionOut(SessionSummaryOut):
    """A session with the ids of its marked items."""

    relevant: list[str]
    irrelevant: list[str]
    skipped: list[str]


class UndoneOut(TypedDict):
    """The marks that an undo removed, by item."""

    undone: dict[str, str]
    session: SessionOut


class RankedOut(TypedDict):
    """A picture in the ranking of a session."""

    item: ItemOut
    score: Annotated[float, Field(description="Minus the margin: smaller is better.")]
    mark: str | None


class RankingOut(TypedDict):
    """The ranking of a session."""

    best: list[RankedOut]


class EstimateOut(TypedDict):
    """Estimated number of relevant pictures."""

    value: int
    low: int
    high: int


class RoundOut(TypedDict):
    """The ranking and the questions of a round."""

    number: int
    best: list[RankedOut]
    questions: list[ItemOut]
    found: int
    estimate: EstimateOut | None
    stop: str | None
    seconds: dict[str, float]
    notes: list[str]


class LogEntryOut(TypedDict):
    """An event of a session."""

    kind: str
    item: str
    round: int
    position: int | None
    author: str
    at: float
    undone: bool


class FinishedOut(TypedDict):
    """The class that a finished session created."""

    label: str
    labelled: int
    relevant: int
    irrelevant: int
    contradicted: list[str]


class NeighbourOut(TypedDict):
    """A marked picture near another; no item if it is an example from outside the collection."""

    item: ItemOut | None
    distance: float


class ExplanationOut(TypedDict):
    """Why a picture has its place in the ranking."""

    margin: Annotated[float | None, Field(description="Above 0 on the relevant side; null before the first fit.")]
    nearest_relevant: list[NeighbourOut]
    nearest_irrelevant: list[NeighbourOut]
    box: list[float] | None


# Classes


class NameIn(RequestModel):
    """A class."""

    name: Name


class MembersIn(NameIn):
    """Pictures of a class."""

    items: Ids = []


class RenameIn(NameIn):
    """A class and its new name."""

    to: Name


class MergeIn(RequestModel):
    """Classes, and the class that they become."""

    names: list[Name] = Field(min_length=1, max_length=MAX_ITEMS)
    into: Name


class ClassifyIn(RequestModel):
    """Pictures to classify."""

    examples: SomeExamples


class ClassOut(TypedDict):
    """Summary of a class."""

    name: str
    pictures: int
    elsewhere: Annotated[int, Field(description="Labelled pictures that are not in the collection now.")]
    predicted: int
    parents: list[str]


class MemberOut(TypedDict):
    """A picture with the label of a class, and the author of the label."""

    item: ItemOut
    author: str
    when: float
    source: str


class PredictedItemOut(TypedDict):
    """A picture that is predicted to be in a class."""

    item: ItemOut
    probability: float


class ClassMembersOut(TypedDict):
    """A page of the members and of the predicted members of a class."""

    name: str
    total: int
    total_predicted: int
    offset: int
    members: list[MemberOut]
    predicted: list[PredictedItemOut]
    parents: list[str]


class ClassChangeOut(TypedDict):
    """A class that was changed, and the number of pictures that were changed."""

    name: str
    count: int


class ClassificationOut(TypedDict):
    """The predicted class of a picture, and its labels."""

    id: str | None
    labels: list[str]
    label: Annotated[str | None, Field(description="null: none of the classes.")]
    probability: float
    runner_up: str | None
    runner_up_probability: float


# Jobs


class AddIn(RequestModel):
    """Add the pictures of a folder."""

    kind: Literal["add"]
    folder: Text = Field(description="Below one of the service's roots.")


class RefreshIn(RequestModel):
    """Update the collection from its sources: new, changed, moved and missing files."""

    kind: Literal["refresh"]


class RemoveIn(RequestModel):
    """Remove pictures from the collection; their files are kept."""

    kind: Literal["remove"]
    items: SomeIds


class FitIn(RequestModel):
    """Refit a space, or create one."""

    kind: Literal["fit"]
    spec: Text | None = Field(
        None, description="A space, a step such as slem(lam=0.001), or NAME = SPEC | SPEC; by default all spaces."
    )


class MapIn(RequestModel):
    """Compute the map of a space."""

    kind: Literal["map"]
    space: Name | None = None


class DuplicatesIn(RequestModel):
    """Find duplicates."""

    kind: Literal["duplicates"]
    tier: Literal["same", "alike"] = "same"
    space: Name | None = None


class ClassifyAllIn(RequestModel):
    """Classify every picture that has no label."""

    kind: Literal["classify"]


class BackupIn(RequestModel):
    """Make or update the backup in the service's backup directory."""

    kind: Literal["backup"]


JobIn: TypeAlias = Annotated[
    AddIn | RefreshIn | RemoveIn | FitIn | MapIn | DuplicatesIn | ClassifyAllIn | BackupIn, Field(discriminator="kind")
]


class JobOut(TypedDict):
    """A job and its state."""

    id: str
    kind: str
    arguments: dict[str, Any]
    state: Literal["queued", "running", "done", "failed", "cancelled"]
    author: str
    created: float
    started: float | None
    ended: float | None
    stage: str
    done: int
    total: int | None
    eta_s: float | None
    message: str
    error: dict[str, str] | None
    result: dict[str, Any] | None


class JobsOut(TypedDict):
    """Jobs, newest first."""

    jobs: list[JobOut]


class JobEventOut(TypedDict):
    """A change of a job, in the event stream."""

    job: str
    kind: str
    state: str
    stage: str
    done: int
    total: int | None
    eta_s: float | None
    message: str


class FileOut(TypedDict):
    """A file that was saved."""

    name: str
    bytes: int
    item: str
    known: Annotated[bool, Field(description="Whether the collection had the same picture before.")]


class FilesOut(TypedDict):
    """Files that were saved, and the job that adds them."""

    job: JobOut
    files: list[FileOut]


# Duplicates and the map


class DuplicatesQuery(RequestModel):
    """A page of groups of duplicates."""

    tier: TierName = "same"
    space: Name | None = None
    offset: Offset = 0
    limit: Limit = 50


class GroupsExportQuery(RequestModel):
    """Groups of duplicates to export, and the format."""

    tier: TierName = "same"
    space: Name | None = None
    format: Literal["json", "csv"] = "json"


class DismissIn(RequestModel):
    """Pictures that are not duplicates of each other; a single one: its copies at several paths are intended."""

    items: SomeIds


class GroupOut(TypedDict):
    """A group of duplicates; the distances are those to the first picture."""

    id: str
    tier: TierName
    items: list[ItemOut]
    keep: Annotated[str, Field(description="The largest, in pixels, then in bytes: the others may be removed.")]
    distances: list[float]
    why: str


class DuplicatesOut(TypedDict):
    """Groups of duplicates, the largest first."""

    total: int
    offset: int
    groups: list[GroupOut]
    current: Annotated[bool, Field(description="Whether the groups are up to date; if not, a job updates them.")]
    job: JobOut | None


class DismissedOut(TypedDict):
    """The number of pairs that were not dismissed before."""

    pairs: int


class MapOut(TypedDict):
    """Coordinates of pictures in the unit square."""

    space: str
    ids: list[str]
    x: list[float]
    y: list[float]
    labels: list[list[str]]
    total: int
    current: Annotated[bool, Field(description="Whether the map is up to date; if not, a job updates it.")]
    job: JobOut | None


# The service


class LoginIn(RequestModel):
    """A token."""

    token: str = Field(min_length=1, max_length=200)


class HealthOut(TypedDict):
    """The state of the service."""

    status: str


class PersonOut(TypedDict):
    """The person who makes the request."""

    name: str
    role: Role


class SpaceOut(TypedDict):
    """A space of the collection."""

    name: str
    about: str
    items: int
    dim: int | None
    default: bool


class LimitsOut(TypedDict):
    """The limits for an upload."""

    upload_bytes: int
    upload_pixels: int


class CollectionOut(TypedDict):
    """Summary of the collection."""

    name: str
    items: int
    spaces: list[SpaceOut]
    classes: int
    labelled: int
    me: PersonOut
    roots: list[str]
    sources: list[str]
    limits: LimitsOut
    version: str


class ErrorDetailOut(TypedDict):
    """What failed, and what to do."""

    kind: str
    message: str
    field: str | None


class ErrorOut(TypedDict):
    """The JSON of every error."""

    error: ErrorDetailOut
