# SPDX-License-Identifier: Apache-2.0
"""`stoker config`: the file of a node's settings is made, shown and checked.

Invariants: it never changes a file that is there, and it prints no secret.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.agent.commands.node_commands import output_option, show_rows, state_option
from stoker.native.errors import Refused

if TYPE_CHECKING:
    from stoker.agent.config.values import Setting
    from stoker.agent.state.state_folder import StateFolder
    from stoker.native.row_forms import Form

WIDTH = 80
VALUE_LEAST = 12
"""The fewest columns of a value in the table."""


@click.group("config")
def config_command() -> None:
    """Make, show and check the file of this node's settings, config.toml."""


@config_command.command("init")
@state_option
def init_command(state: str | None) -> None:
    """Write a config.toml with every setting and its default, each behind a `#`."""
    from stoker.agent.config import kept, template
    from stoker.agent.state import state_folder

    where = _own(state)
    with state_folder.disk_errors():
        state_folder.prepare(where)
        file = kept.path(where)
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            hint = "`stoker config print` shows what it says"
            raise Refused(f"{file} is there already", hint=hint) from None
        with os.fdopen(handle, "w") as made:
            made.write(template.text())
    click.echo(f"{file}: written, and changes nothing until you remove a `#`")
    click.echo("next:\n  stoker config validate\n  stoker up")


@config_command.command("print")
@state_option
@click.option("--changed", is_flag=True, help="Leave out what has its default.")
@output_option
def print_command(state: str | None, changed: bool, output: Form) -> None:
    """Show each setting, its value and where that is from, as `stoker up` would have it."""
    from stoker.agent.config import kept

    where = _own(state)
    file = kept.path(where)
    found = kept.settings(where, kept.checked(file), os.environ)
    rows = [each for each in found if not changed or each.value != each.default]
    told = [{name: getattr(each, name) for name in each._fields} for each in rows]
    if not show_rows("settings", "key", told, output):
        _print_table(file, rows)


@config_command.command("validate")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@state_option
@output_option
def validate_command(file: Path | None, state: str | None, output: Form) -> None:
    """Check the node's config.toml, or FILE: one line for each fault. Exit code 2 if there is one.

    FILE `-` is what comes on standard input.
    """
    from stoker.agent.config import faults, kept

    if file is None:
        file = kept.path(_own(state))
    elif str(file) != "-" and not file.exists():
        raise click.BadParameter(f"there is no file {str(file)!r}", param_hint="FILE")
    if str(file) == "-":
        tables, found = faults.parse(sys.stdin.buffer.read(faults.BYTES_MAX))
    else:
        tables, found = faults.read(file)
    if not show_rows("faults", "setting", [each.row for each in found], output):
        for fault in found:
            click.echo(_one_line(fault.at(file)), err=True)
    if found:
        sys.exit(2)
    if output not in ("table", "wide"):
        return
    if not file.exists() and str(file) != "-":
        click.echo(f"{file} is not there: every setting has its default (stoker config init)")
    else:
        count = sum(len(each) if isinstance(each, dict) else 1 for each in tables.values())
        click.echo(f"{file}: {count} setting{'' if count == 1 else 's'}, no fault")


def _own(state: str | None) -> StateFolder:
    from stoker.agent.state.state_folder import check_private, disk_errors
    from stoker.agent.supervise import target_node

    where = target_node.own(state, "config")
    with disk_errors():
        if where.root.exists():
            check_private(where.root)
    return where


def _print_table(file: Path, rows: list[Setting]) -> None:
    there = "" if file.exists() else " (not there)"
    click.echo(f"file: {file}{there}")
    keys = max((len(each.key) for each in rows), default=0)
    sources = max((len(each.source) for each in rows), default=0)
    columns = shutil.get_terminal_size((WIDTH, 0)).columns if sys.stdout.isatty() else 0
    room = max(columns - keys - sources - 4, VALUE_LEAST) if columns else 0
    values = max((len(each.shown) for each in rows), default=0)
    width = min(values, room) if room else values
    click.echo(f"{'SETTING':<{keys}}  {'VALUE':<{width}}  FROM")
    for each in rows:
        shown = _one_line(each.shown)
        cut = shown if len(shown) <= width else f"{shown[: width - 1]}…"
        click.echo(f"{_one_line(each.key):<{keys}}  {cut:<{width}}  {each.source}")


def _one_line(text: str) -> str:
    """Return a text without characters that could move a cursor."""
    return "".join(char if char.isprintable() else "?" for char in text)
