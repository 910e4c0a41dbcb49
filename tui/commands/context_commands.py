# SPDX-License-Identifier: Apache-2.0
"""The verb `context`: which node commands reach and as whom, and contexts under names."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from stoker.tui.commands.replies import show, show_one
from stoker.tui.options import completion
from stoker.tui.options.verb_options import node_option, output_option
from stoker.tui.render import tables, text
from stoker.tui.render.columns import Noun

if TYPE_CHECKING:
    from stoker.mesh.connection.context import Context

CONTEXT = Noun("contexts", "url", ())
SAVED = Noun("contexts", "name", ())


@click.group("context", invoke_without_command=True)
@node_option
@output_option("table")
@click.pass_context
def context_command(ctx: click.Context, state: str | None, output: tables.Output) -> None:
    """Show which node commands reach, as which user, and why that one."""
    if ctx.invoked_subcommand is None:
        _show(state, output)


def _show(state: str | None, output: tables.Output) -> None:
    from stoker.mesh.connection import context

    found, source = context.find(state), context.source(state, os.environ)
    row = {
        "url": found.url, "user": found.user, "seed_file": str(found.seed_file),
        "certificate_file": str(found.certificate),
        "state": str(found.state) if found.state else None, "chosen_by": source,
    }  # fmt: skip
    labels = ("node", "user", "key", "certificate", "state", "chosen by")
    lines = [
        f"{label:<13}{text.clean(value or '-')}\n"
        for label, value in zip(labels, row.values(), strict=True)
    ]
    show_one(CONTEXT, row, output, lambda: "".join(lines))


@context_command.command("list")
@output_option("table")
def context_list_command(output: tables.Output) -> None:
    """List the saved contexts; the one in use has a star."""
    from stoker.mesh.connection import context, saved_contexts

    path = context.saved_path(os.environ)
    used = context.read_saved(path) if path.exists() else None
    known = {
        name: saved_contexts.load(name, os.environ) for name in saved_contexts.names(os.environ)
    }
    rows = [
        {"name": name, "url": each.url, "user": each.user, "used": each == used}
        for name, each in known.items()
    ]
    if output not in ("table", "wide"):
        show(SAVED, rows, output)
    elif not rows:
        click.echo("no context is saved; to save the one in use: stoker context save NAME")
    else:
        for row in rows:
            mark = "*" if row["used"] else " "
            click.echo(text.clean(f"{mark} {row['name']}  {row['url']}  {row['user']}"))


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
