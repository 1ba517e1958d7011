"""Items, pictures, the page, health and metrics over HTTP."""

import io
import itertools
import shutil
import threading
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection
from lookalike.errors import ImageError, InputError
from lookalike.features.kinds import encode_kinds
from lookalike.server import service as module
from lookalike.server import thumbnails
from lookalike.server.metrics import Metrics
from lookalike.server.settings import Budget
from lookalike.server.thumbnails import LargePictures, ThumbnailCache, fit, rounded
from serving import copy_shelf, error, running
from waiting import until


@pytest.fixture(scope="module")
def service(shelf):
    with running(shelf) as running_service:
        yield running_service


def test_health_is_ok_and_metrics_count_requests(service):
    assert service.client.get("/healthz").json() == {"status": "ok"}
    service.get("/items")
    text = service.client.get("/metrics").text
    assert 'lookalike_requests_total{route="/api/v1/items",method="GET",status="200"}' in text
    assert 'lookalike_request_seconds_bucket{route="/healthz",le="+Inf"}' in text
    for method in ("PROPFIND", "MKCOL"):
        assert service.client.request(method, "/healthz").status_code == 405
    assert service.client.get("/metrics").text.count('method="other"') == 1


def test_the_collection_is_summarised(service):
    seen = service.get("/collection")
    assert (seen["name"], seen["items"], seen["classes"], seen["labelled"]) == ("shelf", 60, 12, 60)
    assert [(space["name"], space["items"], space["default"]) for space in seen["spaces"]] == [("color", 60, True)]
    assert seen["me"]["role"] == "manage"
    assert seen["limits"]["upload_bytes"] == 64 * 2**20


def test_an_item_has_the_metadata_of_its_camera(shelf, tmp_path):
    (tmp_path / "new").mkdir()
    exif = Image.Exif()
    exif[0x0110] = "NIKON D90"
    exif.get_ifd(0x8769)[0x829D] = 5.6
    Image.new("RGB", (60, 40), (200, 90, 30)).save(tmp_path / "new" / "photo.jpg", exif=exif)
    own = copy_shelf(shelf, tmp_path)
    with Collection(own) as collection:
        plain = next(collection.items()).id
        collection.add(tmp_path / "new", workers=1)
        taken = collection.find(str(tmp_path / "new" / "photo.jpg"))
    with running(own) as service:
        found = service.get(f"/items/{taken:016x}")["exif"]
        assert (found["camera"], found["aperture"], found["iso"]) == ("NIKON D90", 5.6, None)
        assert set(service.get(f"/items/{plain:016x}")["exif"].values()) == {None}


def test_kinds_of_an_item_are_listed_likeliest_first(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    with Collection(own) as collection:
        known, unknown = (item.id for item in itertools.islice(collection.items(), 2))
        P = np.zeros((1, 1000), np.float32)
        P[0, [207, 281]] = 0.71, 0.2  # golden retriever, tabby
        store = collection._store
        with store.writer():
            collection._spaces.create(["deep-plain"])
            rows = store.vectors.write(collection._spaces.kinds.name, np.array([known]), encode_kinds(P))
            with store.transaction():
                store.vectors.commit(rows)
    with running(own) as service:
        kinds = service.get(f"/items/{known:016x}/kinds")
        assert [kind["name"] for kind in kinds] == ["golden retriever", "tabby"]
        assert [kind["probability"] for kind in kinds] == pytest.approx([0.71, 0.2], abs=0.01)
        assert service.get(f"/items/{unknown:016x}/kinds") == []
        found = service.post("/search", {"words": ["retriever"], "k": 1})
        assert found["results"][0]["item"]["id"] == f"{known:016x}"
        error(service.client.get("/api/v1/items/0000000000000000/kinds"), 404, "missing")
        error(service.client.get("/api/v1/items/x/kinds"), 404, "missing")


def test_items_are_paged_in_every_order(service):
    everything = [item["id"] for item in service.get("/items", params={"limit": 1000})["items"]]
    assert len(set(everything)) == 60
    for order in ("path", "id", "taken", "added"):
        pages = [service.get("/items", params={"offset": at, "limit": 25, "order": order}) for at in (0, 25, 50, 75)]
        assert [len(page["items"]) for page in pages] == [25, 25, 10, 0]
        assert {page["total"] for page in pages} == {60}
        listed = [item["id"] for page in pages for item in page["items"]]
        assert sorted(listed) == sorted(everything)
    paths = [item["path"] for item in service.get("/items")["items"]]
    assert paths == sorted(paths)
    taken = [item["added"] for item in service.get("/items", params={"order": "added"})["items"]]
    assert taken == sorted(taken, reverse=True)


def test_only_items_that_pass_the_filter_are_listed(service):
    sunsets = service.get("/items", params={"label": "sunset"})
    assert sunsets["total"] == 5
    assert {item["labels"][0] for item in sunsets["items"]} == {"sunset"}
    assert service.get("/items", params={"path": "*/house-00[01].jpg"})["total"] == 2
    assert service.get("/items", params={"min_side": 241})["total"] == 0
    message = error(service.client.get("/api/v1/items", params={"min_side": 9, "max_side": 3}), 422, "input")
    assert "min_side must not exceed max_side" in message
    for path in ("items", "export"):
        message = error(service.client.get(f"/api/v1/{path}", params={"label": "sunst"}), 422, "input")
        assert "Did you mean 'sunset'?" in message
    costly = {"path": "*a" * 30 + "b"}  # SQLite would need years for this pattern
    assert "at most 4 asterisks" in error(service.client.get("/api/v1/items", params=costly), 422, "input")
    error(service.client.get("/api/v1/export", params=costly), 422, "input")


def test_facets_months_and_folders_count_what_their_filters_list(service):
    facets = {facet["name"]: facet for facet in service.get("/facets", params={"label": "sunset"})["facets"]}
    assert [row["n"] for row in facets["label"]["values"]] == [5] * 12  # its own condition is ignored
    assert facets["label"]["n_values"] == 12
    for name, facet in facets.items():
        for row in facet["values"] if name != "label" else []:
            params = {"label": "sunset", name: row["value"]}
            assert service.get("/items", params=params)["total"] == row["n"], params
    assert facets["labelled"]["values"] == [{"value": "true", "n": 5}]
    months = service.get("/timeline", params={"label": "sunset"})["months"]
    assert sum(month["n"] for month in months) == 5
    assert all(len(month["month"]) == 7 for month in months)
    (top,) = service.get("/folders")["folders"]
    assert top == {"path": "pictures", "name": "pictures", "n": 60, "has_folders": True}
    inside = service.get("/folders", params={"parent": "pictures", "label": "sunset"})
    assert inside["folders"] == [{"path": "pictures/sunset", "name": "sunset", "n": 5, "has_folders": False}]
    assert service.get("/items", params={"folder": "pictures/sunset"})["total"] == 5
    answer = service.post("/search", {"words": ["sunset"], "filter": {"folder": "pictures/house"}, "k": 60})
    assert all(result["item"]["path"].split("/")[-2] == "house" for result in answer["results"])
    assert "No label named" in error(service.client.get("/api/v1/facets", params={"suggested": "sunst"}), 422, "input")
    assert "place must be" in error(service.client.get("/api/v1/timeline", params={"place": "here"}), 422, "input")
    error(service.client.get("/api/v1/folders", params={"year": "0"}), 422, "input")


def test_a_single_item_equals_its_entry_in_the_list(service):
    first = service.get("/items", params={"limit": 1})["items"][0]
    one = service.get(f"/items/{first['id']}")
    assert set(one.pop("exif").values()) == {None}  # a drawn picture has no camera
    assert one == first
    assert first["name"] == "balloons-000.jpg"
    assert "no picture with the id" in error(service.client.get("/api/v1/items/0000000000000000"), 404, "missing")


def test_a_thumbnail_has_the_requested_size_and_is_the_same_from_the_cache(service):
    item = service.get("/items", params={"limit": 1, "offset": 7})["items"][0]
    address = f"/api/v1/items/{item['id']}/thumbnail"
    first, second = service.client.get(address, params={"side": 100}), service.client.get(address, params={"side": 128})
    assert Image.open(io.BytesIO(first.content)).size == (128, 96)
    assert first.content == second.content
    assert first.headers["etag"] == second.headers["etag"]
    assert "immutable" in second.headers["cache-control"]
    assert second.headers["x-content-type-options"] == "nosniff"  # also from the cache
    for params in ({"side": 128}, {"side": 64}):
        etag = service.client.get(address, params=params).headers["etag"]
        again = service.client.get(address, params=params, headers={"If-None-Match": etag})
        assert (again.status_code, again.content) == (304, b"")
    error(service.client.get(address, params={"side": 0}), 422, "input")
    error(service.client.get(address, params={"side": "²"}), 422, "input")


def test_a_thumbnail_requested_several_times_is_computed_once(service, monkeypatch):
    item = service.get("/items", params={"limit": 1, "offset": 11})["items"][0]
    state, made = service.app.service, []
    picture = state.picture

    def count(*args):
        made.append(args)
        return picture(*args)

    monkeypatch.setattr(state, "picture", count)
    found = state.item(item["id"])
    first, second = (state.thumbnail(found, 192) for _ in range(2))  # the second waits for the first
    assert first == second
    assert len(made) == 1


def test_the_image_is_the_original_file(service):
    item = service.get("/items", params={"limit": 1})["items"][0]
    answer = service.client.get(f"/api/v1/items/{item['id']}/image")
    assert answer.headers["content-type"] == "image/jpeg"
    assert answer.headers["content-security-policy"] == "default-src 'none'; sandbox"
    with open(item["path"], "rb") as file:
        assert answer.content == file.read()


def test_a_screen_sized_copy_is_upright_and_in_a_format_that_browsers_display(tmp_path):
    folder = tmp_path / "few"
    folder.mkdir()
    turned = Image.Exif()
    turned[0x0112] = 6  # a quarter turn
    Image.effect_noise((2400, 1200), 90).convert("RGB").save(folder / "a.jpg", exif=turned, quality=95)
    Image.new("RGB", (2000, 1000), "green").save(folder / "b.tiff")
    Image.new("RGB", (400, 300), "red").save(folder / "c.png")
    with Collection(tmp_path / "c", create=True) as made:
        made.add(folder, recipes="color", workers=1)
    with running(tmp_path / "c") as service:
        items = {item["name"]: item for item in service.get("/items")["items"]}

        def ask(name, **options):
            return service.client.get(f"/api/v1/items/{items[name]['id']}/image", params={"side": 1600}, **options)

        photo = ask("a.jpg")
        assert Image.open(io.BytesIO(photo.content)).size == (800, 1600)
        assert len(photo.content) < items["a.jpg"]["bytes"]
        assert service.app.service.thumbnails.peek((items["a.jpg"]["id"], 1600)) == photo.content  # cached
        assert ask("a.jpg", headers={"If-None-Match": photo.headers["etag"]}).status_code == 304
        assert ask("b.tiff").headers["content-type"] == "image/jpeg"
        assert Image.open(io.BytesIO(ask("b.tiff").content)).size == (1600, 800)
        assert ask("c.png").content == (folder / "c.png").read_bytes()  # small enough: no copy
        original = service.client.get(f"/api/v1/items/{items['a.jpg']['id']}/image")
        assert original.content == (folder / "a.jpg").read_bytes()
        assert original.headers["etag"] != photo.headers["etag"]
        for side in (5, 5000):
            address = f"/api/v1/items/{items['a.jpg']['id']}/image"
            error(service.client.get(address, params={"side": side}), 422, "input")


def test_a_region_is_cropped(service):
    item = service.get("/items", params={"limit": 1})["items"][0]
    answer = service.client.get(f"/api/v1/items/{item['id']}/region", params={"box": "0,0,0.5,0.25", "side": 200})
    assert Image.open(io.BytesIO(answer.content)).size == (160, 60)
    for box in ("0,0,0,1", "0.5,0,0.4,1", "0,0,2,1", "nan,0,1,1", "1,2,3", "--,e,+,."):
        error(service.client.get(f"/api/v1/items/{item['id']}/region", params={"box": box}), 422, "input")


def test_large_pictures_are_decoded_by_another_process(service, monkeypatch):
    item = service.get("/items", params={"limit": 1})["items"][0]
    monkeypatch.setattr(thumbnails, "LARGE_PIXELS", 0)
    monkeypatch.setattr(module, "shrink", None)  # fails if the service itself decodes
    answer = service.client.get(f"/api/v1/items/{item['id']}/region", params={"box": "0,0,0.5,0.25", "side": 199})
    assert Image.open(io.BytesIO(answer.content)).size == (160, 60)
    large = LargePictures()
    try:
        with pytest.raises(ImageError, match="not an image"):
            large.shrink(b"nothing", 100)
    finally:
        large.close()


def test_large_pictures_do_not_block_other_requests(shelf, monkeypatch):
    held, asked = threading.Event(), []
    monkeypatch.setattr(thumbnails, "LARGE_PIXELS", 0)
    with running(shelf, budget=Budget(readers=2)) as service:
        items = service.get("/items", params={"limit": 4})["items"]
        slow = SimpleNamespace(shrink=lambda *_: held.wait() and b"", close=lambda: None)
        monkeypatch.setattr(service.app.service, "_large", slow)
        for item in items:
            asked.append(threading.Thread(target=service.client.get, args=(f"/api/v1/items/{item['id']}/thumbnail",)))
            asked[-1].start()
        until(lambda: "lookalike_pending_large 4\n" in service.client.get("/metrics").text)
        assert service.get(f"/items/{items[0]['id']}")["id"] == items[0]["id"]
        held.set()
        for thread in asked:
            thread.join()


def test_a_missing_or_changed_file_gives_a_404(tmp_path):
    folder = tmp_path / "few"
    folder.mkdir()
    for name, colour in (("a.png", "red"), ("b.tiff", "green")):
        Image.new("RGB", (40, 30), colour).save(folder / name)
    with Collection(tmp_path / "c", create=True) as made:
        made.add(folder, recipes="color", workers=1)
    with running(tmp_path / "c") as service:
        first, second = service.get("/items")["items"]
        converted = service.client.get(f"/api/v1/items/{second['id']}/image")  # browsers do not show TIFF files
        assert converted.headers["content-type"] == "image/jpeg"
        assert Image.open(io.BytesIO(converted.content)).size == (40, 30)
        Image.new("RGB", (40, 30), "blue").save(folder / "a.png")
        (folder / "b.tiff").unlink()
        for item, reason in ((first, "changed"), (second, "is missing")):
            for what in ("image", "thumbnail", "region?box=0,0,1,1"):
                headers = {"If-None-Match": "nothing"}
                answer = service.client.get(f"/api/v1/items/{item['id']}/{what}", headers=headers)
                assert reason in error(answer, 404, "missing")


def test_no_large_picture_is_decoded_after_close(pictures):
    large = LargePictures()
    assert large.shrink(next(pictures.rglob("*.jpg")).read_bytes(), 64)[:3] == b"\xff\xd8\xff"
    large.close()
    with pytest.raises(ImageError, match="shutting down"):
        large.shrink(b"", 64)


def test_changes_by_another_process_are_visible_immediately(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    with running(own) as service:
        assert service.get("/items")["total"] == 60
        Image.new("RGB", (50, 50), "red").save(tmp_path / "new.png")
        with Collection(own) as other:
            other.add(tmp_path / "new.png", workers=1)
        assert service.get("/items")["total"] == 61
        new = service.get("/items", params={"path": "*/new.png"})["items"][0]
        found = service.post("/search", {"examples": [{"id": new["id"]}], "k": 1})
        assert found["results"][0]["item"]["id"] == new["id"]
        addresses = [f"/api/v1/items/{new['id']}/{what}" for what in ("thumbnail", "image", "region?box=0,0,1,1")]
        tags = [service.client.get(address).headers["etag"] for address in addresses]  # fills the cache
        with Collection(own) as other:
            other.remove(tmp_path / "new.png")
        for address, tag in zip(addresses, tags, strict=True):
            for headers in ({}, {"If-None-Match": tag}):
                error(service.client.get(address, headers=headers), 404, "missing")
        shutil.rmtree(own / "vectors")  # items can be listed without vectors
        answer = service.client.get("/api/v1/items")
        assert answer.status_code == 200


def test_the_page_has_security_headers_and_an_etag(service):
    page = service.client.get("/")
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert "unsafe" not in page.headers["content-security-policy"]
    assert service.client.get("/index.html").content == page.content
    again = service.client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    plain = service.client.get("/", headers={"Accept-Encoding": "identity"})
    assert plain.content == page.content
    assert "content-encoding" not in plain.headers


def test_the_api_serves_its_openapi_document(service):
    document = service.client.get("/api/v1/openapi.json").json()
    assert "/api/v1/items/{id}/thumbnail" in document["paths"]
    assert "ErrorOut" in document["components"]["schemas"]
    assert service.client.get("/docs").status_code == 404  # disabled, because it loads scripts from other sites


def test_an_unknown_address_or_method_gives_an_error_in_json(service):
    assert "openapi.json" in error(service.client.get("/api/v1/nothing"), 404, "missing")
    error(service.client.get("/nothing"), 404, "missing")
    error(service.client.delete("/api/v1/items"), 405, "input")


def test_the_thumbnail_cache_removes_the_least_recently_used_first():
    cache = ThumbnailCache(100)
    for number in range(20):
        cache.put((str(number), 64), bytes(30))
        cache.put(("0", 64), bytes(30))  # recently used
    assert cache.n_bytes <= 100
    assert cache.get(("0", 64)) is not None
    assert cache.get(("5", 64)) is None
    assert (cache.hits, cache.misses) == (1, 1)
    assert cache.peek(("0", 64)) is not None
    assert cache.peek(("5", 64)) is None
    assert (cache.hits, cache.misses) == (1, 1)
    assert cache.get(("18", 64)) is not None  # the least recently used until now
    cache.put(("20", 64), bytes(30))
    assert [number for number in range(21) if cache.peek((str(number), 64))] == [0, 18, 20]
    cache.put(("large", 64), bytes(200))
    assert cache.get(("large", 64)) is None
    assert cache.n_bytes == 90  # the others stay


def test_thumbnail_sides_are_rounded_up_and_pictures_are_reduced():
    import numpy as np

    assert [rounded(side) for side in (16, 64, 65, 2048, 9999)] == [64, 64, 128, 2048, 2048]
    assert fit(np.zeros((3, 5000, 3), np.uint8), 64).shape == (1, 64, 3)
    assert fit(np.zeros((30, 50, 3), np.uint8), 64).shape == (30, 50, 3)


def test_the_buckets_of_the_histogram_are_cumulative():
    metrics = Metrics()
    for seconds in (0.0001, 0.02, 99):
        metrics.request("/x", "GET", 200, seconds)
    metrics.request("/x", "EVIL\n", 200, 0.0)
    text = metrics.text()
    assert 'le="0.001"} 2' in text
    assert 'le="30.0"} 3' in text
    assert 'le="+Inf"} 4' in text
    assert "EVIL" not in text


def test_paging_rejects_invalid_arguments(shelf):
    with Collection(shelf) as collection:
        for wrong in ({"offset": -1}, {"limit": 0}, {"order": "size"}):
            with pytest.raises(InputError):
                collection.page(**wrong)
        assert collection.page(offset=10**9).items == []
        with pytest.raises(InputError, match="No item"):
            collection.read(0)


def test_files_that_are_not_in_the_collection_are_counted_and_listed(service, shelf, tmp_path):
    assert service.get("/not-indexed") == {"skipped": [], "n_skipped": 0, "other_types": {}, "summary": ""}
    assert service.get("/collection")["not_indexed"] == 0
    (tmp_path / "new").mkdir()
    for name in ("broken.jpg", "film.mp4"):
        (tmp_path / "new" / name).touch()
    own = copy_shelf(shelf, tmp_path)
    with Collection(own) as collection:
        collection.add(tmp_path / "new")
    with running(own) as served:
        seen = served.get("/not-indexed")
        assert seen["skipped"] == [{"path": f"{tmp_path}/new/broken.jpg", "reason": "it is empty"}]
        assert (seen["n_skipped"], seen["other_types"]) == (1, {".mp4": 1})
        assert seen["summary"] == "1 file of a type Lookalike does not read: .mp4 1."
        assert served.get("/collection")["not_indexed"] == 2
