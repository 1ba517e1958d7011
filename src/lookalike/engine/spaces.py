"""The spaces of a collection: which there are, the chain of each with its fitted models, the index over its vectors.

In: a store and recipes. Out: chains that take new pictures through the same steps, and indexes that answer queries.
The vectors of a feature are kept once, in a base space that is named by the feature's spec; a space without transforms,
or whose transforms wait to be fitted, is searched there.
"""

import re
import threading
from collections.abc import Iterable, Sequence
from functools import partial
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

import numpy as np

from lookalike.codes.bits import check_bits
from lookalike.engine.chain import Chain, Labelled, fit
from lookalike.engine.space_indexes import Indexes
from lookalike.engine.specs import feature_needs_fit, feature_takes_labels, is_coder, parse_recipe, takes_labels
from lookalike.errors import InputError, StoreError, UnknownNameError
from lookalike.registry import Spec, create, parse
from lookalike.store import models
from lookalike.store.directory import Store
from lookalike.store.vectors import StoredSpace
from lookalike.types import Feature

if TYPE_CHECKING:  # faiss is loaded when there is an index of its kind
    from lookalike.index.ann import Ann
    from lookalike.index.coded import Coded
    from lookalike.index.flat import Flat
    from lookalike.index.leaves import Leaves


class Spaces:
    """What a collection knows of its spaces. Safe to use from several threads."""

    def __init__(self, store: Store):
        self.store = store
        self.indexes = Indexes(store, self._coded_chain)
        self._lock = threading.Lock()
        self._known: tuple[int, dict[str, StoredSpace]] = (-1, {})
        self._chains: dict[str, tuple[Any, Chain]] = {}

    def all(self) -> dict[str, StoredSpace]:
        """Every space by name, as the store has them now."""
        version, (known, spaces) = self.store.version(), self._known
        if version != known:
            spaces = self.store.vectors.spaces()
            self._known = version, spaces
        return spaces

    def recipes(self) -> list[str]:
        """The spaces a person asked for: all but the bases that only feed others."""
        return [name for name, space in self.all().items() if not _is_spec(name)]

    def find(self, name: str | None) -> str:
        """The space a person means: by name, or the first recipe."""
        recipes = self.recipes()
        if not recipes and len(self.store.items):
            raise InputError(
                "All spaces were removed. Make one: lookalike refresh, or lookalike add FOLDER --recipe deep"
            )
        if not recipes:
            raise InputError("The collection is empty. Add pictures first: lookalike add FOLDER")
        if name is None:
            return recipes[0]
        if name not in self.all():
            raise UnknownNameError("space", name, recipes)
        return name

    def ensure(self, recipes: Sequence[str], free: Iterable[str] = ()) -> list[str]:
        """Make the spaces of these recipes where they are missing; returns their names. Needs the writer lock.

        A space that exists may differ in the `free` options of its last step: they will be chosen anew.
        """
        wanted = [parse_recipe(recipe) if recipe not in self.all() else (recipe, None) for recipe in recipes]
        for name, chain in wanted:
            if chain is None:
                continue
            have = self.all().get(name)
            if have is not None:
                if _bare(have.chain, free) != _bare(chain, free):
                    known = " | ".join(have.chain)
                    raise InputError(
                        f"Space '{name}' exists with another chain: {known}, not {' | '.join(chain)}. Choose another"
                        f" name, fit it as it is (lookalike fit {name}), or remove it: lookalike remove --space {name}"
                    )
                continue
            _try(chain)
            with self.store.transaction():
                if chain[0] not in self.all():
                    self.store.vectors.create_space(chain[0], chain[:1])
                self.store.vectors.create_space(name, chain, chain[0])
        return [name for name, _ in wanted]

    def remove(self, name: str) -> None:
        """Take a space out; its base too, where no other needs it. Needs the writer lock."""
        with self.store.transaction():
            found = self.all()[self.find(name)]
            self.store.vectors.drop_space(found.name)
            if not any(space.base == found.base for space in self.store.vectors.spaces().values()):
                self.store.vectors.drop_space(found.chain[0])

    def wants_labels(self, name: str) -> bool:
        """Whether a transform of a space learns from labels."""
        return any(map(takes_labels, self.all()[name].chain[1:]))

    def feature_wants_labels(self, name: str) -> bool:
        """Whether a space's feature learns from labels."""
        return feature_takes_labels(self.all()[name].chain[0])

    def described(self, name: str) -> bool:
        """Whether a space's feature has all it needs to describe pictures."""
        base = self.all()[name].chain[0]
        return not feature_needs_fit(base) or self.all()[base].model is not None

    def searched(self, name: str) -> str:
        """The space whose vectors answer for this one: itself, or its base where there is nothing fitted between."""
        space = self.all()[name]
        return space.base if space.base is not None and space.model is None else name

    def taught(self, name: str) -> str:
        """The space whose vectors feedback learns from: as `searched`, but the base of rows that no kernel can take."""
        apart = self.is_coded(name) or self.chain(name).compares
        return self.all()[name].chain[0] if apart else self.searched(name)

    def version_of(self, name: str, *made_with: object, most: int | None = None) -> str:
        """Another text wherever what is worked out of a space's vectors may be another.

        That is where other pictures have one (of the first `most`), where it was fitted anew, or the work is done with
        other settings, which are `made_with`.
        """
        taught = self.taught(name)
        made_of = " ".join(map(str, [taught, self.all()[taught].model, *made_with]))
        ids = self.store.vectors.live_ids(taught)[:most]
        return blake2b(made_of.encode() + ids.tobytes(), digest_size=16).hexdigest()

    def is_coded(self, name: str) -> bool:
        """Whether a space holds codes: its chain ends in a coder, which is fitted."""
        space = self.all()[name]
        return space.base is not None and space.model is not None and is_coder(space.chain[-1])

    def recall(self, name: str) -> float | None:
        """How much of an exact search a quick one finds, as it was measured when its index was built or codes made."""
        found = self.store.vectors.structures.recall(name)
        structure = self.store.vectors.structures.get(name, "points")
        return found.value if found is not None else None if structure is None else structure.recall

    def side(self) -> int:
        """The shorter side that pictures are read at: what the most demanding feature wants, for adds and queries."""
        return max(int(create("feature", spec).side) for spec in {space.chain[0] for space in self.all().values()})

    def chain(self, name: str) -> Chain:
        """The chain of a space, with its fitted transforms where there are any."""
        spaces = self.all()
        space = spaces[name]
        base = spaces[space.chain[0]]
        made_of = space.model, base.model
        before, chain = self._chains.get(name, (None, None))
        if chain is not None and before == made_of:
            return chain
        with self._lock:
            before, chain = self._chains.get(name, (None, None))
            if chain is None or before != made_of:  # else another thread was faster
                load = partial(self.load, space) if space.model is not None else None
                chain = Chain(space.chain, load, partial(self._feature, base) if base.model is not None else None)
                self._chains[name] = made_of, chain
            return chain

    def index(self, name: str) -> "Flat | Ann | Coded":
        """The index over a space's vectors, in step with the store; codes have those of their base beside them."""
        return self.indexes.points(name)

    def hyperplanes(self, name: str) -> "Flat | Leaves":
        """The index over a space's vectors that feedback asks, in step with the store."""
        return self.indexes.hyperplanes(name)

    def _coded_chain(self, name: str) -> Chain | None:
        return self.chain(name) if self.is_coded(name) else None

    def load(self, space: StoredSpace) -> list[Any]:
        """What was fitted for a space."""
        assert space.model is not None
        try:
            return models.load(self.store.path / "models" / space.model, space.model_digest)
        except StoreError as error:
            raise type(error)(f"{error} Run: lookalike repair") from None

    def without_damage(self, name: str) -> Chain:
        """Return the chain of a space for new pictures; if its model cannot be loaded, as if it were not fitted.

        Raises StoreError if its feature cannot be loaded.
        """
        chain = self.chain(name)
        _ = chain.feature
        try:
            _ = chain.steps if chain.fitted else ()
        except StoreError:
            base = self.all()[chain.specs[0]]
            return Chain(chain.specs, None, partial(self._feature, base) if base.model is not None else None)
        return chain

    def _feature(self, base: StoredSpace) -> Feature:
        """A feature with what it learned."""
        feature: Feature = self.load(base)[0]
        return feature


def _try(chain: Sequence[str]) -> None:
    """Refuse a chain that could never work before it is written down: no weights, options out of range."""
    create("feature", chain[0]).describe([])
    X = np.random.default_rng(0).normal(size=(32, 16)).astype(np.float32)
    if len(chain) > 1 and is_coder(chain[-1]):  # few bits will do, where their number is right
        last = parse(chain[-1])
        check_bits(create("coder", last).bits)
        chain = [*chain[:-1], str(Spec(last.name, last.params | {"bits": 8}))]
    fit(chain, X, labelled=Labelled(np.arange(32), X, np.arange(32) % 2))


def _bare(chain: Sequence[str], free: Iterable[str]) -> list[str]:
    """The chain without these options of its last step."""
    last = parse(chain[-1])
    kept = {option: value for option, value in last.params.items() if option not in free}
    return [*chain[:-1], str(Spec(last.name, kept))]


def _is_spec(name: str) -> bool:
    return re.fullmatch(r"[\w-]+", name) is None
