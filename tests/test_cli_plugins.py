"""Commands that other packages add to `lookalike` through an entry point."""

import sys
from importlib import metadata
from types import ModuleType

import pytest
import typer

from lookalike import cli
from lookalike.cli.plugins import ENTRY_POINTS


@pytest.fixture
def plugins(monkeypatch):
    """Replace the installed entry points: one command that works, and one whose package is missing."""
    module = ModuleType("greeting")
    module.app = typer.Typer(name="greet", help="Greet a person.", rich_markup_mode=None)
    module.app.callback(invoke_without_command=True)(lambda: None)
    module.app.command()(hello)
    monkeypatch.setitem(sys.modules, "greeting", module)
    found = [
        metadata.EntryPoint("greet", "greeting:app", ENTRY_POINTS),
        metadata.EntryPoint("absent", "no_such_package:app", ENTRY_POINTS),
    ]
    monkeypatch.setattr(metadata, "entry_points", lambda group: found if group == ENTRY_POINTS else [])


def hello(name: str) -> int:
    typer.echo(f"Hello, {name}")
    return 3


def test_a_plugin_is_listed_and_run_like_any_command(plugins, capsys):
    assert cli.run(["--help"]) == 0
    assert "\n  greet       Greet a person.\n" in capsys.readouterr().out
    assert cli.run(["greet", "hello", "Ada"]) == 3
    assert capsys.readouterr().out == "Hello, Ada\n"


def test_a_plugin_that_cannot_be_imported_is_left_out(plugins, capsys):
    assert cli.run(["--help"]) == 0
    assert "absent" not in capsys.readouterr().out
    assert cli.run(["absent"]) == 2
    assert "No such command 'absent'" in capsys.readouterr().err


def test_the_error_for_a_misspelt_plugin_suggests_the_nearest_command(plugins, capsys):
    assert cli.run(["greeet"]) == 2
    assert "Did you mean 'greet'?" in capsys.readouterr().err


def test_built_in_commands_do_not_read_entry_points(monkeypatch, capsys):
    monkeypatch.setattr(metadata, "entry_points", lambda group: pytest.fail("entry points were read"))
    assert cli.run(["search", "--help"]) == 0
