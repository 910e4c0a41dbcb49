# SPDX-License-Identifier: Apache-2.0
"""The verb `cluster`: shows the configuration that the log holds, and changes limits. Its
other verbs belong to a node's owner and are loaded from there.

A change may be repeated: if the limits are in force already, the verb says so and succeeds.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from stoker.native.errors import Refused
from stoker.tui.commands.lazy_group import LazyGroup
from stoker.tui.commands.replies import call, settle, show, show_one
from stoker.tui.options.verb_options import node_option, output_or_json_option, read_options
from stoker.tui.render import nouns, tables, text

if TYPE_CHECKING:
    from stoker.mesh.client.read_choice import ReadChoice


VERBS: dict[str, tuple[str, str]] = {
    "admit": ("stoker.tui.commands.cluster_commands", "Let a server that left count again"),
    "backup": ("stoker.agent.commands.backup_commands", "Write the cluster's state to a file"),
    "export": ("stoker.agent.commands.cluster_commands", "Write what makes this server"),
    "init": ("stoker.agent.commands.cluster_commands", "Let other hosts reach this node"),
    "join": ("stoker.agent.commands.cluster_commands", "Make this host a node of a cluster"),
    "keys": ("stoker.agent.commands.cluster_commands", "List keys, revoked ones too"),
    "limits": ("stoker.tui.commands.cluster_commands", "Change limits of the cluster"),
    "members": ("stoker.agent.commands.gossip_commands", "List members of the gossip mesh"),
    "remove": ("stoker.tui.commands.cluster_commands", "Let a lost server count no more"),
    "replace": ("stoker.agent.commands.cluster_commands", "Take a lost server's place"),
    "restore": ("stoker.agent.commands.backup_commands", "Begin a cluster with a backup's state"),
    "revoke": ("stoker.agent.commands.cluster_commands", "Take a node's or user's key back"),
    "rotate": ("stoker.agent.commands.cluster_commands", "Give a node that joined another key"),
    "status": ("stoker.tui.commands.cluster_commands", "Show servers, and which may go down"),
    "token": ("stoker.agent.commands.cluster_commands", "Let one host join this cluster"),
    "upgrade": ("stoker.tui.commands.cluster_commands", "Raise the feature level"),
}
"""Verb -> (module that defines a click command cluster_<name>_command, one-line help)."""


@click.group("cluster", cls=LazyGroup, table=VERBS, prefix="cluster_", invoke_without_command=True)
@node_option
@read_options
@output_or_json_option
@click.pass_context
def cluster_command(
    ctx: click.Context, state: str | None, output: tables.Output, reads: ReadChoice
) -> None:
    """Show the cluster: its schedulers, users, limits, and the place in its log.

    All of it is in the log, so that every scheduler has the same.
    """
    if ctx.invoked_subcommand is not None:
        return
    from stoker.tui.calls import cluster_calls

    found = call(cluster_calls.cluster(state, reads))
    show_one(nouns.CLUSTERS, found, output, lambda: "".join(map(_fitted, _lines(found))))


OLDER = "`stoker doctor` on its host says why: an older stoker takes no part in a newer cluster"
MAY_BE_OLD = "A server's word about its levels counts for 2 s: ask again after a restart"


@contextlib.contextmanager
def _hinted(about: str, more: str) -> Iterator[None]:
    """Say more of a refusal that tells of this than the leader, whose version may be another."""
    try:
        yield
    except Refused as error:
        if about not in error.message:
            raise
        hint = ". ".join(filter(None, [error.hint, more]))
        raise Refused(error.message, hint=hint) from None


@click.command("limits")
@click.argument("limits", nargs=-1, required=True, metavar="NAME=N...")
@node_option
def cluster_limits_command(limits: tuple[str, ...], state: str | None) -> None:
    """Change limits, such as nodes=1000; the others stay as they are.

    A limit below what the cluster has now is refused.
    """
    from stoker.mesh.wire.schema import ClusterLimitsRequest

    request = ClusterLimitsRequest(limits=dict(map(_limit, limits)))
    settle(state, "cluster", "limits", request, "limits")


@click.command("remove")
@click.argument("server")
@node_option
def cluster_remove_command(server: str, state: str | None) -> None:
    """Let a server's scheduler leave: it counts for no majority from then on.

    For a host that is lost, or shall go. Of three servers two stay and both must work then; of five
    three may stay. The server that leads is refused, and any change while others do not answer.
    """
    from stoker.mesh.wire.schema import ClusterRemoveRequest

    settle(state, "cluster", "remove", ClusterRemoveRequest(server=server), f"removal of {server}")


@click.command("admit")
@click.argument("server")
@node_option
def cluster_admit_command(server: str, state: str | None) -> None:
    """Let a server count again that had left, on its own host or on a new one.

    It reads the log before it counts for anything.
    """
    from stoker.mesh.wire.schema import ClusterAdmitRequest

    with _hinted("does not answer the leader", OLDER):
        settle(state, "cluster", "admit", ClusterAdmitRequest(server=server), f"return of {server}")


@click.command("upgrade")
@node_option
def cluster_upgrade_command(*, state: str | None) -> None:
    """Raise the feature level, once the last server was upgraded. There is no way back.

    Until then each server may return to the version that it had. Refused while a server does not
    answer or does not support the new level: the message names it.
    """
    from stoker.mesh.wire.schema import ClusterUpgradeRequest

    with _hinted("feature level", MAY_BE_OLD):
        settle(state, "cluster", "upgrade", ClusterUpgradeRequest(), "feature level")


@click.command("status")
@node_option
@output_or_json_option
def cluster_status_command(*, state: str | None, output: tables.Output) -> None:
    """Show the servers of the cluster, and which host may be taken down now, or why not.

    Each scheduler is asked for itself, so this works while no scheduler leads, too. Exit code: 0 if
    every host may be taken down, one at a time; 1 if one must stay.
    """
    import msgspec

    from stoker.tui.calls import cluster_status
    from stoker.tui.render import server_status

    found = msgspec.to_builtins(call(cluster_status.status(state)))
    if output == "json":
        text.show(tables.render_one({"schema": tables.SCHEMA, **found}))
    elif output in ("table", "wide"):
        width = text.columns(sys.stdout) if output == "table" else None
        text.show("".join(f"{line}\n" for line in server_status.lines(found, width)))
    else:
        show(nouns.SERVERS, found["servers"], output)
    sys.exit(0 if all(row["may_go"] for row in found["servers"]) else 1)


def _fitted(line: str) -> str:
    width = text.columns(sys.stdout)
    return (text.wrap(line, width, 12) if width and len(line) > width else line) + "\n"


def _limit(word: str) -> tuple[str, int]:
    name, _, number = word.partition("=")
    if not name or not number.isascii() or not number.isdigit():
        raise click.UsageError(f"{word!r} is not NAME=N, such as nodes=1000")
    return name, int(number)


def _lines(found: dict[str, Any]) -> Iterator[str]:
    limits = ", ".join(f"{name} {number}" for name, number in found["limits"].items())
    yield f"cluster     {found['cluster']}"
    yield f"genesis     {found['genesis']}"
    yield f"log         entry {found['seq']}, term {found['term']}"
    for each in found["schedulers"]:
        role = "leads" if each["leads"] else "follows"
        here = f" on {each['server']}" if each["server"] else ""
        yield f"scheduler   {each['number']:016x} {role}{here}"
    yield f"users       {found['users']}"
    yield f"limits      {limits}"
    yield f"level       {found['level']}"
