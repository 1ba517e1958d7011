"""Reference implementation of pooling: one position and one channel at a time, as the papers define it.

Each function maps one feature map, (c, h, w), or the tokens of one picture, (tokens, c), to (c,), not normalised.
"""

import math

import numpy as np


def gem(map, p=3.0):
    return np.array([np.mean([max(value, 1e-6) ** p for value in channel.ravel()]) ** (1 / p) for channel in map])


def avg(map):
    return np.array([sum(channel.ravel()) / channel.size for channel in map])


def max_(map):
    return np.array([max(channel.ravel()) for channel in map])


def spoc(map):
    """Babenko & Lempitsky, Eq. 4 and 5."""
    c, h, w = map.shape
    sigma = min(h / 2, w / 2) / 3  # a third of the way from the centre to the nearest border
    row = np.zeros(c)
    for y in range(h):
        for x in range(w):
            away = (y - (h - 1) / 2) ** 2 + (x - (w - 1) / 2) ** 2
            row += math.exp(-away / (2 * sigma**2)) * map[:, y, x].astype(float)
    return row


def rmac(map):
    """Tolias, Sicre & Jégou, §3.2, without the whitening of regions."""
    row = np.zeros(len(map))
    for top, left, edge in rmac_regions(*map.shape[1:]):
        best = np.array([channel[top : top + edge, left : left + edge].max() for channel in map], float)
        length = math.sqrt(sum(best**2))
        row += best / length if length else best
    return row


def rmac_regions(h, w):
    """Return (top, left, edge) of every region. A transposed map has transposed regions."""
    if h > w:
        return [(top, left, edge) for left, top, edge in rmac_regions(w, h)]
    along = 1
    if w > h:  # the number of regions, at least two, for which neighbours overlap closest to 40 %
        shares = {m: (h - (w - h) / (m - 1)) / h for m in range(2, 2 + 2 * w)}
        along = min(shares, key=lambda m: abs(shares[m] - 0.4))
    regions = []
    for scale in (1, 2, 3):
        edge = max(1, math.floor(2 * h / (scale + 1)))
        down, across = scale, scale + along - 1
        for i in range(down):
            for j in range(across):
                top = math.floor((h - edge) * i / (down - 1)) if down > 1 else 0
                left = math.floor((w - edge) * j / (across - 1)) if across > 1 else 0
                regions.append((top, left, edge))
    return regions


def cls(tokens):
    return tokens[0]


def mean(tokens):
    return np.array([sum(channel) / len(channel) for channel in tokens.T])


POOLS = {"gem": gem, "avg": avg, "max": max_, "spoc": spoc, "rmac": rmac, "cls": cls, "mean": mean}
