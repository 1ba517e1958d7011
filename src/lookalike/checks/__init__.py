"""Conformance: what every component of a kind must do, whoever wrote it.

In: `make`, which returns a fresh component each time. Out: nothing, or an AssertionError. `CHECKS[kind]` lists the
checks of a kind; the tests run each over every registered component, and authors of new ones run them on theirs.
"""

from collections.abc import Callable

from lookalike.checks.common import Make, check_spec_round_trip
from lookalike.checks.indexes import (
    check_index_edges,
    check_index_filters,
    check_index_is_exact,
    check_index_ties,
)
from lookalike.checks.pictures import (
    check_feature_extremes,
    check_feature_regions,
    check_feature_repeats,
    check_feature_saves,
    check_feature_shape,
    check_feature_tells_pictures_apart,
    check_local_repeats,
    check_local_shape,
)
from lookalike.checks.steps import (
    check_coder_asks,
    check_coder_degenerate,
    check_coder_refuses,
    check_coder_repeats,
    check_coder_saves,
    check_coder_shape,
    check_transform_degenerate,
    check_transform_refuses,
    check_transform_repeats,
    check_transform_saves,
    check_transform_shape,
)

CHECKS: dict[str, list[Callable[[Make], None]]] = {
    "feature": [
        check_spec_round_trip,
        check_feature_shape,
        check_feature_repeats,
        check_feature_extremes,
        check_feature_tells_pictures_apart,
        check_feature_regions,
        check_feature_saves,
    ],
    "local": [
        check_spec_round_trip,
        check_local_shape,
        check_local_repeats,
    ],
    "transform": [
        check_spec_round_trip,
        check_transform_shape,
        check_transform_repeats,
        check_transform_saves,
        check_transform_refuses,
        check_transform_degenerate,
    ],
    "coder": [
        check_spec_round_trip,
        check_coder_shape,
        check_coder_repeats,
        check_coder_saves,
        check_coder_asks,
        check_coder_refuses,
        check_coder_degenerate,
    ],
    "index": [
        check_spec_round_trip,
        check_index_is_exact,
        check_index_edges,
        check_index_filters,
        check_index_ties,
    ],
}
