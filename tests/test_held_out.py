import numpy as np
import pytest

from lookalike.classes import OpenSet
from lookalike.classes.class_table import ClassTable
from lookalike.classes.held_out import HeldOut
from lookalike.classes.hierarchy import Hierarchy
from lookalike.classes.moments import Cells

KINDS = ["ncm", "ncmc", "second"]
random = np.random.default_rng(3)
CODES = np.repeat(np.arange(4), [2, 3, 6, 1])
Y = np.array(list("abcd"))[CODES]
X = random.normal(size=(4, 5))[CODES] * 2 + random.normal(size=(12, 5)) + 3
PAIRS = [("a", "all"), ("b", "all"), ("c", "all")]
POINTS = random.normal(size=(7, 5)) + 3


def table_of(rows, labels, kind, hierarchy=None):
    names = np.unique(labels)
    cells = Cells.empty(rows, 2 if kind == "ncmc" else 1, kind == "second", 0)
    table = ClassTable(names[:0], cells, 0.1, hierarchy, 4.0)
    table.append(names)
    table.add(rows, labels)
    return table


def true_distances(table, row, points=None):
    """Squared distances of one row to all cells, or to points, by the definition."""
    means, known = table.means() if points is None else (points, np.ones(len(points), bool))
    inverse = table.prototypes(wide=True).inverse
    steps = row - means
    return np.where(known, np.einsum("ij,jk,ik->i", steps, np.eye(5) if inverse is None else inverse, steps), np.inf)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("kind", "pairs"), [*((kind, None) for kind in KINDS), ("ncm", PAIRS), ("second", PAIRS)])
def test_held_out_distances_are_those_of_classes_without_the_row(kind, pairs, dtype):
    rows = X.astype(dtype)
    table = table_of(rows, Y, kind, Hierarchy(pairs) if pairs else None)
    some = np.flatnonzero(CODES < 3)
    held = HeldOut(table, rows[some], CODES[some])
    D = np.concatenate([D for _, D in held.distances()])
    to_points = np.concatenate([D for _, D in held.to_rows(POINTS)])
    rtol = 1e-9 if dtype == np.float64 else 1e-4
    for i, row in enumerate(some.tolist()):
        n, group = held.n[i], held.groups[i]
        weight = 4.0 if pairs else 0.0
        N = n + weight
        table.remove(rows[[row]], Y[[row]])
        expected, expected_points = true_distances(table, rows[row]), true_distances(table, rows[row], POINTS)
        table.add(rows[[row]], Y[[row]])
        expected[group] *= (1 + n / N**2) / (1 + (n - 1) / (N - 1) ** 2) if n > 1 else 1
        other = np.arange(len(expected)) // table.cells.k != CODES[row]
        own = group == np.arange(len(expected))
        # A hierarchy also gives other classes a prior that includes the row; only the own class is exact.
        np.testing.assert_allclose(D[i][own], expected[own], rtol=rtol)
        if not pairs:
            np.testing.assert_allclose(D[i][other], expected[other], rtol=rtol)
            np.testing.assert_allclose(to_points[i], expected_points, rtol=rtol)


def test_the_distance_of_a_held_out_row_is_on_average_that_of_a_new_row():
    codes = np.repeat(np.arange(2_000), 2)
    rows, new = random.normal(size=(4_000, 5)), random.normal(size=(2_000, 5))
    table = table_of(rows, codes, "ncm")
    held = [D[np.arange(len(D)), codes[::2][part]] for part, D in HeldOut(table, rows[::2], codes[::2]).distances()]
    distances = np.sum((new - table.means()[0]) ** 2, axis=1)
    assert np.concatenate(held).mean() == pytest.approx(distances.mean(), rel=0.05)


def test_a_row_without_which_there_is_no_scatter_is_not_a_number():
    rows = np.array([[0.0, 0, 0, 0, 0], [1, 0, 0, 0, 0], [5, 5, 5, 5, 5], [5, 5, 5, 5, 5]])
    labels = np.array(["a", "a", "b", "b"])
    table = table_of(rows, labels, "second")
    (D,) = (D for _, D in HeldOut(table, rows, np.array([0, 0, 1, 1])).distances())
    assert np.isnan(D[:2]).all()
    assert np.isfinite(D[2:]).all()
    model = OpenSet("second", reject=0.05).fit(rows, labels)
    assert np.isfinite(model.predict_proba(rows)).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [2, 5, 20])
def test_few_images_per_class_are_rejected_as_often_as_asked(kind, n):
    draw = np.random.default_rng(n)
    C, d, held = 40, 20, 10
    centres = draw.normal(size=(2 * C, d)) * 1.5
    y = np.repeat(np.arange(C), n)
    model = OpenSet(kind, reject=0.1, none_label=-1).fit(centres[y] + draw.normal(size=(C * n, d)), y)
    new = centres[np.repeat(np.arange(2 * C), held)] + draw.normal(size=(2 * C * held, d))
    rejected = model.predict(new) == -1
    assert 0.02 < rejected[: C * held].mean() < 0.2
    assert rejected[C * held :].mean() > 0.5
