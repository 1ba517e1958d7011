"""HTML of results, sessions, groups and classes, which notebooks show: pictures inline, nothing loaded from outside."""

import base64
import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from lookalike.collection.resolve import read_item
from lookalike.errors import LookalikeError
from lookalike.images.decoding import read
from lookalike.images.preview import encode_preview
from lookalike.images.sources import locate
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.text import printable
from lookalike.types import format_id

MAX_PICTURES = 50
SIDE = 160
"""Maximum number of pictures, and their longer side in pixels."""

MAX_GROUPS = 20
"""Maximum number of groups or classes."""

MAX_TEXT = 60
"""Maximum number of characters of a line below a picture."""

GREEN, RED, GREY = "#2e9e4f", "#c8372d", "#d9d9d9"

_ROW = "display:flex;flex-wrap:wrap;gap:8px;align-items:flex-start;margin:4px 0 12px"
_FIGURE = f"margin:0;width:{SIDE}px;font:12px/1.35 system-ui,sans-serif;overflow-wrap:anywhere"
_EMPTY = f"height:{SIDE // 2}px;background:#8882;display:flex;align-items:center;justify-content:center;padding:4px"


@dataclass(frozen=True, slots=True)
class Tile:
    """A picture with lines of text below it."""

    read: Callable[[], bytes]  # returns the file's bytes, or raises LookalikeError
    lines: Sequence[str]
    color: str = GREY


def read_path(path: str | None) -> bytes:
    """Return the bytes of a file or of a member of an archive; raise LookalikeError if they cannot be read."""
    entry = None if path is None else locate(path)
    if entry is None:
        raise LookalikeError("not found")
    return entry.read()


def tile_of(store: Store, item: Item, *lines: str, color: str = GREY) -> Tile:
    """Return the tile of an item, with its name and these lines."""
    name = next(iter(item.paths), format_id(item.id)).rpartition("/")[2]
    return Tile(lambda: read_item(store, item), [name, *lines], color)


def page(title: str, rows: Iterable[tuple[str, Iterable[Tile]]], *, more: str = "") -> str:
    """Return HTML with a title and rows of a heading and pictures, at most MAX_PICTURES of them."""
    left = MAX_PICTURES
    parts = [f"<p><b>{_escape(title)}</b></p>"]
    for heading, tiles in rows:
        if left <= 0:
            break
        drawn = [_figure(tile) for tile in islice(tiles, left)]
        left -= len(drawn)
        parts.append(f"<div>{_escape(heading)}</div>" if heading else "")
        parts.append(f'<div style="{_ROW}">{"".join(drawn)}</div>')
    parts.append(f"<p>{_escape(more)}</p>" if more else "")
    return f"<div>{''.join(parts)}</div>"


def data_uri(data: bytes, side: int = SIDE) -> str:
    """Return a small copy of a picture as a data URI; raises ImageError if it cannot be read."""
    small = encode_preview(read(data, side=side).pixels, side)
    return "data:image/jpeg;base64," + base64.b64encode(small).decode()


def _figure(tile: Tile) -> str:
    try:
        frame = f"border:3px solid {tile.color};max-width:100%;box-sizing:border-box"
        shown = f'<img src="{data_uri(tile.read())}" style="{frame}" alt="{_escape(tile.lines[0])}">'
    except (LookalikeError, OSError) as error:
        shown = f'<div style="{_EMPTY}">{_escape(str(error))}</div>'
    text = "<br>".join(_escape(line) for line in tile.lines)
    return f'<figure style="{_FIGURE}">{shown}<figcaption>{text}</figcaption></figure>'


def _escape(text: str) -> str:
    text = printable(text)
    return html.escape(text if len(text) <= MAX_TEXT else text[: MAX_TEXT // 2] + "…" + text[-MAX_TEXT // 2 :])
