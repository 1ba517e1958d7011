"""Feedback: how many marks an emulated person needs, by our methods and by those of others. Figures 4–7 of fsm-tree.

In: methods × (image set, measure). Out: precision after a round, marks until 80 %, the share of the collection that the
search for questions scored, milliseconds of a round. Crucianu et al. (fsm-tree), §4.

Protocol, that of the paper. A session wants one class of n items. It begins with one of them and 8 random others; each
round asks about 9. Precision: the share of the class among the n items ranked first. `marks-80` is the mean of the
marks given when the precision of a session first is 80 %; one that never is there counts as a window more than it had.
The ranking is always exact; `pac` and `fast` search for their questions. `scored` is the share of the set that one
search for frontier questions scored. Defaults were chosen on classes 0, 2, 4 … of corel5k, mnist and coil100; sessions
here want classes 1, 3, 5 …, in turn. The paper's 52 hardest COIL objects are not named: ours are the 52 with the lowest
leave-one-out mAP by the classic descriptor. `mnist` is the 60,000 training digits, pixels by PCA to 64 dimensions.
"""

import gzip
import io
import logging
import tarfile
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from sklearn.ensemble import RandomForestClassifier
from sklearn.svm import LinearSVC

from lookalike.bench import datasets
from lookalike.bench.measures import Values, average_precision, bootstrap, mean
from lookalike.bench.memo import Memo, Split
from lookalike.bench.retrieval import describe, rank
from lookalike.bench.tables import Bench, Score
from lookalike.encode.whiten import PCA
from lookalike.errors import SourceError
from lookalike.feedback.learners import Svdd, Svm
from lookalike.feedback.round import Marks, play
from lookalike.feedback.user import WINDOW, EmulatedUser
from lookalike.index.flat import Flat
from lookalike.kernels import KERNELS
from lookalike.types import Ids, Progress, Vectors

ROUNDS = 15
SESSIONS = {"mnist": 15}
"""Sessions a cell; 50 where nothing is said."""
ENOUGH = 0.8
TIMED = 3
"""Sessions whose round 10 is played once more on the index itself, for its time."""
FOREST = 100
PEERS = ("peer-rocchio", "peer-forest", "peer-linear")
MEASURES = ("precision-10", "marks-80", "scored-10", "ms")
CURVES = (*(f"precision-{turn}" for turn in (0, 1, 2, 3, 5, 8, 15)), "scored-1", "scored-5", "scored-15")
"""More columns, for a plot of what happens round by round."""
PAC = {"epsilon": 0.5, "delta": 0.1}
"""How far PAC-NN may be off, and how often farther; the paper does not give its own."""
COIL, DIGITS = "coil100/coil100_32_all7200.npz", "mnist/train-{}-idx{}-ubyte.gz"
HARDEST = 52

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class _Row:
    learner: Callable[[], Svm | Svdd] = Svm
    strategy: str = "mix"
    search: str = "exact"
    """Where questions come from: Flat, an FSM-tree with PAC-NN, or Leaves."""


SEARCHES = {"pac": "lookalike.index.fsm_tree", "fast": "lookalike.index.leaves"}
"""The modules that answer frontier queries without a look at everything."""


def _svm(kernel: str) -> Callable[[], Svm | Svdd]:
    return lambda: Svm(kernel)


ROWS: dict[str, _Row | None] = {
    **{
        f"{kernel}-{search}": _Row(_svm(kernel), search=search)
        for search, kernel in product(
            ("exact", *(name for name in SEARCHES if find_spec(SEARCHES[name]))), ("gaussian", "laplace", "angular")
        )
    },
    **{f"ask-{name}": _Row(strategy=name) for name in ("frontier", "maximum", "random", "sample")},
    "svdd": _Row(Svdd, "maximum"),
    **dict.fromkeys(PEERS),
}
"""`gaussian-exact` is what `play` does by default; the rows `ask-…` differ from it in the strategy alone."""


class Base(NamedTuple):
    """A set that sessions run on."""

    X: Vectors  # (n, d)
    labels: NDArray[np.str_]  # (n,)


class Outcome(NamedTuple):
    """What one method did on one set. Columns that differ only in their measure share it."""

    precision: Values  # (sessions, rounds + 1)
    scored: Values  # (sessions, rounds): the share of the set that the search for questions scored
    ms: list[float]  # of a round, once a timed session


_BASES: dict[tuple[Path, str], Base] = {}
_OUTCOMES: dict[tuple[Path, str, str], Outcome] = {}
"""What this process has computed."""


def run(row: str, column: str, data: Path, seed: int, progress: Progress) -> Score:
    """One method on one set. `seed` draws the bootstrap; sessions are the same every time."""
    name, measure = column.split("/")
    outcome = outcomes(row, name, data, progress)
    if measure == "ms":
        return Score("ms", float(np.median(outcome.ms)), min(outcome.ms), max(outcome.ms), scored=0)
    kind, number = measure.split("-")
    if kind == "marks":
        values = marks_until(outcome.precision, int(number) / 100)
    else:
        values = outcome.precision[:, int(number)] if kind == "precision" else outcome.scored[:, int(number) - 1]
    low, high = bootstrap(values, seed=seed)
    return Score(kind, mean(values), low, high, scored=int(outcome.scored.sum() * len(load_base(name, data).X)))


def outcomes(row: str, name: str, data: Path, progress: Progress) -> Outcome:
    """The sessions of one method on one set, once a process."""
    key = data, row, name
    if key not in _OUTCOMES:
        base = load_base(name, data, progress)
        _OUTCOMES[key] = measure(row, base, SESSIONS.get(name, 50), progress)
        logger.info("%s, %s: precision by round %s", row, name, _OUTCOMES[key].precision.mean(axis=0).round(3).tolist())
    return _OUTCOMES[key]


def measure(row: str, base: Base, sessions: int, progress: Progress, *, rounds: int = ROUNDS, half: int = 1) -> Outcome:
    """Sessions by the protocol above, alike for all methods. `half` 0 is the half that chose the defaults."""
    classes = sorted(set(base.labels.tolist()), key=lambda label: (len(label), label))[half::2]
    ids = np.arange(len(base.X))
    method = ROWS[row]
    index = None if method is None else make_index(method, base.X)
    options = PAC if method and method.search == "pac" else {}
    memo = Memo()
    memo.add(ids, base.X)
    precision, scored = np.empty((sessions, rounds + 1)), np.ones((sessions, rounds))
    ms: list[float] = []
    for i in range(sessions):
        user = EmulatedUser(ids, ids[base.labels == classes[i % len(classes)]])
        marked, y = user.start(np.random.default_rng(i))
        memo.forget()
        for turn in range(rounds + 1):
            marks = Marks(marked, base.X[marked], y)
            if method is None:
                start = time.perf_counter()
                order, questions = ask_peer(row, base.X, marks, seed=i)
                if i < TIMED and turn == min(10, rounds):
                    ms.append(1e3 * (time.perf_counter() - start))
            else:
                asked = Split(memo, index if method.search != "exact" else memo, **options)
                played = play(
                    asked, marks, k=len(user.relevant), learner=method.learner(), strategy=method.strategy, seed=i
                )
                order, questions = played.best, played.questions
                if i < TIMED and turn == min(10, rounds):
                    start = time.perf_counter()
                    play(
                        Split(index, index, **options),
                        marks,
                        learner=method.learner(),
                        strategy=method.strategy,
                        seed=i,
                    )
                    ms.append(1e3 * (time.perf_counter() - start))
                if turn < rounds and asked.asked:
                    scored[i, turn] = asked.scored / asked.asked / len(ids)
            precision[i, turn] = user.precision(order)
            marked, y = np.append(marked, questions), np.append(y, user.answer(questions))
        progress("sessions", i + 1, sessions)
    return Outcome(precision, scored, ms)


def make_index(method: _Row, X: Vectors) -> Any:
    """The index that questions come from, with all of X (n, d)."""
    index: Any = Flat()
    if method.search == "pac":
        index = import_module(SEARCHES["pac"]).FsmTree(norm=KERNELS[method.learner().kernel].norm or 2)
    elif method.search == "fast":
        index = import_module(SEARCHES["fast"]).Leaves()
    index.add(np.arange(len(X)), X)
    if hasattr(index, "build"):
        index.build()
    return index


def ask_peer(name: str, X: Vectors, marks: Marks, *, seed: int) -> tuple[Ids, Ids]:
    """What others do: a ranking of all rows X (n, d) and the next questions.

    peer-rocchio: rows by their inner product with 2·mean⁺ − mean⁻, asked for its best (FiftyOne, Qdrant); peer-forest:
    a random forest, asked around 0.5 (LightlyStudio); peer-linear: a linear SVM, asked for its best (Exquisitor).
    """
    positive = marks.y > 0
    if name == "peer-forest":
        forest = RandomForestClassifier(FOREST, class_weight="balanced", random_state=seed).fit(marks.X, marks.y)
        scores = forest.predict_proba(X)[:, 1]
        doubt = -np.abs(scores - 0.5)
    elif name == "peer-linear":
        scores = doubt = (
            LinearSVC(class_weight="balanced", random_state=seed).fit(marks.X, marks.y).decision_function(X)
        )
    else:
        scores = doubt = X @ (2 * marks.X[positive].mean(axis=0) - marks.X[~positive].mean(axis=0))
    shuffled = np.random.default_rng(seed).permutation(len(X))  # a forest has many ties
    order = shuffled[np.argsort(-scores[shuffled], kind="stable")]
    doubtful = shuffled[np.argsort(-doubt[shuffled], kind="stable")]
    return order, doubtful[~np.isin(doubtful, marks.ids)][:WINDOW]


def marks_until(precision: Values, enough: float) -> Values:
    """Marks given when each session, (s, rounds + 1), first is at `enough`; one window more than all where it never is.

    >>> marks_until(np.array([[0.1, 0.8, 0.7], [0.2, 0.3, 0.4]]), 0.8).tolist()
    [18.0, 36.0]
    """
    there = precision >= enough
    first = np.where(there.any(axis=1), there.argmax(axis=1), precision.shape[1])
    values: Values = (WINDOW * (first + 1)).astype(np.float64)
    return values


def load_base(name: str, data: Path, progress: Progress = lambda *_: None) -> Base:
    """The vectors and labels of a set, made once a process."""
    if (data, name) not in _BASES:
        _BASES[data, name] = SETS[name](data, progress)
    return _BASES[data, name]


def _described(dataset: datasets.Dataset, recipe: str, progress: Progress) -> Base:
    with tempfile.TemporaryDirectory(prefix="lookalike-bench-") as folder:
        X, names = describe(dataset, recipe, Path(folder), progress)
    return Base(X, np.array([dataset.labels[name] for name in names]))


def _corel(recipe: str) -> Callable[[Path, Progress], Base]:
    return lambda data, progress: _described(datasets.load("corel5k", data), recipe, progress)


def _coil(recipe: str) -> Callable[[Path, Progress], Base]:
    def load(data: Path, progress: Progress) -> Base:
        hardest = _hardest(data, progress)
        base = _coil_all(data, recipe, progress)
        kept = np.isin(base.labels, hardest)
        return Base(base.X[kept], base.labels[kept])

    return load


def _coil_all(data: Path, recipe: str, progress: Progress) -> Base:
    key = data, f"coil100-all-{recipe}"
    if key not in _BASES:
        with np.load(data / COIL) as file, tempfile.TemporaryDirectory(prefix="lookalike-bench-") as folder:
            archive, labels = Path(folder) / "coil100.tar", {}
            with tarfile.open(archive, "w") as tar:
                for i, (image, label) in enumerate(zip(file["x"], file["y"], strict=True)):
                    member = tarfile.TarInfo(f"{i:04d}.png")
                    Image.fromarray(image).save(png := io.BytesIO(), "png")
                    member.size = png.tell()
                    png.seek(0)
                    tar.addfile(member, png)
                    labels[member.name] = str(int(label))
            _BASES[key] = _described(datasets.Dataset("coil100", archive, labels), recipe, progress)
    return _BASES[key]


def _hardest(data: Path, progress: Progress) -> list[str]:
    """The objects with the lowest mAP by the classic descriptor."""
    X, labels = _coil_all(data, "classic", progress)
    rows = np.arange(len(X))
    values = rank(
        X,
        labels,
        lambda relevant, itself: average_precision(relevant, junk=itself),
        progress,
        queries=rows,
        database=rows,
    )
    objects = np.unique(labels)
    by_object = np.array([values[labels == name].mean() for name in objects])
    return [str(name) for name in objects[np.argsort(by_object, kind="stable")[:HARDEST]]]


def _mnist(data: Path, progress: Progress) -> Base:  # noqa: ARG001
    pixels = gzip.decompress((data / DIGITS.format("images", 3)).read_bytes())
    labels = gzip.decompress((data / DIGITS.format("labels", 1)).read_bytes())
    X = np.frombuffer(pixels, np.uint8)[16:].reshape(-1, 784).astype(np.float32) / 255  # (60000, 784)
    return Base(PCA(dim=64).fit(X).transform(X), np.frombuffer(labels, np.uint8)[8:].astype(str))


SETS: dict[str, Callable[[Path, Progress], Base]] = {
    "coil100": _coil("deep"),
    "corel5k": _corel("deep"),
    "mnist": _mnist,
    "coil100-classic": _coil("classic"),
    "corel5k-classic": _corel("classic"),
}
COLUMNS = [f"{name}/{measure}" for measures in (MEASURES, CURVES) for name, measure in product(SETS, measures)]


def check(columns: Sequence[str], data: Path) -> None:
    """Refuse before the first cell when a set is missing."""
    for name in {column.split("/")[0].removesuffix("-classic") for column in columns}:
        if name == "corel5k":
            datasets.load(name, data)
            continue
        for file in (COIL,) if name == "coil100" else (DIGITS.format("images", 3), DIGITS.format("labels", 1)):
            if not (data / file).is_file():
                raise SourceError(
                    f"No {name} in {data}. Expected {data / file}; --data names the folder that holds all sets."
                )


BENCH = Bench("feedback", "emulated sessions of feedback: marks needed", tuple(ROWS), tuple(COLUMNS), run, check)
