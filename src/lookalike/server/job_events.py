"""Jobs as JSON, and server-sent events about them (https://html.spec.whatwg.org/multipage/server-sent-events.html).

Events are not buffered. A client gets the current state of the jobs that have changed since the last event it received,
so a slow client misses intermediate states but never the last one.
"""

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Callable

from lookalike.server.access import Visible
from lookalike.server.jobs import Job, Jobs
from lookalike.server.models import JobEventOut, JobOut
from lookalike.server.problems import BUSY_S, Problem

POLL_S = 0.1
"""Interval between two checks for changes."""
HEARTBEAT_S = 10.0
"""Time without an event after which a comment is sent, to detect disconnected clients and keep proxies connected."""
MAX_STREAMS = 128
HEADERS = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}


class JobEvents:
    """The event streams of a service."""

    def __init__(self, jobs: Jobs):
        self.jobs = jobs
        self.open = 0

    def check(self) -> None:
        """Raise Problem 503 if too many streams are open."""
        if self.open >= MAX_STREAMS:
            raise Problem(503, "Too many event streams are open. Close another window, or try again.", wait_s=BUSY_S)

    async def stream(
        self, closing: threading.Event, since: int | None, only: int | None, may: Callable[[], bool], visible: Visible
    ) -> AsyncIterator[str]:
        """Yield the changes of all jobs, or of one job until it ends. Stop at shutdown, or when `may` returns False."""
        if self.open >= MAX_STREAMS:
            yield f"retry: {1_000 * BUSY_S}\n\n"  # other streams were opened after `check`
            return
        self.open += 1
        try:
            yield "retry: 2000\n\n"
            if since is not None and since > self.jobs.last:  # the clock was set back, or the client made the number up
                yield ": unknown event id; the stream starts from the beginning\n\n"
                since = None
            last, sent = since or 0, time.monotonic()
            is_first = since is None
            while not closing.is_set():
                changed = await asyncio.to_thread(self.jobs.changed, last) if self.jobs.last > last else []
                for job in changed:
                    last = max(last, job.change)
                    if only is not None and job.id != only:
                        continue
                    if is_first and only is None and job.is_over:
                        continue  # a new client gets only unfinished jobs
                    yield f"id: {job.change}\ndata: {json.dumps(event_json(job, visible))}\n\n"
                    sent = time.monotonic()
                    if only is not None and job.is_over:
                        return
                is_first = False
                if not may():
                    return
                if time.monotonic() - sent >= HEARTBEAT_S:
                    yield ": heartbeat\n\n"
                    sent = time.monotonic()
                await asyncio.sleep(POLL_S)
        finally:
            self.open -= 1


def event_json(job: Job, visible: Visible) -> JobEventOut:
    """Return a change of a job as JSON that a user may see."""
    return JobEventOut(
        job=str(job.id),
        kind=job.kind,
        state=job.state,
        stage=job.stage,
        done=job.done,
        total=job.total,
        eta_s=job.eta_s,
        message=visible.text(job.message),
    )


def job_json(job: Job, visible: Visible) -> JobOut:
    """Return a job as JSON that a user may see."""
    given = {name: value for name, value in job.arguments.items() if value is not None}
    folder = {"folder": visible.path(given.pop("folder"))} if "folder" in given else {}
    result = dict(job.result or {})
    files = {name: result.pop(name) for name in ("skipped", "files") if isinstance(result.get(name), dict)}
    shown = {name: {visible.path(path): visible.text(text) for path, text in files[name].items()} for name in files}
    return JobOut(
        id=str(job.id),
        kind=job.kind,
        arguments={**folder, **visible.texts(given)},
        state=job.state,
        author=job.author,
        created=job.created,
        started=job.started,
        ended=job.ended,
        stage=job.stage,
        done=job.done,
        total=job.total,
        eta_s=job.eta_s,
        message=visible.text(job.message),
        error=visible.texts(job.error),
        result=None if job.result is None else {**visible.texts(result), **shown},
    )
