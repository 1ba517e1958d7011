"""Build step: convert the LaTeX formulas of a page to MathML, which browsers typeset without a script."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

BARS = re.compile(r"<mo>(&#x02016;|&#x0007C;|&#x02223;)</mo>")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_page_content(text: str, **_: Any) -> str:
    """Called by MkDocs with the HTML of each page."""
    return FORMULA.sub(_mathml, text)


def _mathml(found: re.Match[str]) -> str:
    display = "block" if found[1] == "div" else "inline"
    formula = convert(html.unescape(found[2]).strip(), display=display)
    return BARS.sub(r'<mo stretchy="false">\1</mo>', formula)  # browsers would stretch bars of norms to full height
