import pytest

from lookalike.collection.planning import CURVES, REFERENCE_MACHINE
from lookalike_bench import plot, scaling, tables
from lookalike_bench.scaling import BENCH, slope

SMALL = (1_000, 1_200, 1_500)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(scaling, "SIZES", SMALL)
    monkeypatch.setattr(scaling, "EXACT_ROWS", 0)
    monkeypatch.setattr(scaling, "WARM", 1_000)
    monkeypatch.setattr(scaling, "REPEATS", 1)
    monkeypatch.setattr(scaling, "WIDE", 32)
    monkeypatch.setattr(scaling, "SAMPLE", 1_000)
    caches = (scaling.measured, scaling.warm, scaling.machine, scaling.drawn, scaling.flat)
    for cached in (*caches, scaling.coder, scaling.codes, scaling.built):
        cached.cache_clear()


def test_the_exponent_of_a_power_law_is_found():
    exponent, low, high = slope([10, 100, 1_000, 10_000], [2 * n**1.5 for n in (10, 100, 1_000, 10_000)])
    assert exponent == low == high == 1.5
    exponent, low, high = slope([10, 100, 1_000, 10_000], [1.0, 12.0, 90.0, 1_050.0])
    assert low < 1 < high
    assert low < exponent < high


def test_slow_columns_run_on_request():
    plan = tables.plan(BENCH, "")
    columns = {column for _, column in plan}
    assert columns == {f"ms-{n}" for n in scaling.SIZES if n <= 1_000_000}
    assert ("build-fsmtree", "ms-100000") not in plan
    assert tables.plan(BENCH, "", rows=["search-flat"], columns=["ms-10000000"]) == [("search-flat", "ms-10000000")]
    assert not BENCH.has("search-flat", "bytes-100000")
    assert not BENCH.has("fit-pca", "ratio-10000")


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("row", ["memory", "store", "fit-pca", "encode-itq", "search-flat", "search-itq", "round-flat"])
def test_a_row_has_times_and_an_exponent(row):
    cell = tables.fill(BENCH, row, "ms-1000", "")
    assert 0 < cell.low <= cell.value <= cell.high
    grown = tables.fill(BENCH, row, "exponent", "")
    assert grown.low <= grown.value <= grown.high


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("row", ["build-ivfpq", "search-ivfpq", "build-hamming", "search-multihash", "search-pq"])
def test_indexes_are_built_once_and_searched(row):
    assert tables.fill(BENCH, row, "ms-1000", "").value > 0


@pytest.mark.usefixtures("small")
def test_bytes_are_the_memory_of_the_index():
    assert scaling.build_index("hamming", 1_000, 64, 0).bytes == pytest.approx(8 + 25, rel=0.1)
    assert scaling.store_vectors("", 500, 8, 0).bytes > 4 * 8


@pytest.mark.usefixtures("small")
def test_a_prediction_is_divided_by_the_measured_time():
    assert tables.fill(BENCH, "search-flat", "ratio-1000", "").value > 0
    assert scaling.predicted("search-itq", 1_000, 64, REFERENCE_MACHINE) == CURVES["search-itq"].seconds(1_000, 8)


def test_curves_have_logarithmic_axes():
    cells = [
        tables.Cell("scaling", "flat", f"ms-{n}", "ms", n / 1e3, n / 1e3, n / 1e3, None, "", 0, 1.0, 1.0, n)
        for n in (1_000, 10_000, 100_000)
    ]
    (axes,) = plot.draw("scaling", cells).axes
    assert axes.get_xscale() == axes.get_yscale() == "log"


def test_many_curves_are_split_into_one_panel_per_kind():
    cells = [
        tables.Cell("scaling", row, f"ms-{n}", "ms", 1.0, 1.0, 1.0, None, "", 0, 1.0, 1.0, n)
        for row in (*(f"fit-{one}" for one in range(12)), *(f"search-{one}" for one in range(10)), "add")
        for n in (10, 20, 40)
    ]
    figure = plot.draw("scaling", cells)
    assert [axes.get_title() for axes in figure.axes] == ["fit, ms", "search, ms", "other, ms"]
    assert [len(axes.lines) for axes in figure.axes] == [12, 10, 1]
    assert all(axes.get_legend() for axes in figure.axes)
