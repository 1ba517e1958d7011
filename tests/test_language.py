"""Plain English: no text that a person reads may use the constructions in `REFUSED`.

The list covers the mistakes that this project made most often. It cannot tell good English from bad; a reviewer can.
To list every violation below another checkout: `python tests/test_language.py [CHECKOUT] [PATH_PREFIX]`.
"""

import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
UNITS = "second|minute|hour|day|picture|item|row|vector|round|query|search|question|file|line|page|core|class|session"
UNITS += "|request|thread|digit|user|client|token|address|space|number|dimension|bit|point|word|step|cell|term|label"

REFUSED = {
    r"\bby lot\b": "write: at random",
    r"\banew\b": "write: again, or refit, rebuild, redraw",
    r"\b(?:tell|tells|telling|told) (?:\w+ ){0,3}(?:apart|from)\b": "write: distinguish",
    r"\b(?:go|goes|going|went|gone) on\b": "write: continue, resume",
    r"\bas (?:they are|it is|they stand|it stands|they were|it was)(?=[.,;:)\]]|$)": "write: raw, unchanged, current",
    r"\bdrawn (?:rows|vectors|pictures|ones|collections?|images)\b": "write: synthetic, or sampled",
    r"\b(?:whoever|nobody|somebody|everybody|anybody)\b": "name the user, client, thread or process",
    r"(?:^|[.;:,] )[Ww]ho (?!is\b|are\b)\w+s\b": "name the user, client, thread or process",
    r"\bwish(?:es|ed)?\b": "write: target, option, request",
    rf"\b\d[\d,]*(?:\.\d+)?(?: (?!is\b)\w+)? an? (?:{UNITS})\b": "write: per",
    rf"\b(?:bytes?|bits|[kMG]B|ms|seconds|times|milliseconds|microseconds) an? (?:{UNITS})\b": "write: per",
    rf"\b(?:an?|one) (?:line|file|row|key|vector|picture|number|bit|panel|click) an? (?:{UNITS})\b": "write: per",
    r"\b(?:when|which|what) to take\b|\btake (?:it|this|them|one|which) (?:for|where|when|if)\b": "write: use",
    r"\b(?:is|are|was|were|be) there(?=[.,;:)\]]|$| (?:already|yet|alone|for)\b)": "write: exists, is available",
    r"\b(?:those|ones|all|what|as|memory|labels|pictures) there (?:is|are|were)\b": "write: existing, available",
    r"\b(?:says?|said|saying) (?:so|which|what|how|who|where|whether|why)\b": "write: show, list, report",
    r"\b(?:is|are|was|were|be) (?:also |only |not )?said\b": "write: reported, shown, specified",
    r"(?<!\bthere )\b(?:is|are) no (?!longer|more|less|better|worse|different|need|way|other|such)": "write: not a",
    r"\bbeside\b": "write: next to, with, alongside",
    r"\b(?:for ever|but for|the like|in the way)\b": "write: forever; except; and similar; an obstacle",
    r"\b(?:presumed|unwanted|courtesy|patience|gives? way|stands? still)\b": "use the glossary of the style guide",
    r"\b(?:became|become) of\b": "write: details, result",
    r"\bIn: [^.]*\. Out: ": "a header that repeats the signature",
}
"""What is refused, with what to do about it."""

BAD = (
    "Presumed irrelevant, as few were called so: 8 pictures drawn by lot.",
    "Vectors take about 4.6 kB a picture.",
    "one key a picture",
    "a line a round",
    "The map is being drawn anew.",
    "Commands that tell them apart.",
    "This page goes on by itself then.",
    "the rows as they are",
    "recall on drawn rows",
    "Nobody answers",
    "Who looks, waits.",
    "the most exact that meets the wish",
    "when to take which",
    "a class is there as soon as it is said",
    "alone: those there are.",
    "Say which class pictures are of.",
    "A port in use is said in one line",
    "This is no picture that can be read.",
    "What became of 3 files",
)
GOOD = (
    "Few negative examples so far; 8 random pictures serve as negatives.",
    "Vectors take about 4.6 kB per picture.",
    "Pictures have changed. Updating the map…",
    "There is no folder called that; there are no pictures in it.",
    "Is there a space whose vectors are exported?",
    "As it is written in the paper, the margin is 1.",
    "A user who is logged in takes a token from the file.",
    "It is no longer in the collection.",
    "Sort the pictures a second time.",
    "The exit code is 2. If a cell fails, there are fewer results than there are cells. Here, −1 is a class.",
)


def violations(text: str) -> list[str]:
    """The refused constructions in a text, each with the reason."""
    flat = re.sub(r"\s+", " ", text).strip()
    return [
        f"“…{flat[max(0, found.start() - 30) : found.end() + 20]}…”: {reason}"
        for pattern, reason in REFUSED.items()
        for found in re.finditer(pattern, flat, 0 if pattern.startswith("(?:^") else re.IGNORECASE)
    ]


def prose_of_markdown(text: str) -> Iterator[str]:
    """Paragraphs, list items and table cells, without code."""
    text = re.sub(r"^(```+).*?^\1", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"`[^`\n]*`", "CODE", text)
    yield from re.split(r"\n\s*\n|\n(?=\s*[-|#])|\|", text)


def prose_of_python(text: str) -> Iterator[str]:
    """String literals (docstrings, help, messages) and comments."""
    comment = ""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comment += token.string.lstrip("#")
            continue
        if token.type == tokenize.NL and comment:
            continue
        if comment:
            yield comment
            comment = ""
        if token.type == tokenize.STRING:
            text = re.sub(
                r"^\s*(?:>>>|\.\.\.) .*$", "", token.string.strip("rbfRBF\"'"), flags=re.MULTILINE
            )  # doctests
            yield re.sub(r"``?[^`]*``?|\{[^{}]*\}", "CODE", text)


def prose_of_script(text: str) -> Iterator[str]:
    """String literals and comments of a script of the page."""
    for found in re.finditer(r"//(.*)|/\*(.*?)\*/|\"([^\"\n]*)\"|'([^'\n]*)'|`([^`]*)`", text, re.DOTALL):
        yield re.sub(r"\$\{[^{}]*\}", "CODE", next(group for group in found.groups() if group is not None))


def prose_of_page(text: str) -> Iterator[str]:
    """Text and attributes of HTML."""
    yield from re.split(r"[<>\"]", text)


READERS = {".md": prose_of_markdown, ".py": prose_of_python, ".js": prose_of_script, ".html": prose_of_page}
PLACES = ("README.md", "CONTRIBUTING.md", "docs", "src", "examples", "benchmarks", "docs-build", "tools")


def files(root: Path) -> list[Path]:
    """Every file with text for people below a checkout."""
    found = [path for place in PLACES for path in [root / place, *(root / place).rglob("*")]]
    return sorted(path for path in found if path.suffix in READERS and path.is_file())


@pytest.mark.parametrize("path", files(ROOT), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_texts_are_plain_english(path):
    assert [found for text in READERS[path.suffix](path.read_text()) for found in violations(text)] == []


@pytest.mark.parametrize("sentence", BAD)
def test_the_mistakes_of_the_past_are_refused(sentence):
    assert violations(sentence)


@pytest.mark.parametrize("sentence", GOOD)
def test_plain_sentences_are_accepted(sentence):
    assert violations(sentence) == []


if __name__ == "__main__":
    checkout = Path(sys.argv[1] if len(sys.argv) > 1 else ROOT).resolve()
    for file in files(checkout):
        name = file.relative_to(checkout).as_posix()
        if name.startswith(sys.argv[2] if len(sys.argv) > 2 else ""):
            for prose in READERS[file.suffix](file.read_text()):
                for violation in violations(prose):
                    sys.stdout.write(f"{name}: {violation}\n")
