"""Calibration: choose λ and γ of a space's last transform, using altered versions of its pictures or labels.

`encode.calibrate` compares candidates from a grid. Pictures are altered by cropping, flipping, changing the brightness
and recompression, always in the same ways; an altered picture must still find the original.
"""

import inspect
import io
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from PIL import Image

from lookalike.arrays import chunks
from lookalike.collection.chain import Chain, Prepare, fit, read_pool
from lookalike.collection.fitting import Pool, labelled_rows
from lookalike.collection.space import Space
from lookalike.collection.specs import step_class
from lookalike.encode.calibration import Calibration, Trial, calibrate, calibrate_labels
from lookalike.errors import InputError
from lookalike.images.sources import locate
from lookalike.images.workers import Read
from lookalike.kernels import typical_gamma
from lookalike.registry import Spec, create, parse
from lookalike.store.directory import Store
from lookalike.types import Box, Feature, Ids, Pixels, Prepared, Progress, Transform, Vectors, crop

GRID: dict[str, tuple[float, ...]] = {
    "lam": (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
    "gamma": (0.1, 0.3, 1.0, 3.0),
}
"""Candidates, mildest first, because the first of equals is chosen. They are for vectors of unit length; for other
lengths they are scaled by the squared length, rounded to a power of ten. Without labels, the margin decides. It cannot
be compared between different γ, so only the typical γ is tried."""

MAX_ALTERED = 200
"""Maximum number of pictures to alter."""

MAX_LABELLED = 1_000
"""Maximum number of labelled pictures that are searched among each other; never more than half of the collection."""

PICTURES_PER_ALTERED = 4
"""Pictures in the collection for each altered one."""

MAX_POOL = 10_000
"""Maximum number of rows of the pool during calibration, for every candidate; more would hardly change λ and γ."""


CROPS: tuple[Box, ...] = (
    (0.05, 0.05, 0.95, 0.95),
    (0.0, 0.0, 0.75, 0.75),
    (0.25, 0.2, 1.0, 0.95),
    (0.2, 0.2, 0.8, 0.8),
    (0.1, 0.4, 0.6, 0.9),
)
"""Crops: nearly the whole picture, two corners, the middle, a quarter next to the middle."""

SMALLEST_CROP = 0.5
"""The shortest side of a crop, as a share of the picture's; pictures are read larger by this factor."""

READ_BLOCK = 32
"""Pictures read per batch. Small, because reading stops after the batch in which enough pictures were found."""


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """The result of a calibration: the candidates and the choice."""

    space: str
    chain: list[str]  # with the chosen options
    params: dict[str, Any]
    trials: list[Trial]
    questions: int  # pictures that were altered, or that have labels
    pool: int  # number of rows that every candidate was fitted on
    fitted_on: int = 0  # number of rows that the space was then fitted on


def choose_options(
    space: Space,
    negatives: Pool | None,
    labels: bool,
    progress: Progress,
    workers: int | None,
) -> CalibrationReport:
    """Compare the candidates for a space's last transform; nothing is stored.

    The pool is the one that the fit will use. If it is the collection itself, it contains the originals as negatives,
    which push altered versions away from the originals, as they will push any new view; λ must be large enough.
    """
    name, chain = space.name, space.chain
    spec, options = _check_tunable(name, chain)
    features, ids = space.feature_rows, space.feature.row_ids()
    n = len(ids) // PICTURES_PER_ALTERED
    if n < 2:
        raise InputError(
            f"Calibration needs at least {2 * PICTURES_PER_ALTERED} pictures. The collection has {len(ids)}."
        )
    if labels:
        query_ids, y = _labelled(space, ids, min(MAX_LABELLED, len(ids) // 2))
    else:
        query_ids, altered = describe_variants(
            space.store, ids.tolist(), chain.feature, min(MAX_ALTERED, n), progress, workers
        )
    sample = np.asarray(features.vectors(np.union1d(query_ids, ids[:MAX_POOL])), np.float32)
    steps = fit(chain.specs[:-1], sample, labelled=labelled_rows(space))
    pool = steps.transform(sample if negatives is None else negatives.X[~np.isin(negatives.ids, query_ids)][:MAX_POOL])
    X = steps.transform(features.vectors(query_ids))  # (m, d)
    candidates = _candidates(options, spec, pool, labels)
    progress(f"calibrating {name}", 0, len(candidates))
    done = 0

    def make(**params: float) -> Transform:
        nonlocal done
        progress(f"calibrating {name}", done, len(candidates))
        done += 1
        transform: Transform = create("transform", _with_params(spec, params))
        return transform

    if labels:
        result = calibrate_labels(make, candidates, X, y, pool)
    else:
        m, a, d = altered.shape
        variants = steps.transform(altered.reshape(m * a, d)).reshape(m, a, -1)
        result = calibrate(make, candidates, pool, X, variants)
    progress(f"calibrating {name}", len(candidates), len(candidates))
    return _report(name, chain, spec, result, len(query_ids), len(pool))


def tunable(spec: str) -> list[str]:
    """The options of a transform that calibration chooses: those in `GRID` that it has.

    >>> tunable("kernelslem(rank=8)"), tunable("slem()"), tunable("l2()")
    (['lam', 'gamma'], ['lam'], [])
    """
    known = inspect.signature(step_class(spec)).parameters
    return [option for option in GRID if option in known]


def _check_tunable(name: str, chain: Chain) -> tuple[Spec, list[str]]:
    options = tunable(chain.specs[-1]) if len(chain.specs) > 1 else []
    if "lam" not in options:
        raise InputError(
            f"Space '{name}' cannot be calibrated: its last transform must have the option lam, such as slem."
            f" Its chain is {' | '.join(chain.specs)}."
        )
    spec = parse(chain.specs[-1])
    if spec.params.get("kernel") == "linear":  # it has no γ
        options = ["lam"]
    return spec, options


def _candidates(options: list[str], spec: Spec, pool: Vectors, labels: bool) -> list[dict[str, float]]:
    """All combinations of the candidates, scaled to the lengths of the rows of the pool (n, d)."""
    squared = float(np.mean(np.einsum("ij,ij->i", pool, pool, dtype=np.float64)))
    unit = 10.0 ** round(math.log10(max(squared, 1e-30)))
    kernel = getattr(create("transform", spec), "kernel", None)
    units = {"lam": 1.0 if kernel == "gaussian" else unit, "gamma": 1 / unit}  # a Gaussian is at most 1
    values = {option: [value * units[option] for value in GRID[option]] for option in options}
    if "gamma" in values and not labels:
        values["gamma"] = [typical_gamma(str(kernel), pool)]
    rounded = [[float(f"{value:.3g}") for value in option_values] for option_values in values.values()]
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*rounded)]


def _labelled(space: Space, ids: Ids, n: int) -> tuple[Ids, list[str]]:
    """At most n of the items that have exactly one label, and their labels."""
    labels, known = space.store.judgements.single_labels(), set(ids.tolist())
    pairs = [(item, label) for item, label in sorted(labels.items()) if item in known][:n]
    if len(pairs) < 2:
        raise InputError(
            "Calibration by labels needs at least 2 pictures with exactly one label. The collection has"
            f" {len(pairs)}. Run: lookalike label SOURCE"
        )
    return np.array([item for item, _ in pairs], np.int64), [label for _, label in pairs]


def _with_params(spec: Spec, params: dict[str, Any]) -> Spec:
    return Spec(spec.name, {**spec.params, **params})


def _report(name: str, chain: Chain, spec: Spec, result: Calibration, questions: int, pool: int) -> CalibrationReport:
    specs = [*chain.specs[:-1], str(_with_params(spec, result.params))]
    return CalibrationReport(name, specs, result.params, result.trials, questions, pool)


def _flip(image: Pixels) -> Pixels:
    return image[:, ::-1]


def _light(image: Pixels, gain: float) -> Pixels:
    lit: Pixels = np.clip(image * gain, 0, 255).astype(np.uint8)
    return lit


def _compress(image: Pixels, quality: int) -> Pixels:
    """Compress a picture as JPEG, and read it again."""
    stream = io.BytesIO()
    Image.fromarray(image).save(stream, "JPEG", quality=quality)
    return np.asarray(Image.open(stream).convert("RGB"))


_ALTERATIONS: tuple[Callable[[Pixels], Pixels], ...] = (
    *(lambda image, box=box: crop(image, box) for box in CROPS),
    _flip,
    lambda image: _flip(crop(image, CROPS[3])),
    lambda image: _compress(_light(image, 1.2), 30),
    lambda image: _compress(_light(crop(image, CROPS[2]), 0.8), 60),
)

VARIANTS = len(_ALTERATIONS)


def variants(image: Pixels) -> list[Pixels]:
    """The altered versions of a picture.

    >>> [altered.shape[:2] for altered in variants(np.zeros((40, 60, 3), np.uint8))][:4]
    [(36, 54), (30, 45), (30, 45), (24, 36)]
    """
    return [np.ascontiguousarray(alter(image)) for alter in _ALTERATIONS]


@dataclass(frozen=True)
class _PrepareVariants:
    """Prepares every altered version of a picture, in a reading process."""

    prepare: Prepare

    def __call__(self, image: Pixels) -> list[list[Prepared]]:
        return [self.prepare(altered) for altered in variants(image)]


def describe_variants(
    store: Store, ids: Sequence[int], feature: Feature, n: int, progress: Progress, workers: int | None
) -> tuple[Ids, Vectors]:
    """Extract the features of altered versions of the first n of these items that can be read.

    Returns ids (m,) and rows (m, VARIANTS, d), m ≤ n. Files that are missing or have changed are skipped.
    """
    prepare = Prepare([feature])
    rows: dict[int, Vectors] = {}
    with read_pool(_PrepareVariants(prepare), side=math.ceil(feature.side / SMALLEST_CROP), workers=workers) as pool:
        for part in chunks(len(ids), 1, READ_BLOCK):
            paths = store.items.first_paths(ids[part])
            entries = [entry for path in paths.values() if (entry := locate(path)) is not None]
            for outcome in pool.map(entries):
                if isinstance(outcome, Read) and outcome.id in paths:
                    (rows[outcome.id],) = prepare.finish(outcome.parts)  # (VARIANTS, d)
                progress("altering pictures", min(len(rows), n), n)
            if len(rows) >= n:
                break
    if len(rows) < 2:
        raise InputError(f"Calibration needs at least 2 readable pictures. Got {len(rows)} of {len(ids)}.")
    described = [item for item in ids if item in rows][:n]
    return np.array(described, np.int64), np.stack([rows[item] for item in described])
