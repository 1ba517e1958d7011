"""Show results as a table in the terminal, a contact sheet (PNG or JPEG), a self-contained HTML page, or a map.

A picture that cannot be read is replaced by a placeholder with the reason.
"""

import base64
import html
import io
import math
import os
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from PIL import Image, ImageDraw, ImageFont
from rich.table import Table
from rich.text import Text

from lookalike.errors import ImageError, InputError, LookalikeError
from lookalike.images.decoding import read
from lookalike.images.files import LIMITS
from lookalike.images.sources import locate
from lookalike.text import human_probability, join_words, printable, shorten
from lookalike.types import Box, Pixels

Font: TypeAlias = ImageFont.ImageFont | ImageFont.FreeTypeFont

Frame: TypeAlias = Literal["example", "not", "right", "wrong"]

SHEET_SUFFIXES = {".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG"}
HALF_LINE = "below this line, less than half are expected to be right"
SHEET_TILES = 500
"""Maximum number of results on a contact sheet: about twenty megapixels."""

SIDE = 176
"""Side of a picture on a contact sheet, in pixels."""
PAGE_SIDE = 256
MAP_SIDE, MAP_CELLS = 48, 48
"""Side of a picture on a map, in pixels, and maximum number of pictures per row."""
FRAME, GAP, LINE = 4, 14, 18

BOX = "#ffd400"
COLORS: dict[Frame | None, str] = {
    "example": "#2f6fde",
    "not": "#c8372d",
    "right": "#2e9e4f",
    "wrong": "#c8372d",
    None: "#d9d9d9",
}

STYLE = """
:root { color-scheme: light dark; --ground: #fff; --ink: #1d1d1f; --dim: #6b6b70; --line: #d9d9d9 }
@media (prefers-color-scheme: dark) { :root { --ground: #161618; --ink: #ececf0; --dim: #9b9ba3; --line: #3a3a40 } }
body { margin: 2rem auto; max-width: 1200px; padding: 0 1rem; background: var(--ground); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif }
h1 { font-size: 1.35rem } h2 { font-size: 1rem; color: var(--dim); font-weight: 600 }
section { display: grid; grid-template-columns: repeat(auto-fill, minmax(170px, 1fr)); gap: 1rem }
figure { margin: 0; min-width: 0 }
img { width: 100%; aspect-ratio: 1; object-fit: contain; box-sizing: border-box;
  border: 1px solid var(--line); border-radius: 6px }
.example img, .not img, .right img, .wrong img { border-width: 3px }
.example img { border-color: #2f6fde } .right img { border-color: #2e9e4f }
.not img, .wrong img { border-color: #c8372d }
figcaption { font-size: 12.5px; color: var(--dim); overflow-wrap: anywhere; white-space: pre-line }
a { color: inherit; text-decoration: none }
"""


@dataclass(frozen=True)
class Tile:
    """One picture to show. The caption can have several lines."""

    path: str | None
    caption: str = ""
    frame: Frame | None = None
    box: Box | None = None  # the matching part, drawn as a frame


def table(
    results: Sequence[tuple[str | None, float, str, float | None]], width: int = 100, half: int | None = None
) -> Table:
    """Return a table of results for a terminal of this width.

    A result is a path, a score, the box of the match and its probability of being right, if known. A line follows the
    first `half` results.
    """
    result = Table(box=None, pad_edge=False)
    result.add_column("#", justify="right", style="dim")
    result.add_column("score", justify="right")
    rated = any(likely is not None for *_, likely in results)
    if rated:
        result.add_column("likely", justify="right")
    placed = max((len(where) for _, _, where, _ in results), default=0)
    if placed:
        result.add_column("where", no_wrap=True)
    result.add_column("picture", no_wrap=True)
    path_width = width - len(str(len(results))) - 10 - (placed and placed + 2) - 11 * rated
    for rank, (path, score, where, likely) in enumerate(results, 1):
        if rank - 1 == half:
            result.add_row(*[""] * (2 + rated + bool(placed)), Text(HALF_LINE[:path_width], style="dim"))
        percent = [] if not rated else ["" if likely is None else human_probability(likely)]
        box = [where] if placed else []
        result.add_row(str(rank), f"{score:.4f}", *percent, *box, Text(shorten(path, path_width)))
    return result


def arrange(examples: Sequence[Tile], results: Sequence[Tile]) -> list[Sequence[Tile]]:
    """Arrange tiles in rows so that the sheet is slightly wider than high: examples first, then results."""
    results = results[:SHEET_TILES]
    columns = max(5, min(len(examples), 10), math.isqrt(round(1.5 * len(results))))
    return [*_rows(examples, columns), *_rows(results, columns)]


def write_sheet(rows: Sequence[Sequence[Tile]], target: str | Path) -> Path:
    """Draw the rows of tiles into a .png or .jpg file."""
    target = check_sheet(target)
    return _write_image(_draw_sheet(rows), target)


def check_sheet(target: str | Path) -> Path:
    """Return the path of a contact sheet. Raises InputError if it cannot be written or is not a .png or .jpg file."""
    path = check_place(target)
    if path.suffix.lower() not in SHEET_SUFFIXES:
        suffixes = join_words(SHEET_SUFFIXES, "or")
        raise InputError(f"The name of a contact sheet must end in {suffixes}. Got {printable(str(target))}.")
    return path


def check_place(target: str | Path) -> Path:
    """Return the path of an output file. Raises InputError if it cannot be written. Call it before long tasks."""
    path = Path(target)
    folder = path.absolute().parent
    if not os.path.isdir(folder):
        raise InputError(f"The folder {printable(str(folder))} does not exist. Create it first.")
    writable = os.access(path, os.W_OK) if os.path.lexists(path) else os.access(folder, os.W_OK | os.X_OK)
    if os.path.isdir(path) or not writable:
        raise InputError(f"Cannot write to {printable(str(path))}. Choose another file.")
    return path


def write_page(title: str, examples: Sequence[Tile], results: Sequence[Tile], target: str | Path) -> Path:
    """Write a self-contained HTML file with examples and results."""
    return write_sections(title, [("Examples", examples), ("Results, best first", results)], target)


def write_sections(title: str, sections: Sequence[tuple[str, Sequence[Tile]]], target: str | Path) -> Path:
    """Write a self-contained HTML file with pictures in named sections."""
    heading = html.escape(printable(title))
    parts = [
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{heading}</title>',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<style>{STYLE}</style></head>\n<body><h1>{heading}</h1>",
    ]
    for name, tiles in sections:
        parts += [f"<h2>{html.escape(printable(name))}</h2>\n<section>", *map(_figure, tiles), "</section>"]
    return _write(Path(target), "\n".join([*parts, "</body></html>\n"]).encode())


def write_map(
    paths: Sequence[str | None], x: Sequence[float], y: Sequence[float], target: str | Path
) -> tuple[Path, int]:
    """Draw pictures at their positions in the unit square, at most one per grid cell, into a .png or .jpg file.

    Returns the path and the number of pictures drawn.
    """
    target = check_sheet(target)
    cells = max(1, min(MAP_CELLS, math.isqrt(2 * len(paths))))
    sheet, taken = Image.new("RGB", (cells * MAP_SIDE, cells * MAP_SIDE), "white"), set()
    for path, across, down in zip(paths, x, y, strict=True):
        cell = min(int(across * cells), cells - 1), min(int(down * cells), cells - 1)
        if cell not in taken:
            taken.add(cell)
            picture = thumbnail(Tile(path), MAP_SIDE - 2)
            left, top = (index * MAP_SIDE for index in cell)
            sheet.paste(picture, (left + (MAP_SIDE - picture.width) // 2, top + (MAP_SIDE - picture.height) // 2))
    return _write_image(sheet, target), len(taken)


def thumbnail(tile: Tile, side: int) -> Image.Image:
    """Return the picture within side × side pixels, with its box, or a placeholder if it cannot be read."""
    try:
        if tile.path is None:
            raise ImageError("no path")
        picture = Image.fromarray(_read(tile.path, side))
    except (LookalikeError, OSError) as error:
        return _placeholder(str(error), side)
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    if tile.box is not None:
        left, top, right, bottom = tile.box
        width, height = picture.width - 1, picture.height - 1
        edges = left * width, top * height, right * width, bottom * height
        ImageDraw.Draw(picture).rectangle(edges, outline=BOX, width=3)
    return picture


def _read(path: str, side: int) -> Pixels:
    """Return the pixels of a file or of an archive member."""
    entry = locate(path)
    if entry is None:
        raise ImageError("not found")
    return read(entry.read(LIMITS), side=side).pixels


def _draw_sheet(rows: Sequence[Sequence[Tile]]) -> Image.Image:
    columns = max((len(row) for row in rows), default=1)
    lines = max((tile.caption.count("\n") + 1 for row in rows for tile in row), default=0)
    across, down = SIDE + 2 * FRAME + GAP, SIDE + 2 * FRAME + GAP + lines * LINE
    sheet = Image.new("RGB", (GAP + columns * across, GAP + max(1, len(rows)) * down), "white")
    for y, row in enumerate(rows):
        for x, tile in enumerate(row):
            _draw_tile(sheet, tile, GAP + x * across, GAP + y * down)
    return sheet


def _draw_tile(sheet: Image.Image, tile: Tile, left: int, top: int) -> None:
    draw = ImageDraw.Draw(sheet)
    edge = SIDE + 2 * FRAME
    thickness = 1 if tile.frame is None else FRAME
    draw.rectangle((left, top, left + edge - 1, top + edge - 1), "#f4f4f4", COLORS[tile.frame], thickness)
    picture = thumbnail(tile, SIDE)
    sheet.paste(picture, (left + (edge - picture.width) // 2, top + (edge - picture.height) // 2))
    font = ImageFont.load_default(13)
    for number, line in enumerate(tile.caption.split("\n")):
        draw.text((left, top + edge + 2 + number * LINE), _fit(line, font, edge), "#333333", font)


def _fit(line: str, font: Font, width: int) -> str:
    """Shorten a line in the middle if it is too wide: file names differ at either end."""
    line = text = printable(line)
    keep = len(text)
    while font.getlength(line) > width and keep > 2:
        keep -= 1
        line = text[: keep - keep // 2] + "…" + text[len(text) - keep // 2 :]
    return line


def _placeholder(reason: str, side: int) -> Image.Image:
    image = Image.new("RGB", (side, side), "#e9e9e9")
    draw = ImageDraw.Draw(image)
    draw.line((0, 0, side, side), "#d0d0d0", 2)
    draw.line((0, side, side, 0), "#d0d0d0", 2)
    text = textwrap.fill(printable(reason), 24, max_lines=4, placeholder=" …")
    font = ImageFont.load_default(13)
    draw.multiline_text((side // 2, side // 2), text, "#777777", font, anchor="mm", align="center")
    return image


def _figure(tile: Tile) -> str:
    drawn = io.BytesIO()
    thumbnail(tile, PAGE_SIDE).save(drawn, "JPEG", quality=85)
    source = "data:image/jpeg;base64," + base64.b64encode(drawn.getvalue()).decode()
    name = html.escape(shorten(tile.path))
    image = f'<img src="{source}" alt="{name}" title="{name}" loading="lazy">'
    if tile.path is not None and os.path.isfile(tile.path):
        image = f'<a href="{html.escape(Path(tile.path).absolute().as_uri())}">{image}</a>'
    caption = "\n".join(printable(line) for line in tile.caption.split("\n"))
    return f'<figure class="{tile.frame or ""}">{image}<figcaption>{html.escape(caption)}</figcaption></figure>'


def _rows(tiles: Sequence[Tile], columns: int) -> Iterator[Sequence[Tile]]:
    for start in range(0, len(tiles), columns):
        yield tiles[start : start + columns]


def _write_image(image: Image.Image, target: Path) -> Path:
    drawn = io.BytesIO()
    image.save(drawn, SHEET_SUFFIXES[target.suffix.lower()], quality=90)
    return _write(target, drawn.getvalue())


def _write(target: Path, data: bytes) -> Path:
    try:
        target.write_bytes(data)
    except OSError as error:
        raise InputError(f"Cannot write {printable(str(target))}: {error.strerror}.") from None
    return target
