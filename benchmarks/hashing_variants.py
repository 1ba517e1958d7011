"""Variants of lsh, pca-rr and shd on MNIST pixels, compared with the paper's Table 5 to find out which ones it used.

    python benchmarks/hashing_variants.py DIR                            # all variants, all queries, three seeds
    python benchmarks/hashing_variants.py DIR --variants lsh-pca --queries 2000 --seeds 1

Each line of output has the variant and, for 32, 64, 128 and 256 bits, the mAP of the first 500 results in per cent,
averaged over the seeds, with the paper's in brackets. Ties are averaged, as in `lookalike bench run hashing`.
"""

import argparse
from pathlib import Path

import numpy as np

from lookalike.arrays import as_numpy, principal
from lookalike.codes import spherical
from lookalike.codes.bits import pack
from lookalike.codes.hyperplanes import Lsh, PcaRR
from lookalike.codes.queries import CodeQuery, SphericalQuery
from lookalike_bench.hashing import BITS, PAPER, rank
from lookalike_bench.measures import tied_average_precision
from lookalike_bench.vectors import train_test


def plain(coder, X, Q):
    """Codes of an unmodified coder."""
    coder.fit(X)
    return coder.encode(X), coder.encode(Q)


def lsh_pca(bits, seed, X, Q):
    """Random normals in the space of the first principal components, one component per bit."""
    mean, components, _ = map(as_numpy, principal(X, bits))
    P = components.T.astype(np.float32)
    return plain(Lsh(bits, seed), (X - mean.astype(np.float32)) @ P, (Q - mean.astype(np.float32)) @ P)


def pcarr_origin(bits, seed, X, Q):
    """The hyperplanes of `pcarr` through the origin: rows are not centred before the rotation."""
    W = PcaRR(bits, seed).fit(X).W_.T
    return pack(X @ W > 0), pack(Q @ W > 0)


def balls(rows, iterations=100):
    """`spherical`, learned from fewer rows or with fewer iterations."""

    def make(bits, seed, X, Q):
        some = np.random.default_rng(seed).permutation(len(X))[:rows]
        coder = spherical.Spherical(bits, seed, iterations).fit(X[some])
        return coder.encode(X), coder.encode(Q)

    return make


VARIANTS = {
    "lsh": ("lsh", lambda bits, seed, X, Q: plain(Lsh(bits, seed), X, Q), CodeQuery),
    "lsh-origin": ("lsh", lambda bits, seed, X, Q: plain(Lsh(bits, seed, centre=False), X, Q), CodeQuery),
    "lsh-pca": ("lsh", lsh_pca, CodeQuery),
    "pca-rr": ("pca-rr", lambda bits, seed, X, Q: plain(PcaRR(bits, seed), X, Q), CodeQuery),
    "pca-rr-origin": ("pca-rr", pcarr_origin, CodeQuery),
    "shd": ("shd", balls(10_000), SphericalQuery),
    "shd-hamming": ("shd", balls(10_000), CodeQuery),
    "shd-1000": ("shd", balls(1_000), SphericalQuery),
    "shd-300": ("shd", balls(300), SphericalQuery),
    "shd-1-round": ("shd", balls(10_000, 1), SphericalQuery),
    "shd-5-rounds": ("shd", balls(10_000, 5), SphericalQuery),
    "shd-10-rounds": ("shd", balls(10_000, 10), SphericalQuery),
    "shd-20-rounds": ("shd", balls(10_000, 20), SphericalQuery),
}
"""By name: the row of the paper, a function that encodes the database and the queries, and the query class."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--queries", type=int, default=10_000)
    parser.add_argument("--seeds", type=int, default=3)
    args = parser.parse_args()
    split = train_test("mnist", args.data)
    asked = np.random.default_rng(0).permutation(len(split.X_test))[: args.queries]
    for name in args.variants:
        row, make, query = VARIANTS[name]
        shown = []
        for bits, paper in zip(BITS, PAPER["mnist"][row], strict=True):
            found = []
            for seed in range(args.seeds):
                X, Q = make(bits, seed, split.X, split.X_test[asked])
                ask = lambda part, Q=Q, query=query: query(Q[part])  # noqa: E731
                groups = rank(X, ask, split.y, split.y_test[asked], lambda *_: None)
                found.append(100 * tied_average_precision(*groups, 500).mean())
            shown.append(f"{np.mean(found):5.1f} ({paper:.1f})")
        print(f"{name:14} {'  '.join(shown)}", flush=True)


if __name__ == "__main__":
    main()
