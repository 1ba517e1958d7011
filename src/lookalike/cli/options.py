"""Options that several commands share, and parsers for their values. Filter options are combined into one `Filter`."""

import functools
import inspect
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

import lookalike
from lookalike.cli.lazy import Lazy
from lookalike.cli.output import print_note, remember_collection
from lookalike.cluster import connected
from lookalike.errors import InputError

if TYPE_CHECKING:
    from lookalike import collection as library
    from lookalike import types
else:
    types, library = Lazy("lookalike.types"), Lazy("lookalike.collection")

COLLECTION = "./.lookalike"
_cluster: list[str] = []  # the address of the cluster, if one was given
_device = ["auto"]

OWN_LABELS = "labels"
"""Value of a label source option that selects the labels of the collection itself."""
NONE = "none of these"
"""Printed for a picture that matches no class."""


def _where(ctx: typer.Context, value: str) -> str:
    if value:
        remember_collection(value)
    return value or str(ctx.find_root().params["collection"])


Where = Annotated[
    str,
    typer.Option(
        "-c",
        "--collection",
        metavar="DIR",
        default_factory=str,
        show_default=False,
        callback=_where,
        help="Collection directory; can also be given before the command.",
    ),
]
Author = Annotated[str | None, typer.Option("--author", help="Label author. Default: your login name.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="Maximum time to wait for another writer.")
]
Export = Annotated[
    str | None,
    typer.Option(
        "--export",
        metavar="FILE|FOLDER",
        help="Also write the results to a .csv, .json or .txt file, or copy the pictures to a .zip or a new folder.",
    ),
]
Workers = Annotated[
    int | None,
    typer.Option("--workers", min=1, help="Number of processes that read pictures. Default: one per core, at most 8."),
]
Space = Annotated[
    str | None,
    typer.Option("--space", metavar="NAME", help="Space to search (see lookalike stats). Default: the first."),
]

FILTERS: dict[str, Any] = {
    "path": Annotated[str | None, typer.Option("--path", metavar="GLOB", help="Only pictures whose path matches.")],
    "label": Annotated[str | None, typer.Option("--label", help="Only pictures with this label.")],
    "since": Annotated[str | None, typer.Option("--since", metavar="DATE", help="Only pictures from this date on.")],
    "until": Annotated[
        str | None, typer.Option("--until", metavar="DATE", help="Only pictures up to and including this date.")
    ],
    "min_side": Annotated[
        int | None, typer.Option("--min-side", help="Minimum length of the shorter side, in pixels.")
    ],
    "max_side": Annotated[
        int | None, typer.Option("--max-side", help="Maximum length of the shorter side, in pixels.")
    ],
    "min_bytes": Annotated[int | None, typer.Option("--min-bytes", help="Minimum file size, in bytes.")],
    "max_bytes": Annotated[int | None, typer.Option("--max-bytes", help="Maximum file size, in bytes.")],
    "folder": Annotated[
        str | None,
        typer.Option("--folder", metavar="DIR", help="Only pictures in this folder or archive, at any depth."),
    ],
    "year": Annotated[int | None, typer.Option("--year", help="Only pictures taken in this year, in UTC.")],
    "camera": Annotated[
        str | None, typer.Option("--camera", metavar="NAME", help="Only pictures taken with this camera.")
    ],
    "lens": Annotated[str | None, typer.Option("--lens", metavar="NAME", help="Only pictures taken with this lens.")],
    "place": Annotated[
        str | None,
        typer.Option("--place", metavar="LAT,LON", help="Only pictures taken in the same cell of 0.1 degrees."),
    ],
    "orientation": Annotated[
        Literal["landscape", "portrait", "square"] | None,
        typer.Option("--orientation", help="Only pictures of this orientation."),
    ],
    "file_format": Annotated[
        str | None, typer.Option("--file-format", metavar="NAME", help="Only files of this format, such as jpeg.")
    ],
    "labelled": Annotated[
        bool | None, typer.Option("--labelled/--unlabelled", help="Only pictures with a label, or without one.")
    ],
    "suggested": Annotated[
        str | None,
        typer.Option("--suggested", metavar="CLASS", help="Only pictures for which this class is predicted."),
    ],
}


def use_cluster(address: str | None) -> None:
    """Set the cluster that `opened` connects to; None for this machine."""
    _cluster[:] = [] if address is None else [address]


def used_cluster() -> str | None:
    """The address of the cluster that `opened` connects to."""
    return _cluster[0] if _cluster else None


def use_device(device: str) -> None:
    """Set the device of the collections that `opened` opens: "auto", "cpu" or "cuda"."""
    _device[:] = [device]


def used_device() -> str:
    """The device of the collections that `opened` opens."""
    return _device[0]


@contextmanager
def opened(
    where: str, *, create: bool = False, wait: float = 0.0, local: bool = False
) -> Iterator["lookalike.Collection"]:
    """Open the collection of a command, on the cluster if one was given, unless `local`. This loads NumPy."""
    with (
        connected(None if local else used_cluster()) as executor,
        lookalike.Collection(where, create=create, wait_s=wait, cluster=executor, device=used_device()) as collection,
    ):
        yield collection


def filtered(verb: Callable[..., int]) -> Callable[..., int]:
    """Add the filter options to a command that takes `filter`, which is None if no filter option is given.

    A filter option is left out if the command has its own option of that name.
    """
    names = [name for name in FILTERS if name not in inspect.signature(verb).parameters]

    @functools.wraps(verb)
    def command(**given: Any) -> int:
        values = dict.fromkeys(FILTERS) | {name: given.pop(name) for name in names}
        return verb(**given, filter=_filter(values))

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [part for part in inspect.signature(verb).parameters.values() if part.name != "filter"]
    more = [inspect.Parameter(name, keyword, default=None, annotation=FILTERS[name]) for name in names]
    command.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    command.__annotations__ = {part.name: part.annotation for part in (*own, *more)}
    return command


def _filter(values: dict[str, Any]) -> "lookalike.Filter | None":
    if all(value is None for value in values.values()):
        return None
    since, until, folder = values.pop("since"), values.pop("until"), values.pop("folder")
    if folder is not None and os.path.exists(os.path.expanduser(folder)):
        folder = os.path.abspath(os.path.expanduser(folder))  # otherwise it is relative to its source
    return lookalike.Filter(
        folder=folder,
        since=None if since is None else parse_date("--since", since),
        until=None if until is None else parse_date("--until", until, last=True),
        **values,
    )


def parse_date(option: str, text: str, *, last: bool = False) -> float:
    """Return the POSIX time of a date, or of a date and time; with `last`, the end of the day.

    A time without a time zone is read as UTC, like the camera times in the metadata of pictures.
    """
    try:
        when = datetime.fromisoformat(text)
        if last and len(text) <= len("2024-12-31"):
            when += timedelta(days=1, microseconds=-1)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        today = time.strftime("%Y-%m-%d")
        raise InputError(f"{option} must be a date such as {today} or {today}T12:30. Got {text!r}.") from None


def parse_box(text: str) -> tuple[float, float, float, float]:
    """Parse left, top, right and bottom from text such as 0.1,0.2,0.5,0.9."""
    try:
        left, top, right, bottom = map(float, text.split(","))
    except ValueError:
        raise InputError(
            f"--box must be left,top,right,bottom from 0 to 1, such as 0.1,0.2,0.5,0.9. Got {text!r}."
        ) from None
    return left, top, right, bottom


class Examples(NamedTuple):
    """The examples of a search or session, as they were given on the command line."""

    images: list[str]
    words: list[str]
    not_images: list[str]
    not_words: list[str]
    box: tuple[float, float, float, float] | None  # the part of the only image

    @property
    def query(self) -> dict[str, Any]:
        """The examples as arguments of `Collection.search` and `Collection.session`."""
        return {
            "examples": self.images if self.box is None else lookalike.Crop(self.images[0], self.box),
            "words": self.words,
            "without": self.not_images,
            "without_words": self.not_words,
        }


def read_examples(
    collection: "lookalike.Collection",
    given: Sequence[str] | None,
    words: Sequence[str] | None,
    negatives: Sequence[str] | None,
    box: str | None,
) -> Examples:
    """Divide positive and negative arguments into pictures and words, add those of --words, and read --box.

    The words among the positive arguments are one text, so quotes are optional: `search dog on grass`.
    """
    images, given_words = _split_words(collection, given or [], "To search for these words, give them with --words.")
    texts = [" ".join(given_words)] if given_words else []
    not_images, not_texts = _split_words(
        collection, negatives or [], "Give --not an existing picture, or words that do not look like a path."
    )
    part = None if box is None else parse_box(box)
    if part is not None and len(images) != 1:
        raise InputError(f"--box selects a part of one picture. Got {len(images)} pictures: give one.")
    return Examples(images, [*texts, *(words or [])], not_images, not_texts, part)


def _split_words(collection: "lookalike.Collection", given: Sequence[str], advice: str) -> tuple[list[str], list[str]]:
    """Divide arguments into pictures (files, paths in the collection, ids) and words.

    Raises InputError, which ends with `advice`, for an argument that looks like a picture but does not exist.
    """
    pictures: list[str] = []
    words: list[str] = []
    for text in given:
        if library.is_url(text) or os.path.isfile(os.path.expanduser(text)) or collection.find(text) is not None:
            pictures.append(text)
        elif "/" in text or types.parse_id(text) is not None or os.path.splitext(text)[1].lower() in library.SUFFIXES:
            reason = "is a folder, not a picture" if os.path.isdir(os.path.expanduser(text)) else "does not exist"
            raise InputError(f"{text} {reason}. {advice}")
        else:
            words.append(text)
    return pictures, words


def print_words(collection: "lookalike.Collection", examples: Examples) -> None:
    """Print what a session understands by the words that it starts from."""
    for text in [*examples.words, *examples.not_words]:
        print_meanings(collection.understand(text))


def print_meanings(meanings: Sequence["library.Meaning"]) -> None:
    """Print what a search understood by words."""
    for meaning in meanings:
        print_note(meaning.summary)


def parse_effort(text: str | None) -> float | str | None:
    """Return the effort as a number if it is one, otherwise the text, which names an effort."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
