"""Input checks and scikit-learn tags shared by encoders, metrics, codes and classifiers."""

import array_api_compat
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from lookalike.errors import InputError
from lookalike.types import Array


def check_matrix(part: BaseEstimator, X: Array, *, reset: bool, min_rows: int = 1) -> Array:
    """Check that X, a NumPy or torch matrix, has the columns of the fit; `reset` stores their number instead.

    Does not check for NaN and infinity, because callers check values chunk by chunk.
    """
    if not array_api_compat.is_torch_array(X):
        return validate_data(part, X, reset=reset, ensure_all_finite=False, ensure_min_samples=min_rows)
    if X.ndim != 2 or X.shape[0] < min_rows:
        raise InputError(f"X must be a matrix with at least {min_rows} rows. Got shape {tuple(X.shape)}.")
    if reset:
        part.n_features_in_ = X.shape[1]
    elif X.shape[1] != getattr(part, "n_features_in_", X.shape[1]):
        raise InputError(f"X must have {part.n_features_in_} columns. Got {X.shape[1]}.")
    return X


def float32_out(tags: Tags) -> Tags:
    """Set the tags of an encoder whose output is always float32."""
    tags.transformer_tags.preserves_dtype = []
    return tags
