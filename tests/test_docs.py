"""The pages under docs/ keep up with the code: a command, component or public name without a page fails here."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

import lookalike
from lookalike import registry
from lookalike.images.demo import draw_folder
from lookalike.recipes import ABOUT, RECIPES
from serving import copy_shelf, running

ROOT = Path(__file__).parents[1]
PAGES = {path.stem: path.read_text() for path in (ROOT / "docs").glob("*.md")}
README = (ROOT / "README.md").read_text()


def commands():
    from lookalike.cli import app

    groups = [group.typer_instance.info.name for group in app.registered_groups]
    return sorted([*groups, *(command.name or command.callback.__name__ for command in app.registered_commands)])


@pytest.mark.parametrize("command", commands())
def test_every_command_has_its_place_on_the_page_and_in_the_readme(command):
    assert re.search(rf"^#+ .*`?{command}\b", PAGES["cli"], re.MULTILINE)
    assert re.search(rf"\b{command}\b", README)


@pytest.mark.parametrize("name", [name for name in lookalike.__all__ if not name.startswith("__")])
def test_every_public_name_is_described(name):
    assert any(re.search(rf"`(lookalike\.)?{name}\b", page) for page in PAGES.values())


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in registry.COMPONENTS for name in registry.names(kind)]
)
def test_every_component_is_described(kind, name):
    assert any(re.search(rf"`{name}[`(]", page) for page in PAGES.values())


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_described(recipe):
    assert recipe in ABOUT
    assert f"`{recipe}`" in PAGES["recipes"]


def test_every_noun_of_the_package_has_a_page():
    nouns = [path.name for path in (ROOT / "src/lookalike").iterdir() if (path / "__init__.py").exists()]
    assert {noun for noun in nouns if noun != "engine"} <= set(PAGES)
    assert {"collection", "errors", "registry", "recipes"} <= set(PAGES)


def test_links_between_pages_lead_somewhere():
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text()):
            assert "://" in target or (path.parent / target).exists(), f"{path.name} → {target}"


def examples():
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
        if blocks:
            yield pytest.param("\n".join(blocks), id=path.stem)


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    folder = tmp_path_factory.mktemp("drawn")
    draw_folder(folder, per_kind=2, random_state=0)
    return folder


@pytest.mark.parametrize("code", list(examples()))
def test_the_python_examples_run(code, drawn, tmp_path, monkeypatch):
    """Each page's examples, one after the other, beside a folder `pictures` with a few drawn ones of each kind."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(drawn, tmp_path / "pictures")
    exec(compile(code, "example", "exec"), {"__name__": "example"})


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl here")
def test_the_curl_examples_of_the_service_run(shelf, tmp_path):
    block = next(block for block in re.findall(r"^```sh\n(.*?)^```", PAGES["server"], re.M | re.S) if "curl" in block)
    with running(copy_shelf(shelf, tmp_path)) as service:
        commands = block.replace("8321", str(service.port)).replace("curl -s", "curl -sf")
        bash = ["bash", "-euo", "pipefail", "-c", commands]
        done = subprocess.run(bash, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"results":[' in done.stdout
    assert (tmp_path / "items.csv").read_text().startswith("id,path")
