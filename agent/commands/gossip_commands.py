# SPDX-License-Identifier: Apache-2.0
"""The verbs of `cluster` about the gossip mesh, for owners of nodes.

Only the group `stoker cluster` loads this module; `agent/link/member_list.py` does the work.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from stoker.agent.commands.node_commands import output_option, show_rows, state_option
from stoker.native.row_forms import Form

if TYPE_CHECKING:
    from stoker.agent.state.state_folder import StateFolder

FOLLOW_S = 180.0
"""The longest time for which `cluster rotate --gossip` follows its steps."""
LOOK_S = 0.5


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


_DONE = {
    "use": "all members have the new key",
    "remove": "all members seal with the new key",
    "forget": "no member has a former key",
}


def replace_keys(where: StateFolder, *, despite_failed: bool) -> None:
    """Have the gossip keys replaced, and say of each step when all members have taken it.

    Unavailable if that takes longer than FOLLOW_S; the registrar goes on with it all the same.
    """
    import asyncio

    from stoker.agent.join import mesh_keys
    from stoker.agent.link import member_list
    from stoker.native.errors import Unavailable

    members = asyncio.run(member_list.listed(where))
    mesh_keys.request(where, members, despite_failed=despite_failed)
    deadline, step, lacking = time.monotonic() + FOLLOW_S, "install", ""
    while True:
        change = mesh_keys.pending(where)
        now = change.step if change is not None else "forget"
        if now != step:
            step = now
            click.echo(_DONE[step])
        if step == "forget":
            return
        lacking = _lacking(where) or lacking
        if time.monotonic() > deadline:
            raise Unavailable(
                f"step {step} is not over after {FOLLOW_S:g} s; these lack the keys: {lacking}",
                hint="It goes on by itself: `stoker cluster members -o wide`",
            )
        time.sleep(LOOK_S)


def _lacking(where: StateFolder) -> str:
    """Return the members that lack the keys of this host; empty if none does or nobody says."""
    import asyncio

    from stoker.agent.join import mesh_keys
    from stoker.agent.link import member_list
    from stoker.agent.state import gossip_files, state_folder
    from stoker.native.errors import StokerError

    try:
        rows = asyncio.run(member_list.listed(where))
    except StokerError:
        return ""
    wanted = tuple(gossip_files.load(where).digests.split(","))
    known = mesh_keys.hosts(where, state_folder.load(where))
    return ", ".join(mesh_keys.lacking_keys(wanted, rows, known))
