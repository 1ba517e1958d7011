"""Jobs, duplicates, the map and exports over HTTP, including kills and a full disk."""

import csv
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection, cli
from lookalike.server import job_events, jobs
from serving import add_token, connect, copy_shelf, error, running
from waiting import TIMEOUT_S, until

NEW = 20
"""Number of pictures to add to the sixty of the collection."""


@pytest.fixture(scope="module")
def more(tmp_path_factory):
    """An allowed folder with pictures that are slow to read, and an empty folder."""
    root = tmp_path_factory.mktemp("root")
    rng = np.random.default_rng(1)
    (root / "new").mkdir()
    for i in range(NEW):
        noise = rng.integers(0, 256, (400, 600, 3), np.uint8)
        Image.fromarray(noise).save(root / "new" / f"{i:03}.png", compress_level=0)
    (root / "empty").mkdir()
    return root


@pytest.fixture(scope="module")
def service(shelf, more, tmp_path_factory):
    with running(copy_shelf(shelf, tmp_path_factory.mktemp("jobs")), roots=(more,)) as found:
        yield found


@pytest.fixture
def quick(monkeypatch):
    """Make jobs do nothing. A real one takes a second or two to start."""
    monkeypatch.setattr(jobs, "_START", 'print(\'{"result": {}, "message": "Done."}\', flush=True)')


def get_job(client, id):
    return client.get(f"/api/v1/jobs/{id}").json()


def wait(client, id):
    until(lambda: get_job(client, id)["state"] not in ("queued", "running"))
    return get_job(client, id)


def follow(client, address, **options):
    """Return the number and data of each event of a stream, until it ends."""
    events = []
    with client.stream("GET", address, **options) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        number = None
        for line in answer.iter_lines():
            if line.startswith("id: "):
                number = int(line[4:])
            if line.startswith("data: "):
                events.append((number, json.loads(line[6:])))
    return events


def files(n=2):
    """Return form fields with pictures that the collection does not have, under names that lead elsewhere."""
    sent = []
    for i in range(n):
        stream = io.BytesIO()
        Image.new("RGB", (40, 30), (i, 10, 200)).save(stream, "PNG")
        sent.append(("files", (f"../new {i}.png", stream.getvalue())))
    return sent


def test_a_folder_is_added_with_live_progress(service, more):
    job = service.post("/jobs", {"kind": "add", "folder": str(more / "new")}, status=202)
    events = follow(service.client, f"/api/v1/jobs/{job['id']}/events")
    assert [number for number, _ in events] == sorted({number for number, _ in events})
    assert events[-1][1]["state"] == "done"
    assert events[-1][1]["message"] == f"{NEW} added."
    assert any(event["stage"] for _, event in events)  # a late client misses only part of the progress
    assert service.get(f"/jobs/{job['id']}")["result"]["added"] == NEW
    assert service.get("/jobs")["jobs"][0]["id"] == job["id"]
    again = follow(service.client, f"/api/v1/jobs/{job['id']}/events", headers={"Last-Event-ID": str(events[-2][0])})
    assert [event["state"] for _, event in again] == ["done"]
    assert service.get("/collection")["items"] == 60 + NEW


def test_uploaded_files_are_on_the_disk_before_the_response_and_are_then_added(service):
    answer = service.client.post("/api/v1/uploads/files", files=files())
    assert answer.status_code == 202
    saved = answer.json()["files"]
    names = {path.name for path in (service.folder / "uploads").iterdir()}
    assert names == {f"{file['item']}-{file['name']}" for file in saved}
    job = wait(service.client, answer.json()["job"]["id"])
    assert job["state"] == "done"
    assert [file["known"] for file in saved] == [False, False]
    assert job["result"]["files"] == {str(service.folder / "uploads" / name): "added" for name in names}
    for file in saved:
        assert service.get(f"/items/{file['item']}")["id"] == file["item"]
    known = service.get("/items", params={"path": "*face-000.jpg"})["items"][0]
    broken = ("files", ("broken.jpg", b"\xff\xd8\xff and no more"))
    sent = [files()[0], ("files", ("old.jpg", Path(known["path"]).read_bytes())), broken]
    answer = service.client.post("/api/v1/uploads/files", files=sent).json()
    assert [file["known"] for file in answer["files"]] == [True, True, False]
    job = wait(service.client, answer["job"]["id"])
    assert job["message"] == "0 added, 1 already in the collection, 1 skipped."
    assert [(path[-8:], outcome) for path, outcome in job["result"]["files"].items()] == [("-old.jpg", "copied")]
    assert [path.endswith("-broken.jpg") for path in job["result"]["skipped"]] == [True]
    assert str(service.folder / "uploads") in service.get("/collection")["sources"]


@pytest.mark.parametrize("sent", [[("files", ("x.jpg", b"no picture"))], [("other", ("x.jpg", b"\xff\xd8\xff"))]])
def test_files_that_are_not_pictures_are_rejected(service, sent):
    error(service.client.post("/api/v1/uploads/files", files=sent), 422, "input")


def test_only_folders_inside_allowed_folders_are_added(service, more, tmp_path):
    (tmp_path / "x").mkdir()
    link = more / "empty" / "link"
    if not link.is_symlink():
        link.symlink_to(tmp_path)
    for folder in ("/etc", str(tmp_path), f"{more}/../", f"{more}/new/../../..", str(link), "relative", "~"):
        error(service.client.post("/api/v1/jobs", json={"kind": "add", "folder": folder}), 403, "refused")
    for folder in (f"{more}/nothing", f"{more}/new/000.png"):
        error(service.client.post("/api/v1/jobs", json={"kind": "add", "folder": folder}), 422, "input")
    error(service.client.post("/api/v1/jobs", json={"kind": "add", "folder": "a\0b"}), 422, "input")
    link.unlink()


def test_links_in_allowed_folders_are_resolved_when_the_service_starts(shelf, tmp_path, more, quick):
    link, elsewhere = tmp_path / "link", tmp_path / "elsewhere"
    link.symlink_to(more)
    elsewhere.mkdir()
    with running(copy_shelf(shelf, tmp_path), roots=(link,)) as service:
        assert service.get("/collection")["roots"] == [str(more)]
        link.unlink()
        link.symlink_to(elsewhere)
        for folder in (link, elsewhere):
            error(service.client.post("/api/v1/jobs", json={"kind": "add", "folder": str(folder)}), 403, "refused")
        service.post("/jobs", {"kind": "add", "folder": str(more / "new")}, status=202)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"kind": "format"},
        {"kind": "add"},
        {"kind": "add", "folder": "x", "uploads": True},
        {"kind": "add", "folder": "x", "roots": ["/"]},
        {"kind": "duplicates", "tier": "twins"},
        {"kind": "fit", "spec": ["x"]},
        {"kind": "remove", "items": []},
        {"kind": "remove", "items": ["../x"]},
    ],
)
def test_an_invalid_job_is_rejected(service, body):
    error(service.client.post("/api/v1/jobs", json=body), 422, "input")


def test_an_unknown_job_gives_a_404(service):
    error(service.client.get("/api/v1/jobs/999999"), 404, "missing")
    error(service.client.delete("/api/v1/jobs/999999"), 404, "missing")
    error(service.client.get("/api/v1/jobs/999999/events"), 404, "missing")
    for word in ("0", "x", "-1", "..%2f1"):
        assert service.client.get(f"/api/v1/jobs/{word}").status_code in (404, 422)


def test_a_job_can_be_cancelled(service):
    job = service.post("/jobs", {"kind": "refresh"}, status=202)
    answer = service.client.delete(f"/api/v1/jobs/{job['id']}")
    assert answer.json()["state"] == "cancelled"
    assert wait(service.client, job["id"])["state"] == "cancelled"


def test_a_job_finds_duplicates_which_can_be_listed_exported_and_dismissed(service):
    identical = service.get("/duplicates", params={"tier": "identical"})["total"]  # an earlier test may add a copy
    none = [
        {"tier": "identical", "n_groups": identical},
        *({"tier": tier, "n_groups": None} for tier in ("same", "edited", "alike")),
    ]
    assert service.get("/duplicates/tiers") == none
    first = service.get("/duplicates", params={"tier": "alike", "limit": 3})
    assert (first["current"], first["groups"]) == (False, [])
    assert wait(service.client, first["job"]["id"])["state"] == "done"
    found = service.get("/duplicates", params={"tier": "alike", "limit": 3})
    assert (found["current"], found["job"]) == (True, None)
    assert len(found["groups"]) == min(3, found["total"]) > 0
    group = found["groups"][0]
    assert len(group["items"]) == len(group["distances"]) > 1
    assert group["keep"] == max(group["items"], key=lambda item: (item["width"] * item["height"], item["bytes"]))["id"]
    ids = [item["id"] for item in group["items"]]
    assert group["relations"][0] == {"caption": "largest", "box": None, "mirrored": False}
    marked = service.post("/duplicates/copies", {"tier": "alike"})
    assert (set(ids) & set(marked["items"]), marked["n_groups"]) == (set(ids[1:]), found["total"])
    assert marked["bytes"] > 0
    sources = service.get("/collection")["sources"]
    kept = service.post("/duplicates/copies", {"tier": "alike", "keep": "oldest", "references": sources})
    assert kept == {"items": [], "n_groups": 0, "bytes": 0}
    for keep in ("/etc", "~\0", ""):
        error(service.client.post("/api/v1/duplicates/copies", json={"keep": keep}), 422, "input")
    saved = service.get("/duplicates/export", params={"tier": "alike"})
    assert len(saved) == found["total"]
    assert [(item["id"], item["distance"]) for item in saved[0]["items"]] == list(
        zip(ids, group["distances"], strict=True)
    )
    answer = service.client.get("/api/v1/duplicates/export", params={"tier": "alike", "format": "csv"})
    assert answer.headers["content-disposition"] == 'attachment; filename="duplicates.csv"'
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["id"] for row in rows if row["group"] == group["id"]] == ids
    assert [float(row["distance"]) for row in rows if row["group"] == group["id"]] == group["distances"]
    error(service.client.get("/api/v1/duplicates/export", params={"format": "coco"}), 422, "input")
    assert service.post("/duplicates/dismiss", {"items": ids})["pairs"] == len(ids) * (len(ids) - 1) // 2
    left = service.get("/duplicates", params={"tier": "alike"})
    assert service.get("/duplicates/tiers")[3] == {"tier": "alike", "n_groups": left["total"]}
    error(service.client.get("/api/v1/duplicates/tiers", params={"space": "x"}), 422, "input")
    assert left["total"] == found["total"] - 1
    assert group["id"] not in [other["id"] for other in left["groups"]]
    assert service.get("/duplicates", params={"tier": "identical"})["current"]
    for items in ([], ["x"], ["0" * 16], ["../a"], ids[:1]):
        error(service.client.post("/api/v1/duplicates/dismiss", json={"items": items}), 422, "input")
    error(service.client.get("/api/v1/duplicates", params={"tier": "twins"}), 422, "input")
    error(service.client.get("/api/v1/duplicates", params={"tier": "same", "space": "x"}), 422, "input")


def test_a_job_computes_the_map(service):
    first = service.get("/map")
    assert (first["space"], first["current"], first["points"]) == ("color", False, 0)
    assert map_columns(service)["ids"] == []
    assert wait(service.client, first["job"]["id"])["state"] == "done"
    found = service.get("/map", params={"space": "color"})
    assert (found["current"], found["job"]) == (True, None)
    columns = map_columns(service)
    assert len(columns["ids"]) == found["points"] == found["total"]
    assert (min(columns["x"]), max(columns["y"])) == (0, 65_535)
    items = {item["id"]: item for item in service.get("/items", params={"limit": 1_000})["items"]}
    for item, code in zip(columns["ids"], columns["class"], strict=True):
        one = items[f"{item:016x}"]
        predicted = [one["predicted"]["label"]] if one["predicted"] else []
        name = columns["classes"][code % 32_768 - 1] if code else None
        assert ([name] if code else []) == (one["labels"] or predicted)[:1]
        assert (code >= 32_768) == bool(code and not one["labels"])
    assert any(columns["class"])
    for path in ("map", "map/points"):
        error(service.client.get(f"/api/v1/{path}", params={"space": "nothing"}), 422, "input")


def map_columns(service):
    """The response of /map/points, as lists."""
    data = service.client.get("/api/v1/map/points").content
    start = 4 + int.from_bytes(data[:4], "little")
    columns = json.loads(data[4:start])
    for name, kind in [("ids", "<i8"), ("x", "<u2"), ("y", "<u2"), ("class", "<u2")]:
        column = np.frombuffer(data, kind, columns["n"], start)
        columns[name], start = column.tolist(), start + column.nbytes
    assert start == len(data)
    return columns


@pytest.mark.parametrize("format", ["json", "csv", "paths", "coco"])
def test_an_export_has_the_filtered_items(service, format):
    answer = service.client.get("/api/v1/export", params={"format": format, "label": "beach"})
    assert answer.status_code == 200
    assert answer.headers["content-disposition"].startswith('attachment; filename="')
    lines = answer.text.splitlines()
    assert sum("beach" in line and ".jpg" in line for line in lines) == 5
    if format == "coco":
        found = answer.json()
        assert [annotation["source"] for annotation in found["annotations"]] == ["folder"] * 5
    error(service.client.get("/api/v1/export", params={"format": "npz"}), 422, "input")


def test_an_event_stream_sends_heartbeats_and_ends_when_its_client_disconnects(service, monkeypatch):
    monkeypatch.setattr(job_events, "HEARTBEAT_S", 0.2)
    last = service.app.service.jobs.last
    with service.client.stream("GET", "/api/v1/events", headers={"Last-Event-ID": str(last)}) as answer:
        lines = answer.iter_lines()
        assert next(line for line in lines if line.startswith(":")) == ": heartbeat"
        until(lambda: service.app.service.events.open == 1)  # the streams of earlier tests have ended
    until(lambda: service.app.service.events.open == 0)
    monkeypatch.setattr(job_events, "MAX_STREAMS", 0)
    error(service.client.get("/api/v1/events"), 503, "busy")


def test_a_stream_after_an_event_that_does_not_exist_starts_from_the_beginning(service, quick):
    job = service.post("/jobs", {"kind": "refresh"}, status=202)
    wait(service.client, job["id"])
    ahead = {"Last-Event-ID": "9" * 19}
    with service.client.stream("GET", f"/api/v1/jobs/{job['id']}/events", headers=ahead) as answer:
        lines = [line for line in answer.iter_lines() if line]
    assert lines[1] == ": unknown event id; the stream starts from the beginning"
    assert json.loads(lines[-1].removeprefix("data: "))["state"] == "done"


def test_a_client_that_does_not_read_its_stream_does_not_block_others(service, quick, monkeypatch):
    monkeypatch.setattr(job_events, "HEARTBEAT_S", 0.0)
    slow = [service.connect() for _ in range(3)]
    for connection in slow:
        connection.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    job = service.post("/jobs", {"kind": "refresh"}, status=202)
    assert wait(service.client, job["id"])["state"] == "done"
    for connection in slow:
        connection.close()


def test_each_request_needs_its_role(shelf, tmp_path, more, quick):
    own = copy_shelf(shelf, tmp_path)
    people = {role: add_token(own, role, role) for role in ("view", "judge", "manage")}
    asked = [
        ("POST", "/jobs", {"kind": "refresh"}, "manage"),
        ("POST", "/jobs", {"kind": "add", "folder": str(more / "new")}, "manage"),
        ("POST", "/jobs", {"kind": "fit", "spec": "x = color() | pca(dim=4)"}, "manage"),
        ("POST", "/jobs", {"kind": "remove", "items": ["0" * 16]}, "manage"),
        ("POST", "/jobs", {"kind": "map"}, "judge"),
        ("POST", "/jobs", {"kind": "classify"}, "judge"),
        ("POST", "/duplicates/dismiss", {"items": ["0" * 16]}, "judge"),
        ("POST", "/duplicates/copies", {}, "manage"),
        ("GET", "/jobs", None, "view"),
        ("GET", "/duplicates?tier=identical", None, "view"),
        ("GET", "/duplicates/tiers", None, "view"),
        ("GET", "/export", None, "view"),
        ("GET", "/duplicates/export?tier=identical", None, "view"),
    ]
    order = ["view", "judge", "manage"]
    with running(own, roots=(more,)) as service:
        for method, path, body, least in asked:
            for role, header in people.items():
                answer = service.client.request(method, f"/api/v1{path}", json=body, headers=header)
                may = order.index(role) >= order.index(least)
                assert (answer.status_code == 403) == (not may), (path, role, answer.text)
            assert service.client.request(method, f"/api/v1{path}", json=body).status_code == 401
        listed = service.client.get("/api/v1/jobs", headers=people["view"]).json()["jobs"]
        mapping = next(job for job in listed if job["kind"] == "map")
        answer = service.client.delete(f"/api/v1/jobs/{mapping['id']}", headers=people["view"])
        error(answer, 403, "refused")
        sent = service.client.post(
            "/api/v1/uploads/files", files=[("files", ("x.jpg", b"\xff\xd8\xff"))], headers=people["judge"]
        )
        error(sent, 403, "refused")


def start(folder, root):
    command = [sys.executable, "-m", "lookalike", "-c", str(folder), "serve", "--port", "0", "--root", str(root)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, process.stdout.readline().split()[-1]


def test_jobs_resume_after_the_service_was_killed(shelf, more, tmp_path):
    """After kill -9 during an add, while a fit and uploads are queued, the next service runs every accepted job."""
    own = copy_shelf(shelf, tmp_path)
    process, address = start(own, more)
    with connect(address) as client:
        adding = client.post("/api/v1/jobs", json={"kind": "add", "folder": str(more / "new")}).json()["id"]
        fitting = client.post("/api/v1/jobs", json={"kind": "fit", "spec": "small = color() | pca(dim=8)"}).json()["id"]
        sent = client.post("/api/v1/uploads/files", files=files(3)).json()
        until(lambda: get_job(client, adding)["stage"])  # it is reading or in a later stage
        os.kill(process.pid, signal.SIGKILL)
    process.wait(TIMEOUT_S)
    process.stdout.close()
    process, address = start(own, more)
    try:
        with connect(address) as client:
            for job in (adding, fitting, sent["job"]["id"]):
                assert wait(client, job)["state"] == "done"
            assert client.get("/api/v1/collection").json()["items"] == 60 + NEW + 3
            for file in sent["files"]:
                assert client.get(f"/api/v1/items/{file['item']}").status_code == 200
    finally:
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(TIMEOUT_S) == 0
        process.stdout.close()
    with Collection(own) as collection:
        assert collection.verify() == []
        assert len(collection.vectors("small")[0]) == 60 + NEW + 3


def test_a_service_with_a_damaged_ledger_searches_and_logs_why_jobs_are_disabled(shelf, tmp_path, caplog):
    own = copy_shelf(shelf, tmp_path)
    (own / "jobs.sqlite").write_bytes(b"?" * 5_000)
    with running(own) as service:
        why = error(service.client.post("/api/v1/jobs", json={"kind": "refresh"}), 500, "damaged")
        assert "jobs.sqlite" in why
        assert why.endswith("Run: lookalike repair")
        assert f"Jobs are disabled: {own / 'jobs.sqlite'} was not written by Lookalike" in caplog.text
        assert service.get("/jobs")["jobs"] == []
        items = service.get("/items")["items"]
        found = service.post("/search", {"examples": [{"id": items[0]["id"]}], "k": 3})
        assert len(found["results"]) == 3
        assert service.get("/map")["job"] is None
    assert cli.run(["-c", str(own), "repair"]) == 0
    with running(own) as service:
        service.client.delete(f"/api/v1/jobs/{service.post('/jobs', {'kind': 'refresh'}, status=202)['id']}")


def test_a_second_service_searches_and_rejects_jobs(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    with running(own), running(own) as second:
        answer = second.client.post("/api/v1/jobs", json={"kind": "refresh"})
        assert f"Another service is running the jobs of {own}. Use that one, " in error(answer, 409, "busy")
        assert second.get("/collection")["items"] == 60
        assert second.get("/map")["job"] is None


def test_on_a_full_disk_writes_are_rejected_and_reads_are_answered(shelf, more, tmp_path, quick):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", disk], capture_output=True).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        own = shutil.copytree(shelf, disk / "c")
        with running(own, roots=(more,)) as service:
            service.get("/items")
            with (disk / "filler").open("wb", buffering=0) as stream:
                try:
                    while stream.write(bytes(4096)):
                        pass
                except OSError:
                    pass
            body = {"kind": "add", "folder": str(more / "new")}
            assert "space" in error(service.client.post("/api/v1/jobs", json=body), 507, "full")
            assert "space" in error(service.client.post("/api/v1/uploads/files", files=files()), 507, "full")
            assert service.get("/items")["total"] == 60
            assert service.get("/jobs")["jobs"] == []
            (disk / "filler").unlink()
            job = service.post("/jobs", {"kind": "refresh"}, status=202)
            assert wait(service.client, job["id"])["state"] == "done"
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)
