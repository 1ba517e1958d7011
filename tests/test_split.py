"""Training, validation and test pictures: stable parts, duplicates together, and the files for other tools."""

import csv
import json
import shutil
from collections import Counter
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection, Filter
from lookalike.errors import InputError, UnknownNameError
from lookalike.store.directory import Store
from lookalike.store.items import Item

pytestmark = pytest.mark.usefixtures("read_here")

N = 4_000


@pytest.fixture(scope="module")
def big(tmp_path_factory):
    """A collection of many pictures without files, in two classes."""
    path = tmp_path_factory.mktemp("big") / "c"
    ids = np.random.default_rng(0).integers(0, 2**63, N)
    store = Store(path, create=True)
    with store.writer(), store.transaction():
        store.items.add([Item(int(i), [], 100, 64, 48, "jpeg", float(n), None) for n, i in enumerate(ids)])
    labels = [(int(i), "common" if n % 10 else "rare") for n, i in enumerate(ids)]
    store.judgements.add_labels(labels, author="x", source="hand")
    store.close()
    with Collection(path) as collection:
        yield collection


@pytest.fixture
def own(pictures, tmp_path):
    """A labelled collection with a resized and a mirrored copy of each of two pictures."""
    folder = tmp_path / "pictures"
    for kind in ("fish", "beach", "house"):
        shutil.copytree(pictures / kind, folder / kind)
    for kind in ("fish", "beach"):
        first = folder / kind / f"{kind}-000.jpg"
        with Image.open(first) as image:
            image.resize((image.width * 3 // 4, image.height * 3 // 4)).save(folder / kind / "small.jpg", quality=95)
            image.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(folder / kind / "mirrored.jpg", quality=95)
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(folder, recipes=["color"])
        collection.import_labels(folder)
        yield collection


def part_of(split):
    return {item: part for part, items in split.parts.items() for item in items}


def test_the_parts_follow_the_shares_in_every_class(big):
    split = big.split((0.7, 0.2, 0.1), together="none", seed=3)
    expected = {}  # the definition: a hash of the seed and the id
    for item in big.items():
        digest = blake2b(f"3 {item.id:016x}".encode(), digest_size=8).digest()
        position = int.from_bytes(digest, "big") / 2**64
        expected[item.id] = "train" if position < 0.7 else "validation" if position < 0.9 else "test"
    assert part_of(split) == expected
    for counts, total in ((split.classes["common"], 0.9 * N), (split.classes["rare"], 0.1 * N)):
        assert sum(counts.values()) == total
        for part, share in zip(counts, (0.7, 0.2, 0.1), strict=True):
            deviation = (total * share * (1 - share)) ** 0.5
            assert abs(counts[part] - total * share) < 4 * deviation
    assert (split.warnings, split.groups) == ([], 0)
    assert part_of(big.split((7, 2, 1), together="none", seed=3)) == expected  # shares are normalised
    assert part_of(big.split((0.7, 0.2, 0.1), together="none", seed=4)) != expected


def test_a_part_without_a_share_is_empty(big):
    split = big.split((0.8, 0, 0.2), together="none")
    assert split.parts["validation"] == []
    assert split.warnings == []
    assert len(big.split((1, 0, 0), together="none").parts["train"]) == N


def test_duplicates_are_in_one_part_whatever_the_seed(own):
    for seed in range(12):
        parts = part_of(own.split(seed=seed))
        for kind in ("fish", "beach"):
            copies = {
                item.id
                for item in own.items(Filter(path=f"{kind}/*"))
                if item.paths[0].endswith(("-000.jpg", "small.jpg", "mirrored.jpg"))
            }
            assert len(copies) == 3
            assert len({parts[item] for item in copies}) == 1
    assert own.split().groups == 2
    seeds = [part_of(own.split((1, 1, 1), seed=seed, together="none")) for seed in range(8)]
    small = own.find(str(next(item.paths[0] for item in own.items() if item.paths[0].endswith("fish/small.jpg"))))
    first = own.find(str(next(item.paths[0] for item in own.items() if item.paths[0].endswith("fish-000.jpg"))))
    assert any(parts[small] != parts[first] for parts in seeds)


def test_parts_stay_the_same_when_pictures_are_added(own, tmp_path):
    before = part_of(own.split((1, 1, 1)))
    more = tmp_path / "more" / "fish"
    more.mkdir(parents=True)
    fish = sorted(item.paths[0] for item in own.items(Filter(path="fish/*")))
    for number, path in enumerate(fish):  # new copies of old pictures
        with Image.open(path) as image:
            image.resize((image.width - 8, image.height - 8)).save(more / f"{number}.jpg", quality=95)
    for number in range(4):
        Image.fromarray(np.random.default_rng(number).integers(0, 255, (90, 120, 3), np.uint8)).save(
            more / f"n{number}.png"
        )
    own.add(more.parent)
    own.import_labels(more.parent)
    after = part_of(own.split((1, 1, 1)))
    assert len(after) > len(before) + 4
    assert {item: after[item] for item in before} == before


def test_only_the_given_classes_are_split(own):
    split = own.split(classes=["fish", "house"], filter=Filter(path="*-00?.jpg"))
    assert list(split.classes) == ["fish", "house"]
    assert Counter(part for part in part_of(split).values()).total() == 8
    with pytest.raises(UnknownNameError, match=r"'fisch'.*Did you mean 'fish'"):
        own.split(classes=["fisch"])
    with pytest.raises(InputError, match="No picture to split has a label"):
        own.split(filter=Filter(path="nothing/*"))


@pytest.mark.parametrize("shares", [(1, 1), (0, 1, 1), (-1, 1, 1), (1, float("nan"), 0), (float("inf"), 1, 1)])
def test_wrong_shares_are_rejected(big, shares):
    with pytest.raises(InputError, match="The shares must be three numbers"):
        big.split(shares)


def test_small_classes_and_pictures_with_several_labels_are_reported(own):
    item = next(iter(own.items(Filter(path="house/*"))))
    own.classes.add("building", [item.id])
    split = own.split()
    assert split.warnings[0] == "1 picture with several labels: each counts in all its classes."
    assert any(
        "'building' has no picture in" in text and "with 1 picture. Label more" in text for text in split.warnings
    )


def test_folders_have_the_layout_of_imagefolder(own, tmp_path):
    own.classes.rename("fish", "../fish?")
    split = own.split((1, 1, 1))
    with pytest.raises(UnknownNameError, match="layout"):
        own.export_split(split, tmp_path / "set", layouts=["zip"])
    assert own.export_split(split, tmp_path / "set") == {}
    links = [path for path in (tmp_path / "set").rglob("*") if path.is_symlink()]
    assert len(links) == sum(map(len, split.parts.values()))
    names = {item.id: item for item in own.items()}
    for link in links:
        part, folder, name = link.relative_to(tmp_path / "set").parts
        item = names[int(name.removesuffix(".jpg"), 16)]
        assert item.id in split.parts[part]
        assert folder == {"../fish?": "_._fish_"}.get(split.labels[item.id][0], split.labels[item.id][0])
        assert str(link.resolve()) == item.paths[0]
    before = own.labels(list(names))
    for name in split.classes:
        own.classes.delete(name)
    own.import_labels(tmp_path / "set")
    assert own.labels(list(names)) == before
    with pytest.raises(InputError, match="is not empty"):
        own.export_split(split, tmp_path / "set")
    (lost,) = [item for item in names.values() if item.paths[0].endswith("house-001.jpg")]
    Path(lost.paths[0]).unlink()
    missing = own.export_split(split, tmp_path / "copies", copy=True)
    assert [(Path(path).stem, reason) for path, reason in missing.items()] == [
        (f"{lost.id:016x}", f"Cannot read item {lost.id:016x}: its file is missing. Run: lookalike refresh")
    ]
    copies = list((tmp_path / "copies").rglob("*.jpg"))
    assert len(copies) == len(links) - 1
    assert not any(path.is_symlink() for path in copies)


def test_pictures_in_archives_are_copied(pictures, tmp_path):
    shutil.make_archive(str(tmp_path / "fish"), "zip", pictures / "fish")
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(tmp_path / "fish.zip", recipes=["color"])
        collection.classes.add("fish", [item.id for item in collection.items()])
        assert collection.export_split(collection.split((1, 0, 0)), tmp_path / "set") == {}
    files = sorted((tmp_path / "set" / "train" / "fish").iterdir())
    assert {file.read_bytes() for file in files} == {file.read_bytes() for file in (pictures / "fish").glob("*.jpg")}


def test_coco_and_csv_have_the_same_parts(own, tmp_path):
    split = own.split((1, 1, 1), classes=["fish", "house"])
    own.export_split(split, tmp_path / "set", layouts=["coco", "csv"])
    found = {}
    for part in split.parts:
        coco = json.loads((tmp_path / "set" / f"{part}.json").read_text())
        assert [one["name"] for one in coco["categories"]] == ["fish", "house"]
        assert len(coco["annotations"]) == len(coco["images"])
        found[part] = [int(one["item"], 16) for one in coco["images"]]
    assert found == split.parts
    with (tmp_path / "set" / "split.csv").open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert {(row["part"], int(row["id"], 16), row["labels"]) for row in rows} == {
        (part, item, split.labels[item][0]) for part, items in split.parts.items() for item in items
    }
    assert not (tmp_path / "set" / "train").exists()
