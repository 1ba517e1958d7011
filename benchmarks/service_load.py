"""The service under load: `python benchmarks/service_load.py --pictures 100000 --seconds 300`.

In: drawn noise, in a collection of its own. 64 readers (each searches, then looks at a page and at thumbnails, then
pauses for a second on average, as people do), 8 feedback sessions and one `lookalike add` after the other. Out: JSON:
the median of a search before the load, median and 99th percentile under it and their ratio, errors, marks that were
answered and marks that the collection has, pictures that came in. Readers are processes of their own.
"""

import argparse
import http.client
import json
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from lookalike import Collection

READERS, SESSIONS, PROCESSES = 64, 8, 4
PAUSE_S = 1.0
BEFORE = 100
"""Searches before the load."""
BATCH = 200
"""Pictures that the writer adds at a time."""
HEADERS = {"X-Lookalike": "1", "Content-Type": "application/json"}


class Client:
    """A connection that counts what goes wrong."""

    def __init__(self, port: int):
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=120)
        self.errors: list[str] = []

    def ask(self, method: str, path: str, body: Any = None) -> tuple[Any, float]:
        began = time.perf_counter()
        try:
            text = None if body is None else json.dumps(body)
            self.connection.request(method, f"/api/v1{path}", text, HEADERS)
            answer = self.connection.getresponse()
            data = answer.read()
            if answer.status >= 400:
                self.errors.append(data.decode()[:200])
                return None, 0.0
            seconds = time.perf_counter() - began
            return (json.loads(data) if answer.headers["content-type"] == "application/json" else data), seconds
        except (OSError, http.client.HTTPException) as error:
            self.connection.close()  # and opened again by the next
            self.errors.append(repr(error))
            return None, 0.0

    def search(self, item: str) -> float:
        return self.ask("POST", "/search", {"examples": [{"id": item}], "k": 20})[1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--read", nargs=3, metavar=("PORT", "THREADS", "SEED"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.read:
        port, threads, seed = map(int, given.read)
        print(json.dumps(read(port, threads, seed, given.seconds)))
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(run(Path(folder), given.pictures, given.seconds)))


def run(folder: Path, pictures: int, seconds: float) -> dict[str, Any]:
    where = folder / "c.lookalike"
    draw(folder / "first", pictures, seed=0)
    with Collection(where, create=True) as collection:
        collection.add(folder / "first", recipes="color")
    command = [sys.executable, "-m", "lookalike", "-c", str(where), "serve", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = int(server.stdout.readline().rstrip("/\n").rsplit(":", 1)[1])
    try:
        client = Client(port)
        ids = [item["id"] for item in client.ask("GET", "/items?limit=1000&order=id")[0]["items"]]
        before = [client.search(item) for item in ids[:BEFORE]][BEFORE // 10 :]
        stop = threading.Event()
        with ThreadPoolExecutor() as pool:
            added = pool.submit(write, where, folder, stop)
            judged = [pool.submit(judge, port, ids[100 * i : 100 * i + 100], seconds) for i in range(SESSIONS)]
            readers = [pool.submit(start_reader, port, i, seconds) for i in range(PROCESSES)]
            seen = [reader.result() for reader in readers]
            sessions = [session.result() for session in judged]
            stop.set()
            new, failed = added.result()
    finally:
        server.terminate()
        server.wait()
    with Collection(where) as collection:
        kept = sum(len(collection.session(id=session["id"]).marks) for session in sessions)
        faults = collection.verify()
    times = sorted(time_ for one in seen for time_ in one["times"])
    median = statistics.median(before)
    p99 = times[int(0.99 * len(times))]
    return {
        "pictures": pictures,
        "seconds": seconds,
        "median_before_ms": round(1e3 * median, 2),
        "searches": len(times),
        "median_ms": round(1e3 * statistics.median(times), 2),
        "p99_ms": round(1e3 * p99, 2),
        "p99_over_median_before": round(p99 / median, 2),
        "errors": [error for one in [*seen, *sessions] for error in one["errors"]][:5] + failed,
        "rounds": sum(session["rounds"] for session in sessions),
        "marks_answered": sum(session["marks"] for session in sessions),
        "marks_kept": kept,
        "added": new,
        "faults": faults,
    }


def draw(folder: Path, n: int, seed: int) -> None:
    """Small pictures of coarse noise, each its own."""
    folder.mkdir()
    generator = np.random.default_rng(seed)
    for number in range(n):
        small = generator.integers(0, 256, (3, 4, 3), np.uint8)
        cv2.imwrite(str(folder / f"{number:07}.jpg"), cv2.resize(small, (64, 48), interpolation=cv2.INTER_CUBIC))


def write(where: Path, folder: Path, stop: threading.Event) -> tuple[int, list[str]]:
    """One add after the other, as another process."""
    done, failed = 0, []
    while not stop.is_set():
        more = folder / f"more-{done}"
        draw(more, BATCH, seed=1 + done)
        command = [sys.executable, "-m", "lookalike", "-c", str(where), "add", str(more), "--workers", "1"]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        if ended.returncode:
            failed.append(ended.stderr[-200:])
        done += BATCH
    return done, failed


def judge(port: int, ids: list[str], seconds: float) -> dict[str, Any]:
    """A session: rounds of nine questions, answered at random, one click at a time."""
    client, chance = Client(port), random.Random(ids[0])
    session = client.ask("POST", "/sessions", {"examples": [{"id": ids[0]}], "without": [{"id": ids[1]}]})[0]["id"]
    marks, rounds, end = 2, 0, time.monotonic() + seconds
    while time.monotonic() < end:
        played, _ = client.ask("POST", f"/sessions/{session}/round", {"k": 50, "window": 9})
        rounds += played is not None
        for item in played["questions"] if played else []:
            kind = chance.choice(["relevant", "irrelevant"])
            marks += client.ask("POST", f"/sessions/{session}/marks", {kind: [item["id"]]})[0] is not None
            time.sleep(chance.uniform(0, 2 * PAUSE_S))
    return {"id": session, "marks": marks, "rounds": rounds, "errors": client.errors}


def start_reader(port: int, number: int, seconds: float) -> dict[str, Any]:
    words = ["--seconds", str(seconds), "--read", str(port), str(READERS // PROCESSES), str(number)]
    ended = subprocess.run([sys.executable, __file__, *words], capture_output=True, text=True, check=True)
    seen: dict[str, Any] = json.loads(ended.stdout)
    return seen


def read(port: int, threads: int, seed: int, seconds: float) -> dict[str, Any]:
    """Several people who look around."""
    times: list[float] = []
    errors: list[str] = []

    def look(number: int) -> None:
        client, chance = Client(port), random.Random(1000 * seed + number)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            page, _ = client.ask("GET", f"/items?limit=50&order=id&offset={chance.randrange(0, 5_000, 50)}")
            for item in (page or {"items": []})["items"][:10]:
                client.ask("GET", f"/items/{item['id']}/thumbnail")
            if page and page["items"]:
                taken = client.search(chance.choice(page["items"])["id"])
                times.extend([taken] if taken else [])
            time.sleep(chance.uniform(0, 2 * PAUSE_S))
        errors.extend(client.errors)

    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(look, range(threads)))
    return {"times": times, "errors": errors[:5]}


if __name__ == "__main__":
    main()
