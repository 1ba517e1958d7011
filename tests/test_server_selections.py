"""Selections over HTTP: ids of all items, export, and download as a zip."""

import csv
import io
import json
import zipfile
from collections import Counter
from pathlib import Path, PurePath

import pytest

from lookalike import Collection
from lookalike.collection import format_id
from lookalike.images.demo import draw_folder
from lookalike.server.selections import MISSING, Selections, zip_parts
from lookalike.text import RENAMED, safe_names
from serving import WRITE, add_token, copy_shelf, error, running
from waiting import until


@pytest.fixture(scope="module")
def service(shelf):
    with running(shelf) as running_service:
        yield running_service


def choose(service, *ids, **options):
    return service.post("/selections", {"items": list(ids)}, **options)


def download(service, selection, **query):
    answer = service.client.get(f"/api/v1/selections/{selection}/zip", params=query)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-disposition"] == 'attachment; filename="pictures.zip"'
    return zipfile.ZipFile(io.BytesIO(answer.content))


def test_ids_are_those_of_all_pages_in_every_order(service):
    for query in ({"order": "path"}, {"order": "added"}, {"order": "id", "label": "beach"}):
        found = service.get("/items/ids", params=query)
        assert found["ids"] == [item["id"] for item in service.get("/items", params=query | {"limit": 1000})["items"]]
        assert found["total"] == len(found["ids"])


def test_a_selection_is_exported_in_its_order(service):
    ids = service.get("/items/ids")["ids"][5:1:-1]
    chosen = choose(service, *ids, ids[0])
    assert chosen["count"] == 4
    place = f"/selections/{chosen['selection']}/export"
    assert [item["id"] for item in service.get(place)] == ids
    table = service.client.get(f"/api/v1{place}", params={"format": "csv"}).text
    assert [row["id"] for row in csv.DictReader(io.StringIO(table))] == ids
    paths = service.client.get(f"/api/v1{place}", params={"format": "paths"}).text.splitlines()
    assert paths == [service.get(f"/items/{item}")["path"] for item in ids]


def test_a_split_has_a_selection_for_each_part_whose_zip_has_class_folders(service):
    asked = {"shares": [0.5, 0.25, 0.25]}
    found = until(lambda: (answer := service.post("/split", asked))["job"] is None and answer)
    expected = service.collection.split(asked["shares"])
    assert found["warnings"] == expected.warnings
    for part in found["parts"]:
        ids = {format_id(item) for item in expected.parts[part["part"]]}
        place = f"/selections/{part['selection']}"
        assert {item["id"] for item in service.get(f"{place}/export")} == ids
        files = [name.partition("/") for name in download(service, part["selection"], folders=True).namelist()]
        assert {PurePath(name).stem for _, _, name in files} == ids
        counts = {name: counts[part["part"]] for name, counts in expected.classes.items()}
        assert Counter(folder for folder, _, _ in files) == Counter(part["classes"]) == Counter(counts)
    answer = service.client.post("/api/v1/split", json={"shares": [0, 0, 1]}, headers=WRITE)
    assert "shares must be three numbers" in error(answer, 422, "input")


def test_a_zip_with_class_folders_has_the_labels_that_cannot_be_names_of_folders(shelf, tmp_path):
    with running(copy_shelf(shelf, tmp_path)) as service:
        items = service.get("/items?label=beach")["items"]
        service.post("/classes/rename", {"name": "beach", "to": "sea/side"})
        selection = choose(service, *[item["id"] for item in items])["selection"]
        archive = download(service, selection, folders=True)
        assert {name.partition("/")[0] for name in archive.namelist()} == {"sea_side", RENAMED}
        assert json.loads(archive.read(RENAMED)) == {"sea_side": "sea/side"}
        assert RENAMED not in download(service, selection).namelist()


def test_users_who_do_not_manage_see_no_absolute_paths(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    viewer = add_token(own, "vera", "view")
    with running(own) as service:
        ids = service.get("/items/ids", headers=viewer)["ids"][:2]
        chosen = choose(service, *ids, headers=viewer)["selection"]
        place = f"/api/v1/selections/{chosen}"
        paths = service.client.get(f"{place}/export", params={"format": "paths"}, headers=viewer).text.splitlines()
        assert paths
        assert all(path.startswith("pictures/") for path in paths)
        answer = service.client.get(f"{place}/zip", headers=viewer)
        assert str(own.parent).encode() not in answer.content
        for way in ("zip", "export"):
            error(service.client.get(f"{place}/{way}"), 401, "token")


def test_a_zip_has_the_original_files_under_unique_names_and_lists_the_missing_ones(tmp_path):
    draw_folder(tmp_path / "pictures", per_kind=2, random_state=1)
    for kind in ("beach", "face"):
        folder = tmp_path / "pictures" / kind
        (folder / f"{kind}-000.jpg").rename(folder / "same.jpg")
    with Collection(tmp_path / "own.lookalike", create=True) as collection:
        collection.add(tmp_path / "pictures", recipes="color", workers=1)
    with running(tmp_path / "own.lookalike") as service:
        listed = service.get("/items", params={"path": "*/beach/*"})["items"]
        listed += service.get("/items", params={"path": "*/face/*"})["items"]
        gone = next(item for item in listed if item["name"] != "same.jpg")
        files = {item["id"]: Path(item["path"]).read_bytes() for item in listed}
        (tmp_path / "pictures").joinpath(*gone["path"].split("/")[-2:]).unlink()
        chosen = choose(service, *files, "0000000000000000")["selection"]
        with download(service, chosen) as archive:
            assert archive.testzip() is None
            names = archive.namelist()
            assert {"same.jpg", "same (2).jpg", MISSING} < set(names)
            assert gone["name"] not in names
            assert sorted(map(archive.read, names[:-1])) == sorted(
                data for item, data in files.items() if item != gone["id"]
            )
            report = archive.read(MISSING).decode()
            assert report.splitlines()[0].startswith(f"{gone['name']}: its file is missing")
            assert "0000000000000000.jpg: it is no longer in the collection" in report
            assert "/" not in report.replace(", or", "")
        with download(service, chosen, size="screen") as archive:
            assert all(archive.read(name)[:3] == b"\xff\xd8\xff" for name in archive.namelist()[:-1])


def test_unknown_selections_and_wrong_requests_are_rejected(service):
    for way in ("zip", "export"):
        error(service.client.get(f"/api/v1/selections/{'x' * 22}/{way}"), 404, "missing")
    for body in ({"items": []}, {"items": ["x"]}, {}):
        error(service.client.post("/api/v1/selections", json=body), 422, "input")
    one = choose(service, *service.get("/items/ids")["ids"][:1])["selection"]
    error(service.client.get(f"/api/v1/selections/{one}/zip?size=huge"), 422, "input")
    service.app.service.selections = Selections()  # everything has expired
    assert "expired" in error(service.client.get(f"/api/v1/selections/{one}/zip"), 404, "missing")


def test_the_number_and_the_size_of_zips_are_limited(service, monkeypatch):
    one = choose(service, *service.get("/items/ids")["ids"][:3])["selection"]
    monkeypatch.setattr(service.app.service.zip_slots, "locked", lambda: True)
    error(service.client.get(f"/api/v1/selections/{one}/zip"), 503, "busy")
    monkeypatch.undo()
    monkeypatch.setattr("lookalike.server.routes.selections.MAX_ZIPPED", 2)
    assert "at most 2" in error(service.client.get(f"/api/v1/selections/{one}/zip"), 422, "input")


def test_a_zip_holds_one_file_at_a_time():
    held = []

    def load(place):
        held.append(place)
        return bytes(1_000)

    parts = zip_parts([f"{i}.jpg" for i in range(50)], [None] * 50, load, {})
    assert sum(map(len, next(parts))) < 1_200
    assert held == [0]
    assert sum(sum(map(len, part)) for part in parts) > 49_000


def test_names_of_files_are_safe_and_unique():
    assert safe_names(["x/../../a.jpg"]) == ["x_.._.._a.jpg"]
    assert safe_names(["a.png", "a.gif"], ".jpg") == ["a.jpg", "a (2).jpg"]
    assert safe_names(["COM1.jpg", "\udcff\u202egpj.exe", " . ", "", MISSING, "noend"])[:1] == ["COM1_.jpg"]
    made = safe_names([MISSING, "a" * 5_000 + ".jpg", "猫" * 5_000, "\udcff.jpg", "", "..", "b"], reserved=[MISSING])
    assert len({name.casefold() for name in made} - {MISSING}) == 7
    assert max(len(name.encode()) for name in made) < 200


def test_many_pictures_are_labelled_in_one_request(shelf, tmp_path):
    with running(copy_shelf(shelf, tmp_path)) as service:
        ids = service.get("/items/ids")["ids"]
        assert service.post("/classes/add", {"name": "everything", "items": ids})["count"] == 60
        assert service.post("/classes/remove", {"name": "everything", "items": ids})["count"] == 60
        assert service.post("/classes/add", {"name": "still empty"})["count"] == 0
        assert "still empty" in {one["name"] for one in service.get("/classes")}
