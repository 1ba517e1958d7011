import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike import arrays as lookalike_arrays
from lookalike.encode import kernel_slem
from lookalike.encode.kernel_slem import FACTORS, KernelSlem, SlemQuery
from lookalike.errors import InputError, UnknownNameError
from lookalike.index.flat import Flat
from lookalike.index.queries import PointQuery
from lookalike.kernels import KERNELS, TANGENTS
from lookalike.store import models
from reference import kernel_slem as slow
from reference import kernels

pytestmark = pytest.mark.filterwarnings("ignore::lookalike.errors.FewerDimensionsWarning")  # tiny pools on purpose

random = np.random.default_rng(4)
mix = random.normal(size=(6, 6)) / 2
N, X = random.normal(size=(40, 6)) @ mix, random.normal(size=(6, 6)) @ mix
GAMMA, LAM = 0.2, 0.05
RANKS = [("icd", 10), ("kpca", 10), ("icd", None)]


def exact(slem, rows):
    """Cosines of the classifiers (m, m) in float64, computed from the solution of the estimator."""
    made = slem._solve(rows)
    s = KERNELS[slem.kernel].pairs(rows, rows, slem.gamma) - made.p[:, None] - made.p - made.z @ made.z.T
    return s / np.sqrt(np.outer(made.s, made.s))


@parametrize_with_checks(
    [KernelSlem(rank=4), KernelSlem("poly", 0.5, 0.1, "kpca", 3), KernelSlem("linear", rank=None, lam=0.1)]
)
def test_scikit_learn_estimator_checks_pass(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", TANGENTS)
def test_the_reference_minimises_equation_1(name):
    k = getattr(kernels, name)(GAMMA)
    alpha, nu = slow.dense(X[0], N, k, LAM)
    least = slow.loss(alpha, nu, X[0], N, k, LAM)
    for _ in range(20):
        other = slow.loss(alpha + 1e-3 * random.normal(size=41), nu + 1e-3 * random.normal(), X[0], N, k, LAM)
        assert other > least


@pytest.mark.parametrize("name", TANGENTS)
@pytest.mark.parametrize("lam", [1.0, 1e-2, 1e-4])
def test_full_rank_gives_the_dense_ridge_solution_of_equation_1(name, lam):
    expected = slow.similarity(X, N, getattr(kernels, name)(GAMMA), lam)
    np.testing.assert_allclose(exact(KernelSlem(name, GAMMA, lam, rank=None).fit(N), X), expected, atol=1e-8)


@pytest.mark.parametrize("name", TANGENTS)
@pytest.mark.parametrize("factor", FACTORS)
def test_a_factor_of_rank_n_equals_the_complete_cholesky_factor(name, factor):
    full, low = (KernelSlem(name, GAMMA, LAM, factor, rank).fit(N) for rank in (None, len(N)))
    np.testing.assert_allclose(exact(low, X), exact(full, X), atol=1e-8)


@pytest.mark.parametrize("name", TANGENTS)
@pytest.mark.parametrize("factor", FACTORS)
@pytest.mark.parametrize("rank", [1, 4])
def test_low_rank_scores_equal_the_formulas_of_the_paper_with_half_the_dimensions(name, factor, rank):
    slem = KernelSlem(name, GAMMA, LAM, factor, rank).fit(N)
    B, landmarks, _ = FACTORS[factor](N, KERNELS[name], GAMMA, rank)
    pivots = [int(np.argmin(np.sum((N - row) ** 2, axis=1))) for row in landmarks]
    expected = slow.by_formulas(X, N, B, getattr(kernels, name)(GAMMA), LAM, pivots)
    np.testing.assert_allclose(exact(slem, X), expected, atol=1e-8)
    assert slem.transform(X).shape == (6, 6 + rank + 2)


@pytest.mark.parametrize("name", TANGENTS)
def test_pushes_are_the_coefficients_of_the_dense_solution(name):
    k = getattr(kernels, name)(GAMMA)
    alphas = [slow.dense(x, N, k, LAM)[0] for x in X]
    expected = np.array([-len(N) * alpha[1:] / alpha[0] for alpha in alphas])
    for factor, rank in [("icd", None), ("icd", 40), ("kpca", 40)]:
        pushes = KernelSlem(name, GAMMA, LAM, factor, rank).fit(N).pushes(X, N)
        assert pushes.dtype == np.float32
        np.testing.assert_allclose(pushes, expected, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(("factor", "rank"), RANKS)
def test_scores_are_inner_products_of_the_expansions_given_by_pushes(factor, rank):
    slem = KernelSlem("gaussian", GAMMA, LAM, factor, rank).fit(N)
    alphas = np.hstack([np.ones((6, 1)), -slem.pushes(X, N).astype(np.float64) / len(N)])
    k = kernels.gaussian(GAMMA)
    if rank is not None:  # the factor also approximates the kernels of the negatives: BBᵀ
        made = slem._solve(N)
        mine = slem._solve(X)
        b, v = made.y + slem.offset_, mine.y + slem.offset_
        h = v + alphas[:, 1:] @ b  # h = α₀([u; v] + Σ weightᵢ [0; bᵢ]): Lemma 1
        outside = kernels.gram(X, X, k) - v @ v.T
        s = h @ h.T + outside
    else:
        s = np.array(
            [
                [slow.inner(a, x, b, y, N, k) for b, y in zip(alphas, X, strict=True)]
                for a, x in zip(alphas, X, strict=True)
            ]
        )
    cosines = s / np.sqrt(np.outer(np.diag(s), np.diag(s)))
    np.testing.assert_allclose(1 - slem.query(X).score(slem.transform(X)), cosines, atol=1e-4)


def test_the_linear_kernel_ranks_like_linear_slem():
    np.testing.assert_allclose(
        exact(KernelSlem("linear", 1.0, LAM, rank=None).fit(N), X), slow.linear_slem(X, N, LAM), atol=1e-8
    )
    slem = KernelSlem("linear", 1.0, LAM, rank=6).fit(N)
    ours, theirs = slem.query(X).score(slem.transform(X)), -slow.linear_slem(X, N, LAM)
    np.testing.assert_array_equal(np.argsort(ours, axis=1), np.argsort(theirs, axis=1))


@pytest.mark.parametrize("name", TANGENTS)
@pytest.mark.parametrize(("factor", "rank"), RANKS)
def test_float32_vectors_give_the_same_scores_as_float64(name, factor, rank):
    slem = KernelSlem(name, GAMMA, LAM, factor, rank).fit(N)
    rows = slem.transform(X)
    assert rows.dtype == np.float32
    # The scores are differences of terms as large as K(x, x), divided by ⟨h, h⟩: that ratio amplifies rounding, and how
    # much of it remains depends on the processor's order of summation.
    ratio = np.max(KERNELS[name].diagonal(X, GAMMA) / slem._solve(X).s)
    rounding = 16 * np.finfo(np.float32).eps * ratio
    np.testing.assert_allclose(slem.query(X).score(rows), 1 - exact(slem, X), atol=rounding)
    np.testing.assert_allclose(np.diag(slem.query(X).score(rows)), 0, atol=rounding)


def test_scores_do_not_depend_on_the_block_size(monkeypatch):
    slem = KernelSlem(gamma=GAMMA, rank=8).fit(N)
    rows = slem.transform(N)
    whole = slem.query(X).score(rows)
    monkeypatch.setattr(kernel_slem, "BLOCK_BYTES", 4 * 30)
    monkeypatch.setattr(kernel_slem, "BLOCK_ROWS", 10)
    np.testing.assert_allclose(slem.query(X).score(rows), whole, atol=1e-6)
    assert slem.query(X).score(rows[:0]).shape == (6, 0)


def test_the_flat_index_answers_slem_queries():
    slem = KernelSlem(gamma=GAMMA, rank=8).fit(N)
    index = Flat()
    index.add(np.arange(40), slem.transform(N))
    hits = index.search(slem.query(N[[5, 17]]), 1)
    assert hits.ids.ravel().tolist() == [5, 17]
    with pytest.raises(InputError, match=r"The query has 12 dimensions, the index 16"):
        index.search(KernelSlem(gamma=GAMMA, rank=4).fit(N).query(N), 1)


def test_a_query_needs_only_rows_kernel_and_gamma():
    slem = KernelSlem(gamma=GAMMA, rank=8).fit(N)
    rows = slem.transform(N)
    again = SlemQuery(rows[:3], kernel="gaussian", gamma=GAMMA, d=6)
    assert again.score(rows).tobytes() == slem.query(N[:3]).score(rows).tobytes()


def clustered(n, d=24, seed=0):
    """Unit vectors in clusters of four, like pictures of one object from several sides."""
    maker = np.random.default_rng(seed)
    things = maker.normal(size=(n // 4, d)) * np.linspace(2, 0.3, d)
    rows = np.repeat(things, 4, axis=0) + 0.3 * maker.normal(size=(n, d))
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@pytest.mark.parametrize("name", ["gaussian", "poly"])
@pytest.mark.parametrize(("factor", "rank"), [("icd", 16), ("kpca", 16), ("icd", None)])
def test_the_shortlist_of_an_ordinary_index_contains_the_best_results(name, factor, rank):
    slem = KernelSlem(name, 1.0, 1e-2, factor, rank).fit(clustered(400, seed=1))
    X = clustered(1000)
    rows, query = slem.transform(X), slem.query(X[:100])
    best = np.argsort(query.score(rows), axis=1)[:, :10]
    vectors, points = slem.shortlist(rows), query.shortlist()
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), np.linalg.norm(vectors, axis=1).max(), rtol=1e-5)
    index = Flat()
    index.add(np.arange(1000), vectors)
    for short in (index.search(PointQuery(points), 50).ids, np.argsort(-points @ vectors.T, axis=1)[:, :50]):
        recall = np.mean([np.isin(b, s).mean() for b, s in zip(best, short, strict=True)])
        assert recall >= 0.97


def test_the_shortlist_is_exact_for_the_linear_kernel():
    slem = KernelSlem("linear", 1.0, LAM, rank=6).fit(N)
    rows, query = slem.transform(X), slem.query(X)
    products = query.shortlist() @ slem.shortlist(rows).T * query.rows[:, -1:]
    np.testing.assert_allclose(1 - products, query.score(rows), atol=1e-4)


def test_vectors_added_to_a_shortlist_later_get_the_length_of_the_first_ones():
    slem = KernelSlem(gamma=GAMMA, rank=6).fit(N)
    first = slem.shortlist(slem.transform(N))
    length = np.linalg.norm(first, axis=1).max()
    np.testing.assert_allclose(slem.shortlist(slem.transform(N[:5]), length), first[:5], atol=1e-2)
    assert slem.shortlist(slem.transform(N[:0])).shape == (0, 6 + 6 + 3)


@pytest.mark.parametrize(("factor", "rank"), RANKS)
def test_torch_input_gives_torch_output_with_the_same_values(factor, rank):
    torch = pytest.importorskip("torch")
    slem = KernelSlem("gaussian", GAMMA, LAM, factor, rank)
    expected = slem.fit(N).query(X).score(slem.transform(X))
    pushes = slem.pushes(X, N)
    other = KernelSlem("gaussian", GAMMA, LAM, factor, rank).fit(torch.from_numpy(N))
    assert all(isinstance(value, torch.Tensor | int) for key, value in vars(other).items() if key.endswith("_"))
    for rows in (torch.from_numpy(X), torch.from_numpy(X).float()):
        got = other.transform(rows)
        assert isinstance(got, torch.Tensor)
        assert got.dtype == torch.float32
        np.testing.assert_allclose(other.query(rows).score(got.numpy()), expected, atol=1e-4)
        np.testing.assert_allclose(other.pushes(rows, torch.from_numpy(N)).numpy(), pushes, atol=1e-3)


def test_the_number_of_chunks_does_not_change_the_results(monkeypatch):
    slem = KernelSlem(gamma=GAMMA, rank=8).fit(N)
    rows = slem.transform(X)
    monkeypatch.setattr(lookalike_arrays.chunks, "__defaults__", (500,))
    again = KernelSlem(gamma=GAMMA, rank=8).fit(N)
    np.testing.assert_allclose(again.transform(X), rows, atol=1e-5)
    assert again.transform(X[:0]).shape == (0, rows.shape[1])


@pytest.mark.parametrize("name", TANGENTS)
@pytest.mark.parametrize(("factor", "rank"), RANKS)
def test_degenerate_pools_give_finite_scores(name, factor, rank):
    constant = np.hstack([N, np.full((40, 1), 3.0), np.zeros((40, 1))])
    for rows in (np.repeat(N[:3], 20, axis=0), constant, np.ones((30, 4)), N[:3], np.vstack([N, 0 * N])):
        slem = KernelSlem(name, GAMMA, LAM, factor, rank).fit(rows)
        stored = slem.transform(rows)
        for values in (stored, slem.query(rows).score(stored), slem.shortlist(stored), slem.pushes(rows, rows)):
            assert np.isfinite(values).all()


def test_a_row_equal_to_the_whole_pool_is_similar_to_nothing():
    slem = KernelSlem(rank=None).fit(np.ones((30, 4)))
    rows = slem.transform(np.array([[1.0, 1, 1, 1], [1, 0, 0, 0]]))
    np.testing.assert_allclose(slem.query(np.ones((1, 4))).score(rows), 1)
    np.testing.assert_allclose(slem.query([[1.0, 0, 0, 0]]).score(rows), [[1, 0]], atol=1e-5)


def test_duplicating_all_negatives_changes_nothing():
    once, twice = (KernelSlem(gamma=GAMMA, lam=LAM, rank=None).fit(rows) for rows in (N, np.vstack([N, N])))
    np.testing.assert_allclose(exact(twice, X), exact(once, X), atol=1e-8)


@pytest.mark.parametrize("lam", [0, 0.0, -1.0, np.nan, None])
def test_lam_must_be_above_zero(lam):
    with pytest.raises(InputError, match=r"lam must be above 0, .* Got"):
        KernelSlem(lam=lam).fit(N)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"rank": 0}, r"rank must be None \(full\) or a whole number of at least 1. Got 0."),
        ({"rank": 2.5}, r"rank must be .* Got 2.5."),
        ({"gamma": 0}, r"gamma must be a number above 0. Got 0."),
    ],
)
def test_invalid_options_are_rejected(options, error):
    with pytest.raises(InputError, match=error):
        KernelSlem(**options).fit(N)
    with pytest.raises(UnknownNameError, match=r"Known: gaussian, linear, poly"):
        KernelSlem("rbf").fit(N)
    with pytest.raises(UnknownNameError, match=r"Known: icd, kpca"):
        KernelSlem(factor="svd").fit(N)


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e7])
def test_rows_that_are_not_finite_or_too_large_are_rejected(bad):
    rows = N.copy()
    rows[7, 2] = bad
    slem = KernelSlem(rank=4)
    for call in (slem.fit, slem.fit(N).transform, slem.query, lambda Y: slem.pushes(X, Y)):
        with pytest.raises(InputError, match=r"X must (be finite|have values of at most 1e\+06. Got 1e\+07)"):
            call(rows)


def test_it_must_be_fitted_before_use():
    slem = KernelSlem()
    for call in (slem.transform, slem.query, lambda Y: slem.pushes(Y, Y)):
        with pytest.raises(NotFittedError):
            call(X)


@pytest.mark.parametrize("rank", [None, 6])
def test_a_model_fitted_by_torch_encodes_numpy_rows_and_can_be_saved(rank, tmp_path):
    torch = pytest.importorskip("torch")
    ours, theirs = (KernelSlem(rank=rank).fit(rows) for rows in (N, torch.from_numpy(N)))
    assert isinstance(theirs.projection_, torch.Tensor)
    np.testing.assert_allclose(theirs.transform(X), ours.transform(X), atol=1e-5)
    models.save(tmp_path / "model.npz", theirs)
    np.testing.assert_array_equal(models.load(tmp_path / "model.npz")[0].transform(X), theirs.transform(X))
