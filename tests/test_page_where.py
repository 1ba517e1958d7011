"""The page in a real browser: files that are not indexed, and the matching parts of results."""

import pytest
from playwright.sync_api import expect

from browser import end, needs_browser, serve, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder

pytestmark = needs_browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("where") / "pictures"
    draw_folder(folder, per_kind=2)
    (folder / "broken.jpg").touch()
    for name in ("a.mp4", "b.mp4"):
        (folder / name).touch()
    with Collection(folder.parent / "where.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
    process, address = serve(folder.parent / "where.lookalike")
    yield address
    end(process)


def test_files_that_are_not_indexed_are_counted_and_listed(site):
    page = site.visit()
    page.get_by_role("link", name="3 files not indexed").click()
    section = page.locator(".not-indexed")
    expect(section).to_contain_text("2 files of types Lookalike does not read: .mp4 2.")
    expect(section.locator("li")).to_be_hidden()
    section.get_by_text("1 file that cannot be read").click()
    expect(section.locator("li")).to_contain_text("broken.jpg it is empty")
    shoot(page, "not-indexed")
