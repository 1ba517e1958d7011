"""Build step: convert our docstrings to numpydoc for the API pages.

We write parameters as `name : Description.`, because the signature has their types. numpydoc would read the description
as a type, so it moves to the next line. Sentences between parameters move in front of the list. Examples without a
heading are fenced, because Markdown would read them as quotations.
"""

import re
from typing import Any

import griffe

SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^>>> .*(?:\n\S.*)*", re.MULTILINE)
ENTRY = re.compile(r"^(\w[\w, *]*?) : (.+)$", re.MULTILINE)


class Descriptions(griffe.Extension):
    """Converts the docstrings of a package before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = rewrite(obj.docstring.value)


def rewrite(text: str) -> str:
    """Convert a docstring to numpydoc."""
    first = SECTION.search(text)
    if first is not None:
        lines = [line for found in SECTION.finditer(text) for line in found[2].splitlines()]
        prose = "\n".join(line for line in lines if line[:1].strip() and not ENTRY.match(line))
        sections = SECTION.sub(lambda found: _section(found[1], found[2]), text[first.start() :])
        text = f"{text[: first.start()]}{prose}\n\n{sections}"
    return text if "Examples\n---" in text else EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)


def _section(name: str, body: str) -> str:
    entries = "\n".join(line for line in body.splitlines() if not line[:1].strip() or ENTRY.match(line))
    return f"{name}\n{'-' * len(name)}\n" + ENTRY.sub(r"\1\n    \2", entries) + "\n\n"
