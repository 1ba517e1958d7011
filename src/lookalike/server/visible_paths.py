"""The paths that a person may see: absolute ones with the role manage, otherwise only paths relative to their source.

In: a person, and paths or texts that may contain paths. Out: the same for `manage`; for others, relative paths, and no
text that contains an absolute path. Every path and every error message that the service sends passes through here.
"""

import re
from collections.abc import Callable
from functools import cached_property
from typing import Any

from lookalike.collection import Collection
from lookalike.server.access import Person

HIDDEN = "The details name files on this machine, which only people with the role manage may see."

_ABSOLUTE = re.compile(r"(?<![\w./])/(?=[^\s/])|(?<![\w./:])//")
"""The start of an absolute path in a text: a slash that follows no name and precedes one, or two slashes."""


class Visible:
    """Paths and messages as one person may see them. It reads the sources only once: make one for each request."""

    def __init__(self, collection: Collection, person: Person):
        self._collection = collection
        self._person = person

    @cached_property
    def path(self) -> Callable[[str], str]:
        """A function that returns a path as the person may see it."""
        return str if self._person.may("manage") else self._collection.relative_paths()

    def text(self, text: str) -> str:
        """A message as the person may see it."""
        return visible_text(text, self._person)

    def texts(self, value: Any) -> Any:
        """A JSON value whose texts are as the person may see them."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(name): self.texts(part) for name, part in value.items()}
        return [self.texts(part) for part in value] if isinstance(value, list) else value


def visible_text(text: str, person: Person | None, instead: str = HIDDEN) -> str:
    """Return a text, or `instead` if it contains an absolute path that the person may not see; None: a stranger.

    The whole text is replaced, because names may contain spaces and quotes: the end of a path cannot be found.
    """
    if person is not None and person.may("manage"):
        return text
    return instead if _ABSOLUTE.search(text) else text
