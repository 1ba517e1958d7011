"""The history and undo over HTTP."""

import re

import pytest

from serving import add_token, copy_shelf, error, running
from waiting import until


@pytest.fixture(scope="module")
def service(shelf, tmp_path_factory):
    with running(copy_shelf(shelf, tmp_path_factory.mktemp("history"))) as found:
        yield found


@pytest.fixture
def ids(service):
    return [item["id"] for item in service.get("/items", params={"limit": 3})["items"]]


def test_every_write_returns_an_action_that_can_be_undone(service, ids):
    before = service.get("/classes")
    judgements = service.collection._store.judgements
    session = service.post("/sessions", {"examples": [{"id": ids[0]}], "name": "found"}, status=201)["id"]
    writes = [
        ("/classes/add", {"name": "blooms", "items": ids}, "Added 3 pictures to blooms"),
        ("/classes/remove", {"name": "blooms", "items": ids[:1]}, "Removed 1 picture from blooms"),
        ("/classes/rename", {"name": "blooms", "to": "spring"}, "Renamed the class blooms to spring"),
        ("/classes/add", {"name": "summer"}, "Created the class summer"),
        (
            "/classes/merge",
            {"names": ["spring", "summer"], "into": "year"},
            "Merged spring, summer into year, 2 pictures in total",
        ),
        ("/classes/reject", {"name": "year", "items": ids[:1]}, "Rejected year for 1 picture"),
        ("/classes/delete", {"name": "year"}, "Deleted the class year with 2 pictures"),
        ("/duplicates/dismiss", {"items": ids}, "Marked 3 pairs of pictures as not duplicates"),
        (f"/sessions/{session}/finish", {}, "Finished a session: added 1 picture to found"),
    ]
    made = []
    for path, body, text in writes:
        action = service.post(path, body)["action"]
        found = service.get("/actions", params={"limit": 1})["actions"][0]
        assert (found["id"], found["text"], found["can_undo"]) == (action, text, True)
        assert found["reason"] is None
        assert set(found["items"]) <= set(ids)
        assert bool(found["items"]) == ("Created" not in text)
        made.append(action)
    message = error(service.client.post(f"/api/v1/actions/{made[0]}/undo"), 409, "conflict")
    assert "changed the same data" in message
    for action, (_, _, text) in zip(reversed(made), reversed(writes), strict=True):
        done = service.post(f"/actions/{action}/undo", {})
        assert done["text"] == f"Undid: {text[0].lower()}{text[1:]}"
    assert service.get("/classes") == before
    first = next(one for one in service.get("/actions")["actions"] if one["id"] == made[0])
    assert (first["can_undo"], set(first["items"])) == (False, set(ids))
    assert re.fullmatch(r"It was already undone by action \d+\.", first["reason"])
    assert len(judgements.not_duplicates) == 0
    page = service.get("/actions", params={"offset": 1, "limit": 2})
    imported = 1
    assert (page["total"], page["offset"], len(page["actions"])) == (2 * len(writes) + imported, 1, 2)
    assert service.post("/classes/add", {"name": "blooms"})["action"] > page["total"]
    assert service.post("/classes/add", {"name": "blooms"})["action"] is None
    error(service.client.post(f"/api/v1/actions/{made[0]}/undo"), 409, "conflict")
    error(service.client.post("/api/v1/actions/99999/undo"), 404, "missing")


def test_undoing_a_removal_is_a_job(service, ids):
    def wait(job):
        until(lambda: service.get(f"/jobs/{job['id']}")["state"] not in ("queued", "running"))
        return service.get(f"/jobs/{job['id']}")

    removed = wait(service.post("/jobs", {"kind": "remove", "items": ids[:2]}, status=202))
    assert removed["result"]["removed"] == 2
    action = removed["result"]["action"]
    error(service.client.get(f"/api/v1/items/{ids[0]}"), 404, "missing")
    assert service.get("/actions")["actions"][0]["author"] == removed["author"]
    done = service.post(f"/actions/{action}/undo", {})
    assert done["action"] is None
    undone = wait(done["job"])
    assert (undone["message"], undone["result"]["restored"]) == ("Brought 2 pictures back.", 2)
    assert [item["id"] for item in service.get("/items", params={"limit": 3})["items"]] == ids
    error(service.client.post(f"/api/v1/actions/{action}/undo"), 409, "conflict")


def test_undo_needs_the_role_of_the_change(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    guest, judge, chief = (add_token(own, role, role) for role in ("view", "judge", "manage"))
    with running(own) as service:
        item = service.get("/items", headers=guest)["items"][0]["id"]
        added = service.post("/classes/add", {"name": "x", "items": [item]}, headers=judge)["action"]
        deleted = service.post("/classes/delete", {"name": "x"}, headers=chief)["action"]
        seen = service.get("/actions", params={"limit": 2}, headers=judge)["actions"]
        assert [(one["id"], one["author"], one["can_undo"]) for one in seen] == [
            (deleted, "manage", False),
            (added, "judge", True),
        ]
        assert seen[0]["reason"] == "To undo this action, you need the role manage. You have judge."
        for action, headers in ((deleted, judge), (added, guest)):
            error(service.client.post(f"/api/v1/actions/{action}/undo", headers=headers), 403, "refused")
        service.post(f"/actions/{deleted}/undo", {}, headers=chief)
        service.post(f"/actions/{added}/undo", {}, headers=judge)
