"""Shared types: array aliases, ids, boxes, `Hits`, annotations of options, and the protocols of components.

Letters, the same everywhere: n rows, q queries, d input dimension, D output dimension, k hits, r rank;
`X` is a matrix of rows, `y` their labels. Images are (height, width, 3) uint8 RGB, vectors float32, ids int64,
codes packed uint8. Scores are distances: smaller is better.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, Protocol, Self, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from lookalike.errors import InputError

Array: TypeAlias = Any
"""A NumPy array or a torch tensor; code for both uses the namespace of its input (see `arrays`)."""

Pixels: TypeAlias = NDArray[np.uint8]
"""One picture, (height, width, 3) uint8 RGB."""

Vectors: TypeAlias = NDArray[np.float32]
"""(n, d) float32."""

Ids: TypeAlias = NDArray[np.int64]
"""(n,) int64 item ids: the first 63 bits of the digest of each file's bytes."""

Box: TypeAlias = tuple[float, float, float, float]
"""A part of a picture: left, top, right and bottom as shares of its width and height, 0 to 1."""

Prepared: TypeAlias = Any
"""What a feature's `prepare` returns for its `describe`: an array, or a tuple of arrays; picklable."""

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""`progress(stage, done, total)`: called often, so it must be fast; `total` is None while it is unknown."""


class OneOf:
    """Annotation of a component's text option: one of these words.

    Clients of the service may set text options with this annotation, `Matches` or `SpecOf`. Other text options might
    name a file, so clients may not use components that have one (see `engine.client_specs`).
    """

    def __init__(self, words: Iterable[str]):
        self.words = tuple(words)


@dataclass(frozen=True)
class Matches:
    """Annotation of a component's text option: text of this form, which never names a file."""

    pattern: str


@dataclass(frozen=True)
class SpecOf:
    """Annotation of a component's text option: the spec of another component, of this kind."""

    kind: str


FeatureSpec: TypeAlias = Annotated[str, SpecOf("feature")]
LocalSpec: TypeAlias = Annotated[str, SpecOf("local")]


FIT_BYTES = 256 * 2**20
"""Memory for the prepared pictures that a feature learns from."""


def silent(stage: str, done: int, total: int | None) -> None:
    """Report no progress."""


def format_id(item: int) -> str:
    """An item's id as text: 16 hexadecimal digits.

    >>> format_id(255)
    '00000000000000ff'
    """
    return f"{item:016x}"


def parse_id(text: str) -> int | None:
    """The id that is written as 16 hexadecimal digits; None for other text."""
    return int(text, 16) if re.fullmatch("[0-7][0-9a-f]{15}", text) else None


def crop(image: Pixels, box: Box) -> Pixels:
    """The part of a picture inside a box, at least one pixel of it; a view.

    >>> crop(np.zeros((100, 200, 3), np.uint8), (0.5, 0.0, 1.0, 0.25)).shape
    (25, 100, 3)
    """
    left, top, right, bottom = check_box(box)
    height, width = image.shape[:2]
    first_x, first_y = min(int(left * width), width - 1), min(int(top * height), height - 1)
    last_x, last_y = max(first_x + 1, round(right * width)), max(first_y + 1, round(bottom * height))
    return image[first_y:last_y, first_x:last_x]


def check_box(box: Box) -> Box:
    """The box as floats; InputError if it is not one."""
    try:
        left, top, right, bottom = map(float, box)
    except (TypeError, ValueError):
        left = top = right = bottom = 0.0  # raises below
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise InputError(
            "A box must be left, top, right, bottom as shares of the picture, 0 to 1, left before right and top before"
            f" bottom. Got {box}."
        )
    return left, top, right, bottom


@dataclass(frozen=True, slots=True)
class Hits:
    """The hits of a search, best first. Rows with fewer than k hits end in id -1 and score inf."""

    ids: Ids  # (q, k) int64
    scores: Vectors  # (q, k) float32, smaller is better
    scored: int  # vectors that were compared with a query: the cost of the search


class Patches(NamedTuple):
    """The local descriptors of one picture."""

    X: NDArray[Any]  # (m, dim) float32
    places: Vectors  # (m, 2) float32: the centre of each patch, x and y as shares of width and height


@runtime_checkable
class Feature(Protocol):
    """One vector for each picture. The constructor is fast: weights are loaded by the first `describe`."""

    side: int
    """The shorter side, in pixels, that the feature needs: readers may decode pictures at any size above it."""

    by_picture: bool = False
    """Whether `describe` gains nothing from batches or cores: it then runs in the reading processes, too."""

    @property
    def dim(self) -> int:
        """The length of a row."""
        ...

    def prepare(self, image: Pixels) -> Prepared:
        """Reduce a picture to what `describe` needs; runs in the reading processes."""
        ...

    def describe(self, prepared: Sequence[Prepared]) -> Vectors:
        """n prepared pictures to (n, dim) float32."""
        ...

    def extract(self, images: Sequence[Pixels]) -> Vectors:
        """n pictures to (n, dim) float32."""
        return self.describe([self.prepare(image) for image in images])

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Parts of one picture to (len(boxes), dim) float32: each as if it had been cut out."""
        return self.extract([crop(image, box) for box in boxes])


@runtime_checkable
class LearnedFeature(Feature, Protocol):
    """A feature that learns from pictures, such as a vocabulary, before it can describe any.

    The learned state is in public attributes that end in `_`. `prepare` does not need it.
    """

    def fit(self, prepared: Iterable[Prepared], *, max_bytes: int = FIT_BYTES, progress: Progress = silent) -> Self:
        """Learn from a stream of prepared pictures, holding at most `max_bytes` of them; their order matters."""
        ...


@runtime_checkable
class LabelledFeature(Feature, Protocol):
    """A feature that learns from pictures and their labels, one or several a picture. Its class has `labels = True`."""

    labels: bool

    def fit(
        self,
        labelled: Iterable[tuple[Prepared, Sequence[str]]],
        *,
        max_bytes: int = FIT_BYTES,
        progress: Progress = silent,
    ) -> Self:
        """Learn from a stream of prepared pictures, each with its labels; otherwise like a `LearnedFeature`."""
        ...


def needs_fit(feature: Feature | type[Feature]) -> bool:
    """Whether a feature has a `fit`. (`isinstance` would read `dim`, which loads a network.)"""
    return hasattr(feature, "fit")


@runtime_checkable
class Local(Protocol):
    """A set of local descriptors for each picture, the input of vocabularies."""

    side: int
    by_picture: bool = False
    """As of a `Feature`."""

    @property
    def dim(self) -> int:
        """The length of a descriptor."""
        ...

    def prepare(self, image: Pixels) -> Prepared:
        """As of a `Feature`: runs in the reading processes."""
        ...

    def describe(self, prepared: Sequence[Prepared]) -> list[Patches]:
        """n prepared pictures to the patches of each, at least one a picture."""
        ...


@runtime_checkable
class Transform(Protocol):
    """(n, d) to (n, D): encoders and learned metrics. A scikit-learn transformer."""

    def fit(self, X: Array, y: Array | None = None) -> Self:
        """Learn from rows X (n, d), and from their labels if the transform uses them."""
        ...

    def transform(self, X: Array) -> Array:
        """(n, d) to (n, D) float32."""
        ...


def needs_labels(part: "Transform | Coder | Feature | type[Transform] | type[Coder] | type[Feature]") -> bool:
    """Whether a transform, a coder or a feature learns from labels: such a class has `labels = True`."""
    return bool(getattr(part, "labels", False))


@runtime_checkable
class Coder(Protocol):
    """(n, d) to (n, bits / 8) uint8."""

    bits: int

    def fit(self, X: Array, y: Array | None = None) -> Self:
        """Learn from rows X (n, d), and from their labels if the coder uses them."""
        ...

    def encode(self, X: Array) -> NDArray[np.uint8]:
        """(n, d) to (n, bits / 8) packed bits."""
        ...

    def query(self, X: Array) -> "Query":
        """A query that finds the neighbours of rows X (q, d) in an index of codes."""
        ...


@runtime_checkable
class Query(Protocol):
    """Scores vectors. An index may have a faster search for some classes of queries."""

    def score(self, X: Vectors) -> Vectors:
        """(m, d) to (q, m), smaller is better."""
        ...


@runtime_checkable
class Index(Protocol):
    """Vectors with ids, searched by queries."""

    def add(self, ids: Ids, X: Vectors) -> None:
        """Add rows X (n, d) under new ids (n,)."""
        ...

    def remove(self, ids: Ids) -> int:
        """Remove these ids; returns how many of them were there."""
        ...

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """The k best of `among` (None: all) without `exclude`; filters apply during the search, never afterwards.

        `effort=None` is the index's own default; "exact" is an exact search.
        """
        ...


@runtime_checkable
class Searchable(Protocol):
    """What feedback needs of an index: search and read, not add or remove."""

    @property
    def dim(self) -> int | None:
        """d; None until something was added."""
        ...

    @property
    def ids(self) -> Ids:
        """The ids of all vectors, ascending."""
        ...

    def vectors(self, ids: Ids) -> Vectors:
        """The rows of these ids, (m, d) float32."""
        ...

    def __len__(self) -> int: ...

    def search(
        self,
        query: Query,
        k: int,
        *,
        among: Ids | None = None,
        exclude: Ids | None = None,
        effort: float | str | None = None,
    ) -> Hits:
        """As of an `Index`."""
        ...
