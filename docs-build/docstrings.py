"""A step of the build: our docstrings in the form that the pages of the API read.

In: `name : what it is.`, the way we write parameters, their types being in the signature. Out: `name` with the
sentence below it, which numpydoc takes for a description instead of a type. Examples without a heading, which Markdown
would take for quotations, are fenced.
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
        if obj.docstring is None:
            return
        text = SECTION.sub(lambda found: below(found[0]), obj.docstring.value)
        obj.docstring.value = text if "Examples\n---" in text else EXAMPLE.sub(r"```pycon\n\g<0>\n```", text)


def below(section: str) -> str:
    """A section with each description on a line of its own, and sentences about all of them before it."""
    head, rule, *lines = section.splitlines()
    prose = [line for line in lines if line[:1].strip() and not ENTRY.match(line)]
    entries = "\n".join(line for line in lines if line not in prose)
    return "\n".join([*prose, "", head, rule, ENTRY.sub(r"\1\n    \2", entries), "", ""])
