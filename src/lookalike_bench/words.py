"""Words: how well searches by words rank real pictures, and how feedback sessions that start from a word proceed.

The words are the annotations of corel5k that at least 20 pictures have; a picture has up to five. Lookalike never reads
them: they only decide which pictures are relevant. The benchmark creates a collection with the recipe `deep`, in which
the names of files and folders say nothing, and uses `Collection.search` and `Collection.simulate`.

Rows of `map` and `p20`: a search by the word (`wordnet`), by one or five random pictures that have it, mean of 5 draws,
and a random order (`chance`). Pictures that a search by words leaves out follow in random order, and so do all pictures
if the word is unknown; values are exact means over these orders. Examples do not count. Rows of `precision-N`: sessions
with an emulated user that start from the word or from one random picture that has it. Precision is the share of the
relevant pictures among the first n, for n relevant ones, after N rounds of 9 marks. No session can start from an
unknown word, so both rows leave these words out; `kinds-precision-N` is the mean over the words that are kinds of
pictures that the network recognizes.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from lookalike.collection import Collection
from lookalike.errors import InputError
from lookalike.types import Ids, Progress, format_id
from lookalike_bench import datasets
from lookalike_bench.measures import Values, bootstrap, mean, tied_average_precision, tied_precision
from lookalike_bench.tables import Bench, Score
from lookalike_bench.vectors import cached_collection

DATASET, RECIPE = "corel5k", "deep"
LEAST = 20
"""Minimum number of pictures with a word."""
DRAWS, SESSION_DRAWS = 5, 3
"""Random draws of examples per word, of searches and of sessions."""
FIRST = 20
"""Number of results that `p20` counts."""
ROUNDS = 6
EXAMPLES = {"one-example": 1, "five-examples": 5}
SESSIONS = ("session-from-word", "session-from-example")
ROWS = ("wordnet", "chance", *EXAMPLES, *SESSIONS)
MEASURES = {"map": "mAP", "p20": f"P@{FIRST}", "unknown": "unknown words"}
CURVES = [f"{name}-{turn}" for name in ("precision", "kinds-precision") for turn in range(ROUNDS + 1)]
COLUMNS = [f"{DATASET}/{name}" for name in (*MEASURES, *CURVES)]
_DONE: dict[tuple[Path, str, int], dict[str, Values]] = {}
"""Values per word that this process has measured, by measure."""


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """Fill one cell. `seed` seeds the draws of examples and the bootstrap."""
    name = column.partition("/")[2]
    key = data, row, seed
    if key not in _DONE:
        dataset = datasets.load(DATASET, data)
        with cached_collection(dataset, RECIPE, progress) as collection:
            relevant = find_relevant(collection, datasets.corel5k_words(data))
            measure = measure_sessions if row in SESSIONS else measure_rankings
            _DONE[key] = measure(row, collection, relevant, seed, progress)
    values = _DONE[key][name]
    if name == "unknown":
        return Score(MEASURES[name], float(values.sum()), float(values.sum()), float(values.sum()), scored=0)
    low, high = bootstrap(values, seed=seed)
    return Score(MEASURES.get(name, "precision"), mean(values), low, high, scored=0)


def find_relevant(collection: Collection, words: dict[str, list[str]]) -> dict[str, Ids]:
    """Ids, ascending, of the pictures that have each word; `words` are those of a picture by the stem of its name."""
    found: dict[str, set[int]] = {}
    for item in collection.items():
        for path in item.paths:
            for word in words[PurePosixPath(path).stem]:
                found.setdefault(word, set()).add(item.id)
    return {word: np.array(sorted(ids), np.int64) for word, ids in sorted(found.items()) if len(ids) >= LEAST}


def measure_rankings(
    row: str, collection: Collection, relevant: dict[str, Ids], seed: int, progress: Progress
) -> dict[str, Values]:
    """Average precision and precision of each word, and whether its search found nothing."""
    values, n = [], len(collection)
    for done, (word, ids) in enumerate(relevant.items(), 1):
        listed = search(collection, word) if row == "wordnet" else []
        rated = [rate(ids, listed, n)]
        if row in EXAMPLES:
            rated = [rate_examples(collection, ids, drawn) for drawn in draw_examples(ids, EXAMPLES[row], seed, DRAWS)]
        values.append([*np.mean(rated, axis=0), not listed])
        progress("searching", done, len(relevant))
    return dict(zip(MEASURES, np.array(values, np.float64).T, strict=True))


def measure_sessions(
    row: str, collection: Collection, relevant: dict[str, Ids], seed: int, progress: Progress
) -> dict[str, Values]:
    """Precision after each round of each word that finds anything, and of those that are kinds of pictures."""
    curves, are_kinds = [], []
    for done, (word, ids) in enumerate(relevant.items(), 1):
        if search(collection, word):
            if row == "session-from-word":
                sessions = [simulate(collection, ids, words=word)]
            else:
                sessions = [simulate(collection, ids, drawn) for drawn in draw_examples(ids, 1, seed, SESSION_DRAWS)]
            curves.append(np.mean(sessions, axis=0))
            are_kinds.append(any(meaning.kinds for meaning in collection.understand(word)))
        progress("sessions", done, len(relevant))
    rounds = enumerate(np.transpose(curves))  # of (words,)
    return {
        name: values
        for turn, column in rounds
        for name, values in ((f"precision-{turn}", column), (f"kinds-precision-{turn}", column[are_kinds]))
    }


def search(collection: Collection, word: str) -> list[int]:
    """Ids of the pictures that a search by a word finds, best first; none if the word is unknown."""
    try:
        return [result.id for result in collection.search(words=word, k=len(collection))]
    except InputError:
        return []


def rate_examples(collection: Collection, relevant: Ids, examples: Sequence[int]) -> tuple[float, float]:
    """Rate a search by examples, which do not count."""
    n = len(collection)
    found = [result.id for result in collection.search(examples, k=n) if result.id not in examples]
    return rate(np.setdiff1d(relevant, examples), found, n - len(examples))


def simulate(
    collection: Collection, relevant: Ids, examples: Sequence[int] = (), words: Sequence[str] | str = ()
) -> Values:
    """Precision after each round, (ROUNDS + 1,), of a session in which these pictures are relevant."""
    with tempfile.NamedTemporaryFile("w", suffix=".csv") as labels:
        labels.write("".join(f"{line}\n" for line in ["id,label", *(f"{format_id(item)},yes" for item in relevant)]))
        labels.flush()
        session = collection.simulate(examples, words=words, label="yes", labels_from=labels.name, rounds=ROUNDS)
    values = [one.precision for one in session]
    return np.pad(values, (0, ROUNDS + 1 - len(values)), "edge")  # a session ends early if no questions are left


def draw_examples(relevant: Ids, count: int, seed: int, draws: int) -> list[list[int]]:
    """Random pictures, several times."""
    random = np.random.default_rng(seed)
    return [random.choice(relevant, count, replace=False).tolist() for _ in range(draws)]


def rate(relevant: Ids, listed: Sequence[int], n: int) -> tuple[float, float]:
    """Average precision, and precision of the first results, of a ranking of n pictures.

    Those that are not listed follow in random order; the values are means over all orders.
    """
    hits = np.isin(listed, relevant)
    groups = [[*np.ones_like(hits, int), n - len(hits)]], [[*hits.astype(int), len(relevant) - hits.sum()]]
    return float(tied_average_precision(*groups, n)[0]), float(tied_precision(*groups, FIRST)[0])


def has(row: str, column: str) -> bool:
    """Rankings and sessions have different measures."""
    name = column.partition("/")[2]
    if name == "unknown":
        return row == "wordnet"
    return (row in SESSIONS) == (name in CURVES)


def check(columns: Sequence[str], data: Path) -> None:  # noqa: ARG001 (all columns use the same dataset)
    """Raise an error before the first cell if the pictures or the words are missing."""
    datasets.check(DATASET, data)
    datasets.corel5k_words(data)


BENCH = Bench(
    "words",
    "searches and sessions by words",
    ROWS,
    COLUMNS,
    run,
    check,
    has=has,
    seconds=lambda _, column: 60.0 if column.endswith(("/map", "/precision-0")) else 0.1,
)
