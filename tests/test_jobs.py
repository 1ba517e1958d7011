"""Jobs without HTTP: stored jobs survive kills, killed processes are restarted, and only allowed folders are added."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import closing
from functools import partial

import numpy as np
import pytest
from PIL import Image

from lookalike import Collection, Filter
from lookalike.errors import FullError, ImageError, InputError, LockedError, StoreError
from lookalike.images.sources import OUTSIDE
from lookalike.server import job_events, job_worker, settings, uploads
from lookalike.server import jobs as module
from lookalike.server.access import Person, Visible
from lookalike.server.job_worker import KINDS
from lookalike.server.jobs import Job, Jobs
from lookalike.server.uploads import safe_name, save_files
from lookalike.store.jobs import JobLedger
from lookalike.types import format_id, silent
from serving import copy_shelf
from waiting import until

N = 16

FAKE = """
import json, os, sys, time
order = json.loads(sys.stdin.readline())
seconds = {seconds}
for done in range(4):
    print(json.dumps({{"stage": "reading", "done": done, "total": 4}}), flush=True)
    time.sleep(seconds / 4)
print(json.dumps({{"result": order, "message": "Done."}}), flush=True)
"""
"""A fake worker that only sleeps. Starting a real one takes a second or two."""

HELD = """
import os, sys, time
sys.path[:] = sys.argv[1:]
from lookalike.server import job_worker as worker
send = worker._send

def hold(out, message):
    send(out, message)
    if message.get("stage", "").startswith({stage!r}) and not os.path.exists({flag!r}):
        open({flag!r}, "x").close()
        time.sleep(3600)

worker._send = hold
worker.main()
"""
"""The real worker. On its first run, it blocks in the middle of a stage until it is killed."""


@pytest.fixture(scope="module")
def many(tmp_path_factory):
    """Pictures that take a while to read."""
    folder = tmp_path_factory.mktemp("many")
    rng = np.random.default_rng(0)
    for i in range(N):
        noise = rng.integers(0, 256, (400, 600, 3), np.uint8)
        Image.fromarray(noise).save(folder / f"{i:03}.png", compress_level=0)
    return folder


@pytest.fixture
def own(shelf, tmp_path):
    path = copy_shelf(shelf, tmp_path)
    for file in path.glob("jobs.*"):  # created by a service in another test
        file.unlink()
    return path


@pytest.fixture
def jobs(own, many):
    made = Jobs(own, [many])
    made.start()
    yield made
    made.close()


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(module, "_START", FAKE.format(seconds=0.02))


@pytest.fixture
def slow(monkeypatch):
    monkeypatch.setattr(module, "_START", FAKE.format(seconds=60))


def wait(jobs, id, state=lambda job: job.is_over):
    until(lambda: state(jobs.get(id)))
    return jobs.get(id)


def is_reading(job):
    return job.stage == "reading"


def test_a_worker_killed_during_an_add_or_a_fit_is_restarted(jobs, own, many, tmp_path, monkeypatch):
    asked = [("add", {"folder": str(many)}, "reading"), ("fit", {"spec": "small = color() | pca(dim=8)"}, "encoding")]
    for kind, arguments, stage in asked:
        flag = tmp_path / kind
        monkeypatch.setattr(module, "_START", HELD.format(stage=stage, flag=str(flag)))
        job = jobs.submit(kind, arguments, "anna")
        until(flag.exists)
        os.kill(jobs._processes[job.id].pid, signal.SIGKILL)
        assert wait(jobs, job.id).state == "done"
        assert job.attempts == 2
    with Collection(own) as collection:
        assert len(collection) == 60 + N
        assert len(collection.vectors("small")[0]) == 60 + N
        assert collection.verify() == []


def test_a_job_whose_process_always_dies_fails_after_three_attempts(jobs, monkeypatch):
    monkeypatch.setattr(module, "_START", "import os; os.kill(os.getpid(), 9)")
    job = wait(jobs, jobs.submit("refresh", {}, "anna").id)
    assert (job.state, job.attempts, job.error["kind"]) == ("failed", 3, "Killed")


def test_an_unexpected_exception_ends_a_job_immediately_and_is_logged(jobs, monkeypatch, caplog):
    faulty = "import lookalike.server.job_worker as w; w.KINDS['refresh'] = lambda *_: 1 / 0; w.main()"
    monkeypatch.setattr(module, "_START", f"import sys; sys.path[:] = sys.argv[1:]; {faulty}")
    job = wait(jobs, jobs.submit("refresh", {}, "anna").id)
    assert (job.state, job.attempts, job.error["kind"]) == ("failed", 1, "ZeroDivisionError")
    assert "ZeroDivisionError: division by zero" in job.message
    assert "Traceback" in caplog.text


def test_changes_are_numbered_and_the_last_one_is_never_missed(jobs, quick):
    job = jobs.submit("refresh", {}, "anna")
    seen, last = [], 0

    def is_done():
        nonlocal last
        for changed in jobs.changed(last):
            assert changed.change > last
            last = changed.change
            seen.append(changed.state)
        return seen[-1:] == ["done"]

    until(is_done)
    assert (job.stage, job.done, job.total, job.message) == ("reading", 3, 4, "Done.")
    wait(jobs, job.id, lambda job: job.id not in jobs._processes)
    assert jobs.changed(job.change) == []


def test_unfinished_jobs_resume_when_the_service_restarts(own, many, slow, monkeypatch):
    first = Jobs(own, [many])
    first.start()
    adding, waiting = first.submit("add", {"folder": str(many)}, "anna"), first.submit("refresh", {}, "ben")
    wait(first, adding.id, is_reading)
    first.close()  # leaves the stored states running and queued, as a kill does
    with closing(JobLedger(own, bool)) as ledger:
        assert [fields["state"] for fields in ledger.read().values()] == ["running", "queued"]
    monkeypatch.setattr(module, "_START", FAKE.format(seconds=0.02))
    second = Jobs(own, [many])
    second.start()
    try:
        order = wait(second, adding.id).result
        assert order["arguments"] == {"folder": str(many), "roots": [str(many)], "author": "anna"}
        assert (order["kind"], order["collection"], order["within"]) == ("add", str(own), [str(many)])
        assert (wait(second, waiting.id).state, second.get(waiting.id).author) == ("done", "ben")
        assert second.get(adding.id).ended <= second.get(waiting.id).started
        assert second.submit("refresh", {}, "anna").id == waiting.id + 1
    finally:
        second.close()


def test_a_cancelled_job_ends_immediately(jobs, slow, monkeypatch):
    running, queued = jobs.submit("fit", {"spec": None}, "anna"), jobs.submit("refresh", {}, "anna")
    wait(jobs, running.id, is_reading)
    assert jobs.counts() == {"queued": 1, "running": 1}
    assert jobs.cancel(queued.id).state == "cancelled"
    assert jobs.cancel(running.id).state == "cancelled"
    wait(jobs, running.id, lambda job: job.id not in jobs._processes)
    assert jobs.cancel(running.id).message.startswith("The job was cancelled")
    assert jobs.cancel(99) is None
    monkeypatch.setattr(module, "_START", FAKE.format(seconds=0.02))
    assert wait(jobs, jobs.submit("refresh", {}, "anna").id).state == "done"


def test_the_same_job_is_not_queued_twice(jobs, slow, monkeypatch):
    first = jobs.submit("refresh", {}, "anna")
    wait(jobs, first.id, lambda job: job.state == "running")
    second = jobs.submit("refresh", {}, "ben")  # a new job, because the first may already have listed the files
    assert second.id == first.id + 1
    assert jobs.submit("refresh", {}, "carl").id == second.id
    drawn = jobs.ensure("map", {"space": None}, "anna")
    wait(jobs, drawn.id, is_reading)  # runs in another queue, at the same time as the first job
    assert jobs.ensure("map", {"space": None}, "ben").id == drawn.id
    jobs.cancel(drawn.id)
    assert jobs.ensure("map", {"space": None}, "ben").id == drawn.id  # it has just ended
    monkeypatch.setattr(module, "MAX_QUEUED", 1)
    assert jobs.ensure("map", {"space": "color"}, "anna") is None
    with pytest.raises(LockedError, match="queue is full"):
        jobs.submit("fit", {}, "anna")


def test_each_kind_of_job_calls_its_verb(own, many):
    reported = []
    with Collection(own) as collection:
        do = {
            kind: partial(verb, collection, progress=lambda *step: reported.append(step))
            for kind, verb in KINDS.items()
        }
        result, message = do["add"]({"folder": str(many), "roots": [str(many)]})
        assert (result["added"], message) == (N, f"{N} added.")
        assert "reading" in [stage for stage, *_ in reported]
        (many / "broken.png").write_bytes(b"no picture")
        assert do["refresh"]({})[1] == "0 added, 1 skipped."
        (many / "broken.png").unlink()
        assert do["fit"]({"spec": "small = color() | pca(dim=8)"})[0] == {"fitted": {"small": 60 + N}}
        assert do["map"]({"space": "small"})[0] == {"space": "small", "points": 60 + N}
        result, _ = do["duplicates"]({"tier": "alike"})
        assert result == {"tier": "alike", "groups": len(collection.known_duplicates("alike")[0])}
        result, _ = do["classify"]({})
        assert sum(result["predicted"].values()) + result["none"] == N
        with pytest.raises(InputError):
            do["add"]({"folder": "/etc", "roots": [str(many)]})
        items = [format_id(item.id) for item in collection.page(Filter(path=f"{many}/*"), limit=2).items]
        assert do["remove"]({"items": [*items, "0" * 16]})[0] == {"removed": 2, "action": 2}
        assert do["remove"]({"items": items})[0] == {"removed": 0, "action": None}
        assert len(collection) == 60 + N - 2
        assert len(list(many.iterdir())) == N  # the files are kept


def test_a_job_with_invalid_arguments_fails_with_a_message(jobs):
    job = wait(jobs, jobs.submit("fit", {"spec": "nonsense("}, "anna").id)
    assert (job.state, job.error["kind"], job.attempts) == ("failed", "SpecError", 1)
    assert "nonsense" in job.message


def test_jobs_of_a_later_version_are_skipped_and_kept(own, slow):
    made = Job(0, "refresh", {}, "anna", 1.0, "done", ended=2.0).fields()
    odd = [{"kind": "evil"}, {"arguments": ["a"]}, {"colour": "red"}]  # possible fields of a later version
    with closing(JobLedger(own, bool)) as ledger:
        for fields in ({}, *odd, {}):
            ledger.add(made | fields)
    with closing(Jobs(own)) as jobs:
        jobs.start()
        assert [job.id for job in jobs.all()] == [5, 1]
        assert jobs.submit("refresh", {}, "anna").id == 6
    with closing(JobLedger(own, bool)) as ledger:
        assert list(ledger.read()) == [1, 2, 3, 4, 5, 6]


def test_only_the_last_ended_jobs_are_kept(own, slow, monkeypatch):
    monkeypatch.setattr(module, "MAX_ENDED", 3)
    with closing(JobLedger(own, bool)) as ledger:
        ledger.add(Job(0, "refresh", {}, "anna", 1.0).fields())
        for _ in range(5):
            ledger.add(Job(0, "refresh", {}, "anna", 1.0, "done", ended=2.0).fields())
    with closing(Jobs(own)) as jobs:
        jobs.start()
        jobs.submit("fit", {"spec": None}, "anna")
        assert [job.id for job in jobs.all()] == [7, 6, 5, 4, 1]
    with closing(JobLedger(own, bool)) as ledger:
        assert list(ledger.read()) == [1, 4, 5, 6, 7]


@pytest.mark.parametrize("name", ["jobs.sqlite", "jobs.lock"])
def test_submit_raises_an_error_if_jobs_cannot_be_stored(own, name):
    (own / name).mkdir()
    jobs = Jobs(own)
    jobs.start()
    with pytest.raises(StoreError, match=name):
        jobs.submit("refresh", {}, "anna")
    assert jobs.ensure("map", {"space": None}, "anna") is None
    assert jobs.all() == []
    jobs.close()


def test_a_second_service_has_no_jobs_and_reports_why(jobs, own, caplog):
    with closing(Jobs(own)) as second:
        second.start()
        with pytest.raises(LockedError, match=f"Another service is running the jobs of {own}. Use that one, "):
            second.submit("refresh", {}, "anna")
        assert second.ensure("map", {"space": None}, "anna") is None
    assert "Jobs are disabled: Another service" in caplog.text


def test_links_are_only_followed_into_allowed_folders_and_sources(own, tmp_path):
    """Add and refresh skip and report links that lead elsewhere. Known pictures stay in the collection."""
    root, other = tmp_path / "root", tmp_path / "other"
    for red, folder in enumerate((root / "a", root / "b", other)):
        folder.mkdir(parents=True)
        Image.new("RGB", (40, 30), (red, 10, 200)).save(folder / "x.png")
    (root / "a" / "loop").symlink_to(root)
    (root / "a" / "out").symlink_to(other)
    (root / "a" / "secret.png").symlink_to(other / "x.png")
    with Collection(own, within=[root]) as collection:
        result, _ = KINDS["add"](collection, {"folder": str(root / "a"), "roots": [str(root)]}, silent)
        assert result["added"] == 2  # the second picture, in b, is found through the link loop
        assert result["skipped"] == dict.fromkeys([f"{root}/a/out", f"{root}/a/secret.png"], OUTSIDE)
        again, message = KINDS["refresh"](collection, {}, silent)
        assert (again["skipped"], message) == ({}, "0 added, 2 skipped as before.")
        assert collection.skipped() == result["skipped"]
        for folder in (other, root / ".." / "other", root / "a" / "out"):
            with pytest.raises(InputError, match="inside an allowed folder"):
                KINDS["add"](collection, {"folder": str(folder), "roots": [str(root)]}, silent)
    with Collection(own) as collection:  # as on the command line, which follows links
        assert collection.refresh().added == 1  # out/x.png; secret.png is a copy of it
        assert len(collection) == 60 + 3
        assert collection.skipped() == {}
    shutil.rmtree(root / "a")
    (root / "a").symlink_to(other)  # the source is now a link
    with Collection(own, within=[root]) as collection:
        assert KINDS["refresh"](collection, {}, silent)[0]["skipped"] == {f"{root}/a": OUTSIDE}
    with Collection(own, within=[root, other]) as collection:
        assert not KINDS["refresh"](collection, {}, silent)[0]["skipped"]


@pytest.mark.parametrize(
    "name", ["../../x.jpg", "/etc/passwd", "..", ".hidden.png", "a\0b", "ü" * 500, "x" * 5000, "", "a\n.jpg"]
)
def test_file_names_from_clients_are_made_safe(name, tmp_path, pictures):
    data = next(pictures.rglob("*.jpg")).read_bytes()
    (saved,) = save_files(tmp_path, [(name, data)])
    (file,) = (tmp_path / "uploads").iterdir()
    assert file.name.startswith(f"{saved.item:016x}-")
    assert file.suffix in (".jpg", ".png")
    assert len(file.name) < 100
    assert file.read_bytes() == data
    assert safe_name(name).isascii()
    save_files(tmp_path, [("again.jpg", data)])  # the same picture under another name
    assert len(list((tmp_path / "uploads").iterdir())) == 1


def test_a_file_without_the_signature_of_a_picture_is_not_saved(tmp_path):
    with pytest.raises(ImageError, match="is not an image"):
        save_files(tmp_path, [("x.jpg", b"<html>")])
    assert not (tmp_path / "uploads").exists()


def test_either_all_files_of_a_request_are_saved_or_none(tmp_path, monkeypatch):
    good = [(f"{i}.jpg", b"\xff\xd8\xff" + bytes([i])) for i in range(3)]
    with pytest.raises(ImageError, match=r"no\.txt\.jpg is not an image.*None of the files in this request were saved"):
        save_files(tmp_path, [*good, ("no.txt.jpg", b"text")])
    assert list(tmp_path.rglob("*.jpg")) == []
    save_files(tmp_path, good[:1])
    atomic_write = uploads.atomic_write

    def full(target):
        if target.name.endswith("-2.jpg"):
            raise FullError("No space left.")
        return atomic_write(target)

    monkeypatch.setattr(uploads, "atomic_write", full)
    with pytest.raises(FullError):
        save_files(tmp_path, good)
    assert [path.name[17:] for path in (tmp_path / "uploads").iterdir()] == ["0.jpg"]  # saved by the earlier request


def test_an_unfinished_file_of_a_killed_process_is_removed(tmp_path):
    data = b"\xff\xd8\xff and more"
    (saved,) = save_files(tmp_path, [("x.jpg", data)])
    with pytest.raises(FullError), uploads.atomic_write(saved.path) as part:
        raise FullError("No space left.")
    saved.path.rename(part)  # as if the process had been killed while writing
    assert save_files(tmp_path, [("x.jpg", data)])[0].path == saved.path
    assert saved.path.read_bytes() == data
    assert not part.exists()
    uploads.delete_files(save_files(tmp_path, [("again.jpg", data), ("y.jpg", data + b"!")]))
    assert list((tmp_path / "uploads").iterdir()) == [saved.path]  # the earlier file is kept


def test_a_removed_upload_is_not_added_again_by_the_next_job(own, pictures):
    first, second = (path.read_bytes() + b"!" for path in sorted(pictures.rglob("*.jpg"))[:2])  # not in the collection
    send = {"folder": str(own / "uploads"), "uploads": True}
    with Collection(own) as collection:
        (saved,) = save_files(own, [("a.jpg", first)])
        assert KINDS["add"](collection, send, silent)[0]["added"] == 1
        assert KINDS["remove"](collection, {"items": [format_id(saved.item)]}, silent)[0] == {"removed": 1, "action": 2}
        save_files(own, [("b.jpg", second)])
        assert KINDS["add"](collection, send, silent)[0]["added"] == 1
        assert not collection.has([saved.item])
        assert (own / "uploads" / ".removed" / saved.path.name).read_bytes() == first  # the file is moved, not deleted
        save_files(own, [("a.jpg", first)])  # a file that is uploaded again is added
        assert KINDS["add"](collection, send, silent)[0]["added"] == 1


def test_a_job_has_a_lower_priority_than_searches(tmp_path):
    Collection(tmp_path / "c.lookalike", create=True).close()
    script = (
        "import os; from lookalike.server import job_worker as worker;"
        "worker.KINDS['map'] = lambda *_: ({'nice': os.nice(0)}, ''); worker.main()"
    )
    order = {
        "collection": str(tmp_path / "c.lookalike"),
        "within": None,
        "cluster": None,
        "device": "auto",
        "kind": "map",
        "arguments": {},
    }
    process = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    process.stdin.write(json.dumps(order) + "\n")
    process.stdin.flush()  # flush, but do not close: the process ends when its input is closed
    answer = json.loads(process.stdout.readline())
    process.communicate()
    assert answer["result"]["nice"] == min(19, os.nice(0) + job_worker.NICE)


def test_matrix_products_use_one_thread_in_the_service_and_half_of_the_cores_in_jobs(monkeypatch):
    for name in settings.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")  # set by the user
    settings.limit_blas_threads()
    assert (os.environ["OPENBLAS_NUM_THREADS"], os.environ["OMP_NUM_THREADS"]) == ("1", "3")
    for cores, threads in ((1, "1"), (2, "1"), (8, "4")):
        made = settings.job_environment(cores)
        assert {made[name] for name in (*settings.THREAD_VARIABLES, "NUMBA_NUM_THREADS")} == {threads}
        assert made["PATH"] == os.environ["PATH"]
    for name in settings.THREAD_VARIABLES:
        monkeypatch.delenv(name)


def test_an_event_stream_reads_jobs_only_after_a_change(monkeypatch):
    class Watched:
        last = 5
        reads = 0

        def changed(self, since):
            self.reads += 1
            assert since < self.last
            return [Job(1, "map", {}, "anna", 0.0, change=self.last)]

    monkeypatch.setattr(job_events, "POLL_S", 0.0)
    jobs, closing, turns = Watched(), threading.Event(), []

    def may():
        turns.append(jobs.reads)
        if len(turns) == 50:
            closing.set()
        return True

    async def listen():
        return [
            line
            async for line in job_events.JobEvents(jobs).stream(
                closing, None, None, may, Visible(None, Person("anna", "manage"))
            )
        ]

    lines = asyncio.run(listen())
    assert len(lines) == 2  # the reconnection delay and the job
    assert turns == [1] * 50


def test_the_process_of_a_job_does_not_load_the_service():
    """Every import delays the start of every job."""
    code = "import sys, lookalike.server.job_worker; print({'fastapi', 'sklearn', 'uvicorn'} & set(sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout == "set()\n"
