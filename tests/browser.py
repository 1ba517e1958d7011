"""A real browser and a real server for the tests of the page.

In: a collection on the disk. Out: `Site`, which opens pages in Debian's Chromium, notes what goes wrong in them, and
keeps pictures of them in `page-shots/`.
"""

import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Page, expect

SHOTS = Path(__file__).parents[1] / "page-shots"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP = (1280, 820)
PHONE = (360, 740)

LONG = 300_000
"""Milliseconds until a job is done that starts a process; a busy machine is slow, not wrong."""
expect.set_options(timeout=20_000)


def find_browser():
    """Where a Chromium is, or None."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def serve(collection, *options):
    """Start `lookalike serve` in a process of its own; the process and its address."""
    command = [sys.executable, "-m", "lookalike", "-c", str(collection), "serve", "--port", "0", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = process.stdout.readline()
    assert "http://" in line, line
    return process, line.split()[-1].rstrip("/")


def end(process):
    process.terminate()
    process.wait(30)
    process.stdout.close()


class Site:
    """Pages of one server in one browser. What a page complains about is in `complaints`."""

    def __init__(self, browser, address):
        self.browser = browser
        self.address = address
        self.complaints = []
        self._contexts = []

    def visit(self, place="", *, theme="light", size=DESKTOP, touch=False):
        """Open an address of the page, such as "item/3f…", as a first visit."""
        context = self.browser.new_context(
            base_url=self.address,
            color_scheme=theme,
            viewport={"width": size[0], "height": size[1]},
            has_touch=touch,
            reduced_motion="reduce",
        )
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and self.complaints.append(said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self._look(request.url))
        page.goto(f"/#/{place}")
        expect(page.locator("main h1")).to_be_visible()
        return page

    def close(self):
        for context in self._contexts:
            context.close()

    def _look(self, url):
        if not url.startswith((self.address, "blob:")):
            self.complaints.append(f"the page asked {url}")


def shoot(page: Page, name: str) -> None:
    """Keep a picture of the page."""
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def settle(page: Page) -> None:
    """Until the pictures that are in sight are there."""
    page.wait_for_timeout(150)
    for _ in range(100):
        waiting = "[...document.images].filter(i => !i.complete && i.getBoundingClientRect().top < innerHeight).length"
        if not page.evaluate(waiting):
            return
        page.wait_for_timeout(50)


def go(page: Page, place: str) -> None:
    """To another address of the page, as a link does."""
    page.evaluate("place => { location.hash = `#/${place}`; }", place)
    expect(page.locator("main h1")).to_be_visible()
