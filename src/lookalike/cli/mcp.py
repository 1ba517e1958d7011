"""`lookalike mcp`: let an assistant use the collection, over the Model Context Protocol (MCP)."""

from typing import TYPE_CHECKING, Annotated

import typer

from lookalike.cli.lazy import Lazy
from lookalike.cli.options import Where, opened
from lookalike.errors import MissingError

if TYPE_CHECKING:
    from lookalike.cli import mcp_server
else:
    mcp_server = Lazy("lookalike.cli.mcp_server")


def mcp(
    where: Where,
    allow_changes: Annotated[
        bool, typer.Option("--allow-changes", help="Also offer tools that start sessions, mark and label pictures.")
    ] = False,
    author: Annotated[str, typer.Option("--author", help="Author of the marks and labels.")] = "assistant",
) -> int:
    """Let an assistant use the collection, over MCP.

    The assistant starts this command and talks to it on stdin and stdout; docs/howto/assistants.md shows how. The tools
    search, show, classify and list. They change nothing without --allow-changes.

    \b
    Examples:
      lookalike -c photos.lookalike mcp
      lookalike -c photos.lookalike mcp --allow-changes --author claude
    """
    try:
        create = mcp_server.create_server
    except ImportError as error:
        raise MissingError(
            "The MCP server needs the package mcp. Install it with: pip install 'lookalike[mcp]'"
        ) from error
    with opened(where) as collection:
        create(collection, author=author if allow_changes else None).run("stdio")
    return 0
