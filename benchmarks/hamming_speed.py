"""Speed of `MultiHash` (tables) and `Hamming` (scan), by the distance of the results, alternating in one run.

    python benchmarks/hamming_speed.py                      # 10M × 64 bits; the tables take 48 bytes per code
    python benchmarks/hamming_speed.py --bits 128 --rows 1000000 --threads 1

Each line of output has the bits, the number of codes, k, the distance of the k-th result, the share of the codes that
the tables scored, the median milliseconds of both, and the speed-up of the tables: its median over the repeats and the
range of 80 % of them. In the last line half of the bits differ, so codes are random. Both searches of a pair are timed
one right after the other, with new queries for each pair, so that other load on the machine slows both. If other
processes share the cores, `--clock cpu --threads 1` counts only CPU time. For a comparison with faiss, run
`lookalike bench run peers`.
"""

import argparse
import time

import numpy as np

from lookalike.codes.queries import CodeQuery
from lookalike.index import threads
from lookalike.index.hamming import Hamming
from lookalike.index.multi_hash import MultiHash

CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}
clock = CLOCKS["wall"]


def timed(call) -> float:
    start = clock()
    call()
    return clock() - start


def compare(label: str, tables, scan, asked) -> None:
    """Time `tables` and `scan` for each query in `asked`; the first query is a warm-up."""
    pairs = np.array([(timed(lambda q=q: tables(q)), timed(lambda q=q: scan(q))) for q in asked])[1:] * 1_000
    ratios = pairs[:, 1] / pairs[:, 0]
    low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
    one, other = np.median(pairs, axis=0)
    print(f"{label}  tables {one:.2f} ms  scan {other:.2f} ms  ratio {middle:.1f} ({low:.1f}–{high:.1f})", flush=True)


def measure(args: argparse.Namespace) -> None:
    """Compare both on clusters of 1,000 codes, which differ from their centre in `away` bits on average."""
    random = np.random.default_rng(0)
    for away in (2, 4, 8, 12, 16, 24, 32):
        centres = random.integers(0, 256, (args.rows // 1_000, args.bits // 8), np.uint8)
        codes = np.repeat(centres, 1_000, axis=0)
        for part in np.array_split(np.arange(len(codes)), 100):
            flips = random.random((len(part), args.bits), np.float32) < away / args.bits
            codes[part] ^= np.packbits(flips, axis=1)
        scan = Hamming()
        scan.add(np.arange(len(codes)), codes)
        tables = MultiHash().build(scan)
        asked = codes[random.integers(0, len(codes), args.repeats + 1)]
        hits = tables.search(CodeQuery(asked), args.k)
        assert np.array_equal(hits.ids, scan.search(CodeQuery(asked), args.k).ids)
        label = f"{args.bits} bits  {len(codes):,} rows  k {args.k}  k-th at {np.median(hits.scores[:, -1]):.0f} bits"
        each = [CodeQuery(asked[i : i + 1]) for i in range(len(asked))]
        compare(
            label + f"  scored {hits.scored / len(asked) / len(codes):.2%}",
            lambda query, tables=tables: tables.search(query, args.k),
            lambda query, scan=scan: scan.search(query, args.k),
            each,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=threads.CORES)
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--repeats", type=int, default=11)
    args = parser.parse_args()
    threads.CORES = args.threads
    global clock
    clock = CLOCKS[args.clock]
    measure(args)


if __name__ == "__main__":
    main()
