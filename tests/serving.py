"""A running service for tests: uvicorn in a thread on loopback, and an `httpx` client that sends the page's headers."""

import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
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
from lookalike.server.uploads import SEARCHED
from waiting import TIMEOUT_S, until

WRITE = {"X-Lookalike": "1"}


@dataclass
class Running:
    """A service and a client of it."""

    client: httpx.Client
    app: RequestChecks
    collection: Collection
    port: int
    folder: Path

    @property
    def address(self) -> str:
        """The address of the page."""
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, **options: Any) -> Any:
        """Return JSON from a path of the API; the status must be 200."""
        answer = self.client.get(f"/api/v1{path}", **options)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def post(self, path: str, body: Any = None, status: int = 200, **options: Any) -> Any:
        """Send JSON to a path of the API and return the JSON of the response."""
        answer = self.client.post(f"/api/v1{path}", json=body or {}, **options)
        assert answer.status_code == status, answer.text
        return answer.json()

    def upload(self, data: bytes) -> httpx.Response:
        """Upload a picture to search with."""
        return self.client.post("/api/v1/uploads", files={"file": ("picture", data)})

    def connect(self) -> socket.socket:
        """Open a plain TCP connection, for requests that httpx would not send."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=TIMEOUT_S)


def make_shelf(folder: Path) -> Path:
    """Create a collection of sixty synthetic pictures, each labelled with its kind; return its path."""
    draw_folder(folder / "pictures", per_kind=5, random_state=0)
    path = folder / "shelf.lookalike"
    with Collection(path, create=True) as collection:
        collection.add(folder / "pictures", recipes="color", workers=1)
        collection.import_labels(folder / "pictures")
    return path


def copy_shelf(shelf: Path, folder: Path) -> Path:
    """Return a copy of the collection that a test can change; the pictures are not copied."""
    return Path(shutil.copytree(shelf, folder / "own.lookalike", ignore=shutil.ignore_patterns(SEARCHED)))


@contextmanager
def running(
    shelf: Path, *, budget: Budget | None = None, rates: Rates | None = None, **options: Any
) -> Iterator[Running]:
    """Run the service for a collection until the block ends."""
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
            thread.join(TIMEOUT_S)
            assert not thread.is_alive(), "the service did not stop"


def connect(address: str) -> httpx.Client:
    """Return a client of a service."""
    return httpx.Client(base_url=address, headers=WRITE, timeout=TIMEOUT_S, trust_env=False)


def error(answer: httpx.Response, status: int, kind: str) -> str:
    """Check the status, kind and JSON shape of an error; return its message."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    body = answer.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"kind", "message", "field"}
    assert body["error"]["kind"] == kind
    assert len(body["error"]["message"]) > 10
    return str(body["error"]["message"])


def quick(**changes: Any) -> Budget:
    """Return the default budget with these changes."""
    return Budget(**changes)


def add_token(shelf: Path, name: str, role: Any) -> dict[str, str]:
    """Create a token and return the header that sends it."""
    return {"Authorization": f"Bearer {Access(shelf).add(name, role)}"}
