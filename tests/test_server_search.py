"""Search over HTTP, with pictures of the collection and with uploads."""

import io
import re

import numpy as np
import pytest
from PIL import Image

import hostile
from lookalike import Collection
from lookalike.server.settings import Budget
from lookalike.server.uploads import SEARCHED, Uploads, reduce
from lookalike.store.database import Database
from serving import copy_shelf, error, running


@pytest.fixture(scope="module")
def service(shelf):
    with running(shelf) as running_service:
        yield running_service


@pytest.fixture(scope="module")
def ids(service):
    return [item["id"] for item in service.get("/items", params={"limit": 1000})["items"]]


def jpeg(pixels):
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "JPEG", quality=90)
    return file.getvalue()


def test_a_search_returns_the_results_of_the_library(service, ids):
    found = service.post("/search", {"examples": [{"id": ids[0]}], "without": [{"id": ids[30]}], "k": 7})
    numbers = int(ids[0], 16), int(ids[30], 16)
    expected = service.collection.search(numbers[0], without=numbers[1], k=7)
    assert [result["item"]["id"] for result in found["results"]] == [f"{result.id:016x}" for result in expected]
    assert [result["score"] for result in found["results"]] == pytest.approx([r.score for r in expected], abs=1e-6)
    assert found["space"] == "color"
    assert found["results"][0]["box"] is None


def test_a_search_applies_its_filter_and_box(service, ids):
    example = {"id": ids[0], "box": [0, 0, 0.5, 0.5]}
    found = service.post("/search", {"examples": [example], "k": 9, "filter": {"label": "sunset"}, "where": True})
    assert len(found["results"]) == 5
    assert {result["item"]["labels"][0] for result in found["results"]} == {"sunset"}
    assert all(len(result["box"]) == 4 for result in found["results"])


def test_the_boxes_of_results_can_be_requested_later(service, ids):
    search = {"examples": [{"id": ids[0], "box": [0, 0, 0.5, 0.5]}], "without": [{"id": ids[30]}]}
    results = service.post("/search", search | {"k": 3, "where": True})["results"]
    expected = [{"item": result["item"]["id"], "box": result["box"]} for result in results]
    unknown = "0000000000000001"
    found = service.post("/search/boxes", search | {"items": [one["item"] for one in expected] + [unknown]})
    assert found["boxes"] == [*expected, {"item": unknown, "box": None}]


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        ({"examples": [], "items": ["0" * 16]}, 422, "input"),
        ({"examples": [{"id": "0" * 16}], "items": []}, 422, "input"),
        ({"examples": [{"id": "0" * 16}], "items": ["0" * 16] * 51}, 422, "input"),
        ({"examples": [{"upload": "A" * 22}], "items": ["0" * 16]}, 404, "missing"),
        ({"examples": [{"id": "0000000000000001"}], "items": ["0" * 16]}, 404, "missing"),
    ],
)
def test_invalid_requests_for_boxes_are_rejected(service, body, status, kind):
    error(service.client.post("/api/v1/search/boxes", json=body), status, kind)


@pytest.mark.parametrize(
    ("body", "status", "kind", "field"),
    [
        ({}, 422, "input", "examples"),
        ({"examples": []}, 422, "input", "examples"),
        ({"examples": [{}]}, 422, "input", "examples.0"),
        ({"examples": [{"id": "1" * 16, "upload": "A" * 22}]}, 422, "input", "examples.0"),
        ({"examples": [{"id": "0000000000000001"}]}, 404, "missing", None),
        ({"examples": [{"upload": "A" * 22}]}, 404, "missing", None),
        ({"examples": [{"id": "../../../etc/passwd"}]}, 422, "input", "examples.0.id"),
        ({"examples": [{"path": "/etc/passwd"}]}, 422, "input", "examples.0.path"),
        ({"examples": [{"id": "FIRST", "box": [0.5, 0, 0.5, 1]}]}, 422, "input", "examples.0"),
        ({"examples": [{"id": "FIRST", "box": [0, 0, 1]}]}, 422, "input", "examples.0.box.3"),
        ({"examples": [{"id": "FIRST"}], "k": 0}, 422, "input", "k"),
        ({"examples": [{"id": "FIRST"}], "k": 1001}, 422, "input", "k"),
        ({"examples": [{"id": "FIRST"}], "space": "nowhere"}, 422, "input", None),
        ({"examples": [{"id": "FIRST"}], "filter": {"since": 1e300}}, 422, "input", None),
        ({"examples": [{"id": "FIRST"}] * 101}, 422, "input", "examples"),
    ],
)
def test_an_invalid_search_is_rejected_with_the_field_at_fault(service, ids, body, status, kind, field):
    for example in body.get("examples", []):
        if example.get("id") == "FIRST":
            example["id"] = ids[0]
    answer = service.client.post("/api/v1/search", json=body)
    error(answer, status, kind)
    assert answer.json()["error"]["field"] == field


def test_invalid_json_is_rejected(service):
    for body in (b"", b"{", b"[]", b'"x"', b"\xff\xfe", b'{"examples": [{"id": "\\ud800"}]}', b'{"k": NaN}'):
        answer = service.client.post("/api/v1/search", content=body, headers={"Content-Type": "application/json"})
        error(answer, 422, "input")


def test_a_search_by_words_returns_the_results_of_the_library(service):
    found = service.post("/search", {"words": ["sunsets", "night"], "without_words": ["night"], "k": 7})
    expected = service.collection.search(words=["sunsets", "night"], without_words="night", k=7)
    assert [result["item"]["id"] for result in found["results"]] == [f"{result.id:016x}" for result in expected]
    assert [result["score"] for result in found["results"]] == pytest.approx([r.score for r in expected], abs=1e-6)
    assert {result["item"]["labels"][0] for result in found["results"]} == {"sunset"}
    assert [(word["text"], word["known"]) for word in found["understood"]] == [
        ("sunsets", True),
        ("night", True),
        ("night", True),
    ]
    assert "label sunset (5 pictures)" in found["understood"][0]["summary"]
    assert service.get("/understand", params={"words": "sunsets"})["understood"] == found["understood"][:1]


def test_words_are_combined_with_pictures_and_filters(service, ids):
    body = {"words": ["sunset"], "examples": [{"id": ids[0]}], "without": [{"id": ids[30]}], "k": 9}
    expected = service.collection.search(int(ids[0], 16), words="sunset", without=int(ids[30], 16), k=9)
    found = [result["item"]["id"] for result in service.post("/search", body)["results"]]
    assert found == [f"{result.id:016x}" for result in expected]
    fish = service.post("/search", {**body, "filter": {"label": "fish"}})["results"]
    assert {result["item"]["labels"][0] for result in fish} == {"fish"}


def test_unknown_words_are_reported_with_similar_words(service):
    found = service.post("/search", {"words": ["sunset elefant"], "k": 1})
    assert [(word["text"], word["known"]) for word in found["understood"]] == [("sunset", True), ("elefant", False)]
    assert "elephant" in found["understood"][1]["suggestions"]
    answer = service.client.post("/api/v1/search", json={"words": ["elefant"]})
    message = error(answer, 422, "input")
    assert "'elefant' is unknown" in message
    assert "Similar words: elephant" in message
    (word,) = service.get("/understand", params={"words": "elefant"})["understood"]
    assert (word["known"], "elephant" in word["suggestions"]) == (False, True)


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"words": []}, "examples", "at least one"),
        ({"without_words": ["sunset"]}, "examples", "at least one"),
        ({"words": [""]}, "words.0", "1 or more characters"),
        ({"words": ["  "]}, "words.0", "1 or more characters"),
        ({"words": ["x" * 201]}, "words.0", "200 or fewer characters"),
        ({"words": ["sunset"], "without_words": ["x" * 201]}, "without_words.0", "200 or fewer characters"),
        ({"words": ["sunset"] * 11}, "words", "10 or fewer"),
        ({"words": "sunset"}, "words", "list"),
        ({"words": ["the"]}, None, "no word to search for"),
        ({"words": ["sunset"], "where": True}, None, "no matching part"),
        ({"words": ["sunset"], "rerank": True}, None, "cannot be re-ranked"),
    ],
)
def test_an_invalid_search_by_words_is_rejected(service, body, field, message):
    answer = service.client.post("/api/v1/search", json=body)
    assert message in error(answer, 422, "input")
    assert answer.json()["error"]["field"] == field


def test_words_are_completed(service):
    assert service.get("/words", params={"prefix": "sun"}) == {"words": ["sunset"]}
    assert service.get("/words", params={"prefix": "SUN"}) == {"words": ["sunset"]}
    assert service.get("/words", params={"prefix": " "}) == {"words": []}
    assert service.get("/words", params={"prefix": "%_"}) == {"words": []}


@pytest.mark.parametrize(("path", "name"), [("words", "prefix"), ("understand", "words")])
def test_missing_empty_and_long_text_is_rejected(service, path, name):
    for params in ({}, {name: ""}, {name: "x" * 201}):
        answer = service.client.get(f"/api/v1/{path}", params=params)
        error(answer, 422, "input")
        assert answer.json()["error"]["field"] == name
    if path == "understand":
        assert "no word to search for" in error(service.client.get("/api/v1/understand?words=the"), 422, "input")


def test_words_in_an_empty_collection_are_rejected(tmp_path):
    Collection(tmp_path / "empty", create=True).close()
    with running(tmp_path / "empty") as service:
        error(service.client.post("/api/v1/search", json={"words": ["sunset"]}), 422, "input")
        assert service.get("/words", params={"prefix": "sun"}) == {"words": []}


def test_an_upload_finds_similar_pictures(service, ids):
    with open(service.get(f"/items/{ids[20]}")["path"], "rb") as file:
        known = service.upload(file.read()).json()
    assert (known["item"], known["width"], known["height"]) == (ids[20], 320, 240)
    found = service.post("/search", {"examples": [{"upload": known["upload"]}], "k": 1})
    assert found["results"][0]["item"]["id"] == ids[20]
    assert found["results"][0]["score"] == 0
    pixels = np.asarray(Image.open(io.BytesIO(service.client.get(f"/api/v1/items/{ids[40]}/image").content)))
    new = service.upload(jpeg(pixels[:, ::-1])).json()
    assert new["item"] is None
    box = {"upload": new["upload"], "box": [0.0, 0.0, 1.0, 0.9]}
    for example in ({"upload": new["upload"]}, box):
        found = service.post("/search", {"examples": [example], "k": 5})
        label = service.get(f"/items/{ids[40]}")["labels"]
        assert label in [result["item"]["labels"] for result in found["results"]]
    small = service.client.get(f"/api/v1/uploads/{new['upload']}/thumbnail", params={"side": 64})
    assert Image.open(io.BytesIO(small.content)).size == (64, 48)
    error(service.client.get(f"/api/v1/uploads/{'A' * 22}/thumbnail"), 404, "missing")


def test_a_form_without_a_picture_is_rejected(service):
    for files in ({"other": ("x", b"x")}, {"file": ("x", b"")}):
        error(service.client.post("/api/v1/uploads", files=files), 422, "input")
    error(service.client.post("/api/v1/uploads", data={"file": "text"}), 422, "input")
    error(service.client.post("/api/v1/uploads", json={"file": "text"}), 422, "input")
    two = [("file", ("a", b"a")), ("file", ("b", b"b"))]
    error(service.client.post("/api/v1/uploads", files=two), 400, "input")


def test_hostile_uploads_are_rejected_and_the_service_survives(service, tmp_path):
    _, bad = hostile.write_corpus(tmp_path)
    kinds = {kind: path for path, kind in bad.items() if path.is_file() and path.stat().st_size < 2**20}
    assert len(kinds) >= 5
    for path in kinds.values():
        error(service.upload(path.read_bytes()), 422, "input")
    error(service.upload(hostile.png(60_000, 60_000)), 422, "input")  # 3.6 gigapixels in a few bytes
    assert service.client.get("/healthz").status_code == 200


def noise(n, side=100):
    """Encoded pictures that cannot be compressed."""
    random = np.random.default_rng(0)
    return [jpeg(random.integers(0, 256, (side, side, 3), np.uint8)) for _ in range(n)]


def test_an_upload_is_found_after_a_restart(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    with running(own) as service:
        sent = service.client.post("/api/v1/uploads", files={"file": ("../../me.jpg", noise(1)[0])}).json()["upload"]
        asked = {"examples": [{"upload": sent, "box": [0, 0, 1, 0.5]}], "k": 5}
        found = service.post("/search", asked)["results"]
        thumbnail = service.client.get(f"/api/v1/uploads/{sent}/thumbnail").content
    with running(own) as service:
        assert service.client.get(f"/api/v1/uploads/{sent}/thumbnail").content == thumbnail
        assert service.post("/search", asked)["results"] == found
        (file,) = (own / SEARCHED).iterdir()
        assert re.fullmatch(rf"{sent}-[0-7][0-9a-f]{{15}}-100x100\.png", file.name)
    with Collection(tmp_path / "other", create=True) as other:
        assert other.add(own, recipes="color").added == 0  # although the collection is a source
    file.write_bytes(file.read_bytes()[:50])  # damaged
    with running(own) as service:
        answer = service.client.get(f"/api/v1/uploads/{sent}/thumbnail")
        assert "Send the picture again" in error(answer, 404, "missing")


def test_saved_uploads_stay_within_limits_of_bytes_and_number(shelf, tmp_path):
    pictures = noise(4)
    for limit in ({"saved_uploads": 2}, {"saved_upload_bytes": 70_000}):  # about 30 kB each
        own = copy_shelf(shelf, tmp_path / next(iter(limit)))
        with running(own, budget=Budget(upload_cache_bytes=1, upload_pixels=90_000, **limit)) as service:

            def is_found(sent, service=service):
                return service.client.get(f"/api/v1/uploads/{sent}/thumbnail").status_code == 200

            first, second = (service.upload(picture).json()["upload"] for picture in pictures[:2])
            assert is_found(first)  # now the second one is the least recently used
            third = service.upload(pictures[2]).json()["upload"]
            assert [is_found(sent) for sent in (first, second, third)] == [True, False, True]
            saved = list((own / SEARCHED).iterdir())
            assert len(saved) == 2
            if "saved_upload_bytes" in limit:
                assert not is_found(service.upload(noise(1, side=200)[0]).json()["upload"])  # it is larger than all
                assert list((own / SEARCHED).iterdir()) == saved
            message = error(service.upload(jpeg(np.zeros((400, 400, 3), np.uint8))), 422, "input")
            assert "the limit is 90000" in message


def test_an_upload_larger_than_the_cache_evicts_nothing_from_it(tmp_path):
    uploads = Uploads(tmp_path, Budget(upload_cache_bytes=40_000))
    small, large = (uploads.add(jpeg(np.zeros((side, side, 3), np.uint8))) for side in (100, 200))
    uploads.close()
    found = uploads.get(large.id)
    assert found is not large
    assert (found.id, found.item, found.width, found.height) == (large.id, large.item, 200, 200)
    np.testing.assert_array_equal(found.pixels, large.pixels)
    assert uploads.get(small.id) is small
    assert len(uploads) == 1


def test_an_upload_is_reduced_to_the_size_that_a_search_needs():
    assert reduce(np.zeros((3000, 1500, 3), np.uint8)).shape == (2048, 1024, 3)
    assert reduce(np.zeros((10, 60_000, 3), np.uint8)).shape == (1, 8192, 3)
    small = np.zeros((20, 30, 3), np.uint8)
    assert reduce(small) is small


def test_the_number_of_queries_to_the_store_does_not_depend_on_the_number_of_results(service, ids, monkeypatch):
    """Each query releases the GIL and, under load, waits to acquire it again."""
    asked = []
    one, reading = Database.read_value, Database.reading
    monkeypatch.setattr(
        Database, "read_value", lambda self, query, values=(): asked.append(query) or one(self, query, values)
    )
    monkeypatch.setattr(Database, "reading", lambda self: asked.append("BEGIN") or reading(self))
    service.post("/search", {"examples": [{"id": ids[0]}], "k": 5})
    asked.clear()
    found = service.post(
        "/search", {"examples": [{"id": ids[0]}, {"id": ids[1]}], "without": [{"id": ids[2]}], "k": 50}
    )
    assert len(found["results"]) == 50
    assert "BEGIN" not in asked
    assert len(asked) <= 8, asked
