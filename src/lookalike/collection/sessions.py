"""`Session`: rounds of relevance feedback, and simulations with an emulated user.

A session is a log in the store. Every mark is stored immediately, so a session can be opened again by its id, even
after a crash. Each round learns from all marks (`lookalike.feedback`), ranks the collection, and asks about the
pictures whose marks would help most.
"""

import getpass
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from lookalike.collection import html
from lookalike.collection.locating import best_box
from lookalike.collection.resolve import (
    Example,
    as_list,
    check_vector,
    example_name,
    example_pixels,
    is_vector,
    item_of,
    read_item,
    select,
)
from lookalike.collection.searching import Result, make_result
from lookalike.collection.space import Space, Spaces
from lookalike.collection.words import example_of_words, search_words
from lookalike.errors import InputError, NoItemError, UnknownNameError
from lookalike.images.decoding import read
from lookalike.images.preview import encode_preview
from lookalike.index.queries import HyperplaneQuery, PointQuery
from lookalike.limits import check_count
from lookalike.store.actions import Changed
from lookalike.store.directory import Store
from lookalike.store.items import Filter, Item
from lookalike.store.sessions import KINDS, Event, ExternalExample, Kind, Summary
from lookalike.text import MARK_NAMES, many
from lookalike.types import Box, Ids, Query, Vectors, format_id

if TYPE_CHECKING:  # learning loads scikit-learn
    from lookalike.feedback import Estimate, Marks, RoundOutcome

SIGNS = {"relevant": 1, "irrelevant": -1}

MATCHES = 3
"""Until this many pictures are marked positive, a session that started from words asks about the best results for the
words. Chosen from 1, 2, 3 and 5 on every second word of corel5k, with `lookalike bench run words`."""


@dataclass(frozen=True, slots=True)
class Round:
    """The result of a round."""

    number: int
    best: list[Result]  # best first
    questions: list[Item]  # pictures to mark next, in the order to show them
    found: int  # ranked pictures that are marked relevant
    estimate: "Estimate | None"  # of the number of relevant pictures in the collection
    stop: str | None  # the reason to stop, as a sentence, if more marks will not help
    scored: int
    seconds: dict[str, float]
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class StartExample:
    """An example that a session started from."""

    id: int | None  # None for an example that was never in the collection
    positive: bool  # False for a negative example
    name: str | None  # the path of an example that was not in the collection; None for a vector
    words: str | None = None  # words that the session started from


@dataclass(frozen=True, slots=True)
class Finished:
    """The outcome of a finished session."""

    name: str
    labelled: Changed  # number of pictures with the new label
    relevant: int  # pictures marked relevant, including those that already had the label
    irrelevant: int  # pictures marked irrelevant, which stay in the session as negative examples
    contradicted: list[int]  # pictures marked irrelevant that have the label


@dataclass(frozen=True, slots=True)
class SimulatedRound:
    """One round with an emulated user."""

    round: int  # 0 is the ranking by the examples only
    precision: float  # share of relevant pictures among the first n of the ranking, for n relevant pictures in total
    marked: int  # pictures marked so far, including the examples
    found: int  # of these, relevant and in the collection
    estimate: "Estimate | None"  # the session's estimate of the number of relevant pictures
    stop: str | None  # the reason to stop, as a sentence, if more marks will not help; the simulation continues
    seconds: float


@dataclass(frozen=True, slots=True)
class NearMark:
    """A marked picture, and its distance from another one."""

    id: int | None  # None for an example that is not in the collection
    distance: float  # Euclidean, in the session's space


@dataclass(frozen=True, slots=True)
class Why:
    """The reasons for the rank of a picture."""

    margin: float | None  # f(x) / ‖w‖ of the ranking hyperplane, Eq. 3 of fsm-tree; None before the first fit
    relevant: list[NearMark]  # nearest first
    irrelevant: list[NearMark]
    box: Box | None  # the part of the picture with the highest rank; None if the picture cannot be read


class Session:
    """A search that a user refines with marks. Cheap to open; several objects can share the same log.

    Parameters
    ----------
    spaces : the spaces of the collection.
    id : id of an existing session.
    author : author of the marks; by default the user who is logged in.
    """

    def __init__(self, spaces: Spaces, id: str, author: str | None = None):
        self.id = id
        self.author = author or login()
        self._store = spaces.store
        self._spaces = spaces
        self._log = self._store.judgements.sessions
        self.space = self._log.get(id).space

    def __repr__(self) -> str:
        one = self.summary
        name = "" if one.name is None else f" {one.name!r}"
        counts = f"{many(one.rounds, 'round')}, {one.relevant:,} positive, {one.irrelevant:,} negative"
        return f"<Session {self.id}{name}: {one.state}, {counts}>"

    def _repr_html_(self) -> str:
        """HTML for notebooks: the marked pictures."""
        marks = self.marks
        rows = []
        for kind, heading, color in (("relevant", "positive", html.GREEN), ("irrelevant", "negative", html.RED)):
            ids = [item for item, mark in marks.items() if mark == kind]
            items = self._store.items.get(ids[: html.MAX_PICTURES // 2])
            tiles = [html.tile_of(self._store, item, color=color) for item in items.values()]
            rows.append((f"{many(len(ids), 'picture')} marked {heading}", tiles))
        return html.page(repr(self)[1:-1], rows)

    def preview(self, item: int, side: int = 256) -> bytes:
        """A small copy of a picture as JPEG; see `Collection.preview`."""
        return encode_preview(read(read_item(self._store, item), side=side).pixels, side)

    @property
    def summary(self) -> Summary:
        """A summary of the session."""
        return self._log.get(self.id)

    @property
    def marks(self) -> dict[int, Kind]:
        """The last mark of each item that was not undone: "relevant", "irrelevant" or "skip", by item."""
        return self._log.marks(self.id)

    @property
    def examples(self) -> list[StartExample]:
        """The examples that the session started from, positive ones first."""
        marked = [StartExample(item, kind == "relevant", None) for item, kind in self._log.first_marks(self.id).items()]
        external = [
            StartExample(one.item, one.positive, None if one.words else one.origin, one.words)
            for one in self._log.external_examples(self.id)
        ]
        return sorted([*marked, *external], key=lambda example: not example.positive)

    @property
    def log(self) -> list[Event]:
        """All events, in order: pictures that were shown, marked and unmarked."""
        return self._log.log(self.id)

    def round(
        self, k: int = 50, window: int = 9, *, filter: Filter | None = None, effort: float | str | None = None
    ) -> Round:
        """Learn from the marks; return the k best pictures and `window` questions. The questions are logged."""
        check_count("window", window)
        self._log.check_open(self.id)
        before = self.summary.rounds
        outcome, items, notes = self._run_round(k, window, filter, effort, turn=before)
        questions = [items[item] for item in outcome.questions.tolist() if item in items]
        number = self._log.show(self.id, [item.id for item in questions], author=self.author) if questions else before
        return self._make_round(number, questions, outcome, items, notes)

    def resume(
        self, k: int = 50, window: int = 9, *, filter: Filter | None = None, effort: float | str | None = None
    ) -> Round:
        """Return the last round again: its number and its questions, answered or not, and a current ranking.

        Runs the first round of a new session, and a new round if none of the questions is left, or one does not pass
        the filter.
        """
        check_count("window", window)
        self._log.check_open(self.id)

        def read() -> list[Item]:
            asked = self._log.questions(self.id)
            items = self._store.items.get(asked)
            present = [item for item in asked if item in items]
            if filter is not None and not np.isin(present, select(self._store, filter)).all():
                return []
            return [items[item] for item in present]

        questions = self._store.read_consistently(read)
        if not questions:
            return self.round(k, window, filter=filter, effort=effort)
        number = self.summary.rounds
        outcome, items, notes = self._run_round(k, len(questions), filter, effort, turn=number)
        return self._make_round(number, questions, outcome, items, notes)

    def _make_round(
        self, number: int, questions: list[Item], outcome: "RoundOutcome", items: dict[int, Item], notes: list[str]
    ) -> Round:
        if outcome.presumed:
            serve = "serves as a negative" if outcome.presumed == 1 else "serve as negatives"
            notes.append(f"Few negative examples so far; {many(outcome.presumed, 'random picture')} {serve}.")
        return Round(
            number=number,
            best=_results(outcome, items),
            questions=questions,
            found=outcome.found,
            estimate=outcome.estimate,
            stop=outcome.stop,
            scored=outcome.scored,
            seconds=dict(outcome.seconds),
            notes=notes,
        )

    def best(self, k: int = 50, *, filter: Filter | None = None, effort: float | str | None = None) -> list[Result]:
        """Rank the current pictures in the collection by a session, open or finished; nothing is logged."""
        outcome, items, _ = self._run_round(k, 0, filter, effort, turn=0)
        return _results(outcome, items)

    def why(self, item: int, k: int = 5, *, box: bool = True) -> Why:
        """Explain the rank of a picture by its margin, the k nearest marked pictures, and its highest-ranking part.

        Finding that part reads the file; `box=False` omits it.
        """
        check_count("k", k)

        def read() -> Why:
            space = self._open_space()
            index = space.feedback_index
            if item not in index:
                raise NoItemError(f"No item with the id {format_id(item)} in space '{space.name}'.")
            outcome, marks, _ = self._learn(1, 0, None, None, turn=0)
            X = index.vectors(np.array([item], np.int64))  # (1, d)
            relevant, irrelevant = _nearest_marks(item, X, marks, k)
            best = best_box(space, item, outcome.ranking, space.to_rows) if box else None
            return Why(_margin(outcome.ranking, X), relevant, irrelevant, best)

        return self._store.read_consistently(read)

    def mark(
        self,
        relevant: Example | Iterable[Example] = (),
        irrelevant: Example | Iterable[Example] = (),
        skip: Example | Iterable[Example] = (),
    ) -> None:
        """Mark pictures in the collection, by id or path. When the method returns, the marks are on disk.

        `undo` undoes one call. The last mark of a picture counts.
        """
        marks: dict[int, Kind] = {}
        for kind, given in zip(KINDS, (relevant, irrelevant, skip), strict=True):
            for example in as_list(given):
                _add_mark(marks, self._item(example), kind, example)
        if marks:
            self._log.mark(self.id, marks, author=self.author)

    def undo(self) -> dict[int, Kind]:
        """Undo the last call to `mark` by this author; return its marks, or an empty dict if there is none."""
        return self._log.undo(self.id, author=self.author)

    def finish(self, name: str | None = None) -> Finished:
        """Give the relevant pictures the label `name` (default: the session's name), and end the session.

        The labels record the author and time of the marks, and "session" as the source. A later session for the label
        uses the irrelevant pictures as negatives. Finishing again under the same name changes nothing.
        """
        name = name or self.summary.name
        if name is None:
            raise InputError("A session needs a name to finish. Give one, such as finish('red cars').")
        name = self._store.judgements.classes.canonical_names([name], new=True)[name]
        marks = self.marks
        relevant = [item for item, kind in marks.items() if kind == "relevant"]
        irrelevant = [item for item, kind in marks.items() if kind == "irrelevant"]
        if not relevant:
            raise InputError(f"Session {self.id} has no positive picture to label as {name!r}. Mark one first.")
        labelled = self._store.judgements.finish(self.id, name, author=self.author)
        labels = self._store.judgements.labels(irrelevant)
        contradicted = [item for item in irrelevant if name in labels[item]]
        return Finished(name, labelled, len(relevant), len(irrelevant), contradicted)

    def _open_space(self) -> Space:
        if self.space not in self._spaces:
            known = ", ".join(self._spaces.names()) or "none"
            raise InputError(f"The session's space '{self.space}' was removed. Existing spaces: {known}.")
        return self._spaces.find(self.space)

    def _run_round(
        self, k: int, window: int, filter: Filter | None, effort: float | str | None, turn: int
    ) -> tuple["RoundOutcome", dict[int, Item], list[str]]:
        check_count("k", k)

        def read() -> tuple["RoundOutcome", dict[int, Item], list[str]]:
            outcome, _, notes = self._learn(k, window, filter, effort, turn=turn)
            if filter is not None and not len(outcome.best):
                raise InputError("No picture passes the filter, except pictures marked negative. Clear or change it.")
            shown = np.concatenate([outcome.best, outcome.questions])
            return outcome, self._store.items.get(shown[shown >= 0].tolist()), notes

        return self._store.read_consistently(read)

    def _learn(
        self, k: int, window: int, filter: Filter | None, effort: float | str | None, turn: int
    ) -> tuple["RoundOutcome", "Marks", list[str]]:
        """Run a round on the current marks; see `feedback.run_round`."""
        from lookalike.feedback import run_round

        space = self._open_space()
        index = space.feedback_index
        external = self._log.external_examples(self.id)
        marks, skipped, notes = _gather(space, self.marks, external)
        if not (marks.y > 0).any():
            raise InputError(
                f"Session {self.id} has no positive example in the collection. Mark a picture as positive, or undo the"
                " last mark."
            )
        outcome = run_round(
            index,
            marks,
            k=min(k, max(1, len(index))),
            window=window,
            among=None if filter is None else select(self._store, filter),
            exclude=skipped,
            ask_first=_best_for_words(self._spaces, space, external, marks, window + len(skipped), filter),
            effort=effort,
            seed=int(self.id, 16),  # the same random negatives in every round
            turn=turn,
        )
        return outcome, marks, notes

    def _item(self, example: Example) -> int:
        """The item to mark: an existing one, or one that was shown and then removed."""
        try:
            item = item_of(self._store, example)
            if item is not None and self._store.items.get([item]):
                return item
        except InputError:
            if not isinstance(example, int) or example not in {event.item for event in self.log}:
                raise
            return example
        raise InputError(f"Only pictures in the collection can be marked, by id or path. Got {example_name(example)}.")


def start_session(
    spaces: Spaces,
    positive: Sequence[Example],
    negative: Sequence[Example],
    *,
    words: Sequence[str] = (),
    without_words: Sequence[str] = (),
    label: str | None = None,
    space: str | None = None,
    author: str | None = None,
    name: str | None = None,
) -> Session:
    """Start a session. A label adds its pictures, and those that its finished sessions marked irrelevant."""
    author = author or login()
    start = spaces.store.read_consistently(
        lambda: _first_marks(spaces, spaces.find(space), positive, negative, words, without_words, label)
    )
    session_id = spaces.store.judgements.sessions.start(
        start.space.name, author=author, name=name, marks=start.marks, external_examples=start.external
    )
    return Session(spaces, session_id, author)


def simulate(
    spaces: Spaces,
    space: Space,
    positive: Sequence[Example],
    negative: Sequence[Example],
    *,
    words: Sequence[str],
    without_words: Sequence[str],
    label: str | None,
    labels: Sequence[tuple[int, str]] | None,
    rounds: int,
    window: int,
    filter: Filter | None,
) -> list[SimulatedRound]:
    """Run rounds with an emulated user who marks every question correctly; nothing is stored. §4.A, fsm-tree.

    The user searches for the pictures with `label`, by default that of the first example, and marks all others
    negative, even those without any label. `labels` are pairs of item and label, by default the collection's.
    """
    from lookalike.feedback import EmulatedUser, emulate, run_round

    store = space.store
    relevant = _find_relevant(store, positive, label, labels)
    examples = positive if positive or words else relevant[:1].tolist()
    start = _first_marks(spaces, space, examples, negative, words, without_words, None)
    among = None if filter is None else select(store, filter)
    check_count("rounds", rounds, 0)
    check_count("window", window)
    index = space.feedback_index
    candidates = index.ids if among is None else np.intersect1d(index.ids, among)
    relevant_candidates = np.intersect1d(relevant, candidates)
    if not len(relevant_candidates):
        raise InputError(
            "No picture in the collection has this label and passes the filter. Change the label or the filter."
        )
    user = EmulatedUser(candidates, relevant_candidates)
    n = len(relevant_candidates)

    def run(marks: "Marks", turn: int) -> "RoundOutcome":
        ask_first = _best_for_words(spaces, space, start.external, marks, window, filter)
        return run_round(index, marks, k=n, window=window, among=among, ask_first=ask_first, turn=turn)

    session = emulate(user, index, _gather(space, start.marks, start.external).marks, rounds, run)
    return [
        SimulatedRound(
            round=number,
            precision=user.precision(outcome.best),
            marked=len(marks.ids),
            found=outcome.found,
            estimate=outcome.estimate,
            stop=outcome.stop,
            seconds=sum(outcome.seconds.values()),
        )
        for number, (marks, outcome) in enumerate(session)
    ]


def warm_up(space: Space) -> None:
    """Run a round with two arbitrary pictures, to load everything that a round needs; nothing is stored."""
    from lookalike.feedback import Marks, run_round

    index = space.feedback_index
    ids = index.ids[:2]
    if len(ids) == 2:
        run_round(index, Marks(ids, index.vectors(ids), np.array([1, -1], np.int8)), k=1, window=1)


def login() -> str:
    """The name of the user who is logged in, or "unknown"."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"


class _Start(NamedTuple):
    """The first marks of a session."""

    space: Space
    marks: dict[int, Kind]
    external: list[ExternalExample]


class _Gathered(NamedTuple):
    """The data that a round learns from."""

    marks: "Marks"
    skipped: Ids  # (s,) ascending
    notes: list[str]  # about examples that were left out


def _first_marks(
    spaces: Spaces,
    space: Space,
    positive: Sequence[Example],
    negative: Sequence[Example],
    words: Sequence[str],
    without_words: Sequence[str],
    label: str | None,
) -> _Start:
    """The first marks of a session. Words, and an example outside the collection, are stored as vectors."""
    judgements = space.store.judgements
    if not len(space.feedback_index):
        raise InputError("The collection is empty. Add pictures first: lookalike add FOLDER")
    marks: dict[int, Kind] = {}
    if label is not None:
        label = judgements.classes.canonical_names([label])[label]
        marks |= dict.fromkeys(judgements.sessions.negatives(label), "irrelevant")
        marks |= dict.fromkeys(judgements.items_with(label).tolist(), "relevant")
        if "relevant" not in marks.values():
            raise UnknownNameError("label", label, judgements.label_counts())
    example_marks: dict[int, Kind] = {}
    external = []
    sides: list[tuple[Kind, Sequence[Example]]] = [("relevant", positive), ("irrelevant", negative)]
    for kind, examples in sides:
        for example in examples:
            resolved = _resolve_example(space, example, positive=kind == "relevant")
            if isinstance(resolved, ExternalExample):
                external.append(resolved)
            else:
                _add_mark(example_marks, resolved, kind, example)
    marks |= example_marks
    external += [
        ExternalExample(True, example_of_words(spaces, space, text, without_words), None, origin=text) for text in words
    ]
    external += [
        ExternalExample(False, example_of_words(spaces, space, text), None, origin=text) for text in without_words
    ]
    rows = {
        sign: {outside.vector.tobytes() for outside in external if outside.positive is sign} for sign in (True, False)
    }
    if rows[True] & rows[False]:
        raise InputError("The same example is given as positive and as negative. Choose one.")
    if "relevant" not in marks.values() and not any(example.positive for example in external):
        raise InputError("A session needs at least one positive example: a picture, words or a label. Got none.")
    return _Start(space, marks, external)


def _best_for_words(
    spaces: Spaces,
    space: Space,
    external: Sequence[ExternalExample],
    marks: "Marks",
    k: int,
    filter: Filter | None,
) -> Ids | None:
    """The best results for the words that a session started from, k of them without marks.

    None if there are no words, enough positive marks, or if the words are unknown now.
    """
    words, without_words = (
        [one.words for one in external if one.words and one.positive is positive] for positive in (True, False)
    )
    if not words or np.count_nonzero(marks.ids[marks.y > 0] >= 0) >= MATCHES:
        return None
    k += len(marks.ids)
    try:
        found = search_words(spaces, space, words, without_words, [], [], k=k, filter=filter, effort=None)
    except InputError:  # for example, because the label with this name was removed
        return None
    return np.array([result.id for result in found], np.int64)


def _add_mark(marks: dict[int, Kind], item: int, kind: Kind, example: Example) -> None:
    """Add a mark; raise InputError if it contradicts another one of the same call."""
    if marks.setdefault(item, kind) != kind:
        first, second = MARK_NAMES[marks[item]], MARK_NAMES[kind]
        raise InputError(f"{example_name(example)} is given both as {first} and as {second}. Choose one.")


def _resolve_example(space: Space, example: Example, *, positive: bool) -> int | ExternalExample:
    """The item of an example, or an `ExternalExample` if it is not in the collection.

    For a picture, the vector of its feature is stored, because it stays valid after a refit of the space.
    """
    index = space.feedback_index
    if is_vector(example):
        return ExternalExample(positive, PointQuery(check_vector(example, index.dim)).vectors[0], None)
    item = item_of(space.store, example)
    if item is not None and item in index:
        return item
    X = space.chain.feature.extract([example_pixels(space.store, example, space.read_side)])  # (1, d)
    return ExternalExample(positive, X[0], space.feature_version, item, example_name(example))


def _gather(space: Space, marks: Mapping[int, Kind], external: Sequence[ExternalExample]) -> _Gathered:
    """Collect the vectors and signs of all available examples; the notes list the others."""
    from lookalike.feedback import Marks

    index = space.feedback_index
    notes = []
    signs_by_item = {item: SIGNS[kind] for item, kind in marks.items() if kind != "skip"}
    present = {item: sign for item, sign in signs_by_item.items() if item in index}
    if n_missing := len(signs_by_item) - len(present):
        notes.append(f"{n_missing} of the marked pictures are no longer in the collection; their marks are kept.")
    external_rows: list[Vectors] = []
    external_signs: list[int] = []
    for example in external:
        sign = 1 if example.positive else -1
        if example.item is not None and example.item in index:  # added since
            if example.item not in marks:
                present[example.item] = sign
            continue
        row = example.vector[None, :]  # (1, d)
        if example.feature is not None:
            if example.feature != space.feature_version:
                notes.append(f"The example {example.origin} is ignored: its vector was computed by another feature.")
                continue
            row = space.to_rows(row)  # (1, D)
        elif row.shape[1] != index.dim:
            notes.append(
                f"An example vector is ignored: it has {row.shape[1]} dimensions, but the space has {index.dim}."
            )
            continue
        external_rows.append(row)
        external_signs.append(sign)
    ids = np.array(list(present), np.int64)
    present_rows = index.vectors(ids) if len(ids) else np.empty((0, index.dim or 1), np.float32)
    return _Gathered(
        Marks(
            ids=np.concatenate([np.full(len(external_rows), -1, np.int64), ids]),
            X=np.concatenate([*external_rows, present_rows]) if external_rows else present_rows,
            y=np.array([*external_signs, *present.values()], np.int8),
        ),
        np.array(sorted(item for item, kind in marks.items() if kind == "skip"), np.int64),
        notes,
    )


def _nearest_marks(item: int, X: Vectors, marks: "Marks", k: int) -> tuple[list[NearMark], list[NearMark]]:
    """The k nearest relevant and irrelevant marks to an item's row X (1, d)."""
    distances = np.sqrt(PointQuery(X).score_pairs(marks.X, np.zeros(len(marks.X), np.intp)))  # (m,)
    relevant, irrelevant = (
        [
            NearMark(int(marks.ids[i]) if marks.ids[i] >= 0 else None, float(distances[i]))
            for i in np.argsort(distances, kind="stable")
            if marks.y[i] == sign and marks.ids[i] != item
        ][:k]
        for sign in (1, -1)
    )
    return relevant, irrelevant


def _margin(ranking: Query, X: Vectors) -> float | None:
    return float(ranking.distance(X)[0]) if isinstance(ranking, HyperplaneQuery) else None


def _results(outcome: "RoundOutcome", items: dict[int, Item]) -> list[Result]:
    pairs = zip(outcome.best.tolist(), outcome.scores.tolist(), strict=True)
    return [make_result(items[item], score) for item, score in pairs if item in items]


def _find_relevant(
    store: Store, examples: Sequence[Example], label: str | None, labels: Sequence[tuple[int, str]] | None
) -> Ids:
    """The items with a label, ascending: the given label, or that of the first example."""
    first = None if label is not None or not examples else item_of(store, examples[0])
    if labels is None:
        known = store.judgements.label_counts()
        names = [] if first is None else store.judgements.labels([first])[first]
    else:
        known = dict(Counter(name for _, name in labels))
        names = [name for item, name in labels if item == first]
    if label is None and len(names) != 1:
        got = f"The first example has the labels: {', '.join(names) or 'none'}" if examples else "Got no example"
        raise InputError(f"Give a label (--label), or an example with exactly one label. {got}.")
    name = names[0] if label is None else label
    if name not in known:
        raise UnknownNameError("label", name, known)
    if labels is None:
        return store.judgements.items_with(name)
    return np.unique(np.array([item for item, other in labels if other == name], np.int64))
