"""The page's views for looking closely: duplicates, the full-screen viewer, and pictures side by side."""

import pytest
from PIL import Image, ImageOps
from playwright.sync_api import expect

from browser import end, needs_browser, serve, shoot
from lookalike import Collection
from lookalike.images.demo import draw_folder

pytestmark = needs_browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Synthetic pictures with copies of one: a smaller one, a crop and a mirrored one. No files are identical."""
    folder = tmp_path_factory.mktemp("viewer") / "pictures"
    draw_folder(folder, per_kind=3)
    (folder / "copies").mkdir()
    with Image.open(folder / "house" / "house-000.jpg") as photo:
        large = photo.resize((2000, 1500), Image.Resampling.LANCZOS)
    large.save(folder / "house" / "house-000.jpg", quality=95)
    large.resize((400, 300)).save(folder / "copies" / "small.jpg")
    large.crop((200, 100, 1800, 1300)).save(folder / "copies" / "part.jpg")
    ImageOps.mirror(large).resize((600, 450)).save(folder / "copies" / "mirror.jpg")
    return folder


@pytest.fixture(scope="module")
def address(folder):
    with Collection(folder.parent / "demo.lookalike", create=True) as collection:
        collection.add(folder, recipes=["color"])
        for tier in ("same", "edited"):
            collection.duplicates(tier)
    process, address = serve(folder.parent / "demo.lookalike", "--root", str(folder))
    yield address
    end(process)


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
