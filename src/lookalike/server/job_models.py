"""The shapes of jobs, duplicates and the map, as the OpenAPI document shows them.

In: JSON of requests, checked here. Out: values for `Jobs` and `Collection`; the shapes of answers describe.
"""

from typing import Annotated, Any, Literal, TypeAlias

from fastapi import Path
from pydantic import BaseModel, Field

from lookalike.server.answers import Item
from lookalike.server.models import MOST, FilterIn, Given, Id, Name, Text

TierName: TypeAlias = Literal["identical", "same", "alike"]
JobPath: TypeAlias = Annotated[str, Path(pattern="^[1-9][0-9]{0,8}$", description="A job's id.")]


class AddIn(Given):
    """Pictures of a folder."""

    kind: Literal["add"]
    folder: Text = Field(description="Below one of the service's roots.")


class RefreshIn(Given):
    """Look again at everything that was added."""

    kind: Literal["refresh"]


class RemoveIn(Given):
    """Take pictures out of the collection; their files stay where they are."""

    kind: Literal["remove"]
    items: Annotated[list[Id], Field(min_length=1, max_length=MOST)]


class FitIn(Given):
    """Refit a space, or create one."""

    kind: Literal["fit"]
    spec: Text | None = Field(
        None, description="A space, a step such as slem(lam=0.001), or NAME = SPEC | SPEC; by default all spaces."
    )


class MapIn(Given):
    """Draw the map of a space."""

    kind: Literal["map"]
    space: Name | None = None


class DuplicatesIn(Given):
    """Look for duplicates."""

    kind: Literal["duplicates"]
    tier: Literal["same", "alike"] = "same"
    space: Name | None = None


class ClassifyAllIn(Given):
    """Classify every picture that has no label."""

    kind: Literal["classify"]


class BackupIn(Given):
    """Make or update the backup in the service's backup directory."""

    kind: Literal["backup"]


JobIn: TypeAlias = Annotated[
    AddIn | RefreshIn | RemoveIn | FitIn | MapIn | DuplicatesIn | ClassifyAllIn | BackupIn, Field(discriminator="kind")
]


class JobOut(BaseModel):
    """A job and how it stands."""

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


class JobsOut(BaseModel):
    """Jobs, the newest first."""

    jobs: list[JobOut]


class FileOut(BaseModel):
    """A file that was kept."""

    name: str
    bytes: int
    item: str
    known: bool = Field(description="Whether the collection had the same picture before.")


class FilesOut(BaseModel):
    """Files that were kept, and the job that adds them."""

    job: JobOut
    files: list[FileOut]


class DuplicatesQuery(Given):
    """A page of groups."""

    tier: TierName = "same"
    space: Name | None = None
    offset: Annotated[int, Field(ge=0, lt=2**31)] = 0
    limit: Annotated[int, Field(ge=1, le=MOST)] = 50


class GroupsExportQuery(Given):
    """Which groups are written, and how."""

    tier: TierName = "same"
    space: Name | None = None
    format: Literal["json", "csv"] = "json"


class GroupOut(BaseModel):
    """Pictures that are much the same; the first is the one that the others were compared with."""

    id: str
    tier: TierName
    items: list[Item]
    keep: str = Field(description="The largest, in pixels, then in bytes: the others are suggested to go.")
    distances: list[float]
    why: str


class DuplicatesOut(BaseModel):
    """Groups, the largest first."""

    total: int
    offset: int
    groups: list[GroupOut]
    current: bool = Field(description="Whether this is how things are now; else a job is at it.")
    job: JobOut | None


class DismissIn(Given):
    """Pictures that are no duplicates of each other; one alone: that it lies at several paths is right."""

    items: Annotated[list[Id], Field(min_length=1, max_length=MOST)]


class DismissedOut(BaseModel):
    """How many pairs that was new of."""

    pairs: int


class MapOut(BaseModel):
    """Places in the unit square."""

    space: str
    ids: list[str]
    x: list[float]
    y: list[float]
    labels: list[list[str]]
    total: int
    current: bool = Field(description="Whether this is how things are now; else a job is at it.")
    job: JobOut | None


class ExportQuery(FilterIn):
    """What is written, and how."""

    format: Literal["json", "csv", "paths", "coco"] = "json"
