"""The command line: `lookalike COMMAND`, one function per verb of `Collection`, and one place for errors.

In: the words after `lookalike`. Out: text or JSON, and an exit code: 0 fine, 1 something was skipped or is wrong,
2 usage or input error (one line on stderr), 130 stopped by Ctrl-C.
"""

import io
import os
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

import lookalike
from lookalike.cli import (
    changes,
    classes,
    classify,
    demo,
    duplicates,
    feedback,
    hints,
    looks,
    maintenance,
    maps,
    plan,
    search,
    serve,
    sessions,
)
from lookalike.cli.options import COLLECTION
from lookalike.cli.plugins import PluginGroup
from lookalike.cli.terminal import print_json, print_line, print_note
from lookalike.errors import LookalikeError

app = typer.Typer(name="lookalike", cls=PluginGroup, rich_markup_mode=None, pretty_exceptions_enable=False)


def main() -> None:
    """The entry point of the `lookalike` command."""
    code = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # nobody reads it, or the disk is full: let the rest go nowhere, or Python complains at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code. Whatever goes wrong becomes one line here, and nowhere else."""
    json = "--json" in words
    hints.forget()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8" if json else None, errors="backslashreplace")
    try:
        code = app(list(words), prog_name="lookalike", standalone_mode=False) or 0
        if sys.stdout is not None:
            sys.stdout.flush()
    except BrokenPipeError:
        return 0
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # Typer's and rich's way to say that nobody reads us
            return 0
        raise
    except feedback.Left as left:
        print_note(str(left))
        return 130
    except KeyboardInterrupt:
        code = 130
    except (LookalikeError, typer.TyperException, OSError) as error:
        return _refuse(error, json)
    if code == 130:  # also what Typer makes of a KeyboardInterrupt
        print_note("Stopped. Everything committed so far is safe; the same command goes on from there.")
    return int(code)


def _refuse(error: Exception, json: bool) -> int:
    """Say what is wrong, in one line, and return the exit code."""
    message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    usage = getattr(error, "ctx", None)  # where Typer stumbled
    message = " ".join(message.split()) + (f" Try: {usage.command_path} --help" if usage else "")
    if json:
        print_json({"error": {"kind": type(error).__name__, "message": hints.complete(message)}}, error=True)
    else:
        print_note(f"lookalike: {message}")
    return 2


def _version(wanted: bool) -> None:
    if wanted:
        print_line(f"lookalike {lookalike.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    collection: Annotated[  # options.Where reads it
        str,
        typer.Option("-c", "--collection", metavar="DIR", envvar="LOOKALIKE_COLLECTION", help="The collection."),
    ] = COLLECTION,
    version: Annotated[  # noqa: ARG001 — its callback does the work
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which version this is.")
    ] = False,
) -> None:
    """Search pictures by pictures: index folders, then show what you want more of.

    \b
    Examples:
      lookalike demo
      lookalike add ~/Pictures
      lookalike search beach.jpg -k 10
      lookalike feedback beach.jpg
      lookalike -c work.lookalike stats --json
    """
    source = ctx.get_parameter_source("collection")
    if source is not None and source.name == "COMMANDLINE":  # from the environment it is there the next time, too
        hints.remember(collection)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


_PARSERS: dict[Any, type[TyperCommand]] = {
    changes.fit: changes.Fit,
    search.search: search.Search,
    feedback.feedback: search.Search,
}
for _verb in (changes.add, changes.refresh, changes.remove, changes.fit, search.search, feedback.feedback):
    app.command(cls=_PARSERS.get(_verb))(_verb)
app.command()(classify.classify)
app.add_typer(classes.app)
app.add_typer(duplicates.app)
app.command("map")(maps.map_)
app.add_typer(sessions.app)
for _verb in (looks.items, looks.stats, search.explain, looks.export):
    app.command()(_verb)
for _verb in (maintenance.verify, maintenance.repair, maintenance.backup, maintenance.restore, maintenance.compact):
    app.command()(_verb)
for _verb in (changes.label, plan.plan, serve.serve, looks.recipes, demo.demo):
    app.command()(_verb)
app.add_typer(serve.app)
