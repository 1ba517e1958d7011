"""Searching by words: what words mean in a collection, and the pictures that match them.

Three sources know words. The user's own words come first: labels and classes, predicted classes, names of folders and
files, and text in pictures (`collection.picture_text`). The network knows the kinds of pictures (`features.kinds`),
which WordNet connects with words (`classes.words`). A space with a text encoder (`encode.text`), such as that of the
user's own CLIP, replaces the kinds. Words can be combined with example pictures.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from lookalike.classes.words import MAX_CHARACTERS as MAX_CHARACTERS
from lookalike.classes.words import Term, Words
from lookalike.collection.likelihood import Search, Shares, estimate, from_distances, make_monotone
from lookalike.collection.resolve import Example, select
from lookalike.collection.searching import NEGATIVE_WEIGHT, Results, make_query, make_result
from lookalike.collection.space import Space, Spaces
from lookalike.errors import InputError
from lookalike.features.kinds import decode_kinds
from lookalike.images.sources import is_list, relative_to, root_of
from lookalike.index.kinds import score_kinds
from lookalike.limits import check_count
from lookalike.scaled_rows import as_stored
from lookalike.store.directory import Store
from lookalike.store.items import Filter
from lookalike.text import join_words, many, split_words
from lookalike.types import Ids, Query, Vectors

CANDIDATES = 1_000
"""Pictures that are compared if words are combined with pictures or with other words: the best of each."""

OWN_SHARE, NETWORK_SHARE = 0.9, 0.8
"""A score is OWN_SHARE times the larger one of the score of the user's own words and NETWORK_SHARE times that of the
network. The rest is the network's score, which orders equal ones. So a label always outranks the network."""

PATH_SCORE = 0.5
"""Score of a picture with a word in its path or in the text in it. A label has the score 1, a predicted class its
probability."""

ENOUGH, OUTRANKED = 10, 0.5
"""If a class has at least this many pictures, the scores of its kinds are multiplied by the second number."""

FLOOR = 0.01
"""Scores below this do not count as matches. In a combination, a missing word has this score."""

EXAMPLE_PICTURES = 5
"""Pictures whose mean vector stands for words in a session."""

SAME_SENSE = 0.99
"""Classes whose weights are at least this share of the largest are kinds of a word in its most frequent sense."""

COMPLETED_WORDS = 4
"""Number of the last words of a text that a suggestion can start with."""

FOLDER_WORDS, FOLDER_ITEMS = 20, 20
"""Words that complete what a user types, and pictures per word whose folders are suggested."""

POSSESSIVE = re.compile(r"(?<=\w)['’]s\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a collection understands by a word."""

    text: str  # as typed
    lemma: str | None  # the word in WordNet; None if it stands for no kind
    kinds: int  # kinds that the network can recognize and that the word stands for
    labels: dict[str, int]  # matching labels and classes, with their pictures
    paths: int  # pictures with the word in the name of their folder or file
    texts: int = 0  # pictures in which a text with the word was read
    suggestions: list[str] = field(default_factory=list)  # similar words, if it is unknown
    space: str | None = None  # the space whose text encoder replaces the kinds

    @property
    def is_known(self) -> bool:
        """Whether any source knows the word."""
        network = self.lemma if self.space is None else self.space
        return network is not None or bool(self.labels) or self.paths + self.texts > 0

    @property
    def summary(self) -> str:
        """What the word means, in a few words.

        >>> Meaning("birds", "bird", 59, {"bird": 12}, 1, 3).summary
        'birds: 59 known kinds; label bird (12 pictures); 1 path; text in 3 pictures'
        """
        parts = []
        if self.space is not None:
            parts.append(f"compared by the text encoder of {self.space}")
        elif self.kinds:
            parts.append(f"{self.kinds} known {'kind' if self.kinds == 1 else 'kinds'}")
        elif self.lemma is not None:
            parts.append(f"similar to known kinds ({self.lemma})")
        parts += [f"label {label} ({many(n, 'picture')})" for label, n in self.labels.items()]
        parts += [many(self.paths, "path")] if self.paths else []
        parts += [f"text in {many(self.texts, 'picture')}"] if self.texts else []
        similar = f" (similar words: {', '.join(self.suggestions)})" if self.suggestions else ""
        return f"{self.text}: {'; '.join(parts) or f'unknown, ignored{similar}'}"


def understand(spaces: Spaces, words: str) -> list[Meaning]:
    """What the collection understands by each of the words."""
    return [word.meaning for word in _read(spaces, words, _text_space(spaces, None)).words]


def search_words(
    spaces: Spaces,
    space: Space | None,
    words: Sequence[str],
    without_words: Sequence[str],
    positive: Sequence[Example],
    negative: Sequence[Example],
    *,
    k: int,
    filter: Filter | None,
    effort: float | str | None,
    likely: bool = False,
) -> Results:
    """Find the k pictures that match the words, and example pictures if there are any, best first.

    `space` is that of the pictures, and that of the words if it has a text encoder. A score is 1 minus the match, so 0
    is best, and pictures that match nothing are left out. With `likely`, each result has a probability: the smallest of
    those of the words and pictures, made non-increasing along the ranking.
    """
    check_count("k", k)
    among = None if filter is None else select(spaces.store, filter)
    encoder = _text_space(spaces, space)
    texts, without_texts = ([_read(spaces, text, encoder) for text in given] for given in (words, without_words))
    describe = partial(_make_matcher, spaces, encoder, among=among)
    wanted: list[Matcher] = [describe(text) for text in texts]
    unwanted: list[Matcher] = [describe(text) for text in without_texts]
    for examples, matchers in ((positive, wanted), (negative, unwanted)):
        if examples:
            chosen = space or spaces.find(None)
            matchers.append(NearMatcher(chosen, make_query(chosen, examples, []), among, effort, len(examples)))
    if not wanted:
        raise InputError("A search needs at least one positive word or picture. Got none.")
    ids, scores = _rank(wanted, unwanted, k)
    items = spaces.store.items.get(ids.tolist())
    found = dict(zip(ids.tolist(), scores.tolist(), strict=True))
    results = [make_result(item, round(1 - found[item.id], 6)) for item in items.values()]
    source = ""
    if likely:
        shares, source = _rate(wanted, unwanted, [result.id for result in results])
        results = [replace(result, likely=share) for result, share in zip(results, shares.tolist(), strict=True)]
    meanings = [word.meaning for text in (*texts, *without_texts) for word in text.words]
    return Results(results, meanings, estimated_from=source)


def example_of_words(spaces: Spaces, space: Space, words: str, without_words: Sequence[str] = ()) -> Vectors:
    """An example (d,) to start a session with: the mean vector of the pictures that match the words best."""
    encoder = _text_space(spaces, space)
    matcher, *unwanted = (
        _make_matcher(spaces, encoder, _read(spaces, text, encoder), among=space.row_ids())
        for text in (words, *without_words)
    )
    ids, scores = _rank([matcher], unwanted, EXAMPLE_PICTURES)
    if not len(ids):
        raise InputError(f"No picture matches {words!r}. Use other words, a picture or a label.")
    X = space.rows.vectors(ids)  # (m, d)
    mean: Vectors = np.average(X, axis=0, weights=scores).astype(np.float32)
    length = np.linalg.norm(X, axis=1).mean()  # that of a picture, since many kernels depend on it
    return mean * np.float32(length / max(np.linalg.norm(mean), np.finfo(np.float32).tiny))


def complete(spaces: Spaces, text: str, k: int) -> list[str]:
    """At most k labels, folders and kinds of pictures that start with the last words of a text.

    Those that start with the most of its words come first: "dog on polar b" is completed by "polar bear".
    """
    labels = spaces.store.judgements.classes.counts()
    items, relative = spaces.store.items, relative_to(spaces.store.items.sources())
    words = text.casefold().split()
    starts = [" ".join(words[first:]) for first in range(len(words))][-COMPLETED_WORDS:]
    found: dict[str, None] = {}
    for start in starts if len(words) == 1 else [one for one in starts if len(one) > 1]:
        found.update(dict.fromkeys(label for label in labels if label.casefold().startswith(start)))
        *first, last = split_words(start) or [""]
        for word in items.path_words(last, FOLDER_WORDS) if last else ():
            ids = items.with_path_words([[one] for one in (*first, word)], FOLDER_ITEMS).tolist()
            folders = [folder for _, path in items.paths_of(ids) for folder in relative(path).split("/")[:-1]]
            found.update(dict.fromkeys(folder for folder in folders if folder.casefold().startswith(start)))
        for kind in Words.load().complete(start, k) if spaces.kinds is not None else ():
            if " " not in start or kind.casefold().startswith(start):  # "bus t" is not the start of "bustard"
                found[kind] = None
    return list(found)[:k]


def kinds_of(spaces: Spaces, ids: Sequence[int]) -> dict[int, list[tuple[str, float]]]:
    """The likeliest kinds of items, by name, with their probabilities; items without kinds are left out."""
    wanted, names = np.unique(np.array(list(ids), np.int64)), Words.load().classes
    found: dict[int, list[tuple[str, float]]] = {}
    for block in [] if spaces.kinds is None else spaces.store.vectors.blocks(spaces.kinds.name):
        places, inside = _places(block.ids, wanted)
        numbers, probabilities = decode_kinds(as_stored(block.X[places[inside]]))
        for item, own, shares in zip(wanted[inside].tolist(), numbers.tolist(), probabilities.tolist(), strict=True):
            found[item] = [(names[number], share) for number, share in zip(own, shares, strict=True) if share > 0]
    return {item: found[item] for item in ids if item in found}


def _rank(wanted: "Sequence[Matcher]", unwanted: "Sequence[Matcher]", k: int) -> tuple[Ids, Vectors]:
    """The ids (m,) and scores (m,) of the m ≤ k pictures that match best, best first."""
    if len(wanted) == 1 and not unwanted:
        return wanted[0].best(k)
    ids = np.unique(np.concatenate([matcher.best(max(k, CANDIDATES))[0] for matcher in wanted]))
    scores = np.mean([matcher.score(ids) for matcher in wanted], axis=0)
    if unwanted:
        scores = scores - NEGATIVE_WEIGHT * np.mean([matcher.score(ids) for matcher in unwanted], axis=0)
    return _keep_best(ids, scores, k)


def _rate(positive: "Sequence[Matcher]", negative: "Sequence[Matcher]", found: Sequence[int]) -> tuple[Shares, str]:
    """The probabilities (m,) that the results match each positive matcher and no negative one, and their sources."""
    ids = np.sort(np.array(found, np.int64))
    rated = [matcher.likely(ids) for matcher in (*positive, *negative)]
    shares = np.array([one.shares if i < len(positive) else 1 - one.shares for i, one in enumerate(rated)]).min(axis=0)
    ranked = shares[np.searchsorted(ids, found)]
    sources = dict.fromkeys(source for one in rated for source in one.sources)
    return make_monotone(ranked), join_words(sources, "and")


class Rated(NamedTuple):
    """The probabilities that items match, and what they were estimated from."""

    shares: Shares  # (m,)
    sources: list[str]


class Matcher(ABC):
    """Scores how well pictures match one thing: 1 is best, and 0 no match."""

    @abstractmethod
    def best(self, k: int) -> tuple[Ids, Vectors]:
        """Ids (m,) and scores (m,) of the m ≤ k best pictures that match, in any order."""

    @abstractmethod
    def score(self, ids: Ids) -> Vectors:
        """Scores (m,) of these items, ascending."""

    @abstractmethod
    def likely(self, ids: Ids) -> Rated:
        """The probabilities that these items, ascending, match."""


class NearMatcher(Matcher):
    """Matches pictures near a query: the nearest one has the score 1, the last candidate 0.

    `examples` is the number of pictures that the query was made from; 0 for a text.
    """

    def __init__(
        self, space: Space, query: Query, among: Ids | None, effort: float | str | None = None, examples: int = 0
    ):
        self._space, self._examples = space, examples
        self._index: Any = space.index
        self._query, self._among, self._effort = query, among, effort
        self._near, self._far = 0.0, 1.0
        self._ids, distances = self._search(CANDIDATES, among)
        if len(distances):
            self._near, self._far = float(distances.min()), float(distances.max())

    def best(self, k: int) -> tuple[Ids, Vectors]:
        """The nearest candidates."""
        ids, distances = self._search(max(k, CANDIDATES), self._among)
        return _keep_best(ids, self._to_scores(distances), k)

    def score(self, ids: Ids) -> Vectors:
        """Scores of any items; 0 for those without a vector."""
        found, distances = self._search(max(1, len(ids)), ids)
        scores = np.zeros(len(ids), np.float32)
        scores[np.searchsorted(ids, found)] = self._to_scores(distances)
        return scores

    def likely(self, ids: Ids) -> Rated:
        """The probabilities by distance; labelled pictures show nothing about the distances of texts."""
        if self._examples:
            kind = Search(self._examples, 0, CANDIDATES)
            found = estimate(self._space, self._query, kind, self._among, self._effort)
        else:
            found = from_distances(self._space, self._query, CANDIDATES, self._among, self._effort)
        near, distances = self._search(max(1, len(ids)), ids)
        shares = np.zeros(len(ids))
        shares[np.searchsorted(ids, near)] = found.at(distances)
        return Rated(shares, [found.source])

    def _search(self, k: int, among: Ids | None) -> tuple[Ids, Vectors]:
        hits = self._index.search(self._query, min(k, max(1, len(self._index))), among=among, effort=self._effort)
        found = hits.ids[0] >= 0
        return hits.ids[0][found], hits.scores[0][found]

    def _to_scores(self, distances: Vectors) -> Vectors:
        scores: Vectors = np.clip((self._far - distances) / max(self._far - self._near, 1e-12), 0, 1)
        return scores


class KindMatcher(Matcher):
    """Matches pictures by their kinds and by the user's own words.

    Several words are combined by the geometric mean of their scores, so that each of them matters.
    """

    def __init__(self, spaces: Spaces, words: Sequence["OwnWord"], among: Ids | None):
        self._words, self._among = words, among
        kinds = spaces.kinds
        self._blocks = [] if kinds is None else spaces.store.vectors.blocks(kinds.name)
        weights = np.array([own.term.weights for own in words])  # (t, classes)
        largest = weights.max(axis=1, keepdims=True)  # that of "snow" is .06, because no class is a kind of snow
        shares = np.array([[OUTRANKED if own.has_class else 1] for own in words])
        self._weights: Vectors = (shares * weights / np.maximum(largest, 1e-9)).astype(np.float32)

    def best(self, k: int) -> tuple[Ids, Vectors]:
        """Scan the kinds of all pictures."""
        others = self._without_kinds()
        best = others, self._combine(others, np.zeros((len(others), len(self._words)), np.float32))
        for block in self._blocks:
            best = _keep_best(*best, k)
            least = max(FLOOR, best[1].min()) if len(best[1]) == k else FLOOR
            scores = self._combine(block.ids, self._score_rows(block.X))  # (n,)
            allowed = scores >= least
            if block.dead is not None:
                allowed[block.dead] = False
            at = np.flatnonzero(allowed)
            if self._among is not None:
                at = at[np.isin(block.ids[at], self._among, assume_unique=True)]
            best = np.concatenate([best[0], block.ids[at]]), np.concatenate([best[1], scores[at]])
        return _keep_best(*best, k)

    def score(self, ids: Ids) -> Vectors:
        """Scores of any items."""
        S = np.zeros((len(ids), len(self._words)), np.float32)
        for block in self._blocks:
            places, inside = _places(block.ids, ids)
            if inside.any():
                S[inside] = self._score_rows(np.ascontiguousarray(block.X[places[inside]]))
        return self._combine(ids, S)

    def likely(self, ids: Ids) -> Rated:
        """The smallest of the probabilities of the words: that of a label or of the kinds of the word.

        Raises InputError for a word that is only similar to known kinds, because nothing is known about its matches.
        """
        vague = next((own for own in self._words if not own.term.kinds and not len(own.ids)), None)
        if vague is not None:
            raise InputError(
                f"The likelihood of {vague.meaning.text!r} is unknown: it is not a kind of picture that the network"
                " recognizes and no label. Leave out the likelihood, or use another word."
            )
        S = np.zeros((len(ids), len(self._words)))
        masks = np.stack([_kinds_mask(own.term) for own in self._words], axis=1).astype(np.float32)  # (classes, t)
        for block in self._blocks:
            places, inside = _places(block.ids, ids)
            numbers, probabilities = decode_kinds(as_stored(block.X[places[inside]]))  # (m, 16)
            S[inside] = np.einsum("ij,ijt->it", probabilities, masks[numbers]).clip(0, 1)
        return Rated(
            _with_own_shares(ids, S, self._words).min(axis=1), _sources(self._words, ["the network's probabilities"])
        )

    def _score_rows(self, rows: Any) -> Vectors:
        return score_kinds(rows, self._weights)

    def _combine(self, ids: Ids, S: Vectors) -> Vectors:
        """The scores (n,) of items, ascending, whose kinds have the scores S (n, t)."""
        S = _with_own_words(ids, S, self._words)
        if S.shape[1] == 1:
            return S[:, 0]
        scores: Vectors = np.exp(np.log(np.maximum(S, FLOOR)).mean(axis=1))
        return scores

    def _without_kinds(self) -> Ids:
        """Items that match the user's own words and have no kinds."""
        ids = np.unique(np.concatenate([own.ids for own in self._words]))
        if self._among is not None:
            ids = np.intersect1d(ids, self._among, assume_unique=True)
        for block in self._blocks:
            live = block.live_rows(ids)
            ids = np.setdiff1d(ids, block.ids[live], assume_unique=True)
        return ids


class TextMatcher(NearMatcher):
    """Matches pictures by a space with a text encoder, and by the user's own words."""

    def __init__(self, space: Space, text: "ReadText", among: Ids | None):
        super().__init__(space, space.query(space.chain.embed_text([text.text])), among)
        self._words = text.words

    def best(self, k: int) -> tuple[Ids, Vectors]:
        """The nearest candidates, and those that match the user's own words."""
        own = np.unique(np.concatenate([word.ids for word in self._words]))
        if self._among is not None:
            own = np.intersect1d(own, self._among, assume_unique=True)
        ids = np.union1d(super().best(max(k, CANDIDATES))[0], own)
        return _keep_best(ids, self.score(ids), k)

    def score(self, ids: Ids) -> Vectors:
        """Scores of any items. The text is one thing, so the mean of the scores of its own words counts."""
        S = np.repeat(super().score(ids)[:, None], len(self._words), axis=1)
        scores: Vectors = _with_own_words(ids, S, self._words).mean(axis=1)
        return scores

    def likely(self, ids: Ids) -> Rated:
        """The probabilities by distance, or those of labels that match a word of the text."""
        by_distance = super().likely(ids)
        S = np.repeat(by_distance.shares[:, None], len(self._words), axis=1)
        return Rated(_with_own_shares(ids, S, self._words).max(axis=1), _sources(self._words, by_distance.sources))


class OwnWord(NamedTuple):
    """A word with the pictures that the user's own words connect with it."""

    term: Term
    meaning: Meaning
    ids: Ids  # (m,) ascending
    scores: Vectors  # (m,)

    @property
    def has_class(self) -> bool:
        """Whether a class with enough pictures has this name."""
        return max(self.meaning.labels.values(), default=0) >= ENOUGH


class ReadText(NamedTuple):
    """A text with its words."""

    text: str
    words: list[OwnWord]


def _make_matcher(spaces: Spaces, space: Space | None, text: ReadText, *, among: Ids | None) -> Matcher:
    """The matcher of one text; raises InputError if no source knows any of its words."""
    if space is not None:
        return TextMatcher(space, text, among)
    known = [own for own in text.words if own.meaning.is_known]
    if not known:
        raise InputError(_explain_unknown(text))
    if not any(len(own.ids) for own in known) and _lacks_kinds(spaces):
        advice = "Read the pictures again to recognize them: lookalike refresh"
        if spaces.recognizer is None:
            advice = "Add the recipe deep, which recognizes kinds of pictures: lookalike add FOLDER --recipe deep"
        raise InputError(f"No picture was recognized yet, and no label, folder or file has these words. {advice}")
    return KindMatcher(spaces, known, among)


def _lacks_kinds(spaces: Spaces) -> bool:
    """Whether there are pictures and the network has recognized none, as in a collection of an older version."""
    kinds = spaces.kinds
    return kinds is None or (not spaces.store.vectors.blocks(kinds.name) and len(spaces.store.items) > 0)


def _explain_unknown(text: ReadText) -> str:
    if not split_words(text.text):
        return (
            f"{text.text!r} has no letters, and searches by words ignore all other characters. To find a number in a"
            " path, filter by path, such as '*2019*'; to find one in a label, filter by label."
        )
    similar = list(dict.fromkeys(word for own in text.words for word in own.meaning.suggestions))
    hint = f" Similar words: {', '.join(similar)}." if similar else ""
    return (
        f"{text.text!r} is unknown: the network has not learned it, and it is not a label, part of a folder's or"
        f" file's name, or text that was read in a picture.{hint} Search with a picture, or use your own CLIP:"
        " lookalike clip --help"
    )


def _text_space(spaces: Spaces, space: Space | None) -> Space | None:
    """The space that encodes words: the given one if it can, otherwise the first that can; None if none can."""
    candidates = [*([] if space is None else [space]), *spaces]
    return next((one for one in candidates if one.takes_text and len(one)), None)


def _read(spaces: Spaces, text: str, encoder: Space | None) -> ReadText:
    """Read a text into words, and find the pictures that the user's own words connect with them.

    `encoder` is the space that encodes the text, if there is one.
    """
    if not isinstance(text, str) or not 0 < len(text.strip()) <= MAX_CHARACTERS:
        raise InputError(f"Words must have 1 to {MAX_CHARACTERS} characters. Got {text!r:.80}.")
    counts = spaces.store.judgements.classes.counts()
    terms = Words.load().read(text)
    given = terms or Words.load().read(text, stop_words=True)  # a label or folder can be named "Will" or "May"
    words = [_find_own(spaces, term, counts, encoder) for term in given]
    if not terms and not any(len(word.ids) for word in words):
        raise InputError(f"{text!r} has no word to search for. Give nouns, such as: dog, red car, beach.")
    return ReadText(text, words)


def _find_own(spaces: Spaces, term: Term, counts: dict[str, int], encoder: Space | None) -> OwnWord:
    store = spaces.store
    wanted = [_spellings(name) for name in {term.text, term.lemma or term.text}]
    labels = {label: n for label, n in counts.items() if any(_contains(label, words) for words in wanted)}
    spellings = _spellings(term.text)
    named, texts = _find_paths(store, spellings), store.items.with_text_words(spellings)
    paths = np.union1d(named, texts)
    scores: dict[int, float] = {}
    for label in labels:
        for predicted in store.judgements.predictions.of(label):
            scores[predicted.item] = max(scores.get(predicted.item, 0.0), predicted.probability)
    for label in labels:
        scores.update(dict.fromkeys(store.judgements.items_with(label).tolist(), 1.0))
    labelled = store.items.existing(scores)  # labels stay when a picture is removed
    ids = np.union1d(paths, labelled)
    values = np.where(_places(paths, ids)[1], np.float32(PATH_SCORE), np.float32(0))
    at = np.searchsorted(ids, labelled)
    values[at] = np.maximum(values[at], np.array([scores[item] for item in labelled.tolist()], np.float32))
    space = None if encoder is None else encoder.name
    meaning = Meaning(term.text, term.lemma, term.kinds, labels, len(named), len(texts), space=space)
    if not meaning.is_known:
        meaning = replace(meaning, suggestions=term.suggestions)
    return OwnWord(term, meaning, ids, values)


def _find_paths(store: Store, words: Sequence[set[str]]) -> Ids:
    """Items, ascending, with all of these words in the name of a file, or of a folder below a source."""
    ids, sources = store.items.with_path_words(words), store.items.sources()
    above = {root_of(source).rpartition("/")[0] for source in sources} | {str(store.path)}
    outside = set(split_words(" ".join(above)))  # words of folders that do not count
    if not any(outside & spellings for spellings in words) and not any(map(is_list, sources)):
        return ids
    relative = relative_to(sources)
    found = {item for item, path in store.items.paths_of(ids.tolist()) if _contains(relative(path), words)}
    return np.array(sorted(found), np.int64)


def _contains(name: str, words: Sequence[set[str]]) -> bool:
    """Whether a label or path has one of the spellings of each word.

    >>> _contains("Holiday 2024/IMG_beaches2.jpg", _spellings("beach")), _contains("carpet.jpg", _spellings("car"))
    (True, False)
    """
    parts = set(split_words(name))
    return bool(words) and not any(spellings.isdisjoint(parts) for spellings in words)


def _spellings(text: str) -> list[set[str]]:
    """The spellings of each word of a text, without the 's of a possessive: "grandma's" also finds "My Grandma".

    >>> [sorted(spellings) for spellings in _spellings("Fire engines")]
    [['fire', 'fires'], ['engine', 'engines', 'engineses']]
    """
    return [Words.load().spellings(word) for word in split_words(POSSESSIVE.sub("", text))]


def _with_own_words(ids: Ids, S: Vectors, words: Sequence[OwnWord]) -> Vectors:
    """Combine the network's scores S (n, t) of items, ascending, with the scores of the user's own words."""
    combined = (OWN_SHARE * NETWORK_SHARE + 1 - OWN_SHARE) * S
    for column, own in enumerate(words):
        places, inside = _places(ids, own.ids)
        at = places[inside]
        best = np.maximum(own.scores[inside], NETWORK_SHARE * S[at, column])
        combined[at, column] = OWN_SHARE * best + (1 - OWN_SHARE) * S[at, column]
    return combined


def _with_own_shares(ids: Ids, S: Shares, words: Sequence[OwnWord]) -> Shares:
    """Raise the probabilities S (n, t) of items, ascending, that have the user's own words."""
    S = S.copy()
    for column, own in enumerate(words):
        places, inside = _places(ids, own.ids)
        S[places[inside], column] = np.maximum(S[places[inside], column], own.scores[inside])
    return S


def _sources(words: Sequence[OwnWord], others: list[str]) -> list[str]:
    return ["labels", "paths", *others] if any(len(own.ids) for own in words) else others


def _kinds_mask(term: Term) -> NDArray[np.bool_]:
    """Which classes (1000,) are the word or a kind of it, in the most frequent sense that has any."""
    weights = term.weights
    mask: NDArray[np.bool_] = (weights >= SAME_SENSE * weights.max()) & (term.kinds > 0)
    return mask


def _places(among: Ids, ids: Ids) -> tuple[Ids, Any]:
    """The places (m,) of ids (m,) in `among`, ascending, and a mask of the ids that it contains."""
    places = np.searchsorted(among, ids).clip(0, max(0, len(among) - 1))
    return places, among[places] == ids if len(among) else np.zeros(len(ids), np.bool_)


def _keep_best(ids: Ids, scores: Vectors, k: int) -> tuple[Ids, Vectors]:
    """The k best ids with a score above 0, best first, ties by smaller id."""
    if len(ids) > k:
        least = np.partition(scores, len(scores) - k)[len(scores) - k]
        kept = np.flatnonzero(scores >= least)
        ids, scores = ids[kept], scores[kept]
    order = np.lexsort((ids, -scores))[:k]
    order = order[scores[order] > 0]
    return ids[order], scores[order]
