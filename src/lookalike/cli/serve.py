"""`lookalike serve`: run the service with its page; `lookalike token`: manage the tokens of its users."""

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Json, Where, opened, use_cluster, use_device, used_cluster, used_device
from lookalike.cli.output import print_either, print_json, print_line, print_note

if TYPE_CHECKING:
    import logging
    import webbrowser

    from lookalike.server import access, http_server, settings
else:
    logging, webbrowser = Lazy("logging"), Lazy("webbrowser")
    access, settings = Lazy("lookalike.server.access"), Lazy("lookalike.server.settings")
    http_server = Lazy("lookalike.server.http_server")

app = typer.Typer(name="token", rich_markup_mode=None)
Person = Annotated[str, typer.Argument(metavar="NAME", help="Name of the token's owner.")]


def serve(
    where: Where,
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen on; if other machines can connect, every client needs a token."),
    ] = ("127.0.0.1"),
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 picks a free one.")
    ] = 8321,
    root: Annotated[
        list[str] | None,
        typer.Option("--root", metavar="DIR", help="Allowed folder: clients can add pictures from it; repeatable."),
    ] = None,
    backup_dir: Annotated[
        str | None,
        typer.Option(
            "--backup-dir", metavar="DIR", help="Directory in which clients can create backups. Default: none."
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option("--allow-host", metavar="NAME", help="Additional host name of the service; repeatable."),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option("--cluster", metavar="ADDRESS", help="Cluster to use; can also be given before the command."),
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"] | None,
        typer.Option("--device", help="Device that searches and jobs use; can also be given before the command."),
    ] = None,
    browse: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Log each request to stderr.")] = False,
) -> int:
    """Serve the collection as a web page and an HTTP API.

    By default, only this machine can reach the service. With --host, other machines can, too, and every client needs a
    token (see lookalike token). Runs until Ctrl-C.

    \b
    Examples:
      lookalike serve --open
      lookalike -c work.lookalike serve --port 9000 --root ~/Pictures
      lookalike serve --host 0.0.0.0
    """
    use_cluster(cluster or used_cluster())
    use_device(device or used_device())
    settings.limit_blas_threads()  # before NumPy is loaded
    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(levelname)s %(message)s", level=logging.WARNING)
    logging.getLogger("lookalike.server.requests").setLevel(logging.INFO if verbose else logging.WARNING)
    chosen = settings.Settings(
        host=host,
        port=port,
        names=tuple(name.lower() for name in allow_host or ()),
        roots=tuple(Path(folder).expanduser().resolve() for folder in root or ()),
        backup_dir=None if backup_dir is None else Path(backup_dir).expanduser(),
        cluster=used_cluster(),
        device=used_device(),
    )

    def ready(address: str) -> None:
        print_line(f"Lookalike is at {address}")
        print_note("Stop it with Ctrl-C.")
        sys.stdout.flush()
        if browse:
            webbrowser.open(address)

    with opened(where) as collection:
        http_server.serve(collection, chosen, ready=ready)
    print_note("Stopped.")
    return 0


@app.callback(invoke_without_command=True)
def token(ctx: typer.Context) -> None:
    """Create, list and remove access tokens for the service.

    Without tokens, only clients on this machine can use the service, and they have the role manage.

    \b
    Examples:
      lookalike token add anna --role judge
      lookalike token list
      lookalike token remove anna
    """
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help())


@app.command()
def add(
    name: Person,
    where: Where,
    role: Annotated[
        Literal["view", "judge", "manage"],
        typer.Option("--role", help="view: browse and search; judge: also mark and label; manage: everything."),
    ] = "view",
    json: Json = False,
) -> int:
    """Create a token. It is printed once; the collection stores only its hash.

    \b
    Examples:
      lookalike token add anna --role judge
    """
    with opened(where, local=True) as collection:
        made = access.Access(collection.path).add(name, role)
    if not json:
        print_note(f"Token of {name} ({role}). It is not shown again:")
    print_either(json, made, name=name, role=role, token=made)
    return 0


@app.command("list")
def list_(where: Where, json: Json = False) -> int:
    """List the tokens: name, role and creation date.

    \b
    Examples:
      lookalike token list --json
    """
    with opened(where, local=True) as collection:
        entries = access.Access(collection.path).entries()
    if json:
        print_json([{"name": entry.name, "role": entry.role, "added_at": entry.added_at} for entry in entries])
        return 0
    for entry in entries:
        print_line(f"{entry.name:20} {entry.role:7} since {datetime.fromtimestamp(entry.added_at, UTC):%Y-%m-%d}")
    if not entries:
        print_note("No tokens yet. Create one: lookalike token add NAME --role judge")
    return 0


@app.command()
def remove(name: Person, where: Where, json: Json = False) -> int:
    """Remove a token. A running service rejects it immediately.

    \b
    Examples:
      lookalike token remove anna
    """
    with opened(where, local=True) as collection:
        access.Access(collection.path).remove(name)
    print_either(json, f"Removed the token of {name}.", removed=name)
    return 0
