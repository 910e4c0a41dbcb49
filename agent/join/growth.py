# SPDX-License-Identifier: Apache-2.0
"""The servers of a cluster that runs: another one is taken in, or one that counts no more goes.

It is done on the first server, and the copiers of the others follow. Owns that a server is in the
tables of all before the log can name it: whoever shall count is known to the brokers first.
"""

from __future__ import annotations

import msgspec

from stoker.agent.join import foundation
from stoker.agent.state import joins
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import startup
from stoker.mesh.broker import users
from stoker.mesh.wire.cluster_server import ADMIN, COUNTS, ClusterServer, admin_of

SERVERS_MAX = COUNTS[-1]
"""The most servers of a cluster: its log has no more copies."""


def entering(where: StateFolder, cluster: ClusterFile) -> tuple[ClusterServer, ...]:
    """Return the servers that joined here and that the cluster does not have yet."""
    there = {each.scheduler for each in cluster.servers}
    joined = joins.servers(joins.load(where.joins))
    return tuple(each for each in joined if each.scheduler not in there)


def count(where: StateFolder, cluster: ClusterFile) -> int:
    """Return how many servers the cluster has or waits for, with those that are about to enter."""
    return max(cluster.wanted, len(cluster.servers) + len(entering(where, cluster)))


def room(where: StateFolder, cluster: ClusterFile) -> int:
    """Return how many servers may still join."""
    most = cluster.wanted if cluster.waits else SERVERS_MAX
    return most - len(cluster.servers) - len(entering(where, cluster))


def is_due(where: StateFolder, cluster: ClusterFile) -> bool:
    """True on the first server of a cluster that was founded, once another server has joined."""
    founded = cluster.several and not cluster.waits
    return founded and cluster.is_first and bool(entering(where, cluster))


def grow(where: StateFolder, cluster: ClusterFile) -> ClusterFile:
    """Take the servers in that have joined; return the record. It is repeated if interrupted."""
    new = entering(where, cluster)
    table = startup.load_users(where)
    rows = {
        admin_of(each.node): msgspec.structs.replace(table[ADMIN], public_key=each.admin)
        for each in new
    }
    users.save(where.users, {**table, **rows})
    return foundation.complete(where, cluster, (*cluster.servers, *new))


def without(where: StateFolder, cluster: ClusterFile, name: str) -> ClusterFile:
    """Take a server out of the tables that counts no more; return the record."""
    left = tuple(each for each in cluster.servers if each.node != name)
    return foundation.complete(where, cluster, left)
