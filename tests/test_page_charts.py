"""The page's charts, and the command palette."""

import json
import re
import urllib.request
import zipfile

import pytest
from playwright.sync_api import expect

from browser import axe_violations, needs_browser, shoot, wait_until_idle
from lookalike import Collection
from lookalike.images.demo import draw_folder
from serving import running

pytestmark = needs_browser


@pytest.fixture(scope="module")
def address(tmp_path_factory, read_here):
    """A collection with classes, among them one whose pictures look like those of others."""
    folder = tmp_path_factory.mktemp("charts") / "pictures"
    draw_folder(folder, per_kind=8)
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
        collection.import_labels(folder)
        flower = folder / "flower" / "flower-000.jpg"
        for tier in ("same", "edited"):
            collection.duplicates(tier, workers=1)
        collection.classes.add("mixed", [result.id for result in collection.search(str(flower), k=6)[1:]])
    with running(folder.parent / "demo.lookalike") as service:
        yield service.address


def get(address, place):
    with urllib.request.urlopen(f"{address}/api/v1{place}") as answer:
        return json.load(answer)


def test_classes_show_their_sizes_and_the_pictures_that_are_confused(site, address):
    page = site.visit("classes")
    bars = page.get_by_role("list", name="Pictures per class").get_by_role("listitem")
    expect(bars.first).to_contain_text("8 pictures")
    expect(bars.last).to_contain_text("mixed5 pictures")
    page.get_by_role("button", name="Evaluate the classes").click()
    cells = page.get_by_role("region", name="Confused classes").get_by_role("button")
    expect(cells.first).to_be_visible()
    (job,) = (job for job in get(address, "/jobs")["jobs"] if job["kind"] == "evaluate")
    pairs = job["result"]["confused"]
    assert sum(cells.nth(i).locator("b").inner_text() != "0" for i in range(cells.count())) == len(pairs)
    shoot(page, "classes-charts-light")
    cells.first.click()
    pictures = page.locator(".gallery a")
    expect(pictures.first).to_be_visible()
    hrefs = [pictures.nth(i).get_attribute("href") for i in range(pictures.count())]
    assert [href.partition("?")[0].removeprefix("#/item/") for href in hrefs] in [pair["ids"] for pair in pairs]


def test_labelled_pictures_are_split_and_downloaded_as_class_folders(site, address):
    page = site.visit("classes")
    page.get_by_role("button", name="Split", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_label("Training, %").fill("60")
    dialog.get_by_role("button", name="Split").click()
    row = dialog.get_by_role("row", name="Pictures")
    expect(row).to_be_visible()
    numbers = [int(text) for text in row.get_by_role("cell").all_inner_texts()]
    assert sum(numbers) == len(get(address, "/items?labelled=true&limit=1000")["items"])
    assert numbers[0] == max(numbers)
    assert axe_violations(page) == []
    shoot(page, "classes-split-light")
    with page.expect_download() as download:
        dialog.get_by_role("link", name="Zip with class folders: Training").click()
    with zipfile.ZipFile(download.value.path()) as archive:
        assert any(name.startswith("flower/") for name in archive.namelist())


def test_a_split_waits_for_the_duplicates_and_is_computed_once(site):
    page = site.visit("classes")
    requests = []

    def with_similar(route):  # whose groups were never computed
        requests.append(route.request.post_data_json)
        route.continue_(post_data=json.dumps(requests[-1] | {"together": "alike"}))

    page.route("**/api/v1/split", with_similar)
    page.get_by_role("button", name="Split", exact=True).click()
    dialog = page.get_by_role("dialog")
    dialog.get_by_role("button", name="Split").click()
    expect(dialog.get_by_role("row", name="Pictures")).to_be_visible()
    wait_until_idle(page)
    assert len(requests) == 2


def test_the_cut_off_of_a_search_leaves_out_results_and_is_part_of_the_link(site, address):
    picture = get(address, "/items?path=*/flower-000.jpg")["items"][0]["id"]
    page = site.visit(f"search?with={picture}")
    grid = page.get_by_role("grid")
    page.get_by_text("Scores and cut-off").click()
    slider = page.get_by_role("slider", name="Highest score")
    slider.press("End")
    before = int(grid.get_attribute("aria-rowcount"))
    for _ in range(5):
        slider.press("PageDown")
    expect(slider).to_be_focused()
    page.wait_for_function("before => document.querySelector('.grid').ariaRowCount < before", arg=before)
    kept = page.locator(".chart .inside").count()
    assert 0 < kept < page.locator(".chart rect").count()
    shoot(page, "search-cutoff-light")
    page.reload()
    expect(page.locator(".chart .inside")).to_have_count(kept)
    page.get_by_role("button", name="Show all").click()
    expect(grid).to_have_attribute("aria-rowcount", str(before))
    assert "within" not in page.evaluate("location.hash")


def test_the_history_of_a_session_shows_how_many_marks_were_matches(site, address):
    body = json.dumps({"label": "flower"}).encode()
    headers = {"Content-Type": "application/json", "X-Lookalike": "1"}
    with urllib.request.urlopen(urllib.request.Request(f"{address}/api/v1/sessions", body, headers)) as answer:
        session = json.load(answer)["id"]
    page = site.visit(f"session/{session}")
    expect(page.locator(".judge .tile")).to_have_count(9)
    page.locator(".judge .answers .yes").nth(0).click()
    page.locator(".judge .answers .no").nth(1).click()
    page.locator(".judge .answers .no").nth(2).click()
    page.get_by_text("Answers so far").click()
    expect(page.get_by_role("img", name="1 of 3 marked pictures is a match.")).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_role("img", name="1 of 2 marked pictures is a match.")).to_be_visible()
    shoot(page, "session-history-light")


def test_the_palette_goes_to_a_class_a_view_or_a_search(site):
    page = site.visit("jobs")
    field = page.get_by_role("combobox", name="Go to")
    page.keyboard.press("Control+k")
    field.fill("flo")
    expect(page.get_by_role("option").first).to_contain_text("flower")
    shoot(page, "palette-light")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="flower")).to_be_visible()
    page.keyboard.press("Control+k")
    field.fill("map")
    expect(page.get_by_role("option", name="View Map")).to_have_attribute("aria-selected", "true")
    field.fill("light dark")
    expect(page.get_by_role("option").first).to_contain_text("Switch between light and dark")
    page.keyboard.press("Enter")
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("Control+k")
    field.fill("sunset")
    page.keyboard.press("ArrowUp")  # the last entry
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("words=sunset"))
    expect(page.locator(".grid a.pic").first).to_be_visible()
    page.keyboard.press("Control+k")
    field.fill("flo pict")  # a folder inside a source
    page.get_by_role("option", name="Folder pictures/flower 8 pictures").click()
    expect(page.locator(".lead .quiet")).to_contain_text("8 of ")
