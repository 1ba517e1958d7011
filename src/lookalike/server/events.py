"""Server-sent events about jobs (https://html.spec.whatwg.org/multipage/server-sent-events.html).

In: jobs whose changes are numbered. Out: a stream of text. Nothing is buffered for a reader: each time it is told how
the jobs stand that have changed since the last number it saw, so a slow one misses steps in between, never the last.
"""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

from lookalike.server.jobs import Jobs
from lookalike.server.ledger import Job
from lookalike.server.problems import BUSY_S, Problem
from lookalike.server.visible_paths import Visible

LOOK_S = 0.1
"""Between two looks at what has changed."""

BEAT_S = 10.0
"""After so long without news a comment is sent: a client that has gone is noticed, and proxies stay calm."""

STREAMS = 128
"""Readers at a time."""

HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class Events:
    """The streams of one service."""

    def __init__(self, jobs: Jobs):
        self.jobs = jobs
        self.open = 0

    def check(self) -> None:
        """Refuse one reader too many."""
        if self.open >= STREAMS:
            raise Problem(503, "Too many are listening. Close another window, or try again.", wait_s=BUSY_S)

    async def stream(
        self, closing: threading.Event, since: int | None, only: int | None, may: Callable[[], bool], visible: Visible
    ) -> AsyncIterator[str]:
        """Changes of all jobs, or of one; ends with the service, with that job, or when `may` returns False."""
        if self.open >= STREAMS:
            yield f"retry: {1_000 * BUSY_S}\n\n"  # others were quicker since `check`
            return
        self.open += 1
        try:
            yield "retry: 2000\n\n"
            if since is not None and since > self.jobs.last:  # a clock was put back, or a client invents numbers
                yield ": there is no such event yet; this begins anew\n\n"
                since = None
            last, told = since or 0, time.monotonic()
            new = since is None
            while not closing.is_set():
                changed = await asyncio.to_thread(self.jobs.changed, last) if self.jobs.last > last else []
                for job in changed:
                    last = max(last, job.change)
                    if only is not None and job.id != only:
                        continue
                    if new and only is None and job.is_over:
                        continue  # what was over before somebody came is no news
                    yield f"id: {job.change}\ndata: {json.dumps(event(job, visible))}\n\n"
                    told = time.monotonic()
                    if only is not None and job.is_over:
                        return
                new = False
                if not may():
                    return
                if time.monotonic() - told >= BEAT_S:
                    yield ": still here\n\n"
                    told = time.monotonic()
                await asyncio.sleep(LOOK_S)
        finally:
            self.open -= 1


def event(job: Job, visible: Visible) -> dict[str, Any]:
    """The event for a change of a job, as a person may see it."""
    return {
        "job": str(job.id),
        "kind": job.kind,
        "state": job.state,
        "stage": job.stage,
        "done": job.done,
        "total": job.total,
        "eta_s": job.eta_s,
        "message": visible.text(job.message),
    }


def describe(job: Job, visible: Visible) -> dict[str, Any]:
    """A job as JSON that a person may see."""
    given = {name: value for name, value in job.arguments.items() if value is not None}
    folder = {"folder": visible.path(given.pop("folder"))} if "folder" in given else {}
    result = dict(job.result or {})
    files = {name: result.pop(name) for name in ("skipped", "files") if isinstance(result.get(name), dict)}
    shown = {name: {visible.path(path): visible.text(said) for path, said in files[name].items()} for name in files}
    return {
        "id": str(job.id),
        "kind": job.kind,
        "arguments": {**folder, **visible.texts(given)},
        "state": job.state,
        "author": job.author,
        "created": job.created,
        "started": job.started,
        "ended": job.ended,
        "stage": job.stage,
        "done": job.done,
        "total": job.total,
        "eta_s": job.eta_s,
        "message": visible.text(job.message),
        "error": visible.texts(job.error),
        "result": None if job.result is None else {**visible.texts(result), **shown},
    }
