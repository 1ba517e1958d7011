"""Features that need no second step: what they make of a picture is its row already.

In: one row a picture, (dim,) float32. Out: (n, dim) float32.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lookalike.types import Feature, Vectors


class RowFeature(Feature):
    """A feature whose `prepare` makes the whole row: it is small, and made where the picture was read."""

    def __init__(self) -> None:
        """Nothing to choose. (Left out, a protocol's own constructor would take anything.)"""

    def describe(self, prepared: Sequence[NDArray[Any]]) -> Vectors:
        """n rows under each other, (n, dim) float32."""
        return np.array(prepared, np.float32).reshape(-1, self.dim)
