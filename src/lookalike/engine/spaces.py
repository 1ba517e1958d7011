"""The spaces of a collection: chains with their fitted models, and an index over the vectors of each.

In: a store and recipes. Out: chains that take new pictures through the same steps, and indexes that answer queries.
The vectors of a feature are kept once, in a base space that is named by the feature's spec; a space without transforms,
or whose transforms wait to be fitted, is searched there.
"""

import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import deepcopy
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import chunks
from lookalike.codes.bits import check_bits
from lookalike.engine.chain import (
    Chain,
    Labelled,
    feature_takes_labels,
    fit,
    is_coder,
    parse_recipe,
    step_class,
    takes_labels,
    takes_negatives,
    takes_several,
)
from lookalike.engine.costs import leaves_fit
from lookalike.engine.looks import at_one_moment
from lookalike.engine.machine import installed_bytes
from lookalike.engine.vocabulary import LABELLED, draw, fit_feature, labelled
from lookalike.errors import DamagedError, InputError, StoreError, UnknownNameError
from lookalike.images.sources import Entry
from lookalike.index.choice import choose
from lookalike.index.flat import Flat
from lookalike.index.recall import measure
from lookalike.learn.label_names import join_names
from lookalike.registry import Spec, component, create, parse, spec_of
from lookalike.store import models
from lookalike.store.directory import Store
from lookalike.store.segments import KINDS, Block, Members, Pending, Recall, Space, Structure
from lookalike.text import many
from lookalike.types import Feature, Ids, LabelledFeature, Progress, Vectors, needs_fit

if TYPE_CHECKING:  # faiss is loaded when there is an index of its kind
    from lookalike.index.ann import Ann
    from lookalike.index.coded import Coded
    from lookalike.index.leaves import Leaves

FIT_MIN = 500
"""Pictures a collection needs before transforms are fitted by themselves, once. Below, raw vectors serve better."""

FIT_MAX = 50_000
"""Rows a fit looks at: those with the smallest ids, which are digests, so a random sample that anybody can repeat."""

SAMPLE_BYTES = 2**29
"""A bound on their memory: of long vectors, a fit looks at fewer."""

CODES = "codes"
"""What stands for a coder in a fit, where the collection is to choose one."""

LABEL_MIN = 10
"""Pictures a label must have to count when a coder is chosen; two such labels, and it learns from labels."""

LEAVES = 50_000
"""Rows from which on feedback searches leaves; fewer are looked at one by one."""

LEAVES_SUFFIX = ".leaves"
"""How the files of leaves end; all others are faiss's."""

STALE = 0.1
"""The share of rows added or removed since an index was built from which on it is built anew."""

SHORTLISTED = "shortlisted"
"""The index for spaces with a measure of their own; its files begin with that."""

SEGMENT_ROWS = 262_144
SEGMENT_BYTES = 2**30
ROWS_BYTES = 256 * 2**20
"""Rows written at a time when a space is filled anew, at most, their bytes, and what is held of its base meanwhile:
bounds on memory."""


class Pool(NamedTuple):
    """Negatives from outside."""

    source: str  # a collection's directory, or pictures
    ids: Ids  # (n,), ascending
    X: Vectors  # (n, d), of a space's feature


class Opened(NamedTuple):
    """An index that was opened."""

    version: int  # of the store, when it was last compared with it
    made_of: tuple[Any, ...]
    index: Any


class Spaces:
    """What a collection knows of its spaces. Safe to use from several threads."""

    def __init__(self, store: Store):
        self.store = store
        self._lock = threading.RLock()
        self._leaves_lock = threading.RLock()  # taken before the other: to load leaves takes long
        self._known: tuple[int, dict[str, Space]] = (-1, {})
        self._chains: dict[str, tuple[Any, Chain]] = {}
        self._indexes: dict[str, Opened] = {}
        self._leaves: dict[str, Opened] = {}

    def all(self) -> dict[str, Space]:
        """Every space by name, as the store has them now."""
        version, (known, spaces) = self.store.version(), self._known
        if version != known:
            spaces = self.store.vectors.spaces()
            self._known = version, spaces
        return spaces

    def recipes(self) -> list[str]:
        """The spaces a person asked for: all but the bases that only feed others."""
        return [name for name, space in self.all().items() if not _is_spec(name)]

    def learning(self) -> list[str]:
        """The spaces that have something to fit, and enough pictures, and labels where it needs them, to fit it on."""
        spaces = self.all()
        chains = {name: spaces[name].chain for name in self.recipes()}
        able = [name for name, chain in chains.items() if len(chain) > 1 and self.store.vectors.rows(chain[0]) > 1]
        return [name for name in able if not self.wants_labels(name) or self._tell_apart(name)]

    def _tell_apart(self, name: str) -> bool:
        """Whether there are labels enough for a space that learns from them."""
        with suppress(InputError):
            return len(self._said(name)[0]) > 0
        return False

    def wants_labels(self, name: str) -> bool:
        """Whether a transform of a space learns from labels."""
        return any(map(takes_labels, self.all()[name].chain[1:]))

    def feature_wants_labels(self, name: str) -> bool:
        """Whether a space's feature learns from labels."""
        return feature_takes_labels(self.all()[name].chain[0])

    def described(self, name: str) -> bool:
        """Whether a space's feature has all it needs to describe pictures."""
        base = self.all()[name].chain[0]
        return not _needs_fit(base) or self.all()[base].model is not None

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

    def ensure_fit(self, text: str, free: Iterable[str] = (), labels: bool = False) -> str:
        """The space that is to be fitted: one there is, a new pipeline, or a step on the first space's feature.

        `codes(…)` is the coder that serves best with the labels there are; `labels`: one that learns from them.
        """
        if text not in self.all():
            if "=" in text.partition("(")[0]:
                return self.ensure([text], free)[0]
            if "(" in text:
                spec = parse(text)
                base = self.all()[self.find(None)].chain[0]
                step = Spec(self._coder(base, labels), spec.params) if spec.name == CODES else spec
                return self.ensure([f"{spec.name} = {base} | {step}"], free)[0]
        return self.find(text)

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

    def searched(self, name: str) -> str:
        """The space whose vectors answer for this one: itself, or its base where there is nothing fitted between."""
        space = self.all()[name]
        return space.base if space.base is not None and space.model is None else name

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
                load = partial(self._load, space) if space.model is not None else None
                chain = Chain(space.chain, load, partial(self._feature, base) if base.model is not None else None)
                self._chains[name] = made_of, chain
            return chain

    def fit_features(
        self,
        names: Sequence[str],
        entries: Callable[[], Iterable[Entry]],
        progress: Progress,
        workers: int | None,
        *,
        anew: bool = False,
    ) -> tuple[dict[str, int], dict[str, str]]:
        """Fit the features of these spaces that need it, on a sample of the entries; needs the writer lock.

        `anew`: also those that are fitted, and those that learn from labels; every row that was made with what they
        had learned goes. Returns the features that were fitted with the number of pictures, and those that could not
        be with the reason.
        """
        spaces = self.all()
        bases = dict.fromkeys(spaces[name].chain[0] for name in names)
        waiting = [base for base in bases if _needs_fit(base) and (anew or spaces[base].model is None)]
        sample = draw(entries()) if not all(map(feature_takes_labels, waiting)) else []
        fitted, failed = {}, {}
        for base in waiting:
            feature = create("feature", base)
            try:
                if not feature_takes_labels(base):
                    n = fit_feature(feature, sample, progress, workers)
                elif anew:
                    n = self._fit_labelled(feature, entries(), progress, workers)
                else:
                    own = next(name for name in names if spaces[name].chain[0] == base)
                    raise InputError(f"{base} learns from labels, when it is asked to: lookalike fit {own} --labels")
            except InputError as error:  # too little to learn from
                failed[base] = str(error)
                continue
            if n == 0:  # nothing could be read; the add says why
                continue
            target = self.store.vectors.new_file("models", ".npz")
            models.save(target, feature)
            model = self.store.vectors.settle(target)
            with self.store.transaction():
                self.store.vectors.replace(base, [], model=model, fitted_on=n)
                for space in spaces.values():
                    if space.base == base:
                        self.store.vectors.replace(space.name, [], model=None, fitted_on=None)
            fitted[base] = n
        return fitted, failed

    def _fit_labelled(
        self, feature: LabelledFeature, entries: Iterable[Entry], progress: Progress, workers: int | None
    ) -> int:
        """Fit a feature on some of the pictures that have labels; returns how many."""
        said = {entry.path: (entry, labels) for entry, labels in labelled(self.store, entries)}
        sample = draw((entry for entry, _ in said.values()), LABELLED)
        labels = {entry.path: said[entry.path][1] for entry in sample}
        if len({tuple(names) for names in labels.values()}) < 2:
            names = {name for names in labels.values() for name in names}
            raise InputError(
                f"{spec_of(feature)} learns from pictures with labels, not all the same. The collection has"
                f" {many(len(labels), 'picture')} with labels, of {len(names)}. Label some first:"
                " lookalike label SOURCE"
            )
        return fit_feature(feature, sample, progress, workers, labels)

    def index(self, name: str) -> "Flat | Ann | Coded":
        """The index over a space's vectors, in step with the store; codes have those of their base beside them."""
        if self.is_coded(name):  # two spaces are looked at
            return at_one_moment(self.store, partial(self._index, name))
        return self._index(name)

    def _index(self, name: str) -> "Flat | Ann | Coded":
        version = self.store.version()
        index: Flat | Ann | Coded | None = self._still(self._indexes, name, version)
        if index is not None:
            return index
        with self._lock:
            index = self._still(self._indexes, name, version)
            if index is not None:
                return index  # another thread was faster
            blocks = self.store.vectors.blocks(name)
            structure = self.store.vectors.structure(name, "points")
            chain = self.chain(name) if self.is_coded(name) else None
            truth = None if chain is None else self.index(chain.specs[0])
            made_of = structure, chain, truth, tuple((block.segment, block.n_live) for block in blocks)
            before = self._indexes.get(name)
            if before is not None and before.made_of == made_of:
                index = before.index
            elif chain is not None:
                index = _coded(_filled(create("index", "hamming"), blocks), truth, chain)
            else:
                index = self._reopened(before, made_of, blocks, structure)
            self._indexes[name] = self._keep(version, made_of, index)
        return index

    def _still(self, kept: dict[str, Opened], name: str, version: int) -> Any:
        """An index that was opened, where nothing has been committed since; what is not committed may differ."""
        found = kept.get(name)
        return None if found is None or found.version != version or self.store.in_transaction() else found.index

    def _keep(self, version: int, made_of: tuple[Any, ...], index: Any) -> Opened:
        return Opened(-1 if self.store.in_transaction() else version, made_of, index)  # it may never be committed

    def _reopened(
        self, before: Opened | None, made_of: tuple[Any, ...], blocks: list[Block], structure: Structure | None
    ) -> Any:
        """The index over these blocks; what was opened before is used again as far as it goes, and stays as it is."""
        if before is None or before.made_of[1] is not None:
            return self._open_or(_filled(Flat(), blocks), structure)
        flat = before.index if isinstance(before.index, Flat) else before.index.truth
        n = len(before.made_of[3])
        if made_of[3][:n] != before.made_of[3]:  # some were merged, or have lost rows
            made = _filled(Flat(), blocks)
            made.inherit(flat)
            return self._open_or(made, structure)
        grown = _filled(flat.copy(), blocks[n:])
        if structure is not None and structure == before.made_of[0] and flat is not before.index:
            return before.index.over(grown)
        return self._open_or(grown, structure)

    def is_coded(self, name: str) -> bool:
        """Whether a space holds codes: its chain ends in a coder, which is fitted."""
        space = self.all()[name]
        return space.base is not None and space.model is not None and is_coder(space.chain[-1])

    def recall(self, name: str) -> float | None:
        """How much of an exact search a quick one finds, as it was measured when its index was built or codes made."""
        found = self.store.vectors.recall(name)
        structure = self.store.vectors.structure(name, "points")
        return found.value if found is not None else None if structure is None else structure.recall

    def taught(self, name: str) -> str:
        """The space whose vectors feedback learns from: as `searched`, but the base of rows that no kernel can take."""
        apart = self.is_coded(name) or self.chain(name).compares
        return self.all()[name].chain[0] if apart else self.searched(name)

    def hyperplanes(self, name: str) -> "Flat | Leaves":
        """The index over a space's vectors that feedback asks, in step with the store."""
        version = self.store.version()
        leaves: Flat | Leaves | None = self._still(self._leaves, name, version)
        if leaves is not None:
            return leaves
        with self._leaves_lock:
            flat, structure = self._flat(name), self.store.vectors.structure(name, "hyperplanes")
            made_of, before = (structure, flat), self._leaves.get(name)
            if before is not None and before.made_of == made_of:
                leaves = before.index
            elif before is not None and structure == before.made_of[0] and _grew(before.index, flat):
                leaves = before.index.over(flat)
            else:
                leaves = self._open_or(flat, structure)
            self._leaves[name] = self._keep(version, made_of, leaves)
            return leaves

    def verify(self, name: str, progress: Progress) -> list[str]:
        """What is wrong with a space: its rows, its model, its index, rows that its base has and it lacks."""
        faults = self.store.vectors.verify(name, progress)
        space = self.all()[name]
        structures = [self.store.vectors.structure(name, kind) for kind in KINDS]
        try:
            if space.model is not None:
                self._load(space)
        except StoreError as error:
            faults.append(str(error))
        try:
            for structure in structures:
                if structure is not None:
                    self._open(structure.file, Flat())
            if space.model is not None and (lacking := len(self._lacking(name))):
                faults.append(f"No vector in '{name}' for {many(lacking, 'item')}. Run: lookalike compact")
        except StoreError as error:
            if not faults:  # else told already
                faults.append(f"{error} Run: lookalike compact")
        return faults

    def settle(self, names: Sequence[str], progress: Progress) -> None:
        """After an add: fit what waits and has enough to learn from, fill what lacks rows, index what is large.

        What learns from labels waits until somebody says so: labels come in bits, and a fit is for long.
        """
        for name in names:
            space = self.all()[name]
            if space.model is not None:
                self._fill(name, progress)
            elif (
                len(space.chain) > 1
                and self.store.vectors.rows(space.chain[0]) >= FIT_MIN
                and not self.wants_labels(name)
            ):
                self.fit(name, progress)
        for name in names:
            self._snapshot(name, progress)
            self._sort_into_leaves(name, progress)

    def fit(
        self, name: str, progress: Progress, negatives: Pool | None = None, specs: Sequence[str] | None = None
    ) -> int:
        """Fit a space's transforms anew and put every item through them; returns the rows it was fitted on.

        `negatives` take the place of the collection's own where a transform tells rows from such a pool. `specs`:
        from now on the space's chain, on the same feature. Readers see the old space until the new one is whole. Where
        a transform learns from labels, the rows it was fitted on are the labelled ones.
        """
        space = self.all()[name]
        if len(space.chain) == 1:
            hint = f" To learn from labels anew: lookalike fit {name} --labels" * self.feature_wants_labels(name)
            raise InputError(f"Space '{name}' has nothing to fit: its chain is {space.chain[0]}.{hint}")
        ids, sample = self.sample(space.chain[0])
        if len(sample) < 2:
            raise InputError(f"Space '{name}' needs at least 2 pictures to fit on. The collection has {len(sample)}.")
        labelled = self.labelled(name)
        progress(f"fitting {name}", 0, None)
        chain = fit(specs or space.chain, sample, None if negatives is None else negatives.X, labelled)
        pools: list[Members] = []
        if any(map(takes_negatives, chain.specs[1:])):
            pools = [(None, ids) if negatives is None else (negatives.source, negatives.ids)]
        rows = len(sample) if labelled is None else len(labelled.ids)
        self._replace(name, chain, rows, pools, progress)
        return rows

    def extend(self, name: str, more: Pool, progress: Progress) -> int:
        """Add negatives to the pool of a space's last transform, and put every item through it; returns their number.

        What is in the pool already, by its id, is not taken twice. The transforms before it stay as they are.
        """
        chain, pools = self.chain(name), self.store.vectors.pools(name)
        wants = [takes_negatives(spec) for spec in chain.specs[1:]]
        addable = any(wants) and hasattr(step_class(chain.specs[-1]), "add")
        if not addable or sum(wants) > 1:
            raise InputError(
                f"Negatives can be added where the last transform is slem, and the only one with a pool. The chain of"
                f" '{name}' is {' | '.join(chain.specs)}; fit it anew: lookalike fit {name} --negatives {more.source}"
            )
        if not chain.fitted or not pools:
            raise InputError(
                f"Space '{name}' has no pool to add to. Run: lookalike fit {name} --negatives {more.source}"
            )
        new = ~np.isin(more.ids, np.concatenate([ids for _, ids in pools]))
        *earlier, last = chain.transforms
        if not new.any():
            return int(last.n_)  # type: ignore[attr-defined]
        grown: Any = deepcopy(last)  # not itself: it may be answering somebody
        X: Any = more.X[new]
        for step in earlier:
            X = step.transform(X)
        grown.add(X)
        pools.append((more.source, more.ids[new]))
        fitted_on = self.all()[name].fitted_on or 0
        self._replace(name, Chain(chain.specs, lambda: [*earlier, grown]), fitted_on, pools, progress)
        return int(grown.n_)

    def _replace(self, name: str, chain: Chain, fitted_on: int, pools: Sequence[Members], progress: Progress) -> None:
        """Put every item through a newly fitted chain; the old space goes when the new one is whole."""
        target = self.store.vectors.new_file("models", ".npz")
        models.save(target, *chain.steps)
        pendings = list(self._transform(name, chain, self.store.vectors.live_ids(chain.specs[0]), progress))
        model = self.store.vectors.settle(target)
        with self.store.transaction():
            self.store.vectors.replace(name, pendings, model=model, fitted_on=fitted_on, chain=chain.specs, pools=pools)

    def _fill(self, name: str, progress: Progress) -> None:
        """Rows for the items that have a vector in the base and none here."""
        lacking = self._lacking(name)
        if len(lacking):
            pendings = list(self._transform(name, self.chain(name), lacking, progress))
            with self.store.transaction():
                for pending in pendings:
                    self.store.vectors.commit(pending)

    def _transform(self, name: str, chain: Chain, ids: Ids, progress: Progress) -> Iterator[Pending]:
        truth = self.index(self.all()[name].chain[0])
        width = chain.store(truth.vectors(ids[:1])).nbytes if len(ids) else 0
        for part in chunks(len(ids), max(width, SEGMENT_BYTES // SEGMENT_ROWS), SEGMENT_BYTES):
            progress(f"encoding {name}", part.start, len(ids))
            yield self.store.vectors.write(name, ids[part], self._rows(truth, chain, ids[part]))
        progress(f"encoding {name}", len(ids), len(ids))

    def _rows(self, truth: "Flat | Ann | Coded", chain: Chain, ids: Ids) -> NDArray[Any]:
        parts = chunks(len(ids), 4 * (truth.dim or 1), ROWS_BYTES)
        return np.concatenate([chain.store(truth.vectors(ids[part])) for part in parts])

    def sample(self, base: str) -> tuple[Ids, NDArray[Any]]:
        """At most FIT_MAX rows of the base, and SAMPLE_BYTES, in the order of their ids: ids (n,) and rows (n, d)."""
        index = self.index(base)
        ids = self.store.vectors.live_ids(base)[: self._most(base)]
        return ids, index.vectors(ids)

    def labelled(self, name: str) -> Labelled | None:
        """What a space that learns from labels is fitted on, None for others: pictures with exactly one label.

        One with several says nothing to a transform that tells classes apart, and is left out, unless all that learn
        from labels take several. As many as `sample` has; a coder gets as many without any label besides.
        """
        if not self.wants_labels(name):
            return None
        base, last = self.all()[name].chain[0], self.all()[name].chain[-1]
        ids, y = self._said(name)
        free = None
        if is_coder(last) and takes_labels(last):
            some = self.store.vectors.live_ids(base)[: self._most(base)]
            said = self.store.judgements.labels(some.tolist())
            free = self.index(base).vectors(some[[not said.get(item) for item in some.tolist()]])
        return Labelled(ids, self.index(base).vectors(ids), y, free)

    def fitted_which(self, name: str) -> str | None:
        """Which of its pictures a space was fitted on, in words; None where on all, or not at all."""
        n, base = self.all()[name].fitted_on, self.all()[name].chain[0]
        if n is None or n >= self.store.vectors.rows(self.searched(name)):
            return None
        if self.wants_labels(name):
            return "those that had labels" if self._takes_several(name) else "those that had one label"
        return "a sample, drawn by lot" if n == self._most(base) else "those that were there"

    def _takes_several(self, name: str) -> bool:
        """Whether all of a space's transforms that learn from labels take several a picture."""
        return all(map(takes_several, filter(takes_labels, self.all()[name].chain[1:])))

    def _said(self, name: str) -> tuple[Ids, NDArray[Any]]:
        """The pictures that a space which learns from labels is fitted on, (m,), and their labels as `Labelled` has."""
        base, several = self.all()[name].chain[0], self._takes_several(name)
        labels = self.labels(base, several)
        ids = np.array(sorted(labels)[: self._most(base)], np.int64)
        y = join_names([labels[item] for item in ids.tolist()])
        if len(np.unique(y, axis=0)) < 2:
            each = "labels, not all the same" if several else "one label each, of at least 2 labels"
            raise InputError(
                f"Space '{name}' learns from pictures that have {each}. The collection has {len(ids):,} such pictures,"
                f" of {len({one for names in labels.values() for one in names})}. Label some first: lookalike label"
                " SOURCE, or lookalike classes add NAME IMAGE"
            )
        return ids, y

    def _coder(self, base: str, labels: bool) -> str:
        """The coder for whoever names none: with labels enough one that learns from those and from other pictures."""
        counts = Counter(label for (label,) in self.labels(base).values())
        return "tsvm" if labels or sum(n >= LABEL_MIN for n in counts.values()) > 1 else "itq"

    def _most(self, base: str) -> int:
        """How many rows of a base a fit looks at."""
        return min(FIT_MAX, SAMPLE_BYTES // (4 * (self.index(base).dim or 1)))

    def labels(self, base: str, several: bool = False) -> dict[int, list[str]]:
        """The pictures of a base that have one label, or `several` too, and these."""
        said = self.store.judgements
        live = np.intersect1d(said.labelled(), self.store.vectors.live_ids(base))
        return {item: names for item, names in said.labels(live.tolist()).items() if several or len(names) == 1}

    def _snapshot(self, name: str, progress: Progress) -> None:
        """A faiss index for a space that is large enough to want one, built anew when it has aged."""
        if self.is_coded(name):  # a scan of the codes is quick as it is
            self._measure(name, progress)
            return
        searched = self.searched(name)
        kind = choose(self.store.vectors.rows(searched))
        index = self.index(searched)
        if kind == "flat" or (kind == getattr(index, "kind", None) and getattr(index, "stale", 1) <= STALE):
            return
        progress(f"indexing {name}", 0, None)
        before = self.store.vectors.structure(searched, "points")
        flat = self._flat(searched)
        chain, recall = self.chain(name), None
        if chain.compares:  # faiss knows Euclid: it proposes, the measure of the space decides
            made = create("index", Spec(SHORTLISTED, {"kind": kind})).build(flat, progress, chain.transforms[-1])
            recall = made.recall(chain.transforms[-1])
        elif before is not None and kind == getattr(index, "kind", None):
            # Not `index` itself: it may be answering somebody.
            made = self._open(before.file, flat).build(progress=progress)
        else:
            made = create("index", Spec("ann", {"kind": kind})).build(flat, progress)
        target = self.store.vectors.new_file("indexes", ".faiss")
        made.save(target)
        file = self.store.vectors.settle(target, f"{SHORTLISTED + '-' if chain.compares else ''}{kind}-{target.name}")
        with self.store.transaction():
            self.store.vectors.name_structure(searched, "points", file, recall)

    def _measure(self, name: str, progress: Progress) -> None:
        """The recall of codes, on some of the pictures themselves; anew when the rows have changed much since."""
        before, rows = self.store.vectors.recall(name), self.store.vectors.rows(name)
        if before is not None and abs(rows - before.rows) <= STALE * before.rows:
            return
        progress(f"measuring {name}", 0, None)
        found = Recall(measure(self.index(name), self.chain(name).query), rows)
        with self.store.transaction():
            self.store.vectors.keep_recall(name, found)

    def _sort_into_leaves(self, name: str, progress: Progress) -> None:
        """Leaves for a space that is large enough to want them, built anew when they have aged.

        None where building them would take more memory than the machine has: feedback looks at every row then.
        """
        taught = self.taught(name)
        rows = self.store.vectors.rows(taught)
        if rows < LEAVES or not leaves_fit(rows, self.all()[taught].dim or 1, installed_bytes()):
            return
        if getattr(self.hyperplanes(taught), "stale", 1) <= STALE:
            return
        made = create("index", "leaves").build(self._flat(taught), progress)
        target = self.store.vectors.new_file("indexes", LEAVES_SUFFIX)
        made.save(target)
        file = self.store.vectors.settle(target)
        with self.store.transaction():
            self.store.vectors.name_structure(taught, "hyperplanes", file)

    def _flat(self, name: str) -> Flat:
        """The vectors of a space themselves."""
        index: Any = self.index(name)
        flat: Flat = index if isinstance(index, Flat) else index.truth
        return flat

    def _open_or(self, flat: Flat, structure: Structure | None) -> Any:
        """The index whose structure this is, over these vectors; or these alone."""
        if structure is not None:
            with suppress(DamagedError):  # a scan gives the same answers, and the next settle builds anew
                return self._open(structure.file, flat)
        return flat

    def _open(self, file: str, flat: Flat) -> Any:
        name = "leaves" if file.endswith(LEAVES_SUFFIX) else SHORTLISTED if file.startswith(SHORTLISTED) else "ann"
        return component("index", name).load(self.store.path / "indexes" / file, flat)

    def _load(self, space: Space) -> list[Any]:
        """What was fitted for a space."""
        assert space.model is not None
        try:
            return models.load(self.store.path / "models" / space.model, space.model_digest)
        except StoreError as error:
            verb = f"lookalike fit {space.name}" if space.base else "lookalike fit --features"
            raise type(error)(f"{error} Run: {verb}") from None

    def _feature(self, base: Space) -> Feature:
        """A feature with what it learned."""
        feature: Feature = self._load(base)[0]
        return feature

    def _lacking(self, name: str) -> Ids:
        """Items that have a vector in the base of a space and none in itself."""
        mine, there = self.store.vectors.live_ids(name), self.store.vectors.live_ids(self.all()[name].chain[0])
        return np.setdiff1d(there, mine, assume_unique=True)


def _try(chain: Sequence[str]) -> None:
    """Refuse a chain that could never work before it is written down: no weights, options out of range."""
    create("feature", chain[0]).describe([])
    X = np.random.default_rng(0).normal(size=(32, 16)).astype(np.float32)
    if len(chain) > 1 and is_coder(chain[-1]):  # few bits will do, where their number is right
        last = parse(chain[-1])
        check_bits(create("coder", last).bits)
        chain = [*chain[:-1], str(Spec(last.name, last.params | {"bits": 8}))]
    fit(chain, X, labelled=Labelled(np.arange(32), X, np.arange(32) % 2))


def _grew(leaves: Any, flat: Flat) -> bool:
    """Whether these vectors are those that leaves were made of, and perhaps more."""
    return not isinstance(leaves, Flat) and flat.extends(leaves.truth)


def _filled(index: Any, blocks: Iterable[Block]) -> Any:
    """An index with the live rows of these blocks added."""
    for block in blocks:
        index.add(block.ids, block.X)
        if block.dead is not None:
            index.remove(block.ids[block.dead])
    return index


def _coded(codes: Any, truth: Any, chain: Chain) -> "Coded":
    from lookalike.index.coded import Coded  # numba takes a second to load

    return Coded(codes, truth, chain.transform if len(chain.specs) > 2 else None)


def _bare(chain: Sequence[str], free: Iterable[str]) -> list[str]:
    """The chain without these options of its last step."""
    last = parse(chain[-1])
    kept = {option: value for option, value in last.params.items() if option not in free}
    return [*chain[:-1], str(Spec(last.name, kept))]


def _needs_fit(spec: str) -> bool:
    return needs_fit(component("feature", parse(spec).name))


def _is_spec(name: str) -> bool:
    return re.fullmatch(r"[\w-]+", name) is None
