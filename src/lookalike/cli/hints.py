"""Commands that messages tell people to run, made to work as they stand.

In: a message, such as "Make one: lookalike classes add NAME IMAGE". Out: the same with `-c DIR` in its commands, where
the collection was named on the command line: without it they would speak of another one. Messages come from everywhere
in the library, which does not know how it was called; this is the one place that does.
"""

import re
import shlex

_VERBS = (
    "add|backup|classes|classify|compact|duplicates|explain|export|feedback|fit|items|label|map|plan|refresh|remove|repair"
    "|search|serve|sessions|stats|token|verify"
)
_COMMAND = re.compile(rf"(?<![\w./-])lookalike (?=(?:{_VERBS})\b)")
_given: list[str] = []


def remember(where: str) -> None:
    """The collection that was named on the command line."""
    _given[:] = [where]


def forget() -> None:
    """None was, so far."""
    _given.clear()


def complete(message: str) -> str:
    """A message whose commands are for the collection that was named.

    >>> remember("my photos")
    >>> complete("No classes yet. Make one: lookalike classes add NAME IMAGE")
    "No classes yet. Make one: lookalike -c 'my photos' classes add NAME IMAGE"
    >>> complete("Make one with: lookalike -c my.lookalike add FOLDER")  # a name, no command
    'Make one with: lookalike -c my.lookalike add FOLDER'
    >>> forget()
    >>> complete("Run: lookalike compact")
    'Run: lookalike compact'
    """
    return _COMMAND.sub(lambda _: f"lookalike -c {shlex.quote(_given[0])} ", message) if _given else message
