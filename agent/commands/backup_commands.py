# SPDX-License-Identifier: Apache-2.0
"""The verbs `cluster backup` and `cluster restore`, for owners of servers.

Only the group `stoker cluster` loads this module; `agent/join` does the work.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from stoker.agent.commands.node_commands import state_option

if TYPE_CHECKING:
    from stoker.agent.state.state_folder import StateFolder


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@state_option
@click.option(
    "--survivor", is_flag=True, help="Most servers are lost for good: take what this one holds."
)
def cluster_backup_command(*, file: Path, state: str | None, survivor: bool) -> None:
    """Write the state of the running cluster to FILE, with which `restore` begins it again.

    Call it on a server. Nothing stops for it. FILE has jobs, queues, users, limits and settings as
    of one entry of the log, and no private key. Jobs' environments are in it: only its owner may
    read it.

    With --survivor it needs no majority and no process: it takes what this server alone holds, and
    retires it. Refused while enough servers answer to decide.
    """
    from stoker.agent.supervise import target_node

    where = target_node.own(state, "cluster backup")
    if survivor:
        _take_of_survivor(where, file)
        return
    from stoker.agent.join import cluster_backup

    at = cluster_backup.take(where, file).state
    click.echo(f"cluster {at.cluster} at entry {at.index}, term {at.term}, is in {file}")
    click.echo("it has no keys; to begin the cluster again with it, on a host without a node:")
    click.echo(f"  stoker cluster restore {file}")


def _take_of_survivor(where: StateFolder, file: Path) -> None:
    """Take what this server holds, and say how far that reaches and what may be missing."""
    from stoker.agent.join import survivor_backup
    from stoker.agent.supervise import target_node

    made = survivor_backup.take(where, file)
    at = made.backup.state
    held = f"cluster {at.cluster} at entry {at.index}, term {at.term}, of {_day(made.time_ns)}"
    click.echo(f"{held}, as server {made.backup.node} held it, is in {file}")
    click.echo(
        f"  entries that only {' and '.join(made.lost)} held may be missing: nobody can know which"
        " acknowledged jobs were in them"
    )
    if made.left_out:
        click.echo(f"  left out: what follows, because {made.left_out}")
    if made.forgot:
        click.echo("  this server has forgotten entries that it held once: they are missing, too")
    for other in made.others:
        click.echo(
            f"  {other} answers and may hold more: do the same there, and restore the one of"
        )
        click.echo("  the newest term, or of equal terms the one with the most entries")
    click.echo(f"server {made.backup.node} is retired: once ended it starts no more. next:")
    click.echo(f"  {target_node.call(where, 'down')}")
    click.echo(f"  stoker cluster restore {file} --state FOLDER      # a new one")


def _day(time_ns: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(time_ns / 1e9))


@click.command("restore")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@state_option
@click.option("--name", metavar="NAME", default="", help="Name of this node; default: the host's.")
def cluster_restore_command(*, file: Path, state: str | None, name: str) -> None:
    """Begin a new cluster of one server on this host, with the state that FILE has.

    Refused while the former cluster answers. It has new keys and no nodes: other hosts join again.
    What ran at the backup is given up as with a lost node. A job that waited and may run only once
    is cancelled, because it may have run since then.
    """
    from stoker.agent.join import cluster_restore
    from stoker.agent.supervise import target_node
    from stoker.mesh.replica import backup_file

    where = target_node.own(state, "cluster restore")
    backup = backup_file.read(file)
    made = cluster_restore.restore(where, backup, name)
    day = _day(backup.made_ns)
    click.echo(f"node {made.node} begins cluster {made.cluster} with the state of {day}:")
    click.echo(f"  entry {backup.state.index} of cluster {backup.state.cluster}")
    click.echo(f"  keep {file}: audits of the new cluster begin with it")
    click.echo(f"next:\n  {target_node.call(where, 'up')}")
