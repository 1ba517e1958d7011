"""Chains: a feature, then transforms, then optionally a coder; as text, as fitted steps, and over several processes.

A pipeline is written `name = feature | transform | … | coder`. `Chain` turns pictures, or vectors of the feature, into
(n, D) float32 vectors of a space or (n, bits / 8) uint8 codes. `read_pool` reads pictures in several processes;
`PicturePool` is the protocol of what reads them.

Clients of the service may only use components whose options cannot name a file (`check_client_fit`). Only text can name
a file, so a component is open to clients if its constructor takes only numbers, booleans, None, and text restricted by
`OneOf`, `Matches` or `SpecOf`. A component with any other option is closed, so a new component is closed until its text
options are annotated.
"""

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, NamedTuple, Protocol, TypeAlias, Union, get_args, get_origin

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from lookalike.arrays import chunks, to_numpy
from lookalike.errors import InputError, RefusedSpecError, SpecError, UnknownNameError
from lookalike.images.sources import Entry, absolute
from lookalike.images.workers import Read, ReadPool, Skip
from lookalike.index.queries import CodedQuery, PointQuery
from lookalike.recipes import RECIPES
from lookalike.registry import (
    COMPONENTS,
    Spec,
    component,
    create,
    names,
    parse,
    parse_chain,
    restore,
    spec_of,
    state_of,
)
from lookalike.types import (
    Box,
    Coder,
    Feature,
    Ids,
    Matches,
    OneOf,
    Pixels,
    Prepared,
    Query,
    SpecOf,
    Transform,
    Vectors,
    needs_fit,
    needs_labels,
)

CODES = "codes"
"""Placeholder for a coder in a fit: the collection chooses one of `CODERS`."""

CODERS = ("itq", "tsvm")
"""The coders that `codes` stands for: without enough labels, and with enough."""

Rule: TypeAlias = OneOf | Matches | SpecOf
"""The text that an option accepts."""

STEP_BYTES = 2**30
"""Memory limit for the rows that a step is fitted on: of long rows it gets fewer, the first ones."""

DESCRIBE_BATCH = 16
"""Pictures that are described at a time: measured best for the default network on two cores."""


class Labelled(NamedTuple):
    """Rows that steps that learn from labels are fitted on."""

    ids: Ids  # (m,), ascending
    X: Vectors  # (m, d), of a space's feature
    y: NDArray[Any]  # (m,), one label each; or (m, C), ones and zeros, for steps that take several
    free: Vectors | None = None  # (f, d), rows without a label: some coders learn from these, too


class Chain:
    """The steps from pictures to the vectors of one space.

    Parameters
    ----------
    specs : a feature's spec, then those of transforms; the last may be a coder's.
    load : loads the fitted steps when they are first needed; None while the chain is not fitted.
    load_feature : loads the feature if it was fitted.
    """

    def __init__(
        self,
        specs: Sequence[str],
        load: Callable[[], Sequence[Any]] | None = None,
        load_feature: Callable[[], Feature] | None = None,
    ):
        self.specs = list(specs)
        self._load = load if len(self.specs) > 1 else list[Any]
        self._load_feature = load_feature

    @property
    def fitted(self) -> bool:
        """Whether all steps are fitted."""
        return self._load is not None

    @cached_property
    def feature(self) -> Feature:
        """The chain's feature. Cheap: weights are loaded by its first `describe`."""
        made: Feature = self._load_feature() if self._load_feature else create("feature", self.specs[0])
        return made

    @cached_property
    def steps(self) -> Sequence[Any]:
        """The fitted steps: the transforms, then the coder if there is one."""
        assert self._load is not None, "the chain is not fitted"
        return self._load()

    @property
    def coder(self) -> Coder | None:
        """The fitted coder at the end of the chain; None if it has none."""
        return self.steps[-1] if self.fitted and is_coder(self.specs[-1]) else None

    @property
    def transforms(self) -> Sequence[Transform]:
        """The fitted transforms."""
        return self.steps if self.coder is None else self.steps[:-1]

    def transform(self, X: Vectors) -> Vectors:
        """Transform vectors (n, d) of the feature to (n, D) float32: the space's vectors, or what its coder encodes."""
        if len(X) < 2:
            return self._through(X)
        # In chunks: between the first step and the last, rows can be much longer (dfk, then pca).
        parts = chunks(len(X), 4 * self.widest(X[:1]))
        return np.concatenate([self._through(X[part]) for part in parts])

    def widest(self, X: Vectors) -> int:
        """The largest number of columns at any step, for rows like X (1, d)."""
        widest = int(X.shape[1])
        for step in self.transforms:
            X = step.transform(X)
            widest = max(widest, int(X.shape[1]))
        return widest

    def _through(self, X: Vectors) -> Vectors:
        for step in self.transforms:
            X = step.transform(X)
        return to_numpy(X)

    def encode(self, X: Vectors) -> NDArray[Any]:
        """Turn vectors of the feature into the rows that the space stores: vectors as by `transform`, or codes."""
        X = self.transform(X)
        return X if self.coder is None else self.coder.encode(X)

    def extract(self, images: Sequence[Pixels]) -> Vectors:
        """Describe pictures: (n, D) float32 vectors of the space, or of the feature while the chain is not fitted."""
        return self._finish(self.feature.extract(images))

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Describe parts of a picture, (len(boxes), D) float32, as `extract` describes whole pictures."""
        return self._finish(self.feature.regions(image, boxes))

    @property
    def compares(self) -> bool:
        """Whether the last transform has a measure of its own, which replaces the Euclidean distance."""
        return self.fitted and len(self.transforms) > 0 and hasattr(self.transforms[-1], "compare")

    def query(self, rows: Vectors) -> Query:
        """The query for what is nearest to rows (q, D) of the space."""
        if self.coder is not None:
            return CodedQuery(rows, self.coder.query(rows))
        query: Query = self.transforms[-1].compare(rows) if self.compares else PointQuery(rows)  # type: ignore[attr-defined]
        return query

    def _finish(self, X: Vectors) -> Vectors:
        return self.transform(X) if self.fitted else X


def fit(specs: Sequence[str], X: Vectors, negatives: Vectors | None = None, labelled: Labelled | None = None) -> Chain:
    """Fit the steps of a chain, one after the other, on vectors X (n, d) of its feature.

    Steps that need a pool of negatives are fitted on `negatives` (m, d) if given, steps that learn from labels on the
    `labelled` rows.
    """
    fitted: list[Any] = []
    for spec in specs[1:]:
        step = create(kind_of_step(spec), spec)
        if labelled is not None and takes_labels(spec):
            step.fit(*(_with_free(labelled) if is_coder(spec) else (labelled.X, labelled.y)))
        else:
            step.fit(negatives if negatives is not None and takes_negatives(spec) else X)
        fitted.append(step)
        if len(fitted) < len(specs) - 1:
            most = max(2, STEP_BYTES // (4 * step.transform(X[:1]).shape[1]))
            X = step.transform(X[:most])
            negatives = None if negatives is None else step.transform(negatives[:most])
            if labelled is not None:
                ids, rows, y, free = labelled
                free = None if free is None else step.transform(free[:most])
                labelled = Labelled(ids[:most], step.transform(rows[:most]), y[:most], free)
    return Chain(specs, lambda: fitted)


def _with_free(labelled: Labelled) -> tuple[Vectors, NDArray[Any]]:
    """Rows and labels, with "" for rows without a label."""
    if labelled.free is None or not len(labelled.free):
        return labelled.X, labelled.y
    none = np.full(len(labelled.free), "")
    return np.concatenate([labelled.X, labelled.free]), np.concatenate([labelled.y.astype(str), none])


class PicturePool(Protocol):
    """Reads pictures and prepares each one, on this machine or on others."""

    def map(self, entries: Iterable[Entry]) -> Iterator[Read | Skip]:
        """The outcome of each entry, in any order: a picture with its prepared parts, or why it was skipped."""
        ...


@contextmanager
def read_pool(prepare: Any, *, side: int, workers: int | None) -> Iterator[PicturePool]:
    """Processes that read pictures at a shorter side of at least `side` and call `prepare` on each.

    Meanwhile BLAS uses one thread in this process: its waiting threads spin, and would take the cores from the readers.
    """
    with SINGLE_BLAS_THREAD, ReadPool(prepare, side=side, workers=workers) as pool:
        yield pool


class Prepare:
    """The part of extraction that runs in the reading processes, for several features at once.

    This is `prepare`, and also `describe` if a feature describes pictures one by one. A feature is sent to a process as
    its spec and its learned arrays.
    """

    def __init__(self, features: Sequence[Feature]):
        self._features = list(features)

    def __call__(self, image: Pixels) -> list[Prepared]:
        """For each feature, what `finish` needs of a picture."""
        prepared = [feature.prepare(image) for feature in self._features]
        return [
            feature.describe([part])[0] if feature.by_picture else part
            for feature, part in zip(self._features, prepared, strict=True)
        ]

    def finish(self, parts: Sequence[Sequence[Prepared]]) -> list[Vectors]:
        """Run the rest in the calling process: n prepared pictures to (n, dim) for each feature."""
        columns = zip(*parts, strict=True)
        return [
            np.stack(column) if feature.by_picture else feature.describe(column)
            for feature, column in zip(self._features, columns, strict=True)
        ]

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_prepare, ([(spec_of(feature), state_of(feature)) for feature in self._features],)


def _restore_prepare(made_of: list[tuple[str, dict[str, NDArray[Any]]]]) -> Prepare:
    return Prepare([restore("feature", spec, state) for spec, state in made_of])


class _SingleBlasThread:
    """A context in which BLAS uses one thread. The limit belongs to the process, so nested contexts are counted."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if self._inside == 0:
                self._limits = threadpool_limits(limits=1, user_api="blas")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limits.restore_original_limits()


SINGLE_BLAS_THREAD = _SingleBlasThread()
"""The only instance: several threads may be inside at once."""


def parse_recipe(text: str) -> tuple[str, list[str]]:
    """The name of a space and its chain of specs: a recipe's name, or `name = spec | spec | …`.

    >>> parse_recipe("small = color() | pca(dim=32) | l2")
    ('small', ['color()', 'pca(dim=32)', 'l2()'])
    """
    if text in RECIPES:
        return text, [str(parse(spec)) for spec in RECIPES[text]]
    if not re.search(r"[(|=]", text):
        raise UnknownNameError("recipe", text, RECIPES)
    name, chain = parse_pipeline(text)
    if name in RECIPES:
        raise InputError(f"'{name}' is the name of a recipe that comes with Lookalike. Choose another.")
    specs = _aggregated([_absolute(spec) for spec in chain])
    create("feature", specs[0])  # rejects unknown names and options before anything is written
    steps = [create(kind_of_step(spec), spec) for spec in specs[1:]]
    for step, spec, after in zip(steps, specs[1:], specs[2:], strict=False):  # each with its next
        if kind_of_step(spec) == "coder":
            raise InputError(f"A coder is the last step of a chain: codes are for searching. Got {after} after {spec}.")
        if kind_of_step(after) == "coder" and hasattr(step, "compare"):
            raise InputError(f"{spec} has a measure of its own, which codes do not keep. Choose another step for it.")
    return name, [str(spec) for spec in specs]


def parse_pipeline(text: str) -> tuple[str, list[Spec]]:
    """The name and the specs of `name = spec | spec | …`, as written.

    >>> parse_pipeline("small = color | l2")
    ('small', [Spec(name='color', params={}), Spec(name='l2', params={})])
    """
    own = re.fullmatch(r"\s*([\w-]+)\s*=(.+)", text, re.DOTALL)
    if own is None:
        raise InputError(
            f"A pipeline of your own needs a name (letters, digits, _, -): write NAME = SPEC | … Got {text!r}."
        )
    return own.group(1), parse_chain(own.group(2))


def parse_fit(text: str) -> tuple[str | None, list[Spec]]:
    """Parse the argument of a fit into a name and specs: a pipeline has both, a step no name, a known space no specs.

    >>> parse_fit("slem(lam=0.1)")
    (None, [Spec(name='slem', params={'lam': 0.1})])
    >>> parse_fit("deep")
    ('deep', [])
    """
    if "=" in text.partition("(")[0]:
        return parse_pipeline(text)
    return (None, [parse(text)]) if "(" in text else (text, [])


def is_space_name(name: str) -> bool:
    """Whether a space in the store was asked for by a user; the vectors of a feature are stored under its spec.

    >>> is_space_name("deep"), is_space_name("efficientnet()")
    (True, False)
    """
    return re.fullmatch(r"[\w-]+", name) is not None


def kind_of_step(spec: str | Spec) -> str:
    """The kind of a step after the feature, "transform" or "coder"."""
    name = parse(spec).name if isinstance(spec, str) else spec.name
    return "coder" if name in COMPONENTS["coder"] else "transform"


def is_coder(spec: str) -> bool:
    """Whether a step makes codes."""
    return kind_of_step(spec) == "coder"


def step_class(spec: str) -> type[Any]:
    """The class of a step after the feature."""
    return component(kind_of_step(spec), parse(spec).name)


def takes_labels(spec: str) -> bool:
    """Whether a step learns from labels."""
    return needs_labels(step_class(spec))


def takes_several(spec: str) -> bool:
    """Whether a step that learns from labels uses pictures with several labels."""
    return getattr(step_class(spec), "several", False) is True


def takes_negatives(spec: str) -> bool:
    """Whether a transform is fitted against a pool of negatives."""
    return getattr(step_class(spec), "negatives", False) is True


def feature_takes_labels(spec: str) -> bool:
    """Whether a feature learns from labels."""
    return needs_labels(component("feature", parse(spec).name))


def feature_needs_fit(spec: str) -> bool:
    """Whether a feature must be fitted on pictures before it can describe any."""
    return needs_fit(component("feature", parse(spec).name))


def check_client_fit(text: str) -> None:
    """Raise RefusedSpecError if clients may not fit this, or another InputError if it is not a valid spec.

    The check opens no file, so the result does not depend on which files exist.

    >>> check_client_fit("small = sift() | vlad(k=8) | pca(dim=64)")
    >>> check_client_fit("pca(dim='/etc/passwd')")
    Traceback (most recent call last):
    lookalike.errors.RefusedSpecError: The service does not accept dim='/etc/passwd' in pca. Allowed: numbers, True, \
False, None.
    """
    name, specs = parse_fit(text)  # without specs, it is the name of a space, which is never parsed
    if name is None and specs[0].name == CODES:
        _check_codes(specs[0])
        return
    kinds = _kinds(specs) if name is not None and specs else list(map(kind_of_step, specs))
    for kind, spec in zip(kinds, specs, strict=False):  # `parse_recipe` reports a local without a feature
        check_client_spec(kind, spec)


def check_client_spec(kind: str, spec: Spec) -> None:
    """Raise RefusedSpecError if clients may not use this component or one of its values."""
    if not any(spec.name in table for table in COMPONENTS.values()):
        raise UnknownNameError(kind, spec.name, COMPONENTS[kind])
    if spec.name not in COMPONENTS[kind]:
        raise RefusedSpecError(
            f"The service does not accept {spec.name} as a {kind}. Allowed: {', '.join(_open_names(kind))}."
        )
    if not is_open(kind, spec.name):
        raise RefusedSpecError(
            f"The service does not accept the {kind} {spec.name}: its options may name files. Ask the owner of the"
            " collection to fit it on the command line: lookalike fit SPEC"
        )
    options = _options(kind, spec.name)
    for option, value in spec.params.items():
        if option not in options:
            raise SpecError(str(UnknownNameError(f"option of {spec.name}", option, options)))
        rules = list(_rules(options[option].annotation))
        if not _accepts(rules, value):
            words = [repr(word) for rule in rules if isinstance(rule, OneOf) for word in rule.words]
            allowed = ", ".join(["numbers", "True", "False", "None", *words])
            raise RefusedSpecError(
                f"The service does not accept {option}={value!r:.80} in {spec.name}. Allowed: {allowed}."
            )


def is_open(kind: str, name: str) -> bool:
    """Whether clients may use a component: none of its options can carry the name of a file."""
    return all(
        option.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY) and _is_plain(option.annotation)
        for option in _options(kind, name).values()
    )


def _aggregated(specs: list[Spec]) -> list[Spec]:
    """A chain whose first two steps, a local and what aggregates its patches into one vector, are joined to a feature.

    >>> [str(spec) for spec in _aggregated(parse_chain("sift() | fisher(k=4) | l2()"))]
    ["fisher(k=4, local='sift()')", 'l2()']
    """
    first, second = specs[0], specs[1] if len(specs) > 1 else None
    if first.name not in COMPONENTS["local"]:
        return specs
    known = second is not None and second.name in COMPONENTS["feature"]
    if second is None or not known or "local" not in signature(component("feature", second.name)).parameters:
        raise InputError(
            f"{first} gives many rows per picture. A step that aggregates them must follow (dfk, fisher or vlad):"
            f" {first} | vlad(). Got {' | '.join(map(str, specs))}."
        )
    return [Spec(second.name, {**second.params, "local": str(first)}), *specs[2:]]


def _absolute(spec: Spec) -> Spec:
    """The spec with absolute paths, in nested specs too, so that its files are found from any directory."""
    params = dict(spec.params)
    if isinstance(params.get("path"), str):
        params["path"] = absolute(params["path"])
    for option in {"local", "parts"} & params.keys():
        params[option] = _inner(params[option])
    return Spec(spec.name, params)


def _inner(value: Any) -> Any:
    """Nested specs with absolute paths; any other value is left for the component to reject."""
    if isinstance(value, str):
        return str(_absolute(parse(value)))
    return [_inner(part) for part in value] if isinstance(value, list | tuple) else value


def _kinds(specs: Sequence[Spec]) -> list[str]:
    """The kind that each spec of a pipeline must have, by its position."""
    first = ["local", "feature"] if specs[0].name in COMPONENTS["local"] else ["feature"]
    return [*first, *map(kind_of_step, specs[len(first) :])]


def _check_codes(spec: Spec) -> None:
    """Check the options of `codes` as options of each coder that it may stand for."""
    options = {option for coder in CODERS for option in _options("coder", coder)}
    if unknown := spec.params.keys() - options:
        raise SpecError(str(UnknownNameError(f"option of {CODES}", min(unknown), sorted(options))))
    for coder in CODERS:
        known = _options("coder", coder)
        check_client_spec("coder", Spec(coder, {key: value for key, value in spec.params.items() if key in known}))


def _open_names(kind: str) -> list[str]:
    return [name for name in names(kind) if is_open(kind, name)]


def _options(kind: str, name: str) -> dict[str, Parameter]:
    return dict(signature(component(kind, name)).parameters)


def _is_plain(annotation: Any) -> bool:
    """Whether an option takes only numbers, booleans, None, and text that a rule restricts."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return inner[0] is str and any(isinstance(rule, Rule) for rule in inner[1:])
    if origin in (Union, UnionType, Sequence):
        return all(map(_is_plain, inner))
    return annotation in (int, float, bool, NoneType)


def _rules(annotation: Any) -> Iterator[Rule]:
    """The rules of an annotation, including nested ones."""
    if get_origin(annotation) is Annotated:
        yield from (rule for rule in annotation.__metadata__ if isinstance(rule, Rule))
    else:
        for inner in get_args(annotation):
            yield from _rules(inner)


def _accepts(rules: Sequence[Rule], value: Any) -> bool:
    """Whether a value is a number, a boolean, None, text that a rule admits, or a list or tuple of these."""
    if isinstance(value, list | tuple):
        return all(_accepts(rules, part) for part in value)
    if isinstance(value, str):
        return any(_admits(rule, value) for rule in rules)
    return value is None or isinstance(value, bool | int | float)


def _admits(rule: Rule, text: str) -> bool:
    match rule:
        case OneOf():
            return text in rule.words
        case Matches():
            return re.fullmatch(rule.pattern, text) is not None
        case SpecOf():
            check_client_spec(rule.kind, parse(text))
            return True
