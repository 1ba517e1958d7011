"""Saved searches over HTTP."""

from pathlib import Path

import pytest

from lookalike import Collection
from serving import add_token, copy_shelf, error, running


@pytest.fixture
def service(shelf, tmp_path):
    with running(copy_shelf(shelf, tmp_path)) as found:
        yield found


@pytest.fixture
def ids(service):
    return [item["id"] for item in service.get("/items", params={"limit": 3})["items"]]


def add_more(service, tmp_path):
    """Add a picture that the collection does not have; return its id."""
    data = Path(service.collection.get([next(service.collection.items()).id]).popitem()[1].paths[0]).read_bytes()
    folder = tmp_path / "more"
    folder.mkdir(exist_ok=True)
    target = folder / "new.jpg"
    target.write_bytes(data + b"\0")
    service.collection.add(folder, workers=1)
    return f"{service.collection.find(str(target)):016x}"


def test_a_saved_search_repeats_the_search_and_shows_what_is_new(service, tmp_path):
    first = f"{next(service.collection.items()).id:016x}"
    query = {"examples": [{"id": first}], "k": 5, "filter": {"min_side": 10}}
    expected = service.post("/search", query)
    saved = service.post("/saved", query | {"name": "first"}, status=201)
    assert (saved["name"], saved["mine"], saved["complete"], saved["filter"]) == ("first", True, True, {"min_side": 10})
    assert saved["examples"] == [{"id": first, "box": None}]
    found = service.get(f"/saved/{saved['id']}/results")
    assert found["results"] == expected["results"]
    assert (found["new"], found["search"], found["notes"]) == ([], saved, [])
    assert service.get(f"/saved/{saved['id']}/new") == {"n_new": 0}
    added = add_more(service, tmp_path)
    again = service.get(f"/saved/{saved['id']}/results")
    assert again["new"] == [added]
    assert service.get(f"/saved/{saved['id']}/new") == {"n_new": 1}
    seen = service.post(f"/saved/{saved['id']}/seen", {"until": found["newest"]})  # those of the run before
    assert seen["seen"] > saved["seen"]
    assert service.get(f"/saved/{saved['id']}/new") == {"n_new": 1}
    service.post(f"/saved/{saved['id']}/seen", {"until": again["newest"]})
    assert service.get(f"/saved/{saved['id']}/new") == {"n_new": 0}


def test_an_upload_is_saved_with_the_search(service, pictures):
    upload = service.upload((pictures / "fish" / "fish-003.jpg").read_bytes() + b"1").json()["upload"]
    query = {"examples": [{"upload": upload, "box": [0, 0, 0.5, 0.5]}, {"upload": upload}], "k": 3}
    expected = [one["item"]["id"] for one in service.post("/search", query)["results"]]
    saved = service.post("/saved", query | {"name": "upload"}, status=201)
    assert (saved["complete"], saved["examples"][1]["id"]) == (False, None)
    service.app.service.uploads._cached.clear()  # it has expired
    found = service.get(f"/saved/{saved['id']}/results")
    assert [one["item"]["id"] for one in found["results"]] == expected


def test_saved_searches_are_listed_renamed_and_deleted(service, ids):
    one = service.post("/saved", {"examples": [{"id": ids[0], "box": [0, 0, 0.5, 1]}], "name": "b"}, status=201)
    two = service.post("/saved", {"words": ["fish"], "without_words": ["cat"], "name": "a"}, status=201)
    assert two["summary"] == "“fish”, not “cat”; the 50 best"
    assert service.get("/saved") == [two, one]
    assert "already saved" in error(
        service.client.post("/api/v1/saved", json={"words": ["x"], "name": "a"}), 422, "input"
    )
    far = {"since": -9e18, "until": 9e18, "min_side": 2**62}
    odd = service.post("/saved", {"words": ["fish"], "filter": far, "name": "z"}, status=201)
    assert service.get("/saved")[2] == odd
    service.client.delete(f"/api/v1/saved/{odd['id']}")
    renamed = service.post(f"/saved/{one['id']}/rename", {"name": "c"})
    assert renamed == one | {"name": "c"} == service.get(f"/saved/{one['id']}")
    assert service.client.delete(f"/api/v1/saved/{one['id']}").json() == renamed
    for call in (
        service.client.get(f"/api/v1/saved/{one['id']}"),
        service.client.get(f"/api/v1/saved/{one['id']}/results"),
        service.client.get(f"/api/v1/saved/{one['id']}/new"),
        service.client.post(f"/api/v1/saved/{one['id']}/seen", json={}),
        service.client.delete(f"/api/v1/saved/{one['id']}"),
    ):
        assert "may have been deleted" in error(call, 404, "missing")
    for wrong in (
        {"name": "x"},
        {"words": ["x"]},
        {"words": ["x"], "name": ""},
        {"words": ["x"], "name": "x", "where": 1},
    ):
        assert service.client.post("/api/v1/saved", json=wrong).status_code == 422
    assert [search["name"] for search in service.get("/saved")] == ["a"]


def test_only_authors_and_managers_change_a_saved_search(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    guest, judge, other, chief = (
        add_token(own, name, role)
        for name, role in (("guest", "view"), ("judge", "judge"), ("other", "judge"), ("chief", "manage"))
    )
    with Collection(own) as collection:
        folder = str(Path(next(collection.items()).paths[0]).parent)
    with running(own) as service:
        item = service.get("/items", headers=guest)["items"][0]["id"]
        query = {"examples": [{"id": item}], "k": 5}
        refused = service.client.post("/api/v1/saved", json=query | {"name": "x"}, headers=guest)
        error(refused, 403, "refused")
        saved = service.post("/saved", query | {"name": "mine"}, status=201, headers=judge)
        for path, body in ((f"/saved/{saved['id']}/seen", {}), (f"/saved/{saved['id']}/rename", {"name": "y"})):
            for who in (guest, other):
                error(service.client.post(f"/api/v1{path}", json=body, headers=who), 403, "refused")
        error(service.client.delete(f"/api/v1/saved/{saved['id']}", headers=other), 403, "refused")
        assert service.get(f"/saved/{saved['id']}", headers=other)["mine"] is False
        assert len(service.get(f"/saved/{saved['id']}/results", headers=guest)["results"]) == 5
        service.post(f"/saved/{saved['id']}/rename", {"name": "yours"}, headers=chief)
        secret = query | {"name": "folder", "filter": {"path": f"{folder}/*"}}
        secret = service.post("/saved", secret, status=201, headers=chief)
        assert secret["filter"] == {"path": f"{folder}/*"}
        seen = service.get(f"/saved/{secret['id']}", headers=judge)
        assert (seen["filter"], seen["complete"]) == ({}, False)
        answer = service.client.get(f"/api/v1/saved/{secret['id']}/results", headers=judge)
        assert answer.json()["results"]
        assert folder not in answer.text
