"""Flip single bits in the databases of a small collection and count the flips that `verify` does not detect.

    python benchmarks/bit_flips.py --every 37

Flipping every 37th bit takes about ten minutes. A flip is missed if it changes a value of a table with row digests and
neither opening nor verifying the file reports damage. The exit code is 1 if any flip is missed.
"""

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from damage import flip_bits
from lookalike.store.directory import Store
from lookalike.store.items import Item
from lookalike.store.jobs import JobLedger
from lookalike.store.schema import DATABASES, JOBS, JOBS_FILE
from lookalike.store.sessions import ExternalExample


def make(folder: Path) -> None:
    """Create a collection with rows in every table that has digests."""
    store = Store(folder, create=True)
    with store.writer(), store.transaction():
        store.vectors.create_space("color()", ["color()"])
        content = [bytes([i % 256]) * 32 for i in range(150)]
        store.items.add([Item(i, [], 1_000 + i, 640, 480, "jpeg", 1.5e9 + i, None, content[i]) for i in range(150)])
        store.items.link([(f"/photos/{i:03}.jpg", 1_000 + i, i, i) for i in range(150)])
        store.items.skip([(f"/photos/broken-{i}.jpg", 5, i, "truncated") for i in range(20)])
    judgements = store.judgements
    judgements.add_labels([(i, f"label {i % 7}") for i in range(150)], author="anna", source="csv")
    judgements.classes.set_parents([("label 1", "thing"), ("label 2", "thing")])
    judgements.classes.update_settings(reject=0.1)
    judgements.predictions.add([(i, "label 1", 0.5) for i in range(200, 230)], space="color()", model="mean 1")
    judgements.predictions.reject("label 1", range(200, 220), author="ben")
    judgements.not_duplicates.add(range(12), author="anna")
    outsider = ExternalExample(True, np.arange(8, dtype=np.float32), "color()", 9, "/x.jpg")
    session = judgements.sessions.start(
        "color()", author="ben", name="sea", marks={3: "relevant"}, external_examples=[outsider]
    )
    for first in range(0, 100, 10):
        judgements.sessions.show(session, range(first, first + 10), author="ben")
        judgements.sessions.mark(session, dict.fromkeys(range(first, first + 5), "irrelevant"), author="ben")
    judgements.sessions.undo(session, author="ben")
    store.close()
    with closing(JobLedger(folder, bool)) as ledger:
        for number in range(150):
            ledger.add({"kind": "add", "arguments": {"folder": f"/photos/{number:03}"}, "ended": 1.5e9 + number})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1_009, metavar="N", help="Flip every Nth bit (default: 1009).")
    every = parser.parse_args().every
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        make(Path(folder) / "c")
        for name, migrations in {**DATABASES, JOBS_FILE: JOBS}.items():
            file, start = Path(folder) / "c" / name, time.monotonic()
            results = flip_bits(file, migrations, range(0, 8 * file.stat().st_size, every))
            counts = ", ".join(f"{len(places):,} {what}" for what, places in results.items())
            print(f"{name}, {file.stat().st_size:,} bytes: {counts} in {time.monotonic() - start:.0f} s", flush=True)
            print(*(f"  missed: bit {place}" for place in results["missed"]), sep="\n", end="")
            missed += len(results["missed"])
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
