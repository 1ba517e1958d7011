import functools
import math
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, settings
from onnx import TensorProto, helper
from onnx.parser import parse_model

from lookalike import Collection, cli
from lookalike.collection import adding, picture_text
from lookalike.images.demo import draw_folder
from reading import in_other_processes, in_this_process

signal.signal(signal.SIGINT, signal.default_int_handler)  # background shells ignore it, and tests send it
SLOW = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}  # a busy machine is slow
settings.register_profile("reproducible", derandomize=True, **SLOW)  # the same examples in every run
settings.register_profile("explore", **SLOW)  # new examples in every run: pytest --hypothesis-profile=explore
settings.load_profile("reproducible")


LONG = ("test_page.py", "test_server_jobs.py", "test_docs.py", "test_repair.py", "test_tsvmh.py", "test_workers.py")
"""Long files run first, so that all workers finish at about the same time. The other files run in order of name."""


MEMORY = "/dev/shm"
"""An in-memory file system on Linux."""

TEMPORARY_BYTES = 2 * 2**30
"""Free space required to use a file system for temporary files. The tests write a few hundred megabytes."""


def pytest_configure():
    """Set the environment variables of the pytest-xdist workers and of other child processes."""
    # Without cached bytecode, each of several hundred child processes compiles the package again.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    # By default, idle threads of OpenMP and OpenBLAS spin for a while and slow down the other worker.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")  # log2 of the clock cycles
    # Every commit waits for the disk. No test cuts the power, so in-memory files are safe enough.
    if os.access(MEMORY, os.W_OK) and shutil.disk_usage(MEMORY).free >= TEMPORARY_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", MEMORY)


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: LONG.index(item.path.name) if item.path.name in LONG else len(LONG))
    for item in items:
        if item.path.name.startswith("test_bench"):  # benchmarks request the dimensions of real data from toy data
            item.add_marker(pytest.mark.filterwarnings("ignore::lookalike.errors.FewerDimensionsWarning"))


@pytest.fixture(autouse=True)
def no_processes_left():
    """Stop the processes that joblib keeps for reuse, because some tests count child processes."""
    yield
    pool = sys.modules.get("joblib.externals.loky.reusable_executor")
    if pool is not None and pool._executor is not None:
        pool._executor.shutdown(wait=True, kill_workers=True)


@pytest.fixture(scope="session", autouse=True)
def no_commits_by_time():
    """Commit only by count and size, so that an `add` gives the same segments on a busy machine."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (adding, picture_text):
            patch.setattr(module, "COMMIT_S", math.inf)
        yield


@pytest.fixture(scope="module")
def read_here():
    """Read pictures in the test process, for all tests of a module; see `reading`."""
    with in_this_process():
        yield


@pytest.fixture
def reading_processes():
    """Read pictures in other processes, for one test of a module that uses `read_here`."""
    with in_other_processes():
        yield


@pytest.fixture
def call(own, capsys):
    """A function that runs a command line on the collection `own`, and returns its exit code, stdout and stderr."""

    def run(*words):
        capsys.readouterr()
        code = cli.run(["-c", str(own), *(str(word) for word in words)])
        return code, *capsys.readouterr()

    return run


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """A folder of synthetic pictures, four of each kind. Read-only."""
    folder = tmp_path_factory.mktemp("drawn")
    draw_folder(folder, per_kind=4, random_state=0)
    return folder


@pytest.fixture(scope="session")
def shared(pictures, tmp_path_factory):
    """A function that returns the path of a collection of synthetic pictures of some kinds, or of all. Read-only.

    Each collection is created once per test run.
    """

    @functools.cache
    def make(recipe, *kinds):
        path = tmp_path_factory.mktemp("shared") / "collection"
        with in_this_process(), Collection(path, create=True) as collection:
            collection.add(*(pictures / kind for kind in kinds or [""]), recipes=[recipe])
        return path

    return make


@pytest.fixture(scope="module")
def seen(shared):
    """An open collection of the synthetic pictures with the recipe `color`. Read-only."""
    with Collection(shared("color")) as collection:
        yield collection


@pytest.fixture(scope="module")
def made(request, shared):
    """The path of a collection of the module's KINDS with Fourier features, without labels. Read-only."""
    return shared("plain = fourier()", *request.module.KINDS)


@pytest.fixture
def filled(made, tmp_path):
    """An open copy of `made` that a test can change."""
    with Collection(shutil.copytree(made, tmp_path / "copy")) as collection:
        yield collection


@pytest.fixture
def collection(tmp_path):
    """A new, empty collection."""
    with Collection(tmp_path / "collection", create=True) as made:
        yield made


@pytest.fixture
def mount_disk(tmp_path):
    """A function that mounts a disk of a size such as "2m" for the test and returns its folder."""
    disk = tmp_path / "disk"
    disk.mkdir()

    def mount(size):
        command = [shutil.which("mount") or "false", "-t", "tmpfs", "-o", f"size={size}", "small", disk]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            pytest.skip("no permission to mount a disk")
        return disk

    yield mount
    subprocess.run(["umount", "--lazy", disk], check=False, capture_output=True)


@pytest.fixture
def save(tmp_path):
    """A function that writes a network, given as text, to a file and returns its path."""

    def write(graph):
        path = tmp_path / "net.onnx"
        onnx.save(parse_model(f'<ir_version: 8, opset_import: ["": 17]> {graph}'), path)
        return path

    return write


@pytest.fixture(scope="session")
def network(tmp_path_factory):
    """The path of a tiny ONNX network with one convolution."""
    weights = np.random.default_rng(0).normal(size=(8, 3, 5, 5)).astype(np.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["image", "w"], ["map"], kernel_shape=[5, 5], strides=[4, 4])],
        "tiny",
        [helper.make_tensor_value_info("image", TensorProto.FLOAT, ["n", 3, 32, 32])],
        [helper.make_tensor_value_info("map", TensorProto.FLOAT, ["n", 8, 7, 7])],
        [helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.ravel())],
    )
    path = tmp_path_factory.mktemp("network") / "tiny.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture(scope="session")
def shelf(tmp_path_factory):
    """The path of a collection of sixty labelled synthetic pictures, for the service. Read-only; see `serving`."""
    from serving import make_shelf

    with in_this_process():
        return make_shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="session")
def towers(tmp_path_factory):
    """The files of a small network of pictures and texts; see `towers`."""
    from towers import write_towers

    return write_towers(tmp_path_factory.mktemp("towers"))


@pytest.fixture(scope="module")  # not longer: while Playwright runs, other tests of the process cannot use asyncio
def browser():
    """Chromium, for tests of the web page."""
    from playwright.sync_api import sync_playwright

    from browser import CHROMIUM

    with sync_playwright() as tool:
        browser = tool.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def site(browser, address):
    """Pages of the server at the module's fixture `address`; they must not report errors."""
    from browser import Site

    site = Site(browser, address)
    yield site
    site.close()
    assert not site.complaints
