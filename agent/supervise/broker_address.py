# SPDX-License-Identifier: Apache-2.0
"""The address at which a node's broker takes connections of other hosts: `stoker cluster init`.

Owns the rule that a broker listens beyond loopback only after its owner named the address, and that
this happens while no process of the node runs: each process is then started with the same one.
"""

from __future__ import annotations

import ipaddress
import os

import msgspec

from stoker.agent.state import joins, node_name, state_folder
from stoker.agent.state.state_folder import GUEST, ClusterFile, StateFolder
from stoker.agent.supervise import (
    broker_port,
    lock,
    own_folder,
    pids,
    server_setup,
    target_node,
)
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.log import log_record
from stoker.mesh.wire.cluster_server import COUNTS
from stoker.native import durable_file
from stoker.native.errors import BadRequest, Refused


@state_folder.disk_errors()
def init(
    where: StateFolder, address: str, port: int | None, name: str, servers: int | None = None
) -> ClusterFile:
    """Prepare the node of this folder, which is made if there is none, and return its record.

    An existing node keeps its log, keys and users. `address` LOOPBACK takes other hosts away again.
    `servers`: the number of servers of its cluster, itself included; by default as before.
    """
    checked = "" if _checked(address) == LOOPBACK else address
    if name:
        node_name.check(name)
    _check_count(servers or 1, checked)
    state_folder.prepare(where)
    lock_file = lock.take(where)
    try:
        if lock_file is None or pids.find(where):
            raise Refused(
                f"a node runs in {where.root}: its address is changed while it does not",
                hint=f"`{target_node.call(where, 'down')}` first, which ends its jobs",
            )
        before = own_folder.load_or_create(where, name)
        if before.joined:
            raise Refused(f"node {before.node} joined the cluster at {before.url}: no broker here")
        wanted = servers or before.wanted
        _check_servers(where, before, wanted, checked)
        if name and name != before.node:
            raise Refused(f"this node is named {before.node}, which its log knows it by")
        made = msgspec.structs.replace(
            before, address=checked, port=_port(where, before, checked or LOOPBACK, port)
        )
        if made.takes_hosts:
            own_folder.make_door(where)
        made = _with_servers(where, made, wanted)
        if wanted == 1:
            _let_grow(where)
        if made != before:
            state_folder.write_cluster(where, made)
        return made
    finally:
        if lock_file is not None:
            os.close(lock_file)


def _check_count(wanted: int, address: str) -> None:
    """Refuse a number of servers that no cluster has, or several without a way to each other."""
    if wanted not in COUNTS:
        raise BadRequest(f"a cluster has 1, 3 or 5 servers, not {wanted}")
    if wanted > 1 and not address:
        raise BadRequest("servers reach each other: name an address with --address")


def _check_servers(where: StateFolder, before: ClusterFile, wanted: int, address: str) -> None:
    """Refuse what would change the servers of a cluster that has some, or give it too few ways."""
    if before.several and not before.waits:
        raise Refused(
            f"the other servers know {before.node} as it is: its cluster is founded",
            hint="Servers of a cluster do not move yet",
        )
    if before.several and not before.is_first:
        raise Refused(f"{before.node} joined as a server: `cluster init` is for the first one")
    if before.servers and joins.servers(joins.load(where.joins)):
        raise Refused("servers have joined already, which know this one as it is")
    _check_count(wanted, address)
    if wanted == 1:
        return
    record = log_record.read(where.scheduler)
    if record is None or not record.is_new:
        raise Refused(
            f"node {before.node} has a log already, which one scheduler keeps",
            hint="A cluster of several servers begins in a new folder: name one with --state",
        )


def _with_servers(where: StateFolder, made: ClusterFile, wanted: int) -> ClusterFile:
    """Return the record with this host as the first server, if there shall be several."""
    if wanted == 1:
        return msgspec.structs.replace(made, wanted=1, servers=(), guest="")
    server_setup.make_route_certificate(where, made.address)
    known = made.servers[0].route_port if made.servers else 0
    usable = known and broker_port.is_usable(known, made.address)
    route_port = (
        known if usable else broker_port.choose(where.instance, made.address, beside=made.port)
    )
    own = server_setup.server_here(where, made, route_port)
    guest = identity.load(where.key(GUEST)).public
    return msgspec.structs.replace(made, wanted=wanted, servers=(own,), guest=guest)


def _let_grow(where: StateFolder) -> None:
    """Have the genesis of a log that is not begun yet say that other servers may come while jobs
    run. A log that was begun keeps the rules that it has."""
    from stoker.mesh.log.genesis import REPLICATED_SINCE, Genesis

    record = log_record.read(where.scheduler)
    found = state_folder.read_json(where.genesis, Genesis)
    may = record is not None and record.is_new
    if may and found.level >= REPLICATED_SINCE and not found.replicated:
        founds = msgspec.structs.replace(found, replicated=True)
        durable_file.replace(where.genesis, sealed_json.encode(founds))


def _checked(address: str) -> str:
    """Return the address; BadRequest unless it is one of this host."""
    try:
        found = ipaddress.IPv4Address(address)
    except ValueError:
        raise BadRequest(f"{address!r} is not an IPv4 address such as 10.0.0.5") from None
    if found.is_unspecified or found.is_multicast:
        raise BadRequest(f"{address} is not one address: name the one that other hosts reach")
    if not broker_port.is_free(0, address):
        raise BadRequest(f"this host has no address {address}", hint="`ip address` lists them")
    return address


def _port(where: StateFolder, before: ClusterFile, address: str, wanted: int | None) -> int:
    """Return the port: the wanted one, else that of before, else another that is free there."""
    if wanted is not None:
        broker_port.check(wanted, address)
        return wanted
    if before.port and broker_port.is_usable(before.port, address):
        return before.port
    return broker_port.choose(where.instance, address)
