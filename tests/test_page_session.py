"""The page in a real browser: examples in the tray, and the view of a session."""

import json
import re
import urllib.request

import pytest
from playwright.sync_api import expect

from browser import end, needs_browser, serve, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder

pytestmark = needs_browser


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page-session") / "pictures"
    draw_folder(folder, per_kind=8)
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
    process, address = serve(folder.parent / "demo.lookalike")
    yield address
    end(process)


SLOW = """() => {
  const fetch = window.fetch;
  window.fetch = (...call) => new Promise((done) => setTimeout(done, 400)).then(() => fetch(...call));
}"""
"""Delay responses so that the page shows that it is loading."""


def examples(page, side):
    """The positive ("with") or negative ("without") examples in the address."""
    return re.findall(rf"[?&]{side}=(\w+)", page.evaluate("location.hash"))


def test_plus_and_minus_mark_pictures_and_keep_the_view_the_scroll_position_and_the_focus(site):
    page = site.visit()
    tiles = page.locator(".grid [data-focus]")
    expect(tiles.nth(1)).to_be_visible()
    for key in ("ArrowDown", "End", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    focused = "document.activeElement.dataset.id"
    picture, y = page.evaluate(focused), page.evaluate("scrollY")
    assert y > 0
    page.evaluate("document.querySelector('.grid').kept = true")
    page.keyboard.press("+")
    expect(page.locator("#tray li.with")).to_have_count(1)
    assert page.evaluate(focused) == picture
    page.keyboard.press("ArrowRight")
    other = page.evaluate(focused)
    page.keyboard.press("-")
    expect(page.locator("#tray li.without")).to_have_count(1)
    assert (examples(page, "with"), examples(page, "without")) == ([picture], [other])
    assert page.evaluate(focused) == other
    assert page.evaluate("document.querySelector('.grid').kept")  # not rebuilt
    assert page.evaluate("scrollY") >= y
    marked = page.locator(f'.tile[data-mark="yes"] [data-id="{picture}"]')
    expect(marked).to_have_attribute("aria-label", re.compile("positive example"))
    expect(page.locator(f'.tile[data-mark="no"] [data-id="{other}"] .badge')).to_have_text("Negative")
    assert page.evaluate("document.activeElement.getBoundingClientRect().bottom <= tray.getBoundingClientRect().top")
    shoot(page, "tray-marks-light")
    page.keyboard.press("Enter")  # the links of the grid have the new examples
    expect(page.locator(".view.large")).to_be_visible()
    expect(page.locator("#tray li")).to_have_count(2)
    page.go_back()
    expect(page.locator(".tile .badge")).to_have_count(2)


def test_an_example_of_a_search_keeps_the_focus_on_its_picture(site, address):
    with urllib.request.urlopen(f"{address}/api/v1/items?path=*beach-000.jpg") as answer:
        beach = json.load(answer)["items"][0]["id"]
    page = site.visit(f"search?with={beach}")
    tiles = page.locator(".grid [data-focus]")
    tiles.nth(2).focus()
    picture = page.evaluate("document.activeElement.dataset.id")
    page.evaluate("document.querySelector('.grid').old = true")
    page.evaluate(SLOW)
    page.keyboard.press("+")
    page.wait_for_function("() => !document.querySelector('.grid').old")
    assert examples(page, "with") == [beach, picture]
    page.wait_for_function(f"() => document.activeElement.dataset.id === '{picture}'")
    page.get_by_role("button", name="Remove this positive example").first.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#tray li")).to_have_count(1)
    assert page.evaluate("tray.contains(document.activeElement)")
