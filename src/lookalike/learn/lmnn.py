"""Large-margin nearest neighbours (LMNN): a metric under which the nearest rows have the same label.

Weinberger & Saul 2009, in the form of Mensink et al. 2013 (ncm), §4: Eq. 35–43, triplets as in its §4.2. The module
contains the estimator `Lmnn`, its random batches, and the loss of the triplets of a batch, computed with one sort per
query.
"""

from typing import Annotated, Any, NamedTuple, Self, TypeAlias

import array_api_compat
import numpy as np
from numpy.typing import NDArray

from lookalike.arrays import as_numpy, check_rows, chunks, like, namespace
from lookalike.errors import InputError
from lookalike.learn.measures import MEASURES, mean_average_precision, ranks
from lookalike.learn.rows import Picked, Rows, check_values, project
from lookalike.learn.training import Callback, Curve, Problem, TrainedProjection
from lookalike.limits import COUNT, POSITIVE, Limit
from lookalike.types import Array, OneOf

TARGETS = ("dynamic", "fixed", "all")
LIMITS: dict[str, Limit] = {"dim": COUNT, "k": COUNT, "rate": POSITIVE, "max_iterations": COUNT}
CHOICES = {"targets": TARGETS, "measure": MEASURES}
MAX_HELD, MAX_NEIGHBOURS = 1_000, 5_000
"""Maximum number of validation rows, and of rows in which their neighbours are searched."""
POSITIVES = 2 / 3
"""The share ρ of a batch that belongs to the queries' class; this value maximises the number of triplets (Eq. 38)."""

Targets: TypeAlias = Array | int | None
"""Targets of a query. None: its whole class. A number k: its k nearest by W. (q, k) positions: these, -1 for none."""


class Lmnn(TrainedProjection):
    """A projection W that brings rows closer to some rows of their class than to other classes, by a margin of one.

    Minimises the hinge loss 1 + ‖Wx_q − Wx_p‖² − ‖Wx_q − Wx_n‖² over all triplets of a query, a target of its class and
    a negative (Eq. 36), by mini-batch descent from `find_start`. A class with one row provides only negatives.

    Parameters
    ----------
    dim : output dimension D; None: at most 64. D is at most min(d, n - 1); a larger `dim` gives a warning.
    targets : targets of a query. "dynamic": its k nearest under the current metric (best in the paper); "fixed": its k
        nearest by ℓ2 in the input; "all": every row of its class.
    k : targets per query, and neighbours that vote in validation. In a class with no more than k rows, all others.
    rate : step size, for rows scaled to a mean squared distance of 2. The step is the mean over the triplets with a
        loss, so one rate serves easy and hard problems.
    max_iterations : maximum number of steps.
    measure : validation score on a fifth of each class, used to decide when to stop: "top1" (the class of most of the
        k nearest; ties broken by their share), "top5" (the right class among the first five) or "map" (retrieval by
        cosine). If there are at most 100,000 rows, the model is then retrained on all, for the best number of steps.
    random_state : random seed of the validation set and of the batches.

    Attributes
    ----------
    W_ : (D, d) float32, with the type and device of the training rows; `transform` accepts rows of any type.
    classes_ : (C,) sorted labels, NumPy.
    curve_ : (t, 3) float64, NumPy; step, mean loss since the previous validation, and score of each validation.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 2)) * [1, 5]  # the second column is large noise
    >>> y = np.where(X[:, 0] > 0, "right", "left")
    >>> first, second = np.linalg.norm(Lmnn(targets="all").fit(X, y).W_, axis=0)
    >>> bool(first > 5 * second)
    True

    """

    batch = 300  # as in the paper
    _limits = LIMITS
    _choices = CHOICES
    _every, _patience = 25, 8

    def __init__(
        self,
        dim: int | None = None,
        targets: Annotated[str, OneOf(TARGETS)] = "dynamic",
        k: int = 5,
        rate: float = 0.1,
        max_iterations: int = 2_000,
        measure: Annotated[str, OneOf(MEASURES)] = "top1",
        random_state: int = 0,
    ):
        self.dim = dim
        self.targets = targets
        self.k = k
        self.rate = rate
        self.max_iterations = max_iterations
        self.measure = measure
        self.random_state = random_state

    def fit(
        self,
        X: Rows,
        y: Array | None = None,
        *,
        held: tuple[Rows, Array] | None = None,
        callback: Callback | None = None,
    ) -> Self:
        """Fit to rows (n, d) and labels (n,) of at least 2 classes, one of them with at least 2 rows.

        `held`, rows and labels, replaces the validation set of X; for "map" its labels can be of any classes.
        `callback(step, loss, score)` is called at each validation.
        """
        problem = self._problem(X, y, held, MAX_HELD)
        n = len(problem.codes)
        if np.bincount(problem.codes).max() < 2:
            raise InputError(f"y must contain a class with at least 2 rows. Got {n} rows and {n} classes.")
        check_values(problem.X)
        if np.bincount(problem.labels).max() < 2:
            problem = problem.with_all_rows()
        self.W_, curve = self._descend(problem, callback=callback)
        if problem.repeats:
            self.W_, _ = self._descend(problem.with_all_rows(), steps=curve.best())
        self.classes_, self.curve_ = problem.classes, curve.table()
        return self

    def _descend(
        self, problem: Problem, *, steps: int | None = None, callback: Callback | None = None
    ) -> tuple[Array, Curve]:
        """Return the best W on the validation set, or the last one, and the learning curve."""
        rows, labels, k = problem.rows, problem.labels, int(self.k)
        targets: Targets = None if self.targets == "all" else k
        if self.targets == "fixed":
            targets = nearest_of_class(rows, labels, k)
        start = self._start(rows, labels, np.random.default_rng(self.random_state))
        scale = start.total**-0.5  # the mean squared distance of two rows is 2 · total
        batches = TripletBatches(labels, targets, self.batch)
        near = np.sort(problem.random.permutation(len(labels))[:MAX_NEIGHBOURS])

        def score(W: Array) -> float:
            queries, y = project(problem.held, W), problem.held_labels
            if self.measure == "map":
                return mean_average_precision(queries, y)
            votes = count_votes(queries, project(Picked(rows, near), W), labels[near], k)
            share = float(np.mean(votes[np.arange(len(y)), y])) / (k * len(y) ** 3)  # breaks ties by the share of votes
            return self._top(ranks(votes, y)) + share

        return self._train(
            problem,
            start.W * scale,
            batches.step,
            score,
            start.condition,
            steps=steps,
            callback=callback,
            rate=self.rate * scale**2,  # equivalent to scaling the rows instead of W
            labels=np.arange(len(labels)),
            draw=batches.draw,
        )


def count_votes(X: Array, seen: Array, codes: NDArray[np.int64], k: int) -> NDArray[np.float64]:
    """Count the votes (m, C) of the k rows of `seen` nearest to each row of X; ties go to the nearer class.

    >>> count_votes(np.array([[0.0]]), np.array([[1.0], [2.0], [3.0]]), np.array([1, 0, 0]), 2).round(2)
    array([[1., 1.]])
    """
    xp, C, k = namespace(X), int(codes.max()) + 1, min(k, seen.shape[0])
    centre = xp.mean(seen, axis=0)  # reduces rounding errors of float32 products
    seen, X = seen - centre, X - centre
    squares = xp.vecdot(seen, seen)
    votes = np.zeros((X.shape[0], C))
    for part in chunks(X.shape[0], row_bytes=16 * seen.shape[0]):
        distances = as_numpy(squares - 2 * (X[part] @ seen.T))  # (p, n), up to a constant per row
        near = np.argpartition(distances, k - 1, axis=1)[:, :k]
        near = np.take_along_axis(near, np.argsort(np.take_along_axis(distances, near, 1), axis=1, kind="stable"), 1)
        weights = np.broadcast_to(1 + 1e-6 / 2.0 ** np.arange(k), near.shape)  # the nearest row breaks ties
        np.add.at(votes, (np.arange(part.start, part.stop)[:, None], codes[near]), weights)
    return votes


class TripletBatches:
    """Random batches with two thirds of the rows from one class, and their loss (ncm, §4.1 and §4.2).

    Parameters
    ----------
    codes : (n,) the class of each row, from 0; at least two classes, one with at least two rows.
    targets : targets of a query. None: all rows of its class in the batch; a number k: the k nearest of them by W;
        (n, k) row numbers, -1 for a missing one: those of them that are in the batch.
    batch : rows per batch, at least 3.

    """

    def __init__(self, codes: NDArray[np.int64], targets: Targets, batch: int = 300):
        self.codes, self.targets = codes, targets
        self.most = max(2, round(POSITIVES * batch))
        self.others = max(1, batch - self.most)
        self.counts = np.bincount(codes)
        self.starts = np.cumsum(self.counts) - self.counts
        self.order = np.argsort(codes, kind="stable")  # class by class
        self.able = np.flatnonzero(self.counts >= 2)  # classes with a pair of rows

    def draw(self, random: np.random.Generator) -> NDArray[np.int64]:
        """Sample row numbers (m,): of one random class, then of the others; both parts are sorted."""
        c = random.choice(self.able)
        start, count = self.starts[c], self.counts[c]
        rows = self.order[start : start + count]
        some = random.permutation(count)[: self.most]
        if self.targets is None or isinstance(self.targets, int):
            positives = rows[some]
        else:
            positives = self._with_targets(rows[some])
        far = random.choice(len(self.codes) - count, min(self.others, len(self.codes) - count), replace=False)
        negatives = self.order[np.where(far < start, far, far + count)]
        return np.concatenate([np.sort(positives), np.sort(negatives)])

    def step(self, W: Array, X: Array, numbers: Array) -> tuple[Any, Array]:
        """Return the loss of a batch, and its gradient as a mean over the triplets that have a loss."""
        codes = self.codes[as_numpy(numbers)]
        q = int(np.count_nonzero(codes == codes[0]))
        loss, gradient, active = triplet_loss(W, X, q, self._places(numbers[:q]))
        xp = namespace(active)
        return loss, gradient / xp.where(active > 0, active, xp.ones_like(active))

    def _with_targets(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows of as many of these queries, with their targets, as fit into a batch; at least one."""
        table: Any = self.targets
        together = np.concatenate([queries[:, None], table[queries]], axis=1)  # (q, 1 + k)
        first = np.unique(together, return_index=True)[1] // together.shape[1]  # the first query that needs each row
        seen = np.cumsum(np.bincount(first, minlength=len(queries)))  # one too many if a target is missing: -1
        rows = np.unique(together[: max(1, int(np.searchsorted(seen, self.most, side="right")))])
        return rows[rows >= 0]

    def _places(self, numbers: Array) -> Targets:
        """Return the positions of the targets of each query in a batch, for `triplet_loss`."""
        if self.targets is None or isinstance(self.targets, int):
            return self.targets
        own = as_numpy(numbers)
        targets = self.targets[own]  # (q, k)
        place = np.minimum(np.searchsorted(own, targets), len(own) - 1)
        return like(numbers, np.where(own[place] == targets, place, -1))


def nearest_of_class(X: Rows, codes: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Return the k rows of its own class nearest to each row by ℓ2, (n, k), -1 if the class has fewer others.

    Only one class at a time is in memory.
    """
    found = np.full((len(codes), k), -1, np.int64)
    for c in range(int(codes.max()) + 1):
        members = np.flatnonzero(codes == c)
        few = min(k, len(members) - 1)
        if few < 1:
            continue
        rows = check_rows(X[members])
        xp = namespace(rows)
        rows = rows - xp.mean(rows, axis=0)
        squares = xp.vecdot(rows, rows)  # (m,)
        for part in chunks(len(members), row_bytes=16 * len(members)):
            distances = as_numpy(squares[part, None] + squares - 2 * (rows[part] @ rows.T))  # (p, m)
            distances[np.arange(len(distances)), np.arange(part.start, part.stop)] = np.inf  # not itself
            near = np.argpartition(distances, few - 1, axis=1)[:, :few]
            found[members[part], :few] = members[near]
    return found


class Loss(NamedTuple):
    """Result of `triplet_loss`; `loss` and `active` are zero-dimensional arrays."""

    loss: Any  # mean of Eq. 35 over all triplets
    gradient: Array  # (D, d), of `loss`
    active: Any  # the share of triplets with a loss


def triplet_loss(W: Array, X: Array, q: int, targets: Targets) -> Loss:
    """Return the mean of Eq. 35 over the triplets of a batch, and its gradient w.r.t. W, without forming triplets.

    The first q rows of X (m, d) belong to one class; each is a query and a possible target. The others are negatives.
    Eq. 42 and Algorithm 1 of the paper disagree about signs; finite differences of Eq. 36 confirm those used here.

    >>> X = np.array([[0.0], [0.1], [0.5]])  # 1 + 0.01 − 0.25 and 1 + 0.01 − 0.16
    >>> float(triplet_loss(np.eye(1), X, 2, None).loss.round(3))
    0.805
    """
    xp = namespace(X)
    X = X - xp.mean(X, axis=0)  # reduces rounding errors
    Z = X @ W.T  # (m, D)
    squares = xp.vecdot(Z, Z)  # (m,)
    distances = squares[:q, None] + squares - 2 * (Z[:q] @ Z.T)  # (q, m)
    which = _targets(distances[:, :q], targets)  # (q, k)
    there = which >= 0
    near = xp.take_along_axis(distances, xp.where(there, which, xp.zeros_like(which)), axis=1)  # (q, k)
    far = distances[:, q:]  # (q, m − q)
    pulled, pushed = count_triplets(xp.where(there, near, xp.full_like(near, -xp.inf)), far)
    # Each triplet adds 1 + d_p − d_n, so the counts also give the loss.
    loss = xp.sum(pulled * (1 + near)) - xp.sum(pushed * far)
    # Eq. 40 with A = diag(S1 + Sᵀ1) − S − Sᵀ: S counts, for each query, pairs to pull (+) and to push (−).
    S = xp.concat([_spread(which, pulled, q), -pushed], axis=1)  # (q, m)
    AZ = xp.sum(S, axis=0)[:, None] * Z - S.T @ Z[:q]  # (m, D)
    AZ[:q] += xp.sum(S, axis=1)[:, None] * Z[:q] - S @ Z
    triplets = xp.clip(xp.sum(xp.astype(there, Z.dtype)) * far.shape[1], 1, None)
    return Loss(loss / triplets, (2 / triplets) * (AZ.T @ X), xp.sum(pulled) / triplets)


def count_triplets(near: Array, far: Array) -> tuple[Array, Array]:
    """Count the triplets with a loss that contain each target and each negative, (q, k) and (q, b): Algorithm 1.

    `near` (q, k) are the distances of each query to its targets, -inf for a missing one, `far` (q, b) those to the
    negatives. One sort of the k + b distances of a query replaces its k · b triplets.

    >>> count_triplets(np.array([[0.5, 2.0]]), np.array([[1.0, 2.0, 9.0]]))
    (array([[1., 2.]]), array([[2., 1., 0.]]))
    """
    xp, device, k = namespace(near), array_api_compat.device(near), near.shape[1]
    counts = xp.zeros((near.shape[0], k + far.shape[1]), dtype=near.dtype, device=device)
    if not 0 < k < counts.shape[1]:
        return counts[:, :k], counts[:, k:]
    # Late in training, most queries have no loss: their farthest target is closer than any negative, by the margin.
    active = xp.nonzero(xp.min(far, axis=1) < 1 + xp.max(near, axis=1))[0]
    both = xp.concat([near[active] + 1, far[active]], axis=1)  # (p, k + b)
    # A stable sort puts a target before a negative at the same distance, where the loss is zero.
    order = xp.argsort(both, axis=1, stable=True)
    negative = order >= k
    before = xp.cumulative_sum(xp.astype(negative, xp.int32), axis=1)  # C_n: negatives up to each position
    places = xp.arange(1, both.shape[1] + 1, dtype=xp.int32, device=device)
    after = k - (places - before)  # C_p: targets after each position
    counts[active[:, None], order] = xp.astype(xp.where(negative, after, before), near.dtype)
    return counts[:, :k], counts[:, k:]


def _targets(distances: Array, targets: Targets) -> Array:
    """Return the positions of the targets of each query, (q, k), -1 if missing, from distances in the class (q, q)."""
    if targets is not None and not isinstance(targets, int):
        return targets
    xp, q, device = namespace(distances), distances.shape[0], array_api_compat.device(distances)
    own = xp.arange(q, device=device)
    if targets is None:
        every = xp.broadcast_to(own, (q, q))
        return xp.where(every == own[:, None], -xp.ones_like(every), every)
    k = min(targets, q - 1)
    others = xp.where(own == own[:, None], xp.full_like(distances, xp.inf), distances)
    if array_api_compat.is_torch_array(others):
        return xp.topk(others, k, dim=1, largest=False).indices
    return np.argpartition(others, max(0, k - 1), axis=1)[:, :k]


def _spread(which: Array, values: Array, q: int) -> Array:
    """Return a matrix (q, q) with these values (q, k) in these columns, 0 elsewhere."""
    xp, device = namespace(values), array_api_compat.device(values)
    out = xp.zeros((q, q), dtype=values.dtype, device=device)
    rows = xp.arange(q, device=device)[:, None]
    out[rows, xp.where(which >= 0, which, rows)] = values  # a missing target writes 0 to the query's own column
    return out
