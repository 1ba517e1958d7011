"""Memory that one step of training after the other uses again: the system clears what is new, which takes time.

In: names and shapes. Out: arrays, NumPy or torch, that hold whatever was there before.
"""

import math
from collections.abc import Hashable

import array_api_compat

from lookalike.arrays import namespace
from lookalike.types import Array


class Room:
    """Arrays by name. An array is good until its name is asked for again; nothing of it may be kept longer.

    >>> import numpy as np
    >>> room = Room()
    >>> room.array("sums", (2, 3), like=np.empty(0)).shape, room.array("sums", (1, 4), like=np.empty(0)).shape
    ((2, 3), (1, 4))
    """

    def __init__(self) -> None:
        self._held: dict[Hashable, Array] = {}

    def array(self, name: Hashable, shape: tuple[int, ...], like: Array) -> Array:
        """An array of this shape, of the kind, the precision and the device of `like`."""
        xp, size, held = namespace(like), math.prod(shape), self._held.get(name)
        if held is None or held.shape[0] < size or held.dtype != like.dtype:
            held = self._held[name] = xp.empty((size,), dtype=like.dtype, device=array_api_compat.device(like))
        return xp.reshape(held[:size], shape)
