# SPDX-License-Identifier: Apache-2.0
"""The setup of a server beside others: its keys, the routes of its broker, and whom it lets in.

Used by the verbs that make servers and by whoever writes the broker's configuration. Owns that the
private half of a route's key is made here and never leaves the host.
"""

from __future__ import annotations

from collections.abc import Mapping

from stoker.agent.state.joins import JoinedNode
from stoker.agent.state.state_folder import AGENT, REGISTRAR, ClusterFile, StateFolder
from stoker.mesh.broker.broker_routes import BrokerRoutes
from stoker.mesh.identity import certificate, identity
from stoker.mesh.wire.cluster_server import ClusterServer
from stoker.native import durable_file


def make_route_certificate(where: StateFolder, address: str) -> None:
    """Make the key by which other brokers of a cluster know this one at its address."""
    key, shown = certificate.make(f"stoker route {where.instance}", address)
    durable_file.replace(where.route_key, key)
    durable_file.replace(where.route_certificate, shown)


def server_here(where: StateFolder, cluster: ClusterFile, route_port: int) -> ClusterServer:
    """Return this host as other servers of its cluster know it; missing keys are made."""
    names = ("scheduler", AGENT, "admin", REGISTRAR)
    keys = {name: identity.load_or_create(where.key(name)).public for name in names}
    return ClusterServer(
        node=cluster.node,
        address=cluster.address,
        port=cluster.port,
        route_port=route_port,
        certificate=certificate.read(where.broker_certificate).decode(),
        route_certificate=certificate.read(where.route_certificate).decode(),
        **keys,
    )


def routes(where: StateFolder, cluster: ClusterFile) -> BrokerRoutes | None:
    """Return the way to the brokers of the other servers, once the cluster is founded."""
    if not cluster.several or cluster.waits:
        return None
    return BrokerRoutes(
        cluster.cluster,
        cluster.own_server.route,
        tuple(each.route for each in cluster.servers),
        str(where.route_key),
        str(where.route_certificate),
        str(where.route_pins),
    )


def copiers(cluster: ClusterFile, nodes: Mapping[str, JoinedNode]) -> tuple[str, ...]:
    """Return the keys by which other servers request tables, from the moment they joined."""
    joined = [row.server for row in nodes.values() if row.server is not None]
    return tuple(sorted({each.registrar for each in (*cluster.servers[1:], *joined)}))
