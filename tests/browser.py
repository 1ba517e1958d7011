"""A real browser and a real server for the tests of the page.

In: a collection on the disk. Out: `Site`, which opens pages in Debian's Chromium, notes what goes wrong in them, and
keeps pictures of them in `page-shots/`.
"""

import contextlib
import shutil
import subprocess
import sys
from pathlib import Path

from playwright.sync_api import Error, Page, expect

from waiting import PATIENCE_S

SHOTS = Path(__file__).parents[1] / "page-shots"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DESKTOP = (1280, 820)
PHONE = (360, 740)

PATIENCE_MS = 1_000 * PATIENCE_S
expect.set_options(timeout=PATIENCE_MS)

MOVE = """([place, patience]) => new Promise((shown, late) => {
  const before = location.href;
  const view = place.split(/[/?]/)[0] || "pictures";
  const there = () => document.body.dataset.view === view && shown(); // not one that was still to come
  document.addEventListener("shown", there, true);
  location.hash = `#/${place}`;
  if (location.href === before) shown(); // we are there
  setTimeout(() => late(new Error(`#/${place} is not shown`)), patience);
})"""
"""Go to another address; done when its view is there: until then, the page shows the one before."""


LOADED = """() => {
  const seen = ({top, bottom, left, right}) => bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
  const waiting = [...document.images].filter((one) => !one.complete && one.checkVisibility());
  return !waiting.some((one) => seen(one.getBoundingClientRect()));
}"""


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
    process.wait(PATIENCE_S)
    process.stdout.close()


class Site:
    """Pages of one server in one browser. A page must not complain, but of what is put into `allowed`."""

    def __init__(self, browser, address):
        self.browser = browser
        self.address = address
        self.allowed = []
        self._said = []
        self._contexts = []

    @property
    def complaints(self):
        return [text for text in self._said if not any(part in text for part in self.allowed)]

    def visit(self, place="", *, theme="light", size=DESKTOP, touch=False):
        """Open an address of the page, such as "item/3f…", as a first visit."""
        context = self.browser.new_context(
            base_url=self.address,
            color_scheme=theme,
            viewport={"width": size[0], "height": size[1]},
            has_touch=touch,
            reduced_motion="reduce",
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda said: said.type in ("error", "warning") and self._said.append(said.text))
        page.on("pageerror", lambda error: self._said.append(str(error)))
        page.on("request", lambda request: self._look(request.url))
        page.goto(f"/#/{place}")
        expect(page.locator("main h1")).to_be_visible()
        return page

    def close(self):
        for context in self._contexts:
            context.close()

    def _look(self, url):
        if not url.startswith((self.address, "blob:")):
            self._said.append(f"the page asked {url}")


def shoot(page: Page, name: str) -> None:
    """Keep a picture of the page."""
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png")


def wait_until_idle(page: Page) -> None:
    """Wait until nothing is computed for this view, and its visible pictures are loaded."""
    expect(page.locator(".follow")).to_have_count(0)
    with contextlib.suppress(Error):  # for the picture that is kept; nothing else needs it
        page.wait_for_function(LOADED, timeout=5_000)


def cut(page: Page) -> None:
    """Take the page off the network, until that is so: the browser answers before it is."""
    page.context.set_offline(True)
    page.wait_for_function("() => fetch('/healthz').then(() => false, () => true)")


def go(page: Page, place: str) -> None:
    """To another address of the page, as a link does, until it is shown."""
    page.evaluate(MOVE, [place, PATIENCE_MS])
