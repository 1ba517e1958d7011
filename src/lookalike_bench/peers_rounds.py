"""Rounds of feedback beside plain `2·mean⁺ − mean⁻`: a row of the `peers` bench.

In: a `Place`. Out: a `Compared`, a turn a session: quality is the share of the wanted class among as many rows as it
has, ranked first, after 10 rounds of 9 marks; time is that of one more round, the 50 best and 9 questions, of both with
the marks that ours has by then. Rocchio's is as lean as it can be: one product and two partial sorts.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from lookalike.feedback.round import Marks, play
from lookalike.feedback.user import WINDOW, EmulatedUser, emulate
from lookalike.index.flat import Flat
from lookalike.types import Ids, Progress, Vectors
from lookalike_bench.feedback import ask_peer
from lookalike_bench.hyperplane import K
from lookalike_bench.memo import Memo
from lookalike_bench.peers_sets import Place, grouped
from lookalike_bench.turns import Compared, Timed, clocked, in_turns

SESSIONS, ROUNDS = 15, 10
MOST = 20_000
"""Rows, at most: the rest is left out by lot."""


class Session(NamedTuple):
    """What both had after the last round."""

    marks: Marks
    ours: float
    theirs: float


def rocchio(place: Place, progress: Progress) -> Compared:
    """Sessions of ours and of Rocchio with the same start, then a round of each in turns."""
    X, y = grouped(place)
    kept = np.sort(np.random.default_rng(place.seed).permutation(len(X))[:MOST])
    X, y = np.ascontiguousarray(X[kept]), y[kept]
    memo, flat = Memo(), Flat()
    for index in (memo, flat):
        index.add(np.arange(len(X)), X)
    wanted = np.random.default_rng(place.seed + 1).permutation(np.flatnonzero(np.bincount(y) >= K))
    sessions = []
    for i in range(SESSIONS):
        user = EmulatedUser(memo.ids, np.flatnonzero(y == wanted[i % len(wanted)]))
        sessions.append(_session(user, memo, X, i))
        progress("sessions", i + 1, SESSIONS)
    ours: Timed[Session] = clocked(lambda session: play(flat, session.marks, k=K, turn=ROUNDS))
    theirs: Timed[Session] = clocked(lambda session: lean(X, session.marks))
    ours(sessions[0])  # compiles
    timed = in_turns(ours, theirs, sessions, lambda *_: 0.0)
    return Compared(timed.speed, [one.ours for one in sessions], [one.theirs for one in sessions])


def _session(user: EmulatedUser, memo: Memo, X: Vectors, seed: int) -> Session:
    first, signs = user.start(np.random.default_rng(seed))
    begin = Marks(first, X[first], signs)
    memo.forget()
    players: list[Callable[[Marks, int], Any]] = [
        lambda marks, turn: play(memo, marks, k=len(user.relevant), seed=seed, turn=turn),
        lambda marks, _: ask_peer("peer-rocchio", X, marks, seed=seed),
    ]
    ends = [list(emulate(user, memo, begin, ROUNDS, player))[-1] for player in players]
    ours, theirs = (user.precision(shown.best) for _, shown in ends)
    return Session(ends[0][0], ours, theirs)


def lean(X: Vectors, marks: Marks) -> tuple[Ids, Ids]:
    """Rocchio's K best of X (n, d), best first, and the WINDOW best that are not marked."""
    positive = marks.y > 0
    scores = X @ (2 * marks.X[positive].mean(axis=0) - marks.X[~positive].mean(axis=0))  # (n,)
    best = np.argpartition(-scores, K)[:K]
    best = best[np.argsort(-scores[best])]
    scores[marks.ids] = -np.inf
    return best, np.argpartition(-scores, WINDOW)[:WINDOW]


CASES: dict[str, Callable[[Place, Progress], Compared]] = {"rocchio": rocchio}
