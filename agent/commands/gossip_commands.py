# SPDX-License-Identifier: Apache-2.0
"""The verbs of `cluster` about the gossip mesh, for owners of nodes.

Only the group `stoker cluster` loads this module; `agent/link/member_list.py` does the work.
"""

from __future__ import annotations

import click

from stoker.agent.commands.node_commands import output_option, show_rows, state_option
from stoker.native.row_forms import Form


@click.command("members")
@state_option
@output_option
def cluster_members_command(*, state: str | None, output: Form) -> None:
    """List the members of the gossip mesh as this host sees them, failed ones first.

    The round-trip time is an estimate, and a dash until it is good. A member that is `failed`
    does not answer the mesh; whether its node is given up, its scheduler decides (`nodes`).
    """
    import asyncio

    import msgspec

    from stoker.agent.link import member_list
    from stoker.agent.supervise import target_node

    where = target_node.own(state, "cluster members")
    rows = asyncio.run(member_list.listed(where))
    if not show_rows("members", "name", [msgspec.to_builtins(row) for row in rows], output):
        for line in member_list.lines(rows, wide=output == "wide"):
            click.echo(line)
