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

from lookalike.server.jobs import Jobs
from serving import copy_shelf
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
