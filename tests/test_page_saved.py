"""Saved searches on the page: save, see what is new, mark as seen, rename, delete."""

import shutil
import subprocess
import sys

import pytest
from PIL import Image
from playwright.sync_api import expect

from browser import PHONE, Site, axe_violations, go, needs_browser, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder
from serving import running

pytestmark = [needs_browser, pytest.mark.usefixtures("read_here")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, read_here):
    folder = tmp_path_factory.mktemp("saved") / "pictures"
    draw_folder(folder, per_kind=5)
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
        collection.classes.add("fish", list((folder / "fish").iterdir()))
    return folder


@pytest.fixture(scope="module")
def address(folder):
    with running(folder.parent / "demo.lookalike") as service:
        yield service.address


def test_a_saved_search_shows_what_is_new_at_a_lasting_address(site, folder):
    page = site.visit("search?words=fish")
    page.get_by_role("button", name="Save this search").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_label("Name")).to_have_value("fish")
    dialog.get_by_label("Name").fill("my fish")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("my fish")
    expect(page.locator(".lead p.quiet").last).to_contain_text("“fish”; the 200 best · 5 results, none new since")
    address = page.url
    extra = folder.parent / "extra" / "fish"
    extra.mkdir(parents=True)
    for number, path in enumerate(sorted((folder / "fish").iterdir())[:2]):
        shutil.copy(path, extra / f"new-{number}.jpg")
        with (extra / f"new-{number}.jpg").open("ab") as file:
            file.write(b"\0")
    with Collection(folder.parent / "demo.lookalike") as collection:
        collection.add(extra.parent)
    page.goto("about:blank")
    page.goto(address)
    expect(page.locator(".lead p.quiet").last).to_contain_text("7 results, 2 new since")
    expect(page.locator(".grid .sure")).to_have_count(2)
    shoot(page, "saved-light")
    assert axe_violations(page) == []
    page.get_by_label("Only new results (2)").check()
    expect(page.locator(".grid .cell")).to_have_count(2)
    go(page, "sessions")
    expect(page.locator(".cards .fresh")).to_have_text("2 new")
    assert axe_violations(page) == []
    page.locator(".card").click()
    page.get_by_role("button", name="Mark as seen").click()
    expect(page.locator(".lead p.quiet").last).to_contain_text("none new")
    with page.expect_download() as download:
        page.get_by_role("button", name="Export").click()
        page.get_by_role("button", name="Table (CSV)").click()
    assert len(download.value.path().read_text().splitlines()) == 8
    page.get_by_role("link", name="Open as a search").click()
    expect(page.locator("h1")).to_have_text("“fish”")


def test_a_saved_search_is_renamed_and_deleted_on_a_phone(site):
    page = site.visit("search?words=house&within=0.9", size=PHONE, touch=True, theme="dark")
    page.get_by_role("button", name="Save this search").tap()
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).tap()
    expect(page.locator("h1")).to_have_text("house")
    expect(page.locator(".lead p.quiet").last).to_contain_text("score up to 0.9")
    shoot(page, "saved-phone")
    assert axe_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.get_by_role("button", name="Rename").tap()
    page.get_by_role("dialog").get_by_label("Name").fill("houses")
    page.keyboard.press("Enter")
    expect(page.locator("h1")).to_have_text("houses")
    page.get_by_role("button", name="Delete").tap()
    page.get_by_role("dialog").get_by_role("button", name="Delete").tap()
    expect(page.locator("h1")).to_have_text("Sessions")
    expect(page.locator(".card b", has_text="houses")).to_have_count(0)


def test_a_link_to_a_search_with_an_upload_works_after_a_restart(browser, folder, tmp_path):
    own = shutil.copytree(folder.parent / "demo.lookalike", tmp_path / "own.lookalike")
    Image.effect_mandelbrot((200, 150), (-2, -1, 1, 1), 60).convert("RGB").save(tmp_path / "new.jpg")
    link, shown = "", []
    command = [sys.executable, "-m", "lookalike", "-c", str(own), "serve", "--port", "0"]
    for _ in range(2):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                site = Site(browser, process.stdout.readline().split()[-1].rstrip("/"))
                page = site.visit(link)
                if not link:
                    with page.expect_file_chooser() as chooser:
                        page.get_by_role("button", name="Search with a picture").click()
                    chooser.value.set_files(tmp_path / "new.jpg")
                expect(page.locator("main h1")).to_have_text("Similar to this picture")
                page.wait_for_function("() => document.querySelector('#tray img')?.naturalWidth")
                link = page.evaluate("location.hash").removeprefix("#/")
                tiles = page.locator(".grid [data-focus]")
                expect(tiles.nth(5)).to_be_visible()
                shown.append([tiles.nth(place).get_attribute("data-id") for place in range(6)])
                assert not site.complaints
                site.close()
            finally:
                process.terminate()
    assert "with=up" in link  # an upload, not a picture of the collection
    assert shown[0] == shown[1]
