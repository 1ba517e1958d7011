"""Browsing on the page: facets, active filters, the timeline, the folder tree, and the size of the pictures."""

import os
import re

import pytest
from PIL import Image
from playwright.sync_api import expect

from browser import PHONE, axe_violations, needs_browser, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder
from serving import running

pytestmark = needs_browser

PER_KIND = 8
CAMERAS = ("NIKON D90", "iPhone 12")


@pytest.fixture(scope="module")
def address(tmp_path_factory, read_here):
    folder = tmp_path_factory.mktemp("browse") / "Pictures"
    draw_folder(folder, per_kind=PER_KIND)
    for number, path in enumerate(sorted(folder.rglob("*.jpg"))):
        exif = Image.Exif()
        exif[0x0110] = CAMERAS[number % 4 == 0]
        year = 2020 + number % 3
        exif.get_ifd(0x8769)[0x9003] = f"{year}:{1 + number % 5:02d}:03 12:00:00"
        place = folder / str(year) / path.parent.name / path.name
        place.parent.mkdir(parents=True, exist_ok=True)
        Image.open(path).save(place, exif=exif)
        path.unlink()
        os.utime(place, (0, 0))
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
        collection.classes.add("house", sorted(folder.rglob("house-*.jpg"))[:3])
    with running(folder.parent / "demo.lookalike") as service:
        yield service.address


def test_facets_filter_pictures_and_searches_and_a_chip_removes_a_filter(site):
    page = site.visit()
    page.get_by_role("button", name="Filters", exact=True).click()
    panel = page.get_by_role("region", name="Facets")
    panel.get_by_role("link", name="iPhone 12 24").click()
    expect(page.locator(".lead .quiet")).to_have_text("24 of 96 pictures")
    expect(panel.get_by_role("link", name="iPhone 12")).to_be_focused()
    expect(panel.get_by_role("link", name="NIKON D90 72")).to_be_visible()  # the other value can still be chosen
    panel.get_by_role("link", name="2021 8").click()
    expect(page.locator(".lead .quiet")).to_have_text("8 of 96 pictures")
    expect(page).to_have_url(re.compile(r"#/\?camera=iPhone\+12&year=2021$"))
    assert axe_violations(page) == []
    shoot(page, "browse-facets")
    page.locator("#search").fill("house")
    page.locator("#search").press("Enter")
    expect(page.get_by_role("list", name="Active filters")).to_contain_text("Camera: iPhone 12")
    cells = page.locator(".grid .cell")
    expect(cells).to_have_count(1)
    page.get_by_text("Show scores").click()
    expect(page.locator(".grid .sure").first).to_have_text(re.compile(r"^\d\.\d{3}$"))
    page.get_by_role("link", name="Remove the filter Camera: iPhone 12").click()
    expect(page).to_have_url(re.compile(r"#/search\?year=2021&words=house&scores=1$"))
    expect(cells).not_to_have_count(1)
    page.go_back()
    expect(page).to_have_url(re.compile(r"camera=iPhone"))
    page.get_by_role("link", name="Clear filters").click()
    expect(page.get_by_role("list", name="Active filters")).to_have_count(0)


def test_the_timeline_has_months_and_a_slider_by_mouse_and_keys(site, address):
    page = site.visit("?order=taken")
    headings = page.get_by_role("rowheader")
    expect(headings.first).to_have_text(re.compile(r"^May 2022\d pictures$"))
    slider = page.get_by_role("slider", name="Timeline")
    expect(slider).to_have_attribute("aria-valuetext", "May 2022")
    slider.focus()
    page.keyboard.press("ArrowDown")
    expect(slider).to_have_attribute("aria-valuetext", "April 2022")
    head = page.locator("#top").bounding_box()["height"]
    april = headings.filter(has_text="April 2022").bounding_box()
    assert head <= april["y"] < head + 60
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", "January 2020")
    expect(headings.filter(has_text="January 2020")).to_be_in_viewport()
    box = slider.bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    expect(slider).to_have_attribute("aria-valuetext", re.compile("2021"))
    assert axe_violations(page) == []
    shoot(page, "browse-timeline")
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0)")
    page.get_by_role("slider", name="Scale of the pictures").fill("310")
    expect(page.locator(".grid .row").first.locator(".cell")).to_have_count(3)
    page.locator(".grid .cell a").first.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    for _ in range(6):  # the focus stays in its column, also from month to month
        page.keyboard.press("ArrowDown")
        expect(page.locator(":focus")).to_be_in_viewport()
        cell = page.locator("[role=gridcell]:focus-within, [role=gridcell]:focus")
        in_row = cell.locator("xpath=..").locator("[role=gridcell]").count()
        if in_row < 3:
            break
        assert cell.get_attribute("aria-colindex") == "3"


def test_the_folder_tree_filters_on_a_phone(site):
    page = site.visit(size=PHONE, touch=True, theme="dark")
    page.get_by_role("button", name="Filters", exact=True).tap()
    dialog = page.get_by_role("dialog", name="Filters")
    tree = dialog.get_by_role("tree", name="Folders")
    folder = tree.get_by_role("treeitem", name="2021, 32 pictures")
    folder.locator(".arrow").tap()
    expect(folder.get_by_role("treeitem").first).to_be_visible()
    folder.press("ArrowRight")
    focused = page.locator(":focus")
    expect(focused).to_have_attribute("role", "treeitem")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(focused).to_have_attribute("aria-expanded", "false")
    assert axe_violations(page) == []
    shoot(page, "browse-phone")
    page.keyboard.press("Enter")
    expect(page.locator(".lead .quiet")).to_have_text("32 of 96 pictures")
    expect(dialog).to_have_count(0)
    expect(page).to_have_url(re.compile(r"#/\?folder=Pictures%2F2021$"))
    page.get_by_role("button", name="Filters", exact=True).tap()
    dialog.get_by_text("Dates").tap()
    dialog.get_by_label("Until").fill("2021-02-28")
    expect(page.locator(".lead .quiet")).not_to_have_text("32 of 96 pictures")
    expect(page.get_by_role("list", name="Active filters")).to_contain_text("Until: 2021-02-28")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
