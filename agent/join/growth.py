# SPDX-License-Identifier: Apache-2.0
"""The servers of a cluster that runs: another one is taken in, or one that counts no more goes.

It is done on the first server, and the copiers of the others follow. Owns that a server is in the
tables of all before the log can name it: whoever shall count is known to the brokers first. And it
owns that an only server becomes the first of several no sooner than the brokers of the others are
there: until then nothing of it has changed.
"""

from __future__ import annotations

import socket

import msgspec

from stoker.agent.join import cluster_restore, foundation
from stoker.agent.join.foundation import GROWS_TO, entering
from stoker.agent.state import state_folder
from stoker.agent.state.state_folder import GUEST, ClusterFile, StateFolder
from stoker.agent.supervise import broker_port, broker_setup, own_users, server_setup
from stoker.mesh.broker import users
from stoker.mesh.identity import certificate, identity
from stoker.mesh.log import kept_log
from stoker.mesh.replica.backup_file import FormerBroker
from stoker.mesh.wire.cluster_server import ADMIN, COUNTS, ClusterServer, admin_of
from stoker.native.errors import Refused

AGAIN_S = 600.0
"""The pause between two tries to be the first of several."""
ASK_S = 2.0
"""The longest wait for the broker of a server that joined."""
SERVERS_MAX = COUNTS[-1]
"""The most servers of a cluster: its log has no more copies."""


def prepare(where: StateFolder, cluster: ClusterFile) -> ClusterFile:
    """Have an only server known as the first of several, so that others may come; return the
    record. Refused if its cluster has rules for one scheduler alone."""
    if cluster.servers:
        return cluster
    if not _is_replicated(where):
        raise Refused(
            f"the cluster of {cluster.node} was founded for one server alone and takes no other"
            " while it runs",
            hint="A backup of it begins a new one with `stoker cluster init --servers 3`, with its"
            " jobs stopped: see `By a backup` in docs/operator/cluster.md",
        )
    server_setup.make_route_certificate(where, cluster.address)
    port = broker_port.choose(where.instance, cluster.address, beside=cluster.port)
    own = server_setup.server_here(where, cluster, port)
    guest = identity.load(where.key(GUEST)).public
    made = msgspec.structs.replace(cluster, servers=(own,), guest=guest)
    state_folder.write_cluster(where, made)
    return made


def _is_replicated(where: StateFolder) -> bool:
    from stoker.mesh.log.genesis import Genesis

    return state_folder.read_json(where.genesis, Genesis).replicated


def count(where: StateFolder, cluster: ClusterFile) -> int:
    """Return how many servers the cluster has or waits for, with those that are about to enter."""
    wanted = GROWS_TO if cluster.may_grow else cluster.wanted
    return max(wanted, len(cluster.servers) + len(entering(where, cluster)))


def room(where: StateFolder, cluster: ClusterFile) -> int:
    """Return how many servers may still join."""
    most = cluster.wanted if cluster.waits else SERVERS_MAX
    most = GROWS_TO if cluster.may_grow else most
    return most - len(cluster.servers) - len(entering(where, cluster))


def has_joined(where: StateFolder, cluster: ClusterFile) -> bool:
    """True on an only server once all others have joined that make it the first of several."""
    return cluster.may_grow and 1 + len(entering(where, cluster)) == GROWS_TO


def pause_s(where: StateFolder, now_s: float) -> float:
    """Return how long an only server stays one that was the first of several in vain; `now_s`:
    CLOCK_REALTIME. Its table of routes was written then."""
    try:
        tried_s = where.route_pins.stat().st_mtime
    except FileNotFoundError:
        return 0.0
    return max(0.0, AGAIN_S - abs(now_s - tried_s))


def be_alone_again(where: StateFolder, cluster: ClusterFile) -> ClusterFile:
    """Have a first server be an only one again, which has decided nothing since it was one; return
    the record. Those that joined stay joined. If its log is that of all, nothing changes."""
    if not kept_log.take_back(where.nats):
        return cluster
    owners = {admin_of(each.node) for each in cluster.servers[1:]}
    table = {name: row for name, row in own_users.load(where).items() if name not in owners}
    users.save(where.users, table)
    made = msgspec.structs.replace(
        cluster, servers=cluster.servers[:1], wanted=1, schedulers=(), brokers=()
    )
    broker_setup.write_config(where, made, table)
    state_folder.write_cluster(where, made)
    return made


def others_run(where: StateFolder, cluster: ClusterFile) -> bool:
    """True if the brokers of the servers answer that have joined."""
    return all(map(_answers, entering(where, cluster)))


def _answers(server: ClusterServer) -> bool:
    """True if the broker of a server is there, and can be reached at the address for brokers."""
    shown = certificate.fingerprint(server.certificate.encode())
    if not cluster_restore.answers(FormerBroker(server.address, server.port, shown)):
        return False
    try:
        socket.create_connection((server.address, server.route_port), ASK_S).close()
    except OSError:
        return False
    return True


def is_due(where: StateFolder, cluster: ClusterFile) -> bool:
    """True on the first server of a cluster that was founded, once another server has joined."""
    founded = cluster.several and not cluster.waits
    return founded and cluster.is_first and bool(entering(where, cluster))


def grow(where: StateFolder, cluster: ClusterFile) -> ClusterFile:
    """Take the servers in that have joined; return the record. It is repeated if interrupted."""
    new = entering(where, cluster)
    table = own_users.load(where)
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
