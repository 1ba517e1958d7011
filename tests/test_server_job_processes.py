"""The processes of jobs: they have a low priority and fewer threads, and end with the service."""

import io
import os
import signal
import subprocess
import sys

import numpy as np
import psutil
import pytest
from PIL import Image

from lookalike import Collection
from lookalike.collection import indexes
from lookalike.index import leaves
from lookalike.server import jobs
from lookalike.server.jobs import Jobs
from serving import copy_shelf, running
from waiting import TIMEOUT_S, until

SERVICE = """
import sys, time
from pathlib import Path
from lookalike.server.jobs import Jobs
jobs = Jobs(Path(sys.argv[1]), [Path(sys.argv[2])])
jobs.start()
jobs.submit("add", {"folder": sys.argv[2]}, "anna")
while not jobs.get(1).stage: time.sleep(0.01)
print("ready", flush=True)
time.sleep(600)
"""


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A folder whose pictures take seconds to read."""
    folder, drawn = tmp_path_factory.mktemp("slow"), io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 256, (1500, 2000, 3), np.uint8)
    Image.fromarray(noise).save(drawn, "PNG", compress_level=1)
    for number in range(20):
        (folder / f"{number}.png").write_bytes(
            drawn.getvalue() + bytes([number])
        )  # different files with the same picture
    return folder


def job_processes(service):
    """Return the job process of this service and the processes that read pictures for it."""
    (job,) = until(psutil.Process(service).children)
    until(job.children)
    return [job, *job.children()]


def have_ended(processes):
    """Return whether all processes have ended. Zombies that are not reaped yet count as ended."""
    return all(not process.is_running() or process.status() == psutil.STATUS_ZOMBIE for process in processes)


def test_jobs_have_the_lowest_priority_and_half_of_the_threads_and_end_with_the_service(shelf, slow, tmp_path):
    before = set(psutil.Process().children())
    jobs = Jobs(copy_shelf(shelf, tmp_path), [slow])
    jobs.start()
    jobs.submit("add", {"folder": str(slow)}, "anna")
    until(lambda: jobs.get(1).stage)
    (job,) = set(psutil.Process().children()) - before
    processes = [job, *until(job.children)]
    assert {process.nice() for process in processes} == {19}
    threads = str(max(1, len(os.sched_getaffinity(0)) // 2))
    assert {job.environ()[name] for name in ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")} == {threads}
    jobs.close()
    until(lambda: have_ended(processes))


def test_a_killed_service_leaves_no_process_behind(shelf, slow, tmp_path):
    command = [sys.executable, "-c", SERVICE, str(copy_shelf(shelf, tmp_path)), str(slow)]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == "ready\n"
        processes = job_processes(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        until(lambda: have_ended(processes))
        process.wait(TIMEOUT_S)


REBUILD = """
import os, sys, time
sys.path[:] = sys.argv[1:]
from lookalike.collection import indexes
from lookalike.index import leaf_codes, leaves
indexes.LEAVES_MIN, leaves.MIN_ROWS = 50, 20
share = leaf_codes.share
def wait(*work):
    while not os.path.exists({release!r}):
        time.sleep(0.01)
    share(*work)
leaf_codes.share = wait
from lookalike.server.job_worker import main
main()
"""


def test_a_job_rebuilds_the_leaves_while_searches_use_the_old_ones_and_scan_added_pictures(
    shelf, slow, tmp_path, monkeypatch
):
    monkeypatch.setattr(indexes, "LEAVES_MIN", 50)
    monkeypatch.setattr(leaves, "MIN_ROWS", 20)
    path, release = copy_shelf(shelf, tmp_path), tmp_path / "release"
    with Collection(path) as collection:
        collection.compact()  # builds the first leaves
    monkeypatch.setattr(leaves, "FEW", 10)  # searches use leaves
    monkeypatch.setattr(leaves, "ALL", 0)
    monkeypatch.setattr(jobs, "_START", REBUILD.format(release=str(release)))
    with running(path, roots=(slow,)) as service:
        old = {item["id"] for item in service.get("/items", params={"limit": 1000})["items"]}
        first = service.collection.space("color").feedback_index
        assert isinstance(first, leaves.Leaves)
        job = service.post("/jobs", {"kind": "add", "folder": str(slow)}, status=202)["id"]
        until(lambda: service.get(f"/jobs/{job}")["stage"] == "sorting into leaves")
        added = [item["id"] for item in service.get("/items", params={"limit": 1000})["items"] if item["id"] not in old]
        assert len(added) == 20
        session = service.post("/sessions", {"examples": [{"id": added[0]}]}, status=201)["id"]

        def search():
            """The ids of the best results of a search by example, and of a feedback session."""
            found = service.post("/search", {"examples": [{"id": added[0]}], "k": 20})["results"]
            best = service.get(f"/sessions/{session}/best", params={"k": 20})["best"]
            return [{one["item"]["id"] for one in results} for results in (found, best)]

        assert search() == [set(added)] * 2
        during = service.collection.space("color").feedback_index
        assert isinstance(during, leaves.Leaves)
        assert (len(during), during.stale) == (len(old) + 20, 20 / (len(old) + 20))
        assert service.get(f"/jobs/{job}")["state"] == "running"
        release.touch()
        until(lambda: service.get(f"/jobs/{job}")["state"] == "done")
        after = service.collection.space("color").feedback_index
        assert isinstance(after, leaves.Leaves)
        assert (len(after), after.stale) == (len(old) + 20, 0)
        assert search() == [set(added)] * 2
