"""Commands that other packages add to `lookalike`, such as `lookalike bench`.

A package declares a `typer.Typer` as an entry point of the group `lookalike.commands`. Reading entry points takes
30 ms, so they are read only for `--help`, for shell completion and for commands that are not built in.
"""

from typing import Any

from typer.core import TyperGroup
from typer.main import get_group

ENTRY_POINTS = "lookalike.commands"


class PluginGroup(TyperGroup):
    """The built-in commands, followed by those of plugins. Plugins that cannot be imported are left out."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands."""
        self._load_plugins()
        return super().list_commands(ctx)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of this name, or None."""
        if cmd_name not in self.commands:
            self._load_plugins()
        return super().get_command(ctx, cmd_name)

    def _load_plugins(self) -> None:
        from importlib.metadata import entry_points

        for entry in entry_points(group=ENTRY_POINTS):
            if entry.name not in self.commands:
                try:
                    self.commands[entry.name] = get_group(entry.load())
                except ImportError:
                    continue
