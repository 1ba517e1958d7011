"""Calls to the operating system: one package owns them, and each system has the same functions."""

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

from lookalike import system
from lookalike.system import macos

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
OWN_MODULES = {"fcntl", "grp", "posix", "pty", "pwd", "resource", "syslog", "termios", "tty"}
"""Modules that Python has only on POSIX systems."""
OWN_CALLS = {
    "O_CLOEXEC", "O_NONBLOCK", "fork", "geteuid", "getuid", "killpg", "nice", "posix_fadvise", "posix_fallocate",
    "pread", "pthread_sigmask", "pwrite", "sched_getaffinity", "sched_setaffinity", "setitimer", "setsid", "statvfs",
    "sysconf", "SIGALRM", "SIGHUP", "SIGKILL", "SIGPROF",
}  # fmt: skip
"""Names in `os` and `signal` that Python has only on POSIX systems."""


def names_of(path):
    """The imported modules and the attributes in a file, and the folders /proc and /sys."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("os", "signal"):
            yield node.attr
        elif isinstance(node, ast.Constant) and str(node.value).startswith(("/proc/", "/sys/")):
            yield "/".join(str(node.value).split("/")[:2])


def test_only_one_package_makes_calls_of_one_kind_of_system():
    found = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in SOURCES
        if path.parent.name != "system"
        for name in names_of(path)
        if name in OWN_MODULES | OWN_CALLS | {"/proc", "/sys"}
    }
    assert found == set()
    inside = {name for path in SOURCES if path.parent.name == "system" for name in names_of(path)}
    assert {"fcntl", "pread", "/proc"} <= inside


def test_every_system_has_the_same_functions():
    files = {name: ROOT / f"src/lookalike/system/{name}.py" for name in ("linux", "macos")}
    signatures = {
        name: {
            node.name: ast.unparse(node.args)
            for node in ast.parse(path.read_text()).body
            if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")
        }
        for name, path in files.items()
    }
    assert signatures["linux"] == signatures["macos"]
    assert set(signatures["linux"]) <= set(system.__all__)


def test_another_process_cannot_lock_a_locked_file(tmp_path):
    path = tmp_path / "lock"
    code = "import sys; from lookalike import system\nwith open(sys.argv[1]) as f: print(system.try_lock(f.fileno()))"
    command = [sys.executable, "-c", code, str(path)]
    with path.open("w") as file:
        assert system.try_lock(file.fileno())
        assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "False\n"
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize("reserve", [system.reserve, macos.reserve])
def test_reserved_space_is_really_taken(reserve, tmp_path):
    with (tmp_path / "reserve").open("wb") as file:
        reserve(file.fileno(), 2**20)
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="macOS has no such limit")
def test_a_limit_of_memory_stops_an_allocation():
    code = "from lookalike.system import limit_memory; limit_memory(2**26); bytearray(2**28)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "MemoryError" in done.stderr


def test_a_process_that_exceeds_its_time_is_recognized():
    code = "from lookalike.system import limit_time; limit_time(0.01, 60)\nwhile True: pass"
    ended = subprocess.run([sys.executable, "-c", code], check=False).returncode
    assert system.ran_out_of_time(ended)
    assert not system.was_killed(ended)
    assert "timer" in system.describe_end(ended)


def test_the_number_of_cores_is_that_which_the_process_may_use():
    assert system.count_cores() == len(system.usable_cores()) <= (os.cpu_count() or 1)
    assert system.installed_bytes() > 2**28
    assert 2**20 < system.peak_bytes() < system.installed_bytes()
