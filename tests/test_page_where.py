"""The page in a real browser: files that are not indexed, and the matching parts of results."""

import pytest
from playwright.sync_api import expect

from browser import go, needs_browser, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder
from serving import running

pytestmark = needs_browser


@pytest.fixture(scope="module")
def address(tmp_path_factory, read_here):
    folder = tmp_path_factory.mktemp("where") / "pictures"
    draw_folder(folder, per_kind=2)
    (folder / "broken.jpg").touch()
    for name in ("a.mp4", "b.mp4"):
        (folder / name).touch()
    with Collection(folder.parent / "where.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
    with running(folder.parent / "where.lookalike") as service:
        yield service.address


def test_files_that_are_not_indexed_are_counted_and_listed(site):
    page = site.visit()
    page.get_by_role("link", name="3 files not indexed").click()
    section = page.locator(".not-indexed")
    expect(section).to_contain_text("2 files of types Lookalike does not read: .mp4 2.")
    expect(section.locator("li")).to_be_hidden()
    section.get_by_text("1 file that cannot be read").click()
    expect(section.locator("li")).to_contain_text("broken.jpg it is empty")
    shoot(page, "not-indexed")


BOXES = "**/search/boxes"


def test_results_stay_while_frames_arrive_and_a_second_click_hides_them(site):
    page = site.visit()
    go(page, f"search?with={page.locator('.tile').first.get_attribute('data-example')}")
    tick, lead, frames, tiles = (
        page.get_by_label("Show matching part"),
        page.locator(".lead"),
        page.locator(".found-here"),
        page.locator(".tile"),
    )
    shown = tiles.count()
    held = []
    page.route(BOXES, lambda route: held.append(route))
    with page.expect_request(BOXES):
        tick.check()
    expect(lead).to_contain_text("framed 0 of 24")
    assert (tiles.count(), frames.count()) == (shown, 0)
    with page.expect_request(BOXES):
        held.pop().continue_()
    expect(lead).to_contain_text("framed 4 of 24")
    assert (tiles.count(), frames.count()) == (shown, 4)
    page.unroute(BOXES)  # this also continues the held request
    expect(lead).to_contain_text("framed 24 of 24")
    expect(frames).to_have_count(shown)
    assert "where=1" in page.url
    shoot(page, "matching-parts")
    tick.uncheck()
    expect(page.locator(".found-here, .pic.whole")).to_have_count(0)
    expect(lead).not_to_contain_text("framed")
    assert tiles.count() == shown
    assert "where" not in page.url.rpartition("?")[2]


def test_frames_are_no_longer_requested_when_the_view_is_left(site):
    page = site.visit()
    item = page.locator(".tile").first.get_attribute("data-example")
    page.route(BOXES, lambda _: None)
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/search/boxes")):
        with page.expect_request(BOXES):
            go(page, f"search?with={item}&where=1")
        go(page, "classes")
