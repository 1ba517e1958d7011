"""The classifiers of the bench `ncm`: metrics that learn, with class means or neighbours, and what they are up against.

In: training rows (n, d), numbers of classes, a dimension. Out: scores of classes for other rows (m, C), largest for the
best. What has parameters gets them on a validation part of the training rows. Mensink et al. 2013 (ncm), §5.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.svm import LinearSVC

from lookalike.classes.knn import KnnClassifier
from lookalike.classes.open_set import OpenSet
from lookalike.encode.whiten import PCA
from lookalike.learn.jscl import Jscl
from lookalike.learn.labels import hold_out
from lookalike.learn.linear import Fda, InverseCovariance, Ridge
from lookalike.learn.lmnn import Lmnn
from lookalike.learn.measures import ranks
from lookalike.learn.ncmc import Ncmc
from lookalike.learn.ncmml import Ncmml, NcmmlDot
from lookalike.learn.wsabie import Wsabie
from lookalike.types import Vectors

HELD, MOST = 0.2, 8_000
"""The share of each class that parameters are chosen on, and how many rows at most take part in the choice."""
LAMS = tuple({"lam": lam} for lam in (0.01, 0.1, 1.0, 10.0))
RIDGES = tuple({"ridge": ridge} for ridge in (0.01, 0.1, 1.0))
COSTS = tuple({"C": C} for C in (0.1, 1.0, 10.0))
"""What there is to choose from; λ and ridge are shares of the mean variance."""

Codes: TypeAlias = NDArray[np.int64]
Params: TypeAlias = dict[str, Any]
Scorer: TypeAlias = Callable[[Vectors], NDArray[np.float64]]
"""Rows (m, d) to scores (m, C), of classes in rising order."""


@dataclass(frozen=True)
class Method:
    """A metric, where there is one, and what names rows after it."""

    classify: Callable[..., Scorer]
    """`classify(X, y, **params)`, of projected rows."""
    metric: Callable[..., Any] | None = None
    """`metric(dim, seed, **params)` gives a transform that is not yet fitted."""
    candidates: Sequence[Params] = ()
    full: bool = False
    """Whether it takes rows at their full length, whatever the dimension."""
    watched: bool = False
    """Whether the metric can watch rows held out, and stop by retrieval."""

    def learn(self, X: Vectors, y: Codes, dim: int, seed: int, **params: Any) -> Callable[[Vectors], Vectors]:
        """The projection that the metric learned from rows and labels."""
        if self.metric is None:
            return lambda rows: rows
        made = self.metric(dim, seed, **_of(params, metric=True)).fit(X, y)
        return lambda rows: np.asarray(made.transform(rows))

    def fit(self, X: Vectors, y: Codes, dim: int, seed: int, **params: Any) -> Scorer:
        """Learn all there is to learn from the same rows."""
        if isinstance(self.classify, Whole):
            return self.classify(X, y, dim, seed)
        project = self.learn(X, y, dim, seed, **params)
        return self.after(project, X, y, **params)

    def after(self, project: Callable[[Vectors], Vectors], X: Vectors, y: Codes, **params: Any) -> Scorer:
        """What names rows after a projection, of any classes y."""
        score = self.classify(project(X), y, **_of(params, metric=False))
        return lambda rows: score(project(rows))


def _of(params: Params, *, metric: bool) -> Params:
    """λ is the metric's, the rest the classifier's; ridge regression has no metric but PCA."""
    return {name: value for name, value in params.items() if (name == "lam") == metric}


def means(X: Vectors, y: Codes, kind: str = "ncm", **params: float) -> Scorer:
    """The nearest class mean."""
    model = OpenSet(kind, **params).partial_fit(X, y)  # type: ignore[arg-type]
    order = np.argsort(model.classes_)
    return lambda rows: -np.asarray(model.distances(rows), np.float64)[:, order]


def second(X: Vectors, y: Codes, ridge: float) -> Scorer:
    """The nearest class mean by one covariance of all classes."""
    return means(X, y, "second", ridge=ridge)


def neighbours(X: Vectors, y: Codes) -> Scorer:
    """The nearest neighbours, as many as classify the training rows best."""
    return KnnClassifier(k="auto").fit(X, y).predict_proba


def svm(X: Vectors, y: Codes, C: float) -> Scorer:
    """A linear SVM for each class against the rest."""
    model = LinearSVC(C=C, tol=1e-2, random_state=0).fit(X, y)
    return lambda rows: _columns(model.decision_function(rows))


def largest(X: Vectors, y: Codes) -> Scorer:  # noqa: ARG001 (rows are scores already)
    """Rows that are scores of classes."""
    return lambda rows: np.asarray(rows, np.float64)


@dataclass(frozen=True)
class Whole:
    """What learns its metric and its classes together."""

    make: Callable[[int, int], Any]

    def __call__(self, X: Vectors, y: Codes, dim: int, seed: int) -> Scorer:
        """Scores of classes, by what was learned from rows and labels."""
        model = self.make(dim, seed).fit(X, y)
        return _columns_of(model.decision_function if hasattr(model, "decision_function") else model.predict_proba)


def _columns_of(score: Callable[[Vectors], Any]) -> Scorer:
    return lambda rows: _columns(np.asarray(score(rows), np.float64))


def _columns(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """scikit-learn has one column for two classes."""
    return scores if scores.ndim == 2 else np.stack([-scores, scores], axis=1)


class _PcaRidge(Ridge):
    """Ridge regression after PCA, as in Table 3 of the paper."""

    def __init__(self, dim: int, lam: float):
        super().__init__(lam)
        self.dim = dim

    def fit(self, X: Vectors, y: Any = None) -> "_PcaRidge":
        self.pca_ = PCA(self.dim).fit(X)
        super().fit(self.pca_.transform(X), y)
        return self

    def transform(self, X: Vectors) -> Any:
        return super().transform(self.pca_.transform(X))


def _seeded(kind: Callable[..., Any], **fixed: Any) -> Callable[..., Any]:
    return lambda dim, seed, **params: kind(dim=dim, random_state=seed, **fixed, **params)


def _plain(kind: Callable[..., Any]) -> Callable[..., Any]:
    return lambda dim, seed, **params: kind(dim=dim, **params)  # noqa: ARG005 (nothing is random)


METHODS = {
    "ncm-l2": Method(means, full=True),
    "ncm-pca": Method(means, _plain(PCA)),
    "ncm-fda": Method(means, _plain(Fda), LAMS),
    "ncm-invcov": Method(means, _plain(InverseCovariance), LAMS),
    "ncmml": Method(means, _seeded(Ncmml), watched=True),
    "ncmml-dot": Method(means, _seeded(NcmmlDot), watched=True),
    **{f"ncmc-{k}": Method(Whole(_seeded(Ncmc, k=k))) for k in (5, 10, 15)},
    "ncmc-test": Method(Whole(_seeded(Ncmc, k=10, rounds=0))),
    "second": Method(second, _plain(PCA), RIDGES),
    "knn-l2": Method(neighbours, full=True),
    "knn-pca": Method(neighbours, _plain(PCA)),
    "lmnn": Method(neighbours, _seeded(Lmnn, targets="fixed"), watched=True),
    "lmnn-all": Method(neighbours, _seeded(Lmnn, targets="all"), watched=True),
    "lmnn-dynamic": Method(neighbours, _seeded(Lmnn, targets="dynamic"), watched=True),
    **{f"lmnn-{k}": Method(neighbours, _seeded(Lmnn, targets="fixed", k=k), watched=True) for k in (10, 20)},
    **{f"dynamic-{k}": Method(neighbours, _seeded(Lmnn, targets="dynamic", k=k), watched=True) for k in (10, 20)},
    "ridge": Method(largest, _plain(_PcaRidge), LAMS),
    "wsabie": Method(Whole(_seeded(Wsabie)), _seeded(Wsabie), watched=True),
    "jscl": Method(Whole(_seeded(Jscl)), _seeded(Jscl), watched=True),
    "svm": Method(svm, candidates=COSTS, full=True),
}


def choose(method: Method, X: Vectors, y: Codes, dim: int, seed: int) -> Params:
    """The candidate with the fewest errors on rows held out of X, the first of equals."""
    if not method.candidates:
        return {}
    random = np.random.default_rng(seed)
    some = np.sort(random.permutation(len(y))[:MOST])
    kept, out = (some[part] for part in hold_out(np.unique(y[some], return_inverse=True)[1], HELD, random))
    known = np.unique(y[kept])  # hold_out leaves a row of every class
    errors = []
    for params in method.candidates:
        score = method.fit(X[kept], y[kept], dim, seed, **params)
        errors.append(float(np.mean(ranks(score(X[out]), np.searchsorted(known, y[out])) > 0)))
    return dict(method.candidates[int(np.argmin(errors))])
