"""Fill many cells, several at the same time: one process per job, each with its share of the cores.

`fill` yields an `Outcome` per cell as soon as it is done. A cell that raises an error or kills its process is reported
as failed, and the other cells are still filled. Processes are spawned, never forked.
"""

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import NamedTuple

from lookalike.errors import MissingError
from lookalike.system import usable_cores, use_cores
from lookalike.types import Progress
from lookalike_bench import tables, vectors
from lookalike_bench.tables import Bench, Cell

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""Environment variables from which libraries read their number of threads."""
PROGRESS_S = 1.0
"""Seconds between two progress messages of a process."""

Watch = Callable[[int, str], None]
"""Called with the number of a job and a progress text."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """Cells of one benchmark that one process fills, in this order."""

    bench: str
    address: str
    """Address of the benchmark, `module:attribute`."""
    places: tuple[tuple[str, str], ...]
    """Rows and columns."""


class Settings(NamedTuple):
    """Settings of a run, the same for every cell."""

    data: str
    seed: int
    cache: str | None
    """Folder to cache vectors of pictures in."""


class Outcome(NamedTuple):
    """A filled cell, or the reason why it was not filled."""

    bench: str
    row: str
    column: str
    cell: Cell | None
    why: str = ""
    missing: bool = False
    """Whether a package that the cell needs is not installed; this does not count as a failure."""


def fill(
    left: Sequence[tuple[Bench, Sequence[tuple[str, str]]]], settings: Settings, jobs: int, watch: Watch
) -> Iterator[Outcome]:
    """Fill the cells of these benchmarks. With several jobs, benchmarks of time run first, then the longest tasks."""
    tasks: list[tuple[float, Task]] = []
    for bench, places in left:
        if jobs == 1:
            yield from fill_in_this_process(bench, places, settings, watch)
        elif bench.alone and places:  # one process with all cores; its memory is freed when it ends
            yield from fill_in_processes(
                [Task(bench.name, tables.BENCHES[bench.name], tuple(places))], settings, 1, watch
            )
        else:
            tasks += [(sum(bench.seconds(*place) for place in task.places), task) for task in split(bench, places)]
    yield from fill_in_processes([task for _, task in sorted(tasks, key=lambda one: -one[0])], settings, jobs, watch)


def split(bench: Bench, places: Sequence[tuple[str, str]]) -> list[Task]:
    """Group the cells of a benchmark into tasks, in the order of their first cells."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for row, column in places:
        groups.setdefault(bench.shares(row, column), []).append((row, column))
    return [Task(bench.name, tables.BENCHES[bench.name], tuple(group)) for group in groups.values()]


def fill_in_this_process(
    bench: Bench, places: Sequence[tuple[str, str]], settings: Settings, watch: Watch
) -> Iterator[Outcome]:
    """Fill one cell after the other, with all cores."""
    for row, column in places:
        try:
            with vectors.caching(settings.cache):
                progress = _report_to(lambda text: watch(0, text), f"{bench.name} {row} {column}")
                cell = tables.fill(bench, row, column, settings.data, seed=settings.seed, progress=progress)
        except MissingError as error:
            yield Outcome(bench.name, row, column, None, str(error), missing=True)
        except Exception as error:  # the other cells still have to be filled
            logger.debug("%s %s %s", bench.name, row, column, exc_info=True)
            yield Outcome(bench.name, row, column, None, f"{type(error).__name__}: {error}")
        else:
            yield Outcome(bench.name, row, column, cell)


def fill_in_processes(tasks: Sequence[Task], settings: Settings, jobs: int, watch: Watch) -> Iterator[Outcome]:
    """Fill the cells of all tasks, in order, `jobs` tasks at a time."""
    waiting, running = list(tasks), dict[Connection, _Job]()
    free = list(range(jobs))
    try:
        while waiting or running:
            while waiting and free:
                job = _Job(waiting.pop(0), free.pop(0), settings, jobs)
                running[job.pipe] = job
            for pipe in wait(list(running)):
                job = running[pipe]  # type: ignore[index]
                try:
                    message = job.pipe.recv()
                except (EOFError, OSError):  # the process has ended
                    running.pop(job.pipe)
                    free.append(job.slot)
                    watch(job.slot, "")
                    left = job.end()
                    if left:
                        yield Outcome(
                            job.task.bench, *left[0], None, f"its process died with exit code {job.process.exitcode}"
                        )
                    if left[1:]:
                        waiting.insert(0, Task(job.task.bench, job.task.address, left[1:]))
                    continue
                if isinstance(message, Outcome):
                    job.done += 1
                    yield message
                else:
                    watch(job.slot, message)
    finally:
        for job in running.values():
            job.process.kill()
            job.end()


class _Job:
    """A process that fills a task."""

    def __init__(self, task: Task, slot: int, settings: Settings, jobs: int):
        self.task, self.slot, self.done = task, slot, 0
        cores = usable_cores()
        share = cores[slot::jobs] or cores  # more jobs than cores: each may use all cores
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(theirs, task, settings, share), daemon=True)
        with _threads(max(1, len(share))):
            self.process.start()
        theirs.close()

    def end(self) -> tuple[tuple[str, str], ...]:
        """Wait for the process to end; return the cells that it has not filled."""
        self.process.join()
        self.pipe.close()
        return self.task.places[self.done :]


def _work(pipe: Connection, task: Task, settings: Settings, cores: Sequence[int]) -> None:
    """The main function of a process. It ends when the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent process handles Ctrl-C
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if cores:
        use_cores(list(cores))  # libraries that ask for the number of cores get the share
    try:
        for outcome in fill_in_this_process(
            tables.load_from(task.address), task.places, settings, lambda _, text: pipe.send(text)
        ):
            pipe.send(outcome)
    except BrokenPipeError:
        return


def _end_with_parent() -> None:
    """Exit immediately when the parent is killed, instead of when the cell is done."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Limit the threads per library of processes that are started in this block."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _report_to(tell: Callable[[str], None], place: str) -> Progress:
    """Return a progress callback that calls `tell` with text, at most once per PROGRESS_S."""
    last = -PROGRESS_S

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= PROGRESS_S:
            last = time.monotonic()
            tell(f"{place}: {stage}" + (f" {done:,}/{total:,}" if total else ""))

    tell(place)
    return report
