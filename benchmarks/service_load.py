"""The service under load: `python benchmarks/service_load.py --pictures 100000 --seconds 300`.

Creates a collection of noise pictures, or copies an existing one (`--collection DIR`), and simulates these clients:

- 64 readers. Each repeats: request a random page of 50 items, the thumbnails of 10 of them, and a search with one of
  them (k = 20), then pause for 0 to 2 × `--think` seconds. A person needs about 3 s to look at 20 results.
- 8 feedback sessions. Each repeats: a round, then 9 marks with a pause of 0 to 2 s before each. The positive pictures
  are the 1,000 nearest to one picture. With `--answers random`, marks are random, which makes rounds slower over time.
- 1 writer. It adds 200 new pictures at a time without a pause, as jobs of the service or, with `--writer process`, with
  `lookalike add` in another process.
- 1 probe. It requests /healthz every 0.25 s. This takes almost no CPU time, so its response time shows the delay that
  busy cores and the clients, which share one process, cause.

Prints a JSON object: the median time of a search without load, by the same client in the same collection; the median,
95th and 99th percentile under load, and the ratio of the 99th percentile to the median without load; the same times for
pages, thumbnails, rounds and marks; errors; acknowledged and stored marks; added pictures; and the average number of
cores used by the service with its jobs, by the clients, by other processes, and by other virtual machines ("stolen").
"""

import argparse
import asyncio
import json
import os
import random
import re
import resource
import shutil
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
from lookalike.types import format_id

READERS, SESSIONS = 64, 8
ANSWER_S, PROBE_S, POLL_S = 1.0, 0.25, 0.25
"""Mean time to mark a picture, interval between two probes, and interval between two requests for a job's state."""
WARM_S = 10.0
"""Time for the warm-up of the service after its start."""
BEFORE = 200
"""Number of searches without load. The first tenth is ignored."""
BATCH = 200
"""Number of pictures that the writer adds at a time."""
POSITIVE = 1_000
"""Number of positive pictures of a session."""
ID = re.compile(rb'"id":"([0-7][0-9a-f]{15})"')


class Client:
    """A minimal HTTP client: CPU time that the client uses is not available to the service."""

    def __init__(self, port: int, errors: list[str]):
        self.port, self.errors = port, errors
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[bytes, float]:
        """Return the body of the response and its time in seconds. On an error, return b"" and extend `errors`."""
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nX-Lookalike: 1\r\n"
        if text:
            head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        start = time.perf_counter()
        try:
            if self.streams is not None and self.streams[0].at_eof():  # the service closes idle connections after 15 s
                self._close()
            if self.streams is None:
                self.streams = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self.streams
            writer.write(f"{head}\r\n".encode() + text)
            async with asyncio.timeout(120):
                response_head = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", response_head)
                data = await reader.readexactly(int(length[1]) if length else 0)
            seconds = time.perf_counter() - start
            if b"connection: close" in response_head.lower():
                self._close()
            if response_head[9:12] >= b"400":
                self.errors.append(data.decode()[:200])
                return b"", 0.0
            return data, seconds
        except (OSError, EOFError, TimeoutError) as error:
            self._close()
            self.errors.append(f"{method} {path[:40]}: {error!r}")
            return b"", 0.0

    async def search(self, item: str) -> float:
        return (await self.ask("POST", "/api/v1/search", {"examples": [{"id": item}], "k": 20}))[1]

    def _close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None  # the next request reconnects


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--collection", type=Path, help="Use a copy of the collection that `--make` created.")
    parser.add_argument("--make", type=Path, metavar="DIR", help="Only create the pictures and the collection.")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--think", type=float, default=3.0, help="Mean pause of a reader, in seconds.")
    parser.add_argument("--slower", type=float, default=1.0, help="Factor for all pauses, for a busy machine.")
    parser.add_argument("--answers", choices=("known", "random"), default="known", help="How sessions mark pictures.")
    parser.add_argument("--writer", choices=("job", "process", "none"), default="job")
    parser.add_argument("--clients", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--targets", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.clients:
        print(json.dumps(asyncio.run(use(given.clients, given.seconds, given.think, given.slower, given.targets))))
    elif given.make:
        make(given.make, given.pictures)
    else:
        with tempfile.TemporaryDirectory() as folder:
            print(json.dumps(run(Path(folder), given)))


def run(folder: Path, given: Any) -> dict[str, Any]:
    if given.collection is None:
        make(folder / "made", given.pictures)
    where = folder / "c.lookalike"
    shutil.copytree((given.collection or folder / "made") / "c.lookalike", where)
    new = folder / "new"
    new.mkdir()
    targets = folder / "targets.json"
    with Collection(where) as collection:
        pictures = len(collection)
        targets.write_text(json.dumps([session_spec(collection, number, given.answers) for number in range(SESSIONS)]))
    command = [sys.executable, "-m", "lookalike", "-c", str(where), "serve", "--port", "0", "--root", str(new)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline().rstrip("/\n").rsplit(":", 1)[1])
        time.sleep(WARM_S)
        before, cpu = asyncio.run(alone(port)), Cores()
        stop = threading.Event()
        with ThreadPoolExecutor() as pool:
            written = pool.submit(write, given.writer, port, where, new, stop)
            words = ["--clients", str(port), "--seconds", str(given.seconds)]
            words += ["--think", str(given.think), "--slower", str(given.slower), "--targets", str(targets)]
            clients = subprocess.run([sys.executable, __file__, *words], stdout=subprocess.PIPE, text=True, check=False)
            stop.set()
            added, failed = written.result()
        memory = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{server.pid}/status").read_text())
        metrics = asyncio.run(Client(port, failed).ask("GET", "/metrics"))[0].decode()
    finally:
        server.terminate()
        server.wait()
    seen: dict[str, Any] = json.loads(clients.stdout)
    with Collection(where) as collection:
        kept = sum(len(collection.session(id=session).marks) for session in seen["sessions"])
        faults = collection.verify()
    median = statistics.median(before)
    routes = {route: dict(zip(("n", "mean_ms"), pair, strict=True)) for route, pair in _routes(metrics).items()}
    return {
        "pictures": pictures,
        "seconds": given.seconds,
        "think_s": given.think,
        "slower": given.slower,
        "writer": given.writer,
        "answers": given.answers,
        "search_alone_ms": _times(before),
        "search_ms": _times(seen["search"]),
        "searches": len(seen["search"]),
        "p99_over_median_alone": round(_at(seen["search"], 0.99) / median, 2),
        "health_ms": _times(seen["health"]),
        "page_ms": _times(seen["page"]),
        "thumbnail_ms": _times(seen["thumbnail"]),
        "round_ms": _times(seen["round"]),
        "mark_ms": _times(seen["mark"]),
        "errors": len(seen["errors"]) + len(failed),
        "first_errors": [*seen["errors"], *failed][:5],
        "rounds": len(seen["round"]),
        "marks_answered": seen["marks"],
        "marks_kept": kept,
        "added": added,
        "faults": faults,
        "cores": cpu.since(seen["cpu_s"]),
        "server_mb": int(memory[1]) // 1024 if memory else None,
        "routes": routes,
    }


def session_spec(collection: Collection, number: int, answers: str) -> dict[str, Any]:
    """Return the two examples that a session starts with, and its positive pictures; None for random marks."""
    first, *others = (item.id for item in collection.page(order="id", offset=100 * number, limit=100).items)
    near = {result.id for result in collection.search(first, k=POSITIVE)}
    far = next(item for item in others if item not in near)
    positive = sorted(map(format_id, near)) if answers == "known" else None
    return {"example": format_id(first), "negative": format_id(far), "positive": positive}


def make(folder: Path, pictures: int) -> None:
    """Create pictures and a collection of them."""
    draw(folder / "first", pictures, seed=0)
    with Collection(folder / "c.lookalike", create=True) as collection:
        collection.add(folder / "first", recipes="color")


def draw(folder: Path, n: int, seed: int) -> None:
    """Write small JPEG files of coarse noise, all different."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    for number in range(n):
        small = generator.integers(0, 256, (3, 4, 3), np.uint8)
        cv2.imwrite(str(folder / f"{number:07}.jpg"), cv2.resize(small, (64, 48), interpolation=cv2.INTER_CUBIC))


async def alone(port: int) -> list[float]:
    """Return the times of searches without other load, in seconds."""
    errors: list[str] = []
    client = Client(port, errors)
    page, _ = await client.ask("GET", f"/api/v1/items?limit={BEFORE}&order=id")
    times = [await client.search(item.decode()) for item in ID.findall(page)]
    if errors or len(times) < BEFORE // 2:
        raise SystemExit(f"Searches failed even without load: {errors[:1]}, {len(times)} pictures.")
    return times[len(times) // 10 :]


def write(writer: str, port: int, where: Path, folder: Path, stop: threading.Event) -> tuple[int, list[str]]:
    """Add folders one after the other until `stop`; return the number of added pictures, and the errors."""
    added, errors = 0, []
    for number in range(sys.maxsize):
        if stop.is_set() or writer == "none":
            break
        more = folder / f"more-{number}"
        draw(more, BATCH, seed=1 + number)
        if writer == "process":
            command = [sys.executable, "-m", "lookalike", "-c", str(where), "add", str(more)]
            ended = subprocess.run(command, capture_output=True, text=True, check=False)
            if ended.returncode:
                errors.append(ended.stderr[-200:])
            added += BATCH * (ended.returncode == 0)
        else:
            added += asyncio.run(_job(Client(port, errors), more))
    return added, errors


async def _job(client: Client, folder: Path) -> int:
    """Run a job that adds a folder; return the number of added pictures."""
    data, _ = await client.ask("POST", "/api/v1/jobs", {"kind": "add", "folder": str(folder)})
    while data and (job := json.loads(data))["state"] in ("queued", "running"):
        await asyncio.sleep(POLL_S)
        data, _ = await client.ask("GET", f"/api/v1/jobs/{job['id']}")
    if data and job["state"] != "done":
        client.errors.append(f"a job is {job['state']}: {job['message']}")
    return int(job["result"]["added"]) if data and job["state"] == "done" else 0


async def use(port: int, seconds: float, think_s: float, slower: float, targets: Path) -> dict[str, Any]:
    """Run all clients for this many seconds; return their times and counts."""
    timed = ("search", "page", "thumbnail", "health", "round", "mark")
    seen: dict[str, Any] = {name: [] for name in (*timed, "errors", "sessions")} | {"marks": 0}
    end = time.monotonic() + seconds
    page, _ = await Client(port, seen["errors"]).ask("GET", "/api/v1/items?limit=1&order=id")
    total = int(re.search(rb'"total":(\d+)', page)[1])  # type: ignore[index]
    pauses = slower * think_s, slower * ANSWER_S, slower * PROBE_S
    readers = [_browse(port, number, total, end, pauses[0], seen) for number in range(READERS)]
    sessions = [_run_session(port, what, end, pauses[1], seen) for what in json.loads(targets.read_text())]
    await asyncio.gather(*readers, *sessions, _probe(port, end, pauses[2], seen))
    used = resource.getrusage(resource.RUSAGE_SELF)
    return seen | {"cpu_s": used.ru_utime + used.ru_stime}


async def _browse(port: int, number: int, total: int, end: float, think_s: float, seen: dict[str, Any]) -> None:
    """Browse and search, as one reader."""
    client, chance = Client(port, seen["errors"]), random.Random(number)
    await asyncio.sleep(chance.uniform(0, 2 * think_s))  # readers start at different times
    while time.monotonic() < end:
        page, seconds = await client.ask(
            "GET", f"/api/v1/items?limit=50&order=id&offset={chance.randrange(total - 50)}"
        )
        seen["page"] += [seconds] * bool(page)
        shown = [item.decode() for item in ID.findall(page)]
        for item in shown[:10]:
            picture, seconds = await client.ask("GET", f"/api/v1/items/{item}/thumbnail")
            seen["thumbnail"] += [seconds] * bool(picture)
        if shown:
            seconds = await client.search(chance.choice(shown))
            seen["search"] += [seconds] * bool(seconds)
        await asyncio.sleep(chance.uniform(0, 2 * think_s))


async def _run_session(port: int, what: dict[str, Any], end: float, answer_s: float, seen: dict[str, Any]) -> None:
    """Run a feedback session: rounds of nine questions, each marked with its own request."""
    client, chance = Client(port, seen["errors"]), random.Random(what["example"])
    start = {"examples": [{"id": what["example"]}], "without": [{"id": what["negative"]}]}
    positive = None if what["positive"] is None else set(what["positive"])
    started, _ = await client.ask("POST", "/api/v1/sessions", start)
    if not started:
        return
    session = json.loads(started)["id"]
    seen["sessions"].append(session)
    seen["marks"] += 2
    while time.monotonic() < end:
        data, seconds = await client.ask("POST", f"/api/v1/sessions/{session}/round", {"k": 50, "window": 9})
        seen["round"] += [seconds] * bool(data)
        for item in json.loads(data)["questions"] if data else []:
            await asyncio.sleep(chance.uniform(0, 2 * answer_s))
            is_positive = chance.random() < 0.5 if positive is None else item["id"] in positive
            kind = "relevant" if is_positive else "irrelevant"
            data, seconds = await client.ask("POST", f"/api/v1/sessions/{session}/marks", {kind: [item["id"]]})
            seen["mark"] += [seconds] * bool(data)
            seen["marks"] += bool(data)


async def _probe(port: int, end: float, every_s: float, seen: dict[str, Any]) -> None:
    client = Client(port, seen["errors"])
    while time.monotonic() < end:
        data, seconds = await client.ask("GET", "/healthz")
        seen["health"] += [seconds] * bool(data)
        await asyncio.sleep(every_s)


class Cores:
    """Measures how many cores each group of processes has used since this object was created."""

    def __init__(self) -> None:
        self.start, self.ours = time.monotonic(), self._ours()
        self.busy, self.stolen = self._ticks_s()

    def since(self, clients_s: float) -> dict[str, float]:
        """Return the average number of cores used. Call it after the service and the clients have ended."""
        seconds, ours = time.monotonic() - self.start, self._ours() - self.ours
        busy, stolen = self._ticks_s()
        used = {"service_and_writer": ours - clients_s, "clients": clients_s, "others": busy - self.busy - ours}
        used["stolen"] = stolen - self.stolen
        return {name: round(max(0.0, time_s) / seconds, 2) for name, time_s in used.items()}

    def _ticks_s(self) -> tuple[float, float]:
        """Return the CPU seconds of all processes of this machine, and those that its host gave to other machines."""
        ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in Path("/proc/stat").read_text().split()[1:9]]
        return sum(ticks[:3]), ticks[7]

    def _ours(self) -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)


def _routes(metrics: str) -> dict[str, tuple[int, float]]:
    """Return the number of requests and their mean time in ms for each route, as measured by the service."""
    line = r'lookalike_request_seconds_{}{{route="(.*)"}} (.*)'
    sums = dict(re.findall(line.format("sum"), metrics))
    counts = re.findall(line.format("count"), metrics)
    return {route: (int(n), round(1e3 * float(sums[route]) / int(n), 2)) for route, n in counts if int(n) >= SESSIONS}


def _times(seconds: list[float]) -> dict[str, float]:
    return {name: round(1e3 * _at(seconds, share), 2) for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99))}


def _at(seconds: list[float], share: float) -> float:
    return sorted(seconds)[int(share * len(seconds))] if seconds else float("nan")


if __name__ == "__main__":
    main()
