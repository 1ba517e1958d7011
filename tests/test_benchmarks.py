"""Every program in benchmarks/ can be imported. Otherwise a broken import would go unnoticed until the next run."""

import importlib.util
from pathlib import Path

import pytest

PROGRAMS = sorted((Path(__file__).parents[1] / "benchmarks").glob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.stem)
def test_a_benchmark_can_be_imported(program, monkeypatch):
    monkeypatch.syspath_prepend(program.parent)  # some import each other
    spec = importlib.util.spec_from_file_location(f"benchmark_{program.stem}", program)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
