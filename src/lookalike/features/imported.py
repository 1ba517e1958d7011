"""`Imported`: vectors of pictures that were computed elsewhere and imported from a file.

Lookalike has only the vectors, not the network, so the feature cannot be extracted from a picture. Searches in its
spaces use pictures of the collection or vectors as examples.
"""

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from lookalike.errors import InputError
from lookalike.limits import COUNT, check_number
from lookalike.types import Box, Feature, Pixels, Prepared, Vectors


class Imported(Feature):
    """Vectors that `Collection.import_vectors` has read from a file.

    Parameters
    ----------
    name : the name of the space that they were imported to.
    dim : dimension of the vectors.

    """

    side = 1
    imported = True

    def __init__(self, name: str, dim: int):
        check_number("dim", dim, *COUNT)
        self.name = name
        self._dim = dim

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        return self._dim

    def prepare(self, image: Pixels) -> NoReturn:  # noqa: ARG002 — as a `Feature`
        """Raise InputError: the vectors of new pictures are unknown."""
        self._fail()

    def describe(self, prepared: Sequence[Prepared]) -> Vectors:
        """Return no vectors for no pictures, and raise InputError for others."""
        if prepared:
            self._fail()
        return np.empty((0, self.dim), np.float32)

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> NoReturn:  # noqa: ARG002 — as a `Feature`
        """Raise InputError: the vectors of parts are unknown."""
        self._fail()

    def cells(self, image: Pixels) -> NoReturn:  # noqa: ARG002 — as a `Feature`
        """Raise InputError: the vectors of parts are unknown."""
        self._fail()

    def _fail(self) -> NoReturn:
        raise InputError(
            f"The vectors of space '{self.name}' were imported, so Lookalike cannot compute those of other pictures or"
            " of parts of pictures. Search with a picture of the collection or with a vector, or import more vectors:"
            f" lookalike import FILE --space {self.name}"
        )
