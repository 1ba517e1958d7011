"""A writer process for `test_crash.py` to kill. It adds, removes and compacts in a loop, and prints its progress.

    python writer.py COLLECTION PICTURES ROUNDS [PHASE SECONDS]

It kills itself after SECONDS of its own CPU time in PHASE, so that the moment does not depend on other processes.
"""

import os
import signal
import sys
from pathlib import Path

import lookalike.encode.whiten  # imported before the writers are forked
import lookalike.features.histograms  # noqa: F401
from lookalike.collection import Collection, adding, fitting

RECIPES = ["color", "small = color() | pca(dim=8) | l2()"]


def main(where: str, pictures: str, rounds: int, phase: str = "", seconds: float = 0.0) -> None:
    adding.COMMIT_ROWS = 8  # many commits in a short run
    fitting.FIT_MIN = 20
    with Collection(where, create=True) as collection:
        collection.add(pictures + "/even/00.png", recipes=RECIPES, workers=1)  # imports the remaining modules
        report("start add")
        die("first add", phase, seconds)
        for _ in range(rounds):
            collection.add(pictures, recipes=RECIPES, workers=1)
            report("done add", "start remove")
            die("remove", phase, seconds)
            for path in sorted(Path(pictures, "odd").iterdir()):
                collection.remove(path)
            report("done remove", "start compact")
            die("compact", phase, seconds)
            collection.compact()
            report("done compact", "start add")
            die("add", phase, seconds)
        collection.add(pictures, recipes=RECIPES, workers=1)
        collection.fit()
        collection.compact()
        report("done all")


def die(here: str, phase: str, seconds: float) -> None:
    """Kill this process after `seconds` if this is the phase. The timer's signal ends the process as SIGKILL does."""
    if here != phase:
        return
    if not seconds:
        os.kill(os.getpid(), signal.SIGKILL)
    elif not signal.getitimer(signal.ITIMER_PROF)[0]:  # not started in an earlier round
        signal.setitimer(signal.ITIMER_PROF, seconds)


def report(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[3]), *sys.argv[4:5], *map(float, sys.argv[5:]))
