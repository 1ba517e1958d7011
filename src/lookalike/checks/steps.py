"""What every transform and every coder must do: rows in, rows or codes out.

In: `make`, which returns a fresh component each time. Out: nothing, or an AssertionError.
"""

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lookalike.checks.common import Make, learned, make_bad_rows, make_degenerate_rows, make_rows, must_raise
from lookalike.errors import InputError
from lookalike.registry import restore, spec_of, state_of
from lookalike.types import Coder, Transform, Vectors, needs_labels


def check_transform_shape(make: Make) -> None:
    """`fit` returns the transform itself; rows out are float32, one each, also for none and for one."""
    transform, X = make(), make_rows()
    assert isinstance(transform, Transform)
    assert learned(transform, X) is transform
    Y = transform.transform(X)
    assert Y.dtype == np.float32
    assert len(Y) == len(X)
    assert np.isfinite(Y).all()
    assert transform.transform(X[:0]).shape == (0, Y.shape[1])
    np.testing.assert_allclose(transform.transform(X[:1]), Y[:1], atol=1e-5)


def check_transform_repeats(make: Make) -> None:
    """The same data give the same bytes."""
    X = make_rows()
    assert learned(make(), X).transform(X).tobytes() == learned(make(), X).transform(X).tobytes()


def check_transform_saves(make: Make) -> None:
    """Spec and learned arrays are all there is to a fitted transform."""
    X = make_rows()
    transform = learned(make(), X)
    again = restore("transform", spec_of(transform), state_of(transform))
    assert again.transform(X).tobytes() == transform.transform(X).tobytes()


def check_transform_refuses(make: Make) -> None:
    """NaN is refused; so is `transform` before `fit`, and `fit` without labels, where there is something to learn."""
    X, bad = make_rows(), make_bad_rows()
    transform = learned(make(), X)
    must_raise((ValueError,), learned, transform, bad)
    must_raise((ValueError,), transform.transform, bad)
    if state_of(transform).keys() - {"n_features_in_"}:
        must_raise((NotFittedError,), make().transform, X)
    if needs_labels(transform):
        must_raise((ValueError,), make().fit, X)


def check_transform_degenerate(make: Make) -> None:
    """Zero rows, equal rows and constant columns give finite numbers."""
    X = make_degenerate_rows()
    assert np.isfinite(learned(make(), X).transform(X)).all()


def check_coder_shape(make: Make) -> None:
    """`fit` returns the coder itself; codes are (n, bits / 8) uint8, also of no row, and a row's own in any batch."""
    coder, X = make(), make_rows()
    assert isinstance(coder, Coder)
    assert learned(coder, X) is coder
    codes = coder.encode(X)
    assert codes.dtype == np.uint8
    assert codes.shape == (len(X), coder.bits // 8)
    assert coder.encode(X[:0]).shape == (0, coder.bits // 8)
    assert np.concatenate([coder.encode(X[i : i + 1]) for i in range(20)]).tobytes() == codes[:20].tobytes()
    assert len(np.unique(codes, axis=0)) > 1


def check_coder_repeats(make: Make) -> None:
    """The same data give the same bytes, also to a clone; `encode` takes float64 as it takes float32."""
    X = make_rows()
    codes = learned(make(), X).encode(X)
    assert codes.tobytes() == learned(make(), X).encode(X).tobytes()
    assert codes.tobytes() == learned(clone(make()), X).encode(X.astype(np.float64)).tobytes()


def check_coder_saves(make: Make) -> None:
    """Spec and learned arrays are all there is to a fitted coder, and the arrays are plain ones."""
    X = make_rows()
    coder = learned(make(), X)
    state = state_of(coder)
    assert not any(value.dtype.hasobject for value in state.values())
    again = restore("coder", spec_of(coder), state)
    assert again.encode(X).tobytes() == coder.encode(X).tobytes()
    assert _queried(again, X).tobytes() == _queried(coder, X).tobytes()


def check_coder_asks(make: Make) -> None:
    """What `query` asks scores codes, and finds the rows themselves among the nearest: half of them, or more."""
    X = make_rows()
    coder = learned(make(), X)
    scores = _queried(coder, X)
    assert scores.shape == (len(X), len(X))
    assert np.isfinite(scores).all()
    own = np.diagonal(scores)
    assert (own <= np.quantile(scores, 0.1, axis=1)).mean() >= 0.5


def check_coder_refuses(make: Make) -> None:
    """Bits that fill no bytes, NaN, columns that are not those of `fit`, `encode` before `fit`, missing labels."""
    X, bad = make_rows(), make_bad_rows()
    coder = learned(make(), X)
    must_raise((ValueError,), learned, make(), bad)
    must_raise((ValueError,), coder.encode, bad)
    must_raise((ValueError,), coder.encode, X[:, :3])
    must_raise((NotFittedError,), make().encode, X)
    for bits in (0, 12, -8):
        must_raise((InputError,), learned, make().set_params(bits=bits), X)
    if needs_labels(coder):
        must_raise((ValueError,), make().fit, X)


def check_coder_degenerate(make: Make) -> None:
    """Zero rows, equal rows and few columns: codes, or an error in words; equal rows have equal codes."""
    X = make_degenerate_rows()
    codes = learned(make(), X).encode(X)
    assert len(np.unique(codes[:5], axis=0)) == len(np.unique(codes[5:11], axis=0)) == 1
    for rows in (X[:, :2], np.zeros_like(X)):
        try:
            coder = learned(make(), rows)
        except InputError:
            continue
        assert coder.encode(rows).shape == (len(rows), coder.bits // 8)


def _queried(coder: Any, X: Vectors) -> Vectors:
    """Scores of all codes for all rows, by the coder's own query."""
    scores: Vectors = coder.query(X).score(coder.encode(X))
    return scores
