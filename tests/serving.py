"""A service that really runs, for tests: uvicorn in a thread on loopback, and a client that speaks to it.

In: a collection's folder and settings. Out: `Running`, with an `httpx` client that sends what our page would send.
"""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from lookalike import Collection
from lookalike.images.demo import draw_folder
from lookalike.server.access import Access
from lookalike.server.app import create_app
from lookalike.server.http_server import Server, bind
from lookalike.server.request_checks import RequestChecks
from lookalike.server.settings import Budget, Rates, Settings
from waiting import PATIENCE_S, until

WRITE = {"X-Lookalike": "1"}


@dataclass
class Running:
    """A service and somebody who uses it."""

    client: httpx.Client
    app: RequestChecks
    collection: Collection
    port: int
    folder: Path

    def get(self, path: str, **options: Any) -> Any:
        """JSON from a path of the API, which must be well."""
        answer = self.client.get(f"/api/v1{path}", **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """JSON to a path of the API, and back."""
        answer = self.client.post(f"/api/v1{path}", json=body or {}, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    def upload(self, data: bytes) -> httpx.Response:
        """Send a picture to search with."""
        return self.client.post("/api/v1/uploads", files={"file": ("picture", data)})

    def connect(self) -> socket.socket:
        """A bare connection, for those who do not behave."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE_S)


def make_shelf(folder: Path) -> Path:
    """Sixty drawn pictures in a collection, each with its kind as label; the collection's path."""
    draw_folder(folder / "pictures", per_kind=5, random_state=0)
    path = folder / "shelf.lookalike"
    with Collection(path, create=True) as collection:
        collection.add(folder / "pictures", recipes="color", workers=1)
        collection.import_labels(folder / "pictures")
    return path


def copy_shelf(shelf: Path, folder: Path) -> Path:
    """A collection of one's own; the pictures stay where they are."""
    return Path(shutil.copytree(shelf, folder / "own.lookalike"))


@contextmanager
def running(
    shelf: Path, *, budget: Budget | None = None, rates: Rates | None = None, **options: Any
) -> Iterator[Running]:
    """The service for a collection, until the block ends."""
    settings = Settings(port=0, budget=budget or Budget(), rates=rates or Rates.trusting(), **options)
    with Collection(shelf) as collection:
        app = create_app(collection, settings)
        listener = bind(settings)
        server = Server(app, settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        port = listener.getsockname()[1]
        until(lambda: server.started or not thread.is_alive())
        try:
            with connect(f"http://127.0.0.1:{port}") as client:
                yield Running(client, app, collection, port, shelf)
        finally:
            app.service.closing.set()
            server.should_exit = True
            thread.join(PATIENCE_S)
            assert not thread.is_alive(), "the service does not end"


def connect(address: str) -> httpx.Client:
    """A client of a service."""
    return httpx.Client(base_url=address, headers=WRITE, timeout=PATIENCE_S, trust_env=False)


def error(answer: httpx.Response, status: int, kind: str) -> str:
    """The message of an error that has the one shape."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"kind", "message", "field"}
    assert body["error"]["kind"] == kind
    assert len(body["error"]["message"]) > 10
    return str(body["error"]["message"])


def quick(budget: Budget | None = None, **changes: Any) -> Budget:
    """A budget with some of it changed."""
    return replace(budget or Budget(), **changes)


def add_token(shelf: Path, name: str, role: Any) -> dict[str, str]:
    """The header that a person of this role sends."""
    return {"Authorization": f"Bearer {Access(shelf).add(name, role)}"}
