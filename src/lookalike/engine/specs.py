"""Chains as text: recipes and pipelines parsed, and what the steps that they name are.

In: a recipe's name, `name = spec | spec | …`, or one spec. Out: a space's name and its chain of specs; whether a step
makes codes, learns from labels or needs a pool of negatives, as its class says.
"""

import re
from inspect import signature
from typing import Any

from lookalike.engine.words import absolute
from lookalike.errors import InputError, UnknownNameError
from lookalike.recipes import RECIPES
from lookalike.registry import COMPONENTS, Spec, component, create, parse, parse_chain
from lookalike.types import needs_fit, needs_labels


def parse_recipe(text: str) -> tuple[str, list[str]]:
    """The space's name and its chain of specs: a recipe's name, or `name = spec | spec | …`.

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
    create("feature", specs[0])  # refuses unknown names and options before anything is written
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


def kind_of_step(spec: str | Spec) -> str:
    """What a step after the feature is, "transform" or "coder"."""
    name = parse(spec).name if isinstance(spec, str) else spec.name
    return "coder" if name in COMPONENTS["coder"] else "transform"


def is_coder(spec: str) -> bool:
    """Whether a step makes codes."""
    return kind_of_step(spec) == "coder"


def step_class(spec: str) -> type[Any]:
    """The class of a step after the feature."""
    return component(kind_of_step(spec), parse(spec).name)


def takes_labels(spec: str) -> bool:
    """Whether a step learns from labels: its class says so."""
    return needs_labels(step_class(spec))


def takes_several(spec: str) -> bool:
    """Whether a step that learns from labels makes use of pictures that have several: its class says so."""
    return getattr(step_class(spec), "several", False) is True


def feature_takes_labels(spec: str) -> bool:
    """Whether a feature learns from labels: its class says so."""
    return needs_labels(component("feature", parse(spec).name))


def feature_needs_fit(spec: str) -> bool:
    """Whether a feature learns from pictures before it can describe any: its class says so."""
    return needs_fit(component("feature", parse(spec).name))


def takes_negatives(spec: str) -> bool:
    """Whether a transform tells rows from a pool of negatives: its class says so."""
    return getattr(step_class(spec), "negatives", False) is True


def _aggregated(specs: list[Spec]) -> list[Spec]:
    """A chain that begins with a local: what comes next makes one row of its patches, and is the feature.

    >>> [str(spec) for spec in _aggregated(parse_chain("sift() | fisher(k=4) | l2()"))]
    ["fisher(k=4, local='sift()')", 'l2()']
    """
    first, second = specs[0], specs[1] if len(specs) > 1 else None
    if first.name not in COMPONENTS["local"]:
        return specs
    known = second is not None and second.name in COMPONENTS["feature"]
    if second is None or not known or "local" not in signature(component("feature", second.name)).parameters:
        raise InputError(
            f"{first} gives many rows a picture: what makes one of them comes next, dfk, fisher or vlad, such as"
            f" {first} | vlad(). Got {' | '.join(map(str, specs))}."
        )
    return [Spec(second.name, {**second.params, "local": str(first)}), *specs[2:]]


def _absolute(spec: Spec) -> Spec:
    """A file named in a spec, or in a spec inside it, is found again from any directory."""
    params = dict(spec.params)
    if isinstance(params.get("path"), str):
        params["path"] = absolute(params["path"])
    for option in {"local", "parts"} & params.keys():
        params[option] = _inner(params[option])
    return Spec(spec.name, params)


def _inner(value: Any) -> Any:
    """The specs that are options of another one, with absolute paths; what is none is refused by the component."""
    if isinstance(value, str):
        return str(_absolute(parse(value)))
    return [_inner(part) for part in value] if isinstance(value, list | tuple) else value
