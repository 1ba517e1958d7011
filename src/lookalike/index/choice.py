"""Which index serves how many vectors.

In: a number of rows. Out: the name of an index. `benchmarks/search_speed.py` measures why.
"""

FLAT_MAX, HNSW_MAX = 2_000_000, 5_000_000
"""Up to so many rows a plain scan serves (0.1 s at d = 256), up to so many a graph fits into memory (2 GB)."""


def choose(n: int) -> str:
    """The index for n vectors: "flat", or a kind of `Ann`, "hnsw" or "ivfpq"."""
    if n <= FLAT_MAX:
        return "flat"
    return "hnsw" if n <= HNSW_MAX else "ivfpq"
