import numpy as np

from lookalike.index.choice import FLAT_MAX, HNSW_MAX, choose, measure_recall
from lookalike.index.flat import Flat
from lookalike.index.queries import PointQuery


def test_the_index_depends_on_the_number_of_rows():
    assert [choose(n) for n in (0, 100_000, FLAT_MAX, FLAT_MAX + 1, HNSW_MAX + 1)] == [
        "flat",
        "flat",
        "flat",
        "hnsw",
        "ivfpq",
    ]


class Forgetful(Flat):
    """An index that finds only the first half of the neighbours, unless the search is exact."""

    def search(self, query, k, *, effort=None, **filters):
        hits = super().search(query, k, effort=effort, **filters)
        if effort != "exact":
            hits.ids[:, 6:], hits.scores[:, 6:] = -1, np.inf
        return hits


def test_recall_is_the_fraction_of_neighbours_found():
    index = Forgetful()
    X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    index.add(np.arange(500), X)
    assert measure_recall(index, PointQuery) == 0.5  # the row itself does not count
    assert measure_recall(index, PointQuery, "exact") == 1
    assert measure_recall(Flat(), PointQuery) == 1


class Biased(Flat):
    """An index that finds only ids from `first` on within each group of 20, unless the search is exact."""

    first = 9

    def search(self, query, k, *, effort=None, **filters):
        ids = self.ids if effort == "exact" else self.ids[self.ids % 20 >= self.first]
        return super().search(query, k, among=ids, effort=effort, **filters)


def test_any_copies_of_the_neighbours_count_as_found():
    index = Biased()
    X = np.random.default_rng(0).normal(size=(25, 4)).astype(np.float32)
    index.add(np.arange(500), X.repeat(20, axis=0))  # more copies than neighbours
    assert measure_recall(index, PointQuery) == 1
    index.first = 15  # 5 copies are left
    assert 0.4 <= measure_recall(index, PointQuery) <= 0.5
