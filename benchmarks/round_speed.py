"""Measure complete feedback rounds on many synthetic vectors (train, search, select, estimate) and their precision.

    python benchmarks/round_speed.py [--rows 1000000] [--sessions 3] [--rounds 10] [--kernel gaussian] [--exact]
                                     [--json]

The vectors are those of `lookalike bench run hyperplane`. The target of a session is one cluster; it starts with one
positive and 8 negative vectors. Prints the median milliseconds of rounds 0 to N, by part, and the precision of the 50
best; `--exact` also runs the same sessions without leaves, to show the loss of precision. The build of the leaves is
timed separately. More than 2M vectors and their leaves are in files, in the folder of the variable TMPDIR.
"""

import argparse
import json
import statistics
import time
from typing import Any

import numpy as np

from lookalike.feedback import EmulatedUser, emulate
from lookalike.feedback.learners import Svm
from lookalike.feedback.round import Marks, run_round
from lookalike.index.leaves import Leaves
from lookalike.types import silent
from lookalike_bench.hyperplane import K, build, draw, empty_rows


def main() -> None:
    """Build the index, run the sessions and print the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sessions", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--kernel", default="gaussian")
    parser.add_argument("--exact", action="store_true", help="also run without leaves (slow)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    X = empty_rows(options.rows)
    y, _ = draw(options.rows, 0, X)
    leaves = Leaves()
    start = time.perf_counter()
    build(leaves, X, silent)
    show({"rows": options.rows, "build s": time.perf_counter() - start}, options.json)
    for name, index in {"leaves": leaves, **({"exact": leaves.truth} if options.exact else {})}.items():
        show({"index": name, **sessions(index, X, y, options)}, options.json)


def sessions(index: Any, X: Any, y: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Run the sessions; return median milliseconds by part, and mean precision by round."""
    ids = np.arange(len(X))
    targets = np.flatnonzero(np.bincount(y) >= K)
    parts: dict[str, list[float]] = {}
    precision = np.zeros(options.rounds + 1)
    for session in range(options.sessions):
        random = np.random.default_rng(session)
        user = EmulatedUser(ids, np.flatnonzero(y == random.choice(targets)))
        first, signs = user.start(random)

        def turn(marks: Marks, number: int, session: int = session) -> Any:
            return run_round(index, marks, k=K, learner=Svm(options.kernel), seed=session, turn=number)

        rounds = emulate(user, index, Marks(first, X[first], signs), options.rounds, turn)
        for number, (_, played) in enumerate(rounds):
            precision[number] += np.isin(played.best, user.relevant).mean() / options.sessions
            for part, seconds in played.seconds.items():
                parts.setdefault(part, []).append(1e3 * seconds)
            parts.setdefault("all", []).append(1e3 * sum(played.seconds.values()))
    return {f"{part} ms": statistics.median(values) for part, values in parts.items()} | {
        "wanted of the 50 best, by round": [float(f"{value:.3f}") for value in precision]
    }


def show(row: dict[str, Any], as_json: bool) -> None:
    """Print one line."""
    short = {key: float(f"{value:.4g}") if isinstance(value, float) else value for key, value in row.items()}
    print(json.dumps(short) if as_json else "  ".join(f"{key} {value}" for key, value in short.items()), flush=True)


if __name__ == "__main__":
    main()
