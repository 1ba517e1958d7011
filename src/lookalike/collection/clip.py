"""A space for the user's own CLIP, SigLIP or MobileCLIP: its recipe, and a check with a picture and its words."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lookalike.collection.resolve import Example, example_name, example_pixels
from lookalike.collection.specs import parse_recipe
from lookalike.errors import InputError
from lookalike.images.sources import absolute
from lookalike.registry import spec_of
from lookalike.store.directory import Store

MEAN = (122.771, 116.746, 104.094)
SCALE = (68.501, 66.632, 70.323)
"""Mean and standard deviation of the pixels of CLIP's training pictures, by which its input is normalised."""

IMAGE_OUTPUTS = ("image_embeds", "pooler_output")
"""Usual names of the output with the vectors of pictures, best first."""

OTHER_WORDS = ("person", "street", "landscape", "plate of food", "document", "drawing")
"""Words that are compared with those of the picture."""


@dataclass
class ClipReport:
    """The result of `Collection.add_clip`."""

    space: str
    chain: list[str]
    dim: int
    cosines: dict[str, float]  # of the picture with its words, then with other words; empty without a picture


@dataclass(frozen=True)
class Clip:
    """A loaded and checked network of pictures and texts; see `load_clip`."""

    recipe: str
    report: ClipReport


def load_clip(
    image: str | Path,
    text: str | Path,
    tokenizer: str | Path,
    *,
    name: str = "clip",
    size: int = 224,
    mean: float | Sequence[float] = MEAN,
    scale: float | Sequence[float] = SCALE,
    template: str | Sequence[str] | None = None,
    length: int | None = None,
    pad: int | None = None,
    image_output: str | None = None,
    text_output: str | None = None,
    picture: Example | None = None,
    words: str | None = None,
    store: Store | None = None,
) -> Clip:
    """Load and check both parts of a network; see `Collection.add_clip`. Nothing is written.

    Outputs that are not given are chosen by their usual names. A `picture` can be an item of the `store`.
    """
    if (picture is None) != (words is None):
        raise InputError("Give both a picture and the words that describe it, or neither.")
    from lookalike.encode.text import OUTPUTS, TEMPLATE, Text  # scikit-learn takes a second to load
    from lookalike.features.onnx_networks import Onnx

    image, text, tokenizer = map(absolute, (image, text, tokenizer))
    feature = Onnx(image, size, mean, scale, image_output or _find_output(image, IMAGE_OUTPUTS))
    step = Text(text, tokenizer, template or TEMPLATE, length, pad, text_output or _find_output(text, OUTPUTS))
    recipe = f"{name} = {spec_of(feature)} | {spec_of(step)}"
    _, chain = parse_recipe(recipe)
    step.fit(np.zeros((1, feature.dim), np.float32))  # compares the dimensions
    cosines = {}
    if picture is not None and words is not None:
        pixels = example_pixels(store, picture, feature.side)
        others = [other for other in OTHER_WORDS if other != words.strip().casefold()]
        products = step.encode([words, *others]) @ feature.extract([pixels])[0]  # of unit vectors
        cosines = dict(zip([words, *others], products.tolist(), strict=True))
        _check_best(cosines, words, example_name(picture))
    return Clip(recipe, ClipReport(name, chain, feature.dim, cosines))


def _check_best(cosines: dict[str, float], words: str, picture: str) -> None:
    """Raise InputError if the words of a picture do not have the largest cosine."""
    best = max(cosines.keys() - {words}, key=lambda other: cosines[other])
    if cosines[words] <= cosines[best]:
        raise InputError(
            f"{picture} fits '{best}' (cosine {cosines[best]:.3f}) at least as well as '{words}'"
            f" ({cosines[words]:.3f}). Check that size, mean and scale are those of the network, that all files belong"
            " to the same network, and that the outputs are the vectors of pictures and texts."
        )


def _find_output(path: str, names: Sequence[str]) -> str | None:
    """Return the first of these names that is an output of a network; None if it is the first, or if none is."""
    from lookalike.features.onnx_networks import list_outputs

    outputs = list_outputs(path)
    found = next((name for name in names if name in outputs), None)
    return None if outputs[:1] == [found] else found
