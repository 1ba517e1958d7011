"""The choice of λ and γ inside a collection: by altered versions of its own pictures, or by its labels.

In: a space whose last transform has `lam`, and maybe `gamma`. Out: a chain of specs with the best of a grid, and what
each candidate was worth. `encode.calibrate` says how they are compared.
"""

import inspect
import math
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from lookalike.encode.calibration import Calibration, Trial, calibrate, calibrate_labels
from lookalike.engine.chain import Chain, fit
from lookalike.engine.space_sample import Pool, labelled_rows
from lookalike.engine.spaces import Spaces
from lookalike.engine.specs import step_class
from lookalike.engine.variants import describe_variants
from lookalike.errors import InputError
from lookalike.kernels import typical_gamma
from lookalike.registry import Spec, create, parse
from lookalike.types import Ids, Progress, Transform, Vectors

GRID: dict[str, tuple[float, ...]] = {
    "lam": (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
    "gamma": (0.1, 0.3, 1.0, 3.0),
}
"""What is tried, the mildest first, as the first of equals is taken; for rows of length one, for others times or by the
power of ten of their squared length. Without labels γ is the typical one: what decides then, the margin, compares
scores of one γ only."""

PICTURES = 200
"""Pictures that are altered."""

LABELLED = 1_000
"""Labelled pictures that are searched for each other, at most; and half of the collection, at most."""

SHARE = 4
"""One picture in so many, at most, is altered."""

POOL = 10_000
"""Rows of the pool while candidates are compared: λ and γ hardly depend on more, and each candidate is fitted."""


@dataclass(frozen=True, slots=True)
class CalibrationReport:
    """What was tried for a space and what was chosen."""

    space: str
    chain: list[str]  # with the choice written in
    params: dict[str, Any]
    trials: list[Trial]
    questions: int  # pictures that were altered, or that have labels
    pool: int  # rows that every candidate was fitted on
    fitted_on: int = 0  # rows that the space was then fitted on


def choose(
    spaces: Spaces,
    name: str,
    negatives: Pool | None,
    labels: bool,
    progress: Progress,
    workers: int | None,
) -> CalibrationReport:
    """Compare the candidates for a space's last transform; nothing is written yet.

    The pool is as it will be: the collection's own holds the pictures that are looked for, and pushes their altered
    versions away from them, as it will any new view; λ must be large enough for that. Outside negatives hold none.
    """
    chain = spaces.chain(name)
    spec, options = _check_tunable(name, chain)
    truth, ids = spaces.index(chain.specs[0]), spaces.store.vectors.live_ids(chain.specs[0])
    n = len(ids) // SHARE
    if n < 2:
        raise InputError(f"Calibration needs at least {2 * SHARE} pictures in the collection. Got {len(ids)}.")
    if labels:
        asked, y = _labelled(spaces, ids, min(LABELLED, len(ids) // 2))
    else:
        asked, altered = describe_variants(
            spaces.store, ids.tolist(), chain.feature, min(PICTURES, n), progress, workers
        )
    own = np.asarray(truth.vectors(np.union1d(asked, ids[:POOL])), np.float32)
    steps = fit(chain.specs[:-1], own, labelled=labelled_rows(spaces, name))
    pool = steps.transform(own if negatives is None else negatives.X[~np.isin(negatives.ids, asked)][:POOL])
    X = steps.transform(truth.vectors(asked))  # (m, d)
    candidates = _candidates(options, spec, pool, labels)
    progress(f"calibrating {name}", 0, len(candidates))
    done = 0

    def make(**params: float) -> Transform:
        nonlocal done
        progress(f"calibrating {name}", done, len(candidates))
        done += 1
        made: Transform = create("transform", _with(spec, params))
        return made

    if labels:
        found = calibrate_labels(make, candidates, X, y, pool)
    else:
        m, a, d = altered.shape
        variants = steps.transform(altered.reshape(m * a, d)).reshape(m, a, -1)
        found = calibrate(make, candidates, pool, X, variants)
    progress(f"calibrating {name}", len(candidates), len(candidates))
    return _report(name, chain, spec, found, len(asked), len(pool))


def tunable(spec: str) -> list[str]:
    """The options of a transform that calibration chooses: those of `GRID` that it has.

    >>> tunable("kernelslem(rank=8)"), tunable("slem()"), tunable("l2()")
    (['lam', 'gamma'], ['lam'], [])
    """
    known = inspect.signature(step_class(spec)).parameters
    return [option for option in GRID if option in known]


def _check_tunable(name: str, chain: Chain) -> tuple[Spec, list[str]]:
    options = tunable(chain.specs[-1]) if len(chain.specs) > 1 else []
    if "lam" not in options:
        raise InputError(
            f"Space '{name}' has nothing to calibrate: its last transform must have the option lam, as slem does."
            f" Its chain is {' | '.join(chain.specs)}."
        )
    spec = parse(chain.specs[-1])
    if spec.params.get("kernel") == "linear":  # which has no γ
        options = ["lam"]
    return spec, options


def _candidates(options: list[str], spec: Spec, pool: Vectors, labels: bool) -> list[dict[str, float]]:
    """Every combination, in units that fit the rows of the pool (n, d)."""
    squared = float(np.mean(np.einsum("ij,ij->i", pool, pool, dtype=np.float64)))
    unit = 10.0 ** round(math.log10(max(squared, 1e-30)))
    kernel = getattr(create("transform", spec), "kernel", None)
    units = {"lam": 1.0 if kernel == "gaussian" else unit, "gamma": 1 / unit}  # a Gaussian is at most 1
    values = {option: [value * units[option] for value in GRID[option]] for option in options}
    if "gamma" in values and not labels:
        values["gamma"] = [typical_gamma(str(kernel), pool)]
    rounded = [[float(f"{value:.3g}") for value in tried] for tried in values.values()]
    return [dict(zip(values, chosen, strict=True)) for chosen in product(*rounded)]


def _labelled(spaces: Spaces, ids: Ids, n: int) -> tuple[Ids, list[str]]:
    """At most n of the items that have one label, and these."""
    found, there = spaces.store.judgements.single_labels(), set(ids.tolist())
    one = [(item, label) for item, label in sorted(found.items()) if item in there][:n]
    if len(one) < 2:
        raise InputError(
            f"Calibration by labels needs pictures with one label each. Got {len(one)}. Run: lookalike label SOURCE"
        )
    return np.array([item for item, _ in one], np.int64), [label for _, label in one]


def _with(spec: Spec, params: dict[str, Any]) -> Spec:
    return Spec(spec.name, {**spec.params, **params})


def _report(name: str, chain: Chain, spec: Spec, found: Calibration, questions: int, pool: int) -> CalibrationReport:
    specs = [*chain.specs[:-1], str(_with(spec, found.params))]
    return CalibrationReport(name, specs, found.params, found.trials, questions, pool)
