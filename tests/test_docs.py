"""The pages under docs/ cover all commands, components and public names; their examples run and their links work."""

import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import typer

import lookalike
from lookalike import cli, registry
from lookalike.images.demo import draw_folder
from lookalike.recipes import ABOUT, RECIPES
from serving import copy_shelf, running

pytestmark = pytest.mark.usefixtures("read_here")

ROOT = Path(__file__).parents[1]
FILES = sorted((ROOT / "docs").rglob("*.md"))
PAGES = {path.relative_to(ROOT / "docs").with_suffix("").as_posix(): path.read_text() for path in FILES}
README = (ROOT / "README.md").read_text()
SITE = (ROOT / "mkdocs.yml").read_text()
PROGRAM = typer.main.get_command(cli.app)
PROGRAM.list_commands(typer.Context(PROGRAM))  # adds the commands of plugins to PROGRAM.commands
GUIDES = ["quickstart", *(name for name in PAGES if name.startswith("howto/"))]
"""Pages whose commands and Python blocks are run from top to bottom."""


@pytest.mark.parametrize("command", sorted(PROGRAM.commands))
def test_every_command_has_a_heading_on_its_page(command):
    assert re.search(rf"^#+ .*`?{command}\b", PAGES["cli"], re.MULTILINE)


@pytest.mark.parametrize("name", [name for name in lookalike.__all__ if not name.startswith("__")])
def test_every_public_name_is_documented(name):
    assert any(re.search(rf"`(lookalike\.)?{name}\b", page) for page in PAGES.values())


@pytest.mark.parametrize(
    ("kind", "name"), [(kind, name) for kind in registry.COMPONENTS for name in registry.names(kind)]
)
def test_every_component_is_documented_and_in_the_api_reference(kind, name):
    assert any(re.search(rf"`{name}[`(]", page) for page in PAGES.values())
    home = registry.COMPONENTS[kind][name].replace(":", ".")
    assert any(f"\n::: {home}\n" in page for page in PAGES.values()), f"docs/api/ needs a line ::: {home}"


@pytest.mark.parametrize("page", PAGES)
def test_pages_import_public_names_from_their_package(page):
    assert not re.findall(r"^\s*from lookalike\.\w+\.\w+ import .*", PAGES[page], re.MULTILINE)


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_is_documented(recipe):
    assert recipe in ABOUT
    assert f"`{recipe}`" in PAGES["recipes"]


def test_every_package_has_a_page():
    nouns = [path.name for path in (ROOT / "src/lookalike").iterdir() if (path / "__init__.py").exists()]
    pages = {"index": "indexes", "checks": "registry", "system": "howto/install"}  # index.md is the home page
    assert {pages.get(noun, noun) for noun in nouns} <= set(PAGES)
    assert {"collection", "errors", "registry", "recipes"} <= set(PAGES)


def test_every_page_is_in_the_navigation_of_the_site():
    assert [name for name in PAGES if not re.search(rf"[ :]{re.escape(name)}\.md$", SITE, re.MULTILINE)] == []


def slug(heading):
    """Return the anchor of a heading, as the site and most Markdown renderers define it."""
    return re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-")


def test_links_to_pages_and_headings_are_valid():
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *FILES]:
        for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", path.read_text()):
            if "://" in target:
                continue
            page = path.parent / target if target else path
            assert page.exists(), f"{path.name} → {target}"
            if anchor:
                headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
                assert anchor in map(slug, headings), f"{path.name} → {target}#{anchor}"


def test_a_blank_line_comes_before_every_heading():
    for path in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *FILES]:
        text = re.sub(r"^```.*?^```", "", path.read_text(), flags=re.MULTILINE | re.DOTALL)  # ignores comments in code
        assert re.findall(r"^.+\n#+ .*$", text, re.MULTILINE) == [], path.name


def examples():
    for path in [ROOT / "README.md", *FILES]:
        blocks = re.findall(r"^```python\n(.*?)^```", path.read_text(), re.MULTILINE | re.DOTALL)
        if blocks and path.stem != "quickstart" and path.parent.name != "howto":  # these are run below
            yield pytest.param("\n".join(blocks), id=path.stem)


@pytest.fixture(scope="module")
def demo_pictures(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    draw_folder(folder, per_kind=2, random_state=0)
    return folder


@pytest.fixture(scope="module")
def workspace(demo_pictures, tmp_path_factory):
    """A folder with `pictures`, shared by all guides: each finds what the previous ones have added."""
    folder = tmp_path_factory.mktemp("workspace")
    shutil.copytree(demo_pictures, folder / "pictures")
    return folder


@pytest.mark.parametrize("code", list(examples()))
def test_the_python_examples_run(code, demo_pictures, tmp_path, monkeypatch):
    """Run the examples of a page in order, next to a folder `pictures` with a few synthetic pictures of each kind."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(demo_pictures, tmp_path / "pictures")
    exec(compile(code, "example", "exec"), {"__name__": "example"})


@pytest.mark.usefixtures("reading_processes")
@pytest.mark.parametrize("page", GUIDES)
def test_the_commands_of_the_tutorial_and_the_how_to_guides_run(page, workspace, monkeypatch):
    """Run `sh` blocks, one command per line, and Python blocks from top to bottom, but not `shell` blocks."""
    monkeypatch.chdir(workspace)
    monkeypatch.setenv("LOOKALIKE_COLLECTION", "photos.lookalike")
    names = {"__name__": "example"}
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```", PAGES[page], re.MULTILINE | re.DOTALL):
        if language == "python":
            exec(compile(block, page, "exec"), names)
            continue
        for line in block.splitlines():
            program, *words = shlex.split(line, comments=True)
            assert program == "lookalike", line
            assert cli.run(words) == 0, line


def lines():
    """Yield the words of every `lookalike` command in a command block of a page."""
    for page, text in {**PAGES, "README": README}.items():
        for block in re.findall(r"^```(?:sh|bash|shell)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
            for part in re.split(r"\n|&&|\|\|", block):
                if part.strip().startswith("lookalike "):
                    yield pytest.param(shlex.split(part, comments=True)[1:], id=f"{page}: {part.split('#')[0].strip()}")


@pytest.mark.parametrize("words", list(lines()))
def test_every_command_line_has_known_commands_and_options(words):
    command = PROGRAM
    alone = {"--help", "--version", "--install-completion", "--show-completion"}
    known = {"-c", "--collection"} | alone
    while words:
        word, *words = words
        if word in ("-c", "--collection", "--cluster", "--device"):
            words = words[1:]
        elif word in getattr(command, "commands", {}):
            command = command.commands[word]
            known |= {option for param in command.params for option in [*param.opts, *param.secondary_opts]}
        elif word.startswith("-") and not re.fullmatch(r"-\d+.*", word):
            assert word.split("=")[0] in known, f"{word} is not an option of {command.name}"
    assert command is not PROGRAM or word in alone


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_curl_examples_of_the_service_run(shelf, tmp_path):
    block = next(block for block in re.findall(r"^```sh\n(.*?)^```", PAGES["server"], re.M | re.S) if "curl" in block)
    with running(copy_shelf(shelf, tmp_path)) as service:
        commands = block.replace("8321", str(service.port)).replace("curl -s", "curl -sf")
        bash = ["bash", "-euo", "pipefail", "-c", commands]
        done = subprocess.run(bash, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert '"results":[' in done.stdout
    assert (tmp_path / "items.csv").read_text().startswith("id,path")
