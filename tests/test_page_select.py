"""Selecting pictures on the page: by mouse, touch and keys, and the actions for a selection."""

import json
import urllib.request
import zipfile

import pytest
from playwright.sync_api import expect

from browser import PHONE, axe_violations, go, members, needs_browser, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder
from serving import running

pytestmark = needs_browser

PER_KIND = 6


@pytest.fixture(scope="module")
def address(tmp_path_factory, read_here):
    folder = tmp_path_factory.mktemp("select") / "pictures"
    draw_folder(folder, per_kind=PER_KIND)
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
        collection.classes.add("house", [folder / "house" / f"house-00{i}.jpg" for i in range(3)])
    with running(folder.parent / "demo.lookalike") as service:
        yield service.address


def cell(page, index):
    return page.locator(f".grid [data-index='{index}']")


def check(page, index):
    cell(page, index).hover()
    cell(page, index).locator(".check").click()


def selected(page, n):
    expect(page.locator(".selected")).to_have_text(f"{n} selected")
    expect(page.locator(".select-bar")).to_be_visible()


def button(page, name):
    return page.locator(".select-bar").get_by_role("button", name=name, exact=True)


def test_check_marks_shift_and_clicks_select_and_the_selection_gets_a_label(site, address):
    site.allowed.append("404")  # undo.js is not there yet
    page = site.visit()
    check(page, 1)
    selected(page, 1)
    expect(button(page, "Compare")).to_be_disabled()
    cell(page, 4).locator("a").click(modifiers=["Shift"])
    selected(page, 4)
    cell(page, 2).locator("a").click()  # while something is selected, a click selects
    selected(page, 3)
    expect(cell(page, 2)).to_have_attribute("aria-selected", "false")
    shoot(page, "select-light")
    assert axe_violations(page) == []
    button(page, "Label").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="house")).to_be_visible()  # a suggestion
    dialog.get_by_label("Class name").fill("mine")
    page.keyboard.press("Enter")
    expect(page.locator(".note")).to_contain_text("Added to mine: 3 pictures.")
    expect(page.locator(".select-bar")).to_have_count(0)
    assert len(members(address, "mine")) == 3


def test_pictures_are_removed_from_a_class_after_confirmation(site, address):
    site.allowed.append("404")
    page = site.visit("class/house")
    check(page, 0)
    button(page, "Remove from house").click()
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert len(members(address, "house")) == 3
    button(page, "Remove from house").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove", exact=True).click()
    expect(page.locator(".note")).to_contain_text("Removed from house: 1 picture.")
    expect(page.locator(".grid .cell")).to_have_count(2)


def test_a_rectangle_selects_and_the_files_are_downloaded(site, tmp_path):
    page = site.visit()
    start, stop = cell(page, 1).bounding_box(), cell(page, 2).bounding_box()
    page.mouse.move(start["x"] + 90, start["y"] + 60)
    page.mouse.down()
    page.mouse.move(stop["x"] + 60, stop["y"] + stop["height"] + 60, steps=4)
    expect(page.locator(".lasso")).to_be_visible()
    page.mouse.up()
    expect(page.locator(".lasso")).to_have_count(0)
    selected(page, 4)
    button(page, "Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Original files").click()
    download.value.save_as(tmp_path / "saved.zip")
    with zipfile.ZipFile(tmp_path / "saved.zip") as archive:
        assert len(archive.namelist()) == 4
        assert archive.testzip() is None
    button(page, "Download").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Table (CSV)").click()
    assert len(download.value.path().read_text().splitlines()) == 5
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    button(page, "Copy paths").click()
    expect(page.locator(".note")).to_contain_text("Copied the paths of 4 pictures.")
    assert page.evaluate("navigator.clipboard.readText()").count("/pictures/") == 4


def test_keys_select_everything_and_a_session_starts_from_some(site):
    page = site.visit()
    page.keyboard.press("ArrowRight")
    expect(cell(page, 0).locator("a")).to_be_focused()
    page.keyboard.press("x")
    selected(page, 1)
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    selected(page, 3)
    page.keyboard.press("Shift+ArrowLeft")
    selected(page, 2)
    expect(button(page, "Compare")).to_be_enabled()
    page.keyboard.press("Control+a")
    selected(page, 12 * PER_KIND)
    page.keyboard.press("Escape")
    expect(page.locator(".select-bar")).to_be_hidden()
    expect(cell(page, 1).locator("a")).to_be_focused()  # the focus does not move
    page.keyboard.press(" ")
    page.keyboard.press("Enter")  # opens the picture, and Back restores the selection
    expect(page.locator(".large")).to_be_visible()
    page.go_back()
    selected(page, 1)
    button(page, "Start a session").click()
    expect(page.locator(".judge .tile")).to_have_count(9)


def test_a_long_press_selects_on_a_phone_and_taps_add_to_it(site):
    page = site.visit(size=PHONE, touch=True)
    finger = page.context.new_cdp_session(page)
    box = cell(page, 1).bounding_box()
    point = {"x": box["x"] + 50, "y": box["y"] + 40}
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [point]})
    selected(page, 1)
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    cell(page, 2).locator("a").tap()
    selected(page, 2)
    shoot(page, "select-phone")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE[0]


def test_an_empty_class_is_created(site):
    page = site.visit("classes")
    page.get_by_role("button", name="New class").click()
    page.get_by_label("Class name").fill("later")
    page.keyboard.press("Enter")
    expect(page.locator("main h1")).to_have_text("later")
    expect(page.locator(".empty")).to_contain_text("no pictures yet")
    go(page, "classes")
    expect(page.locator(".card", has_text="later")).to_be_visible()


def test_the_tray_and_the_navigation_take_at_most_a_tenth_of_a_phone(site, address):
    with urllib.request.urlopen(f"{address}/api/v1/items?limit=3") as answer:
        ids = [item["id"] for item in json.load(answer)["items"]]
    page = site.visit(f"?with={ids[0]}&with={ids[1]}&without={ids[2]}", size=(390, 844), touch=True)
    tray = page.locator("#tray")
    bars = [tray, page.locator(".top nav")]
    assert sum(bar.bounding_box()["height"] for bar in bars) <= 84.4
    expect(tray.locator("li").first).to_be_hidden()
    shoot(page, "tray-closed-phone")
    tray.get_by_role("button", name="3 examples").tap()
    shoot(page, "tray-open-phone")
    tray.get_by_role("button", name="Remove this negative example").tap()
    expect(tray.locator("li")).to_have_count(2)
    expect(tray.locator("li").first).to_be_visible()  # it stays open
    boxes = [one.bounding_box() for one in tray.locator(".toggle, .actions > *").all()]
    for i, a in enumerate(boxes):
        for b in boxes[i + 1 :]:  # no overlap
            assert (
                a["x"] + a["width"] <= b["x"] + 0.5
                or b["x"] + b["width"] <= a["x"] + 0.5
                or a["y"] + a["height"] <= b["y"] + 0.5
                or b["y"] + b["height"] <= a["y"] + 0.5
            )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
