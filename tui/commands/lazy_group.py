# SPDX-License-Identifier: Apache-2.0
"""A click group made from a table of commands, each imported only when it is called.

Help, completion and suggestions come from the table alone, so they import no command.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

Table = Mapping[str, tuple[str, str]]
"""Name -> (module that defines `<prefix><name>_command`, one-line help)."""


class LazyGroup(click.Group):
    """A group of the commands of a table, whose functions have a common prefix."""

    def __init__(
        self, *args: Any, table: Table, prefix: str = "", heading: str = "Commands", **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self._table, self._prefix, self._heading = table, prefix, heading

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._table:
            return None
        module = importlib.import_module(self._table[cmd_name][0])
        command = getattr(module, f"{self._prefix}{cmd_name.replace('-', '_')}_command")
        assert isinstance(command, click.Command), f"{module.__name__}: {cmd_name} is no command"
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command; a word that is nearly one gets it suggested."""
        if args and args[0] not in self._table and not ctx.resilient_parsing:
            from difflib import get_close_matches

            near = get_close_matches(args[0], self._table, n=2, cutoff=0.6)
            said = f" Did you mean {' or '.join(near)}?" if near else ""
            ctx.fail(f"No such command {args[0]!r}.{said}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        found = [name for name in self._table if name.startswith(incomplete)]
        commands = [CompletionItem(name, help=self._table[name][1]) for name in found]
        return [*commands, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(self._heading):
            formatter.write_dl([(name, text) for name, (_, text) in self._table.items()])
