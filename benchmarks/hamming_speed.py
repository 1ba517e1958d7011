"""Exact Hamming search against faiss's IndexBinaryFlat: the same codes, the same threads, in turns in one run.

    python benchmarks/hamming_speed.py                      # 10M × 64 bits, one query and batches of 32
    python benchmarks/hamming_speed.py --no-tables          # without MultiHash, which takes 48 bytes a row for 64 bits
    python benchmarks/hamming_speed.py --bits 256 --rows 2500000 --threads 1
    python benchmarks/hamming_speed.py --kind multihash     # MultiHash against Hamming, by how near the answers are

A line is: which of ours, bits, rows, queries at a time, threads, median milliseconds of both sides, and the ratio: its
median over the repeats and where 80 % of them lie. Each pair is timed one right after the other, with queries of its
own, so that a busy machine slows both; where others take turns on its cores, `--clock cpu --threads 1` counts only the
time that was really worked. The last line is what adding up the words of all codes takes: the speed of the memory.
"""

import argparse
import time
from concurrent.futures import ThreadPoolExecutor

import faiss
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


def compare(label: str, ours, theirs, asked) -> None:
    """`ours` and `theirs` of each member of `asked`, the first of which is not counted."""
    pairs = np.array([(timed(lambda q=q: ours(q)), timed(lambda q=q: theirs(q))) for q in asked])[1:] * 1_000
    ratios = pairs[:, 1] / pairs[:, 0]
    low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
    one, other = np.median(pairs, axis=0)
    print(f"{label}  ours {one:.2f} ms  other {other:.2f} ms  ratio {middle:.1f} ({low:.1f}–{high:.1f})", flush=True)


def against_faiss(args: argparse.Namespace) -> None:
    random = np.random.default_rng(0)
    codes = random.integers(0, 256, (args.rows, args.bits // 8), np.uint8)
    index, flat = Hamming(), faiss.IndexBinaryFlat(args.bits)
    index.add(np.arange(args.rows), codes)
    flat.add(codes)
    faiss.omp_set_num_threads(args.threads)
    ours = {"hamming": index} | ({"multihash": MultiHash().build(index)} if args.tables else {})
    for q in (1, 32):
        asked = random.integers(0, 256, (args.repeats + 1, q, args.bits // 8), np.uint8)
        for name, one in ours.items():
            found = one.search(CodeQuery(asked[0]), args.k)
            assert np.array_equal(found.scores, flat.search(asked[0], args.k)[0])
            label = f"{name}  {args.bits} bits  {args.rows:,} rows  {q} queries  k {args.k}  {args.threads} threads"
            compare(
                label,
                lambda queries, one=one: one.search(CodeQuery(queries), args.k),
                lambda queries: flat.search(queries, args.k),
                asked,
            )
    parts = np.array_split(index.blocks.words.ravel(), args.threads)
    with ThreadPoolExecutor(args.threads) as pool:
        took = [timed(lambda: list(pool.map(np.sum, parts))) for _ in range(args.repeats)]
    print(f"memory  {codes.nbytes / np.median(took) / 1e9:.1f} GB/s, all codes in {1e3 * np.median(took):.2f} ms")


def against_scan(args: argparse.Namespace) -> None:
    """Codes in clusters of 1,000: a cluster's codes differ from its centre in `away` bits, so that answers are near."""
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
    parser.add_argument("--kind", choices=["faiss", "multihash"], default="faiss")
    parser.add_argument("--bits", type=int, default=64)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--threads", type=int, default=threads.CORES)
    parser.add_argument("--no-tables", dest="tables", action="store_false")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    parser.add_argument("--repeats", type=int, default=11)
    args = parser.parse_args()
    threads.CORES = args.threads
    global clock
    clock = CLOCKS[args.clock]
    against_faiss(args) if args.kind == "faiss" else against_scan(args)


if __name__ == "__main__":
    main()
