"""A space for the user's own CLIP, SigLIP or MobileCLIP: its recipe, and a check with a picture and its words."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lookalike.collection.resolve import Example, example_name, example_pixels
from lookalike.collection.space import Space
from lookalike.errors import InputError
from lookalike.images.sources import absolute
from lookalike.registry import spec_of

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


def clip_recipe(
    name: str,
    image: str | Path,
    text: str | Path,
    tokenizer: str | Path,
    *,
    size: int,
    mean: float | Sequence[float],
    scale: float | Sequence[float],
    template: str | Sequence[str] | None,
    length: int | None,
    pad: int | None,
    image_output: str | None,
    text_output: str | None,
) -> str:
    """The recipe of a space with these networks. Outputs that are not given are chosen by their usual names."""
    from lookalike.encode.text import OUTPUTS, TEMPLATE, Text  # scikit-learn takes a second to load
    from lookalike.features.onnx_networks import Onnx

    image, text, tokenizer = map(absolute, (image, text, tokenizer))
    feature = Onnx(image, size, mean, scale, image_output or _find_output(image, IMAGE_OUTPUTS))
    step = Text(text, tokenizer, template or TEMPLATE, length, pad, text_output or _find_output(text, OUTPUTS))
    return f"{name} = {spec_of(feature)} | {spec_of(step)}"


def check_words(space: Space, picture: Example, words: str) -> dict[str, float]:
    """The cosines of a picture with its words, then with `OTHER_WORDS`.

    Raises InputError if the picture's own words do not have the largest cosine.
    """
    others = [other for other in OTHER_WORDS if other != words.strip().casefold()]
    pixels = example_pixels(space.store, picture, space.chain.feature.side)
    products = space.chain.embed_text([words, *others]) @ space.describe([pixels])[0]  # of unit vectors
    cosines: dict[str, float] = dict(zip([words, *others], products.tolist(), strict=True))
    best = max(others, key=lambda other: cosines[other])
    if cosines[words] <= cosines[best]:
        raise InputError(
            f"{example_name(picture)} fits '{best}' (cosine {cosines[best]:.3f}) at least as well as '{words}'"
            f" ({cosines[words]:.3f}). Check that size, mean and scale are those of the network, that all files belong"
            " to the same network, and that the outputs are the vectors of pictures and texts."
        )
    return cosines


def _find_output(path: str, names: Sequence[str]) -> str | None:
    """The first of these names that is an output of a network; None for the first output and if there is none."""
    from lookalike.features.onnx_networks import open_network

    outputs = [node.name for node in open_network(path).get_outputs()]
    found = next((name for name in names if name in outputs), None)
    return None if found == outputs[0] else found
