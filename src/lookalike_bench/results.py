"""Saved results of benchmarks: an append-only file of JSON lines.

A `Record` is a cell with the code, the machine and the versions it was run with. Each line is written completely before
the next cell starts; an interrupted run resumes with the cells that are not in the file.
"""

import dataclasses
import json
import os
import platform
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import lookalike
from lookalike.errors import InputError
from lookalike.system import count_cores, installed_bytes, processor, sync_file
from lookalike_bench.tables import Cell

VERSIONS = ("numpy", "scipy", "scikit-learn", "numba", "faiss-cpu", "onnxruntime", "opencv-python-headless")
"""Packages whose versions can change results."""

RENAMED = {
    "× as fast": "speed-up",
    "× as good": "quality ratio",
    "bytes an item": "bytes per item",
    "mAP of 20": "mAP@20",
}
"""Names of measures in older files, and their current names."""


@dataclass(frozen=True)
class Record:
    """A cell and its origin."""

    cell: Cell
    when: str
    """Time in UTC."""
    commit: str
    """The commit of the checkout, with `+` if files were changed since; or the version of the package."""
    machine: str
    versions: dict[str, str]


def record(cell: Cell) -> Record:
    """A record of a cell that this process has just filled."""
    return Record(cell, datetime.now(UTC).isoformat(timespec="seconds"), commit(), machine(), versions())


def append(file: Path, new: Record) -> None:
    """Append a record to the file and sync it to disk."""
    line = json.dumps(dataclasses.asdict(new), allow_nan=True) + "\n"
    try:
        with file.open("ab+") as stream:
            if stream.tell() and not _ends_a_line(stream):
                line = "\n" + line  # a run was killed while it wrote a line
            stream.write(line.encode())
            stream.flush()
            sync_file(stream.fileno())
    except OSError as error:
        raise InputError(
            f"Cannot write results to {file}: {error.strerror}. Give another file with --results."
        ) from None


def read(file: Path) -> list[Record]:
    """Every record of a file, oldest first; incomplete lines are skipped, a missing file has no records."""
    records = []
    try:
        lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"Cannot read {file}: {error}. Give a file written by `lookalike bench run --results`."
        ) from None
    for number, line in enumerate(lines, 1):
        try:
            given: dict[str, Any] = json.loads(line)
            cell = Cell(**given["cell"])
            if not isinstance(cell.measure, str):
                raise TypeError(f"measure must be text, got {cell.measure!r}")
            records.append(Record(**{**given, "cell": replace(cell, measure=RENAMED.get(cell.measure, cell.measure))}))
        except json.JSONDecodeError:
            continue
        except (TypeError, KeyError, ValueError) as error:
            raise InputError(f"Line {number} of {file} is not a result of `lookalike bench run`: {error}.") from None
    return records


def latest(records: Iterable[Record]) -> list[Record]:
    """The last record of each cell and seed, in the order of their first records."""
    return list({(one.cell.bench, one.cell.row, one.cell.column, one.cell.seed): one for one in records}.values())


def done(records: Sequence[Record], bench: str, seed: int) -> dict[tuple[str, str], Record]:
    """Records of the current code, by row and column."""
    mine = (one for one in latest(records) if one.cell.bench == bench and one.cell.seed == seed)
    return {(one.cell.row, one.cell.column): one for one in mine if one.commit == commit()}


@cache
def commit() -> str:
    """The commit of the checkout, or the version of the package."""
    home = Path(lookalike.__file__).parent
    try:
        words = ["git", "-C", str(home), "describe", "--always", "--abbrev=12", "--dirty=+", "--exclude=*"]
        found = subprocess.run(words, capture_output=True, text=True, timeout=10, check=True)
        return found.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return lookalike.__version__


@cache
def machine() -> str:
    """The processor, the number of usable cores, and the memory."""
    model = processor() or platform.processor() or platform.machine()
    return f"{model}, {count_cores()} cores, {installed_bytes() / 2**30:.0f} GiB"


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of the packages that results depend on."""
    found = {"python": platform.python_version()}
    for name in VERSIONS:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def _ends_a_line(stream: Any) -> bool:
    stream.seek(-1, os.SEEK_END)
    return bool(stream.read(1) == b"\n")
