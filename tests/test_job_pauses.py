"""Jobs are paused while a search runs, but not for long, and never after the service has died."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading

import numpy as np
import psutil
import pytest
from PIL import Image

from lookalike.server import jobs as module
from lookalike.server.jobs import PAUSE_S, RUN_S, JobPauser, Jobs
from serving import copy_shelf, running
from waiting import PATIENCE_S, until

SLOW = 20
"""Pictures that take a while to read."""


class Clock:
    """An event loop's clock, moved by hand."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def time(self):
        return self.now

    def call_at(self, when, call):
        timer = Timer(when, call)
        self.timers.append(timer)
        return timer

    def call_later(self, delay, call):
        return self.call_at(self.now + delay, call)

    def pass_(self, seconds):
        end = self.now + seconds
        while due := [timer for timer in self.timers if timer.when <= end]:
            first = min(due, key=lambda timer: timer.when)
            self.timers.remove(first)
            self.now = first.when
            if not first.cancelled:
                first.call()
        self.now = end


class Timer:
    def __init__(self, when, call):
        self.when, self.call, self.cancelled = when, call, False

    def cancel(self):
        self.cancelled = True


class Seen:
    """Jobs that record when they are paused and resumed."""

    def __init__(self, clock, running=True):
        self.clock, self.running, self.told = clock, running, []

    def pause(self):
        if self.running:
            self.told.append(("pause", round(self.clock.now, 3)))
        return self.running

    def resume(self):
        self.told.append(("resume", round(self.clock.now, 3)))


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(module.asyncio, "get_running_loop", lambda: made)
    return made


def test_jobs_pause_from_the_first_search_to_the_end_of_the_last(clock):
    jobs = Seen(clock)
    pauser = JobPauser(jobs)
    with pauser.searching():
        clock.pass_(0.01)
        with pauser.searching():
            clock.pass_(0.01)
        clock.pass_(0.01)
    clock.pass_(1)
    with pauser.searching():
        clock.pass_(0.01)
    assert jobs.told == [("pause", 0), ("resume", 0.03), ("pause", 1.03), ("resume", 1.04)]


def test_without_jobs_nothing_is_paused_or_resumed(clock):
    jobs = Seen(clock, running=False)
    with JobPauser(jobs).searching():
        clock.pass_(2 * PAUSE_S)
    assert jobs.told == []


@pytest.mark.parametrize("gap_s", [0.0, 0.002, 0.02])
def test_endless_searches_do_not_starve_jobs(clock, gap_s):
    """One after the other, or with gaps that are too short to get anything done."""
    jobs = Seen(clock)
    pauser = JobPauser(jobs)
    outer = pauser.searching() if not gap_s else contextlib.nullcontext()
    with outer:
        for _ in range(200):
            with pauser.searching():
                clock.pass_(0.025)
            clock.pass_(gap_s)
    paused, resumed = ([when for word, when in jobs.told if word == which] for which in ("pause", "resume"))
    pause_s = 0.0
    for began, ended, again in zip(paused, resumed, [*paused[1:], clock.now + 1], strict=True):
        pause_s += ended - began
        assert pause_s <= PAUSE_S + 1e-6
        if again - ended >= RUN_S - 1e-6:
            pause_s = 0.0
    assert (
        sum(ended - began for began, ended in zip(paused, resumed, strict=True)) > clock.now / 2
    )  # yet they are paused most of the time


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A folder whose pictures take seconds to read."""
    folder, drawn = tmp_path_factory.mktemp("slow"), io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), np.uint8)
    Image.fromarray(noise).save(drawn, "PNG", compress_level=1)
    for number in range(SLOW):
        (folder / f"{number}.png").write_bytes(drawn.getvalue() + bytes([number]))  # another file, the same picture
    return folder


def family(pid):
    """The processes of a job: its own and those that read for it, once there are some."""
    own = psutil.Process(pid)
    until(own.children)
    return [own, *own.children()]


def states(processes):
    return {process.status() for process in processes if process.is_running()}


def test_a_search_pauses_all_processes_of_a_job_and_then_it_completes(shelf, slow, tmp_path, monkeypatch):
    begun, go_on = threading.Event(), threading.Event()

    def search(*examples, **options):
        begun.set()
        go_on.wait(PATIENCE_S)
        return []

    monkeypatch.setattr(module, "PAUSE_S", PATIENCE_S)
    monkeypatch.setattr(module, "LATE_S", PATIENCE_S)
    before = set(psutil.Process().children())
    with running(copy_shelf(shelf, tmp_path), roots=(slow,)) as service:
        item = service.get("/items")["items"][0]["id"]
        job = service.post("/jobs", {"kind": "add", "folder": str(slow)}, 202)["id"]
        until(lambda: set(psutil.Process().children()) - before)
        processes = family((set(psutil.Process().children()) - before).pop().pid)
        monkeypatch.setattr(service.collection, "search", search)
        asking = threading.Thread(target=service.post, args=("/search", {"examples": [{"id": item}]}))
        asking.start()
        assert begun.wait(PATIENCE_S)
        until(lambda: states(processes) == {psutil.STATUS_STOPPED})
        go_on.set()
        asking.join()
        until(lambda: service.get(f"/jobs/{job}")["state"] == "done")
        assert service.get("/collection")["items"] == 60 + SLOW


@pytest.mark.parametrize("address", ["thumbnail", "image"])
def test_jobs_resume_although_their_lock_blocks_the_event_loop(shelf, monkeypatch, address):
    """The event loop waits for the lock, and cannot resume the jobs itself."""
    monkeypatch.setattr(module, "PAUSE_S", PATIENCE_S)
    begun, moved = threading.Event(), threading.Event()

    def search(*examples, **options):
        begun.set()
        moved.wait(PATIENCE_S)
        return []

    with running(shelf) as service:
        item = service.get("/items")["items"][0]["id"]
        shown = service.client.get(f"/api/v1/items/{item}/{address}")
        monkeypatch.setattr(service.collection, "search", search)
        monkeypatch.setattr(service.collection, "has", lambda ids: moved.wait(PATIENCE_S))
        monkeypatch.setattr(service.app.service.jobs, "pause", lambda: True)
        monkeypatch.setattr(service.app.service.jobs, "resume", moved.set)
        asking = threading.Thread(target=service.post, args=("/search", {"examples": [{"id": item}]}))
        asking.start()
        assert begun.wait(PATIENCE_S)
        again = service.client.get(f"/api/v1/items/{item}/{address}", headers={"If-None-Match": shown.headers["etag"]})
        assert again.status_code == 304
        asking.join()


SERVICE = """
import sys, time
from pathlib import Path
from lookalike.server.jobs import Jobs
jobs = Jobs(Path(sys.argv[1]), [Path(sys.argv[2])])
jobs.start()
jobs.submit("add", {"folder": sys.argv[2]}, "somebody")
while not jobs.get(1).stage: time.sleep(0.01)
print(jobs._processes[1].pid, flush=True)
sys.stdin.readline()
jobs.pause()
print("paused", flush=True)
time.sleep(600)
"""

SHELL = """
import ctypes, subprocess, sys
ctypes.CDLL(None).prctl(36, 1)  # a descendant that loses its parent becomes a child of this process
service = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], process_group=0)
print(service.pid, flush=True)
service.wait()
sys.stdin.read()
"""


@pytest.mark.parametrize("first", [False, True], ids=["alone", "below the first process of a container"])
def test_a_service_killed_during_a_pause_leaves_no_process_behind(first, shelf, slow, tmp_path):
    words = [SERVICE, str(copy_shelf(shelf, tmp_path)), str(slow)]
    command = [sys.executable, "-c", *([SHELL] if first else []), *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, start_new_session=True, **pipes) as process:
        service = int(process.stdout.readline()) if first else process.pid
        processes = family(int(process.stdout.readline()))
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "paused\n"
        until(lambda: states(processes) == {psutil.STATUS_STOPPED})
        os.kill(service, signal.SIGKILL)
        until(lambda: states(processes) <= {psutil.STATUS_ZOMBIE})
        process.stdin.close()
        process.wait(PATIENCE_S)


def test_paused_jobs_end_with_the_service(shelf, slow, tmp_path):
    jobs = Jobs(copy_shelf(shelf, tmp_path), [slow])
    jobs.start()
    jobs.submit("add", {"folder": str(slow)}, "somebody")
    until(lambda: jobs.get(1).stage)
    processes = family(next(iter(jobs._processes.values())).pid)
    assert jobs.pause()
    jobs.close()
    until(lambda: states(processes) <= {psutil.STATUS_ZOMBIE})
    assert not jobs.pause()
