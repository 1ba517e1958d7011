"""Several features, concatenated into one vector.

Ferecatu, Crucianu & Boujemaa, "Retrieval of difficult image classes using SVM-based relevance feedback", MIR 2004.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lookalike.errors import InputError
from lookalike.registry import create
from lookalike.types import Feature, FeatureSpec, Pixels, Prepared, Vectors, needs_fit


class Join(Feature):
    """Several features in one: the concatenation of their vectors. Unit vectors have equal weight.

    Parameters
    ----------
    parts : specs of the features, such as ["hsv()", "color()"]; features that must be fitted are not allowed.

    >>> Join(parts=["color()", "color()"]).dim
    1024

    """

    def __init__(self, parts: Sequence[FeatureSpec]):
        if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, str) for part in parts):
            raise InputError(f"parts must be a list of at least one feature spec, such as ['hsv()']. Got {parts!r}.")
        self.parts = list(parts)
        self._features: list[Feature] = [create("feature", part) for part in parts]
        for part, feature in zip(self.parts, self._features, strict=True):
            if needs_fit(feature):
                raise InputError(
                    f"parts cannot contain features that must be fitted. Got {part!r}. Create a separate space for it."
                )
        self.side = max(feature.side for feature in self._features)

    @property
    def dim(self) -> int:
        """Number of dimensions. Loads the networks among the parts."""
        return sum(feature.dim for feature in self._features)

    def prepare(self, image: Pixels) -> tuple[Prepared, ...]:
        """Prepare a picture with each part."""
        return tuple(feature.prepare(image) for feature in self._features)

    def describe(self, prepared: Sequence[tuple[Any, ...]]) -> Vectors:
        """Return the concatenated vectors of the parts, (n, dim) float32."""
        columns = [feature.describe([each[i] for each in prepared]) for i, feature in enumerate(self._features)]
        return np.concatenate(columns, axis=1)
