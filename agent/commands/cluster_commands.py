# SPDX-License-Identifier: Apache-2.0
"""The verb `cluster init`, for the owner of a node that other hosts shall reach.

Only the group `stoker cluster` loads this module. `agent/supervise/broker_address.py` does the
work.
"""

from __future__ import annotations

import click

from stoker.agent.commands.node_commands import state_option
from stoker.mesh.connection.context import LOOPBACK


@click.command("init")
@state_option
@click.option(
    "--address",
    metavar="ADDR",
    default=LOOPBACK,
    show_default=True,
    help="Own IPv4 address at which the broker takes other hosts, with TLS alone.",
)
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="Port at that address.")
@click.option("--name", metavar="NAME", default="", help="Name of a new node; default: the host's.")
def cluster_init_command(*, state: str | None, address: str, port: int | None, name: str) -> None:
    """Let other hosts reach this node's broker, from the next `stoker up` on.

    Nothing of an existing node is lost: its log, keys, users and jobs stay. Its broker's port stays
    too from then on, because other hosts know it. With the default address the broker takes this
    host alone again.
    """
    from stoker.agent.supervise import target_node
    from stoker.agent.supervise.broker_address import init

    where = target_node.own(state, "cluster init")
    made = init(where, address, port, name)
    reach = f"other hosts reach it at {made.url}" if made.address else "it takes this host alone"
    click.echo(f"node {made.node} of cluster {made.cluster}: {reach}")
    if made.address:
        click.echo(f"  its certificate, which they pin: {where.broker_certificate}")
    click.echo(f"next:\n  {target_node.call(where, 'up')}")
