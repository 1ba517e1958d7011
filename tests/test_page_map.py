"""The map on the page: thumbnails, the colours of classes, selecting with a lasso, and new pictures."""

import cv2
import numpy as np
import pytest
from playwright.sync_api import expect

from browser import PHONE, members, needs_browser, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder
from serving import running

pytestmark = needs_browser

PER_KIND = 8
N = 12 * PER_KIND
MARGIN = 24  # pixels around the map at the start

COVER = """() => {
  const canvas = document.createElement("canvas");
  const pen = canvas.getContext("2d", {willReadFrequently: true});
  pen.drawImage(document.querySelectorAll(".map canvas")[1], 0, 0, canvas.width, canvas.height);
  const pixels = pen.getImageData(0, 0, canvas.width, canvas.height).data;
  return pixels.filter((value, at) => at % 4 === 3 && value > 0).length / (pixels.length / 4);
}"""
"""The share of the map that thumbnails cover."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory, read_here):
    folder = tmp_path_factory.mktemp("map") / "pictures"
    draw_folder(folder, per_kind=PER_KIND)
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
        for kind in ("house", "night"):
            collection.classes.add(kind, sorted((folder / kind).iterdir()))
        collection.map()
    return folder


@pytest.fixture(scope="module")
def address(folder):
    with running(folder.parent / "demo.lookalike", roots=(folder,)) as service:
        yield service.address


def wait_until_covered(page, share):
    page.wait_for_function(f"share => ({COVER})() > share", arg=share)


def sheet(page):
    """The box of the map, once it is drawn."""
    wait_until_covered(page, 0.01)
    return page.locator(".map").bounding_box()


def lasso(page, corners):
    box = page.locator(".map").bounding_box()
    for number, (x, y) in enumerate([*corners, corners[0]]):
        page.mouse.move(box["x"] + x, box["y"] + y, steps=2)
        if number == 0:
            page.mouse.down()
    page.mouse.up()


def test_a_lasso_selects_the_pictures_inside_that_the_legend_shows(site, address, folder):
    site.allowed.append("404")  # undo.js is not there yet
    with Collection(folder.parent / "demo.lookalike") as collection:
        x = np.sort(collection.map().x)
    gap = np.diff(x).argmax()
    page = site.visit("map")
    box = sheet(page)
    middle = MARGIN + float(x[gap] + x[gap + 1]) / 2 * (box["width"] - 2 * MARGIN)
    page.get_by_role("button", name="Lasso").click()
    lasso(page, [(20, 20), (20, 2), (middle, 2), (middle, box["height"] - 2), (2, box["height"] - 2), (2, 20)])
    expect(page.locator(".selected")).to_have_text(f"{gap + 1} selected")
    page.keyboard.press("Escape")
    page.locator(".legend").get_by_role("button", name="house").click()
    assert "label=house" in page.url
    page.get_by_role("button", name="Select visible").click()
    expect(page.locator(".selected")).to_have_text(f"{PER_KIND} selected")
    shoot(page, "map-selected-light")
    page.locator(".select-bar").get_by_role("button", name="Label", exact=True).click()
    page.get_by_label("Class name").fill("home")
    page.keyboard.press("Enter")
    expect(page.locator(".note")).to_contain_text(f"Added to home: {PER_KIND} pictures.")
    assert sorted(members(address, "home")) == sorted(members(address, "house"))


def test_zooming_fills_the_map_with_thumbnails_and_never_ends_in_an_empty_place(site):
    page = site.visit("map")
    box = sheet(page)
    for x, y in [(30, 30), (box["width"] - 90, box["height"] - 30), (30, box["height"] - 30)]:
        page.get_by_role("button", name="Show the whole map").click()
        page.mouse.move(box["x"] + x, box["y"] + y)
        for _ in range(12):
            page.mouse.wheel(0, -300)
        wait_until_covered(page, 0.03)
    shoot(page, "map-zoomed-light")


def test_new_pictures_appear_without_a_new_view(site, folder):
    picture = cv2.imread(str(folder / "night" / "night-000.jpg"))
    cv2.imwrite(str(folder / "night" / "new.jpg"), picture[::-1])
    with Collection(folder.parent / "demo.lookalike") as collection:
        collection.add(folder / "night")
    page = site.visit("map")
    expect(page.locator(".follow")).to_contain_text("Updating the map…")
    expect(page.locator(".lead")).to_contain_text(f"{N} pictures of {N + 1}.")
    sheet(page)
    page.get_by_role("button", name="Zoom in").click()
    page.locator(".map").evaluate("map => (map.dataset.same = 'yes')")
    expect(page.locator(".lead")).to_contain_text(f"{N + 1} pictures.")
    expect(page.locator(".follow")).to_be_hidden()
    expect(page.locator(".map[data-same]")).to_be_visible()


def test_keys_and_taps_show_a_picture_and_open_it(site):
    page = site.visit("map")
    sheet(page)
    page.keyboard.press("ArrowRight")  # moves the focus from the page to the map
    expect(page.locator(".map canvas").last).to_be_focused()
    card, chosen = page.locator(".map-card"), set()
    for key in ("ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown"):  # the first key chooses the picture in the middle
        page.keyboard.press(key)
        expect(card).to_be_visible()
        chosen.add(card.get_attribute("href"))
        page.locator(".map canvas").last.hover()
        page.mouse.move(0, 0)
        expect(card).to_be_hidden()
    assert len(chosen) == 1
    page.keyboard.press("ArrowRight")
    expect(card).to_contain_text(".jpg")
    page.keyboard.press("Enter")
    expect(page.locator(".large")).to_be_visible()
    page = site.visit("map", size=PHONE, touch=True)
    box = sheet(page)
    taps = ((x, y) for y in range(30, int(box["height"]), 30) for x in range(30, int(box["width"]) - 60, 30))
    while "aimed" not in (page.locator(".map canvas").last.get_attribute("class") or ""):
        x, y = next(taps)
        page.touchscreen.tap(box["x"] + x, box["y"] + y)
    expect(page.locator(".map-card")).to_contain_text(".jpg")
    shoot(page, "map-card-phone")
    page.touchscreen.tap(box["x"] + x, box["y"] + y)
    expect(page.locator(".large")).to_be_visible()
