"""The service under load: `python benchmarks/service_load.py --pictures 100000 --seconds 300`.

In: drawn noise, in a collection of its own; `--collection DIR` takes a copy of one that was made before.
64 *readers*, each again and again: a page of 50 somewhere in the collection, thumbnails of 10 of it, a search with one
of it (k = 20), then a pause of 0 to 2 × `--think` seconds: who looks at 20 results needs some 3 s.
8 *sessions* of feedback: a round, then 9 answers with 0 to 2 s before each, and so on. Each looks for the 1,000
pictures nearest to one; with `--answers lot` it answers by lot, and there is less and less that a round can leave out.
1 *writer*: 200 new pictures at a time, as a job of the service, one after the other without a pause; or, with
`--writer process`, as `lookalike add` beside it.
1 *prober* asks for /healthz four times a second: it costs the service nothing, so that what it waits is the share of
busy cores and of the clients, which are one process.
Out: JSON. The median of a search before the load, by the same client, of the same collection; median, 95th and 99th
percentile under it, the ratio of that last to the first; the same of pages, thumbnails, rounds and marks; errors;
marks that were answered and that the collection has; pictures that came in; and cores kept busy by the service with its
jobs, by the clients, by all else, and by other machines of the same host, which have them while we wait ("stolen").
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
"""What an answer to a question takes on average; between two probes; between two looks at a job."""
WARM_S = 10.0
"""What the service may take, once it can be reached, to load what the first search and the first round need."""
BEFORE = 200
"""Searches before the load, of which the first tenth does not count."""
BATCH = 200
"""Pictures that the writer adds at a time."""
WANTED = 1_000
"""Pictures that a session looks for."""
ID = re.compile(rb'"id":"([0-7][0-9a-f]{15})"')


class Client:
    """A connection. Bytes in and out and no more: what a client costs, the service lacks."""

    def __init__(self, port: int, errors: list[str]):
        self.port, self.errors = port, errors
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(self, method: str, path: str, body: Any = None) -> tuple[bytes, float]:
        """What was answered, and after how many seconds; nothing, and a line in `errors`, where that went wrong."""
        text = b"" if body is None else json.dumps(body).encode()
        head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{self.port}\r\nX-Lookalike: 1\r\n"
        if text:
            head += f"Content-Type: application/json\r\nContent-Length: {len(text)}\r\n"
        began = time.perf_counter()
        try:
            if self.streams is not None and self.streams[0].at_eof():  # the service ends what is idle for 15 s
                self._close()
            if self.streams is None:
                self.streams = await asyncio.open_connection("127.0.0.1", self.port)
            reader, writer = self.streams
            writer.write(f"{head}\r\n".encode() + text)
            async with asyncio.timeout(120):
                said = await reader.readuntil(b"\r\n\r\n")
                length = re.search(rb"content-length: (\d+)", said)
                data = await reader.readexactly(int(length[1]) if length else 0)
            seconds = time.perf_counter() - began
            if b"connection: close" in said.lower():
                self._close()
            if said[9:12] >= b"400":
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
        self.streams = None  # the next one opens it again


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=100_000)
    parser.add_argument("--collection", type=Path, help="one that was made by `--make`; it stays as it is")
    parser.add_argument("--make", type=Path, metavar="DIR", help="only draw the pictures and make the collection")
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--think", type=float, default=3.0, help="seconds that a reader pauses, on average")
    parser.add_argument("--slower", type=float, default=1.0, help="times as long pauses, on a machine that others use")
    parser.add_argument("--answers", choices=("known", "lot"), default="known", help="what a session says of a picture")
    parser.add_argument("--writer", choices=("job", "process", "none"), default="job")
    parser.add_argument("--clients", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--looked-for", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.clients:
        print(json.dumps(asyncio.run(use(given.clients, given.seconds, given.think, given.slower, given.looked_for))))
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
    looked_for = folder / "looked-for.json"
    with Collection(where) as collection:
        pictures = len(collection)
        looked_for.write_text(json.dumps([search_for(collection, number, given.answers) for number in range(SESSIONS)]))
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
            words += ["--think", str(given.think), "--slower", str(given.slower), "--looked-for", str(looked_for)]
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


def search_for(collection: Collection, number: int, answers: str) -> dict[str, Any]:
    """What a session begins with, and all that it looks for; nothing where it answers by lot."""
    first, *others = (item.id for item in collection.page(order="id", offset=100 * number, limit=100).items)
    near = {result.id for result in collection.search(first, k=WANTED)}
    far = next(item for item in others if item not in near)
    wanted = sorted(map(format_id, near)) if answers == "known" else None
    return {"like": format_id(first), "unlike": format_id(far), "wanted": wanted}


def make(folder: Path, pictures: int) -> None:
    """Pictures, and a collection of them."""
    draw(folder / "first", pictures, seed=0)
    with Collection(folder / "c.lookalike", create=True) as collection:
        collection.add(folder / "first", recipes="color")


def draw(folder: Path, n: int, seed: int) -> None:
    """Small pictures of coarse noise, each its own."""
    folder.mkdir(parents=True)
    generator = np.random.default_rng(seed)
    for number in range(n):
        small = generator.integers(0, 256, (3, 4, 3), np.uint8)
        cv2.imwrite(str(folder / f"{number:07}.jpg"), cv2.resize(small, (64, 48), interpolation=cv2.INTER_CUBIC))


async def alone(port: int) -> list[float]:
    """Seconds that searches take while nobody else asks."""
    errors: list[str] = []
    client = Client(port, errors)
    page, _ = await client.ask("GET", f"/api/v1/items?limit={BEFORE}&order=id")
    times = [await client.search(item.decode()) for item in ID.findall(page)]
    if errors or len(times) < BEFORE // 2:
        raise SystemExit(f"Not even one client was served well: {errors[:1]}, {len(times)} pictures.")
    return times[len(times) // 10 :]


def write(writer: str, port: int, where: Path, folder: Path, stop: threading.Event) -> tuple[int, list[str]]:
    """One add after the other; how many pictures came in, and what went wrong."""
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
    """Have the service add a folder; how many pictures it has added."""
    said, _ = await client.ask("POST", "/api/v1/jobs", {"kind": "add", "folder": str(folder)})
    while said and (job := json.loads(said))["state"] in ("queued", "running"):
        await asyncio.sleep(POLL_S)
        said, _ = await client.ask("GET", f"/api/v1/jobs/{job['id']}")
    if said and job["state"] != "done":
        client.errors.append(f"a job is {job['state']}: {job['message']}")
    return int(job["result"]["added"]) if said and job["state"] == "done" else 0


async def use(port: int, seconds: float, think_s: float, slower: float, looked_for: Path) -> dict[str, Any]:
    """Everybody who uses the service, for so long."""
    timed = ("search", "page", "thumbnail", "health", "round", "mark")
    seen: dict[str, Any] = {name: [] for name in (*timed, "errors", "sessions")} | {"marks": 0}
    end = time.monotonic() + seconds
    page, _ = await Client(port, seen["errors"]).ask("GET", "/api/v1/items?limit=1&order=id")
    total = int(re.search(rb'"total":(\d+)', page)[1])  # type: ignore[index]
    pauses = slower * think_s, slower * ANSWER_S, slower * PROBE_S
    readers = [_read(port, number, total, end, pauses[0], seen) for number in range(READERS)]
    sessions = [_judge(port, what, end, pauses[1], seen) for what in json.loads(looked_for.read_text())]
    await asyncio.gather(*readers, *sessions, _probe(port, end, pauses[2], seen))
    used = resource.getrusage(resource.RUSAGE_SELF)
    return seen | {"cpu_s": used.ru_utime + used.ru_stime}


async def _read(port: int, number: int, total: int, end: float, think_s: float, seen: dict[str, Any]) -> None:
    """Somebody who looks around."""
    client, chance = Client(port, seen["errors"]), random.Random(number)
    await asyncio.sleep(chance.uniform(0, 2 * think_s))  # people do not come all at once
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


async def _judge(port: int, what: dict[str, Any], end: float, answer_s: float, seen: dict[str, Any]) -> None:
    """A session: rounds of nine questions, answered one click at a time."""
    client, chance = Client(port, seen["errors"]), random.Random(what["like"])
    start = {"examples": [{"id": what["like"]}], "without": [{"id": what["unlike"]}]}
    wanted = None if what["wanted"] is None else set(what["wanted"])
    begun, _ = await client.ask("POST", "/api/v1/sessions", start)
    if not begun:
        return
    session = json.loads(begun)["id"]
    seen["sessions"].append(session)
    seen["marks"] += 2
    while time.monotonic() < end:
        said, seconds = await client.ask("POST", f"/api/v1/sessions/{session}/round", {"k": 50, "window": 9})
        seen["round"] += [seconds] * bool(said)
        for item in json.loads(said)["questions"] if said else []:
            await asyncio.sleep(chance.uniform(0, 2 * answer_s))
            is_wanted = chance.random() < 0.5 if wanted is None else item["id"] in wanted
            kind = "relevant" if is_wanted else "irrelevant"
            said, seconds = await client.ask("POST", f"/api/v1/sessions/{session}/marks", {kind: [item["id"]]})
            seen["mark"] += [seconds] * bool(said)
            seen["marks"] += bool(said)


async def _probe(port: int, end: float, every_s: float, seen: dict[str, Any]) -> None:
    client = Client(port, seen["errors"])
    while time.monotonic() < end:
        said, seconds = await client.ask("GET", "/healthz")
        seen["health"] += [seconds] * bool(said)
        await asyncio.sleep(every_s)


class Cores:
    """How many cores whom kept busy, from the making of this on."""

    def __init__(self) -> None:
        self.began, self.ours = time.monotonic(), self._ours()
        self.busy, self.stolen = self._ticks_s()

    def since(self, clients_s: float) -> dict[str, float]:
        """Once the service and the clients have ended: their processor time is known then."""
        seconds, ours = time.monotonic() - self.began, self._ours() - self.ours
        busy, stolen = self._ticks_s()
        used = {"service_and_writer": ours - clients_s, "clients": clients_s, "others": busy - self.busy - ours}
        used["stolen"] = stolen - self.stolen
        return {name: round(max(0.0, time_s) / seconds, 2) for name, time_s in used.items()}

    def _ticks_s(self) -> tuple[float, float]:
        """Seconds that whatever runs on this machine had, and that its host gave to other machines."""
        ticks = [int(word) / os.sysconf("SC_CLK_TCK") for word in Path("/proc/stat").read_text().split()[1:9]]
        return sum(ticks[:3]), ticks[7]

    def _ours(self) -> float:
        used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return sum(one.ru_utime + one.ru_stime for one in used)


def _routes(metrics: str) -> dict[str, tuple[int, float]]:
    """Route → how often it was asked, and its mean in ms, as the service itself has measured."""
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
