"""Adam: gradients divided by their usual size, so that one rate does for parameters of every kind.

In: gradients, one after the other, NumPy or torch. Out: steps. Kingma & Ba, "Adam: a method for stochastic
optimization", ICLR 2015, Algorithm 1.
"""

from lookalike.arrays import namespace
from lookalike.types import Array


class Adam:
    """To be given to `sgd.train` as its `condition`; one for each training, as it remembers.

    >>> import numpy as np
    >>> Adam()(np.array([3.0, -0.01])).round(3).tolist()
    [1.0, -1.0]
    """

    def __init__(self, mean_decay: float = 0.9, square_decay: float = 0.999):
        self.mean_decay, self.square_decay = mean_decay, square_decay
        self._mean: Array = 0.0
        self._square: Array = 0.0
        self._steps = 0

    def __call__(self, gradient: Array) -> Array:
        """The step for this gradient: as large as 1 where the last ones agree."""
        self._steps += 1
        self._mean = self.mean_decay * self._mean + (1 - self.mean_decay) * gradient
        self._square = self.square_decay * self._square + (1 - self.square_decay) * gradient * gradient
        mean = self._mean / (1 - self.mean_decay**self._steps)
        square = self._square / (1 - self.square_decay**self._steps)
        return mean / (namespace(gradient).sqrt(square) + 1e-12)
