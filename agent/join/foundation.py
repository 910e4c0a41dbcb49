# SPDX-License-Identifier: Apache-2.0
"""The founding of a cluster of several servers, and the tables that its servers have alike.

Used by the registrar of the first server, which founds, and by the copiers of the others. Owns the
order: `cluster.json` is written last, so a folder in which it names all servers is complete, and an
interrupted founding is simply repeated.
"""

from __future__ import annotations

import msgspec

from stoker.agent.state import joins, state_folder
from stoker.agent.state.joins import Joins
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import broker_setup, own_users
from stoker.mesh.broker import revoked_keys, users
from stoker.mesh.broker.users import Users
from stoker.mesh.identity import sealed_json
from stoker.mesh.wire import cluster_server
from stoker.mesh.wire.cluster_server import ADMIN, ClusterServer, admin_of
from stoker.mesh.wire.server_tables import ServerTables
from stoker.native import durable_file
from stoker.native.errors import BadRequest


def may_found(where: StateFolder, cluster: ClusterFile) -> bool:
    """True on the first server if all servers have joined and the cluster is not founded."""
    if not (cluster.waits and cluster.is_first):
        return False
    return 1 + len(joins.servers(joins.load(where.joins))) >= cluster.wanted


def found(where: StateFolder, cluster: ClusterFile) -> ClusterFile:
    """Found the cluster of this server and of those that joined; return its record."""
    from stoker.mesh.log.genesis import Genesis
    from stoker.mesh.replica import cluster_limits
    from stoker.mesh.replica.new_cluster import founding_several
    from stoker.mesh.server import level_pin

    servers = (*cluster.servers, *joins.servers(joins.load(where.joins)))
    table = _with_admins(own_users.load(where), servers)
    settings = where.root / "config.toml"
    limits, level = cluster_limits.read(settings), level_pin.read(settings).newest
    keys, begins = [each.scheduler for each in servers], None
    if where.genesis.exists():  # the state of a backup is that of all servers
        found = state_folder.read_json(where.genesis, Genesis)
        begins, level = found.origin, found.level if found.origin is not None else level
    genesis = founding_several(cluster.cluster, keys, limits, users.accounts(table), level)
    genesis = msgspec.structs.replace(genesis, origin=begins)
    users.save(where.users, table)
    durable_file.replace(where.genesis, sealed_json.encode(genesis))
    return complete(where, cluster, servers)


def _with_admins(table: Users, servers: tuple[ClusterServer, ...]) -> Users:
    """Return the table with a user for the owner of each server that joined, whose jobs run as
    those of the first one."""
    row = table[ADMIN]
    rows = {
        admin_of(each.node): msgspec.structs.replace(row, public_key=each.admin)
        for each in servers[1:]
    }
    return {**table, **rows}


GROWS_TO = 3
"""One server becomes one of so many at once: the brokers of two could do nothing without each
other."""


def entering(where: StateFolder, cluster: ClusterFile) -> tuple[ClusterServer, ...]:
    """Return the servers that joined here and that the cluster does not have yet."""
    there = {each.scheduler for each in cluster.servers}
    joined = joins.servers(joins.load(where.joins))
    return tuple(each for each in joined if each.scheduler not in there)


def tables(where: StateFolder, cluster: ClusterFile) -> ServerTables:
    """Return what the other servers must have like this one, the first.

    Those that come to an only server begin with them before it does, so that its broker, which
    begins again, finds theirs.
    """
    known = joins.load(where.joins)
    nodes = {name: msgspec.structs.replace(row, token="") for name, row in known.nodes.items()}
    servers, wanted, table = cluster.servers, cluster.wanted, where.users.read_bytes()
    if cluster.may_grow:
        wanted = GROWS_TO
        servers = (*servers, *entering(where, cluster))[:GROWS_TO]
        table = sealed_json.encode(_with_admins(own_users.load(where), servers))
    return ServerTables(
        servers=servers,
        wanted=wanted,
        guest=cluster.guest,
        users=table,
        joins=sealed_json.encode(Joins(nodes=nodes)),
        revoked=where.revoked.read_bytes() if where.revoked.exists() else b"",
        genesis=b"" if cluster.waits else where.genesis.read_bytes(),
    )


def take(where: StateFolder, cluster: ClusterFile, given: ServerTables) -> ClusterFile:
    """Write the first server's tables into this folder; return the record that counts from then on.

    Raises BadRequest for tables of a cluster in which this server has no place.
    """
    if len(given.servers) < given.wanted:
        return cluster  # not founded yet: there is nothing to begin with
    here = next((each for each in given.servers if each.node == cluster.node), None)
    if here is None and cluster.waits and given.wanted < cluster.wanted:
        return cluster  # founded before, and this server is about to be taken in
    _check(where, cluster, given)
    durable_file.replace(where.users, given.users)
    durable_file.replace(where.joins, given.joins)
    if given.revoked:
        durable_file.replace(where.revoked, given.revoked)
    users.load(where.users), joins.load(where.joins), revoked_keys.load(where.revoked)
    if not cluster.waits and given.servers == cluster.servers:
        return cluster
    if cluster.waits:
        durable_file.replace(where.genesis, given.genesis)
    named = msgspec.structs.replace(cluster, guest=given.guest)
    return complete(where, named, given.servers)


def _check(where: StateFolder, cluster: ClusterFile, given: ServerTables) -> None:
    for each in given.servers:
        cluster_server.check(each)
    here = next((each for each in given.servers if each.node == cluster.node), None)
    if here is None or here.scheduler != cluster.scheduler_public_key:
        raise BadRequest(f"{cluster.node} is none of the servers of its cluster")
    if not cluster.waits:
        _check_known(where, cluster, given)


def _check_known(where: StateFolder, cluster: ClusterFile, given: ServerTables) -> None:
    """Refuse tables that change a server, or lack one whose key was not revoked: an old copy of the
    first server's folder takes nobody out."""
    now = {each.node: each for each in given.servers}
    revoked = revoked_keys.parse(given.revoked, where.revoked) if given.revoked else {}
    for each in cluster.servers:
        if each.node not in now and each.agent not in revoked:
            raise BadRequest(
                f"the first server does not know server {each.node}, whose key was not revoked",
                hint="Was it replaced by a file that is older than that server?",
            )
        if now.get(each.node, each) != each and each.agent not in revoked:
            raise BadRequest(f"server {each.node} does not change its keys or its address")


def complete(
    where: StateFolder, cluster: ClusterFile, servers: tuple[ClusterServer, ...]
) -> ClusterFile:
    """Write down all servers: their certificates, the broker's configuration with its routes, then
    the record of the cluster."""
    pins = "".join(each.certificate for each in servers)
    durable_file.replace(where.keys / "brokers.crt", pins.encode())
    routes = "".join(each.route_certificate for each in servers)
    durable_file.replace(where.route_pins, routes.encode())
    made = msgspec.structs.replace(
        cluster,
        servers=servers,
        wanted=len(servers),
        schedulers=tuple(each.scheduler for each in servers),
        brokers=tuple(each.url for each in servers if each.node != cluster.node),
    )
    broker_setup.write_config(where, made, own_users.load(where))
    state_folder.write_cluster(where, made)
    return made
