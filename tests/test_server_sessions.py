"""Sessions and classes over HTTP: from the first example to a class, and after a kill."""

import os
import signal
import subprocess
import sys

import pytest

from lookalike import Collection
from lookalike.store import database
from serving import add_token, connect, copy_shelf, error, running
from waiting import TIMEOUT_S


@pytest.fixture(scope="module")
def service(shelf, tmp_path_factory):
    with running(copy_shelf(shelf, tmp_path_factory.mktemp("sessions"))) as running_service:
        yield running_service


@pytest.fixture(scope="module")
def kinds(service):
    """Label → ids."""
    found = {}
    for item in service.get("/items", params={"limit": 1000})["items"]:
        found.setdefault(item["labels"][0], []).append(item["id"])
    return found


def test_an_open_session_can_be_deleted_and_a_finished_one_cannot(service, kinds):
    wanted = kinds["fish"]
    sessions = [service.post("/sessions", {"examples": [{"id": wanted[0]}]}, status=201)["id"] for _ in range(2)]
    for session in sessions:
        service.post(f"/sessions/{session}/marks", {"relevant": wanted[1:3]})
        service.post(f"/sessions/{session}/undo")
        service.post(f"/sessions/{session}/marks", {"relevant": wanted[1:2]})
    answer = service.client.delete(f"/api/v1/sessions/{sessions[0]}")
    assert (answer.status_code, answer.json()["relevant"]) == (200, wanted[:2])
    for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/undo"), ("GET", "/log")):
        error(service.client.request(method, f"/api/v1/sessions/{sessions[0]}{path}"), 404, "missing")
    assert service.get(f"/sessions/{sessions[1]}")["relevant"] == wanted[:2]
    service.post(f"/sessions/{sessions[1]}/finish", {"name": "school"})
    assert "is finished" in error(service.client.delete(f"/api/v1/sessions/{sessions[1]}"), 422, "input")
    assert service.get(f"/sessions/{sessions[1]}")["finished"]
    assert service.collection.verify() == []


def test_a_session_starts_from_words(service, kinds):
    session = service.post("/sessions", {"words": ["sunsets"], "name": "evening sun"}, status=201)
    assert (session["name"], session["relevant"]) == ("evening sun", [])
    best = service.get(f"/sessions/{session['id']}/best", params={"k": 5})["best"]
    assert len({found["item"]["id"] for found in best} & set(kinds["sunset"])) >= 4
    both = {"words": ["sunset"], "examples": [{"id": kinds["sunset"][0]}]}
    assert service.post("/sessions", both, status=201)["relevant"] == kinds["sunset"][:1]
    signed = service.post("/sessions", {"words": ["sunset"], "without_words": ["fish"]}, status=201)
    assert [(one["words"], one["positive"]) for one in signed["examples"]] == [("sunset", True), ("fish", False)]


@pytest.mark.parametrize(
    ("body", "field", "message"),
    [
        ({"words": ["elefant"]}, None, "Similar words: elephant"),
        ({"words": [""]}, "words.0", "1 or more characters"),
        ({"words": ["x" * 201]}, "words.0", "200 or fewer characters"),
        ({"words": ["sunset"], "without_words": ["sunset"]}, None, "as positive and as negative"),
    ],
)
def test_an_invalid_start_of_a_session_is_rejected(service, body, field, message):
    answer = service.client.post("/api/v1/sessions", json=body)
    assert message in error(answer, 422, "input")
    assert answer.json()["error"]["field"] == field


def test_a_session_goes_from_an_example_to_a_class(service, kinds):
    wanted = kinds["sunset"]
    session = service.post("/sessions", {"examples": [{"id": wanted[0]}], "name": "evening"}, status=201)
    assert (session["relevant"], session["rounds"], session["finished"]) == ([wanted[0]], 0, False)
    address = f"/sessions/{session['id']}"
    for number in (1, 2, 3):
        played = service.post(f"{address}/round", {"k": 10, "window": 6})
        assert played["number"] == number
        assert len(played["questions"]) == 6
        asked = [item["id"] for item in played["questions"]]
        marks = {
            "relevant": [item for item in asked if item in wanted],
            "irrelevant": [item for item in asked if item not in wanted],
        }
        session = service.post(f"{address}/marks", marks)
    assert session["rounds"] == 3
    marked = {found["item"]["id"]: found["mark"] for found in played["best"]}
    assert marked[wanted[0]] == "relevant"
    best = service.get(f"{address}/best", params={"k": 5})["best"]
    assert len({found["item"]["id"] for found in best} & set(wanted)) >= 4

    undone = service.post(f"{address}/undo")
    assert set(undone["undone"]) == set(asked)
    assert not set(undone["session"]["relevant"] + undone["session"]["irrelevant"]) & set(asked)
    service.post(f"{address}/marks", marks)
    assert [line["kind"] for line in service.get(f"{address}/log")].count("undo") == len(asked)

    done = service.post(f"{address}/finish")
    assert done["label"] == "evening"
    assert done["labelled"] == done["relevant"] == len(service.get(address)["relevant"])
    view = service.get("/classes/one", params={"name": "evening"})
    assert view["total"] == done["relevant"]
    assert {member["source"] for member in view["members"]} == {"session"}
    listed = next(one for one in service.get("/sessions") if one["id"] == session["id"])
    assert (listed["finished"], listed["label"]) == (True, "evening")
    assert "finished" in error(service.client.post(f"/api/v1{address}/round", json={}), 422, "input")


def test_a_resumed_round_repeats_the_questions(service, kinds):
    session = service.post("/sessions", {"examples": [{"id": kinds["fish"][0]}]}, status=201)
    assert [(one["item"]["id"], one["positive"]) for one in session["examples"]] == [(kinds["fish"][0], True)]
    address = f"/sessions/{session['id']}"
    played = service.post(f"{address}/round", {"window": 5})
    service.post(f"{address}/marks", {"irrelevant": [played["questions"][0]["id"]]})
    again = service.post(f"{address}/round", {"resume": True})
    assert (again["number"], len(again["questions"])) == (1, 5)
    assert [item["id"] for item in again["questions"]] == [item["id"] for item in played["questions"]]
    assert service.get(address)["rounds"] == 1
    assert service.post(f"{address}/round", {})["number"] == 2


def test_an_explanation_has_the_margin_the_nearest_marks_and_the_matching_part(service, kinds):
    session = service.post(
        "/sessions", {"examples": [{"id": one} for one in kinds["sunset"][:3]], "without": [{"id": kinds["house"][0]}]},
        status=201,
    )  # fmt: skip
    address = f"/sessions/{session['id']}/why"
    like = service.get(f"{address}/{kinds['sunset'][3]}")
    unlike = service.get(f"{address}/{kinds['house'][1]}")
    assert like["margin"] > unlike["margin"]
    assert [near["item"]["id"] for near in like["nearest_irrelevant"]] == [kinds["house"][0]]
    distances = [near["distance"] for near in like["nearest_relevant"]]
    assert len(distances) == 3
    assert distances == sorted(distances)
    assert len(like["box"]) == 4
    marked = service.get(f"{address}/{kinds['sunset'][0]}")
    assert kinds["sunset"][0] not in [near["item"]["id"] for near in marked["nearest_relevant"]]
    error(service.client.get(f"/api/v1{address}/0000000000000001"), 404, "missing")


def test_a_session_starts_from_a_label_or_an_upload(service, kinds):
    session = service.post("/sessions", {"label": "house"}, status=201)
    assert set(session["relevant"]) == set(kinds["house"])
    picture = service.client.get(f"/api/v1/items/{kinds['forest'][0]}/region", params={"box": "0,0,1,0.9"}).content
    upload = service.upload(picture).json()["upload"]
    session = service.post("/sessions", {"examples": [{"upload": upload}]}, status=201)
    assert session["relevant"] == []
    best = service.post(f"/sessions/{session['id']}/round", {"k": 5})["best"]
    assert "forest" in [found["item"]["labels"][0] for found in best]
    why = service.get(f"/sessions/{session['id']}/why/{kinds['forest'][1]}")
    assert why["nearest_relevant"][0]["item"] is None  # the upload is not in the collection


def test_invalid_requests_to_sessions_are_rejected(service, kinds):
    for body in ({}, {"label": "unknown"}, {"examples": [{"id": kinds["house"][0]}], "space": "nowhere"}):
        error(service.client.post("/api/v1/sessions", json=body), 422, "input")
    session = service.post("/sessions", {"label": "house"}, status=201)["id"]
    both = {"relevant": [kinds["house"][0]], "irrelevant": [kinds["house"][0]]}
    assert "Choose one" in error(service.client.post(f"/api/v1/sessions/{session}/marks", json=both), 422, "input")
    error(service.client.post(f"/api/v1/sessions/{session}/marks", json={"relevant": ["../x"]}), 422, "input")
    error(service.client.post(f"/api/v1/sessions/{session}/marks", json={"skip": ["0" * 16]}), 404, "missing")
    assert "needs a name" in error(service.client.post(f"/api/v1/sessions/{session}/finish", json={}), 422, "input")
    for what in ("", "/log", "/best", f"/why/{kinds['house'][0]}"):
        assert "No session" in error(service.client.get(f"/api/v1/sessions/0123abcd{what}"), 404, "missing")
    for what in ("marks", "undo", "round", "finish"):
        error(service.client.post(f"/api/v1/sessions/0123abcd/{what}", json={}), 404, "missing")


def test_classes_are_created_changed_and_deleted(service, kinds):
    items = kinds["flower"][:3]
    added = service.post("/classes/add", {"name": "blooms", "items": items})
    assert (added["name"], added["count"]) == ("blooms", 3)
    assert service.post("/classes/remove", {"name": "blooms", "items": items[:1]})["count"] == 1
    assert service.post("/classes/rename", {"name": "blooms", "to": "blossoms"})["count"] == 2
    assert service.post("/classes/add", {"name": "empty"})["count"] == 0
    names = {one["name"]: one["pictures"] for one in service.get("/classes")}
    assert (names["blossoms"], names["empty"], "blooms" in names) == (2, 0, False)
    assert service.post("/classes/merge", {"names": ["blossoms", "empty"], "into": "spring"})["count"] == 2
    first = service.get("/classes/one", params={"name": "spring", "limit": 1})
    second = service.get("/classes/one", params={"name": "spring", "limit": 1, "offset": 1})
    assert first["total"] == second["total"] == 2
    assert {first["members"][0]["item"]["id"], second["members"][0]["item"]["id"]} == set(items[1:])
    assert service.post("/classes/delete", {"name": "spring"})["count"] == 2
    for verb in ("remove", "confirm", "reject"):
        answer = service.client.post(f"/api/v1/classes/{verb}", json={"name": "spring", "items": items})
        assert "No class named" in error(answer, 404, "missing")
    error(service.client.get("/api/v1/classes/one", params={"name": "spring"}), 404, "missing")
    error(service.client.post("/api/v1/classes/add", json={"name": " "}), 422, "input")
    error(service.client.post("/api/v1/classes/add", json={"name": "a\0b", "items": items}), 422, "input")


def test_predictions_are_confirmed_and_rejected(service, kinds):
    first, second = kinds["forest"][3:5]
    service.post("/classes/remove", {"name": "forest", "items": [first, second]})
    book = service.collection._store.judgements.predictions
    book.add([(int(first, 16), "forest", 0.9), (int(second, 16), "forest", 0.8)], space="color", model="ncm")
    assert service.get(f"/items/{first}")["predicted"] == {"label": "forest", "probability": 0.9}
    view = service.get("/classes/one", params={"name": "forest"})
    assert [one["item"]["id"] for one in view["predicted"]] == [first, second]
    assert service.post("/classes/confirm", {"name": "forest", "items": [first]})["count"] == 1
    assert service.post("/classes/reject", {"name": "forest", "items": [second]})["count"] == 1
    assert service.get(f"/items/{first}")["labels"] == ["forest"]
    assert service.get(f"/items/{second}")["predicted"] is None
    answer = service.client.post("/api/v1/classes/confirm", json={"name": "forest", "items": [second]})
    assert "have no prediction" in error(answer, 422, "input")


def test_pictures_are_classified(service, kinds):
    predictions = service.post("/classify", {"examples": [{"id": kinds["sunset"][0]}, {"id": kinds["house"][0]}]})
    assert [prediction["id"] for prediction in predictions] == [kinds["sunset"][0], kinds["house"][0]]
    assert 0 <= predictions[0]["probability"] <= 1


def test_only_the_author_and_the_role_manage_may_change_a_session(shelf, tmp_path):
    own = copy_shelf(shelf, tmp_path)
    anna, bert = add_token(own, "anna", "judge"), add_token(own, "bert", "judge")
    chief, guest = add_token(own, "chief", "manage"), add_token(own, "guest", "view")
    with running(own) as service:
        item = service.get("/items", headers=guest)["items"][0]["id"]
        session = service.post("/sessions", {"examples": [{"id": item}]}, status=201, headers=anna)
        assert session["author"] == "anna"
        address = f"/api/v1/sessions/{session['id']}"
        for path, body in (("marks", {"skip": [item]}), ("undo", {}), ("round", {}), ("finish", {"name": "x"})):
            message = error(service.client.post(f"{address}/{path}", json=body, headers=bert), 403, "refused")
            assert "This session belongs to anna" in message
            assert service.client.post(f"{address}/{path}", json=body, headers=guest).status_code == 403
        assert service.client.get(f"{address}/log", headers=bert).status_code == 200
        assert service.client.post(f"{address}/marks", json={"skip": [item]}, headers=chief).status_code == 200
        assert service.get(f"/sessions/{session['id']}", headers=anna)["skipped"] == [item]


def test_a_read_only_collection_rejects_writes_and_answers_reads(shelf, tmp_path, monkeypatch):
    own = copy_shelf(shelf, tmp_path)
    with Collection(own):  # SQLite can open a read-only copy only while a writing process has it open
        monkeypatch.setattr(database.os, "access", lambda *_: False)
        with running(own) as service:
            monkeypatch.undo()
            item = service.get("/items")["items"][0]["id"]
            assert service.post("/search", {"examples": [{"id": item}], "k": 1})["results"]
            for path, body in (
                ("/sessions", {"examples": [{"id": item}]}),
                ("/classes/add", {"name": "new", "items": [item]}),
            ):
                message = error(service.client.post(f"/api/v1{path}", json=body), 403, "read-only")
                assert "is not writable" in message
            assert service.get("/collection")["items"] == 60


def test_confirmed_marks_survive_a_kill(shelf, tmp_path):
    """After kill -9 during a session, the next service resumes from the last confirmed mark."""
    own = copy_shelf(shelf, tmp_path)
    marked = []
    for turn in (0, 1):
        process, address = start(own)
        try:
            with connect(address) as client:
                items = [item["id"] for item in client.get("/api/v1/items").json()["items"]]
                if turn == 0:
                    body = {"examples": [{"id": items[0]}]}
                    session = client.post("/api/v1/sessions", json=body).json()["id"]
                    for item in items[1:6]:
                        client.post(f"/api/v1/sessions/{session}/marks", json={"relevant": [item]}).raise_for_status()
                        marked.append(item)
                else:
                    assert client.get(f"/api/v1/sessions/{session}").json()["relevant"] == [items[0], *marked]
                    assert client.post(f"/api/v1/sessions/{session}/round", json={}).status_code == 200
                    assert set(client.post(f"/api/v1/sessions/{session}/undo").json()["undone"]) == {marked[-1]}
        finally:
            os.kill(process.pid, signal.SIGKILL if turn == 0 else signal.SIGINT)
            code = process.wait(TIMEOUT_S)
            process.stdout.close()
            process.stderr.close()
    assert code == 0  # exit code of the service after SIGINT


def start(folder):
    """Run `lookalike serve`; return its process and the address that it prints."""
    command = [sys.executable, "-m", "lookalike", "-c", str(folder), "serve", "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return process, process.stdout.readline().split()[-1]
