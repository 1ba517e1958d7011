"""Measure how well the likelihood of results is calibrated, on a collection whose classes are known from the paths.

For each search, the results' probabilities are compared with the share that is really right. A copy of the
collection is labelled, so the original does not change.

    python benchmarks/likelihood.py COLLECTION [--class '.*/([^/]+)/'] [--space deep] [--labelled 0.2] [-k 50]
"""

import argparse
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np

from lookalike import Collection

PREDICTED = ((0.5, 0.05), (0.8, 0.05), (0.9, 0.025))
"""Probabilities, and half the widths of the intervals around them."""
CUTOFFS = (0.5, 0.8, 0.9)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("collection", type=Path)
    parser.add_argument("--class", dest="pattern", default=".*/([^/]+)/", help="pattern of the class in a path")
    parser.add_argument("--space", default=None)
    parser.add_argument("--labelled", type=float, default=0.2, help="share of the pictures that are labelled; 0: none")
    parser.add_argument("-k", type=int, default=50)
    parser.add_argument("--searches", type=int, default=300)
    parser.add_argument("--words", nargs="*", default=[], help="WORD=CLASS: measure searches by words instead")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(options.collection, Path(folder) / "copy")
        with Collection(copy) as collection:
            measure(collection, options)


def measure(collection: Collection, options: argparse.Namespace) -> None:
    """Search the collection, and compare."""
    classes = {}
    for item in collection.items():
        found = re.match(options.pattern, item.paths[0])
        if found is None:
            raise SystemExit(f"{item.paths[0]} does not match {options.pattern}.")
        classes[item.id] = found[1]
    random = np.random.default_rng(0)
    ids = random.permutation(sorted(classes)).tolist()
    labelled, rest = ids[: int(options.labelled * len(ids))], ids[int(options.labelled * len(ids)) :]
    for name in sorted({classes[item] for item in labelled}):
        collection.classes.add(name, [item for item in labelled if classes[item] == name])
    searches = [dict(zip(("words", "right"), pair.split("="), strict=True)) for pair in options.words]
    searches = searches or [{"examples": item, "right": classes[item]} for item in rest[: options.searches]]
    predicted, right, source = [], [], ""
    for search in searches:
        name = search.pop("right")
        found = collection.search(**search, k=options.k + 1, space=options.space, likely=0)
        results = [result for result in found if result.id != search.get("examples")]
        predicted += [result.likely for result in results]
        right += [classes[result.id] == name for result in results]
        source = found.estimated_from
    p, r = np.array(predicted), np.array(right)
    print(f"{len(p):,} results, {r.mean():.0%} right; estimated from {source}")
    for value, half in PREDICTED:
        show(f"predicted about {value}", np.abs(p - value) <= half, p, r)
    for value in CUTOFFS:
        show(f"--likely {value}", p >= value, p, r)


def show(name: str, chosen: np.ndarray, predicted: np.ndarray, right: np.ndarray) -> None:
    """Print the mean prediction and the share of right results of those chosen."""
    if chosen.any():
        means = f"predicted {predicted[chosen].mean():.2f}, right {right[chosen].mean():.2f}"
        print(f"{name}: {chosen.sum():,} results, {means}")


if __name__ == "__main__":
    main()
