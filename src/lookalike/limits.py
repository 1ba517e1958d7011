"""Checks of numeric parameters. A value that is not allowed raises an InputError that describes the allowed ones.

A limit is a type of number, a description, and the smallest and largest allowed values. A number of dimensions that the
data do not have is not an error, because it is only known after counting rows and classes: the fit uses the dimensions
that there are, and `report_fewer` warns. A collection shows the warnings as notes (`collect_fewer`).
"""

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from typing import TypeAlias

import numpy as np

from lookalike.errors import FewerDimensionsWarning, InputError

Limit: TypeAlias = tuple[type, str, float, float]

SMALLEST, LARGEST = np.finfo(np.float64).tiny, np.finfo(np.float64).max
"""NumPy scalars, because Python floats would be cast to float32 in comparisons with a float32."""
COUNT: Limit = (Integral, "a whole number of at least 1", 1, np.inf)
COUNT_OR_ZERO: Limit = (Integral, "a whole number of at least 0", 0, np.inf)
POSITIVE: Limit = (Real, "a finite number above 0", SMALLEST, LARGEST)
NOT_NEGATIVE: Limit = (Real, "a finite number of at least 0", 0, LARGEST)
COST: Limit = (Real, "a number from 1e-30 to 1e30", 1e-30, 1e30)
COST_OR_ZERO: Limit = (Real, "a number from 0 to 1e30", 0, 1e30)
PROBABILITY: Limit = (Real, "a number from 0 to 1", 0, 1)
SHARE: Limit = (Real, "a share of at least 0 and below 1", 0, 1 - 1e-9)

_COLLECTED: ContextVar[list[str] | None] = ContextVar("fewer dimensions", default=None)

NEIGHBOURS = 10
"""Neighbours per row of a neighbour graph, and the largest `k` of `smooth`: twice its default, so that removals rarely
require a new search."""


def check_number(name: str, value: object, kind: type, allowed: str, low: float, high: float) -> None:
    """Raise InputError unless the value has this type and is within `low` … `high`; `allowed` describes the limits."""
    if not isinstance(value, kind) or not low <= value <= high:  # type: ignore[operator]
        raise InputError(f"{name} must be {allowed}. Got {value!r}.")


def check_limits(estimator: object, limits: Mapping[str, Limit]) -> None:
    """Raise InputError unless each of these parameters of the estimator is within its limit.

    >>> from types import SimpleNamespace
    >>> check_limits(SimpleNamespace(dim=0), {"dim": COUNT})
    Traceback (most recent call last):
    lookalike.errors.InputError: dim must be a whole number of at least 1. Got 0.
    """
    for name, limit in limits.items():
        check_number(name, getattr(estimator, name), *limit)


def check_count(name: str, value: object, least: int = 1) -> None:
    """Raise InputError unless the value is a whole number of at least `least`.

    >>> check_count("k", 2.5)
    Traceback (most recent call last):
    lookalike.errors.InputError: k must be a whole number of at least 1. Got 2.5.
    """
    check_number(name, value, Integral, f"a whole number of at least {least}", least, np.inf)


def report_fewer(name: str, asked: int | None, got: int, reason: str) -> None:
    """Warn that a fit has fewer dimensions than were requested. None requests no number of dimensions.

    >>> with collect_fewer() as notes:
    ...     report_fewer("dim", 64, 9, "10 classes differ in at most 9 directions")
    >>> notes
    ['dim=64 was requested, but 10 classes differ in at most 9 directions. Dimensions used: 9.']
    """
    if asked is None or got >= asked:
        return
    message = f"{name}={asked} was requested, but {reason}. Dimensions used: {got}."
    collected = _COLLECTED.get()
    if collected is None:
        warnings.warn(message, FewerDimensionsWarning, stacklevel=3)
    else:
        collected.append(message)


@contextmanager
def collect_fewer() -> Iterator[list[str]]:
    """Collect the warnings of `report_fewer` in this block as text, instead of issuing them."""
    notes: list[str] = []
    token = _COLLECTED.set(notes)
    try:
        yield notes
    finally:
        _COLLECTED.reset(token)
