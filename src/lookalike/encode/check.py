"""What the encoders check about their rows, and what they say of themselves.

In: rows (NumPy or torch). Out: the same, checked; InputError with what is allowed otherwise.
"""

import array_api_compat
from sklearn.base import BaseEstimator
from sklearn.utils import Tags
from sklearn.utils.validation import validate_data

from lookalike.errors import InputError
from lookalike.types import Array


def check_matrix(part: BaseEstimator, X: Array, *, reset: bool, min_rows: int = 1) -> Array:
    """X as a matrix with the columns `part` knows; `reset` lets it learn them. Values are checked chunk by chunk."""
    if not array_api_compat.is_torch_array(X):
        return validate_data(part, X, reset=reset, ensure_all_finite=False, ensure_min_samples=min_rows)
    if X.ndim != 2 or X.shape[0] < min_rows:
        raise InputError(f"X must be a matrix of at least {min_rows} rows. Got shape {tuple(X.shape)}.")
    if reset:
        part.n_features_in_ = X.shape[1]
    elif X.shape[1] != getattr(part, "n_features_in_", X.shape[1]):
        raise InputError(f"X must have {part.n_features_in_} columns. Got {X.shape[1]}.")
    return X


def float32_out(tags: Tags) -> Tags:
    """The tags of an encoder, for scikit-learn's checks."""
    tags.transformer_tags.preserves_dtype = []  # float32 comes out, whatever went in
    return tags
