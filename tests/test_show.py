"""Display of results: tables, contact sheets and pages."""

import base64
import io
import os
import re
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageColor
from rich.console import Console

from lookalike import show
from lookalike.errors import InputError
from lookalike.show import Tile
from lookalike.text import printable, shorten


@pytest.fixture
def red(tmp_path: Path) -> str:
    path = tmp_path / "red.png"
    Image.new("RGB", (400, 200), "#ff0000").save(path)
    return str(path)


def rendered(results: list[tuple[str | None, float]], width: int) -> str:
    console = Console(width=width, file=io.StringIO())
    console.print(show.table([(path, score, "", None) for path, score in results], width))
    return console.file.getvalue()  # type: ignore[attr-defined]


def picture(path: Path) -> Image.Image:
    return Image.open(io.BytesIO(path.read_bytes()))


def images_of(page: str) -> list[Image.Image]:
    sources = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', page)
    return [Image.open(io.BytesIO(base64.b64decode(source))) for source in sources]


@settings(deadline=None)
@given(st.text(max_size=40))
def test_any_file_name_prints_as_one_line_in_any_encoding(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert len(shown.splitlines()) <= 1
    shown.encode("utf-8")


def test_plain_names_are_unchanged_and_unusual_characters_are_escaped() -> None:
    assert printable("Straße 東京 (1).jpg") == "Straße 東京 (1).jpg"
    assert printable("a\x1b[31m\nb\udcff") == r"a\x1b[31m\nb\udcff"


def test_paths_are_relative_to_the_current_or_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here, home = tmp_path / "here", tmp_path / "home"
    here.mkdir()
    monkeypatch.chdir(here)
    monkeypatch.setenv("HOME", str(home))
    assert shorten(f"{here}/a/b.jpg") == "a/b.jpg"
    assert shorten(f"{home}/a/b.jpg") == "~/a/b.jpg"
    assert shorten(f"{tmp_path}/hereafter/b.jpg") == f"{tmp_path}/hereafter/b.jpg"
    assert shorten(None) == "(no path)"
    assert shorten("/far/away/from/here.jpg", 12) == "…om/here.jpg"


def test_a_table_has_ranks_and_scores_and_fits_the_width() -> None:
    text = rendered([("/x/first.jpg", 0.0), ("/deep" * 40 + "/second.jpg", 0.25), (None, 1.0)], width=50)
    lines = text.rstrip().splitlines()
    assert len(lines) == 4
    assert all(len(line.rstrip()) <= 50 for line in lines)
    assert [line.split()[:2] for line in lines[1:]] == [["1", "0.0000"], ["2", "0.2500"], ["3", "1.0000"]]
    assert lines[2].rstrip().endswith("/second.jpg")


def test_a_name_with_markup_in_it_is_shown_literally() -> None:
    assert "[bold]x[/bold].jpg" in rendered([("/[bold]x[/bold].jpg", 0.5)], width=80)


@pytest.mark.parametrize(("name", "kind"), [("a.png", "PNG"), ("a.jpg", "JPEG"), ("a.JPEG", "JPEG")])
def test_the_suffix_decides_the_format_of_a_sheet(tmp_path: Path, red: str, name: str, kind: str) -> None:
    assert picture(show.write_sheet([[Tile(red, "red")]], tmp_path / name)).format == kind


def test_a_sheet_frames_its_pictures(tmp_path: Path, red: str) -> None:
    tiles = [Tile(red, "a", "example"), Tile(red, "b", "right"), Tile(red, "c", "wrong")]
    sheet = picture(show.write_sheet([tiles], tmp_path / "a.png")).convert("RGB")
    step = (sheet.width - show.GAP) // 3
    for number, tile in enumerate(tiles):
        left = show.GAP + number * step
        assert sheet.getpixel((left + 1, show.GAP + 1)) == ImageColor.getrgb(show.COLORS[tile.frame])
        middle = (left + step // 2 - show.GAP // 2, show.GAP + show.FRAME + show.SIDE // 2)
        assert sheet.getpixel(middle) == (255, 0, 0)


def test_examples_are_above_results_and_a_sheet_grows_in_both_directions(red: str) -> None:
    rows = show.arrange([Tile(red, "e")], [Tile(red, str(n)) for n in range(60)])
    assert [tile.caption for tile in rows[0]] == ["e"]
    assert [tile.caption for row in rows[1:] for tile in row] == [str(n) for n in range(60)]
    assert max(map(len, rows)) >= len(rows) - 1
    most = show.arrange([], [Tile(red)] * 5_000)
    assert sum(map(len, most)) == show.SHEET_TILES


def test_files_that_cannot_be_read_become_placeholders(tmp_path: Path, red: str) -> None:
    broken = tmp_path / "broken.jpg"
    broken.write_bytes(Path(red).read_bytes()[:40])
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.jpg")
    tiles = [Tile(red), Tile(str(tmp_path / "gone.jpg")), Tile(str(broken)), Tile(odd), Tile(str(tmp_path)), Tile(None)]
    sheet = show.write_sheet([tiles], tmp_path / "a.png")
    page = show.write_page("t", [], tiles, tmp_path / "a.html").read_text()
    assert picture(sheet).width > 6 * show.SIDE
    shown = images_of(page)
    assert len(shown) == 6
    assert [image.size for image in shown] == [(256, 128)] + [(256, 256)] * 5


def test_empty_sheets_and_pages_are_written(tmp_path: Path) -> None:
    assert picture(show.write_sheet(show.arrange([], []), tmp_path / "a.png")).width > 0
    assert "<html" in show.write_page("nothing", [], [], tmp_path / "a.html").read_text()


def test_a_member_of_an_archive_is_shown(tmp_path: Path, red: str) -> None:
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.write(red, "in/red.png")
    image = show.thumbnail(show.Tile(f"{tmp_path}/a.zip::in/red.png"), 100)
    assert image.size == (100, 50)
    assert image.getpixel((50, 25)) == (255, 0, 0)


def test_a_page_needs_no_other_file_and_runs_no_script(tmp_path: Path, red: str) -> None:
    page = show.write_page(
        "red", [Tile(red, "it", "example")], [Tile(red, "1\nred.png")], tmp_path / "a.html"
    ).read_text()
    assert "<script" not in page
    assert "http" not in page.replace("http-equiv", "")
    assert all(source.startswith("data:") for source in re.findall(r'src="([^"]*)"', page))
    assert re.findall(r'href="([^"]*)"', page) == [Path(red).as_uri()] * 2
    assert "prefers-color-scheme: dark" in page
    assert 'class="example"' in page


def test_names_are_escaped_in_a_page(tmp_path: Path) -> None:
    name = '"><script>alert(1)</script>&\udcff.png'
    path = str(tmp_path / name.replace("/", "∕"))
    Image.new("RGB", (8, 8)).save(path)
    page = show.write_page(name, [], [Tile(path, name)], tmp_path / "a.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 3
    assert "\\udcff" in page


@pytest.mark.parametrize("name", ["a.gif", "a", "a.png.txt"])
def test_a_sheet_with_another_suffix_is_rejected_with_the_allowed_ones(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=r"must end in \.png, \.jpg or \.jpeg\. Got .*" + name):
        show.write_sheet([], tmp_path / name)


def test_an_unwritable_path_is_named_in_the_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"The folder .*/none does not exist\. Create it first\."):
        show.write_sheet([], tmp_path / "none" / "a.png")
    with pytest.raises(InputError, match="Cannot write"):
        show.write_page("t", [], [], tmp_path)
