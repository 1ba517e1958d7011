"""The image datasets of the benchmarks: their locations and labels."""

import io
import tarfile
from pathlib import Path

import pytest

from lookalike.errors import SourceError, UnknownNameError
from lookalike_bench import datasets


def put(target: Path, *members: str) -> Path:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w") as archive:
        for name in members:
            info = tarfile.TarInfo(name)
            info.size = 1
            archive.addfile(info, io.BytesIO(b"x"))
    return target


def test_corel1k_labels_are_its_folders(tmp_path: Path) -> None:
    tar = put(tmp_path / "corel1k/corel1k.tar", "00_africa/0.jpg", "01_beach/100.jpg", "README")
    dataset = datasets.load("corel1k", tmp_path)
    assert (dataset.name, dataset.source) == ("corel1k", tar)
    assert dataset.labels == {"00_africa/0.jpg": "00_africa", "01_beach/100.jpg": "01_beach"}


def test_corel5k_labels_are_the_cds_in_every_split(tmp_path: Path) -> None:
    put(tmp_path / "corel5k/corel5k.tar", "train/1/1000.jpeg", "test/1/1001.jpeg", "train/22/3.jpeg", "labels/words")
    assert datasets.load("corel5k", tmp_path).labels == {
        "train/1/1000.jpeg": "1",
        "test/1/1001.jpeg": "1",
        "train/22/3.jpeg": "22",
    }


def test_ukbench_has_four_pictures_per_object(tmp_path: Path) -> None:
    names = [f"ukbench{number:05}.jpg" for number in range(9)]
    put(tmp_path / "ukbench2000/ukbench2000_max256.tar", *names)
    assert list(datasets.load("ukbench2000", tmp_path).labels.values()) == list("000011112")


def test_the_error_for_a_missing_dataset_names_the_expected_file(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"No dataset corel1k in .*corel1k/corel1k\.tar with <class>/<id>\.jpg.*--data"
    ):
        datasets.load("corel1k", tmp_path)


def test_an_archive_with_other_content_is_rejected(tmp_path: Path) -> None:
    put(tmp_path / "corel1k/corel1k.tar", "notes.txt")
    with pytest.raises(SourceError, match=r"contains no pictures\. Expected"):
        datasets.load("corel1k", tmp_path)
    put(tmp_path / "ukbench2000/ukbench2000_max256.tar", "cat.jpg")
    with pytest.raises(SourceError, match="is not the dataset ukbench2000"):
        datasets.load("ukbench2000", tmp_path)
    (tmp_path / "corel5k").mkdir()
    (tmp_path / "corel5k/corel5k.tar").write_bytes(b"no archive at all")
    with pytest.raises(SourceError, match="is not the dataset corel5k"):
        datasets.load("corel5k", tmp_path)


def test_the_error_for_an_unknown_dataset_suggests_the_nearest_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"No dataset named 'corel'\. Known: .*Did you mean 'corel"):
        datasets.load("corel", tmp_path)
