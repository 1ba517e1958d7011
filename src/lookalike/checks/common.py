"""What the checks of several kinds share.

In: nothing. Out: rows that are the same each time, a component that has learned from them, and what has no kind.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from lookalike.registry import create, kind_of, spec_of
from lookalike.types import Vectors, needs_labels

Make: TypeAlias = Callable[[], Any]


def check_spec_round_trip(make: Make) -> None:
    """A component's spec builds its twin."""
    part = make()
    assert spec_of(create(kind_of(part)[0], spec_of(part))) == spec_of(part)


def make_rows() -> Vectors:
    """(300, 20) float32, normal: the same each time."""
    return np.random.default_rng(1).normal(size=(300, 20)).astype(np.float32)


def make_bad_rows() -> Vectors:
    """The same with one NaN."""
    X = make_rows()
    X[3, 2] = np.nan
    return X


def make_degenerate_rows() -> Vectors:
    """The same with zero rows, equal rows and a constant column."""
    X = make_rows()
    X[:5] = 0
    X[5:10] = X[10]
    X[:, 0] = 7
    return X


def learned(transform: Any, X: Vectors) -> Any:
    """The transform, after it learned from rows, and from three classes of them where it needs labels."""
    return transform.fit(X, np.arange(len(X)) % 3) if needs_labels(transform) else transform.fit(X)


def must_raise(errors: tuple[type[Exception], ...], function: Callable[..., Any], *args: Any) -> None:
    """Fail where a call goes well, or fails with another error."""
    try:
        function(*args)
    except errors:
        return
    raise AssertionError(f"{function} took {args!r} without an error")
