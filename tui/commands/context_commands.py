# SPDX-License-Identifier: Apache-2.0
"""The verb `context`: which node commands reach and as whom, and contexts under names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from stoker.tui.options import completion
from stoker.tui.options.verb_options import node_option
from stoker.tui.render import text

if TYPE_CHECKING:
    from stoker.mesh.connection.context import Context


@click.group("context", invoke_without_command=True)
@node_option
@click.pass_context
def context_command(ctx: click.Context, state: str | None) -> None:
    """Show which node commands reach, as which user, and why that one."""
    if ctx.invoked_subcommand is None:
        _show(state)


def _show(state: str | None) -> None:
    from stoker.mesh.connection import context

    found, source = context.find(state), context.source(state, os.environ)
    for label, value in (
        ("node", found.url), ("user", found.user), ("key", found.seed_file),
        ("certificate", found.certificate), ("state", found.state or "-"), ("chosen by", source),
    ):  # fmt: skip
        click.echo(f"{label:<13}{text.clean(value)}")


@context_command.command("list")
def context_list_command() -> None:
    """List the saved contexts; the one in use has a star."""
    from stoker.mesh.connection import context, saved_contexts

    path = context.saved_path(os.environ)
    used = context.read_saved(path) if path.exists() else None
    known = saved_contexts.names(os.environ)
    if not known:
        click.echo("no context is saved; to save the one in use: stoker context save NAME")
    for name in known:
        each = saved_contexts.load(name, os.environ)
        mark = "*" if each == used else " "
        click.echo(text.clean(f"{mark} {name}  {each.url}  {each.user}"))


@context_command.command("save")
@click.argument("name")
@node_option
def context_save_command(name: str, state: str | None) -> None:
    """Save the context that commands use now under a name."""
    from stoker.mesh.connection import context, saved_contexts

    found: Context = context.find(state)
    path = saved_contexts.save(name, found, os.environ)
    click.echo(f"saved {text.clean(path)}; use it: stoker context use {name}")


@context_command.command("use")
@click.argument("name", shell_complete=completion.contexts)
def context_use_command(name: str) -> None:
    """Let commands reach the node of a saved context from now on."""
    from stoker.mesh.connection import context, saved_contexts

    chosen = saved_contexts.use(name, os.environ)
    click.echo(text.clean(f"commands reach {chosen.url} as {chosen.user} now"))
    if os.environ.get("STOKER_STATE"):
        source = context.source(None, os.environ)
        click.echo(f"stoker: {source} is set and goes before it: unset it", err=True)
