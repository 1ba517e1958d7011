"""A query can be a part of a picture, and a result can include the part that matched."""

import numpy as np
import pytest
from PIL import Image

from lookalike import Crop, Filter
from lookalike.errors import InputError

pytestmark = pytest.mark.usefixtures("read_here")

QUARTERS = {"fish": (0.0, 0.0, 0.5, 0.5), "flower": (0.5, 0.0, 1.0, 0.5), "house": (0.0, 0.5, 0.5, 1.0)}


@pytest.fixture
def collage(pictures, tmp_path):
    """A picture that contains other pictures in three of its quarters."""
    made = Image.new("RGB", (640, 480), "gray")
    for kind, (left, top, *_) in QUARTERS.items():
        with Image.open(pictures / kind / f"{kind}-000.jpg") as part:
            made.paste(part, (int(left * 640), int(top * 480)))
    (tmp_path / "pictures").mkdir()
    made.save(tmp_path / "pictures" / "collage.png")
    return tmp_path / "pictures" / "collage.png"


@pytest.mark.parametrize("recipe", ["color", "deep", "mine = vlad(k=16)"])
def test_the_box_of_a_match_is_where_the_picture_was_pasted(collection, pictures, collage, recipe):
    collection.add(collage.parent, pictures / "stripes", recipes=[recipe], workers=1)
    only = Filter(path="collage.png")
    for kind, box in QUARTERS.items():
        (found,) = collection.search(pictures / kind / f"{kind}-000.jpg", where=True, filter=only)
        assert _overlap(found.box, box) > 0.4


@pytest.mark.parametrize("recipe", ["color", "deep"])
def test_the_box_of_a_pasted_object_overlaps_it_by_half(collection, pictures, tmp_path, recipe):
    box = (0.45, 0.1, 0.95, 0.6)
    (tmp_path / "pasted").mkdir()
    for kind in QUARTERS:
        with (
            Image.open(pictures / "stripes" / "stripes-000.jpg") as photo,
            Image.open(pictures / kind / f"{kind}-000.jpg") as part,
        ):
            photo.paste(part.resize((160, 120)), (144, 24))
            photo.save(tmp_path / "pasted" / f"{kind}.png")
    collection.add(pictures, tmp_path / "pasted", recipes=[recipe], workers=1)
    if recipe == "deep":
        collection.fit("deep")
    for kind in QUARTERS:
        another = pictures / kind / f"{kind}-001.jpg"
        (found,) = collection.search(another, where=True, filter=Filter(path=f"*pasted/{kind}.png"))
        assert _overlap(found.box, box) >= 0.5


@pytest.mark.parametrize("recipe", ["color", "deep"])
def test_a_part_is_searched_like_a_cropped_picture(collection, pictures, collage, recipe):
    collection.add(*(pictures / kind for kind in QUARTERS), recipes=[recipe])
    for kind, box in QUARTERS.items():
        by_path = collection.search(Crop(collage, box), k=1)
        assert by_path[0].path == str(pictures / kind / f"{kind}-000.jpg")
        pixels = np.asarray(Image.open(collage).convert("RGB"))
        assert collection.search(Crop(pixels, box), k=1)[0].id == by_path[0].id
        assert collection.search(Crop(collage.read_bytes(), box), k=1)[0].id == by_path[0].id


def test_a_part_of_an_item_is_given_by_its_id(seen):
    first = next(seen.items())
    whole = seen.search(Crop(first.id, (0.0, 0.0, 1.0, 1.0)), k=1)[0]
    assert (whole.id, round(whole.score, 4)) == (first.id, 0)
    assert seen.search(Crop(first.id, (0.4, 0.4, 0.6, 0.6)), k=1)[0].score > 0.01


@pytest.mark.parametrize(
    "box",
    [(0, 0, 0, 1), (0.5, 0, 0.4, 1), (-0.1, 0, 1, 1), (0, 0, 1.1, 1), (0, 0, 1), (0, 0, np.nan, 1), None, 5, "abcd"],
)
def test_invalid_boxes_are_rejected(seen, pictures, box):
    with pytest.raises(InputError, match="A box must be left, top, right, bottom"):
        seen.search(Crop(pictures / "fish" / "fish-000.jpg", box))


@pytest.mark.parametrize("picture", [None, 1.5, ["a.jpg"], np.zeros(512, np.float32)])
def test_examples_that_are_not_pictures_have_no_parts(seen, picture):
    with pytest.raises(InputError, match="An example"):
        seen.search(Crop(picture, (0.0, 0.0, 0.5, 0.5)))


def test_a_tiny_part_is_at_least_one_pixel(seen, pictures):
    assert seen.search(Crop(pictures / "fish" / "fish-000.jpg", (0.0, 0.0, 1e-320, 1.0)), k=1)


def test_a_picture_that_matches_as_a_whole_has_a_box_around_it(collection, pictures):
    collection.add(pictures / "fish", recipes=["color"])
    found = collection.search(pictures / "fish" / "fish-000.jpg", k=1, where=True)
    assert found[0].box == (0, 0, 1, 1)


def test_a_picture_of_one_colour_has_a_box_around_it(collection, pictures, tmp_path):
    Image.new("RGB", (90, 60), "gray").save(tmp_path / "gray.png")
    collection.add(tmp_path / "gray.png", recipes=["color"])
    (found,) = collection.search(pictures / "fish" / "fish-000.jpg", where=True)
    assert found.box == (0, 0, 1, 1)


def test_boxes_can_be_found_after_the_search(collection, pictures, collage):
    collection.add(collage.parent, pictures / "fish", recipes=["color"])
    fish = Crop(collage, QUARTERS["fish"])
    results = collection.search(fish, without=pictures / "flower" / "flower-000.jpg", k=3, where=True)
    ids = [result.id for result in results]
    boxes = collection.locate([*ids, 1], fish, without=pictures / "flower" / "flower-000.jpg")
    assert boxes == {result.id: result.box for result in results} | {1: None}


def test_a_result_is_read_from_a_remaining_copy(collection, pictures, tmp_path):
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes((pictures / "fish" / "fish-000.jpg").read_bytes())
    collection.add(tmp_path / "a.jpg", tmp_path / "b.jpg", recipes=["color"])
    (tmp_path / "a.jpg").unlink()
    assert collection.search(tmp_path / "b.jpg", where=True)[0].box is not None


def test_a_result_that_can_no_longer_be_read_has_no_box(collection, pictures, tmp_path):
    (tmp_path / "pictures").mkdir()
    gone = tmp_path / "pictures" / "gone.jpg"
    gone.write_bytes((pictures / "fish" / "fish-000.jpg").read_bytes())
    collection.add(gone, recipes=["color"])
    gone.unlink()
    (result,) = collection.search(pictures / "fish" / "fish-000.jpg", where=True)
    assert result.box is None


def _overlap(one, other):
    """Intersection over union."""
    left, top, right, bottom = (*np.maximum(one[:2], other[:2]), *np.minimum(one[2:], other[2:]))
    inside = max(0, right - left) * max(0, bottom - top)
    areas = [(box[2] - box[0]) * (box[3] - box[1]) for box in (one, other)]
    return inside / (sum(areas) - inside)
