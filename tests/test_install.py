"""The wheel for PyPI: its content, and its use in an environment that contains only its dependencies."""

import re
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from importlib import metadata
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement

import lookalike
from lookalike.images.demo import draw_folder
from waiting import TIMEOUT_S

ROOT = Path(__file__).parents[1]
DATA = [
    "lookalike/py.typed",
    "lookalike/__init__.pyi",
    "lookalike/index/__init__.pyi",
    "lookalike/classes/wordnet.npz",
    "lookalike/server/static/index.html",
    "lookalike/server/static/main.js",
]
LICENCES = ["licenses/LICENSE", "licenses/src/lookalike/classes/wordnet-licence.txt"]


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """The folder with the source distribution and the wheel built from it, in the way of a release."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True, timeout=TIMEOUT_S)
    return folder


@pytest.fixture(scope="module")
def wheel(dist):
    (path,) = dist.glob("lookalike-*-py3-none-any.whl")
    return path


@pytest.fixture(scope="module")
def about(wheel):
    """The metadata in the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name))


@pytest.fixture(scope="module")
def programs(wheel, about, tmp_path_factory):
    """The programs of an environment with the wheel and the packages that a plain `pip install` adds."""
    home = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(home)], check=True, timeout=TIMEOUT_S)
    (packages,) = home.glob("lib/python3*/site-packages")
    for name in find_dependencies(about.get_all("Requires-Dist")):
        link_package(name, packages)
    install = ["-m", "pip", "--python", str(home), "install", "--quiet", "--no-index", "--no-deps", "--no-compile"]
    subprocess.run([sys.executable, *install, str(wheel)], check=True, timeout=TIMEOUT_S)
    return home / "bin"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """A folder with a folder `pictures`."""
    folder = tmp_path_factory.mktemp("installed")
    draw_folder(folder / "pictures", per_kind=1)
    return folder


def find_dependencies(requirements):
    """The names of the packages that these requirements need, directly or indirectly."""
    found, pending = {}, [(line, {""}) for line in requirements]
    while pending:
        line, extras = pending.pop()
        need = Requirement(line)
        if need.marker is not None and not any(need.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        wanted = {"", *need.extras}
        if not wanted <= found.get(need.name, set()):
            found[need.name] = found.get(need.name, set()) | wanted
            pending.extend((below, wanted) for below in metadata.requires(need.name) or [])
    return sorted(found)


def link_package(name, target):
    """Make an installed package visible in another environment."""
    package = metadata.distribution(name)
    for top in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
        link = target / top
        if not link.exists():
            link.symlink_to(package.locate_file(top))


@pytest.fixture
def call(programs, pictures, monkeypatch):
    """Run a program of the environment next to the folder `pictures`."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("LOOKALIKE_COLLECTION", "photos.lookalike")

    def run(program, *words, code=0):
        command = [str(programs / program), *words]
        done = subprocess.run(command, cwd=pictures, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    return run


def test_twine_accepts_the_distributions(dist):
    check = [sys.executable, "-m", "twine", "check", "--strict", *map(str, dist.iterdir())]
    done = subprocess.run(check, capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("PASSED") == 2


def test_the_wheel_has_the_packages_with_their_data_and_licences(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert [name for name in DATA if name not in names] == []
    assert [name for name in LICENCES if not any(path.endswith(f".dist-info/{name}") for path in names)] == []
    source = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src").rglob("*") if path.is_file()}
    source = {name for name in source if "__pycache__" not in name}
    assert {name for name in names if ".dist-info/" not in name} == source
    assert {name.partition("/")[0] for name in names if ".dist-info/" not in name} == {"lookalike", "lookalike_bench"}


def test_the_version_is_the_same_everywhere(about):
    assert about["Version"] == lookalike.__version__
    number = lookalike.__version__.partition(".dev")[0]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == number


def test_the_page_on_pypi_has_no_links_that_work_only_in_the_repository(about):
    text = about.get_payload(decode=True).decode()
    assert text.startswith("# Lookalike\n")
    assert re.findall(r"\]\((?!https://)[^)]*\)|<img|\]\[", text) == []


def test_every_extra_of_the_page_on_pypi_exists(about):
    table = re.findall(r"^\| (`.*?) \|", about.get_payload(decode=True).decode(), re.MULTILINE)
    named = set(re.findall(r"`(\w+)`", " ".join(table)))
    assert {"large", "heic"} <= named
    assert named <= set(about.get_all("Provides-Extra"))


def test_the_commands_on_pypi_are_those_of_the_readme(about):
    readme = (ROOT / "README.md").read_text()
    lines = [line for line in about.get_payload(decode=True).decode().splitlines() if line.startswith("lookalike ")]
    assert len(lines) > 5
    assert [line for line in lines if line not in readme] == []


def test_the_installed_command_line_adds_and_searches(call, pictures):
    assert "Commands:" in call("lookalike", "--help")
    assert call("lookalike", "--version") == f"lookalike {lookalike.__version__}\n"
    call("lookalike", "add", "pictures")
    assert "sunset-000.jpg" in call("lookalike", "search", "pictures/sunset/sunset-000.jpg", "-k", "3")
    assert "pictures" in call("lookalike", "search", "flower", "-k", "3")
    assert '"x"' in call("lookalike", "map", "--json")


def test_the_installed_service_sends_its_page(call, programs, pictures):
    call("lookalike", "add", "pictures/sunset", "--recipe", "color")
    command = [str(programs / "lookalike"), "serve", "--port", "0"]
    with subprocess.Popen(command, cwd=pictures, stdout=subprocess.PIPE, text=True) as service:
        try:
            url = re.search(r"http://127\.0\.0\.1:\d+", service.stdout.readline())[0]
            assert httpx.get(f"{url}/healthz").status_code == 200
            assert "main.js" in httpx.get(url, follow_redirects=True).text
        finally:
            service.terminate()


def test_the_python_example_on_pypi_runs(call, about, pictures):
    (example,) = re.findall(r"^```python\n(.*?)^```", about.get_payload(decode=True).decode(), re.MULTILINE | re.DOTALL)
    assert "pictures added" in call("python", "-c", example)
    shutil.rmtree(pictures / "my.lookalike")


def test_a_part_that_needs_an_extra_names_it(call):
    assert "pip install 'lookalike[large]'" in call("lookalike", "fit", "codes(bits=64)", code=2)
    assert "pip install 'lookalike[cluster]'" in call("lookalike", "cluster", "start", code=2)


def test_feedback_on_many_pictures_works_without_numba(call, pictures):
    code = """
from lookalike import Collection
from lookalike.collection import indexes
indexes.LEAVES_MIN = 2
with Collection("large.lookalike", create=True) as collection:
    collection.add("pictures", recipes=["color"])
    session = collection.session("pictures/fish/fish-000.jpg")
    print(len(session.round().best), "of", len(collection))
"""
    assert re.match(r"\d+ of 12\n", call("python", "-c", code))
    shutil.rmtree(pictures / "large.lookalike")
