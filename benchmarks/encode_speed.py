"""Measure how fast coders encode, relative to the plain matrix product that most of them consist of.

    python benchmarks/encode_speed.py --rows 20000 --dim 784 --threads 1

Prints one line per coder and length: the coder, its bits, microseconds per vector, and the time of `X @ W.T` divided by
that of `encode`. Both times are medians of alternating runs. On a busy machine, `--clock cpu` measures CPU time.
"""

import argparse
import time

import numpy as np
from threadpoolctl import threadpool_limits

from lookalike import registry

CODERS = ("lsh", "pcarr", "itq", "spectral", "sklsh", "spherical", "pq")
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def timed(call, clock) -> float:
    start = clock()
    call()
    return clock() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--dim", type=int, default=784)
    parser.add_argument("--bits", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    args = parser.parse_args()
    clock = CLOCKS[args.clock]
    random = np.random.default_rng(0)
    X = random.normal(size=(args.rows, args.dim)).astype(np.float32)
    with threadpool_limits(args.threads):
        for bits in args.bits:
            W = random.normal(size=(bits, args.dim)).astype(np.float32)
            for name in CODERS:
                coder = registry.create("coder", f"{name}(bits={bits})").fit(X[:2_000])
                coder.encode(X)
                pairs = [
                    (timed(lambda W=W: X @ W.T, clock), timed(lambda c=coder: c.encode(X), clock))
                    for _ in range(args.repeats)
                ]
                bare, ours = np.median(pairs, axis=0)
                print(
                    f"{name:10} {bits:4} bits  {1e6 * ours / args.rows:6.2f} µs per vector  {bare / ours:5.0%}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
