"""Saved models: round trips, reproducible bytes, and damaged or malicious files."""

import io
import json
import os
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import lookalike
from lookalike.encode.whiten import L2, PCA
from lookalike.errors import DamagedError, FormatError, InputError, LookalikeError, StoreError
from lookalike.store.models import load, save
from lookalike.store.npy_files import digest_file as digest

X = np.random.default_rng(0).normal(size=(50, 12)).astype(np.float32)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    save(path, PCA(dim=5, whiten=0.5).fit(X), L2())
    return path


def rewrite(file: Path, change: Callable[[dict[str, bytes]], None], compression: int = zipfile.ZIP_STORED) -> None:
    """Rewrite the zip file with changed members."""
    with zipfile.ZipFile(file) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(file, "w", compression) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def npy(array: NDArray[Any]) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def header(**fields: object) -> bytes:
    base = {"format": 1, "lookalike": "0.1.0", "kinds": ["transform"], "specs": ["l2()"]}
    return npy(np.frombuffer(json.dumps({**base, **fields}).encode(), np.uint8))


def test_a_model_with_another_digest_is_rejected(file: Path) -> None:
    expected = digest(file)
    assert len(load(file, expected)) == 2
    save(file, PCA(dim=4).fit(X), L2())
    assert len(load(file)) == 2
    with pytest.raises(DamagedError, match="does not match its digest"):
        load(file, expected)


def test_a_loaded_model_gives_the_results_of_the_saved_one(file: Path) -> None:
    pca, l2 = load(file)
    assert (pca.dim, pca.whiten) == (5, 0.5)
    expected = L2().fit_transform(PCA(dim=5, whiten=0.5).fit_transform(X))
    np.testing.assert_array_equal(l2.transform(pca.transform(X)), expected)


def test_the_same_model_gives_the_same_bytes(file: Path, tmp_path: Path) -> None:
    save(tmp_path / "again.npz", *load(file))
    assert (tmp_path / "again.npz").read_bytes() == file.read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.npz", "model.npz"]


def test_the_file_is_plain_npz_without_pickle(file: Path) -> None:
    with np.load(file, allow_pickle=False) as arrays:
        assert "0.components_" in arrays
        about = json.loads(arrays["header"].tobytes())
    assert about == {
        "format": 1,
        "lookalike": lookalike.__version__,
        "kinds": ["transform", "transform"],
        "specs": ["pca(dim=5, whiten=0.5)", "l2()"],
    }


def test_loaded_arrays_can_be_changed(file: Path) -> None:
    load(file)[0].mean_ += 1


def test_saving_over_a_model_replaces_it_atomically(file: Path) -> None:
    save(file, L2())
    assert [type(part) for part in load(file)] == [L2]


def test_objects_are_not_saved(tmp_path: Path) -> None:
    part = L2()
    part.names_ = np.array([{}, None], object)
    with pytest.raises(InputError, match=r"names_ of l2\(\) must be a plain array"):
        save(tmp_path / "m.npz", part)
    assert list(tmp_path.iterdir()) == []


def test_a_model_has_registered_parts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least one component"):
        save(tmp_path / "m.npz")
    with pytest.raises(InputError, match="Path is not registered"):
        save(tmp_path / "m.npz", tmp_path)


def test_texts_numbers_and_empty_arrays_survive(tmp_path: Path) -> None:
    part = L2()
    values = {"words_": np.array(["cat", "größe"]), "empty_": np.empty((0, 3), np.float32), "flag_": True, "n_": 7}
    vars(part).update(values)
    save(tmp_path / "m.npz", part)
    (back,) = load(tmp_path / "m.npz")
    assert back.words_.tolist() == ["cat", "größe"]
    assert back.empty_.shape == (0, 3)
    assert (back.flag_, back.n_) == (True, 7)


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({"header.npy": header(format=2)}, FormatError, r"newer Lookalike \(format 2, this one reads up to 1\)"),
        ({"header.npy": header(format="1")}, FormatError, "not a saved model"),
        ({"header.npy": header(format=0)}, FormatError, "not a saved model"),
        ({"header.npy": header(kinds=[])}, FormatError, "not a saved model"),
        ({"header.npy": header(kinds=[1])}, FormatError, "not a saved model"),
        ({"header.npy": npy(np.zeros(9, np.uint8))}, FormatError, "not a saved model"),
        ({"header.npy": header(note="x" * 2**20)}, FormatError, "it contains 'header.npy'"),
        ({"header.npy": header(specs=["slem2()"])}, FormatError, "No transform named 'slem2'"),
        ({"header.npy": header(specs=["l2(nonsense=1)"])}, FormatError, "No option of l2 named 'nonsense'"),
        ({"header.npy": header(specs=["__import__('os').system('true')"])}, FormatError, "Cannot read the spec"),
        ({"header.npy": header(kinds=["magic"])}, FormatError, "No kind of component named 'magic'"),
        ({"0.__class__.npy": npy(np.zeros(1))}, FormatError, "it contains '0.__class__.npy'"),
        ({"0.transform.npy": npy(np.zeros(1))}, FormatError, "it contains '0.transform.npy'"),
        ({"../0.mean_.npy": npy(np.zeros(1))}, FormatError, "it contains '../0.mean_.npy'"),
        ({"0.mean_.npy": b""}, DamagedError, "no .npy array"),
        ({"0.mean_.npy": npy(np.zeros(3))[:-1]}, DamagedError, "the header of an array does not match its size"),
        (
            {"0.mean_.npy": npy(np.zeros(3)).replace(b"(3,)", b"(9,)")},
            DamagedError,
            "the header of an array does not match",
        ),
        ({"0.mean_.npy": npy(np.zeros(3)).replace(b"(3,)", b"(-1,)")}, DamagedError, "no .npy array"),
        ({"0.mean_.npy": npy(np.zeros(3)).replace(b"<f8", b"|O8")}, DamagedError, "no .npy array"),
    ],
)
def test_a_file_that_save_did_not_write_is_rejected(
    file: Path, changed: dict[str, bytes], error: type[Exception], words: str
) -> None:
    rewrite(file, lambda members: members.update(changed))
    with pytest.raises(error, match=words):
        load(file)


def test_a_missing_header_is_rejected(file: Path) -> None:
    rewrite(file, lambda members: members.pop("header.npy") and None)
    with pytest.raises(FormatError, match="not a saved model"):
        load(file)


def test_a_zip_bomb_is_rejected_unread(file: Path) -> None:
    rewrite(file, lambda members: members.update({"0.mean_.npy": bytes(10**8)}), zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 10**6
    with pytest.raises(FormatError, match="compressed"):
        load(file)


def test_overlapping_members_are_rejected_unread(file: Path) -> None:
    with zipfile.ZipFile(file, "a") as archive:
        first = archive.getinfo("0.components_.npy")
        archive.filelist += [first] * 50
        archive._didModify = True
    with pytest.raises(DamagedError, match="smaller than its directory declares"):
        load(file)


def test_pickles_are_rejected_unread(file: Path) -> None:
    stream = io.BytesIO()
    np.save(stream, np.array([print], object), allow_pickle=True)
    rewrite(file, lambda members: members.update({"0.mean_.npy": stream.getvalue()}))
    with pytest.raises(DamagedError, match=r"no \.npy array"):
        load(file)


@pytest.mark.parametrize("data", [b"", b"hello", b"\x93NUMPY", b"\x80\x04."])
def test_a_file_of_another_format_is_rejected(file: Path, data: bytes) -> None:
    file.write_bytes(data)
    with pytest.raises(FormatError, match="is not a saved model"):
        load(file)


def test_a_missing_model_raises_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="No such file"):
        load(tmp_path / "absent.npz")
    with pytest.raises(StoreError, match="No such file"):
        save(tmp_path / "absent" / "m.npz", L2())


def test_every_truncated_file_raises_a_damaged_error(file: Path) -> None:
    data = file.read_bytes()
    for end in {2, 3, 30, len(data) // 2, *range(len(data) - 120, len(data))}:
        file.write_bytes(data[:end])
        with pytest.raises(DamagedError):
            load(file)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_flipped_bytes_raise_only_our_own_errors(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    file = tmp_path_factory.getbasetemp() / f"flipped-{os.getpid()}.npz"
    save(file, PCA(dim=2).fit(X[:, :3]))
    good = bytearray(file.read_bytes())
    for at in data.draw(st.lists(st.integers(0, len(good) - 1), min_size=1, max_size=4)):
        good[at] = data.draw(st.integers(0, 255))
    file.write_bytes(good)
    with suppress(LookalikeError):
        load(file)


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_invalid_array_headers_raise_only_our_own_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    file = tmp_path_factory.getbasetemp() / f"header-{os.getpid()}.npz"
    save(file, PCA(dim=2).fit(X[:, :3]))
    array = bytearray(npy(np.zeros(3)))
    for at in data.draw(st.lists(st.integers(0, 90), min_size=1, max_size=4)):
        array[at] = data.draw(st.integers(0, 255))
    rewrite(file, lambda members: members.update({"0.mean_.npy": bytes(array)}))
    with suppress(LookalikeError):
        load(file)
