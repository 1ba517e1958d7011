"""A step of the build: our docstrings in the form that the pages of the API read.

In: `name : what it is.`, the way we write parameters, their types being in the signature. Out: `name` with the
sentence below it, which numpydoc takes for a description instead of a type. Sentences among the names go before the
first of them. Examples without a heading, which Markdown would take for quotations, are fenced.
"""

import re
from typing import Any

import griffe

SECTION = re.compile(r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\w+\n-+\n|\Z)", re.MULTILINE | re.DOTALL)
EXAMPLE = re.compile(r"^>>> .*(?:\n\S.*)*", re.MULTILINE)
ENTRY = re.compile(r"^(\w[\w, *]*?) : (.+)$", re.MULTILINE)


class Descriptions(griffe.Extension):
    """Rewrites the docstrings of a package before they are parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for every module, class, function and attribute."""
        if obj.docstring is not None:
            obj.docstring.value = rewrite(obj.docstring.value)


def rewrite(text: str) -> str:
    """A docstring as numpydoc wants it."""
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
