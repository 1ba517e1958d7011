"""What a person may see of the paths on this machine: all with the role manage, else only what is below a source.

In: a person, and paths or texts that may hold some. Out: the same for `manage`; for others, paths relative to their
source, and no text with an absolute path in it. Every path and every error message that the service sends passes here.
"""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from lookalike.collection import Collection
from lookalike.server.access import Person

HIDDEN = "The details name files on this machine, which only people with the role manage may see."

_ABSOLUTE = re.compile(r"(?<![\w./])/(?=[^\s/])|(?<![\w./:])//")
"""Where an absolute path begins in a text: a slash that follows no name and is followed by one, or two of them."""


class Visible:
    """What one person may see of a collection's paths. It reads the sources once: make one for each request."""

    def __init__(self, collection: Collection, person: Person):
        self._collection = collection
        self._person = person

    @cached_property
    def path(self) -> Callable[[str], str]:
        """A function that gives a path as the person may see it."""
        return str if self._person.may("manage") else self._collection.relative_paths()

    def text(self, text: str) -> str:
        """A message as the person may see it."""
        return visible_text(text, self._person)

    def texts(self, value: Any) -> Any:
        """A JSON value with every text in it as the person may see it."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.texts(part) for name, part in value.items()}
        return [self.texts(part) for part in value] if isinstance(value, list) else value


def visible_text(text: str, person: Person | None, instead: str = HIDDEN) -> str:
    """A text; `instead` where it holds an absolute path and the person, or a stranger, may not see it.

    The whole text is replaced, as nothing tells where a path in it ends: names may contain spaces and quotes.
    """
    if person is not None and person.may("manage"):
        return text
    return instead if _ABSOLUTE.search(text) else text
