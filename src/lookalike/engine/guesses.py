"""From distances to what a picture is taken for, how surely, and what it would be next.

In: squared distances of rows to classes (m, C), and what classes are calibrated to. Out: a `Guess` a row. Mensink et
al., "Large scale metric learning for distance-based image classification on open ended data sets", 2013 (ncm), Eq. 5.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Guess:
    """The class of a picture, None for none of these, and the next best; probabilities given that it is of a class."""

    label: str | None
    probability: float
    nearest: str | None  # the class it would be, were it of one
    runner_up: str | None
    runner_up_probability: float


def guess(far: NDArray[np.float64], names: dict[int, str], temperature: float, threshold: float) -> list[Guess]:
    """From squared distances (m, C), infinite where a class cannot be, to guesses."""
    scores = -0.5 * (far - np.min(far, axis=1, keepdims=True, initial=np.finfo(np.float64).max)) / temperature
    chances = np.exp(scores)  # (m, C); Eq. 5, given that it is of one of the classes
    chances /= np.maximum(chances.sum(axis=1, keepdims=True), 1.0)
    best = np.argmin(far, axis=1)  # (m,)
    others = far.copy()
    np.put_along_axis(others, best[:, None], np.inf, axis=1)
    second = np.argmin(others, axis=1)
    guesses = []
    for row, (one, two) in enumerate(zip(best.tolist(), second.tolist(), strict=True)):
        nearest = names[one] if np.isfinite(far[row, one]) else None
        runner_up = names[two] if np.isfinite(others[row, two]) else None
        guesses.append(
            Guess(
                nearest if far[row, one] <= threshold else None,
                0.0 if nearest is None else float(chances[row, one]),
                nearest,
                runner_up,
                0.0 if runner_up is None else float(chances[row, two]),
            )
        )
    return guesses
