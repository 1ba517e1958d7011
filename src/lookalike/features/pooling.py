"""Feature maps and tokens to one row a picture, as ONNX graphs that run inside the network or after it.

In: (n, c, h, w) maps or (n, tokens, c) tokens. Out: (n, c). GeM is Radenović, Tolias & Chum, "Fine-tuning CNN image
retrieval with no human annotation", 2018; "avg" is SPoC without its centre prior, Babenko & Lempitsky, 2015.
"""

from onnx import GraphProto
from onnx.parser import parse_graph

POOLS: dict[str, tuple[int, str]] = {
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
    "cls": (3, "pooled = Gather <axis = 1> (map, first)"),
    "mean": (3, "pooled = ReduceMean <axes = [1], keepdims = 0> (map)"),
}
"""Name → how many axes it pools from, and the graph from `map` to `pooled`, (n, c) or (n, c, 1, 1)."""


def pool_graph(pool: str, p: float = 3.0) -> GraphProto:
    """The graph from "map" to "row", (n, c)."""
    axes, steps = POOLS[pool]
    shape = "n, c, h, w" if axes == 4 else "n, t, c"
    return parse_graph(f"""
        pool (float[{shape}] map) => (float[n, c] row)
        <float floor = {{1e-6}}, float p = {{{float(p)}}}, float root = {{{1 / p}}}, int64 first = {{0}}>
        {{
            {steps}
            row = Flatten (pooled)
        }}
    """)
