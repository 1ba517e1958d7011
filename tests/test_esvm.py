import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from lookalike.encode.esvm import Esvm
from lookalike.encode.slem import Slem
from lookalike.errors import InputError
from reference.exemplar import hinge_loss

random = np.random.default_rng(4)
POOL = random.normal(size=(150, 8)) * np.geomspace(2, 0.2, 8) + 1
ROWS = random.normal(size=(5, 8)) * np.geomspace(2, 0.2, 8) + 1


@parametrize_with_checks([Esvm(lam=0.1)])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_it_is_a_scikit_learn_estimator(estimator, check):
    check(estimator)


@pytest.mark.parametrize("lam", [0.1, 1.0])
@pytest.mark.parametrize("theta", [0.1, 1.0, 5.0])
def test_output_rows_are_the_directions_that_minimise_equation_1_with_the_hinge_loss(lam, theta):
    Y = Esvm(lam, theta).fit(POOL).transform(ROWS)
    assert Y.dtype == np.float32
    for got, row in zip(Y, ROWS, strict=True):
        expected = hinge_loss(row, POOL, lam, theta)
        assert got @ expected / np.linalg.norm(expected) > 0.995


def test_it_is_close_to_slem_which_has_the_square_loss():
    cosines = np.sum(Esvm(0.5).fit(POOL).transform(ROWS) * Slem(0.5).fit(POOL).transform(ROWS), axis=1)
    assert cosines.min() > 0.8


def test_a_batch_gives_the_same_results_as_single_rows():
    esvm = Esvm(0.1).fit(POOL)
    np.testing.assert_array_equal(esvm.transform(ROWS)[2:3], esvm.transform(ROWS[2:3]))
    assert esvm.transform(ROWS[:0]).shape == (0, 8)


def test_torch_tensors_give_torch_tensors_with_the_same_values():
    torch = pytest.importorskip("torch")
    got = Esvm(0.1).fit(torch.from_numpy(POOL)).transform(torch.from_numpy(ROWS))
    assert got.dtype == torch.float32
    np.testing.assert_allclose(got.numpy(), Esvm(0.1).fit(POOL).transform(ROWS), atol=1e-6)


@pytest.mark.parametrize("options", [{"lam": 0}, {"lam": -1.0}, {"lam": np.nan}, {"theta": 0}, {"max_iterations": 0}])
def test_invalid_options_are_refused(options):
    (name, value) = next(iter(options.items()))
    with pytest.raises(InputError, match=f"{name} must be .* Got {value!r}"):
        Esvm(**options).fit(POOL)


def test_rows_that_are_not_finite_and_calls_before_fit_are_refused():
    bad = ROWS.copy()
    bad[1, 1] = np.nan
    with pytest.raises(InputError, match=r"X must be finite"):
        Esvm().fit(bad)
    with pytest.raises(InputError, match=r"X must be finite"):
        Esvm().fit(POOL).transform(bad)
    with pytest.raises(NotFittedError):
        Esvm().transform(ROWS)


def test_a_row_equal_to_all_negatives_becomes_zero():
    same = np.ones((4, 3))
    assert not Esvm(0.1).fit(same).transform(same[:1]).any()
