"""Words as weights over the 1,000 ImageNet classes of the default network, with WordNet.

A word is compared with each class by Resnik's similarity in WordNet's hierarchy of nouns: the information content of
the most specific noun above both. P. Resnik, "Using information content to evaluate semantic similarity in a taxonomy",
IJCAI 1995. Classes whose definition mentions the word get a small weight: the definition of "lakeside" mentions "lake",
although a lakeside is not a kind of lake.

`tools/word_table.py` writes the table of words, `wordnet.npz`. WordNet's licence is in `wordnet-licence.txt`.
"""

import difflib
import heapq
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from lookalike.classes.hierarchy import Hierarchy
from lookalike.errors import InputError
from lookalike.limits import check_count
from lookalike.types import Vectors

MAX_CHARACTERS = 200
"""Maximum length of a text."""
MAX_WORDS = 6
"""Maximum number of words of a name, such as "polar bear"."""

SENSES = 4
"""Number of senses of a word that count."""
SENSE_DECAY = 0.9
"""Each sense counts this much of the sense before it: WordNet lists the most frequent sense first."""
RELATIVE = 0.9
"""Factor of Resnik's similarity, so that kinds of the word, with a similarity of 1, come first."""
LINKED = 0.7
"""Similarity, at least, of a class that a definition links with the word, and of a class below the most specific noun
above the word."""
POWER = 8
"""Exponent that turns similarities into weights."""

KIND, RELATED, MENTIONED = 0, SENSES, 2 * SENSES
"""Codes of meanings in the table. A meaning of a word is a node of the hierarchy and a code: KIND + r if the node is
sense r, RELATED + r if it is right above sense r, MENTIONED if a definition links the word with the node."""
SEPARATORS = str.maketrans("", "", " -'./")
"""Removes all characters of a lemma except letters and digits."""
SUGGESTIONS, SIMILAR = 3, 0.75
"""Maximum number of suggestions, and how similar they are at least, by difflib's ratio."""

STOP_WORDS = frozenset(
    re.findall(
        "[a-z]+",
        """`
        a about above all also am an and any are as at be been before behind being below beside between both but by
        could do does during each either enough for from had has have having he her here him his how i if in inside into
        is it its itself just like many may me more most much my near no nor now of off on one only onto or other
        our out outside over own s same self she should so some such than that the their them then there these they this
        those through to too under until up upon us very was we were what when where which while who whose will with
        within without would you your
        image images photo photograph photographs photos picture pictures
        `""",  # the backticks tell tests/test_language.py that this is not prose
    )
)
"""Words that `read` drops. Users who search for "a photo of a dog" search for "dog"."""

ENDINGS = (
    ("s", ""),
    ("ses", "s"),
    ("xes", "x"),
    ("zes", "z"),
    ("ches", "ch"),
    ("shes", "sh"),
    ("men", "man"),
    ("ies", "y"),
)
"""Endings of regular plurals, and what replaces them; WordNet's own rules."""


@dataclass(frozen=True)
class Term:
    """A word of a text, or several that form a name, and what it means to the network.

    Parameters
    ----------
    text : as typed.
    lemma : form in the dictionary; None if the word is unknown.
    kinds : number of the 1,000 classes that are this or a kind of it.
    weights : (1000,) float32 from 0 to 1, in class order; zeros if the word is unknown.
    suggestions : similar known words, if the word is unknown.

    """

    text: str
    lemma: str | None
    kinds: int
    weights: Vectors = field(compare=False, repr=False)
    suggestions: list[str]


class Words:
    """The nouns of WordNet that mean something to the default network. Use `Words.load()`.

    Parameters
    ----------
    table : arrays of `wordnet.npz`.

    Attributes
    ----------
    classes : readable name of each of the 1,000 classes, in class order.
    tree : WordNet's hierarchy of the classes and all nouns above them, such as "dog.n.01", the first sense of "dog".

    Examples
    --------
    >>> words = Words.load()
    >>> [(term.text, term.lemma, term.kinds) for term in words.read("Birds on a fire engine")]
    [('Birds', 'bird', 59), ('fire engine', 'fire engine', 1)]
    >>> bird, = words.read("bird")
    >>> words.classes[bird.weights.argmax()]
    'cock'
    >>> words.complete("polar b")
    ['polar bear']

    """

    def __init__(self, table: Mapping[str, NDArray[Any]]):
        names = _lines(table["nodes"])
        self.classes = _lines(table["class_names"])
        self.tree = Hierarchy((names[child], names[parent]) for child, parent in table["parents"].tolist())
        self._names = names
        self._information = table["information"]  # (nodes,)
        self._lemmas = _lines(table["lemmas"])
        self._keys = "\n".join(self._lemmas).translate(SEPARATORS).split("\n")  # sorted
        self._levels = table["levels"]
        self._ends = np.cumsum(table["counts"], dtype=np.int64)  # end of each lemma's meanings
        self._meanings = table["meaning_nodes"], table["meaning_codes"]
        self._irregular = dict(line.split(" ") for line in _lines(table["irregular"]))  # plural: singular
        self._node = {name: node for node, name in enumerate(names)}
        self._below = np.zeros((len(names), len(self.classes)), bool)  # (nodes, 1000): is the class below the node?
        self._below[table["classes"], np.arange(len(self.classes))] = True
        for child, parent in table["parents"].tolist():  # the lowest first
            self._below[parent] |= self._below[child]

    @classmethod
    @cache
    def load(cls) -> Self:
        """Return the table that is part of the package; it is read once."""
        with np.load(Path(__file__).with_name("wordnet.npz"), allow_pickle=False) as table:
            return cls(dict(table))

    def read(self, text: str, *, stop_words: bool = False) -> list[Term]:
        """Return the terms of a text in order, without stop words unless these are requested.

        Upper case, plurals, hyphens, underscores and punctuation do not matter. Words that form a name are one term.
        """
        if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
            raise InputError(f"A text must have at most {MAX_CHARACTERS} characters. Got {text!r:.80}.")
        terms = []
        for words in _phrases(text):
            start = 0
            while start < len(words):
                end, row = self._longest(words, start)
                if row is not None or stop_words or words[start].key not in STOP_WORDS:
                    terms.append(self._term(text[words[start].start : words[end - 1].end], words[start].key, row))
                start = end
        return terms

    def complete(self, prefix: str, k: int = 8) -> list[str]:
        """Return the k most useful known words that start with this prefix.

        Names of classes and of kinds of classes come first, then frequent words.
        """
        check_count("k", k)
        key = _key(prefix[:MAX_CHARACTERS])
        rows = range(bisect_left(self._keys, key), bisect_left(self._keys, key + "~")) if key else []
        return [self._lemmas[row] for row in heapq.nsmallest(k, rows, key=self._usefulness)]

    def spellings(self, word: str) -> set[str]:
        """Return a word in lower case, its singulars and plurals, and the plurals of its singulars.

        >>> sorted(Words.load().spellings("knives"))
        ['knife', 'knifes', 'knive', 'knives', 'kniveses']
        """
        forms = {word, self._irregular.get(word, word), *singulars(word)}
        irregular = {plural for plural, singular in self._irregular.items() if singular in forms}
        return forms.union(irregular, *map(plurals, forms))

    def hierarchy(self, names: Iterable[str]) -> Hierarchy:
        """Return the part of WordNet's hierarchy above these names of classes; unknown names have no parent.

        `OpenSet.use_hierarchy` accepts it, and then predicts classes with few images, or none, that are named by nouns.
        A name of several words counts as its last known noun: "my old car" is a car.

        >>> Words.load().hierarchy(["my poodle"]).ancestors("my poodle")[:3]
        ['poodle.n.01', 'dog.n.01', 'canine.n.02']
        """
        pairs: dict[tuple[str, str], None] = {}
        for name in names:
            found = [nodes for term in self.read(name[:MAX_CHARACTERS]) if (nodes := self._first_sense(term.lemma))]
            for node in found[-1] if found else []:
                pairs[name, self._names[node]] = None
                for above in self._line(node):
                    child = self._names[above]
                    pairs.update(dict.fromkeys((child, parent) for parent in self.tree.parents.get(child, [])))
        return Hierarchy(pair for pair in pairs if pair[0] != pair[1])

    def _longest(self, words: Sequence["_Word"], start: int) -> tuple[int, int | None]:
        """Return the end of the longest name that starts here, and its row; of the first word if there is none."""
        for end in range(min(len(words), start + MAX_WORDS), start + 1, -1):
            row = self._find("".join(word.key for word in words[start : end - 1]), words[end - 1].key)
            if row is not None and not (
                {words[start].key, words[end - 1].key} & STOP_WORDS
                and len(re.split("[ -]", self._lemmas[row])) != end - start  # "the rapist", "cab in a forest"
            ):
                return end, row
        key = words[start].key
        return start + 1, None if key in STOP_WORDS else self._find("", key)

    def _find(self, head: str, last: str) -> int | None:
        """Return the row of a name whose last word can be a plural."""
        forms = [self._irregular.get(last, last), last, *singulars(last)]
        return next((row for form in forms if (row := self._row(head + form)) is not None), None)

    def _row(self, key: str) -> int | None:
        row = bisect_left(self._keys, key)
        return row if row < len(self._keys) and self._keys[row] == key else None

    def _term(self, text: str, key: str, row: int | None) -> Term:
        if row is None:
            return Term(text, None, 0, np.zeros(len(self.classes), np.float32), self._similar(key))
        best, kinds = np.zeros(len(self.classes)), np.zeros(len(self.classes), bool)
        for node, code in self._meaning(row):
            below = self._below[node]
            similarity = LINKED * below  # (1000,)
            if code < MENTIONED:
                line = self._line(node)
                resnik = RELATIVE * (self._information[line, None] * self._below[line]).max(0)
                similarity = SENSE_DECAY ** (code % SENSES) * np.maximum(similarity, resnik)
            if code < RELATED:
                similarity[below] = SENSE_DECAY**code
                kinds |= below
            best = np.maximum(best, similarity)
        return Term(text, self._lemmas[row], int(kinds.sum()), (best**POWER).astype(np.float32), [])

    def _meaning(self, row: int) -> list[tuple[int, int]]:
        """Return the meanings of a lemma: nodes and codes."""
        part = slice(self._ends[row - 1] if row else 0, self._ends[row])
        nodes, codes = self._meanings
        return list(zip(nodes[part].tolist(), codes[part].tolist(), strict=True))

    def _first_sense(self, lemma: str | None) -> list[int]:
        """Return the node of the first sense, or the nodes above it."""
        row = None if lemma is None else self._row(_key(lemma))
        senses = [] if row is None else [(code % SENSES, node) for node, code in self._meaning(row) if code < MENTIONED]
        return [node for rank, node in senses if rank == min(senses)[0]]

    def _line(self, node: int) -> list[int]:
        """Return the node and all nodes above it."""
        name = self._names[node]
        return [node, *(self._node[above] for above in self.tree.ancestors(name))]

    def _similar(self, key: str) -> list[str]:
        """Return known words with the same first letter and nearly the same letters."""
        if len(key) < 3:
            return []
        rows = range(bisect_left(self._keys, key[0]), bisect_left(self._keys, key[0] + "~"))
        near = {self._keys[row]: row for row in rows if abs(len(self._keys[row]) - len(key)) <= 2}
        found = difflib.get_close_matches(key, near, SUGGESTIONS, SIMILAR)
        return [self._lemmas[near[one]] for one in found]

    def _usefulness(self, row: int) -> tuple[int, int, int]:
        return -int(self._levels[row]), len(self._keys[row]), row


def singulars(plural: str) -> list[str]:
    """Return what the singular of a regular plural can be.

    >>> singulars("glasses")
    ['glasse', 'glass']
    """
    if plural.endswith("ss"):
        return []
    return [plural.removesuffix(end) + new for end, new in ENDINGS if plural.endswith(end) and plural != end]


def plurals(singular: str) -> list[str]:
    """Return the words that `singulars` reduces to this one.

    >>> plurals("glass"), plurals("story")
    (['glasses'], ['storys', 'stories'])
    """
    words = [singular.removesuffix(new) + end for end, new in ENDINGS if singular.endswith(new)]
    return [word for word in words if singular in singulars(word)]


@dataclass(frozen=True)
class _Word:
    """A word of a text: its place, and its letters and digits without accents."""

    start: int
    end: int
    key: str


def _phrases(text: str) -> Iterator[list[_Word]]:
    """Split a text into words. Names never continue across punctuation other than hyphens, underscores and periods."""
    flat = "".join(_classify(c) for c in text)
    for phrase in re.finditer(r"[^,]+", flat):
        found = re.finditer(r"[^\s'](?:\S*[^\s'])?", phrase[0])
        spans = [(phrase.start() + word.start(), phrase.start() + word.end()) for word in found]
        yield [_Word(start, end, _key(text[start:end])) for start, end in spans]


def _classify(c: str) -> str:
    """Return a space, comma or apostrophe if the character separates words, phrases or letters, else the character."""
    if c.isspace() or c in "-_.":
        return " "
    if c in "'’":
        return "'"
    category = unicodedata.category(c)
    return "," if category[0] in "PZC" or category in ("Sm", "Sc", "Sk") else c


def _key(text: str) -> str:
    """Return the letters and digits of a text in lower case, without accents and spaces.

    >>> _key("Fire-engine"), _key("Éclair")
    ('fireengine', 'eclair')
    """
    return "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if c.isalnum())


def _lines(text: NDArray[np.uint8]) -> list[str]:
    return text.tobytes().decode("ascii").split("\n")
