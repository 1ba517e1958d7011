"""Speed of the page on a large collection: seconds until the first pictures are loaded, blanks after scrolling, and
the scripting per frame while the map is panned.

    .venv/bin/python benchmarks/page_speed.py [--pictures 100000] [--folder FOLDER] [--address URL]

Creates a collection of tiny pictures in FOLDER (by default a temporary one; an existing collection is reused), runs the
service and opens the page in Chromium. The figures are medians; the worst case follows. With --address, it measures a
service that already runs. --only map or --only grid measures one of them.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import cv2
import numpy as np
from playwright.sync_api import CDPSession, Page, sync_playwright

from lookalike import Collection

SIDE = 16
PER_FOLDER = 1_000
SEED = 0
LOADS, STOPS = 5, 12
PANS, FRAMES = 5, 40
STATIC = Path(__file__).parents[1] / "src" / "lookalike" / "server" / "static"
SIZES = {"desktop": {"width": 1440, "height": 900}, "phone": {"width": 390, "height": 844}}

FIRST = """() => new Promise((done) => {
  const look = () => {
    const cells = [...document.querySelectorAll(".grid .cell")];
    const seen = cells.filter((one) => one.getBoundingClientRect().top < innerHeight);
    const ready = (one) => one.querySelector("img")?.complete && one.querySelector("img").naturalWidth;
    if (seen.length && seen.every(ready)) done(performance.now() / 1000);
    else requestAnimationFrame(look);
  };
  look();
})"""
"""Seconds from the start of loading until all visible pictures are loaded."""

SCROLL = """async ([from, to, steps]) => {
  const frame = () => new Promise(requestAnimationFrame);
  for (let step = 1; step <= steps; step++) {
    scrollTo({top: from + ((to - from) * step) / steps, behavior: "instant"});
    await frame();
  }
  const rest = performance.now();
  const blank = () => [...document.querySelectorAll(".grid .cell")].filter((one) => {
    const {top, bottom} = one.getBoundingClientRect();
    const img = one.querySelector("img");
    return bottom > 0 && top < innerHeight && !(img && img.complete && img.naturalWidth);
  }).length;
  let atLimit = null;
  for (;;) {
    await frame();
    const waited = performance.now() - rest;
    if (waited >= 200 && atLimit === null) atLimit = blank();
    if (document.querySelector(".grid .cell") && !blank()) return {seconds: waited / 1000, blank: atLimit ?? 0};
    if (waited > 20000) return {seconds: waited / 1000, blank: blank()};
  }
}"""
"""Scroll in some frames, then return the seconds until no visible tile is blank, and the blank tiles after 200 ms."""


FRAME = """() => {
  const request = window.requestAnimationFrame;
  window.frames_ms = [];
  window.requestAnimationFrame = (call) => request((now) => {
    const began = performance.now();
    call(now);
    window.frames_ms.push(performance.now() - began);
  });
}"""
"""Record the milliseconds of each call by requestAnimationFrame."""


def make(folder: Path, pictures: int) -> Path:
    """Create the collection, or return the existing one."""
    path = folder / f"speed-{pictures}.lookalike"
    if path.exists():
        return path
    rng = np.random.default_rng(SEED)
    for number in range(pictures):
        within = folder / f"pictures-{pictures}" / f"{number // PER_FOLDER:03d}"
        if number % PER_FOLDER == 0:
            within.mkdir(parents=True, exist_ok=True)
        low, high = rng.integers(0, 256, (2, 3))
        pixels = np.linspace(low, high, SIDE * SIDE).reshape(SIDE, SIDE, 3).astype(np.uint8)
        pixels[:4, :4] = rng.integers(0, 256, (4, 4, 3))  # so that no two pictures are identical
        cv2.imwrite(str(within / f"{number:06d}.png"), pixels)
    with Collection(path, create=True) as collection:
        report = collection.add(folder / f"pictures-{pictures}", recipes=["color"])
        print(f"added {len(collection):,} pictures", report.skipped if report.skipped else "")
    return path


def measure(page: Page, address: str, name: str, total: int) -> None:
    """Print the figures of the grid for a window of this size."""
    firsts = []
    for _ in range(LOADS):
        page.goto("about:blank")
        page.goto(address, wait_until="commit")
        firsts.append(page.evaluate(FIRST))
    page.wait_for_timeout(500)
    height = page.evaluate("document.documentElement.scrollHeight - innerHeight")
    rng = np.random.default_rng(SEED)
    rests, position = [], 0.0
    for stop in range(STOPS):
        jump = rng.uniform(0, height) if stop % 2 else min(height, position + rng.uniform(3_000, 30_000))
        rests.append(page.evaluate(SCROLL, [position, jump, 10 if stop % 2 else 40]))
        position = jump
    seconds = [rest["seconds"] for rest in rests]
    blanks = [rest["blank"] for rest in rests]
    elements = page.evaluate("document.querySelectorAll('*').length")
    print(
        f"{name}: {total:,} pictures, first pictures {statistics.median(firsts):.2f} s (worst {max(firsts):.2f}),"
        f" no blank tiles {statistics.median(seconds) * 1000:.0f} ms after the last scroll (worst"
        f" {max(seconds) * 1000:.0f}), stops with blank tiles after 200 ms: {sum(map(bool, blanks))} of {STOPS},"
        f" {elements} elements"
    )


def measure_map(page: Page, address: str, name: str, total: int) -> None:
    """Print the scripting per frame while the whole map and a part of it are dragged."""
    page.add_init_script(f"({FRAME})()")
    page.goto(f"{address}/#/map")
    page.reload()  # the script must run before the page
    page.locator(".map canvas").first.wait_for(timeout=600_000)
    client = page.context.new_cdp_session(page)
    client.send("Performance.enable")
    box = page.locator(".map").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for zooms in (0, 4):
        for _ in range(zooms):
            page.get_by_role("button", name="Zoom in").click()
        page.wait_for_timeout(2_000)
        means, worst = [], 0.0
        for _ in range(PANS):
            page.mouse.move(x, y)
            page.mouse.down()
            page.mouse.move(x + 8, y)  # a drag, not a click
            page.evaluate("window.frames_ms.length = 0")
            before = _script_s(client)
            for step in range(FRAMES):
                page.mouse.move(x + 2 * min(step, FRAMES - step), y + step)
            page.evaluate("new Promise(requestAnimationFrame)")
            spent = _script_s(client) - before
            frames = page.evaluate("window.frames_ms")
            page.mouse.up()
            means.append(1_000 * spent / len(frames))
            worst = max(worst, *frames)
        print(
            f"{name}: map of {total:,} pictures{', zoomed in' if zooms else ''}, scripting per frame while panning"
            f" {statistics.median(means):.1f} ms (worst frame {worst:.1f} ms)"
        )


def _script_s(client: CDPSession) -> float:
    """The seconds that the page has spent in scripts."""
    metrics = client.send("Performance.getMetrics")["metrics"]
    return float(next(metric["value"] for metric in metrics if metric["name"] == "ScriptDuration"))


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--address")
    parser.add_argument("--only", choices=["grid", "map"])
    options = parser.parse_args()
    weight = sum(path.stat().st_size for path in STATIC.iterdir())
    print(f"page weight: {weight / 1000:.1f} kB, uncompressed, without pictures")
    with tempfile.TemporaryDirectory() as temporary:
        process = None
        address = options.address
        if address is None:
            path = make(options.folder or Path(temporary), options.pictures)
            command = [sys.executable, "-m", "lookalike", "-c", str(path), "serve", "--port", "0"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1].rstrip("/")
        try:
            with sync_playwright() as tool:
                browser = tool.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
                for name, size in SIZES.items():
                    page = browser.new_page(viewport=size)  # type: ignore[arg-type]
                    page.goto(address)
                    page.locator(".grid img.there").first.wait_for()
                    total = page.evaluate("fetch('/api/v1/items?limit=1').then((one) => one.json())")["total"]
                    if options.only != "map":
                        measure(page, address, name, total)
                    if options.only != "grid":
                        measure_map(page, address, name, total)
                    page.close()
                browser.close()
        finally:
            if process is not None:
                process.terminate()
                process.wait()


if __name__ == "__main__":
    main()
