"""Recall of the coders that need no labels: how many of the ten nearest neighbours are in a shortlist by codes.

    python benchmarks/code_recall.py DIR [--sets mnist corel5k-deep] [--coders itq pq] [--bits 64] [--keep FOLDER]

Vectors are the training sets of the datasets, at most `--most`; 200 of them, sampled at random, search for their ten
nearest neighbours. Each line of output has the dataset, the number of vectors, the coder, the bits, the recall in the
first 20, 140 ("fast") and 300 ("balanced") results by codes, which a search then re-ranks by vectors, and the
milliseconds of CPU time per query. Labels are not used.
"""

import argparse
import time
from pathlib import Path

import numpy as np

from lookalike import registry
from lookalike.index.flat import Flat
from lookalike.index.hamming import Hamming
from lookalike.index.queries import PointQuery
from lookalike_bench import vectors

K, ASKED, LENGTHS = 10, 200, (20, 140, 300)


def shares(X, coder, asked, true) -> tuple[list[float], float]:
    """Recall at each length, and milliseconds per query at the longest."""
    index = Hamming()
    index.add(np.arange(len(X)), coder.fit(X).encode(X))
    index.search(coder.query(X[asked]), 1)
    start = time.process_time()
    found = index.search(coder.query(X[asked]), LENGTHS[-1] + 1).ids
    took = time.process_time() - start
    others = [row[row != own] for row, own in zip(found, asked.tolist(), strict=True)]
    return [
        float(np.mean([np.isin(want, row[:length]).mean() for want, row in zip(true, others, strict=True)]))
        for length in LENGTHS
    ], 1e3 * took / len(asked)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--sets", nargs="+", choices=vectors.SETS, default=["mnist", "corel5k-deep", "corel5k-fisher"])
    parser.add_argument("--coders", nargs="+", default=["itq", "pq", "pcarr", "spectral", "spherical", "lsh"])
    parser.add_argument("--bits", type=int, nargs="+", default=[64])
    parser.add_argument("--most", type=int, default=60_000)
    parser.add_argument("--keep")
    args = parser.parse_args()
    for name in args.sets:
        with vectors.caching(args.keep):
            X = vectors.train_test(name, args.data).X[: args.most]
        asked = np.sort(np.random.default_rng(0).permutation(len(X))[:ASKED])
        flat = Flat()
        flat.add(np.arange(len(X)), X)
        found = flat.search(PointQuery(X[asked]), K + 1).ids
        true = [row[row != own][:K] for row, own in zip(found, asked.tolist(), strict=True)]
        for bits in args.bits:
            for spec in args.coders:
                recall, ms = shares(X, registry.create("coder", f"{spec}(bits={bits})"), asked, true)
                shown = "  ".join(f"{share:.3f}" for share in recall)
                print(f"{name}  {len(X):,}  {spec:9} {bits:4} bits  {shown}  {ms:.2f} ms", flush=True)


if __name__ == "__main__":
    main()
