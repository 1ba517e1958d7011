"""A real browser for the tests of the web page.

A `Site` opens pages of a server in Chromium and records their errors. `shoot` saves screenshots in `page-shots/`.
"""

import contextlib
import itertools
import json
import re
import shutil
import sys
import urllib.request
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Error, Page, expect

from waiting import TIMEOUT_S

SHOTS = Path(__file__).parents[1] / "page-shots"
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)
needs_browser = pytest.mark.skipif(CHROMIUM is None, reason="No Chromium here. On Debian: apt-get install chromium")
DESKTOP = (1280, 820)
WIDE = (1440, 900)
PHONE = (360, 740)
LARGE_PHONE = (390, 844)

TIMEOUT_MS = 1_000 * TIMEOUT_S
expect.set_options(timeout=TIMEOUT_MS)

MOVE = """([place, timeout_ms]) => new Promise((shown, late) => {
  const before = location.href;
  const view = place.split(/[/?]/)[0] || "pictures";
  const there = () => document.body.dataset.view === view && shown(); // ignore a view that was still loading
  document.addEventListener("shown", there, true);
  location.hash = `#/${place}`;
  if (location.href === before) shown(); // already at this address
  setTimeout(() => late(new Error(`#/${place} is not shown`)), timeout_ms);
})"""
"""Go to another address and wait until its view replaces the previous one."""


LOADED = """() => {
  const seen = ({top, bottom, left, right}) => bottom > 0 && right > 0 && top < innerHeight && left < innerWidth;
  const waiting = [...document.images].filter((one) => !one.complete && one.checkVisibility());
  return !waiting.some((one) => seen(one.getBoundingClientRect()));
}"""


def members(address, name):
    """The names of the pictures with a label."""
    with urllib.request.urlopen(f"{address}/api/v1/items?label={name}") as answer:
        return [item["name"] for item in json.load(answer)["items"]]


class Site:
    """Pages of one server in one browser. `complaints` lists their errors and warnings, except those in `allowed`."""

    def __init__(self, browser, address):
        self.browser = browser
        self.address = address
        self.allowed = ["GPU stall due to ReadPixels"]  # without a GPU, Chromium warns about any WebGL canvas
        self._messages = []
        self._contexts = []

    @property
    def complaints(self):
        return [text for text in self._messages if not any(part in text for part in self.allowed)]

    def visit(self, place="", *, theme="light", size=DESKTOP, touch=False):
        """Open a view of the page, such as "item/3f…", in a new browser context."""
        context = self.browser.new_context(
            base_url=self.address,
            color_scheme=theme,
            viewport={"width": size[0], "height": size[1]},
            has_touch=touch,
            reduced_motion="reduce",
        )
        context.set_default_timeout(TIMEOUT_MS)
        self._contexts.append(context)
        page = context.new_page()
        page.on("console", lambda entry: entry.type in ("error", "warning") and self._messages.append(entry.text))
        page.on("pageerror", lambda error: self._messages.append(str(error)))
        page.on("request", lambda request: self._check_origin(request.url))
        page.goto(f"/#/{place}")
        expect(page.locator("main h1")).to_be_visible()
        return page

    def close(self):
        for context in self._contexts:
            context.close()

    def _check_origin(self, url):
        if not url.startswith((self.address, "blob:")):
            self._messages.append(f"the page requested {url}")


def shoot(page: Page, name: str) -> None:
    """Save a screenshot of the page. JPEG, because Chromium takes half a second to write a PNG."""
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.jpg", quality=85)


def wait_until_idle(page: Page) -> None:
    """Wait until the view has no running job and its visible pictures are loaded."""
    expect(page.locator(".follow")).to_have_count(0)
    with contextlib.suppress(Error):  # only screenshots need the pictures
        page.wait_for_function(LOADED, timeout=5_000)


CONTROL = re.compile(r"""( *)- '?(button|link|checkbox|combobox|textbox|radio)\b(?: "((?:[^"\\]|\\.)*)")?""")
"""A control in an ARIA snapshot: its indent, its role and its accessible name."""


def axe_violations(page: Page) -> list[tuple[str, list[str]]]:
    """The accessibility violations that axe-core finds: the rules, with the elements."""
    page.evaluate(Axe().axe_script)
    found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")["violations"]
    return [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]


def name_faults(page: Page) -> list[str]:
    """The controls without an accessible name, and the names of several controls that do different things.

    Two pictures can have the same file name, so the controls of a picture must only contain it.
    """
    closed = page.locator("details:not([open])").element_handles()
    for menu in closed:
        menu.evaluate("one => (one.open = true)")
    lines = page.locator("body").aria_snapshot().splitlines()
    summaries = page.locator("summary:visible").evaluate_all("all => all.map((one) => one.ariaLabel ?? one.innerText)")
    for menu in closed:
        menu.evaluate("one => (one.open = false)")
    controls: dict[str, set] = {}  # by name: the addresses of links, the numbers of all others
    for number, text in enumerate(summaries):
        controls.setdefault(text.strip(), set()).add(-number)
    faults, cell = [], sys.maxsize
    for number, (line, following) in enumerate(itertools.pairwise([*lines, ""]), 1):
        indent = len(line) - len(line.lstrip())
        cell = indent if re.match(r" *- '?gridcell\b", line) else sys.maxsize if indent <= cell else cell
        if (found := CONTROL.match(line)) is None:
            continue
        role, name = found[2], found[3]
        if not name:
            faults.append(f"a {role} has no name")
        elif indent <= cell:
            controls.setdefault(name, set()).add(following.strip() if "/url:" in following else number)
        elif not re.search(r"\.(jpg|png)\b", name):
            faults.append(f"the {role} {name!r} does not name its picture")
    return faults + [f"{len(same)} controls are called {name!r}" for name, same in controls.items() if len(same) > 1]


def cut(page: Page) -> None:
    """Take the page offline, and wait until its requests fail: `set_offline` returns earlier."""
    page.context.set_offline(True)
    page.wait_for_function("() => fetch('/healthz').then(() => false, () => true)")


def go(page: Page, place: str) -> None:
    """Go to another view, as a link does, and wait until it is shown."""
    page.evaluate(MOVE, [place, TIMEOUT_MS])
