"""`Text`: vectors of texts in the space of pictures, by the text part of the user's own CLIP, SigLIP or MobileCLIP.

Such a network has two parts, trained so that a picture and its description get similar vectors: Radford et al.,
"Learning transferable visual models from natural language supervision", ICML 2021. The feature `Onnx` runs the part for
pictures.
"""

from collections.abc import Sequence
from functools import cached_property
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from lookalike.arrays import chunks, unit_rows
from lookalike.encode.whiten import L2
from lookalike.errors import InputError, MissingError
from lookalike.features.onnx_networks import first_line, open_network
from lookalike.limits import check_number
from lookalike.types import Array, Vectors

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TEMPLATE = "a photo of a {}"
"""Default prompt: that of CLIP's paper."""

LENGTH = 77
"""Number of tokens if neither the network nor the tokenizer declares one: that of CLIP and MobileCLIP."""

MAX_LENGTH = 10_000
"""Maximum number of tokens. Networks read a few hundred at most."""

MAX_TOKEN = 2**31 - 1
"""Maximum id of a token."""

OUTPUTS = ("text_embeds", "pooler_output", "embeds")
"""Usual names of the output with the vectors of texts, best first."""

INPUTS = {"input_ids": "ids", "attention_mask": "attention_mask", "token_type_ids": "type_ids"}
"""Inputs of a network with several inputs, and the attribute of an encoding that each one gets."""

DTYPES = {"tensor(int64)": np.int64, "tensor(int32)": np.int32}
"""Supported types of the inputs: onnxruntime's name and NumPy's type."""

FILLERS = ("<pad>", "[PAD]")
"""Usual names of the token that fills short texts."""


class Text(L2):
    """Vectors of texts that can be compared with those of pictures; must directly follow the feature in a pipeline.

    `transform` only scales the vectors of pictures to unit length. `encode` computes the vectors of texts. The network
    and the tokenizer are loaded when they are first needed.

    Parameters
    ----------
    onnx : path of the text part of the network, an ONNX file. If weights are in a second file, it must be in the same
        folder.
    tokenizer : path of the `tokenizer.json` of the network.
    template : prompt with {} in the place of the text. With several prompts, a text gets the mean of their vectors.
    length : number of tokens to which prompts are padded and truncated. By default the length that the network, or
        else the tokenizer, declares, or 77.
    pad : id of the token that fills short prompts. By default that of the tokenizer: the one that it declares, "<pad>"
        or "[PAD]" if it has one, or the last token of every text.
    output : name of the tensor to use, an output or any inner tensor. By default the output with two axes; if there
        are several, `text_embeds`, `pooler_output` or the first.

    """

    def __init__(
        self,
        onnx: str | Path,
        tokenizer: str | Path,
        template: str | Sequence[str] = TEMPLATE,
        length: int | None = None,
        pad: int | None = None,
        output: str | None = None,
    ):
        self.onnx = str(onnx)
        self.tokenizer = str(tokenizer)
        self.template = template
        self.length = length
        self.pad = pad
        self.output = output

    def fit(self, X: Array, y: Array | None = None) -> Self:
        """Load the network and check that its vectors have the dimension of X; nothing is learned."""
        super().fit(X, y)
        self._check_dim(self._network.dim)
        return self

    def encode(self, texts: Sequence[str]) -> Vectors:
        """Compute the vectors of texts, (n, d) float32 of unit length."""
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise InputError(f"texts must be a list of strings. Got {texts!r:.80}.")
        prompts = self._prompts()
        X = self._network.run([prompt.replace("{}", text) for text in texts for prompt in prompts])  # (n * p, d)
        self._check_dim(X.shape[1])
        means = unit_rows(X).reshape(len(texts), len(prompts), X.shape[1]).mean(axis=1)  # (n, d)
        vectors: Vectors = unit_rows(means)
        return vectors

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in super().__getstate__().items() if key != "_network"}

    @cached_property
    def _network(self) -> "_TextNetwork":
        self._prompts()
        return _TextNetwork(self.onnx, self.tokenizer, self.length, self.pad, self.output)

    def _prompts(self) -> list[str]:
        prompts = [self.template] if isinstance(self.template, str) else list(self.template)
        if not prompts or not all(isinstance(prompt, str) and "{}" in prompt for prompt in prompts):
            raise InputError(
                "template must be a text with {} in the place of the words, such as 'a photo of a {}', or a list of"
                f" such texts. Got {self.template!r}."
            )
        return prompts

    def _check_dim(self, dim: int) -> None:
        expected = getattr(self, "n_features_in_", dim)
        if dim != expected:
            raise InputError(
                f"The vectors of {self.onnx} have {dim} dimensions, those of the pictures have {expected}. Use both"
                " parts of the same network, and check output."
            )


class _TextNetwork:
    """A loaded network with its tokenizer. `dim` is the dimension of its vectors."""

    def __init__(self, path: str, tokenizer: str, length: int | None, pad: int | None, output: str | None):
        _check_options(length, pad, output)
        self.path, self.tokenizer_path = path, tokenizer
        self.session = open_network(path, output)
        self._read_inputs()
        # A number of texts or tokens that the file does not fix is a name or None. Without a fixed number of texts, one
        # text is run at a time: its vector does not depend on other texts, and files traced with one text work too.
        batch, tokens = (size if isinstance(size, int) else None for size in self.session.get_inputs()[0].shape)
        if tokens and length not in (None, tokens):
            raise InputError(f"{path} needs {tokens} tokens. Got length={length}. Change length to match.")
        self.batch = batch or 1
        self.tokenizer = _load_tokenizer(tokenizer)
        self.length = _set_length(self.tokenizer, length or tokens, pad, tokenizer)
        self._choose_output()

    def run(self, prompts: Sequence[str]) -> Vectors:
        """Compute the vectors of prompts, (n, dim) float32."""
        X = np.empty((len(prompts), self.dim), np.float32)
        for part in chunks(len(prompts), row_bytes=1, max_bytes=self.batch):
            texts = prompts[part]
            filled = [*texts, *[""] * (self.batch - len(texts))]
            X[part] = self._run(filled, [self.output])[0][: len(texts)]
        if not np.all(np.isfinite(X)):
            raise InputError(f"The network {self.path} returned NaN or infinity for a text.")
        return X

    def _run(self, texts: Sequence[str], outputs: Sequence[str]) -> list[Any]:
        """Return these outputs for `batch` texts."""
        try:
            encodings = [self.tokenizer.encode(text) for text in texts]
            feeds = {
                name: np.array([getattr(encoding, attribute) for encoding in encodings], dtype)  # (batch, length)
                for name, (attribute, dtype) in self.inputs.items()
            }
            return list(self.session.run(outputs, feeds))
        except Exception as error:  # noqa: BLE001 (the errors of tokenizers and onnxruntime have no common class)
            raise InputError(
                f"{self.path} fails on texts of {self.length} tokens. Check length, and that {self.tokenizer_path}"
                f" belongs to this network. Reason: {first_line(error)}"
            ) from None

    def _read_inputs(self) -> None:
        """Find out what each input of the network gets."""
        inputs = self.session.get_inputs()
        # A single input can have any name.
        names = {node.name: "input_ids" if len(inputs) == 1 else node.name for node in inputs}
        matrices = all(len(node.shape) == 2 and node.type in DTYPES for node in inputs)
        if "input_ids" not in names.values() or not matrices or not INPUTS.keys() >= {*names.values()}:
            shapes = ", ".join(f"{node.name} {node.shape} {node.type}" for node in inputs)
            raise InputError(
                f"{self.path} must have the input input_ids, and optionally attention_mask and token_type_ids: whole"
                f" numbers with 2 axes, texts and tokens. Got {shapes}. Export only the text part of the network, or"
                " set output to its vectors."
            )
        self.inputs = {node.name: (INPUTS[names[node.name]], DTYPES[node.type]) for node in inputs}

    def _choose_output(self) -> None:
        """Choose the output with the vectors. Files often do not declare shapes, so a text is run."""
        names = [node.name for node in self.session.get_outputs()]
        shapes = {name: np.shape(value) for name, value in zip(names, self._run([""] * self.batch, names), strict=True)}
        usable = [name for name, shape in shapes.items() if len(shape) == 2 and shape[0] == self.batch]
        if not usable:
            found = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
            raise InputError(
                f"{self.path} has no output with one vector per text. Shapes of the outputs for {self.batch}: {found}."
                " Set output to a tensor with 2 axes, texts and dimensions."
            )
        self.output = next((name for name in OUTPUTS if name in usable), usable[0])
        self.dim = shapes[self.output][1]


def _check_options(length: int | None, pad: int | None, output: str | None) -> None:
    """Raise InputError for options that are invalid for every network."""
    if output is not None and not isinstance(output, str):
        raise InputError(f"output must be the name of a tensor, or None to choose one. Got {output!r}.")
    if length is not None:
        check_number("length", length, Integral, f"None, or a whole number from 1 to {MAX_LENGTH}", 1, MAX_LENGTH)
    if pad is not None:
        check_number("pad", pad, Integral, f"None, or a whole number from 0 to {MAX_TOKEN}", 0, MAX_TOKEN)


def _load_tokenizer(path: str) -> "Tokenizer":
    try:
        import tokenizers
    except ImportError:
        raise MissingError(
            "Vectors of texts need the package tokenizers. Install it with: pip install 'lookalike[text]'"
        ) from None
    if not Path(path).is_file():
        raise MissingError(f"The tokenizer {path} does not exist. Give the path of the network's tokenizer.json.")
    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # noqa: BLE001 (tokenizers raises Exception itself)
        raise _invalid_tokenizer(path, error) from None


def _invalid_tokenizer(path: str, error: BaseException) -> InputError:
    return InputError(
        f"Cannot load {path} as a tokenizer: {first_line(error)}. Give the path of the network's tokenizer.json."
    )


def _set_length(tokenizer: "Tokenizer", length: int | None, pad: int | None, path: str) -> int:
    """Make a tokenizer pad and truncate all texts to a length, by default that of its file; return the length.

    `path` is the file of the tokenizer, for errors.
    """
    truncation, padding = tokenizer.truncation or {}, tokenizer.padding or {}
    length = length or truncation.get("max_length") or padding.get("length") or LENGTH
    if length > MAX_LENGTH:  # tokenizers would end the process if it ran out of memory
        raise InputError(
            f"The network or its tokenizer declares a length of {length} tokens; the maximum is {MAX_LENGTH}. Set"
            " length to the number of tokens that the network was trained with, such as 77."
        )
    tokenizer.no_truncation()
    tokenizer.no_padding()
    try:
        tokens = tokenizer.encode("").ids  # those that all texts have
    except BaseException as error:
        # A panic of Rust, for example if the file refers to a token that it does not declare, is not an Exception.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        raise _invalid_tokenizer(path, error) from None
    if pad is None:
        pad = padding.get("pad_id")
    if pad is None:
        fillers = [tokenizer.token_to_id(name) for name in FILLERS]
        pad = next((filler for filler in fillers if filler is not None), None)
    if pad is None:
        pad = next(reversed(tokens), 0)
    tokenizer.enable_truncation(length, direction=truncation.get("direction", "right"))
    tokenizer.enable_padding(length=length, pad_id=pad, direction=padding.get("direction", "right"))
    return length
