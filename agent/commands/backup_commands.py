# SPDX-License-Identifier: Apache-2.0
"""The verbs `cluster backup` and `cluster restore`, for owners of servers.

Only the group `stoker cluster` loads this module; `agent/join` does the work.
"""

from __future__ import annotations

import time
from pathlib import Path

import click

from stoker.agent.commands.node_commands import state_option


@click.command("backup")
@click.argument("file", type=click.Path(path_type=Path))
@state_option
def cluster_backup_command(*, file: Path, state: str | None) -> None:
    """Write the state of the running cluster to FILE, with which `restore` begins it again.

    Call it on a server. Nothing stops for it. FILE has jobs, queues, users, limits and settings as
    of one entry of the log, and no private key. Jobs' environments are in it: only its owner may
    read it.
    """
    from stoker.agent.join import cluster_backup
    from stoker.agent.supervise import target_node

    made = cluster_backup.take(target_node.own(state, "cluster backup"), file)
    at = made.state
    click.echo(f"cluster {at.cluster} at entry {at.index}, term {at.term}, is in {file}")
    click.echo("it has no keys; to begin the cluster again with it, on a host without a node:")
    click.echo(f"  stoker cluster restore {file}")


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
    day = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(backup.made_ns / 1e9))
    click.echo(f"node {made.node} begins cluster {made.cluster} with the state of {day}:")
    click.echo(f"  entry {backup.state.index} of cluster {backup.state.cluster}")
    click.echo(f"  keep {file}: audits of the new cluster begin with it")
    click.echo(f"next:\n  {target_node.call(where, 'up')}")
