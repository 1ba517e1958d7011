"""`Space`: one kind of vectors of a collection, and everything that depends on which vectors those are.

The vectors of a feature are stored once, under the feature's spec, and several spaces can share them. A fitted space
also stores the vectors, or the codes, that its chain makes of them. So there are up to three sets of rows, and `Space`
is the only place that chooses among them:

    index           answers searches: the space's own rows, or the feature's while the chain is not fitted
    rows            what feedback, classes, duplicates and maps compute with: like `index`, but never codes
    feature_rows    what the chain is fitted on

`Spaces` has all spaces of a collection.
"""

import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.codes.bits import check_bits
from lookalike.collection.chain import Chain, Labelled, fit
from lookalike.collection.indexes import Indexes
from lookalike.collection.specs import (
    feature_needs_fit,
    feature_takes_labels,
    is_coder,
    is_space_name,
    parse_recipe,
    takes_labels,
    takes_negatives,
)
from lookalike.errors import InputError, StoreError, UnknownNameError
from lookalike.index.flat import Flat
from lookalike.registry import Spec, create, parse
from lookalike.store import models
from lookalike.store.directory import Store
from lookalike.store.vectors import StoredSpace as StoredSpace
from lookalike.types import Box, Feature, Ids, Pixels, Progress, Query, Vectors

if TYPE_CHECKING:  # faiss is loaded when an index needs it
    from lookalike.index.ann import Ann
    from lookalike.index.coded import Coded
    from lookalike.index.leaves import Leaves


class Space:
    """One space of a collection; `Collection.space` returns it.

    A space is a cheap handle: every property shows what the collection holds now. Thread-safe.

    Examples
    --------
    >>> space = collection.space("deep")  # doctest: +SKIP
    >>> space.specs, len(space), space.is_fitted  # doctest: +SKIP
    (['efficientnet()', 'pca(dim=256)', 'l2()'], 1000, True)
    """

    def __init__(self, spaces: "Spaces", name: str):
        self.name = name
        self.store = spaces.store
        self._spaces = spaces

    def __repr__(self) -> str:
        return f"Space({self.name!r}, {' | '.join(self.specs)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Space) and (self.name, self.store) == (other.name, other.store)

    def __hash__(self) -> int:
        return hash(self.name)

    def __len__(self) -> int:
        return self.store.vectors.rows(self._searched)

    @property
    def stored(self) -> StoredSpace:
        """The space as the catalogue has it."""
        return self._spaces.stored()[self.name]

    @property
    def specs(self) -> list[str]:
        """The specs of its chain: a feature, then transforms, then perhaps a coder."""
        return self.stored.chain

    @property
    def feature(self) -> "Space":
        """The space that stores the vectors of its feature."""
        return self._spaces.get(self.specs[0])

    @property
    def chain(self) -> Chain:
        """The steps from pictures to its vectors, with what was fitted."""
        return self._spaces.chain(self.name)

    @property
    def is_fitted(self) -> bool:
        """Whether its steps, or as the space of a feature the feature itself, were fitted."""
        return self.stored.model is not None

    @property
    def is_coded(self) -> bool:
        """Whether it searches codes: its chain ends in a coder, which is fitted."""
        stored = self.stored
        return stored.base is not None and stored.model is not None and is_coder(stored.chain[-1])

    @property
    def is_describable(self) -> bool:
        """Whether its feature can describe pictures: it need not be fitted, or it is."""
        return not feature_needs_fit(self.specs[0]) or self.feature.is_fitted

    @property
    def state(self) -> str:
        """State of its chain: "ready" if there is nothing to fit, otherwise "fitted" or "raw"."""
        return "ready" if len(self.specs) == 1 else "fitted" if self.is_fitted else "raw"

    @property
    def fitted_on(self) -> int | None:
        """How many pictures it was fitted on; None if it is not fitted."""
        return self.stored.fitted_on

    @property
    def dim(self) -> int | None:
        """The length of its vectors, or the bytes of its codes; None while there are none."""
        return self._spaces.stored()[self._searched].dim

    @property
    def takes_labels(self) -> bool:
        """Whether one of its steps learns from labels."""
        return any(map(takes_labels, self.specs[1:]))

    @property
    def takes_negatives(self) -> bool:
        """Whether one of its steps is fitted against a pool of negatives."""
        return any(map(takes_negatives, self.specs[1:]))

    @property
    def feature_takes_labels(self) -> bool:
        """Whether its feature learns from labels."""
        return feature_takes_labels(self.specs[0])

    @property
    def rows_learned_from_labels(self) -> bool:
        """Whether `rows` were made by a chain that learned from labels."""
        return self._transforms_rows and self.takes_labels

    @property
    def index(self) -> "Flat | Ann | Coded":
        """The index that answers searches."""
        return self._spaces.indexes.points(self._searched)

    @property
    def rows(self) -> "Flat | Ann":
        """The vectors that feedback, classes, duplicates and maps compute with; `rows.vectors(ids)` returns some."""
        rows: Any = self._spaces.indexes.points(self._learned)
        return rows  # type: ignore[no-any-return]

    @property
    def feedback_index(self) -> "Flat | Leaves":
        """The index over `rows` that answers feedback."""
        return self._spaces.indexes.hyperplanes(self._learned)

    @property
    def feature_rows(self) -> "Flat | Ann":
        """The vectors of its feature."""
        return self.feature.rows

    def row_ids(self) -> Ids:
        """The ids of `rows`, ascending, without opening an index."""
        return self.store.vectors.live_ids(self._learned)

    def searched_rows(self) -> tuple[Ids, Vectors]:
        """Ids (n,) and rows of `index` in memory: vectors (n, d), or codes (n, bits / 8)."""
        index: Any = self.index
        held = index.codes if self.is_coded else index
        return held.ids, held.vectors(held.ids)

    def query(self, X: Vectors) -> Query:
        """The query for what is nearest to vectors (q, d) of this space."""
        return self.chain.query(X)

    def describe(self, images: Sequence[Pixels]) -> Vectors:
        """Describe pictures by vectors (n, d) that `query` takes."""
        return self.chain.extract(images)

    def regions(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Describe parts of a picture as `describe` does whole pictures."""
        return self.chain.regions(image, boxes)

    def region_rows(self, image: Pixels, boxes: Sequence[Box]) -> Vectors:
        """Describe parts of a picture by vectors like those of `rows`."""
        return self.to_rows(self.chain.feature.regions(image, boxes))

    @property
    def read_side(self) -> int:
        """The shorter side at which the collection reads pictures: the largest that any feature needs."""
        return self._spaces.read_side()

    def to_rows(self, X: Vectors) -> Vectors:
        """Turn vectors of its feature into vectors like those of `rows`."""
        return self.chain.transform(X) if self._transforms_rows else X

    @property
    def feature_version(self) -> str:
        """A text that changes when the feature would describe pictures differently."""
        feature = self.feature.stored
        return feature.name if feature.model is None else f"{feature.name} {feature.model}"

    @property
    def rows_version(self) -> tuple[str, str | None, str | None]:
        """What `rows` were made by; changes with every fit, not with the pictures."""
        return self._learned, self._spaces.stored()[self._learned].model, self.feature.stored.model

    def rows_fingerprint(self) -> str:
        """A text that changes when the stored files of `rows` change."""
        return self.store.vectors.fingerprint(self._learned)

    def cache_key(self, *settings: object, most: int | None = None) -> str:
        """A key for what is computed from `rows`, or from the first `most`, with these settings.

        It changes when pictures are added or removed, when the space is fitted again, and with the settings.
        """
        learned = self._learned
        made_of = " ".join(map(str, [learned, self._spaces.stored()[learned].model, *settings]))
        return blake2b(made_of.encode() + self.row_ids()[:most].tobytes(), digest_size=16).hexdigest()

    @property
    def recall(self) -> float | None:
        """The share of an exact search that a fast one finds, as measured when the index was built; None if exact."""
        found = self.store.vectors.structures.recall(self._searched)
        structure = self.store.vectors.structures.get(self._searched, "points")
        return found.value if found is not None else None if structure is None else structure.recall

    @property
    def bytes(self) -> int:
        """Bytes of the rows that are searched, on the disk."""
        return self.store.vectors.bytes(self._searched)

    @property
    def bytes_per_picture(self) -> int | None:
        """Bytes of one row that is searched; None while there are none."""
        return self.store.vectors.row_bytes(self._searched)

    def check_searchable(self) -> None:
        """Raise InputError if the collection has pictures but this space has no vectors."""
        if len(self.index) or not len(self.store.items):
            return
        damaged = self.store.vectors.quarantined(self._searched)
        command = "lookalike repair" if damaged else "lookalike refresh"
        raise InputError(f"Space '{self.name}' has no vectors. Run: {command}")

    def missing_rows(self) -> Ids:
        """Items that have a vector of the feature and no row in this space."""
        mine, features = self.store.vectors.live_ids(self.name), self.store.vectors.live_ids(self.specs[0])
        return np.setdiff1d(features, mine, assume_unique=True)

    def check_structure(self, file: str) -> None:
        """Raise StoreError if an index file cannot be opened."""
        self._spaces.indexes.open(file, Flat())

    def load_model(self) -> list[Any]:
        """Read its fitted model from the disk; StoreError if the file is damaged."""
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
        """The chain for new pictures; an unfitted one if its model cannot be loaded.

        Raises StoreError if its feature cannot be loaded.
        """
        chain = self.chain
        _ = chain.feature
        return Chain(chain.specs, None, lambda: chain.feature) if self.is_damaged else chain

    def build_indexes(self, progress: Progress) -> None:
        """Build the indexes that its size asks for, or build stale ones again; needs the writer lock."""
        indexes = self._spaces.indexes
        if self.is_coded:  # a scan of the codes is fast enough
            indexes.measure_codes(self.name, self.chain, progress)
        else:
            indexes.build_points(self._searched, self.chain, self.name, progress)
        indexes.build_leaves(self._learned, self._spaces.stored()[self._learned].dim or 1, progress)

    @property
    def _searched(self) -> str:
        """The stored rows that `index` is over."""
        stored = self.stored
        return stored.base if stored.base is not None and stored.model is None else self.name

    @property
    def _learned(self) -> str:
        """The stored rows that `rows` are: no kernel works on codes or with a measure of a transform's own."""
        return self.specs[0] if self.is_coded or self.chain.compares else self._searched

    @property
    def _transforms_rows(self) -> bool:
        """Whether `rows` are made by the fitted chain; otherwise they are the feature's."""
        return self._learned == self.name and self.chain.fitted


class Spaces:
    """The spaces of a collection. Thread-safe."""

    def __init__(self, store: Store):
        self.store = store
        self.indexes = Indexes(store, self._coded_chain)
        self._lock = threading.Lock()
        self._stored: tuple[int, dict[str, StoredSpace]] = (-1, {})
        self._chains: dict[str, tuple[Any, Chain]] = {}

    def __iter__(self) -> Iterator[Space]:
        return (Space(self, name) for name in self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.stored()

    def names(self) -> list[str]:
        """The names of the spaces, in the order in which they were made."""
        return [name for name in self.stored() if is_space_name(name)]

    def get(self, name: str) -> Space:
        """The space of this name, or with this name the space of a feature; it need not exist."""
        return Space(self, name)

    def with_features(self) -> list[Space]:
        """All spaces, including those that store the vectors of features."""
        return [Space(self, name) for name in self.stored()]

    def find(self, name: str | None) -> Space:
        """The space of this name, or the first one; InputError if there is none."""
        names = self.names()
        if not names and len(self.store.items):
            raise InputError(
                "All spaces were removed. Make one: lookalike refresh, or lookalike add FOLDER --recipe deep"
            )
        if not names:
            raise InputError("The collection is empty. Add pictures first: lookalike add FOLDER")
        if name is None:
            return Space(self, names[0])
        if name not in self:
            raise UnknownNameError("space", name, names)
        return Space(self, name)

    def create(self, recipes: Sequence[str], free: Iterable[str] = ()) -> list[Space]:
        """The spaces of these recipes; those that do not exist are created. Needs the writer lock.

        An existing space may differ from its recipe in the `free` options of the last step.
        """
        wanted = [parse_recipe(recipe) if recipe not in self else (recipe, None) for recipe in recipes]
        for name, chain in wanted:
            if chain is None:
                continue
            have = self.stored().get(name)
            if have is not None:
                if _without_options(have.chain, free) != _without_options(chain, free):
                    known = " | ".join(have.chain)
                    raise InputError(
                        f"Space '{name}' exists with another chain: {known}, not {' | '.join(chain)}. Choose another"
                        f" name, fit it as it is (lookalike fit {name}), or remove it: lookalike remove --space {name}"
                    )
                continue
            _check_chain(chain)
            with self.store.transaction():
                if chain[0] not in self:
                    self.store.vectors.create_space(chain[0], chain[:1])
                self.store.vectors.create_space(name, chain, chain[0])
        return [Space(self, name) for name, _ in wanted]

    def remove(self, name: str) -> None:
        """Remove a space, and the vectors of its feature if no other space needs them. Needs the writer lock."""
        with self.store.transaction():
            found = self.find(name).stored
            self.store.vectors.drop_space(found.name)
            if not any(space.base == found.base for space in self.store.vectors.spaces().values()):
                self.store.vectors.drop_space(found.chain[0])

    def read_side(self) -> int:
        """The shorter side at which pictures are read: the largest that any feature needs."""
        return max(int(create("feature", spec).side) for spec in {space.chain[0] for space in self.stored().values()})

    def stored(self) -> dict[str, StoredSpace]:
        """Every space by name as the catalogue has it now, including those of features."""
        version, (known, spaces) = self.store.version(), self._stored
        if version != known:
            spaces = self.store.vectors.spaces()
            self._stored = version, spaces
        return spaces

    def chain(self, name: str) -> Chain:
        """The chain of a space, with what was fitted; cached until the space or its feature is fitted again."""
        stored = self.stored()
        space = stored[name]
        feature = stored[space.chain[0]]
        made_of = space.model, feature.model
        before, chain = self._chains.get(name, (None, None))
        if chain is not None and before == made_of:
            return chain
        with self._lock:
            before, chain = self._chains.get(name, (None, None))
            if chain is None or before != made_of:  # otherwise another thread was faster
                load = partial(self.load_model, space) if space.model is not None else None
                load_feature = partial(self._load_feature, feature) if feature.model is not None else None
                chain = Chain(space.chain, load, load_feature)
                self._chains[name] = made_of, chain
            return chain

    def load_model(self, space: StoredSpace) -> list[Any]:
        """Read what was fitted for a space."""
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


def _check_chain(chain: Sequence[str]) -> None:
    """Raise an error for a chain that could never be fitted: missing weights, options out of range."""
    create("feature", chain[0]).describe([])
    X = np.random.default_rng(0).normal(size=(32, 16)).astype(np.float32)
    if len(chain) > 1 and is_coder(chain[-1]):  # the number of bits is checked, then few are fitted
        last = parse(chain[-1])
        check_bits(create("coder", last).bits)
        chain = [*chain[:-1], str(Spec(last.name, last.params | {"bits": 8}))]
    fit(chain, X, labelled=Labelled(np.arange(32), X, np.arange(32) % 2))


def _without_options(chain: Sequence[str], options: Iterable[str]) -> list[str]:
    """The chain without these options of its last step."""
    last = parse(chain[-1])
    kept = {option: value for option, value in last.params.items() if option not in options}
    return [*chain[:-1], str(Spec(last.name, kept))]
