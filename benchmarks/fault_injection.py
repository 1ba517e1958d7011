"""Inject faults at every call that changes a collection's files; print the number of points and the failures.

    python benchmarks/fault_injection.py [VERB …] [--python]

With a C compiler, faults are injected into the calls of the process to the C library, including those of SQLite. With
`--python`, or without a compiler, they are injected into Python's calls and SQLite's write statements. The exit code is
1 if any point fails.
"""

import argparse
import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

from faults import VERBS, Calls, run_points, scratch_folder  # noqa: E402

BEFORE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p)
AFTER = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p)


class CallsToC(Calls):
    """The calls of this process to the C library, reported by `watched_calls.c`."""

    trusts_sqlite = False

    def __enter__(self) -> "CallsToC":
        self._hooks: tuple[Any, Any] = BEFORE(self._show), AFTER(self._follow)
        ctypes.CDLL(None).watch_calls(*self._hooks)
        return self

    def __exit__(self, *error: object) -> None:
        ctypes.CDLL(None).watch_calls(None, None)

    def _show(self, verb: bytes, path: bytes) -> int:
        where = self._inside(os.fsdecode(path))
        if where is None:
            return 0
        try:
            self.make(verb.decode(), where, lambda: None)
        except OSError as error:
            return error.errno or 0
        return 0

    def _follow(self, verb: bytes, path: bytes, target: bytes) -> None:
        where = self._inside(os.fsdecode(path))
        if where is not None and self._disk is not None:
            self._disk.follow(verb.decode(), where, os.fsdecode(target))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("verbs", nargs="*", metavar="VERB", help=f"One or more of: {', '.join(VERBS)}. Default: all.")
    parser.add_argument("--python", action="store_true", help="Use Python's calls, even if there is a C compiler.")
    asked = parser.parse_args()
    compiler = shutil.which("cc")
    if not asked.python and compiler and "WATCHED_CALLS" not in os.environ:
        with tempfile.TemporaryDirectory() as folder:
            library = f"{folder}/watched_calls.so"
            source = str(HERE / "watched_calls.c")
            subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True)
            environment = {**os.environ, "LD_PRELOAD": library, "WATCHED_CALLS": "1"}
            return subprocess.run([sys.executable, *sys.argv], env=environment, check=False).returncode
    in_c = "WATCHED_CALLS" in os.environ and not asked.python
    print(f"calls of {'the process to the C library' if in_c else 'Python, and statements of SQLite'}")
    started, points, problems = time.monotonic(), Counter[str](), list[str]()
    with scratch_folder() as folder:
        verbs = dict.fromkeys(asked.verbs or VERBS, 1)
        for name, run, outcome in run_points(folder, verbs, CallsToC if in_c else Calls):
            counts = ", ".join(f"{n} {fault}" for fault, n in outcome.points.items())
            print(f"{name}: {len(run.calls)} calls; {counts} ({outcome.states} different states)", flush=True)
            points += outcome.points
            problems += outcome.problems
            for problem in outcome.problems:
                print(f"    {problem}", flush=True)
    print(f"{points.total()} points, {len(problems)} failed, {time.monotonic() - started:.0f} s")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
