"""Several features concatenated in one row.

Ferecatu, Crucianu & Boujemaa, "Retrieval of difficult image classes using SVM-based relevance feedback", MIR 2004.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lookalike.errors import InputError
from lookalike.registry import create
from lookalike.types import Feature, FeatureSpec, Pixels, Prepared, Vectors, needs_fit


class Join(Feature):
    """Several features as one: the row is the rows of the parts, one after the other. Unit rows count equally.

    Parameters
    ----------
    parts : specs of the features, such as ["hsv()", "color()"]; features that must be fitted are not allowed.

    >>> Join(parts=["color()", "color()"]).dim
    1024

    """

    def __init__(self, parts: Sequence[FeatureSpec]):
        if not isinstance(parts, list | tuple) or not parts or not all(isinstance(part, str) for part in parts):
            raise InputError(f"parts must be a list of at least one feature's spec, such as ['hsv()']. Got {parts!r}.")
        self.parts = list(parts)
        self._features: list[Feature] = [create("feature", part) for part in parts]
        for part, feature in zip(self.parts, self._features, strict=True):
            if needs_fit(feature):
                raise InputError(
                    f"parts must need no fitting, so that the row does not either. Got {part!r}."
                    " Give it a space of its own."
                )
        self.side = max(feature.side for feature in self._features)

    @property
    def dim(self) -> int:
        """The length of a row. Loads the networks among the parts."""
        return sum(feature.dim for feature in self._features)

    def prepare(self, image: Pixels) -> tuple[Prepared, ...]:
        """The picture as each part prepares it."""
        return tuple(feature.prepare(image) for feature in self._features)

    def describe(self, prepared: Sequence[tuple[Any, ...]]) -> Vectors:
        """The concatenated rows of the parts, (n, dim) float32."""
        columns = [feature.describe([each[i] for each in prepared]) for i, feature in enumerate(self._features)]
        return np.concatenate(columns, axis=1)
