"""A process that writes to a collection, over and over, and says what it has begun and done. Killed for test_crash.

In: `python writer.py COLLECTION PICTURES ROUNDS [PHASE SECONDS]`. It kills itself when it has worked so many seconds of
its processor's time in a phase: a clock of its own, so that the moment does not depend on what else the machine does.
"""

import os
import signal
import sys
from pathlib import Path

from lookalike.collection import Collection, adding, fitting

RECIPES = ["color", "small = color() | pca(dim=8) | l2()"]


def main(where: str, pictures: str, rounds: int, phase: str = "", seconds: float = 0.0) -> None:
    adding.COMMIT_ROWS = 8  # many commits in a short run
    fitting.FIT_MIN = 20
    with Collection(where, create=True) as collection:
        collection.add(
            pictures + "/even/00.png", recipes=RECIPES, workers=1
        )  # everything is loaded before the first word
        say("begin add")
        die("first add", phase, seconds)
        for _ in range(rounds):
            collection.add(pictures, recipes=RECIPES, workers=1)
            say("done add", "begin remove")
            die("remove", phase, seconds)
            for path in sorted(Path(pictures, "odd").iterdir()):
                collection.remove(path)
            say("done remove", "begin compact")
            die("compact", phase, seconds)
            collection.compact()
            say("done compact", "begin add")
            die("add", phase, seconds)
        collection.add(pictures, recipes=RECIPES, workers=1)
        collection.fit()
        collection.compact()
        say("done all")


def die(here: str, phase: str, seconds: float) -> None:
    """Soon, in this phase: the signal of the timer ends a process as SIGKILL does."""
    if here == phase:
        if seconds:
            signal.setitimer(signal.ITIMER_PROF, seconds)
        else:
            os.kill(os.getpid(), signal.SIGKILL)


def say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:3], int(sys.argv[3]), *sys.argv[4:5], *map(float, sys.argv[5:]))
