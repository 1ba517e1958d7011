"""Vectors of image datasets, cached between runs."""

import io
import tarfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from PIL import Image

from lookalike.errors import InputError
from lookalike_bench import vectors
from lookalike_bench.vectors import caching, describe

pytestmark = pytest.mark.usefixtures("read_here")


@pytest.fixture
def data(tmp_path):
    """A corel1k of two classes with two pictures each."""
    (tmp_path / "data" / "corel1k").mkdir(parents=True)
    write(tmp_path / "data" / "corel1k" / "corel1k.tar", seed=0)
    return tmp_path / "data"


def write(archive, seed):
    random = np.random.default_rng(seed)
    with tarfile.open(archive, "w") as tar:
        for name in ("beach/0.png", "beach/1.png", "bus/2.png", "bus/3.png"):
            Image.fromarray(random.integers(0, 256, (16, 16, 3), np.uint8)).save(png := io.BytesIO(), "png")
            member = tarfile.TarInfo(name)
            member.size = png.tell()
            png.seek(0)
            tar.addfile(member, png)


@pytest.fixture
def computed(monkeypatch):
    """The recipes of all calls that computed vectors."""
    calls, real = [], vectors._make
    monkeypatch.setattr(vectors, "_make", lambda *given: calls.append(given[1]) or real(*given))
    return calls


def forget(monkeypatch):
    monkeypatch.setattr(vectors, "_MADE", {})  # as in a new process


def test_cached_vectors_equal_the_computed_ones(data, tmp_path, computed, monkeypatch):
    with caching(tmp_path / "kept"):
        first = describe("corel1k", "color", data)
        forget(monkeypatch)
        second = describe("corel1k", "color", data)
    assert computed == ["color"]
    assert sorted(first.names) == ["beach/0.png", "beach/1.png", "bus/2.png", "bus/3.png"]
    assert all(name.startswith(label) for label, name in zip(first.labels, first.names, strict=True))
    for one, other in zip(first, second, strict=True):
        assert_array_equal(one, other)


def test_another_recipe_archive_or_code_is_computed_again(data, tmp_path, computed, monkeypatch):
    with caching(tmp_path / "kept"):
        describe("corel1k", "color", data)
        describe("corel1k", "base = color()", data)
        forget(monkeypatch)
        write(data / "corel1k" / "corel1k.tar", seed=1)
        describe("corel1k", "color", data)
        forget(monkeypatch)
        monkeypatch.setattr(vectors, "_code", lambda: "changed")
        describe("corel1k", "color", data)
    assert computed == ["color", "base = color()", "color", "color"]
    assert len(list((tmp_path / "kept").glob("*.npz"))) == 4


def test_nothing_is_cached_by_default(data, tmp_path, computed, monkeypatch):
    describe("corel1k", "color", data)
    forget(monkeypatch)
    describe("corel1k", "color", data)
    assert computed == ["color", "color"]
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_an_impossible_cache_folder_is_an_error(data, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Cannot cache in"), caching(tmp_path / "file" / "kept"):
        pass
