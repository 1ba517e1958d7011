import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lookalike import cli
from lookalike.collection import Collection, indexes, planning
from lookalike.collection.planning import (
    Machine,
    Workload,
    collection_workload,
    graph_seconds,
    plan,
    plan_cluster,
    recipe_workload,
    slowest_seconds,
    with_speed,
)
from lookalike.errors import InputError, UnknownNameError
from lookalike.images.demo import draw_folder
from lookalike.index import leaves
from lookalike.index.choice import FLAT_MAX, HNSW_MAX, choose
from lookalike.system import linux
from lookalike.text import human_seconds, parse_bytes, parse_count, parse_seconds

ITEMS = st.integers(1, 200_000_000)
RAM = st.floats(1e8, 1e12)
DIMS = st.sampled_from([(64, 64), (256, 1280), (512, 512), (1280, 1280)])
SLOW = Machine(memory=planning.REFERENCE_MACHINE.memory / 3, product=planning.REFERENCE_MACHINE.product / 3)


def way(made, name=None):
    return next(one for one in made.ways if one.name == (name or made.chosen))


def each(made):
    return way(made).memory - planning.PROCESS_BYTES


@given(items=ITEMS, ram=RAM, less=st.floats(0.01, 1), dims=DIMS)
@settings(deadline=None)
def test_less_memory_never_leads_to_a_larger_index(items, ram, less, dims):
    more, fewer = plan(Workload(items, *dims), ram), plan(Workload(items, *dims), ram * less)
    if fewer.chosen is not None:
        assert more.chosen is not None
        assert each(fewer) <= each(more)


@given(items=ITEMS, times=st.floats(1, 1000), ram=RAM, dims=DIMS)
@settings(deadline=None)
def test_more_pictures_never_need_more_bytes_per_picture_with_the_same_index(items, times, ram, dims):
    few, many = plan(Workload(items, *dims), ram), plan(Workload(int(items * times), *dims), ram)
    if many.chosen is not None and choose(few.workload.items) == choose(many.workload.items):
        assert few.chosen is not None
        assert each(many) / many.workload.items <= each(few) / few.workload.items * (1 + 1e-9)


@given(items=ITEMS, ram=RAM, dims=DIMS, latency=st.floats(1e-4, 10))
@settings(deadline=None)
def test_the_chosen_index_fits_is_fast_enough_and_is_built_at_this_size(items, ram, dims, latency):
    made = plan(Workload(items, *dims), ram, latency)
    assert [one.memory for one in made.ways[3:]] == sorted((one.memory for one in made.ways[3:]), reverse=True)
    if made.chosen is None:
        assert "Nothing fits" in made.notes[0]
        return
    taken = way(made)
    assert taken.made
    assert max(taken.memory, taken.peak) <= ram
    assert taken.search_s <= latency


def test_the_plan_chooses_the_index_that_the_engine_would_build():
    chosen = {n: plan(Workload(n, 256, 1280), 1e12).chosen for n in (FLAT_MAX, FLAT_MAX + 1, HNSW_MAX, HNSW_MAX + 1)}
    assert list(chosen.values()) == ["flat", "hnsw", "hnsw", "ivfpq"]


def test_a_low_latency_limit_leads_to_codes():
    workload = Workload(FLAT_MAX, 256, 1280)
    assert plan(workload, 1e10).chosen == "flat"
    made = plan(workload, 1e10, latency_s=0.05)
    assert made.chosen == "codes-128"
    assert "too slow" in way(made, "flat").why


def test_a_slower_machine_is_predicted_slower():
    workload = with_speed(recipe_workload(100_000, "color"), planning.REFERENCE_MACHINE)
    slower = with_speed(workload, SLOW)
    assert slower.feature_s == pytest.approx(3 * workload.feature_s)
    quick, slow = (plan(one, 1e10, machine=on) for one, on in ((workload, planning.REFERENCE_MACHINE), (slower, SLOW)))
    for name in ("flat", "codes-64"):
        assert way(slow, name).search_s > way(quick, name).search_s
        assert way(slow, name).add_s > 2 * way(quick, name).add_s
        assert way(slow, name).memory == way(quick, name).memory


def test_commands_fit_a_new_or_an_existing_collection():
    new = recipe_workload(10, "deep")
    assert way(plan(new, 1e10)).commands[0] == "lookalike add FOLDER --recipe deep"
    assert (
        way(plan(new, 1e10), "pq-64").commands[0] == 'lookalike add FOLDER --recipe "pq = efficientnet() | pq(bits=64)"'
    )
    there = replace(new, exists=True)
    assert way(plan(there, 1e10), "codes-64").commands == (
        "lookalike fit 'codes(bits=64)'",
        "lookalike search IMAGE --space codes",
    )
    coded = replace(recipe_workload(10, "small = color() | itq(bits=64)"), exists=True)
    assert way(plan(coded, 1e10)).commands == ("lookalike search IMAGE --space small --effort exact",)
    own = recipe_workload(10, "mine = color() | pca(dim=16)")
    assert way(plan(own, 1e10)).commands[0] == 'lookalike add FOLDER --recipe "mine = color() | pca(dim=16)"'


def test_the_disk_space_includes_the_kinds_that_a_network_recognizes():
    kinds = recipe_workload(1_000_000, "deep-plain")
    none = replace(kinds, chain=("color()", *kinds.chain[1:]))
    assert way(plan(kinds, 1e10)).disk - way(plan(none, 1e10)).disk == 56e6


def test_sizes_that_were_never_measured_are_noted():
    notes = " ".join(plan(with_speed(recipe_workload(200_000_000, "deep"), planning.REFERENCE_MACHINE), 1e12).notes)
    assert "nothing above 10,000,000" in notes
    assert "several machines" in notes
    assert "Adding takes" in notes
    assert not plan(Workload(1_000, 256, 1280), 1e10).notes


def test_a_collection_can_be_planned_and_gets_leaves_only_if_they_fit(monkeypatch, tmp_path, capsys):
    workload = Workload(10_000_000, 256, 1280)
    codes = plan(workload, 1.7e9)  # their feedback uses the vectors of the feature, with 1,280 columns
    assert way(codes).feedback == way(codes).feedback_file == 0
    assert "not enough memory to build the feedback index" in codes.notes[0]
    small, large = plan(workload, 4e9), plan(workload, 2e10)
    assert way(small).feedback == way(large).feedback < 8 * workload.items
    assert way(large).feedback_file > 256 * workload.items
    assert way(large).disk > way(large).feedback_file
    assert "Feedback reads parts of it from the disk" in small.notes[0]
    assert not any("leaves" in note for note in large.notes)

    draw_folder(tmp_path / "pictures", per_kind=1)
    monkeypatch.setattr(indexes, "LEAVES_MIN", 2)
    monkeypatch.setattr(indexes, "installed_bytes", lambda: 1_000)
    with Collection(tmp_path / "made", create=True) as made:
        made.add(tmp_path / "pictures", recipes=["color"])
        assert made._store.vectors.structures.get("color()", "hyperplanes") is None
        monkeypatch.setattr(indexes, "installed_bytes", lambda: 10**12)
        monkeypatch.setattr(leaves, "MIN_ROWS", 1)
        made.compact()
        assert made._store.vectors.structures.get("color()", "hyperplanes") is not None
        (row,) = made.speeds()
        assert row["search_ms"] > 0
        assert row["predicted_ms"] > 0
        stats = made.stats()
    workload = collection_workload(stats)
    assert (workload.items, workload.dim, workload.name, workload.exists) == (stats["items"], 512, "color", True)
    with pytest.raises(UnknownNameError, match="No space named 'x'"):
        collection_workload(stats, "x")

    where = str(tmp_path / "made")
    capsys.readouterr()
    assert cli.run(["-c", where, "plan", "--ram", "8GB", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["workload"]["items"] == stats["items"]
    assert cli.run(["-c", where, "plan", "--ram", "8GB", "--items", "300M"]) == 1
    assert "space color of" in capsys.readouterr().out
    assert cli.run(["-c", where, "stats", "--speed"]) == 0
    assert "predicted ms" in capsys.readouterr().out
    assert cli.run(["-c", where, "stats", "--speed", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0].keys() == row.keys()


def test_an_empty_collection_has_no_plan():
    with pytest.raises(InputError, match="The collection is empty"):
        collection_workload({"items": 0, "spaces": []})


def test_an_empty_collection_is_planned_with_the_default_recipe(capsys, tmp_path):
    where = str(tmp_path / "empty")
    Collection(where, create=True).close()
    assert cli.run(["-c", where, "plan", "--ram", "2GB", "--items", "10M"]) == 0
    assert "(recipe deep)" in capsys.readouterr().out
    assert cli.run(["-c", where, "plan", "--ram", "2GB"]) == 2
    assert "Give the number of pictures" in capsys.readouterr().err
    assert cli.run(["-c", where, "plan", "--ram", "2GB", "--items", "10M", "--space", "deep"]) == 2
    assert "is missing or empty" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ([], 8),
        (["max\n"], 8),
        (["5\n"], 5),
        ([None, "6"], 6),
        (["7", "6"], 6),
        ([None, str(2**63 - 4096)], 8),
        (["0"], 8),
        (["-1"], 8),
        (["much"], 8),
    ],
)
def test_the_memory_limit_of_a_container_is_respected(limits, expected, monkeypatch, tmp_path):
    files = [tmp_path / "memory.max", tmp_path / "memory.limit_in_bytes"]
    for file, text in zip(files, limits, strict=False):
        if text is not None:
            file.write_text(text)
    monkeypatch.setattr(linux, "MEMORY_LIMITS", files)
    monkeypatch.setattr(linux.os, "sysconf", lambda name: {"SC_PAGE_SIZE": 2, "SC_PHYS_PAGES": 4}[name])
    assert linux.installed_bytes() == expected


def test_the_command_prints_a_table_and_json(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a folder without a collection
    assert cli.run(["plan", "--ram", "2GB", "--items", "10M", "--recipe", "deep-plain"]) == 0
    text = capsys.readouterr().out
    assert "* ivfpq" in text
    assert "lookalike add FOLDER --recipe deep-plain" in text
    assert cli.run(["plan", "--ram", "2GB", "--items", "10M"]) == 0  # the neighbour graph needs more memory
    assert "* codes-128" in capsys.readouterr().out
    assert cli.run(["plan", "--ram", "2GB", "--items", "10M", "--dim", "1280", "--latency", "50ms", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["chosen"] == "codes-128"
    assert found.keys() == {"workload", "ram", "latency_s", "chosen", "notes", "machine", "ways"}  # as in docs/cli.md
    assert found["workload"]["dim"] == 1280
    assert found["machine"]["measured"] is False
    assert {"name", "memory", "disk", "add_s", "search_s", "round_s", "why", "commands"} <= set(found["ways"][0])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--ram", "0GB", "--items", "5"], "--ram must be above 0"),
        (["--ram", "2", "--items", "5"], "--ram must be a number with a unit"),
        (["--ram", "2GX", "--items", "5"], "--ram must be a number with a unit"),
        (["--ram", "2GB", "--items", "-5"], "--items must be above 0"),
        (["--ram", "2GB", "--items", "0.1"], "--items must be at least 1"),
        (["--ram", "2GB", "--items", "ten"], "--items must be a number with a unit"),
        (["--ram", "2GB", "--items", "5", "--latency", "soon"], "--latency must be a number with a unit"),
        (["--ram", "2GB", "--items", "5", "--dim", "0"], "--dim must be at least 1"),
        (["--ram", "2GB", "--items", "5", "--dim", "4", "--recipe", "deep"], "Give one"),
        (["--ram", "2GB", "--items", "5", "--recipe", "dep"], "Did you mean 'deep'"),
        (["--ram", "2GB"], "Give the number of pictures"),
        (["--ram", "2GB", "--items", "5", "--dim", "4", "--space", "deep"], "--space plans for existing vectors"),
        (
            ["--ram", "2GB", "--items", "5", "--recipe", "color", "--space", "deep"],
            "--space plans for existing vectors",
        ),
        (["--ram", "2GB", "--items", "5", "--space", "deep"], "Leave out --space"),
        (["--machines", "2"], "Give the number of pictures"),
        (["--items", "5", "--machines", "0"], "--machines must be at least 1"),
        (["--items", "5", "--machines", "2", "--cores-per-machine", "0"], "--cores-per-machine must be at least 1"),
        (["--items", "5", "--cores-per-machine", "4"], "--cores-per-machine describes a cluster"),
    ],
)
def test_invalid_arguments_are_rejected(words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.run(["plan", *words]) == 2
    assert message in capsys.readouterr().err


def test_library_calls_also_reject_invalid_arguments():
    with pytest.raises(InputError, match="items must be at least 1"):
        Workload(0, 1, 1)
    with pytest.raises(InputError, match="ram must be above 0"):
        plan(Workload(1, 1, 1), 0)
    with pytest.raises(InputError, match="latency must be above 0"):
        plan(Workload(1, 1, 1), 1e9, -1)
    with pytest.raises(InputError, match="machines must be at least 1"):
        plan_cluster(Workload(1, 1, 1), 0)


@given(
    items=ITEMS,
    times=st.floats(1, 100),
    machines=st.integers(1, 60),
    more=st.integers(1, 60),
    recipe=st.sampled_from(["deep", "deep-plain", "color"]),
)
@settings(deadline=None, max_examples=30)
def test_a_cluster_needs_more_for_more_pictures_and_less_per_machine_with_more_machines(
    items, times, machines, more, recipe
):
    workload = with_speed(recipe_workload(items, recipe), planning.REFERENCE_MACHINE)
    larger = replace(workload, items=int(items * times))
    few, many = plan_cluster(workload, machines), plan_cluster(larger, machines)
    shared = plan_cluster(workload, machines + more)
    assert many.rows_per_worker >= few.rows_per_worker >= shared.rows_per_worker
    for small, large, spread in zip(few.ways, many.ways, shared.ways, strict=True):
        for figure in ("memory", "feedback", "head", "disk", "core_hours", "search_s"):
            assert getattr(large, figure) >= getattr(small, figure) * (1 - 1e-9)
        for figure in ("memory", "feedback", "add_s"):
            assert getattr(spread, figure) <= getattr(small, figure) * (1 + 1e-9)


def test_the_slowest_of_more_shards_takes_longer_and_shards_on_one_core_add_up():
    samples = np.random.default_rng(0).uniform(1, 2, 20)
    slowest = [slowest_seconds(samples, n, n) for n in (1, 10, 100)]
    assert slowest == sorted(slowest)
    assert slowest[-1] == pytest.approx(samples.max(), rel=0.01)
    assert slowest_seconds(samples, 40, 2) == pytest.approx(20 * samples.mean(), rel=0.1)


def test_workers_find_the_neighbours_and_the_head_trains_cells_and_writes_rows():
    alone = graph_seconds(100_000_000, 256, planning.REFERENCE_MACHINE)
    spread = [graph_seconds(100_000_000, 256, planning.REFERENCE_MACHINE, workers) for workers in (1, 80, 10**4, 10**5)]
    assert alone < spread[0] < 1.1 * alone
    assert spread[1] < alone / 40
    assert spread[2] == spread[3] > 600
    assert graph_seconds(100_000, 256, planning.REFERENCE_MACHINE, 10) < 60


def test_a_cluster_scans_small_shards_and_uses_leaves_in_large_ones():
    small, large = (plan_cluster(Workload(n, 256, 1280), machines=2, cores=2) for n in (4 * 49_999, 4 * 50_000))
    assert not way(small, "flat").feedback
    assert way(large, "flat").feedback > 256 * 100_000
    assert plan_cluster(Workload(100_000_000, 256, 1280), machines=10, ram=1e9).chosen is None
    assert plan_cluster(Workload(100_000_000, 256, 1280), machines=10, ram=1e11).chosen == "flat"


def test_the_plan_of_a_cluster_says_that_it_is_modelled(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["plan", "--items", "100M", "--machines", "10"]
    assert cli.run(words) == 0
    text = capsys.readouterr().out
    assert "on 10 machines with 8 cores each" in text
    assert "modelled: 80 workers with 1,250,000 vectors each" in text
    assert "All figures are modelled" in text
    assert "lookalike --cluster ADDRESS add FOLDER --recipe deep" in text
    assert cli.run([*words, "--ram", "1GB"]) == 1
    assert "of memory per machine" in capsys.readouterr().out
    assert cli.run([*words, "--cores-per-machine", "16", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found.keys() == {
        "workload", "ram", "latency_s", "chosen", "notes", "machine", "ways",
        "machines", "cores_per_machine", "rows_per_worker", "modelled",
    }  # fmt: skip
    assert (found["machines"], found["cores_per_machine"], found["rows_per_worker"]) == (10, 16, 625_000)
    assert found["modelled"] is True
    assert found["ram"] is None
    assert {"memory", "feedback", "head", "disk", "add_s", "core_hours", "search_s", "round_s"} <= set(found["ways"][0])


def test_units_are_case_insensitive():
    assert parse_bytes("--ram", "2gib") == 2 * 2**30
    assert parse_bytes("--ram", "1e9 B") == 1e9
    assert parse_count("--items", "250K") == 250_000
    assert parse_seconds("--latency", "2 min") == 120
    assert human_seconds(0.5) == "500 ms"
