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
            hits.ids[:, 6:] = -1
        return hits


def test_recall_is_the_fraction_of_neighbours_found():
    index = Forgetful()
    X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    index.add(np.arange(500), X)
    assert measure_recall(index, PointQuery) == 0.5  # the row itself does not count
    assert measure_recall(index, PointQuery, "exact") == 1
    assert measure_recall(Flat(), PointQuery) == 1
