"""Write the table of words that is part of the package: src/lookalike/classes/wordnet.npz, and WordNet's licence.

    apt-get download wordnet-base && dpkg -x wordnet-base_*.deb wordnet
    pip download --no-deps timm && unzip timm-*.whl timm/data/_info/imagenet_synsets.txt
    python tools/word_table.py --wordnet wordnet/usr/share/wordnet --classes timm/data/_info/imagenet_synsets.txt

WordNet must be version 3.0: its synsets (sets of synonyms) are numbered by their place in `data.noun`, and ImageNet
names its classes by these numbers. Classes are sorted by them, which is also the order of the network's outputs.

The table contains the nouns that say something about the classes:

1. nouns with a class below them, or with a specific noun in common with a class (`FLOOR`),
2. nouns in the names and definitions of the classes, if they name something visible,
3. other animals and plants whose definition contains a noun of the first kind: a kitten is "a young domestic cat".

The output depends only on the input: the same files give the same bytes with the same versions of Python and NumPy.
"""

import argparse
import math
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from lookalike.classes.words import KIND, MENTIONED, RELATED, RELATIVE, SENSES, SEPARATORS, STOP_WORDS, singulars

OUT = Path(__file__).parents[1] / "src" / "lookalike" / "classes" / "wordnet.npz"

FLOOR = 0.4
"""Similarity to a class from which a sense of a word counts. "Happiness" has one of 0.2 to the nearest class."""
PERSON, HOMO = "00007846", "02472293"
"""Synsets. We move the genus Homo from the primates to the persons: words for people must not find apes."""
OFFENSIVE = re.compile(
    r"ethnic slur|offensive (?:term|name|word)|disparag|derogatory|obscene|vulgar\b|insulting (?:term|name|word)"
)
"""Definitions of senses that are left out."""
VISIBLE = {
    "04": "act",
    "05": "animal",
    "06": "artifact",
    "08": "body",
    "13": "food",
    "14": "group",
    "15": "location",
    "17": "object",
    "18": "person",
    "19": "phenomenon",
    "20": "plant",
    "27": "substance",
}
"""WordNet's files of nouns whose first sense can be seen. Not among them: attribute, feeling, time and others."""
NOT_NOUNS = STOP_WORDS | {"can", "down"}
"""Words of definitions that are not nouns there, although they are more often nouns in WordNet's texts."""
LIVING = {"05", "20"}
"""Files of nouns whose own definitions count. Definitions of artifacts mention their parts and uses, which say less
about what they look like."""
LEVELS = 16
"""Levels of frequency among words of the same kind, on a logarithmic scale."""


@dataclass(frozen=True)
class Synset:
    """A sense of one or more words."""

    lemmas: list[str]
    parents: list[str]
    is_instance: bool
    file: str
    definition: str


class WordNet:
    """WordNet's nouns, and the frequency of its words."""

    def __init__(self, folder: Path):
        self.synsets = dict(_read_synset(line) for line in _lines(folder / "data.noun"))
        self.synsets[HOMO].parents[:] = [PERSON]
        self.senses: dict[str, list[str]] = {}
        for line in _lines(folder / "index.noun"):
            lemma, _, count, *rest = line.split()
            self.senses[lemma.replace("_", " ")] = rest[-int(count) :]
        self.irregular: dict[str, list[str]] = {}
        for line in _lines(folder / "noun.exc"):
            plural, *forms = line.split()
            self.irregular[plural] = forms
        self.counts: dict[str, Counter[str]] = {}  # of each lemma, by part of speech; 1 is nouns
        for line in _lines(folder / "cntlist.rev"):
            key, _, count = line.split()
            lemma, _, rest = key.partition("%")
            self.counts.setdefault(lemma.replace("_", " "), Counter())[rest[0]] += int(count)

    def above(self, synset: str) -> list[str]:
        """Return the synset and all above it, nearest first."""
        found, level = {}, [synset]
        while level:
            found.update(dict.fromkeys(level))
            level = [parent for one in level for parent in self.synsets[one].parents if parent not in found]
        return list(found)

    def depth(self, synset: str) -> int:
        """Return the length of the longest path from the root."""
        return max((1 + self.depth(parent) for parent in self.synsets[synset].parents), default=0)

    @cached_property
    def information(self) -> dict[str, float]:
        """Information content of each synset: 0 for the root, 1 for one with no other below it."""
        below = Counter(one for synset in self.synsets for one in self.above(synset))
        return {synset: 1 - math.log(below[synset]) / math.log(len(self.synsets)) for synset in self.synsets}

    def lemma(self, word: str) -> str | None:
        """Return the most frequent noun of which the word can be a form."""
        forms = [word, *self.irregular.get(word, []), *singulars(word)]
        return max((form for form in forms if form in self.senses), key=self.frequency, default=None)

    def frequency(self, lemma: str) -> int:
        """Number of times the noun occurs in WordNet's texts."""
        return self.counts.get(lemma, Counter())["1"]

    def is_visible(self, lemma: str) -> bool:
        """Is the word usually a noun, and does its first sense name something that can be seen?"""
        counts = self.counts.get(lemma, Counter())
        return self.frequency(lemma) == max(counts.values(), default=0) and (
            self.synsets[self.senses[lemma][0]].file in VISIBLE
        )

    def kinds(self, lemma: str) -> list[str]:
        """Return the senses of a noun that are kinds of things, not instances such as persons and places."""
        return [sense for sense in self.senses[lemma] if not self.synsets[sense].is_instance]

    def nouns(self, synset: str) -> list[str]:
        """Return the visible nouns in the names and the definition of a synset."""
        text = " ".join([*self.synsets[synset].lemmas, self.synsets[synset].definition])
        words = re.findall(r"[a-z]{3,}", text.lower())
        lemmas = [self.lemma(word) for word in words if word not in NOT_NOUNS]
        return list(dict.fromkeys(lemma for lemma in lemmas if lemma and self.is_visible(lemma)))


class Table:
    """What each word means to the network: nodes of the hierarchy above the classes, with the codes of `words.py`."""

    def __init__(self, wordnet: WordNet, classes: list[str]):
        self.wordnet = wordnet
        self.classes = classes
        self.class_counts = Counter(above for synset in classes for above in wordnet.above(synset))
        self.nodes = sorted(self.class_counts)
        self.node = {synset: node for node, synset in enumerate(self.nodes)}
        by_senses = {lemma: self._by_senses(lemma) for lemma in wordnet.senses}
        self.meanings = {lemma: found for lemma, found in by_senses.items() if found}
        for synset in classes:
            for lemma in wordnet.nouns(synset):
                self.meanings.setdefault(lemma, []).append((self.node[synset], MENTIONED))
        for lemma in wordnet.senses.keys() - self.meanings.keys():
            if found := self._by_definition(lemma, by_senses):
                self.meanings[lemma] = found

    def _by_senses(self, lemma: str) -> list[tuple[int, int]]:
        """Return the senses that are nodes, and the nodes right above senses near a class. Instances do not count.

        Of the senses after the first ones, only the classes count. They count like the last of the first ones.
        """
        found = []
        for place, sense in enumerate(self.wordnet.kinds(lemma)):
            rank = min(place, SENSES - 1)
            if (place > rank and sense not in self.classes) or OFFENSIVE.search(self.wordnet.synsets[sense].definition):
                continue
            if sense in self.node:
                found.append((self.node[sense], KIND + rank))
                continue
            nodes = [above for above in self.wordnet.above(sense) if above in self.node]
            if RELATIVE * max((self.wordnet.information[node] for node in nodes), default=0) >= FLOOR:
                higher = {above for node in nodes for above in self.wordnet.above(node)[1:]}
                found += [(self.node[node], RELATED + rank) for node in nodes if node not in higher]
        return found

    def _by_definition(self, lemma: str, by_senses: dict[str, list[tuple[int, int]]]) -> list[tuple[int, int]]:
        """Return the nodes that the definition of the first sense mentions; nothing for names."""
        first = self.wordnet.senses[lemma][0]
        synset = self.wordnet.synsets[first]
        is_name = synset.is_instance or lemma not in synset.lemmas or " " in lemma
        if is_name or synset.file not in LIVING or OFFENSIVE.search(synset.definition):
            return []
        nodes = [
            node
            for noun in self.wordnet.nouns(first)
            for node, code in by_senses[noun]
            if code < RELATED and self.wordnet.synsets[self.nodes[node]].file == synset.file
        ]
        return [
            (n, MENTIONED) for n in dict.fromkeys(nodes) if RELATIVE * self.wordnet.information[self.nodes[n]] >= FLOOR
        ]

    def level(self, lemma: str) -> int:
        """How useful a word is: names of kinds of classes first, then frequent words."""
        code = min(code for _, code in self.meanings[lemma])
        kind = 2 if code < RELATED else 1 if code < MENTIONED else 0
        return kind * LEVELS + min(LEVELS - 1, round(math.log2(1 + self.wordnet.frequency(lemma))))

    def lemmas(self) -> list[str]:
        """Return the most useful of the lemmas that differ only in spaces, hyphens and similar, sorted without them."""
        best = {}
        for lemma in sorted(self.meanings, key=lambda lemma: (-self.level(lemma), lemma)):
            best.setdefault(lemma.translate(SEPARATORS), lemma)
        # Most words of two letters are abbreviations: "ga" is tabun.
        keys = [key for key in best if len(key) > 2 or (len(key) == 2 and self.wordnet.frequency(best[key]))]
        return [best[key] for key in sorted(keys) if key not in STOP_WORDS]

    def irregular(self, lemmas: list[str]) -> list[str]:
        """Return "plural singular" for each irregular plural, unless it is also another word: "cola" is not "colon"."""
        levels = {lemma: self.level(lemma) for lemma in lemmas}
        found = []
        for plural, (form, *_) in sorted(self.wordnet.irregular.items()):
            other = max(levels.get(reading, -1) for reading in (plural, *singulars(plural)))
            if re.fullmatch("[a-z]+ [a-z]+", f"{plural} {form}") and other < min(LEVELS, levels.get(form, -1)):
                found.append(f"{plural} {form}")
        return found

    def class_names(self) -> list[str]:
        """Return the first lemma of each class; if two classes have the same, with the first lemma of its parent."""
        synsets = [self.wordnet.synsets[synset] for synset in self.classes]
        shared = Counter(synset.lemmas[0].lower() for synset in synsets)
        return [
            f"{s.lemmas[0]} ({self.wordnet.synsets[s.parents[0]].lemmas[0]})"
            if shared[s.lemmas[0].lower()] > 1
            else s.lemmas[0]
            for s in synsets
        ]

    def node_names(self) -> list[str]:
        """Return "dog.n.01" for the first sense of "dog"."""
        names = []
        for synset in self.nodes:
            lemma = self.wordnet.synsets[synset].lemmas[0].lower()
            names.append(f"{lemma.replace(' ', '_')}.n.{self.wordnet.senses[lemma].index(synset) + 1:02}")
        return names

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """Return the arrays of the file."""
        lemmas = self.lemmas()
        meanings = [self.meanings[lemma] for lemma in lemmas]
        lowest_first = sorted(self.nodes, key=self.wordnet.depth, reverse=True)
        parents = [
            (self.node[s], self.node[parent]) for s in lowest_first for parent in self.wordnet.synsets[s].parents
        ]
        return {
            "nodes": _text(self.node_names()),
            "parents": np.array(parents, np.uint16),
            "information": np.array([self.wordnet.information[synset] for synset in self.nodes], np.float32),
            "classes": np.array([self.node[synset] for synset in self.classes], np.uint16),
            "class_names": _text(self.class_names()),
            "lemmas": _text(lemmas),
            "levels": np.array([self.level(lemma) for lemma in lemmas], np.uint8),
            "counts": np.array([len(found) for found in meanings], np.uint8),
            "meaning_nodes": np.array([node for found in meanings for node, _ in found], np.uint16),
            "meaning_codes": np.array([code for found in meanings for _, code in found], np.uint8),
            "irregular": _text(self.irregular(lemmas)),
        }


def main() -> None:
    """Read the arguments and write both files."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wordnet", type=Path, required=True, help="folder with data.noun and the other files")
    parser.add_argument("--classes", type=Path, required=True, help="file with the ImageNet synset of each class")
    parser.add_argument("--out", type=Path, default=OUT, help="file to write, next to the licence")
    options = parser.parse_args()
    classes = [line.strip().removeprefix("n") for line in options.classes.read_text().splitlines()]
    if len(classes) != 1000 or classes != sorted(set(classes)):
        raise SystemExit(f"{options.classes} must have 1,000 sorted lines such as n01440764. Got {len(classes)} lines.")
    arrays = Table(WordNet(options.wordnet), classes).arrays()
    np.savez_compressed(options.out, **arrays)
    header = [line for line in (options.wordnet / "data.noun").read_text().splitlines() if line.startswith("  ")]
    licence = "\n".join(re.sub(r"^ +\d+ ?", "", line).rstrip() for line in header)
    options.out.with_name("wordnet-licence.txt").write_text(f"{licence}\n")
    words = len(arrays["levels"])
    sys.stdout.write(f"{options.out}: {words:,} words, {options.out.stat().st_size / 1e6:.2f} MB\n")


def _lines(path: Path) -> Iterator[str]:
    """Return the lines of a file of WordNet, without its licence."""
    return (line for line in path.read_text().splitlines() if not line.startswith("  "))


def _read_synset(line: str) -> tuple[str, Synset]:
    data, _, gloss = line.partition("|")
    synset, file, _, size, *rest = data.split()
    lemmas = [lemma.replace("_", " ") for lemma in rest[: 2 * int(size, 16) : 2]]
    pointers = rest[2 * int(size, 16) + 1 :]  # four words each: kind, synset, part of speech, words
    above = [(pointers[i], pointers[i + 1]) for i in range(0, len(pointers), 4) if pointers[i] in ("@", "@i")]
    definition = gloss.strip().split('; "')[0]  # without the examples
    return synset, Synset(lemmas, [s for _, s in above], any(kind == "@i" for kind, _ in above), file, definition)


def _text(lines: Iterable[str]) -> NDArray[np.uint8]:
    return np.frombuffer("\n".join(lines).encode("ascii"), np.uint8)


if __name__ == "__main__":
    main()
