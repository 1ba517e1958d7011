"""Transformers name their columns and return what `set_output` asks for; a fit never drops dimensions silently."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks as checks

from lookalike import registry
from lookalike.codes import Tsvmh
from lookalike.encode import L2, PCA, Esvm, KernelSlem
from lookalike.errors import FewerDimensionsWarning, InputError
from lookalike.features.vlad import Vlad
from lookalike.learn import Dca, Fda, InverseCovariance, Jscl, Lmnn, Ncmc, Ncmml, NcmmlDot, Wsabie
from lookalike.limits import collect_fewer
from patches import draw

OPTIONS = {
    "dfk": {"k": 2, "max_iterations": 2},
    "dmleig": {"pairs": 100},
    "fess": {"k": 2},
    "kernelslem": {"rank": 2},
    "lmnn": {"max_iterations": 10},
    "mmc": {"pairs": 100},
    "pd": {"k": 2},
    "sdpm": {"triplets": 100},
}
TRANSFORMS = [
    *(
        registry.create("transform", registry.Spec(name, OPTIONS.get(name, {})))
        for name in registry.names("transform")
        if name != "text"  # is an L2 that also needs the files of a network
    ),
    KernelSlem(rank=None),
    Esvm(lam=0.1),
    Tsvmh(bits=8),
]
X = np.random.default_rng(0).normal(size=(60, 6))
y = np.arange(60) % 3


@pytest.mark.parametrize("transform", TRANSFORMS, ids=repr)
@pytest.mark.parametrize(
    "check",
    [
        checks.check_transformer_get_feature_names_out,
        checks.check_transformer_get_feature_names_out_pandas,
        checks.check_set_output_transform,
        checks.check_set_output_transform_pandas,
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:X (has|does not have valid) feature names")
def test_transformers_name_their_columns(transform, check):
    check(type(transform).__name__, transform)


def test_a_pipeline_returns_a_table_with_named_columns():
    pytest.importorskip("pandas")
    pipeline = make_pipeline(PCA(dim=3), L2(), Fda()).set_output(transform="pandas")
    assert pipeline.fit_transform(X, y).columns.tolist() == ["fda0", "fda1"]
    assert pipeline[:-1].get_feature_names_out().tolist() == ["pca0", "pca1", "pca2"]


def test_queries_and_classifiers_use_arrays_whatever_the_output():
    slem, wsabie = KernelSlem(gamma=0.1, rank=3).fit(X), Wsabie(max_iterations=30).fit(X, y)
    tables = [clone(slem).set_output(transform="pandas"), clone(wsabie).set_output(transform="pandas")]
    assert tables[0].fit(X).query(X[:2]).score(slem.transform(X)).argmin(axis=1).tolist() == [0, 1]
    assert tables[1].fit(X, y).predict(X).tolist() == wsabie.predict(X).tolist()


@pytest.mark.parametrize(
    ("transform", "most"),
    [
        (PCA(dim=7), 6),
        (Fda(dim=3), 2),
        (Dca(dim=3), 2),
        (InverseCovariance(dim=7), 6),
        (Lmnn(dim=7, max_iterations=5), 6),
        (Ncmml(dim=7, max_iterations=5), 6),
        (NcmmlDot(dim=7, max_iterations=5), 6),
        (Ncmc(dim=7, max_iterations=5), 6),
        (Wsabie(dim=7, max_iterations=5), 6),
        (Jscl(dim=7, max_iterations=5), 6),
    ],
    ids=repr,
)
def test_more_dimensions_than_there_are_give_a_warning(transform, most):
    expected = rf"dim={transform.dim} was requested, but .* Dimensions used: {most}\."
    with pytest.warns(FewerDimensionsWarning, match=expected):
        assert transform.fit(X, y).transform(X).shape == (60, most)
    default = clone(transform).set_params(dim=None).fit(X, y)  # requests nothing: no warning
    assert default.transform(X).shape[1] == most
    clone(transform).set_params(dim=2).fit(X, y)
    with pytest.raises(InputError, match="dim must be"):
        clone(transform).set_params(dim=0).fit(X, y)


def test_a_kernel_space_of_lower_rank_gives_a_warning():
    with pytest.warns(FewerDimensionsWarning, match=r"rank=8 was requested, but 60 negatives span 6"):
        KernelSlem("linear", rank=8).fit(X)


def test_patches_shorter_than_requested_give_a_warning(monkeypatch):
    monkeypatch.setitem(registry.COMPONENTS, "local", {"grid": "patches:Grid"})
    feature = Vlad(local="grid()", k=2, patch_dim=100)
    with pytest.warns(FewerDimensionsWarning, match=r"patch_dim=100 was requested, but grid\(\) has 12-dimensional"):
        feature.fit([feature.prepare(draw(seed)) for seed in range(3)])
    assert feature.dim == 24


def test_a_collector_receives_the_warnings_as_text():
    with collect_fewer() as notes:
        PCA(dim=9).fit(X)
    assert notes == ["dim=9 was requested, but 60 rows with 6 columns span at most 6 dimensions. Dimensions used: 6."]
