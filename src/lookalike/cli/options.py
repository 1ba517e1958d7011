"""The options that several commands share, and their values; the filter options of a command become one `Filter`."""

import functools
import inspect
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any

import typer

import lookalike
from lookalike.cli.output import remember_collection
from lookalike.errors import InputError

COLLECTION = "./.lookalike"

OWN_LABELS = "labels"
"""The word for the labels of the collection itself, where an option takes a source of labels."""
NONE = "none of these"
"""Printed for a picture that belongs to no class."""


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
        help="The collection; may also stand before the command.",
    ),
]
Author = Annotated[str | None, typer.Option("--author", help="Who says so. Default: your login.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")]
Wait = Annotated[float, typer.Option("--wait", metavar="SECONDS", min=0, help="Wait this long for another writer.")]
Workers = Annotated[int | None, typer.Option("--workers", min=1, help="Processes that read pictures.")]
Space = Annotated[str | None, typer.Option("--space", metavar="NAME", help="The space to search; see stats.")]

FILTERS: dict[str, Any] = {
    "path": Annotated[str | None, typer.Option("--path", metavar="GLOB", help="Only paths like this.")],
    "label": Annotated[str | None, typer.Option("--label", help="Only pictures with this label.")],
    "since": Annotated[str | None, typer.Option("--since", metavar="DATE", help="Only from this date on.")],
    "until": Annotated[str | None, typer.Option("--until", metavar="DATE", help="Only up to this date, inclusive.")],
    "min_side": Annotated[int | None, typer.Option("--min-side", help="Shorter side, pixels, at least.")],
    "max_side": Annotated[int | None, typer.Option("--max-side", help="Shorter side, pixels, at most.")],
    "min_bytes": Annotated[int | None, typer.Option("--min-bytes", help="File size at least.")],
    "max_bytes": Annotated[int | None, typer.Option("--max-bytes", help="File size at most.")],
}


def opened(where: str, *, create: bool = False, wait: float = 0.0) -> "lookalike.Collection":
    """Open the collection that a command works on. This is where NumPy is first loaded."""
    return lookalike.Collection(where, create=create, wait_s=wait)


def filtered(verb: Callable[..., int]) -> Callable[..., int]:
    """Add the filter options to a command that takes `filter`, which is None if none of them is used.

    If the command has an option of the same name, the filter option is left out.
    """
    names = [name for name in FILTERS if name not in inspect.signature(verb).parameters]

    @functools.wraps(verb)
    def command(**given: Any) -> int:
        wanted = dict.fromkeys(FILTERS) | {name: given.pop(name) for name in names}
        return verb(**given, filter=_filter(wanted))

    keyword = inspect.Parameter.KEYWORD_ONLY
    own = [part for part in inspect.signature(verb).parameters.values() if part.name != "filter"]
    more = [inspect.Parameter(name, keyword, default=None, annotation=FILTERS[name]) for name in names]
    command.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    command.__annotations__ = {part.name: part.annotation for part in (*own, *more)}
    return command


def _filter(wanted: dict[str, Any]) -> "lookalike.Filter | None":
    if all(value is None for value in wanted.values()):
        return None
    since, until = wanted.pop("since"), wanted.pop("until")
    return lookalike.Filter(
        since=None if since is None else parse_date("--since", since),
        until=None if until is None else parse_date("--until", until, last=True),
        **wanted,
    )


def parse_date(option: str, text: str, *, last: bool = False) -> float:
    """POSIX seconds of a date, or of a date and time; `last`: of the end of the day.

    Without a time zone, it is the time on the camera's clock, as in the metadata of pictures.
    """
    try:
        when = datetime.fromisoformat(text)
        if last and len(text) <= len("2024-12-31"):
            when += timedelta(days=1, microseconds=-1)
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        today = time.strftime("%Y-%m-%d")
        raise InputError(f"{option} takes a date such as {today} or {today}T12:30. Got {text!r}.") from None


def parse_box(text: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of a text such as 0.1,0.2,0.5,0.9."""
    try:
        left, top, right, bottom = map(float, text.split(","))
    except ValueError:
        raise InputError(
            f"--box takes left,top,right,bottom from 0 to 1, such as 0.1,0.2,0.5,0.9. Got {text!r}."
        ) from None
    return left, top, right, bottom


def parse_effort(text: str | None) -> float | str | None:
    """The number in a text, or the text itself, which names an effort."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
