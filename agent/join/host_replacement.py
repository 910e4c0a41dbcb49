# SPDX-License-Identifier: Apache-2.0
"""`stoker cluster replace`: this host takes the place of a server whose own host is lost.

It gets the name, the keys and the address of that server, so nothing changes for the others: no
roster, no routes, no copies of the log. Owns two rules: it is refused while that server answers,
since two of one identity could vote twice, and while so few others answer that it could not learn
what it has acknowledged.
"""

from __future__ import annotations

import asyncio

from stoker.agent.join import newcomer
from stoker.agent.join.server_export import ServerExport
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import broker_port
from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import ReadChoice
from stoker.mesh.connection.context import Context
from stoker.mesh.log.genesis import member_number
from stoker.mesh.wire import subjects
from stoker.mesh.wire.cluster_server import ClusterServer
from stoker.native import durable_file
from stoker.native.errors import BadRequest, Refused, StokerError

PATIENCE_S = 3.0
"""The longest wait for the answer of one server."""


@state_folder.disk_errors()
def replace(where: StateFolder, found: ServerExport) -> ClusterFile:
    """Make this folder that of the exported server, and return its record; a refusal leaves
    nothing."""
    newcomer.check_free(where)
    with newcomer.beside(where) as made:
        for name, data in sorted(found.files.items()):
            durable_file.replace(made.root / name, data)
        cluster = state_folder.load(made)
        if not broker_port.is_free(0, cluster.address):
            raise BadRequest(
                f"this host has no address {cluster.address}, at which the others reach"
                f" {cluster.node}",
                hint="Give it that address first; `ip address` lists those it has",
            )
        check_others(cluster, asyncio.run(_answering(made, cluster)))
        newcomer.take_place(made, where)
    return cluster


def check_others(cluster: ClusterFile, answering: set[str]) -> None:
    """Refuse while the server itself answers, or too few others do."""
    if cluster.node in answering:
        raise Refused(
            f"server {cluster.node} answers: its host is not lost",
            hint="End it there first: `stoker down`, and never start that folder again",
        )
    count = len(cluster.servers)
    needed = count // 2 + 1
    others = sorted(each.node for each in cluster.servers if each.node in answering)
    if len(others) < needed:
        there = " and ".join(others) or "none"
        verb = "answer" if len(others) > 1 else "answers"
        raise Refused(
            f"{there} of the {count - 1} other servers {verb}, and {needed} must: a server that"
            " has lost its memory learns from them what it has acknowledged",
            hint="Bring another one back first; the folders of those that died have the log. If"
            " they are lost for good, `stoker cluster backup --survivor` on one that is left",
        )


async def _answering(made: StateFolder, cluster: ClusterFile) -> set[str]:
    """Return the servers whose schedulers answer through the brokers of the others."""
    found = await asyncio.gather(*(_answers(made, cluster, each) for each in cluster.servers))
    return {each.node for each, there in zip(cluster.servers, found, strict=True) if there}


async def _answers(made: StateFolder, cluster: ClusterFile, server: ClusterServer) -> bool:
    """True if the scheduler of a server answers, whichever broker takes the request there."""
    reads = ReadChoice(subjects.at(member_number(server.scheduler)), stale=True)
    for broker in cluster.servers:
        if broker.node == cluster.node:
            continue
        where = Context(broker.url, made.key("admin"), cluster.admin, made.broker_pins)
        try:
            async with (
                asyncio.timeout(PATIENCE_S),
                Client.open(where, patience_s=PATIENCE_S / 2, reads=reads) as client,
            ):
                await client.cluster()
        except (StokerError, TimeoutError):
            continue
        return True
    return False
