"""Registry of components by kind and name, and spec strings to create them.

A spec is a name with options, such as `"pca(dim=128, whiten=0.5)"`. Options are literals, read with Python's parser and
never evaluated. Names are ASCII; text values can contain any character. The module of a component is imported on first
use.
"""

import ast
import importlib
import inspect
import re
import threading
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np

from lookalike.arrays import as_numpy
from lookalike.errors import SpecError, UnknownNameError

COMPONENTS: dict[str, dict[str, str]] = {
    "feature": {
        "color": "lookalike.features.histograms:Color",
        "dfk": "lookalike.learn.dfk_pictures:DfkPictures",
        "efficientnet": "lookalike.features.efficientnet:EfficientNet",
        "fisher": "lookalike.features.fisher:Fisher",
        "fourier": "lookalike.features.histograms:Fourier",
        "hough": "lookalike.features.histograms:Hough",
        "hsv": "lookalike.features.histograms:Hsv",
        "imported": "lookalike.features.imported:Imported",
        "join": "lookalike.features.join:Join",
        "laplaciancolor": "lookalike.features.histograms:LaplacianColor",
        "onnx": "lookalike.features.onnx_networks:Onnx",
        "probabilitycolor": "lookalike.features.histograms:ProbabilityColor",
        "vlad": "lookalike.features.vlad:Vlad",
    },
    "local": {
        "colorstats": "lookalike.features.color_statistics:ColorStatistics",
        "csift": "lookalike.features.sift:CSift",
        "efficientnetmaps": "lookalike.features.efficientnet:EfficientNetMaps",
        "onnxmaps": "lookalike.features.onnx_networks:OnnxMaps",
        "opponentsift": "lookalike.features.sift:OpponentSift",
        "rgbsift": "lookalike.features.sift:RgbSift",
        "rgsift": "lookalike.features.sift:RgSift",
        "sift": "lookalike.features.sift:Sift",
    },
    "transform": {
        "dca": "lookalike.learn.chunklets:Dca",
        "dfk": "lookalike.learn.dfk:Dfk",
        "dmleig": "lookalike.learn.semidefinite:DmlEig",
        "fda": "lookalike.learn.linear:Fda",
        "fess": "lookalike.learn.fess:Fess",
        "invcov": "lookalike.learn.linear:InverseCovariance",
        "jscl": "lookalike.learn.wsabie:Jscl",
        "kernelslem": "lookalike.encode.kernel_slem:KernelSlem",
        "l2": "lookalike.encode.whiten:L2",
        "lmnn": "lookalike.learn.lmnn:Lmnn",
        "mmc": "lookalike.learn.semidefinite:Mmc",
        "ncmc": "lookalike.learn.ncmc:Ncmc",
        "ncmml": "lookalike.learn.ncmml:Ncmml",
        "ncmmldot": "lookalike.learn.ncmml:NcmmlDot",
        "pca": "lookalike.encode.whiten:PCA",
        "pd": "lookalike.learn.fess:Pd",
        "rca": "lookalike.learn.chunklets:Rca",
        "ridge": "lookalike.learn.linear:Ridge",
        "sdpm": "lookalike.learn.semidefinite:Sdpm",
        "slem": "lookalike.encode.slem:Slem",
        "smooth": "lookalike.encode.smooth:Smooth",
        "text": "lookalike.encode.text:Text",
        "tsvmplanes": "lookalike.codes.tsvmh:TsvmPlanes",
        "wsabie": "lookalike.learn.wsabie:Wsabie",
    },
    "coder": {
        "fasthash": "lookalike.codes.fasthash:FastHash",
        "itq": "lookalike.codes.hyperplanes:Itq",
        "lsh": "lookalike.codes.hyperplanes:Lsh",
        "pcarr": "lookalike.codes.hyperplanes:PcaRR",
        "pq": "lookalike.codes.pq:Pq",
        "sdh": "lookalike.codes.sdh:Sdh",
        "sklsh": "lookalike.codes.waves:Sklsh",
        "spectral": "lookalike.codes.waves:Spectral",
        "spherical": "lookalike.codes.spherical:Spherical",
        "tsvm": "lookalike.codes.tsvmh:Tsvmh",
    },
    "index": {
        "ann": "lookalike.index.ann:Ann",
        "flat": "lookalike.index.flat:Flat",
        "hamming": "lookalike.index.hamming:Hamming",
        "leaves": "lookalike.index.leaves:Leaves",
        "multihash": "lookalike.index.multi_hash:MultiHash",
        "fsmtree": "lookalike.index.fsm_tree:FsmTree",
        "shortlisted": "lookalike.index.ann:Shortlisted",
    },
}

MAX_SPEC = 2_000
"""Maximum length of a spec string, in characters."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_PARSER = threading.Lock()  # Python 3.11's parser shares its depth counter between threads


@dataclass(frozen=True)
class Spec:
    """The name and options of a component. Parsing `str(spec)` returns an equal spec."""

    name: str
    params: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.params.items())})"


def parse(text: str) -> Spec:
    """Parse a spec string.

    >>> parse("gem(p=3)")
    Spec(name='gem', params={'p': 3})
    """
    specs = parse_chain(text)
    if len(specs) > 1:
        raise SpecError(f"Expected one spec, not a chain of {len(specs)}. Got {text[:80]!r}.")
    return specs[0]


def parse_chain(text: str) -> list[Spec]:
    """Parse a chain of specs, separated by bars.

    >>> [str(spec) for spec in parse_chain("color | l2()")]
    ['color()', 'l2()']
    """
    problem = f"Cannot read the spec {text[:80]!r}. Write a name with literal options, such as pca(dim=128)"
    if len(text) > MAX_SPEC:
        raise SpecError(f"{problem}. It has {len(text)} characters; at most {MAX_SPEC} are allowed.")
    try:
        node = _parse_expression(text.strip())
        parts: list[ast.expr] = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):  # a | b | c is (a | b) | c
            parts.append(node.right)
            node = node.left
        return [_spec(part) for part in (node, *reversed(parts))]
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else error
        raise SpecError(f"{problem}. Reason: {reason}.") from None


def names(kind: str) -> list[str]:
    """Return the registered names of a kind, sorted."""
    if kind not in COMPONENTS:
        raise UnknownNameError("kind of component", kind, COMPONENTS)
    return sorted(COMPONENTS[kind])


@cache
def component(kind: str, name: str) -> type[Any]:
    """Import and return the class registered under this name."""
    known = names(kind)
    if name not in known:
        raise UnknownNameError(kind, name, known)
    module, _, attribute = COMPONENTS[kind][name].partition(":")
    found: type[Any] = getattr(importlib.import_module(module), attribute)
    return found


def create(kind: str, spec: str | Spec) -> Any:
    """Create a component from its spec.

    >>> create("transform", "pca(dim=128)").dim
    128
    """
    spec = parse(spec) if isinstance(spec, str) else spec
    cls = component(kind, spec.name)
    allowed = list(inspect.signature(cls).parameters)
    for option in spec.params:
        if option not in allowed:
            raise SpecError(str(UnknownNameError(f"option of {spec.name}", option, allowed)))
    try:
        return cls(**spec.params)
    except TypeError as error:
        raise SpecError(f"Cannot create the {kind} {spec.name}: {error}.") from None


def kind_of(part: object) -> tuple[str, str]:
    """Return the kind and name under which the class of a component is registered."""
    target = f"{type(part).__module__}:{type(part).__qualname__}"
    for kind, table in COMPONENTS.items():
        for name, entry in table.items():
            if entry == target:
                return kind, name
    raise SpecError(f"{type(part).__qualname__} is not registered. Add a line to lookalike/registry.py.")


def spec_of(part: object) -> str:
    """Return the spec of a component: its name and the options that differ from their defaults."""
    return str(Spec(kind_of(part)[1], _options(part)))


def state_of(part: object) -> dict[str, np.ndarray]:
    """Return the learned state of a component: its public attributes that end in `_`, as arrays."""
    return {
        key: as_numpy(value)
        for key, value in sorted(vars(part).items())
        if key.endswith("_") and not key.startswith("_")
    }


def restore(kind: str, spec: str, state: dict[str, np.ndarray]) -> Any:
    """Restore a fitted component from its spec and learned arrays; scalars become Python numbers."""
    part = create(kind, spec)
    for key, value in state.items():
        setattr(part, key, value.item() if value.ndim == 0 else value)
    return part


def _parse_expression(text: str) -> ast.expr:
    """Return the syntax tree of an expression whose names are ASCII.

    Python normalises names (NFKC): `ｐath` becomes `path`, and the tree does not contain the original spelling.
    Therefore the text is parsed again with all other characters replaced by question marks, which are syntax errors
    outside of strings.
    """
    with _PARSER:
        node = ast.parse(text, mode="eval").body
        if not text.isascii():
            try:
                ast.parse(_NOT_ASCII.sub("?", text), mode="eval")
            except SyntaxError:
                raise ValueError("names of components and options must be ASCII") from None
    return node


def _spec(node: ast.expr) -> Spec:
    if isinstance(node, ast.Name):
        return Spec(node.id)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.args:
        raise ValueError("options must be written as name=value")
    params: dict[str, Any] = {}
    for keyword in node.keywords:
        if keyword.arg is None or keyword.arg in params:
            raise ValueError("each option must have a name and occur only once")
        try:
            params[keyword.arg] = ast.literal_eval(keyword.value)
        except (ValueError, TypeError):  # TypeError: unhashable element or key
            raise ValueError(f"the value of {keyword.arg} is not a literal") from None
    return Spec(node.func.id, params)


def _options(part: object) -> dict[str, Any]:
    options = {}
    for key, parameter in inspect.signature(type(part)).parameters.items():
        value = getattr(part, key)
        value = value.tolist() if isinstance(value, np.ndarray | np.generic) else value  # specs contain literals only
        if value != parameter.default:
            options[key] = value
    return options
