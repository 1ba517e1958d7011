"""Precision and recall of the tiers "same" and "edited": copies must be found, similar photos must not.

    python benchmarks/duplicates.py --data DIR [--set ukbench2000|corel1k|corel5k] [--part first|second|all]
                                    [--originals 200] [--k 4] [--graph] [--workers 1] [--json]

Copies are some pictures, altered in each of the ways below. The pictures and the copies of one alteration are grouped
as in a collection, in the space `thing`, fitted on the pictures. `near` is the fraction of copies that are candidates:
their distance to the original is at most SAME_RADIUS times the median distance between pictures. `same` is the
fraction of copies in a group of the tier "same" with their original, `edited` the fraction in a group of either tier.
`false` is the number of groups of the tier "edited" that contain a copy and a picture that is not its original.
With `--graph`, `graph` is like `same`, but with the candidates of a collection above EXACT_MAX: pictures linked in a
neighbour graph that has as many cells as the graph of EXACT_MAX pictures. `one link` follows one link instead of
MAX_LINKS, because MAX_LINKS reach most pictures of a small set.

Look-alikes are every picture with its k nearest neighbours. Precision assumes one copy per picture: found copies /
(found copies + confirmed look-alikes), for the mean of `same` over WAYS. Precision of edits also assumes one copy per
picture: found copies / (found copies + false groups), for the means of `edited` and `false` over EDITS. All groups of
the tier "edited" among the pictures themselves count as false; the last lines list them, to be checked by eye.
"""

import argparse
import io
import json
import math
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from lookalike.arrays import unit_rows
from lookalike.collection import duplicates
from lookalike.collection.duplicates import (
    SAME_RADIUS,
    Near,
    PhotoComparison,
    choose_search,
    find_clusters,
    typical_distance,
)
from lookalike.images.decoding import content_id, digest_content
from lookalike.images.same_photo import SAME, difference, shrink
from lookalike.index import neighbours
from lookalike.registry import create
from lookalike.types import Feature, Ids, Pixels, Vectors, crop

SETS = {
    "ukbench2000": "ukbench2000/ukbench2000_max256.tar",
    "corel1k": "corel1k/corel1k.tar",
    "corel5k": "corel5k/corel5k.tar",
}


def main() -> None:
    """Print one line per alteration, one for look-alikes, and one per group of the tier "edited" without copies."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True)
    parser.add_argument("--set", choices=SETS, default="ukbench2000")
    parser.add_argument("--part", choices=["first", "second", "all"], default="all")
    parser.add_argument("--originals", type=int, default=200)
    parser.add_argument("--k", type=int, default=4)
    parser.add_argument("--graph", action="store_true", help="Also use candidates from the neighbour graph.")
    parser.add_argument("--workers", type=int, default=1, help="Processes that read pictures; 1 by default.")
    parser.add_argument("--json", action="store_true", help="Print one JSON object per line.")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    feature = create("feature", "efficientnet()")
    read_pictures = sorted(read(Path(options.data) / SETS[options.set]))
    half = len(read_pictures) // 2
    parts = {"first": read_pictures[:half], "second": read_pictures[half:], "all": read_pictures}
    names, pictures = zip(*parts[options.part], strict=True)
    X = extract(feature, pictures)
    thing = create("transform", "pca(dim=256, whiten=1.0)").fit(X)  # the space of a collection of these pictures
    X = unit_rows(thing.transform(X))
    distances = 2 - 2 * X @ X.T  # (n, n), squared distances of unit rows
    near = SAME_RADIUS * np.median(distances[np.triu_indices(len(X), 1)])
    chosen = np.random.default_rng(0).choice(len(pictures), min(options.originals, len(pictures)), replace=False)
    shares: dict[str, list[float]] = {"same": [], "edited": [], "false": []}
    with tempfile.TemporaryDirectory() as folder:
        together = Grouping(Path(folder), pictures, X, options.workers)
        for name, alter in (WAYS | EDITS).items():
            copies = [np.ascontiguousarray(alter(pictures[i])) for i in chosen]
            Z = unit_rows(thing.transform(extract(feature, copies)))
            candidate = ((Z - X[chosen]) ** 2).sum(axis=1) <= near
            same = together.group("same", copies, Z, chosen)
            edited = together.group("edited", copies, Z, chosen)
            found = [is_with_original(groups, chosen, len(pictures)) for groups in (same, edited)]
            row = {"way": name, "near": float(candidate.mean()), "same": float(found[0].mean())}
            if options.graph:
                for column, links in (("graph", duplicates.MAX_LINKS), ("one link", 1)):
                    with small_graph(len(pictures), links):
                        linked = together.group("same", copies, Z, chosen)
                    row[column] = float(is_with_original(linked, chosen, len(pictures)).mean())
            row |= {"edited": float((found[0] | found[1]).mean()), "false": count_false(edited, chosen, len(pictures))}
            print_row(row, options.json)
            tier = "same" if name in WAYS else "edited"
            shares[tier].append(row[tier])
            if name in EDITS:
                shares["false"].append(row["false"] / len(chosen))
        alone = together.group("edited", [], X[:0], np.arange(len(pictures)))
    recall, small = float(np.mean(shares["same"])), [shrink(picture) for picture in pictures]
    np.fill_diagonal(distances, np.inf)
    nearest = np.argsort(distances, axis=1)[:, : options.k]
    pairs = sorted({(min(i, j), max(i, j)) for i, row in enumerate(nearest.tolist()) for j in row})
    apart = np.array([difference(small[i], small[j]) for i, j in pairs])
    close = np.array([distances[pair] for pair in pairs]) <= near
    wrong = int((close & (apart <= SAME)).sum())
    row = {"look-alikes": len(pairs), "near": float(close.mean()), "confirmed": wrong, "least": float(apart.min())}
    row |= {"recall": recall, "precision": recall * len(pictures) / (recall * len(pictures) + wrong)}
    found_edits, false_edits = (len(pictures) * float(np.mean(shares[column])) for column in ("edited", "false"))
    row |= {"recall of edits": found_edits / len(pictures)}
    row |= {"precision of edits": found_edits / max(1e-9, found_edits + false_edits + len(alone))}
    print_row(row, options.json)
    worst = np.argsort(apart)[:5].tolist()
    print_row({"most alike": str([(*pairs[i], round(float(apart[i]), 3)) for i in worst])}, options.json)
    print_row({"edited groups without copies": len(alone)}, options.json)
    for group in alone:
        print_row({"edited group": " ".join(names[i] for i in group)}, options.json)


def read(path: Path) -> Iterator[tuple[str, Pixels]]:
    """Yield the names and pixels of the pictures in a tar file."""
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member)
            if file is not None and member.name.lower().endswith((".jpg", ".jpeg", ".png")):
                yield member.name, np.asarray(Image.open(io.BytesIO(file.read())).convert("RGB"))


def extract(feature: Feature, pictures: Sequence[Pixels]) -> Vectors:
    """Return the vectors (n, d) of pictures."""
    return np.concatenate([feature.extract(pictures[i : i + 32]) for i in range(0, len(pictures), 32)])


class Grouping:
    """Groups pictures and copies of them like `Collection.duplicates`, which reads pictures from files.

    Parameters
    ----------
    folder : directory for the files.
    pictures : the pictures (n).
    X : their rows (n, d).
    workers : processes that read files.

    """

    def __init__(self, folder: Path, pictures: Sequence[Pixels], X: Vectors, workers: int):
        self._folder, self._pictures, self._X, self._workers = folder, pictures, X, workers
        self._files = [self._write(picture) for picture in pictures]

    def group(self, tier: str, copies: Sequence[Pixels], Z: Vectors, chosen: Ids) -> list[list[int]]:
        """Return the groups whose centre is a copy or a chosen picture, as positions: pictures first, then copies.

        Groups of other pictures are the same for every alteration, so they are left out to save time.
        """
        files = self._files + [self._write(copy) for copy in copies]
        positions = {item: position for position, (item, _) in reversed([*enumerate(files)])}
        X = np.concatenate([self._X, Z])
        compared = {*chosen.tolist(), *range(len(self._pictures), len(files))}
        pixels = [picture.shape[0] * picture.shape[1] for picture in (*self._pictures, *copies)]
        ordered = sorted(positions, key=lambda item: (positions[item] not in compared, -pixels[positions[item]]))
        ids = np.array(ordered, np.int64)

        def rows(some: Ids) -> Vectors:
            return X[[positions[item] for item in some.tolist()]]

        search = choose_search(ids, rows, SAME_RADIUS * typical_distance(np.sort(ids), rows))

        def near(centres: Ids, others: Ids) -> Iterator[Near]:
            for centre, (items, distances) in zip(centres.tolist(), search(centres, others), strict=True):
                end = len(items) if positions[centre] in compared else 0
                yield items[:end], distances[:end]

        paths = dict(files)
        with PhotoComparison(
            ids, lambda some: {item: paths[item] for item in some}, self._workers, edited=tier == "edited"
        ) as photos:
            clusters = list(find_clusters(ids, near, photos.confirm, set(), prepare=photos.prepare))
        return [[positions[item] for item in (cluster.centre, *cluster.members)] for cluster in clusters]

    def _write(self, picture: Pixels) -> tuple[int, str]:
        """Write a picture without loss; return its id and path."""
        stream = io.BytesIO()
        Image.fromarray(picture).save(stream, "PNG", compress_level=1)
        item = content_id(digest_content(stream.getvalue()))
        path = self._folder / f"{item}.png"
        path.write_bytes(stream.getvalue())
        return item, str(path)


@contextmanager
def small_graph(n: int, links: int) -> Iterator[None]:
    """Use the neighbour graph for n pictures, with as many cells as EXACT_MAX pictures have, and follow some links."""
    cell_rows = max(1, n * neighbours.CELL_ROWS // neighbours.EXACT_MAX)
    with (
        patch.multiple(neighbours, EXACT_MAX=0, CELL_ROWS=cell_rows),
        patch.multiple(duplicates, EXACT_MAX=0, MAX_LINKS=links),
    ):
        yield


def is_with_original(groups: list[list[int]], chosen: Ids, n: int) -> NDArray[np.bool_]:
    """Return which copies (m,) of the chosen pictures (m,) are in a group with their original."""
    group_of = {position: number for number, group in enumerate(groups) for position in group}
    return np.array(
        [
            (n + i) in group_of and group_of[n + i] == group_of.get(original)
            for i, original in enumerate(chosen.tolist())
        ]
    )


def count_false(groups: list[list[int]], chosen: Ids, n: int) -> int:
    """Return the number of groups that contain a copy and a picture that is not its original, nor a copy of it."""
    originals = [*range(n), *chosen.tolist()]
    return sum(max(group) >= n and len({originals[position] for position in group}) > 1 for group in groups)


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


def rotate(picture: Pixels, angle: float) -> Pixels:
    """Rotate a picture by an angle in degrees, and enlarge it until no corner is empty."""
    height, width = picture.shape[:2]
    zoom = math.cos(math.radians(angle)) + max(width / height, height / width) * math.sin(math.radians(angle))
    matrix = cv2.getRotationMatrix2D(((width - 1) / 2, (height - 1) / 2), angle, zoom)
    return np.asarray(cv2.warpAffine(picture, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE))


def write(picture: Pixels, lines: Sequence[str], share: float) -> Pixels:
    """Write lines of white text on a picture, the last one at the bottom; capitals take a share of the height."""
    written = picture.copy()
    height, width = picture.shape[:2]
    scale, line_height = share * height / 22, round(1.5 * share * height)  # at scale 1, capitals have 22 pixels
    for i, line in enumerate(reversed(lines)):
        place = int(0.05 * width), int(0.95 * height) - i * line_height
        cv2.putText(written, line, place, cv2.FONT_HERSHEY_DUPLEX, scale, (255, 255, 255), 1 + int(scale), cv2.LINE_AA)
    return written


def add_logo(picture: Pixels) -> Pixels:
    """Draw a disc with a letter in the top right corner, 20 % of the shorter side wide."""
    drawn = picture.copy()
    height, width = picture.shape[:2]
    radius = min(height, width) // 10
    x, y = width - 3 * radius // 2, 3 * radius // 2
    cv2.circle(drawn, (x, y), radius, (200, 40, 40), -1, cv2.LINE_AA)
    place = x - radius // 2, y + radius // 2
    cv2.putText(drawn, "L", place, cv2.FONT_HERSHEY_DUPLEX, radius / 22, (255, 255, 255), 1, cv2.LINE_AA)
    return drawn


def watermark(picture: Pixels) -> Pixels:
    """Write a word across the whole picture, along its diagonal, in white of 40 % opacity."""
    height, width = picture.shape[:2]
    (length, tall), _ = cv2.getTextSize("SAMPLE", cv2.FONT_HERSHEY_DUPLEX, 1, 2)
    scale = 0.8 * math.hypot(width, height) / length
    wide = np.zeros((2 * max(height, width),) * 2, np.uint8)  # the word does not fit before it is rotated
    middle = max(height, width)
    place = int(middle - scale * length / 2), int(middle + scale * tall / 2)
    cv2.putText(wide, "SAMPLE", place, cv2.FONT_HERSHEY_DUPLEX, scale, 255, max(2, round(2 * scale)), cv2.LINE_AA)
    matrix = cv2.getRotationMatrix2D((middle, middle), math.degrees(math.atan2(height, width)), 1)
    matrix[:, 2] += width / 2 - middle, height / 2 - middle
    mask = cv2.warpAffine(wide, matrix, (width, height))[..., None] * (0.4 / 255)
    return np.rint(picture * (1 - mask) + 255 * mask).astype(np.uint8)


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
"""Alterations after which a picture is the same photo, except the last two."""

EDITS: dict[str, Callable[[Pixels], Pixels]] = {
    "mirrored": lambda p: p[:, ::-1],
    "rotated by 3 degrees": lambda p: rotate(p, 3),
    "rotated by 5 degrees": lambda p: rotate(p, 5),
    "mirrored, rotated by 5": lambda p: rotate(np.ascontiguousarray(p[:, ::-1]), 5),
    "small text": lambda p: write(p, ["Summer at the lake"], 0.04),
    "large text": lambda p: write(p, ["SUMMER", "HOLIDAY"], 0.15),
    "logo in a corner": add_logo,
    "watermark": watermark,
}
"""Alterations after which a picture is an edited copy."""


def print_row(row: dict[str, object], as_json: bool) -> None:
    """Print one line."""
    words = (f"{key} {value:.3f}" if isinstance(value, float) else f"{key} {value}" for key, value in row.items())
    print(json.dumps(row) if as_json else "  ".join(words), flush=True)


if __name__ == "__main__":
    main()
