"""Duplicates in a collection: four tiers, and pairs marked as not duplicates."""

import json
import os
import shutil
from typing import ClassVar

import numpy as np
import pytest
from PIL import Image, ImageOps

from lookalike import Collection, Filter
from lookalike.collection import describe_copies, duplicates
from lookalike.errors import InputError, UnknownNameError

pytestmark = pytest.mark.usefixtures("read_here")

TAKEN = ("beach", "house", "face")


@pytest.fixture(scope="module")
def folder(pictures, tmp_path_factory):
    """Synthetic pictures, with a smaller and a cropped copy of three of them, and a second copy of one file."""
    made = tmp_path_factory.mktemp("duplicates") / "pictures"
    shutil.copytree(pictures, made)
    for kind in TAKEN:
        with Image.open(made / kind / f"{kind}-000.jpg") as photo:
            photo.resize((200, 150), Image.Resampling.LANCZOS).save(made / f"small-{kind}.jpg", quality=70)
            photo.crop((10, 8, 310, 236)).save(made / f"crop-{kind}.png")
    shutil.copy(made / "beach" / "beach-001.jpg", made / "again.jpg")
    return made


@pytest.fixture(scope="module")
def filled(folder, tmp_path_factory):
    path = tmp_path_factory.mktemp("filled") / "c"
    with Collection(path, create=True) as collection:
        collection.add(folder, recipes=["color"], workers=1)
    return path


@pytest.fixture
def collection(filled, tmp_path):
    shutil.copytree(filled, tmp_path / "c")
    with Collection(tmp_path / "c") as opened:
        yield opened


def names(collection, group):
    items = collection.get(group.items)
    return [items[item].paths[0].rpartition("/")[2] for item in group.items]


def same(collection, **options):
    groups = collection.duplicates("same", workers=1, **options)
    return {tuple(sorted(names(collection, group))) for group in groups}


EXPECTED = {tuple(sorted([f"{kind}-000.jpg", f"crop-{kind}.png", f"small-{kind}.jpg"])) for kind in TAKEN}


def test_the_same_file_at_two_paths_is_one_group(collection):
    (group,) = collection.duplicates("identical")
    (item,) = collection.get(group.items).values()
    assert [path.rpartition("/")[2] for path in item.paths] == ["again.jpg", "beach-001.jpg"]
    assert (group.tier, group.distances) == ("identical", [0.0])
    assert collection.duplicates("identical", filter=Filter(path="house/*")) == []


def test_copies_of_a_photo_are_found_and_similar_photos_are_not(collection):
    assert same(collection) == EXPECTED
    for group in collection.duplicates("same"):
        items = collection.get(group.items)
        sizes = [items[item].width * items[item].height for item in group.items]
        assert sizes == sorted(sizes, reverse=True)  # the first is always the largest
        assert len(group.distances) == len(group.items)


def test_similar_pictures_are_closer_than_a_fraction_of_the_typical_distance(collection):
    groups = collection.duplicates("alike")
    ids, X = collection.vectors()
    rows = dict(zip(ids.tolist(), X, strict=True))
    assert len(groups) > 3
    seen = [item for group in groups for item in group.items]
    assert len(seen) == len(set(seen))
    usual = np.median(((X[:, None] - X[None]) ** 2).sum(axis=2)[np.triu_indices(len(X), 1)])
    for group in groups:
        for item, distance in zip(group.items, group.distances, strict=True):
            exact = ((rows[group.items[0]] - rows[item]) ** 2).sum()
            assert distance == pytest.approx(exact, abs=1e-4)
            assert exact <= 1.2 * duplicates.ALIKE_RADIUS * usual


def test_dismissed_duplicates_stay_dismissed_after_they_were_removed_and_added_again(collection, folder):
    group = next(g for g in collection.duplicates("same", workers=1) if "crop-face.png" in names(collection, g))
    assert collection.not_duplicates(group.items, author="anna") == 3
    assert collection.not_duplicates(group.items, author="ben") == 0
    rest = {found for found in EXPECTED if "crop-face.png" not in found}
    assert same(collection) == rest  # from the cache
    assert same(collection, filter=Filter(path="*")) == rest  # computed again
    collection.remove(*group.items)
    assert len(collection.get(group.items)) == 0
    collection.add(folder, workers=1)
    assert len(collection.get(group.items)) == 3
    assert same(collection) == rest
    assert collection.verify() == []


def test_one_picture_of_a_group_can_be_dismissed(collection):
    group = next(g for g in collection.duplicates("same", workers=1) if "crop-face.png" in names(collection, g))
    smaller = group.items[names(collection, group).index("small-face.jpg")]
    for other in group.items:
        if other != smaller:
            collection.not_duplicates([other, smaller])
    assert ("crop-face.png", "face-000.jpg") in same(collection)


def test_identical_files_can_be_dismissed(collection):
    (group,) = collection.duplicates("identical")
    assert collection.not_duplicates(group.items) == 1
    assert collection.duplicates("identical") == []


def test_groups_are_cached_until_pictures_change(collection, monkeypatch):
    assert collection.known_duplicates("same") is None
    found = collection.duplicates("same", workers=1)
    with monkeypatch.context() as patch:
        patch.setattr(duplicates, "_find", lambda *_: pytest.fail("computed again"))
        assert collection.duplicates("same") == found
        assert collection.known_duplicates("same") == (found, True)
    gone = found[0].items[1]
    collection.remove(gone)
    groups, current = collection.known_duplicates("same")
    assert (len(groups), current) == (3, False)
    again = collection.duplicates("same", workers=1)
    assert gone not in [item for group in again for item in group.items]


def test_a_damaged_cache_file_is_computed_again(collection):
    found = collection.duplicates("same", workers=1)
    for file in (collection.path / "derived").iterdir():
        file.write_text("{")
    assert collection.known_duplicates("same") is None
    assert collection.duplicates("same", workers=1) == found


def test_missing_and_changed_files_are_not_duplicates(tmp_path, folder):
    shutil.copytree(folder, tmp_path / "p")
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(tmp_path / "p", recipes=["color"], workers=1)
        (tmp_path / "p" / "small-face.jpg").unlink()
        (tmp_path / "p" / "small-beach.jpg").write_bytes((tmp_path / "p" / "small-house.jpg").read_bytes())
        found = same(collection)
    assert {("crop-face.png", "face-000.jpg"), ("beach-000.jpg", "crop-beach.png")} < found


def test_different_pictures_without_detail_are_not_grouped_but_counted(tmp_path, folder):
    (tmp_path / "p").mkdir()
    rng = np.random.default_rng(0)
    for number in range(6):  # masks of one object each: all different, all nearly black
        mask = np.ones((60, 80, 3), np.uint8)
        mask[10 * number : 10 * number + 8, 20:60] = 3
        mask += rng.integers(0, 2, (60, 80, 1), np.uint8)
        Image.fromarray(mask).save(tmp_path / "p" / f"mask-{number}.png")
    shutil.copy(tmp_path / "p" / "mask-0.png", tmp_path / "p" / "again.png")
    for name in ("face/face-000.jpg", "small-face.jpg"):
        shutil.copy(folder / name, tmp_path / "p")
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(tmp_path / "p", recipes=["color"], workers=1)
        assert same(collection) == {("face-000.jpg", "small-face.jpg")}
        assert collection.duplicates("same").without_detail == 6
        assert collection.known_duplicates("same")[0].without_detail == 6
        assert len(collection.duplicates("identical")) == 1


def test_groups_cached_by_version_0_1_are_not_shown(collection):
    collection.duplicates("same", workers=1)
    for file in (collection.path / "derived").iterdir():
        value = json.loads(file.read_text())
        groups = value["value"]["groups"]
        file.write_text(json.dumps({"version": value["version"], "value": groups}))
    assert collection.known_duplicates("same") is None


def test_edited_copies_are_a_tier_of_their_own(tmp_path, folder):
    shutil.copytree(folder, tmp_path / "p")
    with Image.open(folder / "house" / "house-000.jpg") as photo:
        photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(tmp_path / "p" / "mirrored-house.png")
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(tmp_path / "p", recipes=["color"], workers=1)
        assert same(collection) == EXPECTED
        (group,) = collection.duplicates("edited", workers=1)
        assert (group.tier, "mirrored" in group.why) == ("edited", True)
        assert set(names(collection, group)) >= {"house-000.jpg", "mirrored-house.png"}
        assert {name.rpartition("-")[0] or name for name in names(collection, group)} <= {
            "house",
            "mirrored",
            "small",
            "crop",
        }


def test_invalid_input_is_refused(collection, tmp_path):
    with pytest.raises(UnknownNameError, match="alike, edited, identical, same"):
        collection.duplicates("twins")
    with pytest.raises(UnknownNameError, match="space"):
        collection.duplicates("same", space="deep")
    for items in ([], [1, 2], ["x"]):
        with pytest.raises(InputError):
            collection.not_duplicates(items)
    with Collection(tmp_path / "empty", create=True) as empty:
        for tier in ("identical", "same", "edited", "alike"):
            assert empty.duplicates(tier) == []
            assert empty.known_duplicates(tier) == ([], True)


def test_progress_ends_at_the_number_of_pictures(collection):
    said = []
    collection.duplicates("alike", progress=lambda *words: said.append(words))
    assert said[-1] == ("comparing pictures", len(collection), len(collection))


def test_coco_has_images_categories_and_label_authors(collection, tmp_path):
    collection.import_labels(_csv(collection, tmp_path))
    collection.classes.add("größe", [], author="ben")
    target = tmp_path / "coco.json"
    assert collection.export(target, format="coco") == len(collection)
    found = json.loads(target.read_text())
    assert [c["name"] for c in found["categories"]] == ["beach", "größe"]
    assert {i["id"] for i in found["images"]} == set(range(1, len(collection) + 1))
    images = {image["id"]: image for image in found["images"]}
    assert len(found["annotations"]) == 4
    for annotation in found["annotations"]:
        image = images[annotation["image_id"]]
        assert "/beach/" in image["file_name"] or "again" in image["file_name"]
        assert annotation["bbox"] == [0, 0, image["width"], image["height"]]
        assert annotation["area"] == image["width"] * image["height"]
        assert (annotation["author"], annotation["source"], annotation["category_id"]) == ("import", "csv", 1)
    assert "".join(collection.lines("coco", filter=Filter(label="größe"))).count('"image_id"') == 0


def _csv(collection, tmp_path):
    rows = [f"{item.paths[-1]},beach" for item in collection.items(Filter(path="beach/*"))]
    (tmp_path / "labels.csv").write_text("\n".join(["path,label", *rows]))
    return tmp_path / "labels.csv"


def relations(collection, tier="same"):
    found = {}
    for group in collection.duplicates(tier, workers=1):
        captions = describe_copies(group, collection.get(group.items))
        found |= dict(zip(names(collection, group), captions, strict=True))
    return found


def test_each_copy_is_described_by_what_it_is(collection):
    found = relations(collection)
    for kind in TAKEN:
        assert found[f"{kind}-000.jpg"] == "largest"
        assert found[f"crop-{kind}.png"] == "crop of the largest"
        assert found[f"small-{kind}.jpg"] == "smaller copy, 39 % of the pixels"


def test_the_part_that_a_crop_shows_is_known(collection):
    group = next(g for g in collection.duplicates("same", workers=1) if "crop-face.png" in names(collection, g))
    crop = group.relations[names(collection, group).index("crop-face.png")]
    assert crop.box == pytest.approx((10 / 320, 8 / 240, 310 / 320, 236 / 240), abs=0.01)
    assert collection.known_duplicates("same")[0] == collection.duplicates("same")  # also in the cache


def test_mirrored_rotated_and_wider_copies_are_described(tmp_path, pictures):
    (tmp_path / "p").mkdir()
    with Image.open(pictures / "beach" / "beach-000.jpg") as photo:
        photo.save(tmp_path / "p" / "photo.png")
        ImageOps.mirror(photo).resize((200, 150)).save(tmp_path / "p" / "mirror.jpg")
        photo.rotate(4, expand=False).resize((240, 180)).save(tmp_path / "p" / "turned.jpg")
    with Image.open(pictures / "house" / "house-000.jpg") as photo:
        photo.crop((30, 20, 300, 230)).resize((540, 420)).save(tmp_path / "p" / "part.png")
        photo.save(tmp_path / "p" / "whole.jpg")
    with Collection(tmp_path / "c", create=True) as collection:
        collection.add(tmp_path / "p", recipes=["color"], workers=1)
        edited, wider = relations(collection, "edited"), relations(collection)
        assert edited["mirror.jpg"] == "mirrored copy, 39 % of the pixels"
        assert edited["turned.jpg"].startswith("rotated copy")
        assert wider == {"part.png": "largest", "whole.jpg": "copy that shows more"}
        assert collection.mark_duplicates(collection.duplicates("same"), crops=True) == [([], [])]


class Album:
    """A collection of folders with copies of one photo; the date of each file is in `days`."""

    days: ClassVar = {"album/large.jpg": 30, "album/small.jpg": 20, "phone/old.jpg": 10, "phone/crop.jpg": 5}

    def __init__(self, folder, pictures, taken=()):
        self.folder = folder / "p"
        with Image.open(pictures / "beach" / "beach-000.jpg") as photo:
            copies = [photo.copy(), photo.resize((200, 150)), photo.resize((240, 180)), photo.crop((20, 20, 300, 230))]
        for (name, days), copy in zip(self.days.items(), copies, strict=True):
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            exif = Image.Exif()
            if name in taken:
                exif[0x0132] = f"20{days:02}:01:01 00:00:00"
            copy.save(path, exif=exif)
            os.utime(path, (days * 86_400,) * 2)
        self.collection = Collection(folder / "c", create=True)
        self.collection.add(self.folder, recipes=["color"], workers=1)

    def marked(self, keep="largest", references=(), tier="same", groups=None, **options):
        paths = [self.folder / path for path in references]
        keep = keep if keep in ("largest", "oldest") else self.folder / keep
        groups = self.collection.duplicates(tier, workers=1) if groups is None else groups
        marks = self.collection.mark_duplicates(groups, keep, paths, **options)
        for group_marks in marks:
            found = {path for item in self.collection.get(group_marks.items).values() for path in item.paths}
            assert tier == "identical" or found == set(group_marks.paths)
        return [os.path.relpath(path, self.folder) for group_marks in marks for path in group_marks.paths]


@pytest.fixture
def album(tmp_path, pictures):
    made = Album(tmp_path, pictures)
    yield made
    made.collection.close()


def test_a_rule_keeps_the_largest_and_leaves_crops_unless_asked(album):
    assert album.marked() == ["album/small.jpg", "phone/old.jpg"]
    assert album.marked(crops=True) == ["album/small.jpg", "phone/crop.jpg", "phone/old.jpg"]


def test_a_rule_keeps_the_oldest_by_file_time_but_a_crop_does_not_replace_its_picture(album):
    assert album.marked("oldest") == ["album/large.jpg", "album/small.jpg"]
    assert album.marked("oldest", crops=True) == ["album/large.jpg", "album/small.jpg"]


def test_the_time_a_picture_was_taken_counts_before_file_times(tmp_path, pictures):
    album = Album(tmp_path, pictures, taken=["phone/old.jpg", "album/large.jpg"])
    assert album.marked("oldest") == ["album/large.jpg", "phone/old.jpg"]  # 2030 and 2010; the other files: 1970
    album.collection.close()


def test_a_rule_keeps_all_pictures_of_a_folder_and_marks_none_if_it_has_none(album):
    assert album.marked("album") == ["phone/old.jpg"]
    assert album.marked("phone") == ["album/large.jpg", "album/small.jpg"]

    with pytest.raises(InputError, match="Give largest, oldest or a folder with pictures"):
        album.marked("newest")


def test_pictures_in_reference_folders_are_never_marked(album):
    assert album.marked(references=["phone"], crops=True) == ["album/small.jpg"]
    assert album.marked(references=["phone", "album"]) == []
    assert album.marked("oldest", references=["album/large.jpg"]) == ["album/small.jpg"]
    with pytest.raises(InputError, match="has no pictures from"):
        album.marked(references=["albun"])


def test_the_last_copy_is_never_marked(album):
    groups = album.collection.duplicates("same", workers=1)
    for rule in ("largest", "oldest", "album", "phone"):
        assert len(album.marked(rule, groups=groups, crops=True)) < 4
    for name in ("album/large.jpg", "phone/old.jpg", "phone/crop.jpg"):
        (album.folder / name).unlink()  # the collection does not know yet
    for rule in ("largest", "oldest", "album", "phone"):
        assert "album/small.jpg" not in album.marked(rule, groups=groups, crops=True)
    (album.folder / "album/small.jpg").unlink()
    assert album.marked(groups=groups, crops=True) == []


def test_copies_of_a_removed_picture_are_not_marked(album):
    groups = album.collection.duplicates("same", workers=1)
    album.collection.remove(album.folder / "album/large.jpg")
    assert album.collection.mark_duplicates(groups) == [([], [])]


def test_a_rule_marks_all_but_one_path_of_identical_files(album):
    for name, days in (("album/again.jpg", 1), ("phone/again.jpg", 40)):
        shutil.copy(album.folder / "album/large.jpg", album.folder / name)
        os.utime(album.folder / name, (days * 86_400,) * 2)
    album.collection.refresh(workers=1)
    assert album.marked("oldest", tier="identical") == ["album/large.jpg", "phone/again.jpg"]
    assert album.marked("phone", tier="identical") == ["album/again.jpg", "album/large.jpg"]
    assert album.marked("phone", ["album/large.jpg"], "identical") == ["album/again.jpg"]


def test_a_file_is_not_marked_because_a_symbolic_link_to_it_is_kept(album):
    (album.folder / "album/a.jpg").symlink_to(album.folder / "phone/crop.jpg")
    (album.folder / "linked").symlink_to(album.folder / "phone")
    album.collection.add(album.folder / "linked/crop.jpg", workers=1)
    album.collection.refresh(workers=1)
    (group,) = album.collection.duplicates("identical", workers=1)
    assert group.items == [album.collection.find(str(album.folder / "phone/crop.jpg"))]
    for rule in ("largest", "oldest", "album", "phone", "linked"):
        assert album.marked(rule, tier="identical") == []
    shutil.copy(album.folder / "phone/crop.jpg", album.folder / "album/copy.jpg")
    album.collection.refresh(workers=1)
    assert album.marked("album/copy.jpg", tier="identical") == ["album/a.jpg", "linked/crop.jpg", "phone/crop.jpg"]


def test_similar_pictures_are_marked_without_alignment(collection):
    groups = collection.duplicates("alike", workers=1)
    marks = collection.mark_duplicates(groups)
    assert [len(group.items) - 1 for group in groups] == [len(one.items) for one in marks]
    assert all(group.items[0] not in one.items for group, one in zip(groups, marks, strict=True))
