"""A process that writes to a collection, over and over, and says what it has begun and done. Killed by test_crash."""

import sys
from pathlib import Path

from lookalike.collection import Collection
from lookalike.engine import ingest, spaces

RECIPES = ["color", "small = color() | pca(dim=8) | l2()"]


def main(where: str, pictures: str, rounds: int) -> None:
    ingest.COMMIT_ROWS = 8  # many commits in a short run
    spaces.FIT_MIN = 20
    with Collection(where, create=True) as collection:
        collection.add(
            pictures + "/even/00.png", recipes=RECIPES, workers=1
        )  # everything is loaded before the first word
        say("begin add")
        for _ in range(rounds):
            collection.add(pictures, recipes=RECIPES, workers=1)
            say("done add", "begin remove")
            for path in sorted(Path(pictures, "odd").iterdir()):
                collection.remove(path)
            say("done remove", "begin compact")
            collection.compact()
            say("done compact", "begin add")
        collection.add(pictures, recipes=RECIPES, workers=1)
        collection.fit()
        collection.compact()
        say("done all")


def say(*lines: str) -> None:
    for line in lines:
        print(line, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
