"""Users without the role manage see paths relative to their source, and never a folder above a source."""

import glob
import json
import shutil
import zipfile

import pytest

from lookalike import Collection
from lookalike.errors import DamagedError, StoreError
from lookalike.images.demo import draw_folder
from lookalike.server.app import ROUTERS
from serving import add_token, error, running
from waiting import until

ABOVE = "hidden-folder"
"""The folder above all sources and the collection."""

QUERIES = {
    "/healthz": [{}],
    "/metrics": [{}],
    "/api/v1/collection": [{}],
    "/api/v1/not-indexed": [{}],
    "/api/v1/items": [{"order": order} for order in ("path", "id", "taken", "added")] + [{"path": f"*{ABOVE}*"}],
    "/api/v1/items/ids": [{}],
    "/api/v1/items/{id}": [{}],
    "/api/v1/items/{id}/thumbnail": [{}],
    "/api/v1/items/{id}/region": [{"box": "0,0,1,1"}, {"box": f"/{ABOVE}"}],
    "/api/v1/items/{id}/image": [{}],
    "/api/v1/items/{id}/kinds": [{}],
    "/api/v1/facets": [{}, {"folder": ABOVE}],
    "/api/v1/timeline": [{}],
    "/api/v1/folders": [{}, {"parent": "Pictures"}, {"parent": ABOVE}, {"folder": f"/{ABOVE}"}],
    "/api/v1/words": [{"prefix": "pic"}, {"prefix": ABOVE}],
    "/api/v1/understand": [{"words": "house"}, {"words": ABOVE}],
    "/api/v1/uploads/{upload}/thumbnail": [{}],
    "/api/v1/saved": [{}],
    "/api/v1/saved/{id}": [{}],
    "/api/v1/saved/{id}/results": [{}],
    "/api/v1/saved/{id}/new": [{}],
    "/api/v1/sessions": [{}],
    "/api/v1/sessions/{id}": [{}],
    "/api/v1/sessions/{id}/best": [{}],
    "/api/v1/sessions/{id}/log": [{}],
    "/api/v1/sessions/{id}/why/{item}": [{}],
    "/api/v1/classes": [{}],
    "/api/v1/classes/one": [{"name": "house"}, {"name": "none"}],
    "/api/v1/duplicates": [{"tier": tier} for tier in ("identical", "same", "alike")] + [{"space": "none"}],
    "/api/v1/duplicates/tiers": [{}],
    "/api/v1/duplicates/export": [{"tier": "identical", "format": kind} for kind in ("json", "csv")],
    "/api/v1/jobs": [{}],
    "/api/v1/jobs/{id}": [{}],
    "/api/v1/jobs/{id}/events": [{}],
    "/api/v1/events": [{}],
    "/api/v1/export": [{"format": kind} for kind in ("json", "csv", "paths", "coco")],
    "/api/v1/actions": [{}],
    "/api/v1/map": [{}],
    "/api/v1/map/points": [{}],
    "/api/v1/selections/{id}/export": [{"format": kind} for kind in ("json", "csv", "paths", "coco")],
    "/api/v1/selections/{id}/zip": [{"size": size} for size in ("original", "screen")] + [{"folders": True}],
}
"""Queries for every GET route. A new route needs a line here."""


@pytest.fixture(scope="module")
def above(tmp_path_factory):
    """A folder that contains a collection and its sources: two folders, an archive and a list."""
    folder = tmp_path_factory.mktemp("top") / ABOVE
    draw_folder(folder / "Pictures", per_kind=1, random_state=0)
    pictures = sorted((folder / "Pictures").rglob("*.jpg"))
    (folder / "Copies" / "deep").mkdir(parents=True)
    shutil.copy(pictures[0], folder / "Copies" / "deep" / "copy.jpg")
    with zipfile.ZipFile(folder / "old.zip", "w") as archive:
        archive.write(pictures[1], "1999/beach.jpg")
    (folder / "elsewhere").mkdir()
    shutil.copy(pictures[2], folder / "elsewhere" / "listed.jpg")
    (folder / "list.txt").write_text(f"{folder / 'elsewhere' / 'listed.jpg'}\n")
    (folder / "New").mkdir()
    (folder / "New" / "broken.jpg").write_bytes(b"\xff\xd8\xff no picture")
    with Collection(folder / "shelf.lookalike", create=True) as collection:
        for source in ("Pictures", "Pictures/house", "Copies", "old.zip", "list.txt"):
            collection.add(folder / source, recipes="color", workers=1)
        collection.import_labels(folder / "Pictures")
    return folder


@pytest.fixture(scope="module")
def people(above):
    return {role: add_token(above / "shelf.lookalike", role, role) for role in ("view", "judge", "manage")}


@pytest.fixture(scope="module")
def service(above, people):
    with running(above / "shelf.lookalike", roots=(above / "New",)) as running_service:
        yield running_service


@pytest.fixture
def items(service, people):
    return {role: service.get("/items", headers=people[role])["items"] for role in people}


def test_paths_are_absolute_for_manage_and_relative_to_their_source_for_others(above, items):
    absolute = {path for item in items["manage"] for path in item["paths"]}
    assert f"{above}/Copies/deep/copy.jpg" in absolute
    assert f"{above}/old.zip::1999/beach.jpg" in absolute
    assert items["view"] == items["judge"]
    relative = {path for item in items["view"] for path in item["paths"]}
    assert {"Copies/deep/copy.jpg", "old.zip::1999/beach.jpg", "listed.jpg"} < relative  # for a list, only file names
    assert all(path.startswith("Pictures/") for path in relative if "copy" not in path and "::" not in path
               and path != "listed.jpg")  # fmt: skip
    assert [item["name"] for item in items["view"]] == [item["name"] for item in items["manage"]]


def test_no_route_shows_a_folder_above_the_sources_to_view(service, people, items, above, monkeypatch):
    manage, judge, view = people["manage"], people["judge"], people["view"]
    added = service.post("/jobs", {"kind": "add", "folder": str(above / "New")}, 202, headers=manage)["id"]
    until(lambda: service.get(f"/jobs/{added}", headers=manage)["state"] == "done")
    assert ABOVE in json.dumps(service.get(f"/jobs/{added}", headers=manage))  # so that there is a path to hide
    shown = service.get(f"/jobs/{added}", headers=view)
    assert shown["arguments"] == {"folder": "New"}
    assert shown["result"]["skipped"].keys() == {"New/broken.jpg"}
    failed = service.app.service.jobs.get(int(added))
    monkeypatch.setattr(failed, "message", f"{above} cannot be read.")
    monkeypatch.setattr(failed, "error", {"kind": "StoreError", "message": f"'{above}' cannot be read."})
    one = items["view"][0]["id"]
    session = service.post("/sessions", {"examples": [{"id": one}]}, 201, headers=judge)["id"]
    picture = service.client.get(f"/api/v1/items/{one}/image", headers=view).content
    upload = service.client.post("/api/v1/uploads", files={"file": picture}, headers=view).json()["upload"]
    chosen = service.post("/selections", {"items": [item["id"] for item in items["view"]]}, headers=view)["selection"]
    query = {"name": "copies", "examples": [{"id": one}], "filter": {"folder": "Pictures"}}
    saved = service.post("/saved", query, 201, headers=judge)["id"]
    names = {"/items": one, "/selections": chosen, "/sessions": session, "/jobs": added, "/saved": saved}
    for router in ROUTERS:
        for route in router.routes:
            if "GET" not in route.methods:
                continue
            name = next((name for part, name in names.items() if route.path.startswith(f"/api/v1{part}/")), "")
            path = route.path.format(id=name, item=one, upload=upload)
            for query in QUERIES[route.path]:
                with service.client.stream("GET", path, params=query, headers=view | {"Last-Event-ID": "0"}) as answer:
                    if path == "/api/v1/events":  # this stream does not end
                        body = next(line for line in answer.iter_lines() if f'"job": "{added}"' in line).encode()
                        assert b"role manage" in body
                    else:
                        body = answer.read()
                assert answer.status_code in (200, 404, 422), (path, body)
                assert ABOVE.encode() not in body.replace(f"*{ABOVE}*".encode(), b""), path
                assert ABOVE not in str(answer.headers), path


def test_search_and_rounds_show_relative_paths(service, people, items):
    body = {"examples": [{"id": items["view"][0]["id"]}], "k": 50}
    for role in ("view", "judge"):
        assert ABOVE not in json.dumps(service.post("/search", body, headers=people[role]))
    session = service.post("/sessions", {"examples": body["examples"]}, 201, headers=people["judge"])["id"]
    for path, asked in (("/search", body), (f"/sessions/{session}/round", {})):
        filtered = asked | {"filter": {"path": f"*{ABOVE}*"}}
        answer = service.client.post(f"/api/v1{path}", json=filtered, headers=people["judge"])
        assert answer.json().get("results", []) == []
        assert ("error" in answer.json()) == (path != "/search")  # the round has no picture to ask about
        assert service.post(path, filtered, headers=people["manage"])
    assert ABOVE not in json.dumps(service.post(f"/sessions/{session}/round", {}, headers=people["judge"]))


def test_a_path_filter_matches_only_paths_that_the_user_can_see(service, people, items, above):
    def total(role, pattern):
        return service.get("/items", params={"path": pattern}, headers=people[role])["total"]

    for item in items["view"]:
        for path in item["paths"]:
            assert total("view", glob.escape(path)) >= 1
    assert total("view", "Pictures/*") == total("manage", f"{above}/Pictures/*") == len(items["view"])
    assert total("view", "house/*") == total("manage", "house/*") >= 1
    assert total("view", "*.jpg") == len(items["view"])
    assert total("view", "beach.jpg") == total("view", "1999/*") == total("view", "[!x]999/beach.jpg") == 1
    top, parent = above.parent.name, above.parts[1]
    for pattern in (f"*{ABOVE}*", f"{ABOVE}/*", f"[{ABOVE[0]}]{ABOVE[1:]}/*", f"?{ABOVE[1:]}*", f"*{top}*",
                    f"[/]{parent}/*", f"?{parent}/*", f"*/{ABOVE}/*", "*elsewhere*"):  # fmt: skip
        assert total("view", pattern) == 0, pattern
        asked = {"path": pattern, "format": "paths"}
        answer = service.client.get("/api/v1/export", params=asked, headers=people["view"])
        assert answer.text == ""
    assert total("manage", f"*{ABOVE}*") == len(items["manage"])
    for path in (f"{above}/Pictures/*", "/*"):
        answer = service.client.get("/api/v1/items", params={"path": path}, headers=people["view"])
        assert "cannot start with a slash" in error(answer, 422, "input")


def test_folders_are_relative_to_the_sources(service, people, items, above):
    def folders(role, **asked):
        return service.get("/folders", params=asked, headers=people[role])["folders"]

    assert {"Pictures"} <= {folder["path"] for folder in folders("view")}
    assert folders("view") == folders("manage")
    nested = folders("view", nested=True)
    assert {"Pictures", "Pictures/house"} <= {folder["path"] for folder in nested}
    assert nested == folders("manage", nested=True)
    inside = folders("view", parent="Pictures")
    assert inside == folders("manage", parent="Pictures")
    assert "Pictures/house" in {folder["path"] for folder in inside}
    for folder in ("Pictures/house", "Pictures"):
        total = service.get("/items", params={"folder": folder}, headers=people["view"])["total"]
        absolute = {"folder": f"{above}/{folder}"}
        assert total == service.get("/items", params=absolute, headers=people["manage"])["total"] >= 1
        answer = service.client.get("/api/v1/items", params=absolute, headers=people["view"])
        assert "folder cannot start with a slash" in error(answer, 422, "input")
    error(service.client.get("/api/v1/folders", params={"parent": str(above)}, headers=people["view"]), 422, "input")
    assert folders("view", parent=ABOVE) == folders("view", parent=f"Pictures/../../{ABOVE}") == []


def test_a_message_with_an_absolute_path_is_for_manage_only(service, people, monkeypatch, above):
    def fail(*_, **__):
        raise raised

    monkeypatch.setattr(service.collection, "page", fail)
    for raised in (DamagedError(f"{above}/x.npy is damaged."), StoreError(f"damaged: (/{above}/a b/x.npy)")):
        assert error(service.client.get("/api/v1/items", headers=people["manage"]), 500, "damaged") == str(raised)
        said = error(service.client.get("/api/v1/items", headers=people["judge"]), 500, "damaged")
        assert said.startswith("A file of the collection is damaged or missing. ")
        assert ABOVE not in said
    raised = StoreError("1/2 of it is damaged, and/or n / m. See https://example.org/a")
    assert error(service.client.get("/api/v1/items", headers=people["view"]), 500, "damaged") == str(raised)


def test_errors_about_missing_and_damaged_files_hide_paths(above, people, tmp_path):
    folder = tmp_path / ABOVE
    shelf = shutil.copytree(above / "shelf.lookalike", folder / "shelf.lookalike")
    (folder / "new").mkdir()
    draw_folder(folder / "new", per_kind=1, random_state=1)
    with Collection(shelf) as collection:
        collection.add(folder / "new", workers=1)
        known = next(item.id for item in collection.items() if item.paths[0].startswith(str(folder)))
    shutil.rmtree(folder / "new")
    (shelf / "judgements.sqlite").write_bytes(b"no database" * 1_000)
    with running(shelf) as service:
        for part in ("image", "thumbnail", "region?box=0,0,1,1"):
            answer = service.client.get(f"/api/v1/items/{known:016x}/{part}", headers=people["view"])
            assert ABOVE not in error(answer, 404, "missing")
        body = {"examples": [{"id": f"{known:016x}"}]}
        assert service.client.post("/api/v1/search", json=body, headers=people["view"]).status_code == 200
        assert ABOVE in error(service.client.get("/api/v1/classes", headers=people["manage"]), 500, "damaged")
        said = error(service.client.get("/api/v1/classes", headers=people["view"]), 500, "damaged")
        assert ABOVE not in said
        assert "role manage" in said
