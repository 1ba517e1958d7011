"""The page's views for looking closely: duplicates, the full-screen viewer, and pictures side by side."""

import json
import urllib.request

import pytest
from PIL import Image, ImageOps
from playwright.sync_api import expect

from browser import PHONE, axe_violations, needs_browser, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder
from serving import running

pytestmark = needs_browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Synthetic pictures with copies of one: a smaller one, a crop and a mirrored one. No files are identical."""
    folder = tmp_path_factory.mktemp("viewer") / "pictures"
    draw_folder(folder, per_kind=3)
    (folder / "copies").mkdir()
    with Image.open(folder / "house" / "house-000.jpg") as photo:
        large = photo.resize((2000, 1500), Image.Resampling.LANCZOS)
    exif = Image.Exif()
    exif[0x0110], exif[0x0132] = "NIKON D90", "2019:05:12 10:11:12"
    exif.get_ifd(0x8769).update({0x829A: 1 / 250, 0x829D: 5.6, 0x8827: 200})
    exif.get_ifd(0x8825).update({1: "N", 2: (48.0, 8.0, 15.0), 3: "W", 4: (11.0, 34.0, 30.0)})
    large.save(folder / "house" / "house-000.jpg", quality=95, exif=exif)
    large.resize((400, 300)).save(folder / "copies" / "small.jpg")
    large.crop((200, 100, 1800, 1300)).save(folder / "copies" / "part.jpg")
    ImageOps.mirror(large).resize((600, 450)).save(folder / "copies" / "mirror.jpg")
    return folder


@pytest.fixture(scope="module")
def address(folder, read_here):
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
        for tier in ("same", "edited"):
            collection.duplicates(tier)
    with running(folder.parent / "demo.lookalike", roots=(folder,)) as service:
        yield service.address


def test_duplicates_open_at_the_first_type_that_has_groups(site):
    page = site.visit("duplicates")
    expect(page.locator('.tabs [aria-current="true"]')).to_have_text("Same photo 1")
    expect(page.locator(".tabs a")).to_have_text(["Identical 0", "Same photo 1", "Edited copy 1", "Similar"])
    expect(page.locator(".group [data-focus]")).to_have_count(3)
    page.get_by_role("link", name="Identical").click()
    expect(page.locator(".empty p").first).to_have_text("No identical files found. There are others:")
    shoot(page, "duplicates-none-light")
    page.get_by_role("link", name="Edited copy: 1 group").click()
    expect(page.locator('.tabs [aria-current="true"]')).to_have_text("Edited copy 1")


def item(address, name):
    with urllib.request.urlopen(f"{address}/api/v1/items?path=*{name}") as answer:
        (found,) = json.load(answer)["items"]
    return found["id"]


def boxes(page):
    """The places of the pictures in their panes, as shares of the panes."""
    return page.evaluate("""() => [...document.querySelectorAll('.pane')].map((pane) => {
      const [outer, inner] = [pane, pane.querySelector('.frame > *')].map((one) => one.getBoundingClientRect());
      return [(inner.x - outer.x) / outer.width, (inner.y - outer.y) / outer.height, inner.width / outer.width];
    })""")


def test_a_rule_selects_copies_but_not_crops_or_reference_folders(site, folder):
    page = site.visit("duplicates?tier=same")
    captions = page.locator(".group .size b")
    expect(captions).to_have_text(["Largest", "Crop of the largest", "Smaller copy, 4 % of the pixels"])
    boxes = [page.get_by_label(f"Select {name}") for name in ("house-000.jpg", "part.jpg", "small.jpg")]
    submit = page.get_by_role("button", name="Select all copies")
    submit.click()
    expect(page.locator(".take-out")).to_contain_text("1 picture selected. In 1 group")
    assert [box.is_checked() for box in boxes] == [False, False, True]
    page.get_by_label("Select crops too").check()
    submit.click()
    expect(boxes[0]).to_be_disabled()
    expect(page.locator(".group")).to_contain_text("Stays: last copy")
    shoot(page, "duplicates-rule-light")
    page.get_by_text("Reference folders").click()
    page.get_by_label("Pictures in these folders").fill(str(folder / "copies"))
    submit.click()
    expect(page.locator(".note")).to_contain_text("No copies to select.")
    expect(boxes[2]).not_to_be_checked()
    page.locator(".rule select").select_option("folder")
    page.get_by_label("Folder to keep").fill("/no/such")
    submit.click()
    expect(page.locator(".note.problem")).to_contain_text("no pictures from /no/such")
    site.allowed.append("422")
    assert axe_violations(page) == []


def test_a_crop_is_compared_where_it_belongs_and_zoom_is_synchronised(site):
    page = site.visit("duplicates?tier=same")
    page.get_by_role("link", name="Compare").nth(1).click()  # the crop; the first one compares all pictures
    expect(page.locator(".pane img")).to_have_count(2)
    page.wait_for_function("() => [...document.querySelectorAll('.pane img')].every((one) => one.naturalWidth)")
    whole, part = boxes(page)
    assert part[2] / whole[2] == pytest.approx(0.8, abs=0.01)
    assert (part[0] - whole[0]) / whole[2] == pytest.approx(0.1, abs=0.01)
    page.locator(".pane").first.hover(position={"x": 100, "y": 100})
    page.mouse.wheel(0, -400)
    page.mouse.down()
    page.mouse.move(400, 400, steps=3)
    page.mouse.up()
    moved, moved_part = boxes(page)
    assert moved[2] / whole[2] > 2
    assert moved_part[2] / moved[2] == pytest.approx(0.8, abs=0.01)
    assert (moved_part[0] - moved[0]) / moved[2] == pytest.approx(0.1, abs=0.01)
    page.keyboard.press("0")
    assert boxes(page)[0] == pytest.approx(whole, abs=0.01)
    shoot(page, "compare-light")
    assert axe_violations(page) == []
    page.get_by_role("button", name="Difference").click()
    expect(page.locator("canvas")).to_be_visible()
    outside, inside = page.evaluate("""() => {
      const canvas = document.querySelector("canvas"), { width, height } = canvas;
      const { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
      return [0.03, 0.5].map((x) => [...data.slice(4 * (height / 2 * width + x * width)).slice(0, 4)]);
    }""")
    assert outside[3] == 0  # only the part that both show
    assert inside[3] == 255
    assert max(inside[:3]) < 32
    shoot(page, "compare-difference-light")


def test_the_viewer_zooms_shows_details_and_returns_the_focus(site, address):
    page = site.visit("?path=house")
    start = page.locator(".grid [data-index='0'] a")
    start.focus()
    page.keyboard.press("f")
    viewer = page.get_by_role("dialog")
    expect(viewer).to_contain_text("house-000.jpg1 of 3")
    picture = viewer.locator(".pane img")
    expect(picture).to_have_attribute("src", f"/api/v1/items/{item(address, 'house-000.jpg')}/image?side=1600")
    page.keyboard.press("1")
    expect(viewer.get_by_label("Zoom", exact=True)).to_have_text("100 %")
    assert picture.bounding_box()["width"] == pytest.approx(2000, abs=1)
    expect(picture).to_have_attribute("src", f"{address}/api/v1/items/{item(address, 'house-000.jpg')}/image")
    left = picture.bounding_box()["x"]
    page.keyboard.press("ArrowLeft")  # moves the enlarged picture
    assert picture.bounding_box()["x"] == left + 80
    page.keyboard.press("0")
    page.keyboard.press("i")
    for text in ("NIKON D90", "f/5.6, 1/250 s, ISO 200", "48.13750, -11.57500", "May 12, 2019"):
        expect(viewer.get_by_label("Details").last).to_contain_text(text)
    assert axe_violations(page) == []
    shoot(page, "viewer-light")
    page.keyboard.press("ArrowRight")
    expect(viewer).to_contain_text("house-001.jpg2 of 3")
    expect(viewer.get_by_label("Zoom", exact=True)).not_to_have_text("100 %")  # it fits again
    page.keyboard.press("Escape")
    expect(viewer).to_have_count(0)
    expect(start).to_be_focused()
    page.locator(".grid [data-index='2']").hover()
    page.locator(".grid [data-index='2'] .full-screen").click()
    expect(viewer).to_contain_text("house-002.jpg3 of 3")
    expect(viewer.get_by_role("button", name="Next picture")).to_be_hidden()


def test_selected_pictures_are_compared(site):
    page = site.visit("?path=house")
    for index in range(3):
        page.locator(f".grid [data-index='{index}'] a").focus()
        page.keyboard.press("x")
    page.get_by_role("button", name="Compare").click()
    expect(page.locator(".pane img")).to_have_count(3)
    expect(page.get_by_role("button", name="Difference")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator(".selected")).to_have_text("3 selected")


def test_on_a_phone_a_tap_opens_the_viewer_two_fingers_zoom_and_a_swipe_shows_the_next_picture(site):
    page = site.visit("?path=house", size=PHONE, touch=True, theme="dark")
    page.locator(".grid [data-index='0'] a").tap()
    page.locator(".sheet").tap()
    viewer = page.get_by_role("dialog")
    expect(viewer.get_by_role("heading")).to_have_text("house-000.jpg")
    before = viewer.locator(".pane img").bounding_box()["width"]
    finger = page.context.new_cdp_session(page)

    def touch(kind, *places):
        points = [{"x": x, "y": 370, "id": number} for number, x in enumerate(places)]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    touch("touchStart", 150, 210)
    touch("touchMove", 120, 240)
    touch("touchEnd")
    assert viewer.locator(".pane img").bounding_box()["width"] == pytest.approx(2 * before, rel=0.05)
    shoot(page, "viewer-phone-dark")
    assert page.evaluate("document.querySelector('.viewer header').scrollWidth") <= PHONE[0]
    viewer.get_by_role("button", name="Fit").tap()
    touch("touchStart", 250)
    touch("touchMove", 120)
    touch("touchEnd")
    expect(viewer).to_contain_text("house-001.jpg2 of 3")
    page.keyboard.press("Escape")  # the browser can ignore a tap after a fast swipe
    expect(viewer).to_have_count(0)
    expect(page.locator(".large h1")).to_have_text("house-000.jpg")
