"""`Space`: one set of vectors of a collection, and everything that depends on the choice of vectors.

The vectors of a feature are stored once, under the feature's spec, and several spaces can share them. A fitted space
also stores the vectors or codes that its chain computes from them, and their smoothed form if the chain ends in
`smooth`. The kinds of pictures that a feature recognizes belong to the feature. So a space has up to three sets of
rows, and `Space` is the only place that chooses among them:

    index           for searches: the smoothed rows, the space's own, or the feature's if the chain is not fitted
    rows            for feedback, classes, duplicates and maps: the space's own or the feature's; never codes
    feature_rows    for fitting the chain

`Spaces` contains all spaces of a collection.
"""

import threading
from collections.abc import Container, Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from lookalike.codes.bits import check_bits
from lookalike.collection.chain import Chain, Labelled, fit, takes_text
from lookalike.collection.executor import Executor, LocalExecutor
from lookalike.collection.indexes import Indexes
from lookalike.collection.specs import (
    feature_needs_fit,
    feature_takes_labels,
    is_coder,
    is_imported,
    is_smooth,
    is_space_name,
    parse_recipe,
    recognizes_kinds,
    takes_labels,
    takes_negatives,
)
from lookalike.errors import InputError, StoreError, UnknownNameError
from lookalike.index.flat import Flat
from lookalike.registry import Spec, create, parse
from lookalike.store import models
from lookalike.store.directory import Store
from lookalike.store.segments import StoredRows
from lookalike.store.vectors import StoredSpace as StoredSpace
from lookalike.types import Feature, Ids, Pixels, Progress, Query, Vectors

if TYPE_CHECKING:  # faiss is loaded when an index needs it
    from lookalike.index.ann import Ann
    from lookalike.index.coded import Coded
    from lookalike.index.gpu_flat import GpuFlat
    from lookalike.index.leaves import Leaves


KINDS_SUFFIX = " (kinds)"
"""The kinds of the pictures are stored under the spec of the feature that recognizes them, with this suffix."""


class Space:
    """One space of a collection; `Collection.space` returns it.

    A space is a cheap handle: its properties always show the current state of the collection. Thread-safe.

    Examples
    --------
    >>> space = collection.space("deep")  # doctest: +SKIP
    >>> space.specs, len(space), space.is_fitted  # doctest: +SKIP
    (['efficientnet()', 'pca(dim=256)', 'l2()'], 1000, True)
    """

    def __init__(self, spaces: "Spaces", name: str):
        self.name = name
        self.store = spaces.store
        self.executor, self.fit_gpu = spaces.executor, spaces.fit_gpu
        self._spaces = spaces

    def __repr__(self) -> str:
        return f"Space({self.name!r}, {' | '.join(self.specs)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and (self.name, self.store) == (other.name, other.store)

    def __hash__(self) -> int:
        return hash(self.name)

    def __len__(self) -> int:
        return self.store.vectors.rows(self._indexed_name)

    @property
    def stored(self) -> StoredSpace:
        """The catalogue entry of the space; raises UnknownNameError if it was removed."""
        return self._spaces.find_stored(self.name)

    @property
    def specs(self) -> list[str]:
        """The specs of its chain: a feature, then transforms, then optionally a coder."""
        return self.stored.chain

    @property
    def feature(self) -> "Space":
        """The space that stores the vectors of its feature."""
        return self._spaces.get(self.specs[0])

    @property
    def chain(self) -> Chain:
        """The steps from pictures to its vectors, fitted or not."""
        return self._spaces.chain(self.name)

    @property
    def is_fitted(self) -> bool:
        """Whether its steps are fitted; for the space of a feature, whether the feature is."""
        return self.stored.model is not None

    @property
    def is_coded(self) -> bool:
        """Whether it searches codes: its chain ends in a coder, which is fitted."""
        stored = self.stored
        return stored.base is not None and stored.model is not None and is_coder(stored.chain[-1])

    @property
    def needs_smoothed_rows(self) -> bool:
        """Whether its chain ends in `smooth` and is fitted: searches use smoothed rows once they are computed."""
        return self.is_fitted and is_smooth(self.specs[-1])

    @property
    def smoothed_name(self) -> str:
        """The name under which its smoothed rows are stored."""
        return f"{self.name} (smoothed)"

    @property
    def has_smoothed_rows(self) -> bool:
        """Whether its smoothed rows are computed and answer searches."""
        smoothed = self._spaces.stored().get(self.smoothed_name)
        return smoothed is not None and smoothed.dim is not None

    @property
    def is_describable(self) -> bool:
        """Whether its feature can be extracted: it needs no fit, or it is fitted."""
        return not feature_needs_fit(self.specs[0]) or self.feature.is_fitted

    @property
    def is_imported(self) -> bool:
        """Whether the vectors of its feature were imported; those of other pictures are unknown."""
        return is_imported(self.specs[0])

    @property
    def state(self) -> str:
        """State of its chain: "ready" if there is nothing to fit, otherwise "fitted" or "raw"."""
        return "ready" if len(self.specs) == 1 else "fitted" if self.is_fitted else "raw"

    @property
    def fitted_on(self) -> int | None:
        """The number of pictures that it was fitted on; None if it is not fitted."""
        return self.stored.fitted_on

    @property
    def dim(self) -> int | None:
        """The dimension of its vectors, or the bytes of its codes; None if it is empty."""
        return self._spaces.find_stored(self._indexed_name).dim

    @property
    def takes_labels(self) -> bool:
        """Whether one of its steps learns from labels."""
        return any(map(takes_labels, self.specs[1:]))

    @property
    def takes_text(self) -> bool:
        """Whether its chain also computes vectors of texts (`chain.embed_text`)."""
        return takes_text(self.specs)

    @property
    def takes_negatives(self) -> bool:
        """Whether one of its steps is fitted on a pool of negatives."""
        return any(map(takes_negatives, self.specs[1:]))

    @property
    def feature_takes_labels(self) -> bool:
        """Whether its feature learns from labels."""
        return feature_takes_labels(self.specs[0])

    @property
    def rows_learned_from_labels(self) -> bool:
        """Whether `rows` were computed by a chain that learned from labels."""
        return self._transforms_rows and self.takes_labels

    @property
    def index(self) -> "Flat | Ann | Coded | GpuFlat":
        """The index that answers searches."""
        return self._spaces.indexes.searched(self._indexed_name)

    @property
    def rows(self) -> "Flat | Ann":
        """The vectors for feedback, classes, duplicates and maps; `rows.vectors(ids)` returns those of some items."""
        rows: Any = self._spaces.indexes.points(self._rows_name)
        return rows  # type: ignore[no-any-return]

    @property
    def feedback_index(self) -> "Flat | Leaves | GpuFlat":
        """The index over `rows` that answers the queries of feedback."""
        return self._spaces.indexes.hyperplanes(self._rows_name)

    @property
    def feature_rows(self) -> "Flat | Ann":
        """The vectors of its feature."""
        return self.feature.rows

    def row_ids(self) -> Ids:
        """The ids of `rows`, ascending, without opening an index."""
        return self.store.vectors.live_ids(self._rows_name)

    def stored_rows(self) -> tuple[Ids, NDArray[Any], StoredRows]:
        """The ids of `rows`, ascending, the number of each row, and the rows by number, for other processes, too."""
        return self.store.vectors.stored_rows(self._rows_name)

    def searched_rows(self) -> tuple[Ids, Vectors]:
        """Ids (n,) and rows of `index` in memory: vectors (n, d), or codes (n, bits / 8)."""
        index: Any = self.index
        source = index.codes if self.is_coded else index
        return source.ids, source.vectors(source.ids)

    def query(self, X: Vectors) -> Query:
        """The query that finds the nearest neighbours of vectors (q, d) of this space."""
        return self.chain.query(X)

    def describe(self, images: Sequence[Pixels]) -> Vectors:
        """Compute the vectors (n, d) of pictures, for `query`."""
        return self.chain.extract(images)

    @property
    def read_side(self) -> int:
        """The shorter side at which the collection reads pictures: the largest that any feature needs."""
        return self._spaces.read_side()

    def to_rows(self, X: Vectors) -> Vectors:
        """Turn vectors of its feature into vectors like those of `rows`."""
        return self.chain.transform(X) if self._transforms_rows else X

    @property
    def feature_version(self) -> str:
        """A string that changes when the feature is refitted."""
        feature = self.feature.stored
        return feature.name if feature.model is None else f"{feature.name} {feature.model}"

    @property
    def rows_version(self) -> tuple[str, str | None, str | None]:
        """A key that changes with every fit that affects `rows`, but not with the pictures."""
        return self._rows_name, self._spaces.find_stored(self._rows_name).model, self.feature.stored.model

    def rows_fingerprint(self) -> str:
        """A string that changes when the stored files of `rows` change."""
        return self.store.vectors.fingerprint(self._rows_name)

    def cache_key(self, *settings: object) -> str:
        """A cache key for results computed from `rows` with these settings.

        It changes when pictures are added or removed, when the space is refitted, and when the settings change.
        """
        name = self._rows_name
        parts = " ".join(map(str, [name, self._spaces.find_stored(name).model, *settings]))
        return blake2b(parts.encode() + self.row_ids().tobytes(), digest_size=16).hexdigest()

    @property
    def recall(self) -> float | None:
        """The share of the exact results that the index finds, measured when it was built; None if it is exact."""
        found = self.store.vectors.structures.recall(self._indexed_name)
        structure = self.store.vectors.structures.get(self._indexed_name, "points")
        return found.value if found is not None else None if structure is None else structure.recall

    @property
    def feedback_recall(self) -> dict[str, float] | None:
        """The measured recall of the efforts "fast" and "balanced" of feedback searches; None if they are exact."""
        return self._spaces.indexes.feedback_recall(self._rows_name)

    @property
    def neighbour_recall(self) -> float | None:
        """The share of the true neighbours in its neighbour graph, as measured; None if they are exact."""
        graph = self.store.vectors.structures.get(self.name, "neighbours")
        return None if graph is None else graph.recall

    @property
    def bytes(self) -> int:
        """Size of the searched rows on disk, in bytes."""
        return self.store.vectors.bytes(self._indexed_name)

    @property
    def bytes_per_picture(self) -> int | None:
        """Size of one searched row, in bytes; None if the space is empty."""
        return self.store.vectors.row_bytes(self._indexed_name)

    def check_searchable(self) -> None:
        """Raise InputError if the collection has pictures but this space has no vectors."""
        if len(self.index) or not len(self.store.items):
            return
        damaged = self.store.vectors.quarantined(self._indexed_name)
        command = "lookalike repair" if damaged else "lookalike refresh"
        raise InputError(f"Space '{self.name}' has no vectors. Run: {command}")

    def missing_rows(self) -> Ids:
        """Items that have a vector of the feature but no row in this space."""
        own, of_feature = self.store.vectors.live_ids(self.name), self.store.vectors.live_ids(self.specs[0])
        return np.setdiff1d(of_feature, own, assume_unique=True)

    def check_structure(self, file: str) -> None:
        """Raise StoreError if an index file cannot be opened."""
        self._spaces.indexes.open(file, Flat())

    def load_model(self) -> list[Any]:
        """Load its fitted model from disk; raise StoreError if the file is damaged."""
        return self._spaces.load_model(self.stored)

    @property
    def is_damaged(self) -> bool:
        """Whether its model, or that of its feature, cannot be loaded; `repair` restores or refits it."""
        try:
            chain = self.chain
            _ = chain.feature, chain.steps if chain.fitted else ()
        except StoreError:
            return True
        return False

    def intact_chain(self) -> Chain:
        """The chain for new pictures, unfitted if its model cannot be loaded.

        Raises StoreError if its feature cannot be loaded.
        """
        chain = self.chain
        _ = chain.feature
        return Chain(chain.specs, None, lambda: chain.feature) if self.is_damaged else chain

    def build_indexes(self, progress: Progress) -> None:
        """Build the indexes that its size requires, and rebuild stale ones; needs the writer lock."""
        indexes = self._spaces.indexes
        if self.is_coded:  # a scan of the codes is fast enough
            indexes.measure_codes(self.name, self.chain, progress)
        elif not indexes.is_sharded(self._indexed_name):
            indexes.build_points(self._indexed_name, self.chain, self.name, progress)
        if indexes.is_sharded(self._rows_name):
            return
        indexes.build_leaves(self._rows_name, self._spaces.find_stored(self._rows_name).dim or 1, progress)

    @property
    def _indexed_name(self) -> str:
        """The name of the stored rows that `index` is built on."""
        return self.smoothed_name if self.has_smoothed_rows else self._own_name

    @property
    def _own_name(self) -> str:
        """The name of the space's own rows, or of the feature's if the chain is not fitted."""
        stored = self.stored
        return stored.base if stored.base is not None and stored.model is None else self.name

    @property
    def _rows_name(self) -> str:
        """The name of the stored rows behind `rows`; kernels require vectors and the Euclidean distance."""
        return self.specs[0] if self.is_coded or self.chain.has_own_measure else self._own_name

    @property
    def _transforms_rows(self) -> bool:
        """Whether `rows` are computed by the fitted chain; otherwise they are the feature's."""
        return self._rows_name == self.name and self.chain.fitted


class Spaces:
    """The spaces of a collection. Thread-safe."""

    def __init__(
        self, store: Store, executor: Executor | None = None, gpu: str | None = None, fit_gpu: str | None = None
    ):
        self.store = store
        self.gpu, self.fit_gpu = gpu, fit_gpu  # for searches and for fits, as PyTorch names it; None for the CPU
        self.executor: Executor = executor or LocalExecutor()
        self.indexes = Indexes(store, self.executor, self._coded_chain, self._has_own_measure, gpu)
        self._lock = threading.Lock()
        self._stored: tuple[int, dict[str, StoredSpace]] = (-1, {})
        self._chains: dict[str, tuple[Any, Chain]] = {}

    def __iter__(self) -> Iterator[Space]:
        return (Space(self, name) for name in self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.stored()

    def names(self) -> list[str]:
        """The names of the spaces, in the order in which they were created."""
        return [name for name in self.stored() if is_space_name(name)]

    def get(self, name: str) -> Space:
        """The space of this name, which can be that of a feature; does not check whether it exists."""
        return Space(self, name)

    def with_features(self) -> list[Space]:
        """All spaces, including those that store the vectors of features."""
        return [Space(self, name) for name in self.stored()]

    def find(self, name: str | None) -> Space:
        """The space of this name, or the first one if it is None; raises InputError if it does not exist."""
        names = self.names()
        if not names and len(self.store.items):
            raise InputError(
                "All spaces were removed. Create one: lookalike refresh, or lookalike add FOLDER --recipe deep"
            )
        if not names:
            raise InputError("The collection is empty. Add pictures first: lookalike add FOLDER")
        if name is None:
            return Space(self, names[0])
        if name not in self:
            raise UnknownNameError("space", name, names)
        return Space(self, name)

    def create(self, recipes: Sequence[str], free_options: Iterable[str] = (), *, checked: bool = False) -> list[Space]:
        """Return the spaces of these recipes, and create those that do not exist. Needs the writer lock.

        An existing space may differ from its recipe in the `free_options` of the last step. `checked`: the caller has
        checked that the recipes can be fitted.
        """
        parsed = [parse_recipe(recipe) if recipe not in self else (recipe, None) for recipe in recipes]
        for name, chain in parsed:
            if chain is None:
                continue
            existing = self.stored().get(name)
            if existing is not None:
                if _without_options(existing.chain, free_options) != _without_options(chain, free_options):
                    raise InputError(
                        f"Space '{name}' already exists with another chain: {' | '.join(existing.chain)}, not"
                        f" {' | '.join(chain)}. Choose another name, fit the existing space (lookalike fit {name}), or"
                        f" remove it: lookalike remove --space {name}"
                    )
                continue
            if is_imported(chain[0]) and chain[0] not in self:
                known = [name for name in self.stored() if not is_space_name(name) and is_imported(name)]
                raise InputError(
                    f"No vectors were imported as {chain[0]}. Import them first: lookalike import FILE --space NAME."
                    f" Imported so far: {', '.join(known) or 'none'}."
                )
            if not checked:
                _check_chain(chain)
            with self.store.transaction():
                if chain[0] not in self:
                    self.store.vectors.create_space(chain[0], chain[:1])
                self.store.vectors.create_space(name, chain, chain[0])
        self.create_kinds()
        return [Space(self, name) for name, _ in parsed]

    @property
    def kinds(self) -> StoredSpace | None:
        """The stored kinds of the pictures, for searches by words; None if no feature recognizes kinds."""
        return next((space for name, space in self.stored().items() if name.endswith(KINDS_SUFFIX)), None)

    @property
    def recognizer(self) -> str | None:
        """The first feature that recognizes kinds; None if none does."""
        features = (name for name, space in self.stored().items() if space.base is None and recognizes_kinds(name))
        return next(features, None)

    def create_kinds(self) -> None:
        """Create the stored kinds if a feature recognizes kinds. Needs the writer lock."""
        feature = self.recognizer
        if feature is not None and self.kinds is None:
            with self.store.transaction():
                self.store.vectors.create_space(feature + KINDS_SUFFIX, [feature], feature)

    def remove(self, name: str) -> None:
        """Remove a space, and the vectors of its feature if no other space uses them. Needs the writer lock."""
        with self.store.transaction():
            space = self.find(name)
            removed = space.stored
            if space.smoothed_name in self:
                self.store.vectors.drop_space(space.smoothed_name)
            self.store.vectors.drop_space(removed.name)
            feature = removed.chain[0]
            left = {name for name, other in self.store.vectors.spaces().items() if other.base == feature}
            if left <= {feature + KINDS_SUFFIX}:
                for name in (*left, feature):
                    self.store.vectors.drop_space(name)
        self._close_removed(self.store.vectors.spaces())
        self.create_kinds()  # of another feature

    def read_side(self) -> int:
        """The shorter side at which pictures are read: the largest that any feature needs."""
        return max(int(create("feature", spec).side) for spec in {space.chain[0] for space in self.stored().values()})

    def stored(self) -> dict[str, StoredSpace]:
        """All stored spaces by name, including those of features."""
        version, (cached_version, spaces) = self.store.version(), self._stored
        if version != cached_version:
            spaces = self.store.vectors.spaces()
            self._stored = version, spaces
            self._close_removed(spaces)
        return spaces

    def find_stored(self, name: str) -> StoredSpace:
        """The stored space of this name; raises UnknownNameError if it does not exist."""
        stored = self.stored().get(name)
        if stored is None:
            raise UnknownNameError("space", name, self.names())
        return stored

    def _close_removed(self, names: Container[str]) -> None:
        """Close the files, indexes and models of all other spaces, which another process may have removed."""
        self.store.vectors.close_removed(names)
        self.indexes.close_removed(names)
        for name in [name for name in list(self._chains) if name not in names]:
            self._chains.pop(name, None)

    def chain(self, name: str) -> Chain:
        """The chain of a space, cached until the space or its feature is refitted."""
        space = self.find_stored(name)
        feature = self.find_stored(space.chain[0])
        versions = space.model, feature.model
        cached_versions, chain = self._chains.get(name, (None, None))
        if chain is not None and cached_versions == versions:
            return chain
        with self._lock:
            cached_versions, chain = self._chains.get(name, (None, None))
            if chain is None or cached_versions != versions:  # otherwise another thread has created it
                load = partial(self.load_model, space) if space.model is not None else None
                load_feature = partial(self._load_feature, feature) if feature.model is not None else None
                chain = Chain(space.chain, load, load_feature)
                self._chains[name] = versions, chain
            return chain

    def load_model(self, space: StoredSpace) -> list[Any]:
        """Load the fitted model of a space."""
        assert space.model is not None
        try:
            return models.load(self.store.path / "models" / space.model, space.model_digest)
        except StoreError as error:
            raise type(error)(f"{error} Run: lookalike repair") from None

    def _load_feature(self, space: StoredSpace) -> Feature:
        feature: Feature = self.load_model(space)[0]
        return feature

    def _coded_chain(self, name: str) -> Chain | None:
        return self.chain(name) if Space(self, name).is_coded else None

    def _has_own_measure(self, name: str) -> bool:
        return self.chain(name).has_own_measure


def _check_chain(chain: Sequence[str]) -> None:
    """Raise an error for a chain that cannot be fitted, such as missing weights or options out of range."""
    feature: Feature = create("feature", chain[0])
    feature.describe([])
    d = feature.dim if takes_text(chain) else 16  # `text` requires that its vectors have the same dimension
    X = np.random.default_rng(0).normal(size=(32, d)).astype(np.float32)
    if len(chain) > 1 and is_coder(chain[-1]):  # 8 bits are enough for a trial fit
        last = parse(chain[-1])
        check_bits(create("coder", last).bits)
        chain = [*chain[:-1], str(Spec(last.name, last.params | {"bits": 8}))]
    fit(chain, X, labelled=Labelled(np.arange(32), X, np.arange(32) % 2))


def _without_options(chain: Sequence[str], options: Iterable[str]) -> list[str]:
    """The chain without these options of its last step."""
    last = parse(chain[-1])
    kept = {option: value for option, value in last.params.items() if option not in options}
    return [*chain[:-1], str(Spec(last.name, kept))]
