"""Overhead of HTTP for a search, and throughput of thumbnails: `python benchmarks/service.py [PICTURES_PER_KIND]`.

Creates a collection of synthetic pictures and prints a JSON object: the median time of a search in the library and over
HTTP, measured alternately, their difference, and the number of cached thumbnails per second on one connection and on
several. Server and client are two processes on the same machine.
"""

import http.client
import json
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from lookalike import Collection
from lookalike.images.demo import draw_folder

SEARCHES = 300
THUMBNAILS = 6_000
CONNECTIONS = 4


def main(per_kind: int) -> dict[str, object]:
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "c.lookalike"
        draw_folder(Path(folder) / "pictures", per_kind=per_kind)
        with Collection(where, create=True) as collection:
            collection.add(Path(folder) / "pictures", recipes="color")
            command = [sys.executable, "-m", "lookalike", "-c", str(where), "serve", "--port", "0"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert process.stdout is not None
            port = int(process.stdout.readline().rstrip("/\n").rsplit(":", 1)[1])
            try:
                return {"pictures": len(collection), **search(collection, port), **thumbnails(port)}
            finally:
                process.terminate()
                process.wait()


def search(collection: Collection, port: int) -> dict[str, float]:
    """Time the same searches in the library and over HTTP, alternately, so that other load affects both."""
    client = http.client.HTTPConnection("127.0.0.1", port)
    ids = [item.id for item in collection.items()]
    times: dict[str, list[float]] = {"library": [], "service": []}
    headers = {"X-Lookalike": "1", "Content-Type": "application/json"}
    for item in np.random.default_rng(0).choice(ids, SEARCHES):
        start = time.perf_counter()
        collection.search(int(item), k=20)
        times["library"].append(time.perf_counter() - start)
        body = json.dumps({"examples": [{"id": f"{item:016x}"}], "k": 20})
        start = time.perf_counter()
        client.request("POST", "/api/v1/search", body, headers)
        response = client.getresponse()
        results = json.loads(response.read())["results"]
        times["service"].append(time.perf_counter() - start)
        assert len(results) == 20
    medians = {name: 1e3 * statistics.median(values[20:]) for name, values in times.items()}
    extra = medians["service"] - medians["library"]
    return {f"search_{name}_ms": round(ms, 2) for name, ms in medians.items()} | {"search_extra_ms": round(extra, 2)}


def thumbnails(port: int) -> dict[str, float]:
    """Measure cached thumbnails per second on one connection and on several."""
    client = http.client.HTTPConnection("127.0.0.1", port)
    client.request("GET", "/api/v1/items?limit=200")
    paths = [f"/api/v1/items/{item['id']}/thumbnail" for item in json.loads(client.getresponse().read())["items"]]
    fetch(port, paths)
    rates = {}
    for connections in (1, CONNECTIONS):
        requested = [paths[i % len(paths)] for i in range(THUMBNAILS // connections)]
        threads = [threading.Thread(target=fetch, args=(port, requested)) for _ in range(connections)]
        start = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - start
        rates[f"thumbnails_per_s_{connections}"] = round(connections * len(requested) / seconds)
    return rates


def fetch(port: int, paths: list[str]) -> None:
    """Request paths one after the other on one connection, with little CPU time for the client."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        file = connection.makefile("rb")
        for path in paths:
            connection.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
            length = 0
            while (line := file.readline()) != b"\r\n":
                if line.startswith(b"content-length"):
                    length = int(line.split(b":")[1])
            assert len(file.read(length)) == length > 0


if __name__ == "__main__":
    print(json.dumps(main(int(sys.argv[1]) if sys.argv[1:] else 25)))
