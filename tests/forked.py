"""Processes for tests to kill, forked from one interpreter that has already imported the modules they need.

Importing takes most of the time of a short process, and these tests start many processes.
"""

import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import traceback
from typing import Any, Self

from waiting import TIMEOUT_S


class Forked:
    """Processes that run `main` of a test module, one after the other. Use it as a context manager.

    The arguments of `main` must be strings or numbers.
    """

    def __init__(self, module: str):
        command = [sys.executable, __file__, module]
        self._parent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.pid:  # left over from a failed test
            os.kill(self.pid, signal.SIGKILL)
        self._parent.communicate()

    def start(self, *arguments: Any) -> None:
        """Start a process; `pid` is its id."""
        assert self._parent.stdin is not None
        print(json.dumps(arguments), file=self._parent.stdin, flush=True)
        self.pid = int(self.readline())

    def readline(self) -> str:
        """Return the next line that the process prints."""
        assert self._parent.stdout is not None
        return self._parent.stdout.readline()

    def finish(self) -> tuple[int, list[str]]:
        """Wait until the process has ended; return its exit code and the unread lines."""
        late = threading.Timer(TIMEOUT_S, os.kill, (self.pid, signal.SIGABRT))
        late.start()
        lines = [self.readline().rstrip("\n")]
        while not lines[-1].startswith("exit "):
            lines.append(self.readline().rstrip("\n"))
        late.cancel()
        self.pid = 0
        return int(lines.pop().split()[1]), lines


def serve(module: str) -> None:
    """Fork a process per line of standard input; print its pid before its output and its exit code after it."""
    main = importlib.import_module(module).main
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                print(os.getpid(), flush=True)
                main(*json.loads(line))
                code = 0
            except BaseException:  # noqa: BLE001 — reported by the exit code
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                os._exit(code)
        print("exit", os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)


if __name__ == "__main__":
    serve(sys.argv[1])
