"""The JSON of every request and every response.

Requests are pydantic models, which limit sizes and reject unknown fields. Responses are typed dictionaries: handlers
build them without validation at run time, mypy checks that each has exactly the fields of its definition, and the
OpenAPI document describes them.
"""

from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Path, Query
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from lookalike.collection import MAX_CHARACTERS, Filter, Order, Orientation
from lookalike.server.access import Person, Role

MAX_ITEMS = 1_000
"""Maximum number of ids in a request, and of items in a response."""
MAX_SELECTED = 100_000
"""Maximum number of pictures in a selection. Their ids fit into the largest body of a request."""
MAX_WILDCARDS = 4
"""Maximum number of stars in a path pattern. The time for a match grows exponentially with their number."""
MAX_LOCATED = 50
"""Pictures per request whose matching parts are found, which takes about 0.1 s of CPU time per picture."""
FAST_EXAMPLES = 4
"""Maximum number of examples without stored vectors in the lane "search": their features must be extracted first."""

ID_PATTERN = "^[0-7][0-9a-f]{15}$"
UPLOAD_PATTERN = "^[A-Za-z0-9_-]{22}$"
BOX_PATTERN = r"^[0-9.eE+-]+(,[0-9.eE+-]+){3}$"
PATTERNS = {
    ID_PATTERN: "the id of an item: 16 hexadecimal digits",
    UPLOAD_PATTERN: "the id of an upload, as returned by POST /api/v1/uploads",
    BOX_PATTERN: "left,top,right,bottom from 0 to 1, such as 0.1,0.2,0.5,0.9",
}
"""The patterns of bodies and queries, in words for error messages."""

Id: TypeAlias = Annotated[str, StringConstraints(pattern=ID_PATTERN)]
SelectionPath: TypeAlias = Annotated[str, Path(pattern=UPLOAD_PATTERN, description="Id of a selection.")]
ItemPath: TypeAlias = Annotated[str, Path(pattern=ID_PATTERN, description="Id of an item.")]
SessionPath: TypeAlias = Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="Id of a session.")]
SavedPath: TypeAlias = Annotated[str, Path(pattern="^[0-9a-f]{8}$", description="Id of a saved search.")]
JobPath: TypeAlias = Annotated[str, Path(pattern="^[1-9][0-9]{0,8}$", description="Id of a job.")]
UploadId: TypeAlias = Annotated[str, StringConstraints(pattern=UPLOAD_PATTERN)]
UploadPath: TypeAlias = Annotated[str, Path(pattern=UPLOAD_PATTERN)]
Name: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=1_000)]
Text: TypeAlias = Annotated[str, StringConstraints(min_length=1, max_length=4_096)]
Ids: TypeAlias = Annotated[list[Id], Field(max_length=MAX_ITEMS)]
SelectedIds: TypeAlias = Annotated[list[Id], Field(max_length=MAX_SELECTED)]
SomeIds: TypeAlias = Annotated[list[Id], Field(min_length=1, max_length=MAX_ITEMS)]
Share: TypeAlias = Annotated[float, Field(ge=0, le=1)]
Count: TypeAlias = Annotated[int, Field(ge=0, lt=2**63)]
Offset: TypeAlias = Annotated[int, Field(ge=0, lt=2**31)]
Limit: TypeAlias = Annotated[int, Field(ge=1, le=MAX_ITEMS)]
TierName: TypeAlias = Literal["identical", "same", "edited", "alike"]
ActionPath: TypeAlias = Annotated[int, Path(ge=1, lt=2**31, description="Number of an action.")]
ActionNumber: TypeAlias = Annotated[int | None, Field(description="For undo; null if nothing changed.")]
SideQuery: TypeAlias = Annotated[int, Query(ge=16, le=2048, description="Maximum size of the longer side, in pixels.")]
ScreenSideQuery: TypeAlias = Annotated[
    int | None,
    Query(ge=16, le=2048, description="Maximum size of the longer side of a copy. Without it: the original size."),
]
BoxQuery: TypeAlias = Annotated[
    str, Query(max_length=100, pattern=BOX_PATTERN, description="left,top,right,bottom from 0 to 1.")
]


def example(**values: Any) -> ConfigDict:
    """Return the configuration of a model with an example in the OpenAPI document."""
    return ConfigDict(json_schema_extra={"examples": [values]})


class RequestModel(BaseModel):
    """A request body or query. Unknown fields are rejected."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


def file_form(field: str, *, several: bool = False) -> dict[str, Any]:
    """Return the OpenAPI description of a form with one file, or several, in a field."""
    file: dict[str, Any] = {"type": "string", "format": "binary"}
    properties = {field: {"type": "array", "items": file} if several else file}
    schema = {"type": "object", "required": [field], "properties": properties}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


# Items


def _check_glob(glob: str) -> str:
    if glob.count("*") > MAX_WILDCARDS:
        raise ValueError(f"a path pattern can contain at most {MAX_WILDCARDS} asterisks. Got {glob.count('*')}.")
    return glob


class FilterIn(RequestModel):
    """Conditions on items. Omitted conditions do not apply."""

    path: Annotated[Text, AfterValidator(_check_glob)] | None = None
    label: Name | None = None
    since: Annotated[float | None, Field(description="POSIX seconds.")] = None
    until: float | None = None
    min_side: Count | None = None
    max_side: Count | None = None
    min_bytes: Count | None = None
    max_bytes: Count | None = None
    folder: Annotated[Text | None, Field(description="Folder or archive, relative to its source.")] = None
    year: Annotated[int | None, Field(ge=1, le=9999, description="In UTC.")] = None
    camera: Name | None = None
    lens: Name | None = None
    place: Annotated[
        str | None, Field(max_length=100, description="latitude,longitude in degrees: a cell of 0.1 degrees.")
    ] = None
    orientation: Orientation | None = None
    file_format: Name | None = None
    labelled: Annotated[bool | None, Field(description="Whether the item has a label.")] = None
    suggested: Annotated[Name | None, Field(description="Class that is predicted for the item.")] = None

    def to_filter(self, person: Person) -> Filter | None:
        """Return the filter for `Collection`; None if every item matches. `path` matches visible paths."""
        given = {name: value for name in FilterIn.model_fields if (value := getattr(self, name)) is not None}
        return Filter(**given, relative=not person.may("manage")) if given else None


class ItemsQuery(FilterIn):
    """A page of items."""

    offset: Offset = 0
    limit: Limit = 200
    order: Order = "path"


class IdsQuery(FilterIn):
    """A filter and the order of the ids."""

    order: Order = "path"


class FoldersQuery(FilterIn):
    """A folder and a filter."""

    parent: Annotated[Text | None, Field(description="Relative to its source. Default: the sources.")] = None
    nested: Annotated[bool, Field(description="Whether to include the folders inside these folders, at any depth.")] = (
        False
    )


class FacetValueOut(TypedDict):
    """A value of a facet."""

    value: Annotated[str, Field(description="Value of the condition of the same name in a filter.")]
    n: Annotated[int, Field(description="Number of items.")]


class FacetOut(TypedDict):
    """The values of a facet, most frequent first; years are listed newest first."""

    name: Annotated[str, Field(description="Name of the condition in a filter.")]
    values: Annotated[list[FacetValueOut], Field(description="The first 200.")]
    n_values: int


class FacetsOut(TypedDict):
    """The number of items for each value of each facet."""

    facets: list[FacetOut]


class MonthOut(TypedDict):
    """A month of the timeline."""

    month: Annotated[str | None, Field(description="Such as 2024-05, in UTC; null for items with an unknown time.")]
    n: Annotated[int, Field(description="Number of items.")]


class TimelineOut(TypedDict):
    """The months that have items, in the order `taken`."""

    months: list[MonthOut]


class FolderOut(TypedDict):
    """A folder or an archive that contains items."""

    path: Annotated[str, Field(description="Value of the condition `folder` in a filter.")]
    name: str
    n: Annotated[int, Field(description="Number of items, at any depth.")]
    has_folders: Annotated[bool, Field(description="Whether it contains folders.")]


class FoldersOut(TypedDict):
    """The folders in a folder."""

    folders: list[FolderOut]
    n_folders: Annotated[int, Field(description="Their number; at most 1,000 are listed.")]


class ExportQuery(FilterIn):
    """A filter for the items to export, and the format."""

    format: Literal["json", "csv", "paths", "coco"] = "json"


class IdsOut(TypedDict):
    """The ids of all items that match a filter, up to the maximum size of a selection."""

    total: int
    ids: list[str]


class SelectionIn(RequestModel):
    """The pictures to select."""

    model_config = example(items=["4a1c0f5e9b2d7a63", "0b7de2f1c8a94356"])

    items: Annotated[list[Id], Field(min_length=1, max_length=MAX_SELECTED)]


class SelectionOut(TypedDict):
    """A stored selection, and the number of its pictures."""

    selection: str
    count: int


class SelectionExportQuery(RequestModel):
    """The format of an export."""

    format: Literal["json", "csv", "paths", "coco"] = "json"


class ZipQuery(RequestModel):
    """Original files, or JPEGs for screens, and the layout of the zip."""

    size: Literal["original", "screen"] = "original"
    folders: Annotated[
        bool,
        Field(description="Whether files are LABEL/ID.jpg, the layout of ImageFolder, without unlabelled pictures."),
    ] = False


class PredictionOut(TypedDict):
    """The predicted class of a picture."""

    label: str
    probability: float


class ItemOut(TypedDict):
    """A picture in the collection."""

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


class ExifOut(TypedDict):
    """What a camera wrote into a picture; null for unknown values."""

    camera: str | None
    lens: str | None
    exposure_s: float | None
    aperture: Annotated[float | None, Field(description="The f-number.")]
    iso: int | None
    focal_length_mm: float | None
    latitude: Annotated[float | None, Field(description="Degrees; north is positive.")]
    longitude: Annotated[float | None, Field(description="Degrees; east is positive.")]


class ItemDetailOut(ItemOut):
    """A picture in the collection, with its metadata."""

    exif: Annotated[ExifOut | None, Field(description="null until the next refresh, if an older version added it.")]


class ItemsOut(TypedDict):
    """A page of the items that match a filter."""

    total: int
    offset: int
    items: list[ItemOut]


# Search


class ExampleIn(RequestModel):
    """A picture in the collection or an upload, or a part of one."""

    id: Id | None = None
    upload: UploadId | None = None
    box: tuple[Share, Share, Share, Share] | None = Field(
        None, description="Left, top, right, bottom, as fractions of width and height."
    )


Examples: TypeAlias = Annotated[list[ExampleIn], Field(max_length=100)]
SomeExamples: TypeAlias = Annotated[list[ExampleIn], Field(min_length=1, max_length=100)]


Words: TypeAlias = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_CHARACTERS)]
SomeWords: TypeAlias = Annotated[list[Words], Field(max_length=10)]


class SearchQueryIn(RequestModel):
    """Positive and negative examples and words, the space, and the number of results."""

    examples: Examples = []
    words: SomeWords = []
    without: Examples = []
    without_words: SomeWords = []
    space: Name | None = None
    k: int = Field(50, ge=1, le=MAX_ITEMS)
    filter: FilterIn = Field(default_factory=FilterIn)
    within: float | None = Field(None, ge=0, allow_inf_nan=False, description="Leave out results with a higher score.")
    likely: float | None = Field(
        None, ge=0, le=1, description="Leave out results with a lower estimated probability of being right."
    )
    rerank: bool = Field(
        False, description="Re-rank the first 200 results by the neighbours they share with the examples."
    )


class SearchIn(SearchQueryIn):
    """A search."""

    model_config = example(
        examples=[{"id": "4a1c0f5e9b2d7a63"}], words=["at night"], k=20, likely=0.8, filter={"label": "beach"}
    )

    where: bool = Field(False, description="Return the matching part of each result (slower).")

    @property
    def is_slow(self) -> bool:
        """Whether features of many pictures must be extracted, or many searches done, first."""
        new = [one for one in (*self.examples, *self.without) if one.upload is not None or one.box is not None]
        return self.where or self.likely is not None or len(new) > FAST_EXAMPLES


class LocateIn(RequestModel):
    """The examples and the space of a search, and some of its results."""

    model_config = example(examples=[{"id": "4a1c0f5e9b2d7a63"}], items=["0b7de2f1c8a94356"])

    examples: SomeExamples
    without: Examples = []
    space: Name | None = None
    items: Annotated[list[Id], Field(min_length=1, max_length=MAX_LOCATED)]


class LocatedOut(TypedDict):
    """The matching part of a picture."""

    item: str
    box: Annotated[list[float] | None, Field(description="Null if the picture cannot be read.")]


class LocateOut(TypedDict):
    """The matching parts, in the order of the request."""

    boxes: list[LocatedOut]


class ResultOut(TypedDict):
    """One result of a search."""

    item: ItemOut
    score: Annotated[
        float, Field(description="Smaller is better: a distance, or, for a search by words, 1 minus the match.")
    ]
    likely: Annotated[float | None, Field(description="Probability of being right, if requested or already known.")]
    box: list[float] | None


class CutoffOut(TypedDict):
    """Where the results of a search end."""

    inside: Annotated[int, Field(description="Results that were kept.")]
    of: Annotated[int, Field(description="Results that were found.")]
    score: Annotated[float | None, Field(description="Score of the last result that was kept.")]
    summary: Annotated[str, Field(description="One sentence with the limits and what probabilities are based on.")]


class MeaningOut(TypedDict):
    """What a search understood by a word."""

    text: str
    known: bool
    summary: Annotated[str, Field(description="The kinds, labels, paths and texts that match, or similar words.")]
    suggestions: Annotated[list[str], Field(description="Similar words, if the word is unknown.")]


class SearchOut(TypedDict):
    """The results of a search, best first."""

    space: str
    seconds: float
    understood: Annotated[list[MeaningOut], Field(description="One entry per word of a search by words.")]
    cutoff: Annotated[CutoffOut | None, Field(description="Null unless `within` or `likely` was given.")]
    estimated_from: Annotated[str, Field(description="What probabilities were estimated from; empty without them.")]
    results: list[ResultOut]


class SavedIn(SearchQueryIn):
    """A search to save, and its name."""

    model_config = example(name="beaches at night", words=["beach at night"], k=50)

    name: Name


class SeenIn(RequestModel):
    """The results to mark as seen: those of the run with this `newest`. Default: all results."""

    model_config = example(until=1_795_104_000.0)

    until: float | None = None


class SavedExampleOut(TypedDict):
    """An example of a saved search. `id` is null if it is not in the collection, such as an upload."""

    id: str | None
    box: list[float] | None


class SavedOut(TypedDict):
    """A saved search. Every user sees it; its author, and users with the role manage, can change it."""

    id: str
    name: str
    author: str
    mine: Annotated[bool, Field(description="Whether you can change it.")]
    summary: Annotated[str, Field(description="What it searches for.")]
    created: float
    seen: Annotated[float, Field(description="When its author last looked at the results.")]
    examples: list[SavedExampleOut]
    words: list[str]
    without: list[SavedExampleOut]
    without_words: list[str]
    space: str | None
    k: int
    filter: dict[str, Any]
    within: float | None
    likely: float | None
    rerank: bool
    complete: Annotated[
        bool, Field(description="Whether these fields are the whole search; false, for example, if it has uploads.")
    ]


class SavedRunOut(SearchOut):
    """The results of a saved search."""

    search: SavedOut
    new: Annotated[list[str], Field(description="Ids of the results that were added since `search.seen`.")]
    newest: Annotated[float, Field(description="Send it as `until` when the user has seen the results.")]
    notes: list[str]


class NewOut(TypedDict):
    """The number of new results of a saved search."""

    n_new: int


class UnderstoodOut(TypedDict):
    """What a search by words understands."""

    understood: Annotated[list[MeaningOut], Field(description="One entry per word.")]


class WordsOut(TypedDict):
    """Suggestions for the last words that a user types."""

    words: list[str]


class KindOut(TypedDict):
    """A kind of picture that the network recognizes."""

    name: str
    probability: float


class UploadOut(TypedDict):
    """A picture that was uploaded to search with."""

    upload: str
    width: int
    height: int
    item: Annotated[str | None, Field(description="Id of the item with the same file, or null.")]


# Feedback sessions


class SessionIn(RequestModel):
    """Examples or words to start a session with, or a label whose pictures are the examples."""

    model_config = example(examples=[{"id": "4a1c0f5e9b2d7a63"}], name="red cars")

    examples: Examples = []
    words: SomeWords = []
    without: Examples = []
    without_words: SomeWords = []
    label: Name | None = None
    space: Name | None = None
    name: Name | None = None


class MarksIn(RequestModel):
    """Pictures to mark in one step."""

    model_config = example(relevant=["4a1c0f5e9b2d7a63"], irrelevant=["0b7de2f1c8a94356"])

    relevant: Ids = []
    irrelevant: Ids = []
    skip: Ids = []


class RoundIn(RequestModel):
    """Numbers of results (`k`) and questions (`window`) of a round, and a filter."""

    model_config = example(k=50, window=9)

    resume: bool = Field(
        False, description="Return the last round again: its number and its questions, with a current ranking."
    )
    k: int = Field(50, ge=1, le=MAX_ITEMS)
    window: int = Field(9, ge=1, le=100)
    filter: FilterIn = Field(default_factory=FilterIn)


class FinishIn(RequestModel):
    """Name of the class. Default: the name of the session."""

    model_config = example(name="red cars")

    name: Name | None = None


class MarkCountsOut(TypedDict):
    """Number of marks of each kind."""

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


class StartExampleOut(TypedDict):
    """An example that a session started from. `item` is null for words, and for a picture that was never added."""

    item: ItemOut | None
    words: str | None
    positive: bool


class SessionOut(SessionSummaryOut):
    """A session with the ids of its marked items."""

    examples: Annotated[list[StartExampleOut], Field(description="At most 12 of those that it started from.")]
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
    score: Annotated[float, Field(description="The negative margin; smaller is better.")]
    mark: str | None


class RankingOut(TypedDict):
    """The ranking of a session."""

    best: list[RankedOut]


class EstimateOut(TypedDict):
    """Estimated number of positive pictures in the collection."""

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
    action: ActionNumber


class NeighbourOut(TypedDict):
    """A marked picture near another. `item` is null for an example that is not in the collection."""

    item: ItemOut | None
    distance: float


class ExplanationOut(TypedDict):
    """Why a picture has its rank."""

    margin: Annotated[float | None, Field(description="Above 0 on the positive side; null before the first fit.")]
    nearest_relevant: list[NeighbourOut]
    nearest_irrelevant: list[NeighbourOut]
    box: list[float] | None


# Classes


class NameIn(RequestModel):
    """The name of a class."""

    model_config = example(name="beach")

    name: Name


class MembersIn(NameIn):
    """Pictures of a class."""

    model_config = example(name="beach", items=["4a1c0f5e9b2d7a63", "0b7de2f1c8a94356"])

    items: SelectedIds = []


class RenameIn(NameIn):
    """A class and its new name."""

    model_config = example(name="beach", to="beaches")

    to: Name


class MergeIn(RequestModel):
    """Classes, and the class to merge them into."""

    model_config = example(names=["shore", "coast"], into="beach")

    names: list[Name] = Field(min_length=1, max_length=MAX_ITEMS)
    into: Name


class ClassifyIn(RequestModel):
    """Pictures to classify."""

    model_config = example(examples=[{"id": "4a1c0f5e9b2d7a63"}])

    examples: SomeExamples


class ClassOut(TypedDict):
    """Summary of a class."""

    name: str
    pictures: int
    elsewhere: Annotated[int, Field(description="Number of labelled pictures that are not in the collection.")]
    predicted: int
    parents: list[str]


class MemberOut(TypedDict):
    """A picture with the label of a class, and the author of the label."""

    item: ItemOut
    author: str
    when: float
    source: str


class PredictedItemOut(TypedDict):
    """A suggested member of a class."""

    item: ItemOut
    probability: float


class ClassMembersOut(TypedDict):
    """A page of the labelled and of the suggested pictures of a class."""

    name: str
    total: int
    total_predicted: int
    offset: int
    members: list[MemberOut]
    predicted: list[PredictedItemOut]
    parents: list[str]


class ClassChangeOut(TypedDict):
    """The changed class, the number of changed pictures, and the action, for undo."""

    name: str
    count: int
    action: ActionNumber


class ClassificationOut(TypedDict):
    """The predicted class of a picture, and its labels."""

    id: str | None
    labels: list[str]
    label: Annotated[str | None, Field(description="null: none of these classes.")]
    probability: Annotated[float | None, Field(description="null: there are too few pictures to estimate it.")]
    runner_up: str | None
    runner_up_probability: float | None


# Jobs


class AddIn(RequestModel):
    """Add the pictures of a folder to the collection."""

    model_config = example(kind="add", folder="/data/photos/2026")

    kind: Literal["add"]
    folder: Text = Field(description="Path of a folder inside an allowed folder (serve --root).")


class RefreshIn(RequestModel):
    """Check the sources for new, changed, moved and missing files."""

    model_config = example(kind="refresh")

    kind: Literal["refresh"]


class RemoveIn(RequestModel):
    """Remove pictures from the collection. Their files are kept."""

    model_config = example(kind="remove", items=["4a1c0f5e9b2d7a63"])

    kind: Literal["remove"]
    items: SomeIds


class FitIn(RequestModel):
    """Refit a space, or create one."""

    model_config = example(kind="fit", spec="codes(bits=64)")

    kind: Literal["fit"]
    spec: Text | None = Field(
        None, description="A space, a step such as slem(lam=0.001), or NAME = SPEC | SPEC. Default: all spaces."
    )


class MapIn(RequestModel):
    """Compute the map of a space."""

    model_config = example(kind="map")

    kind: Literal["map"]
    space: Name | None = None


class DuplicatesIn(RequestModel):
    """Find duplicates."""

    model_config = example(kind="duplicates", tier="same")

    kind: Literal["duplicates"]
    tier: Literal["same", "edited", "alike"] = "same"
    space: Name | None = None


class ClassifyAllIn(RequestModel):
    """Classify all pictures without a label."""

    model_config = example(kind="classify")

    kind: Literal["classify"]


class EvaluateIn(RequestModel):
    """Cross-validate the classes."""

    model_config = example(kind="evaluate")

    kind: Literal["evaluate"]


class BackupIn(RequestModel):
    """Create or update the backup in the backup directory of the service."""

    model_config = example(kind="backup")

    kind: Literal["backup"]


JobIn: TypeAlias = Annotated[
    AddIn | RefreshIn | RemoveIn | FitIn | MapIn | DuplicatesIn | ClassifyAllIn | EvaluateIn | BackupIn,
    Field(discriminator="kind"),
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
    """A saved file."""

    name: str
    bytes: int
    item: str
    known: Annotated[bool, Field(description="Whether the collection already had this picture.")]


class FilesOut(TypedDict):
    """Saved files, and the job that adds them to the collection."""

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
    """Pictures that are not duplicates of each other. For a single id, its copies are intended."""

    model_config = example(items=["4a1c0f5e9b2d7a63", "0b7de2f1c8a94356"])

    items: SomeIds


class CopiesIn(RequestModel):
    """A rule that chooses the copies to remove in the stored groups of a tier."""

    model_config = example(tier="same", keep="largest")

    tier: Literal["same", "edited", "alike"] = "same"
    space: Name | None = None
    keep: Text = Field("largest", description="largest, oldest, or a folder whose pictures are kept.")
    references: Annotated[
        list[Text], Field(max_length=100, description="Folders whose pictures are never marked.")
    ] = []
    crops: bool = Field(False, description="Whether crops of a picture that is kept are marked as well.")


class CopiesOut(TypedDict):
    """The copies that the rule does not keep."""

    items: list[str]
    n_groups: Annotated[int, Field(description="Number of groups with a marked picture.")]
    bytes: Annotated[int, Field(description="Size of the marked pictures.")]


class RelationOut(TypedDict):
    """What a picture is, compared with the largest one of its group."""

    caption: Annotated[str, Field(description="Such as crop of the largest.")]
    box: Annotated[
        list[float] | None,
        Field(description="The part of the largest picture that it shows, as shares; can exceed 0 to 1."),
    ]
    mirrored: bool


class GroupOut(TypedDict):
    """A group of duplicates, with the distances to the first picture."""

    id: str
    tier: TierName
    items: list[ItemOut]
    keep: Annotated[str, Field(description="Id of the largest picture, by pixels, then by bytes.")]
    distances: list[float]
    relations: list[RelationOut]
    why: str


class DuplicatesOut(TypedDict):
    """Groups of duplicates, largest first."""

    total: int
    offset: int
    groups: list[GroupOut]
    without_detail: Annotated[
        int, Field(description="Pictures skipped because they have too little detail, such as nearly black ones.")
    ]
    current: Annotated[bool, Field(description="Whether the groups are up to date; if not, `job` updates them.")]
    job: JobOut | None


class TiersQuery(RequestModel):
    """The space whose groups are counted."""

    space: Name | None = None


class TierOut(TypedDict):
    """The number of groups in a tier of duplicates."""

    tier: TierName
    n_groups: Annotated[int | None, Field(description="null if the groups of this tier were never computed.")]


class SplitIn(RequestModel):
    """The shares of the training, validation and test pictures, and the copies that are kept in one part."""

    model_config = example(shares=[0.8, 0.1, 0.1])

    shares: Annotated[list[float], Field(min_length=3, max_length=3)] = [0.8, 0.1, 0.1]
    together: Annotated[
        Literal["none", "same", "edited", "alike"], Field(description="Tiers of duplicates that are kept in one part.")
    ] = "edited"


class PartOut(TypedDict):
    """The pictures of a part, as a selection."""

    part: Literal["train", "validation", "test"]
    selection: str
    count: int
    classes: Annotated[dict[str, int], Field(description="Number of pictures of each class.")]


class SplitOut(TypedDict):
    """The labelled pictures in three parts. `parts` is empty while `job` looks for duplicates."""

    parts: list[PartOut]
    warnings: list[str]
    job: JobOut | None


class DismissedOut(TypedDict):
    """Number of newly dismissed pairs, and the action, for undo."""

    pairs: int
    action: ActionNumber


class MapOut(TypedDict):
    """The state of a map; `/map/points` returns the map itself."""

    space: str
    points: Annotated[int, Field(description="Number of pictures on the map; 0 if it was never computed.")]
    total: Annotated[int, Field(description="Number of pictures in the space.")]
    current: Annotated[bool, Field(description="Whether the map is up to date; if not, `job` updates it.")]
    job: JobOut | None


# History


class ActionsQuery(RequestModel):
    """A page of the history."""

    offset: Offset = 0
    limit: Limit = 50


class ActionOut(TypedDict):
    """A change of a user."""

    id: int
    kind: str
    text: Annotated[str, Field(description="What it did, such as “Added 3 pictures to beach”.")]
    author: str
    at: float
    undoes: Annotated[int | None, Field(description="The action that this one undid.")]
    undone_by: int | None
    can_undo: Annotated[bool, Field(description="Whether the action can be undone, and your role allows it.")]
    reason: Annotated[str | None, Field(description="Why it cannot be undone, or null.")]
    items: Annotated[list[str], Field(description="Some of the pictures whose labels or duplicates it changed.")]


class ActionsOut(TypedDict):
    """A page of the history, newest first."""

    total: int
    offset: int
    actions: list[ActionOut]


class UndoOut(TypedDict):
    """The action that undid another one, or the job that brings removed pictures back."""

    text: str
    action: ActionNumber
    job: JobOut | None


# The service


class LoginIn(RequestModel):
    """A token."""

    model_config = example(token="the-token-of-this-user")  # noqa: S106

    token: str = Field(min_length=1, max_length=200)


class HealthOut(TypedDict):
    """The state of the service."""

    status: str


class PersonOut(TypedDict):
    """The user who sent the request."""

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
    """Limits for uploads."""

    upload_bytes: int
    upload_pixels: int


class SkippedOut(TypedDict):
    """A file that cannot be read."""

    path: str
    reason: str


class NotIndexedOut(TypedDict):
    """The files in the sources that are not in the collection."""

    skipped: Annotated[list[SkippedOut], Field(description="The first 1,000 files that cannot be read.")]
    n_skipped: int
    other_types: Annotated[dict[str, int], Field(description="Files of types that are not read, by extension.")]
    summary: Annotated[str, Field(description="The other types as a sentence; empty if there are none.")]


class CollectionOut(TypedDict):
    """Summary of the collection."""

    name: str
    items: int
    not_indexed: Annotated[int, Field(description="Files in the sources that are not in the collection.")]
    spaces: list[SpaceOut]
    classes: int
    labelled: int
    saved: Annotated[int, Field(description="Number of saved searches.")]
    me: PersonOut
    roots: list[str]
    sources: list[str]
    limits: LimitsOut
    version: str


class ErrorDetailOut(TypedDict):
    """What failed and what to do."""

    kind: str
    message: str
    field: str | None


class ErrorOut(TypedDict):
    """The JSON of every error."""

    error: ErrorDetailOut
