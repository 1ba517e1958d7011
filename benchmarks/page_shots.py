"""Take the three screenshots of the page for the README and docs/page.md.

Run it on the collection that `make demo` creates: python benchmarks/page_shots.py demo/collection
It writes docs/page-start.jpg, page-session.jpg and page-dark.jpg, each at most 150 kB.
"""

import argparse
import io
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))
from browser import CHROMIUM, Site, end, go, serve, wait_until_idle  # noqa: E402

MOST_BYTES = 150_000
ROUNDS = 2


def keep(page, name):
    """Save a screenshot as JPEG, with the highest quality that stays within MOST_BYTES."""
    wait_until_idle(page)
    page.wait_for_timeout(400)
    image = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    for quality in range(90, 30, -5):
        data = io.BytesIO()
        image.save(data, "JPEG", quality=quality, optimize=True, progressive=True)
        if data.tell() <= MOST_BYTES:
            break
    (ROOT / "docs" / f"page-{name}.jpg").write_bytes(data.getvalue())
    print(f"docs/page-{name}.jpg", data.tell(), "bytes, quality", quality)


def play(page, kind):
    """Mark pictures as yes if their file name starts with `kind`, and all others as no."""
    page.locator(".judge .tile").first.wait_for()
    for tile in page.locator(f'.judge [data-focus][aria-label^="{kind}"]').all():
        tile.click()
    page.get_by_role("button", name="No to the rest").click()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("collection")
    process, address = serve(parser.parse_args().collection)
    try:
        with sync_playwright() as tool:
            browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            site = Site(browser, address)
            page = site.visit("?order=id")
            page.locator(".grid img.there").first.wait_for()
            keep(page, "start")
            page.goto(f"{address}/#/?path=beach-005")
            page.locator(".grid a.pic").first.click()
            page.get_by_role("button", name="Start a session").click()
            for number in range(ROUNDS):
                play(page, "beach")
                page.get_by_role("button", name="Next round").click()
                page.locator(".timer", has_text=f"Round {number + 2}").wait_for()
            page.locator('.judge [data-focus][aria-label^="beach"]').first.click()
            page.locator('.judge [data-focus]:not([aria-label^="beach"])').nth(0).click(click_count=2)
            page.mouse.move(1, 1)
            keep(page, "session")
            page = site.visit("?path=flower-00", theme="dark")
            page.locator(".grid a.pic").nth(3).wait_for()
            flowers = [page.locator(".grid a.pic").nth(i).get_attribute("data-id") for i in (1, 3)]
            go(page, f"search?with={flowers[0]}&with={flowers[1]}")
            page.locator("h1", has_text="Similar to these pictures").wait_for()
            keep(page, "dark")
            site.close()
            browser.close()
    finally:
        end(process)


if __name__ == "__main__":
    main()
