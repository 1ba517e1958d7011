"""The names of each item's labels as what is learned from: one a row, or ones and zeros where an item has several.

In: names, some an item. Out: (n,) or (n, C). Apart from `labels`, which loads scikit-learn: the engine starts quickly.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def join_names(labels: Sequence[Sequence[str]]) -> NDArray[Any]:
    """The names of each item's labels as `encode_many` takes them: (n,) where all have one, else ones and zeros (n, C).

    >>> join_names([["owl"], ["cat"]]).tolist(), join_names([["owl"], ["owl", "cat"]]).tolist()
    (['owl', 'cat'], [[0, 1], [1, 1]])
    """
    if all(len(names) == 1 for names in labels):
        return np.array([name for (name,) in labels])
    columns = {name: i for i, name in enumerate(sorted({name for names in labels for name in names}))}
    y = np.zeros((len(labels), len(columns)), np.int64)
    for row, names in zip(y, labels, strict=True):
        row[[columns[name] for name in names]] = 1
    return y
