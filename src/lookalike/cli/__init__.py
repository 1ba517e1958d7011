"""The command line. Exit codes: 0 success, 1 files skipped or faults found, 2 usage or input error, 130 Ctrl-C.

Each module has the commands of one topic: `add` (add, refresh, remove, label), `fit`, `clip`, `search` (search,
explain), `saved`, `feedback` (feedback, sessions), `classes` (classes, classify), `duplicates`, `overview` (items,
facets, stats, map, export), `split`, `history` (history, undo), `plan` (plan, recipes), `maintenance` (verify, repair,
backup, restore, compact), `cluster`, `serve` (serve, token), `mcp`, `demo`, `bench`. `options` has the options that
commands share, `output` the functions that print, and `lazy` delays imports that `lookalike --help` does not need.
`run` prints every error as one line.
"""

import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Literal

import typer

import lookalike
from lookalike.cli import (
    add,
    classes,
    clip,
    cluster,
    demo,
    duplicates,
    feedback,
    fit,
    history,
    maintenance,
    mcp,
    overview,
    plan,
    saved,
    search,
    serve,
    split,
    vectors,
)
from lookalike.cli.options import COLLECTION, use_cluster, use_device
from lookalike.cli.output import complete_commands, print_json, print_line, print_note, remember_collection
from lookalike.cli.plugins import PluginGroup
from lookalike.errors import LookalikeError

app = typer.Typer(name="lookalike", cls=PluginGroup, rich_markup_mode=None, pretty_exceptions_enable=False)


def main() -> None:
    """Run the `lookalike` command and exit with its exit code."""
    code = run(sys.argv[1:])
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:  # closed pipe or full disk: discard the buffer, otherwise Python prints an error at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def run(words: Sequence[str]) -> int:
    """Run one command line and return its exit code."""
    json = "--json" in words
    remember_collection(None)
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
        if isinstance(stop.__context__, BrokenPipeError):  # Typer and rich report a closed pipe like this
            return 0
        raise
    except feedback.Interrupted as interrupted:
        print_note(str(interrupted))
        return 130
    except KeyboardInterrupt:
        code = 130
    except (LookalikeError, typer.TyperException, OSError) as error:
        return _print_error(error, json)
    if code == 130:  # Typer also returns 130 after a KeyboardInterrupt
        print_note("Stopped. Committed changes are safe. Run the same command again to continue.")
    return int(code)


def _print_error(error: Exception, json: bool) -> int:
    """Print an error on one line and return the exit code."""
    message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
    message = " ".join(message.split()).replace("Value error, ", "")  # Typer passes on the words of pydantic
    message = re.sub(r"Input should be a valid (\w+),.*", r"it is not a valid \1.", message)
    if usage := getattr(error, "ctx", None):  # only usage errors have a context
        message += f"{'' if message.endswith(('.', '?', '!')) else '.'} Try: {usage.command_path} --help"
    if json:
        print_json({"error": {"kind": type(error).__name__, "message": complete_commands(message)}}, error=True)
    else:
        print_note(f"lookalike: {message}")
    return 2


def _version(requested: bool) -> None:
    if requested:
        print_line(f"lookalike {lookalike.__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def root(
    ctx: typer.Context,
    collection: Annotated[  # options.Where reads it
        str,
        typer.Option("-c", "--collection", metavar="DIR", envvar="LOOKALIKE_COLLECTION", help="Collection directory."),
    ] = COLLECTION,
    cluster: Annotated[
        str | None,
        typer.Option(
            "--cluster",
            metavar="ADDRESS",
            envvar="LOOKALIKE_CLUSTER",
            help="Cluster to use, such as tcp://127.0.0.1:8786 (see lookalike cluster). Default: this machine.",
        ),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(
            "--device",
            envvar="LOOKALIKE_DEVICE",
            help="Device that searches and extracts features: auto is a GPU if one is available. cuda also fits on it.",
        ),
    ] = "auto",
    version: Annotated[  # noqa: ARG001 — handled by the callback
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Find pictures by example: index folders, then search, classify and list duplicates.

    \b
    Examples:
      lookalike demo
      lookalike add ~/Pictures
      lookalike search beach.jpg -k 10
      lookalike feedback beach.jpg
      lookalike -c work.lookalike stats --json
    """
    source = ctx.get_parameter_source("collection")
    if source is not None and source.name == "COMMANDLINE":  # an environment variable also applies to the next command
        remember_collection(collection)
    use_cluster(cluster)
    use_device(device)
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


# In the order of `lookalike --help`.
for _verb in (add.add, add.refresh, add.remove, fit.fit, clip.clip, search.search, feedback.feedback, classes.classify):
    app.command()(_verb)
app.add_typer(classes.app)
app.add_typer(duplicates.app)
app.command("map")(overview.map_)
app.add_typer(feedback.sessions_app)
app.add_typer(saved.app)
for _verb in (overview.items, overview.facets, overview.stats, search.explain, overview.export, split.split):
    app.command()(_verb)
for _verb in (history.undo, history.history):
    app.command()(_verb)
for _verb in (maintenance.verify, maintenance.repair, maintenance.backup, maintenance.restore, maintenance.compact):
    app.command()(_verb)
app.add_typer(cluster.app)
app.command()(add.label)
app.command("import")(vectors.import_)
for _verb in (plan.plan, serve.serve, mcp.mcp, plan.recipes, demo.demo):
    app.command()(_verb)
app.add_typer(serve.app)
