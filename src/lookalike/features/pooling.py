"""Pooling of feature maps (n, c, h, w) and tokens (n, tokens, c) into one vector per picture, (n, c).

Pools are ONNX graphs that run inside the network or after it. GeM: Radenović, Tolias & Chum, "Fine-tuning CNN image
retrieval with no human annotation", 2018. SPoC: Babenko & Lempitsky, "Aggregating deep convolutional features for image
retrieval", ICCV 2015; "avg" is the same without its centre prior. R-MAC: Tolias, Sicre & Jégou, "Particular object
retrieval with integral max-pooling of CNN activations", ICLR 2016.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np
from onnx import GraphProto
from onnx.parser import parse_graph

SCALES = (1, 2, 3)
OVERLAP = 0.4
"""Regions of R-MAC: their scales, and the fraction by which neighbours at scale 1 overlap."""


def pool_graph(pool: str, shape: Sequence[int], p: float = 3.0) -> GraphProto:
    """Return the graph from "map", (n, *shape), to "row", (n, c), where shape is (c, h, w) or (tokens, c)."""
    _, steps = POOLS[pool]
    return parse_graph(f"""
        pool (float[n, {", ".join(map(str, shape))}] map) => (float[n, c] row)
        <float floor = {{1e-6}}, float p = {{{float(p)}}}, float root = {{{1 / p}}}, int64 first = {{0}}>
        {{
            {steps if isinstance(steps, str) else steps(*shape[1:])}
            row = Flatten (pooled)
        }}
    """)


def pools_for(axes: int) -> list[str]:
    """Return the names of the pools for an array with this number of axes."""
    return [name for name, (wanted, _) in POOLS.items() if wanted == axes]


def _spoc_steps(h: int, w: int) -> str:
    """Return the steps of SPoC: the sum over positions, weighted by a Gaussian, three sigmas to the border."""
    sigma = min(h, w) / 2 / 3
    y, x = (
        np.arange(length) + 0.5 - length / 2 for length in (h, w)
    )  # centres of cells, relative to the centre of the map
    prior = np.exp(-(y[:, None] ** 2 + x**2) / (2 * sigma**2))  # (h, w)
    return f"""
        prior = Constant <value = float[{h}, {w}] {{{", ".join(f"{share:.9g}" for share in prior.ravel())}}}> ()
        weighted = Mul (map, prior)
        places = Constant <value_ints = [2, 3]> ()
        pooled = ReduceSum <keepdims = 0> (weighted, places)
    """


def _rmac_steps(h: int, w: int) -> str:
    """Return the steps of R-MAC: the sum of the normalised maxima of all regions. (The paper also whitens them.)"""
    steps = ""
    for scale in SCALES:
        edge, tops, lefts = _lay_regions(h, w, scale)
        # Compute the maxima of all squares of this size, then select some: fewer steps than cropping each region.
        steps += f"""
            tops{scale} = Constant <value_ints = {tops}> ()
            lefts{scale} = Constant <value_ints = {lefts}> ()
            squares{scale} = MaxPool <kernel_shape = [{edge}, {edge}]> (map)
            rows{scale} = Gather <axis = 2> (squares{scale}, tops{scale})
            regions{scale} = Gather <axis = 3> (rows{scale}, lefts{scale})
            list{scale} = Reshape (regions{scale}, flat)
        """
    return f"""
        flat = Constant <value_ints = [0, 0, -1]> ()
        {steps}
        regions = Concat <axis = 2> ({", ".join(f"list{scale}" for scale in SCALES)})
        lengths = ReduceL2 <axes = [1]> (regions)
        smallest = Constant <value_float = 1e-12> ()
        divisors = Max (lengths, smallest)
        units = Div (regions, divisors)
        last = Constant <value_ints = [2]> ()
        pooled = ReduceSum <keepdims = 0> (units, last)
    """


def _lay_regions(h: int, w: int, scale: int) -> tuple[int, list[int], list[int]]:
    """Return the edge of the square regions at a scale, their first rows, and their first columns."""
    short, long = sorted((h, w))
    along = 1  # regions along the longer side at scale 1, chosen to bring their overlap closest to OVERLAP
    if long > short:
        most = math.ceil((long - short) / (short * (1 - OVERLAP))) + 1
        along = min(range(2, most + 1), key=lambda m: abs(1 - (long - short) / (short * (m - 1)) - OVERLAP))
    edge = max(1, 2 * short // (scale + 1))
    counts = (scale, scale + along - 1) if h <= w else (scale + along - 1, scale)
    tops, lefts = (
        [i * (length - edge) // max(1, count - 1) for i in range(count)]
        for length, count in zip((h, w), counts, strict=True)
    )
    return edge, tops, lefts


POOLS: dict[str, tuple[int, str | Callable[[int, int], str]]] = {
    "gem": (
        4,
        """
        positive = Clip (map, floor)
        powers = Pow (positive, p)
        mean = GlobalAveragePool (powers)
        pooled = Pow (mean, root)
        """,
    ),
    "avg": (4, "pooled = GlobalAveragePool (map)"),
    "max": (4, "pooled = GlobalMaxPool (map)"),
    "spoc": (4, _spoc_steps),
    "rmac": (4, _rmac_steps),
    "cls": (3, "pooled = Gather <axis = 1> (map, first)"),
    "mean": (3, "pooled = ReduceMean <axes = [1], keepdims = 0> (map)"),
}
"""For each pool: the number of axes of its input, and the steps from `map` to `pooled`, (n, c) or (n, c, 1, 1), as text
or as a function that returns the text for a given height and width."""
