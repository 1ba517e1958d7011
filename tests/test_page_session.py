"""The page in a real browser: examples in the tray, and the view of a session."""

import json
import re
import shutil
import urllib.request

import pytest
from playwright.sync_api import expect

from browser import Site, go, needs_browser, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder
from lookalike.types import parse_id
from serving import running

pytestmark = needs_browser


@pytest.fixture(scope="module")
def address(tmp_path_factory, read_here):
    folder = tmp_path_factory.mktemp("page-session") / "pictures"
    draw_folder(folder, per_kind=8)
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
    with running(folder.parent / "demo.lookalike") as service:
        yield service.address


SLOW = """() => {
  const fetch = window.fetch;
  window.fetch = (...call) => new Promise((done) => setTimeout(done, 400)).then(() => fetch(...call));
}"""
"""Delay responses so that the page shows that it is loading."""


def first(address, kind):
    """The id of the first picture of a kind."""
    with urllib.request.urlopen(f"{address}/api/v1/items?path=*/{kind}-000.jpg") as answer:
        return json.load(answer)["items"][0]["id"]


def start_session(address, **body):
    """Start a session through the API."""
    headers = {"Content-Type": "application/json", "X-Lookalike": "1"}
    request = urllib.request.Request(f"{address}/api/v1/sessions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)["id"]


def examples(page, side):
    """The positive ("with") or negative ("without") examples in the address."""
    return re.findall(rf"[?&]{side}=(\w+)", page.evaluate("location.hash"))


def test_a_session_whose_only_example_was_removed_has_no_empty_tiles(browser, shared, tmp_path):
    with running(shutil.copytree(shared("color"), tmp_path / "own.lookalike")) as service:
        item = first(service.address, "fish")
        session = start_session(service.address, examples=[{"id": item}])
        service.collection.remove(parse_id(item))
        site = Site(browser, service.address)
        page = site.visit("sessions")
        page.wait_for_function(
            "() => performance.getEntriesByType('resource').some(({name}) => /thumbnail/.test(name))"
        )
        expect(page.locator(".card-thumbnails img")).to_have_count(0)
        page = site.visit(f"session/{session}")
        expect(page.locator(".asking .empty:visible")).to_contain_text("Start a new session with other examples.")
        expect(page.locator(".judge .pic")).to_have_count(0)
        expect(page.locator(".note.problem")).to_contain_text("no positive example in the collection")
        site.close()


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
    beach = first(address, "beach")
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


def test_an_opened_session_repeats_its_questions_and_shows_its_examples(site, address):
    session = start_session(
        address, examples=[{"id": first(address, "fish")}], without=[{"id": first(address, "house")}]
    )
    asked = "() => [...document.querySelectorAll('.judge [data-focus]')].map((one) => one.dataset.id)"
    page = site.visit(f"session/{session}")
    expect(page.locator(".judge .tile")).to_have_count(9)
    expect(page.locator(".started-from li.yes img")).to_have_attribute("alt", "Positive example: fish-000.jpg")
    expect(page.locator(".started-from li.no img")).to_have_attribute("alt", "Negative example: house-000.jpg")
    questions = page.evaluate(asked)
    page.locator(".judge .answers .no").nth(2).click()
    expect(page.locator('.judge [data-mark="no"]')).to_have_count(1)
    other = site.visit(f"session/{session}")  # another browser
    expect(other.locator(".judge .tile")).to_have_count(9)
    assert other.evaluate(asked) == questions
    expect(other.locator(".timer")).to_contain_text("Round 1")
    expect(other.locator('.judge [data-mark="no"]')).to_have_count(1)
    expect(other.locator(".judge [data-focus]").first).to_be_focused()
    go(other, "sessions")
    expect(other.locator(f'.card[href$="session/{session}"]')).to_contain_text("1 round ")


def test_the_bar_shows_the_share_found_of_the_likely_number_and_a_band_for_its_range(site, address):
    page = site.visit("sessions")

    def estimate(route):
        answer = route.fetch().json()
        route.fulfill(json=answer | {"estimate": {"value": 4, "low": 2, "high": 40}})

    page.route("**/round", estimate)
    go(page, "session/" + start_session(address, examples=[{"id": first(address, "fish")}]))
    expect(page.locator(".gauge")).to_contain_text("1 of about 4")
    expect(page.get_by_role("meter", name="Found")).to_have_attribute("aria-valuetext", "1 of about 4")
    left, right = (
        page.evaluate(
            """end => Object.fromEntries(["track", "fill", "range"].map(
                (name) => [name, document.querySelector(`.bar .${name}`).getBoundingClientRect()[end]]))""",
            end,
        )
        for end in ("left", "right")
    )
    likely = right["track"] - left["track"]
    assert (right["fill"] - left["fill"]) / likely == pytest.approx(1 / 4, abs=0.01)
    assert (left["range"] - left["track"]) / likely == pytest.approx(2 / 4, abs=0.01)
    assert right["range"] > right["track"]
    expect(page.locator(".bar.open")).to_have_count(1)  # the band fades out, because 40 is far beyond its end
