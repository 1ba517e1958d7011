"""How well the matching part of a picture is found: objects are pasted into photos and searched for.

    python benchmarks/where.py --data DIR [--recipe deep] [--objects 100] [--part first|second] [--json]

Each photo of Corel-1k gets one object at a random place. It covers 5 to 40 % of the photo. In `ukbench` the object is a
picture of UKBench, and in `coil` an object of COIL-100 without its background. The query `other` is another picture of
the object, and the query `same` is the pasted picture itself. Without --data, the objects and photos of `drawn` are
pictures of the demo, and `other` is another picture of the same kind.

Each line has the share of objects whose box has an intersection over union (IoU) of at least 0.5, the mean IoU and the
median CPU milliseconds per picture, of all cores: for `locate`, and for the best of 39 fixed windows. The recipe is
fitted on photos without objects and pictures of objects. The parameters of `locate` were chosen on the first half of
the objects and photos; `second` is the default.
"""

import argparse
import io
import json
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image

from lookalike.collection.chain import fit
from lookalike.collection.locating import locate
from lookalike.images.demo import KINDS, draw
from lookalike.recipes import RECIPES
from lookalike.types import Box, Feature, Pixels

AREA = (0.05, 0.4)
"""Smallest and largest share of the photo that an object covers."""

FITTED_ON = 1_000

WINDOWS = ((1.0, 1), (2 / 3, 2), (1 / 2, 3), (1 / 3, 5))
"""Width and height of the fixed windows as a share of the picture, and windows per side."""


class Pasted(NamedTuple):
    """A photo with an object, and pictures of the object alone."""

    picture: Pixels
    box: Box
    queries: dict[str, Pixels]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data")
    parser.add_argument("--recipe", choices=RECIPES, default="deep")
    parser.add_argument("--objects", type=int, default=100)
    parser.add_argument("--part", choices=["first", "second"], default="second")
    parser.add_argument("--json", action="store_true", help="Print one JSON object per line.")
    options = parser.parse_args()
    part = ("first", "second").index(options.part)
    random = np.random.default_rng(part)
    if options.data is None:
        sets = {"drawn": list(pasted(drawn(random, part), photos_drawn(), random, options.objects))}
        sample = photos_drawn()
    else:
        photos, ukbench = (
            read_tar(Path(options.data) / path)
            for path in ("corel1k/corel1k.tar", "ukbench2000/ukbench2000_max256.tar")
        )
        objects = {"ukbench": of_ukbench(ukbench, random, part), "coil": of_coil(Path(options.data), random, part)}
        half = photos[len(photos) // 2 * part :][: len(photos) // 2]
        sets = {name: list(pasted(pairs, half, random, options.objects)) for name, pairs in objects.items()}
        sample = [*photos, *ukbench]
    steps = [step for step in RECIPES[options.recipe] if not step.startswith("smooth")]  # stored rows only
    score_with = fit_recipe(steps, [sample[i] for i in random.permutation(len(sample))[:FITTED_ON]])
    for name, pictures in sets.items():
        for kind in ("other", "same"):
            feature = score_with.feature
            queries = [score_with.query(score_with.extract([one.queries[kind]])) for one in pictures]
            scores = [lambda X, query=query: query.score(score_with.finish(X))[0] for query in queries]
            for method, find in (("locate", locate), ("39 windows", best_window)):
                found = [measure(find, feature, one, score) for one, score in zip(pictures, scores, strict=True)]
                ious, seconds = np.array(found).T
                line = {
                    "objects": name,
                    "query": kind,
                    "method": method,
                    "found": round(float((ious >= 0.5).mean()), 3),
                    "iou": round(float(ious.mean()), 3),
                    "ms": round(1000 * float(np.median(seconds)), 1),
                }
                words = "{objects:8} {query:6} {method:11} IoU ≥ 0.5: {found:.2f}  mean IoU {iou:.2f}  {ms:.0f} CPU ms"
                print(json.dumps(line) if options.json else words.format(**line), flush=True)


def fit_recipe(steps: list[str], pictures: list[Pixels]):
    """Fit a recipe on pictures."""
    chain = fit(steps[:1], np.empty((0, 1), np.float32))
    if hasattr(chain.feature, "fit"):
        chain.feature.fit(map(chain.feature.prepare, pictures[:200]))
    X = np.concatenate([chain.feature.extract(pictures[i : i + 16]) for i in range(0, len(pictures), 16)])
    fitted = fit(steps, X)
    fitted.__dict__["feature"] = chain.feature
    return fitted


def best_window(feature: Feature, image: Pixels, score: Callable) -> Box:
    """The best of 39 windows."""
    boxes = []
    for edge, per_side in WINDOWS:
        starts = [i * (1 - edge) / max(1, per_side - 1) for i in range(per_side)]
        boxes += [(x, y, min(1.0, x + edge), min(1.0, y + edge)) for y in starts for x in starts]
    return boxes[int(score(feature.regions(image, boxes)).argmin())]


def measure(find: Callable, feature: Feature, one: Pasted, score: Callable) -> tuple[float, float]:
    """The intersection over union of the box that was found, and the CPU seconds it took."""
    began = time.process_time()
    found = find(feature, one.picture, score)
    seconds = time.process_time() - began
    left, top, right, bottom = (*np.maximum(found[:2], one.box[:2]), *np.minimum(found[2:], one.box[2:]))
    inside = max(0.0, right - left) * max(0.0, bottom - top)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (found, one.box)]
    return inside / (sum(areas) - inside), seconds


Pair = tuple[Pixels, Pixels, Pixels]
"""The object to paste, its opacity (h, w) from 0 to 255, and another picture of it."""


def pasted(pairs: Iterator[Pair], photos: list[Pixels], random: np.random.Generator, n: int) -> Iterator[Pasted]:
    """Paste the first n objects into random photos."""
    for (thing, opacity, other), _ in zip(pairs, range(n), strict=False):
        picture = photos[random.integers(len(photos))].copy()
        (H, W), (h, w) = picture.shape[:2], thing.shape[:2]
        zoom = min(np.sqrt(random.uniform(*AREA) * H * W / (h * w)), 0.95 * H / h, 0.95 * W / w)
        h, w = max(8, round(h * zoom)), max(8, round(w * zoom))
        how = cv2.INTER_AREA if zoom < 1 else cv2.INTER_CUBIC
        y, x = random.integers(H - h + 1), random.integers(W - w + 1)
        weight = cv2.resize(opacity, (w, h), interpolation=cv2.INTER_LINEAR)[..., None] / 255
        under = picture[y : y + h, x : x + w]
        under[:] = cv2.resize(thing, (w, h), interpolation=how) * weight + under * (1 - weight)
        yield Pasted(picture, (x / W, y / H, (x + w) / W, (y + h) / H), {"other": other, "same": thing})


def of_ukbench(pictures: list[Pixels], random: np.random.Generator, part: int) -> Iterator[Pair]:
    """Objects in random order; four consecutive pictures show the same one."""
    half = len(pictures) // 8
    for number in random.permutation(half) + part * half:
        first, second = random.permutation(4)[:2]
        thing, other = pictures[4 * number + first], pictures[4 * number + second]
        yield thing, np.full(thing.shape[:2], 255, np.uint8), other


def of_coil(folder: Path, random: np.random.Generator, part: int) -> Iterator[Pair]:
    """Objects in random order, with another view that is rotated by 15 to 40 degrees."""
    coil = np.load(folder / "coil100" / "coil100_32_all7200.npz")
    views = {(y, angle): x for x, y, angle in zip(coil["x"], coil["y"].tolist(), coil["angle"].tolist(), strict=True)}
    while True:
        for number in random.permutation(50) + 1 + 50 * part:
            angle = 5 * random.integers(72)
            turned = angle + 5 * random.choice([-8, -7, -6, -5, -4, -3, 3, 4, 5, 6, 7, 8])
            (thing, opacity), (other, _) = (cut_out(views[number, at % 360]) for at in (angle, turned))
            yield thing, opacity, other


def cut_out(picture: Pixels) -> tuple[Pixels, Pixels]:
    """An object in front of a black background, enlarged and cropped, and its opacity."""
    large = cv2.resize(picture, (256, 256), interpolation=cv2.INTER_CUBIC)
    bright = (large.max(axis=2) > 45).astype(np.uint8)
    opacity = 255 * cv2.morphologyEx(bright, cv2.MORPH_CLOSE, np.ones((25, 25), np.uint8))
    x, y, w, h = cv2.boundingRect(opacity)
    return large[y : y + h, x : x + w], opacity[y : y + h, x : x + w]


def drawn(random: np.random.Generator, part: int) -> Iterator[Pair]:
    """Pictures of half of the demo's kinds."""
    while True:
        kind = random.choice(KINDS[part::2])
        thing, other = draw(kind, random), draw(kind, random)
        yield thing, np.full(thing.shape[:2], 255, np.uint8), other


def photos_drawn() -> list[Pixels]:
    """Pictures of all kinds of the demo."""
    return [draw(kind, np.random.default_rng([number, i])) for number, kind in enumerate(KINDS) for i in range(20)]


def read_tar(path: Path) -> list[Pixels]:
    """The pictures in an archive, in the order of their names."""
    with tarfile.open(path) as archive:
        members = [member for member in archive if member.name.lower().endswith((".jpg", ".jpeg"))]
        files = [archive.extractfile(member) for member in sorted(members, key=lambda member: member.name)]
        return [np.asarray(Image.open(io.BytesIO(file.read())).convert("RGB")) for file in files if file is not None]


if __name__ == "__main__":
    main()
