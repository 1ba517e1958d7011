"""Many names of columns as few: what differs in one place is put in braces.

In: names such as mnist/32 and mnist/64. Out: mnist/{32,64}.
"""

import re
from collections.abc import Iterable

Parts = tuple[tuple[str, ...], ...]
"""A family: for each place of its names, what can stand there."""


def join(names: Iterable[str]) -> list[str]:
    """The names as families, in the order in which they first come.

    >>> join(["mnist/32", "mnist/64", "mnist/32-ties", "mnist/64-ties", "cifar/64", "other"])
    ['mnist/{32,64}', 'mnist/{32,64}-ties', 'cifar/64', 'other']
    """
    found: list[Parts] = [tuple((part,) for part in re.split(r"([/-])", name)) for name in names]
    for place in reversed(range(0, max(map(len, found), default=0), 2)):  # between them are slashes and dashes
        found = _merge(found, place)
    return ["".join(map(_show, family)) for family in found]


def _show(part: tuple[str, ...]) -> str:
    if len(part) == 1:
        return part[0]
    return f"{{{','.join(sorted(part, key=int) if all(map(str.isdigit, part)) else part)}}}"


def _merge(families: list[Parts], place: int) -> list[Parts]:
    """Families that are the same but for one place become one."""
    merged: dict[tuple[Parts, Parts], Parts] = {}
    for family in families:
        before, here, after = family[:place], family[place : place + 1], family[place + 1 :]
        if not here or len(family) == 1:  # too short to differ here, or there is nothing that it has in common
            merged[family, ()] = family
            continue
        known = merged.get((before, after))
        among = here[0] if known is None else (*known[place], *here[0])
        merged[before, after] = (*before, among, *after)
    return list(merged.values())
