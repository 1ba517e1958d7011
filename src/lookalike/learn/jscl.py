"""Joint subspace and classifier learning (JSCL): a projection, and a classifier in it for each class against the rest.

In: (n, d) rows and labels, NumPy, torch, a memory map or `PqRows`. Out: (m, D) float32, D = min(dim, d, n - 1).
Gordo, Rodríguez, Perronnin, Valveny, CVPR 2012; scores as in `wsabie` (ncm, Eq. 15), the loss a hinge on class labels.
"""

from typing import Any

import array_api_compat

from lookalike.arrays import namespace
from lookalike.learn.wsabie import Wsabie
from lookalike.types import Array


def hinge_loss(scores: Array, y: Array) -> tuple[Any, Array]:
    """The hinge loss of class scores (m, C) for classes y (m,), a mean over rows, and its gradient by the scores.

    The right class should score 1 and more, the others -1 and less. The others weigh, together, as much as the right
    one: with many classes they would drown it.

    >>> import numpy as np
    >>> hinge_loss(np.array([[0.5, -3.0, -0.5]]), np.array([0]))
    (np.float64(0.75), array([[-1. ,  0. ,  0.5]]))
    """
    xp, C = namespace(scores), scores.shape[1]
    own = xp.arange(C, device=array_api_compat.device(scores)) == y[:, None]  # (m, C)
    signs = xp.where(own, xp.ones_like(scores), -xp.ones_like(scores))
    weights = xp.where(own, xp.ones_like(scores), xp.full_like(scores, 1 / (C - 1))) / scores.shape[0]
    margins = 1 - signs * scores
    weights = weights * xp.astype(margins > 0, scores.dtype)
    return xp.sum(weights * margins), -signs * weights


class Jscl(Wsabie):
    """A projection W and a classifier v_c a class, each against all others; after training W is what counts.

    Everything but the loss is as in `Wsabie`, with the same parameters and attributes. For retrieval, where the
    classifiers are left out, watch retrieval: `measure="map"`.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> Jscl(dim=2).fit(X, y).transform(X).shape
    (300, 2)

    """

    loss = staticmethod(hinge_loss)
