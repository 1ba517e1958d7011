"""Stochastic gradient steps of the robust transductive SVM, each followed by a projection onto the balance constraint.

In: rows, the terms of the sum over them, a plane (w, b). Out: the plane after one step a term, and the mean of all
planes on the way. Cevikalp et al. 2017 (tsvm-hashing), Algorithm 2. numba: a step costs one row.
"""

from typing import Any

from numba import njit


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract"})
def steps(X: Any, terms: Any, order: Any, w: Any, b: float, balance: Any, t: float, mean_w: Any) -> Any:
    """One step for each term in `order`, from the plane (w, b); w becomes the last one, mean_w the mean.

    terms: row (N,), sign, weight and beta of each, β as in Algorithm 1. balance: mean (d,), its products with the rows
    (n,) and a level: each step ends on meanᵀw + b = level, unless that is NaN. t: steps 1/t, 1/(t + 1), … of the
    gradient of the whole sum. Returns b, the mean b.

    w is kept as scale · v + along · mean, so that neither shrinking nor projecting touches all d numbers.
    """
    rows, signs, weights, betas = terms
    mean, products, level = balance
    N, d = len(rows), len(w)
    bound = level == level  # not NaN
    v = w.copy()
    off = mean_w  # Σ of what each step added, times the scales that came before it
    off[:] = 0
    scale, along, scales, alongs, biases = 1.0, 0.0, 0.0, 0.0, 0.0
    mean_v, mean_mean = 0.0, 0.0
    for j in range(d):
        mean_v += mean[j] * v[j]
        mean_mean += mean[j] * mean[j]
    for place in order:
        i, sign = rows[place], signs[place]
        dot = 0.0
        for j in range(d):
            dot += v[j] * X[i, j]
        score = scale * dot + along * products[i] + b
        slope = betas[place] - (weights[place] if sign * score <= 1 else 0.0)
        scale *= 1 - 1 / t
        along *= 1 - 1 / t
        if slope != 0:
            change = -N * sign * slope / t
            b += change
            change /= scale
            mean_v += change * products[i]
            for j in range(d):
                v[j] += change * X[i, j]
                off[j] += change * scales * X[i, j]
        if bound:  # the nearest plane that holds the constraint
            excess = (scale * mean_v + along * mean_mean + b - level) / (mean_mean + 1)
            along -= excess
            b -= excess
        scales += scale
        alongs += along
        biases += b
        t += 1
    for j in range(d):
        w[j] = scale * v[j] + along * mean[j]
        mean_w[j] = (scales * v[j] - off[j] + alongs * mean[j]) / len(order)
    return b, biases / len(order)
