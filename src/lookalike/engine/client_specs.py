"""The specs that clients of the service may use: an allow-list for parsed specs, including nested ones.

In: the text that a client sends for a fit. Out: nothing, or an error before any component is created. Only text can
name a file. A component is open to clients if its constructor takes only numbers, booleans, None, and text restricted
by `OneOf`, `Matches` or `SpecOf`. A component with any other option is closed to clients, so a new component is closed
until its text options are annotated.
"""

import re
from collections.abc import Iterator, Sequence
from inspect import Parameter, signature
from types import NoneType, UnionType
from typing import Annotated, Any, TypeAlias, Union, get_args, get_origin

from lookalike.engine.space_fit import CODERS, CODES
from lookalike.engine.specs import kind_of_step, parse_fit
from lookalike.errors import RefusedSpecError, SpecError, UnknownNameError
from lookalike.registry import COMPONENTS, Spec, component, names, parse
from lookalike.types import Matches, OneOf, SpecOf

Rule: TypeAlias = OneOf | Matches | SpecOf
"""The text that an option accepts."""


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
