"""Many cells, several at a time: one process a job, each with its share of the cores.

In: tasks, the cells of a bench that build on the same work. Out: an `Outcome` for each cell, as it comes. A cell that
fails, or takes its process with it, is told as such, and the others go on. Processes are spawned, never forked.
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
from lookalike.types import Progress
from lookalike_bench import described, tables
from lookalike_bench.tables import Bench, Cell

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
"""What libraries read how many threads they may have from."""
TELL_S = 1.0
"""Seconds between two words of a process about how far it is."""

Watch = Callable[[int, str], None]
"""Told what job number … is doing."""
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Task:
    """Cells of one bench that one process fills, in this order."""

    bench: str
    address: str
    """Where the bench is, `module:name`."""
    places: tuple[tuple[str, str], ...]
    """Rows and columns."""


class Orders(NamedTuple):
    """What is the same for every cell."""

    data: str
    seed: int
    keep: str | None


class Outcome(NamedTuple):
    """What became of a cell; without the cell where it failed, or something it needs is not installed, and then why."""

    bench: str
    row: str
    column: str
    cell: Cell | None
    why: str = ""
    missing: bool = False
    """Whether something is not installed: nobody's failure."""


def fill(
    left: Sequence[tuple[Bench, Sequence[tuple[str, str]]]], orders: Orders, jobs: int, watch: Watch
) -> Iterator[Outcome]:
    """The cells of these benches; with several jobs the longest tasks first, and before them what has to be alone."""
    tasks: list[tuple[float, Task]] = []
    for bench, places in left:
        if jobs == 1:
            yield from fill_here(bench, places, orders, watch)
        elif bench.alone and places:  # one process with every core; what it has made for its cells goes with it
            yield from fill_apart([Task(bench.name, tables.BENCHES[bench.name], tuple(places))], orders, 1, watch)
        else:
            tasks += [(sum(bench.seconds(*place) for place in task.places), task) for task in split(bench, places)]
    yield from fill_apart([task for _, task in sorted(tasks, key=lambda one: -one[0])], orders, jobs, watch)


def split(bench: Bench, places: Sequence[tuple[str, str]]) -> list[Task]:
    """The cells of a bench as tasks, in the order in which their first cells come."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for row, column in places:
        groups.setdefault(bench.shares(row, column), []).append((row, column))
    return [Task(bench.name, tables.BENCHES[bench.name], tuple(group)) for group in groups.values()]


def fill_here(bench: Bench, places: Sequence[tuple[str, str]], orders: Orders, watch: Watch) -> Iterator[Outcome]:
    """One cell after the other, in this process, with every core."""
    for row, column in places:
        try:
            with described.keeping(orders.keep):
                progress = _telling(lambda text: watch(0, text), f"{bench.name} {row} {column}")
                cell = tables.fill(bench, row, column, orders.data, seed=orders.seed, progress=progress)
        except MissingError as error:
            yield Outcome(bench.name, row, column, None, str(error), missing=True)
        except Exception as error:  # the other cells are still to be filled
            logger.debug("%s %s %s", bench.name, row, column, exc_info=True)
            yield Outcome(bench.name, row, column, None, _say(error))
        else:
            yield Outcome(bench.name, row, column, cell)


def fill_apart(tasks: Sequence[Task], orders: Orders, jobs: int, watch: Watch) -> Iterator[Outcome]:
    """The cells of all tasks, in the order of the tasks, as many at a time as there are jobs."""
    waiting, running = list(tasks), dict[Connection, _Job]()
    free = list(range(jobs))
    try:
        while waiting or running:
            while waiting and free:
                job = _Job(waiting.pop(0), free.pop(0), orders, jobs)
                running[job.pipe] = job
            for pipe in wait(list(running)):
                job = running[pipe]  # type: ignore[index]
                try:
                    told = job.pipe.recv()
                except (EOFError, OSError):  # it is done, or it is dead
                    running.pop(job.pipe)
                    free.append(job.slot)
                    watch(job.slot, "")
                    left = job.end()
                    if left:
                        yield Outcome(job.task.bench, *left[0], None, f"its process ended ({job.process.exitcode})")
                    if left[1:]:
                        waiting.insert(0, Task(job.task.bench, job.task.address, left[1:]))
                    continue
                if isinstance(told, Outcome):
                    job.done += 1
                    yield told
                else:
                    watch(job.slot, told)
    finally:
        for job in running.values():
            job.process.kill()
            job.end()


class _Job:
    """A process at work on a task."""

    def __init__(self, task: Task, slot: int, orders: Orders, jobs: int):
        self.task, self.slot, self.done = task, slot, 0
        cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        share = cores[slot::jobs] or cores  # more jobs than cores: all have all
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe(duplex=False)
        self.process = context.Process(target=_work, args=(theirs, task, orders, share), daemon=True)
        with _threads(max(1, len(share))):
            self.process.start()
        theirs.close()

    def end(self) -> tuple[tuple[str, str], ...]:
        """Wait for the end of the process; the cells that it has not filled."""
        self.process.join()
        self.pipe.close()
        return self.task.places[self.done :]


def _work(pipe: Connection, task: Task, orders: Orders, cores: Sequence[int]) -> None:
    """What a process does. It ends when nobody listens any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # who started it ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if cores:
        os.sched_setaffinity(0, cores)  # what asks how many cores there are gets its share
    try:
        for outcome in fill_here(tables.at(task.address), task.places, orders, lambda _, text: pipe.send(text)):
            pipe.send(outcome)
    except BrokenPipeError:
        return


def _end_with_parent() -> None:
    """A process whose parent was killed would go on for as long as its cell takes."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)


@contextmanager
def _threads(count: int) -> Iterator[None]:
    """Processes that start in this block have so many threads in each library."""
    before = {name: os.environ.get(name) for name in THREADS}
    os.environ.update(dict.fromkeys(THREADS, str(count)))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _telling(tell: Callable[[str], None], place: str) -> Progress:
    """Progress as words, not too many of them."""
    last = -TELL_S

    def report(stage: str, done: int, total: int | None) -> None:
        nonlocal last
        if time.monotonic() - last >= TELL_S:
            last = time.monotonic()
            tell(f"{place}: {stage}" + (f" {done:,}/{total:,}" if total else ""))

    tell(place)
    return report


def _say(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
