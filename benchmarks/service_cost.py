"""CPU time and SQLite statements per request: `python benchmarks/service_cost.py DIR`.

Copies a collection that `service_load.py --make DIR` has created, and prints a JSON object. For each kind of request it
has the CPU time of all threads (minimum and lower quartile of about 20 requests, in ms) and the number of SQLite
statements; for some kinds also right after 200 pictures were added. Unlike elapsed time, CPU time can be measured on a
shared machine.
"""

import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx
import numpy as np

from lookalike import Collection
from lookalike.server.app import create_app
from lookalike.server.settings import Budget, Rates, Settings
from lookalike.store import database
from lookalike.store.items import Item
from lookalike.types import format_id

TIMES, ROUNDS = 20, 5
NEW = 200
"""Number of pictures in an add."""

statements: list[str] = []


def main() -> None:
    plain = database.connect

    def connect(*arguments: Any, **options: Any) -> Any:
        connection = plain(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    database.connect = connect
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder, "c.lookalike")
        shutil.copytree(Path(sys.argv[1], "c.lookalike"), where)
        with Collection(where) as collection:
            print(json.dumps(asyncio.run(costs(collection))))


async def costs(collection: Collection) -> dict[str, Any]:
    pictures = len(collection)
    app = create_app(collection, Settings(rates=Rates.trusting(), budget=Budget(request_s=3_600)))
    ids = [format_id(item.id) for item in collection.page(order="id", limit=1_000).items]
    transport, headers = httpx.ASGITransport(app), {"X-Lookalike": "1"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1/api/v1", headers=headers) as client:
        examples = {"examples": [{"id": ids[0]}], "without": [{"id": ids[1]}]}
        session = (await client.post("/sessions", json=examples)).json()["id"]
        kinds: dict[str, Callable[[int], Awaitable[httpx.Response]]] = {
            "search": lambda i: client.post("/search", json={"examples": [{"id": ids[i]}], "k": 20}),
            "page": lambda i: client.get(f"/items?limit=50&order=id&offset={37 * i}"),
            "thumbnail": lambda i: client.get(f"/items/{ids[i]}/thumbnail"),
            "thumbnail from memory": lambda i: client.get(f"/items/{ids[i]}/thumbnail"),
            "collection": lambda _: client.get("/collection"),
            "mark": lambda i: client.post(f"/sessions/{session}/marks", json={"relevant": [ids[10 + i]]}),
            "round": lambda _: client.post(f"/sessions/{session}/round", json={"k": 50, "window": 9}),
        }
        measured = {name: await cost(kind, ROUNDS if name == "round" else TIMES) for name, kind in kinds.items()}
        for name in ("search", "page", "round"):
            measured[f"{name} after an add"] = await cost(kinds[name], ROUNDS, lambda: add(collection))
    app.service.close()
    return {"pictures": pictures, "requests": measured}


async def cost(
    kind: Callable[[int], Awaitable[httpx.Response]], times: int, before: Callable[[], None] = lambda: None
) -> dict[str, float]:
    times_ms, counts = [], []
    for number in range(times + 1):
        before()
        statements.clear()
        start = time.process_time()
        response = await kind(number)
        times_ms.append(1e3 * (time.process_time() - start))
        counts.append(len(statements))
        assert response.status_code < 300, response.text
    least, quartile = np.quantile(times_ms[1:], [0, 0.25])
    return {
        "least_ms": round(least, 2),
        "quartile_ms": round(quartile, 2),
        "statements": float(np.median(counts[1:])),
    }


def add(collection: Collection) -> None:
    """Add new items with random vectors, as another process would."""
    store, random = collection._store, np.random.default_rng(time.time_ns())
    base = store.vectors.spaces()[collection.spaces[0].name].chain[0]
    ids = np.unique(random.integers(0, 2**62, NEW))
    pending_rows = random.random((len(ids), store.vectors.spaces()[base].dim or 1), np.float32)
    with store.writer():
        pending = store.vectors.write(base, ids, pending_rows)
        with store.transaction():
            store.items.add([Item(item, [], 1, 1, 1, "jpeg", 0.0, None) for item in ids.tolist()])
            store.vectors.commit(pending)


if __name__ == "__main__":
    main()
