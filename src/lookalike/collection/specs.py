"""Chains as text: parse recipes and pipelines, look up what each step needs, and check specs from clients.

A pipeline is `name = feature | transform | … | coder`. Clients of the service may only use components whose options
cannot name a file. Only text can name a file, so a component is open to clients if its constructor takes only numbers,
booleans, None, and text restricted by `OneOf`, `Matches` or `SpecOf`. All other components are closed to clients,
including new ones, until their text options are annotated.
"""

import re
from collections.abc import Iterator, Sequence
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from lookalike.errors import InputError, RefusedSpecError, SpecError, UnknownNameError
from lookalike.images.sources import absolute
from lookalike.recipes import RECIPES
from lookalike.registry import COMPONENTS, Spec, component, create, names, parse, parse_chain
from lookalike.types import Matches, OneOf, SpecOf, needs_fit, needs_labels

CODES = "codes"
"""Placeholder for a coder in the argument of a fit: the collection chooses one of `CODERS`."""

CODERS = ("pq", "itq", "tsvm", "sdh")
"""The coders that `codes` stands for: the best on a held-out part of the labels, or the first without labels."""

PATHS = frozenset(("path", "onnx", "tokenizer"))
"""Options of components that are paths of files."""

Rule: TypeAlias = OneOf | Matches | SpecOf
"""A restriction of the text that an option accepts."""


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
        raise InputError(f"'{name}' is the name of a built-in recipe. Choose another name.")
    specs = _join_local([_absolute(spec) for spec in chain])
    create("feature", specs[0])  # rejects unknown names and options before anything is written
    steps = [create(kind_of_step(spec), spec) for spec in specs[1:]]
    for spec, previous in zip(specs[2:], specs[1:], strict=False):
        if is_text(str(spec)):
            raise InputError(f"text must directly follow the feature of a chain. Got {spec} after {previous}.")
    for step, spec, next_spec in zip(steps, specs[1:], specs[2:], strict=False):  # each with the next one
        if kind_of_step(spec) == "coder" or is_smooth(str(spec)):
            kind = "A coder" if kind_of_step(spec) == "coder" else "smooth"
            raise InputError(f"{kind} must be the last step of a chain. Got {next_spec} after {spec}.")
        if kind_of_step(next_spec) == "coder" and hasattr(step, "compare"):
            raise InputError(
                f"{spec} has its own metric, which codes do not preserve. Replace this step, or leave out the coder."
            )
    return name, [str(spec) for spec in specs]


def parse_pipeline(text: str) -> tuple[str, list[Spec]]:
    """The name and the specs of `name = spec | spec | …`, as written.

    >>> parse_pipeline("small = color | l2")
    ('small', [Spec(name='color', params={}), Spec(name='l2', params={})])
    """
    match = re.fullmatch(r"\s*([\w-]+)\s*=(.+)", text, re.DOTALL)
    if match is None:
        raise InputError(
            "A pipeline must have the form NAME = SPEC | SPEC, with only letters, digits, _ and - in NAME. Got"
            f" {text!r}."
        )
    return match.group(1), parse_chain(match.group(2))


def parse_fit(text: str) -> tuple[str | None, list[Spec]]:
    """Parse the argument of a fit into a name and specs. A single step has no name; an existing space has no specs.

    >>> parse_fit("slem(lam=0.1)")
    (None, [Spec(name='slem', params={'lam': 0.1})])
    >>> parse_fit("deep")
    ('deep', [])
    """
    if "=" in text.partition("(")[0]:
        return parse_pipeline(text)
    return (None, [parse(text)]) if "(" in text else (text, [])


def is_space_name(name: str) -> bool:
    """Whether a name is that of a user's space; the vectors of a feature are stored under its spec.

    >>> is_space_name("deep"), is_space_name("efficientnet()")
    (True, False)
    """
    return re.fullmatch(r"[\w-]+", name) is not None


def recognizes_kinds(spec: str) -> bool:
    """Whether a feature also returns the kinds of pictures (see `features.kinds`), which searches by words need.

    >>> recognizes_kinds("efficientnet()"), recognizes_kinds("color()")
    (True, False)
    """
    return hasattr(component("feature", parse(spec).name), "recognize")


def kind_of_step(spec: str | Spec) -> str:
    """The kind of a step after the feature, "transform" or "coder"."""
    name = parse(spec).name if isinstance(spec, str) else spec.name
    return "coder" if name in COMPONENTS["coder"] else "transform"


def is_coder(spec: str) -> bool:
    """Whether a step computes codes."""
    return kind_of_step(spec) == "coder"


def is_smooth(spec: str) -> bool:
    """Whether a step averages stored rows with their neighbours."""
    return parse(spec).name == "smooth"


def is_text(spec: str) -> bool:
    """Whether a step computes vectors of texts."""
    return parse(spec).name == "text"


def step_class(spec: str) -> type[Any]:
    """The class of a step after the feature."""
    return component(kind_of_step(spec), parse(spec).name)


def takes_labels(spec: str) -> bool:
    """Whether a step learns from labels."""
    return needs_labels(step_class(spec))


def takes_several_labels(spec: str) -> bool:
    """Whether a step that learns from labels uses pictures with several labels."""
    return getattr(step_class(spec), "several", False) is True


def takes_negatives(spec: str) -> bool:
    """Whether a transform needs a pool of negatives."""
    return getattr(step_class(spec), "negatives", False) is True


def feature_takes_labels(spec: str) -> bool:
    """Whether a feature learns from labels."""
    return needs_labels(component("feature", parse(spec).name))


def is_imported(spec: str) -> bool:
    """Whether the vectors of a feature are imported, so that it cannot be extracted.

    >>> is_imported("imported(name='clip', dim=512)"), is_imported("color()")
    (True, False)
    """
    return getattr(component("feature", parse(spec).name), "imported", False) is True


def feature_needs_fit(spec: str) -> bool:
    """Whether a feature must be fitted on pictures before it can be extracted."""
    return needs_fit(component("feature", parse(spec).name))


def check_client_fit(text: str) -> None:
    """Raise RefusedSpecError if clients may not fit this, or another InputError if it is not a valid spec.

    The check opens no files, so clients cannot use it to find out which files exist.

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
    for kind, spec in zip(kinds, specs, strict=False):  # `parse_recipe` rejects a local without an aggregation
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
            f"The service does not accept the {kind} {spec.name}, because its options can name files. Ask the owner of"
            " the collection to fit it on the command line: lookalike fit SPEC"
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
    """Whether clients may use a component, because none of its options can name a file."""
    return all(
        option.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY) and _is_plain(option.annotation)
        for option in _options(kind, name).values()
    )


def _join_local(specs: list[Spec]) -> list[Spec]:
    """Join the first two steps of a chain to one feature if they are a local feature and its aggregation.

    >>> [str(spec) for spec in _join_local(parse_chain("sift() | fisher(k=4) | l2()"))]
    ["fisher(k=4, local='sift()')", 'l2()']
    """
    first, second = specs[0], specs[1] if len(specs) > 1 else None
    if first.name not in COMPONENTS["local"]:
        return specs
    known = second is not None and second.name in COMPONENTS["feature"]
    if second is None or not known or "local" not in signature(component("feature", second.name)).parameters:
        raise InputError(
            f"{first} computes many vectors per picture. The next step must aggregate them (dfk, fisher or vlad), such"
            f" as {first} | vlad(). Got {' | '.join(map(str, specs))}."
        )
    return [Spec(second.name, {**second.params, "local": str(first)}), *specs[2:]]


def _absolute(spec: Spec) -> Spec:
    """Make the paths of a spec and its nested specs absolute, so that files are found from any directory."""
    params = dict(spec.params)
    for option in PATHS & params.keys():
        if isinstance(params[option], str):
            params[option] = absolute(params[option])
    for option in {"local", "parts"} & params.keys():
        params[option] = _absolute_nested(params[option])
    return Spec(spec.name, params)


def _absolute_nested(value: Any) -> Any:
    """Make the paths of nested specs absolute; other values are not changed, and rejected by the component."""
    if isinstance(value, str):
        return str(_absolute(parse(value)))
    return [_absolute_nested(part) for part in value] if isinstance(value, list | tuple) else value


def _kinds(specs: Sequence[Spec]) -> list[str]:
    """The kind that each spec of a pipeline must have, according to its position."""
    first = ["local", "feature"] if specs[0].name in COMPONENTS["local"] else ["feature"]
    return [*first, *map(kind_of_step, specs[len(first) :])]


def _check_codes(spec: Spec) -> None:
    """Check the options of `codes` as options of each coder that it can stand for."""
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
    """Whether an option accepts only numbers, booleans, None, and text that a rule restricts."""
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
