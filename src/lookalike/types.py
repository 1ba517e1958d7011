"""Shared types: array aliases, ids, boxes, `Hits`, annotations of options, and protocols of components.

Shapes use the same letters everywhere: n rows, q queries, d input dimension, D output dimension, k hits, r rank. `X` is
a matrix of rows and `y` their labels. Images are (height, width, 3) uint8 RGB, vectors float32, ids int64,
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
"""A part of a picture: left, top, right and bottom as fractions of its width and height, 0 to 1."""

WHOLE: Box = (0.0, 0.0, 1.0, 1.0)
"""The whole picture."""

Prepared: TypeAlias = Any
"""Output of a feature's `prepare` and input of its `describe`: a picklable array or tuple of arrays."""

Progress: TypeAlias = Callable[[str, int, int | None], None]
"""`progress(stage, done, total)` is called often, so it must be fast. `total` is None while it is unknown."""

CELLS, CELL_SHARE = 8, 0.2
"""Cells per side of a picture, and the width and height of a cell as a share of the picture."""

Run: TypeAlias = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""A function like `map`; it can call the given function in other processes."""


MAX_EXIF_TEXT = 100
"""Maximum number of characters of a text from the metadata of a picture."""


@dataclass(frozen=True, slots=True)
class Exif:
    """What a camera wrote into a picture; None for unknown values."""

    camera: str | None = None
    lens: str | None = None
    exposure_s: float | None = None
    aperture: float | None = None  # the f-number
    iso: int | None = None
    focal_length_mm: float | None = None
    latitude: float | None = None  # degrees; north is positive
    longitude: float | None = None  # degrees; east is positive


NO_EXIF = Exif()
"""The metadata of a picture without any."""


class OneOf:
    """Annotation of a text option of a component: one of these words.

    Clients of the service may set text options that have this annotation, `Matches` or `SpecOf`. Other text options
    could name a file, so clients may not use components that have one (see `collection.specs`).
    """

    def __init__(self, words: Iterable[str]):
        self.words = tuple(words)


@dataclass(frozen=True)
class Matches:
    """Annotation of a text option of a component: text that matches this pattern and cannot name a file."""

    pattern: str


@dataclass(frozen=True)
class SpecOf:
    """Annotation of a text option of a component: the spec of another component of this kind."""

    kind: str


FeatureSpec: TypeAlias = Annotated[str, SpecOf("feature")]
LocalSpec: TypeAlias = Annotated[str, SpecOf("local")]


FIT_BYTES = 256 * 2**20
"""Maximum memory for the prepared pictures that a feature learns from."""


def silent(stage: str, done: int, total: int | None) -> None:
    """Ignore progress reports."""


def format_id(item: int) -> str:
    """Format the id of an item as 16 hexadecimal digits.

    >>> format_id(255)
    '00000000000000ff'
    """
    return f"{item:016x}"


def parse_id(text: str) -> int | None:
    """Parse an id of 16 hexadecimal digits; return None for other text."""
    return int(text, 16) if re.fullmatch("[0-7][0-9a-f]{15}", text) else None


def crop(image: Pixels, box: Box) -> Pixels:
    """Return a view of the part of a picture inside a box, at least one pixel.

    >>> crop(np.zeros((100, 200, 3), np.uint8), (0.5, 0.0, 1.0, 0.25)).shape
    (25, 100, 3)
    """
    left, top, right, bottom = check_box(box)
    height, width = image.shape[:2]
    first_x, first_y = min(int(left * width), width - 1), min(int(top * height), height - 1)
    last_x, last_y = max(first_x + 1, round(right * width)), max(first_y + 1, round(bottom * height))
    return image[first_y:last_y, first_x:last_x]


def check_box(box: Box) -> Box:
    """Return the box as floats; raise InputError if it is not a valid box."""
    try:
        left, top, right, bottom = map(float, box)
    except (TypeError, ValueError):
        left = top = right = bottom = 0.0  # raises below
    if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
        raise InputError(
            "A box must be left, top, right, bottom as fractions of the picture from 0 to 1, with left < right and"
            f" top < bottom. Got {box}."
        )
    return left, top, right, bottom


@dataclass(frozen=True, slots=True)
class Hits:
    """The hits of a search, best first. Rows with fewer than k hits end in id -1 and score inf."""

    ids: Ids  # (q, k) int64
    scores: Vectors  # (q, k) float32, smaller is better
    scored: int  # number of vectors compared with a query: the cost of the search


class Patches(NamedTuple):
    """The local descriptors of one picture."""

    X: NDArray[Any]  # (m, dim) float32
    places: Vectors  # (m, 2) float32: centre of each patch, x and y as fractions of width and height


@runtime_checkable
class Feature(Protocol):
    """A component that computes one vector per picture. Fast to create: the first `describe` loads the weights."""

    side: int
    """Minimum length of the shorter side, in pixels: readers may decode pictures at this size or larger."""

    by_picture: bool = False
    """Whether `describe` runs in the reading processes, because it does not benefit from batches or more cores."""

    @property
    def dim(self) -> int:
        """Dimension of the vectors."""
        ...

    def prepare(self, image: Pixels) -> Prepared:
        """Reduce a picture to the input of `describe`; runs in the reading processes."""
        ...

    def describe(self, prepared: Sequence[Prepared]) -> Vectors:
        """Compute the vectors of n prepared pictures, (n, dim) float32."""
        ...

    def extract(self, images: Sequence[Pixels]) -> Vectors:
        """Compute the vectors of n pictures, (n, dim) float32."""
        return self.describe([self.prepare(image) for image in images])

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Compute the vectors of parts of one picture, as if they were cropped: (len(boxes), dim) float32."""
        return self.extract([crop(image, box) for box in boxes])

    def cells(self, image: Pixels) -> Vectors:
        """Compute the vectors of small parts of a picture, a grid at each of several scales: (scales, h, w, dim)."""
        starts = [i * (1 - CELL_SHARE) / (CELLS - 1) for i in range(CELLS)]
        boxes = [(x, y, min(1.0, x + CELL_SHARE), min(1.0, y + CELL_SHARE)) for y in starts for x in starts]
        return self.regions(image, boxes).reshape(1, CELLS, CELLS, -1)


@runtime_checkable
class LearnedFeature(Feature, Protocol):
    """A feature that must be fitted on pictures first, for example to learn a vocabulary.

    The learned state is in public attributes that end in `_`. `prepare` does not use it.
    """

    def fit(
        self,
        prepared: Iterable[Prepared],
        *,
        max_bytes: int = FIT_BYTES,
        progress: Progress = silent,
        gpu: str | None = None,
    ) -> Self:
        """Learn from a stream of prepared pictures, holding at most `max_bytes`; the order affects the result.

        `gpu` is the GPU that the fit can use, as PyTorch names it; None for the CPU.
        """
        ...


@runtime_checkable
class LabelledFeature(Feature, Protocol):
    """A feature that learns from pictures with one or more labels each. Its class has `labels = True`."""

    labels: bool

    def fit(
        self,
        labelled: Iterable[tuple[Prepared, Sequence[str]]],
        *,
        max_bytes: int = FIT_BYTES,
        progress: Progress = silent,
        gpu: str | None = None,
    ) -> Self:
        """Learn from a stream of prepared pictures with their labels; otherwise like a `LearnedFeature`."""
        ...


def needs_fit(feature: Feature | type[Feature]) -> bool:
    """Return whether a feature has a `fit`. (`isinstance` would read `dim`, which loads a network.)"""
    return hasattr(feature, "fit")


@runtime_checkable
class Local(Protocol):
    """A component that computes a set of local descriptors per picture, the input of vocabularies."""

    side: int
    by_picture: bool = False
    """As in `Feature`."""

    @property
    def dim(self) -> int:
        """Dimension of the descriptors."""
        ...

    def prepare(self, image: Pixels) -> Prepared:
        """Reduce a picture to the input of `describe`; runs in the reading processes."""
        ...

    def describe(self, prepared: Sequence[Prepared]) -> list[Patches]:
        """Return the patches of each of n prepared pictures, at least one per picture."""
        ...


@runtime_checkable
class Transform(Protocol):
    """A map from (n, d) to (n, D): an encoder or a learned metric. A scikit-learn transformer."""

    def fit(self, X: Array, y: Array | None = None) -> Self:
        """Learn from rows X (n, d), and from their labels if the transform uses them."""
        ...

    def transform(self, X: Array) -> Array:
        """Map X (n, d) to (n, D) float32."""
        ...


def needs_labels(part: "Transform | Coder | Feature | type[Transform] | type[Coder] | type[Feature]") -> bool:
    """Return whether a transform, coder or feature learns from labels; its class then has `labels = True`."""
    return bool(getattr(part, "labels", False))


@runtime_checkable
class Coder(Protocol):
    """A map from vectors (n, d) to packed codes (n, bits / 8) uint8."""

    bits: int

    def fit(self, X: Array, y: Array | None = None) -> Self:
        """Learn from rows X (n, d), and from their labels if the coder uses them."""
        ...

    def encode(self, X: Array) -> NDArray[np.uint8]:
        """Map X (n, d) to packed bits, (n, bits / 8)."""
        ...

    def query(self, X: Array) -> "Query":
        """Return a query that finds the neighbours of rows X (q, d) in an index of codes."""
        ...


@runtime_checkable
class Query(Protocol):
    """An object that scores vectors. An index can have a faster search for some classes of queries."""

    def score(self, X: Vectors) -> Vectors:
        """Return the scores of rows X (m, d), (q, m); smaller is better."""
        ...


@runtime_checkable
class Index(Protocol):
    """Vectors with ids that can be searched with queries."""

    def add(self, ids: Ids, X: Vectors) -> None:
        """Add rows X (n, d) under new ids (n,)."""
        ...

    def remove(self, ids: Ids) -> int:
        """Remove these ids; return how many of them were in the index."""
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
        """Return the k best of `among` (None: all) without `exclude`. Filters apply during the search, not afterwards.

        `effort=None` is the default of the index; "exact" is an exact search.
        """
        ...


@runtime_checkable
class Searchable(Protocol):
    """The part of an index that feedback needs: search and read, but not add or remove."""

    @property
    def dim(self) -> int | None:
        """Dimension d; None while the index is empty."""
        ...

    @property
    def ids(self) -> Ids:
        """Ids of all vectors, ascending."""
        ...

    def vectors(self, ids: Ids) -> Vectors:
        """Return the vectors of these ids, (m, d) float32."""
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
        """Search as `Index.search` does."""
        ...
