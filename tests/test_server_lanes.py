"""Lanes: limits on threads and queues, timeouts, and work that stops when its client disconnects."""

import json
import threading

import httpx
import pytest

from lookalike.collection import Results
from lookalike.server import http_server
from lookalike.server.lanes import Stop
from lookalike.server.problems import RequestAbandoned, error_response
from lookalike.server.settings import Budget
from lookalike.types import format_id
from serving import error, running
from waiting import TIMEOUT_S, until


@pytest.fixture
def held(monkeypatch):
    """A search that runs until `release` is set or its client disconnects."""

    class Held:
        def __init__(self):
            self.started, self.stopped, self.release = threading.Event(), threading.Event(), threading.Event()
            self.calls = 0

        def search(self, *examples, progress, **options):
            self.calls += 1
            self.started.set()
            try:
                while not self.release.wait(0.01):
                    progress("locating", 1, 2)
            except BaseException:
                self.stopped.set()
                raise
            return Results([])

    return Held()


def ask(service, held, monkeypatch):
    """Send a search that blocks."""
    item = format_id(next(iter(service.collection.items())).id)
    monkeypatch.setattr(service.collection, "search", held.search)
    return send(service, item), item


def pending(service, n):
    """Wait until this number of searches run or wait."""
    until(lambda: f"lookalike_pending_search {n}\n" in service.client.get("/metrics").text)


def send(service, item):
    """Send a search on a connection of its own."""
    body = json.dumps({"examples": [{"id": item}], "k": 1}).encode()
    head = f"POST /api/v1/search HTTP/1.1\r\nHost: localhost\r\nX-Lookalike: 1\r\nContent-Length: {len(body)}\r\n"
    connection = service.connect()
    connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    return connection


def test_a_search_stops_when_its_client_disconnects(shelf, held, monkeypatch):
    with running(shelf) as service:
        connection, _ = ask(service, held, monkeypatch)
        assert held.started.wait(TIMEOUT_S)
        assert not held.stopped.is_set()
        connection.close()
        assert held.stopped.wait(TIMEOUT_S)
        pending(service, 0)
        assert "lookalike_requests_left_total 1" in service.client.get("/metrics").text


def test_queued_work_is_not_started_after_its_client_disconnects(shelf, held, monkeypatch):
    with running(shelf, budget=Budget(readers=1)) as service:
        first, item = ask(service, held, monkeypatch)
        assert held.started.wait(TIMEOUT_S)
        second = send(service, item)
        pending(service, 2)
        second.close()
        pending(service, 1)  # the service has noticed the disconnect
        held.release.set()
        assert b"200 OK" in first.recv(1000)
        first.close()
        pending(service, 0)
        assert held.calls == 1


def test_a_request_beyond_the_queue_gets_a_503(shelf, held, monkeypatch):
    with running(shelf, budget=Budget(readers=1, waiting=1)) as service:
        first, item = ask(service, held, monkeypatch)
        assert held.started.wait(TIMEOUT_S)
        second = send(service, item)
        pending(service, 2)
        refused = service.client.post("/api/v1/search", json={"examples": [{"id": item}]})
        assert "overloaded" in error(refused, 503, "busy")
        assert refused.headers["retry-after"] == "2"
        assert service.client.get("/healthz").status_code == 200  # needs no thread
        assert service.client.get("/").status_code == 200
        held.release.set()
        first.close()
        second.close()


def test_work_that_takes_too_long_is_stopped(shelf, held, monkeypatch):
    with running(shelf, budget=Budget(request_s=0.3)) as service:
        connection, _ = ask(service, held, monkeypatch)
        assert b" 503 " in connection.recv(1000)
        assert held.stopped.wait(TIMEOUT_S)
        connection.close()


def test_reads_do_not_wait_for_a_search_to_end(shelf, held, monkeypatch):
    with running(shelf) as service:
        search, _ = ask(service, held, monkeypatch)
        assert held.started.wait(TIMEOUT_S)
        assert service.client.get("/api/v1/items").status_code == 200
        assert not held.stopped.is_set()  # the search still runs
        held.release.set()
        assert b"200 OK" in search.recv(1000)
        search.close()


def test_an_unexpected_error_reveals_nothing(shelf, monkeypatch, caplog):
    with running(shelf) as service:

        def fail(*_, **__):
            raise RuntimeError("the password is 1234")

        monkeypatch.setattr(service.collection, "page", fail)
        answered = service.client.get("/api/v1/items")
        assert "1234" not in error(answered, 500, "broken")
        assert "the password is 1234" in caplog.text
        assert caplog.text.count("Traceback") >= 1


def test_at_shutdown_running_requests_are_answered_and_new_ones_are_rejected(shelf, held, monkeypatch):
    with running(shelf) as service:
        connection, _ = ask(service, held, monkeypatch)
        assert held.started.wait(TIMEOUT_S)
        threading.Timer(0.3, held.release.set).start()
        address = service.client.base_url
    assert b"200 OK" in connection.recv(1000)
    connection.close()
    with pytest.raises(httpx.ConnectError), httpx.Client(trust_env=False) as client:
        client.get(address)


def test_a_request_that_outlasts_the_shutdown_gets_a_503(shelf, held, monkeypatch, caplog):
    monkeypatch.setattr(http_server, "SHUTDOWN_S", 0.2)
    with running(shelf) as service:
        connection, _ = ask(service, held, monkeypatch)
        assert held.started.wait(TIMEOUT_S)
    answer = connection.recv(4_000)
    connection.close()
    assert b" 503 " in answer
    assert b'"kind":"busy"' in answer
    assert held.stopped.wait(TIMEOUT_S)
    assert "Traceback" not in caplog.text


def test_a_client_that_disconnects_during_its_upload_is_not_logged_as_an_error(shelf, caplog):
    head = "POST /api/v1/uploads HTTP/1.1\r\nHost: localhost\r\nX-Lookalike: 1\r\nContent-Length: 60000\r\n"
    with running(shelf) as service:
        connection = service.connect()
        connection.sendall(f"{head}Content-Type: multipart/form-data; boundary=x\r\n\r\n--x\r\n".encode())
        connection.close()
        until(lambda: 'status="499"' in service.client.get("/metrics").text)
    assert "Traceback" not in caplog.text


def test_progress_raises_after_stop_is_set():
    stop = Stop()
    stop.progress("x", 1, None)
    stop.set()
    with pytest.raises(RequestAbandoned) as raised:
        stop.progress("x", 1, None)
    assert error_response(raised.value, None).status_code == 499
