"""Pages of items, the bytes of an item, and explanations of rankings, compared with reference implementations."""

import threading

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection, Filter
from lookalike.errors import ImageError, InputError
from lookalike.images.decoding import identify
from lookalike.images.files import Limits

pytestmark = pytest.mark.usefixtures("read_here")


@pytest.fixture(scope="module")
def scattered(tmp_path_factory):
    """A collection of pictures, some at several paths, whose order by path differs from that by id."""
    folder = tmp_path_factory.mktemp("scattered")
    random = np.random.default_rng(0)
    for number in range(12):
        place = folder / f"{random.integers(100):02}"
        place.mkdir(exist_ok=True)
        image = Image.fromarray(random.integers(0, 256, (20 + number, 30, 3), np.uint8))
        image.save(place / f"{number}.png")
        if number % 4 == 0:
            image.save(folder / f"copy-{number}.png")
    with Collection(folder / "c", create=True) as made:
        made.add(folder, recipes="color", workers=1)
        yield made


def slow(collection, order):
    """Return the ids in an order, by sorting all items."""
    items = list(collection.items())
    keys = {
        "path": lambda item: item.paths[0],
        "id": lambda item: item.id,
        "added": lambda item: (-item.added_at, item.id),
    }
    return [item.id for item in sorted(items, key=keys[order])]


@pytest.mark.parametrize("order", ["path", "id", "added"])
@pytest.mark.parametrize("filter", [None, Filter(min_side=25), Filter(path="*/copy-*")])
def test_a_page_is_a_slice_of_all_items_in_order(scattered, order, filter):
    passing = {item.id for item in scattered.items(filter)}
    expected = [item for item in slow(scattered, order) if item in passing]
    for offset in range(0, 14, 3):
        page = scattered.page(filter, order=order, offset=offset, limit=3)
        assert [item.id for item in page.items] == expected[offset : offset + 3]
        assert page.total == len(expected)


def test_a_page_follows_added_and_removed_items(tmp_path):
    with Collection(tmp_path / "c", create=True) as collection:
        assert collection.page() == type(collection.page())(0, 0, [])
        for number in range(3):
            Image.new("RGB", (30, 30 + number), (80 * number, 0, 0)).save(tmp_path / f"{2 - number}.png")
            collection.add(tmp_path, recipes="color", workers=1)
            assert collection.page().total == number + 1
        newest = collection.page(order="added", limit=1).items[0]
        assert newest.paths == [str(tmp_path / "0.png")]
        collection.remove(newest.id)
        assert collection.page().total == 2


def test_a_reader_of_an_older_version_does_not_replace_a_newer_order(scattered, monkeypatch):
    pages, version = scattered._pages, scattered._store.vectors.version()
    scattered.page(order="id")
    monkeypatch.setitem(pages._orders, "id", (version + 1, pages._orders["id"][1]))
    assert pages._ordered("id") is None
    assert pages._orders["id"][0] == version + 1


def test_pages_are_consistent_while_another_process_writes(tmp_path):
    with Collection(tmp_path / "c", create=True) as collection:
        for number in range(9):
            Image.new("RGB", (30, 30 + number), (20 * number, 0, 0)).save(tmp_path / f"{number}.png")
        collection.add(tmp_path / "0.png", recipes="color", workers=1)

        def write():
            with Collection(tmp_path / "c") as other:
                for number in range(1, 9):
                    other.add(tmp_path / f"{number}.png", workers=1)
                    other.remove(tmp_path / f"{number - 1}.png")

        writer = threading.Thread(target=write)
        writer.start()
        totals = set()
        while writer.is_alive():
            page = collection.page(order="id")
            assert len(page.items) == page.total
            totals.add(page.total)
        writer.join()
        assert totals <= {1, 2}
        assert collection.page().total == 1


def test_read_returns_the_original_bytes_from_any_path(tmp_path):
    with Collection(tmp_path / "c", create=True) as collection:
        for name in ("a.png", "b.png"):
            Image.new("RGB", (30, 30), "red").save(tmp_path / name)
        data = (tmp_path / "a.png").read_bytes()
        collection.add(tmp_path, recipes="color", workers=1)
        item = identify(data)
        assert collection.read(item) == data
        Image.new("RGB", (31, 30), "blue").save(tmp_path / "a.png")  # one path has other content now
        assert collection.read(item) == data
        with pytest.raises(ImageError, match="the limit is 10"):
            collection.read(item, Limits(max_bytes=10))
        (tmp_path / "b.png").unlink()
        with pytest.raises(ImageError, match="lookalike refresh"):
            collection.read(item)
        with pytest.raises(InputError, match="No item"):
            collection.read(item ^ 1)


def test_why_agrees_with_the_ranking_and_with_distances(shelf, tmp_path):
    from serving import copy_shelf

    with Collection(copy_shelf(shelf, tmp_path)) as collection:
        sunsets = [item.id for item in collection.items(Filter(label="sunset"))]
        houses = [item.id for item in collection.items(Filter(label="house"))]
        session = collection.session(sunsets[:3], without=houses[:3], author="anna")
        ids, X = collection.vectors("color")
        rows = dict(zip(ids.tolist(), X, strict=True))
        for result in session.best(20)[::4]:
            why = session.why(result.id, k=2)
            assert why.margin == pytest.approx(-result.score, abs=1e-4)
            for near, marked in ((why.relevant, sunsets[:3]), (why.irrelevant, houses[:3])):
                distances = {
                    one: float(np.linalg.norm(rows[result.id] - rows[one])) for one in marked if one != result.id
                }
                expected = sorted(distances.values())[:2]
                assert [one.distance for one in near] == pytest.approx(expected, abs=1e-4)
                assert {one.id for one in near} <= set(marked)
        assert session.why(sunsets[3], box=False).box is None
        left, top, right, bottom = session.why(sunsets[3]).box
        assert 0 <= left < right <= 1
        assert 0 <= top < bottom <= 1
        with pytest.raises(InputError, match="No item"):
            session.why(1)
        with pytest.raises(InputError, match="k must be"):
            session.why(sunsets[3], k=0)
