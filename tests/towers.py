"""A small network of pictures and texts, trained on synthetic pictures and the names of their kinds.

The text part adds the vectors of the words, which are random. The part for pictures is a layer of random filters and a
linear map, fitted by ridge regression so that a picture gets the vector of the name of its kind.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx.numpy_helper import from_array
from onnx.parser import parse_model
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from lookalike.features.inference import open_session
from lookalike.features.pixels import crop_square
from lookalike.images.demo import draw

KINDS = ("balloons", "checkers", "flower", "night", "sunset")
"""The kinds of pictures that the network knows."""

SPECIAL = ("[PAD]", "[UNK]", "[START]", "[END]")
WORDS = (*SPECIAL, "a", "photo", "of", "picture", *KINDS)
SIZE = 48
PIXELS = {"size": SIZE, "mean": 127.0, "scale": 128.0}
"""The options of `onnx` for the part for pictures."""

DIM = 24
SAMPLES = 10  # pictures per kind

FILTERS = """
    filters = Conv <kernel_shape = [5, 5], strides = [2, 2]> (image, w)
    positive = Relu (filters)
    pooled = AveragePool <kernel_shape = [7, 7], strides = [7, 7]> (positive)
    row = Flatten (pooled)
"""
INPUT = f"float[n, 3, {SIZE}, {SIZE}] image"
IMAGE = f"net ({INPUT}) => (float[n, d] image_embeds) {{ {FILTERS} image_embeds = Gemm (row, W, b) }}"

TEXT = """
    net (int64[n, t] input_ids, int64[n, t] attention_mask) => (float[n, d] text_embeds)
    <int64[1] one = {1}, int64[1] two = {2}>
    {
        tokens = Gather (words, input_ids)
        numbers = Cast <to = 1> (attention_mask)
        mask = Unsqueeze (numbers, two)
        masked = Mul (tokens, mask)
        text_embeds = ReduceSum <keepdims = 0> (masked, one)
    }
"""


class Towers(NamedTuple):
    """The files of the network."""

    image: Path
    text: Path
    tokenizer: Path


def write_towers(folder) -> Towers:
    """Train the network, write its files to a folder, and return their paths."""
    words = word_vectors()
    weights = np.random.default_rng(0).normal(size=(32, 3, 5, 5)).astype(np.float32)
    filters = _with_arrays(f"net ({INPUT}) => (float[n, f] row) {{ {FILTERS} }}", w=weights)
    X, targets = [], []
    for kind in KINDS:
        for i in range(SAMPLES):
            pixels = crop_square(draw(kind, np.random.default_rng([7, i])), SIZE)
            X.append((pixels.transpose(2, 0, 1) - np.float32(PIXELS["mean"])) / np.float32(PIXELS["scale"]))
            targets.append(words[WORDS.index(kind)])
    (rows,) = open_session(filters.SerializeToString()).run(None, {"image": np.stack(X)})
    rows = np.c_[rows, np.ones(len(rows))]
    W = np.linalg.solve(rows.T @ rows + np.eye(rows.shape[1]), rows.T @ np.stack(targets)).astype(np.float32)
    onnx.save(_with_arrays(IMAGE, w=weights, W=W[:-1], b=W[-1]), folder / "image.onnx")
    return Towers(folder / "image.onnx", write_text(folder), write_tokenizer(folder))


def word_vectors(dim=DIM):
    """Return the vectors of WORDS, (words, dim) float32; short ones for words that do not name a kind."""
    E = np.random.default_rng(1).normal(size=(len(WORDS), dim)).astype(np.float32)
    E /= np.linalg.norm(E, axis=1, keepdims=True)
    E[: -len(KINDS)] /= 10
    return E


def write_text(folder, graph=TEXT, dim=DIM, name="text.onnx") -> Path:
    """Write a text part, as a graph that reads the array `words`, to a folder and return its path."""
    onnx.save(_with_arrays(graph, words=word_vectors(dim)), folder / name)
    return folder / name


def make_tokenizer() -> Tokenizer:
    """Return a tokenizer that puts a start and an end token around the words of a text."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [(word, WORDS.index(word)) for word in ("[START]", "[END]")]
    tokenizer.post_processor = processors.TemplateProcessing(single="[START] $A [END]", special_tokens=ends)
    return tokenizer


def write_tokenizer(folder, tokenizer=None, name="tokenizer.json") -> Path:
    """Write a tokenizer to a folder and return its path."""
    (tokenizer or make_tokenizer()).save(str(folder / name))
    return folder / name


def _with_arrays(graph, **arrays):
    model = parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}')
    model.graph.initializer.extend(from_array(array, name) for name, array in arrays.items())
    return model
