"""Build step: fail if a page of the site would load anything from another host.

Links that a reader can click may lead anywhere; files that a browser fetches automatically may not.
"""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

OUTSIDE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
IN_CSS = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]*)", re.IGNORECASE)
LOADING = {"src", "srcset", "poster", "data", "background"}
"""Attributes whose address a browser fetches automatically, in any element."""
CLICKED = {"canonical", "next", "prev", "alternate", "license", "author", "help", "edit"}
"""Kinds of <link> that a browser does not fetch."""


def on_post_build(config: Any) -> None:
    """Called by MkDocs after it has written the site."""
    site = Path(config["site_dir"])
    found = [f"{path.relative_to(site)} loads {address}" for path, address in outside(site)]
    if found:
        raise SystemExit("The site must not load anything from another host:\n  " + "\n  ".join(sorted(set(found))))


def outside(site: Path) -> list[tuple[Path, str]]:
    """Return each file of the site with each outside address that a browser would fetch for it."""
    found = []
    for path in sorted(site.rglob("*")):
        if path.suffix == ".html":
            reader = _Reader()
            reader.feed(path.read_text(encoding="utf-8"))
            found += [(path, address) for address in reader.addresses]
        elif path.suffix in (".css", ".svg"):
            found += [(path, address) for address in IN_CSS.findall(path.read_text(encoding="utf-8"))]
    return found


class _Reader(HTMLParser):
    """Collects the addresses a page loads. A mermaid block counts: the theme would fetch a script to draw it."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self._style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._style = tag == "style"
        named = {name: value or "" for name, value in attrs}
        loaded = [value for name, value in named.items() if name in LOADING]
        if tag == "link" and not set(named.get("rel", "").lower().split()) & CLICKED:
            loaded.append(named.get("href", ""))
        if tag in ("use", "image"):
            loaded += [named.get("href", ""), named.get("xlink:href", "")]
        if "mermaid" in named.get("class", "").split():
            self.addresses.append("a program for mermaid diagrams")
        self.addresses += [value for value in loaded if OUTSIDE.match(value)]
        self.addresses += IN_CSS.findall(named.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self._style:
            self.addresses += IN_CSS.findall(data)
