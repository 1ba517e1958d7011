"""Precision and recall of "the same photo": copies of photos must be found, similar photos must not.

    python benchmarks/duplicates.py --data DIR [--set ukbench2000|corel1k|corel5k] [--part first|second|all]
                                    [--originals 200] [--k 4] [--json]

Copies are some pictures, altered in each of the ways below. Look-alikes are every picture with its k nearest neighbours
in the space `thing`, fitted on these pictures. `near` is the fraction of copies that are candidates: their distance to
the original is at most SAME_RADIUS times the median distance between pictures. `same` is the fraction of all copies
that are found and confirmed. Precision assumes one copy per picture: found copies / (found copies + confirmed
look-alikes), for the mean over the alterations.
"""

import argparse
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

from lookalike.arrays import unit_rows
from lookalike.collection.duplicates import SAME_RADIUS
from lookalike.images.same_photo import SAME, difference, shrink
from lookalike.registry import create
from lookalike.types import Pixels, crop

SETS = {
    "ukbench2000": "ukbench2000/ukbench2000_max256.tar",
    "corel1k": "corel1k/corel1k.tar",
    "corel5k": "corel5k/corel5k.tar",
}


def main() -> None:
    """Print one line per alteration, and one for look-alikes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--set", choices=SETS, default="ukbench2000")
    parser.add_argument("--part", choices=["first", "second", "all"], default="all")
    parser.add_argument("--originals", type=int, default=200)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--json", action="store_true", help="Print one JSON object per line.")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    feature = create("feature", "efficientnet()")
    pictures = [picture for _, picture in sorted(read(Path(options.data) / SETS[options.set]))]
    half = len(pictures) // 2
    pictures = {"first": pictures[:half], "second": pictures[half:], "all": pictures}[options.part]
    X = np.concatenate([feature.extract(pictures[i : i + 32]) for i in range(0, len(pictures), 32)])
    thing = create("transform", "pca(dim=256, whiten=1.0)").fit(X)  # the space of a collection of these pictures
    X = unit_rows(thing.transform(X))
    small = [shrink(picture) for picture in pictures]
    distances = 2 - 2 * X @ X.T  # (n, n), squared distances of unit rows
    near = SAME_RADIUS * np.median(distances[np.triu_indices(len(X), 1)])
    chosen = np.random.default_rng(0).choice(len(pictures), min(options.originals, len(pictures)), replace=False)
    shares = []
    for name, alter in WAYS.items():
        copies = [np.ascontiguousarray(alter(pictures[i])) for i in chosen]
        Z = np.concatenate([feature.extract(copies[i : i + 32]) for i in range(0, len(copies), 32)])
        Z = unit_rows(thing.transform(Z))
        candidate = ((Z - X[chosen]) ** 2).sum(axis=1) <= near
        apart = np.array([difference(small[i], shrink(copy)) for i, copy in zip(chosen, copies, strict=True)])
        shares.append(float((candidate & (apart <= SAME)).mean()))
        row = {"way": name, "near": float(candidate.mean()), "same": shares[-1], "median": float(np.median(apart))}
        print_row(row | {"p95": float(np.quantile(apart, 0.95))}, options.json)
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, : options.k]
    pairs = sorted({(min(i, j), max(i, j)) for i, row in enumerate(nearest.tolist()) for j in row})
    apart = np.array([difference(small[i], small[j]) for i, j in pairs])
    close = np.array([distances[pair] for pair in pairs]) <= near
    wrong = int((close & (apart <= SAME)).sum())
    found = float(np.mean(shares)) * len(pictures)
    row = {"look-alikes": len(pairs), "near": float(close.mean()), "confirmed": wrong, "least": float(apart.min())}
    print_row(row | {"recall": float(np.mean(shares)), "precision": found / (found + wrong)}, options.json)
    worst = np.argsort(apart)[:5].tolist()
    print_row({"most alike": str([(*pairs[i], round(float(apart[i]), 3)) for i in worst])}, options.json)


def read(path: Path) -> Iterator[tuple[str, Pixels]]:
    """Yield the names and pixels of the pictures in a tar file."""
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None and member.name.lower().endswith((".jpg", ".jpeg", ".png")):
                yield member.name, np.asarray(Image.open(io.BytesIO(file.read())).convert("RGB"))


def save(picture: Pixels, quality: int) -> Pixels:
    """Return a picture after saving it again as JPEG."""
    stream = io.BytesIO()
    Image.fromarray(picture).save(stream, "JPEG", quality=quality)
    return np.asarray(Image.open(stream).convert("RGB"))


def size(picture: Pixels, across: float, down: float) -> Pixels:
    """Resize a picture by these factors."""
    how = cv2.INTER_AREA if across < 1 else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, None, fx=across, fy=down, interpolation=how))


def light(picture: Pixels, gain: float) -> Pixels:
    """Make a picture brighter or darker."""
    return np.clip(picture * gain, 0, 255).astype(np.uint8)


def note(picture: Pixels) -> Pixels:
    """Write a date in the corner of a picture."""
    written = picture.copy()
    height, width = picture.shape[:2]
    place = int(width * 0.55), int(height * 0.95)
    return np.asarray(
        cv2.putText(written, "2024-05-01", place, cv2.FONT_HERSHEY_SIMPLEX, width / 700, (255, 200, 0), 2)
    )


WAYS: dict[str, Callable[[Pixels], Pixels]] = {
    "jpeg 30": lambda p: save(p, 30),
    "jpeg 10": lambda p: save(p, 10),
    "half size": lambda p: size(p, 0.5, 0.5),
    "third, jpeg 80": lambda p: save(size(p, 0.3, 0.3), 80),
    "enlarged 1.6": lambda p: size(p, 1.6, 1.6),
    "5 % wider": lambda p: size(p, 1.05, 1.0),
    "5 % off each side": lambda p: crop(p, (0.05, 0.05, 0.95, 0.95)),
    "10 % off one side": lambda p: crop(p, (0.1, 0.0, 1.0, 1.0)),
    "15 % off, jpeg 70": lambda p: save(np.ascontiguousarray(crop(p, (0.1, 0.05, 0.95, 0.9))), 70),
    "25 % off, corner": lambda p: crop(p, (0.0, 0.0, 0.75, 0.75)),
    "40 % off, middle": lambda p: crop(p, (0.2, 0.2, 0.8, 0.8)),
    "brighter, jpeg 30": lambda p: save(light(p, 1.2), 30),
    "brightness x 1.3": lambda p: light(p, 1.3),
    "dimmer, jpeg 60": lambda p: save(light(p, 0.8), 60),
    "a date in it": note,
    "without colour": lambda p: np.repeat(p.mean(axis=2, keepdims=True).astype(np.uint8), 3, axis=2),
}


def print_row(row: dict[str, object], as_json: bool) -> None:
    """Print one line."""
    words = (f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())
    print(json.dumps(row) if as_json else "  ".join(words), flush=True)


if __name__ == "__main__":
    main()
