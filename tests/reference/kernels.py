"""Reference implementation of the kernels: functions of γ that return a function of two rows.

They are named like the kernels, with `_` for `-`.
"""

import numpy as np


def gram(X, Y, k):
    return np.array([[k(x, y) for y in Y] for x in X])


def linear(gamma):
    return lambda x, y: x @ y


def poly(gamma):
    return lambda x, y: x @ y + gamma * (x @ y) ** 2


def gaussian(gamma):
    return lambda x, y: np.exp(-gamma * np.sum((x - y) ** 2))


def gaussian_l1(gamma):
    return lambda x, y: np.exp(-gamma * np.sum(np.abs(x - y)) ** 2)


def laplace(gamma):
    return lambda x, y: np.exp(-gamma * np.sum(np.abs(x - y)))


def laplace_l2(gamma):
    return lambda x, y: np.exp(-gamma * np.linalg.norm(x - y))


def angular(gamma):
    return lambda x, y: -np.sum(np.abs(x - y))


def angular_l2(gamma):
    return lambda x, y: -np.linalg.norm(x - y)
