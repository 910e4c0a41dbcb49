# SPDX-License-Identifier: Apache-2.0
"""The state folder of this host's own node: what a first start makes in it, and in which order.

For the start of a node and for joins. Owns the order of the steps, in which the format mark is the
last, so that a start which was interrupted anywhere is simply repeated.
"""

from __future__ import annotations

import socket
import uuid

from stoker.agent.state import (
    gossip_files,
    joins,
    state_folder,
)
from stoker.agent.state.joins import Joins
from stoker.agent.state.state_folder import GUEST, REGISTRAR, ClusterFile, StateFolder
from stoker.agent.supervise import (
    broker_port,
    own_users,
    state_check,
)
from stoker.mesh.broker import users
from stoker.mesh.identity import certificate, identity, sealed_json
from stoker.mesh.log import log_record
from stoker.native import durable_file
from stoker.native.errors import Corrupt


def load_or_create(where: StateFolder, name: str = "") -> ClusterFile:
    """Return the node of this folder; a first start makes its identities and its users. `name`:
    that of a new node, by default the host's."""
    if state_folder.exists(where):
        state_folder.check_folders(where)
        state_check.check_owners(where)
        if state_folder.has_joined(where):
            cluster = state_folder.load(where)
            state_check.check(where, None)
            return cluster
        make_certificate(where)
        cluster = state_folder.load(where)
        _check_seeds(where, cluster)
        if cluster.is_first or not cluster.waits:
            state_check.check(where, own_users.load(where), cluster.admin)
        if cluster.takes_hosts:
            make_door(where)
            gossip_files.make(where)
        return cluster
    state_folder.check_first(where)
    return complete(where, name)


def complete(where: StateFolder, name: str = "") -> ClusterFile:
    """Complete a first start from wherever an earlier one was interrupted. Each step is done once
    and in this order, so the result of a step proves that the earlier steps were complete."""
    if where.cluster.exists() or where.users.exists():
        state_check.check_keys(where, own_users.load(where))
    keys = {name: identity.load_or_create(where.key(name)) for name in state_folder.IDENTITIES}
    caller = own_users.caller()
    own = identity.load_or_create(where.key(f"user-{caller}"))
    make_certificate(where)
    if not where.users.exists():
        jobs_as = own_users.default_mapping()
        rows = {"admin": keys["admin"].public, caller: own.public}
        users.save(
            where.users,
            {name: own_users.user(key, jobs_as, admin=True) for name, key in rows.items()},
        )
    if not where.cluster.exists():
        log_record.begin(where.scheduler)
        port = broker_port.choose(where.instance)
        named = name or node_name()
        made = ClusterFile(str(uuid.uuid4()), named, keys["scheduler"].public, port)
        state_folder.write_cluster(where, made)
    cluster = state_folder.read_json(where.cluster, ClusterFile)
    _check_seeds(where, cluster)
    if not where.genesis.exists():
        _found(where, cluster)
    state_folder.seal_format(where)
    return cluster


def _found(where: StateFolder, cluster: ClusterFile) -> None:
    """Write the genesis; its modules, with the core, are loaded for a first start alone."""
    from stoker.mesh.replica import cluster_limits
    from stoker.mesh.replica.new_cluster import founding
    from stoker.mesh.server import level_pin

    settings = where.root / "config.toml"
    limits, level = cluster_limits.read(settings), level_pin.read(settings).newest
    accounts = users.accounts(own_users.load(where))
    made = founding(cluster.cluster, cluster.scheduler_public_key, limits, accounts, level)
    durable_file.replace(where.genesis, sealed_json.encode(made))


def make_certificate(where: StateFolder) -> None:
    """Make the broker's key and certificate if both are missing; copies of an older certificate on
    other machines are then out of date. One file without the other is damage and stays as it is."""
    if where.broker_key.exists() or (
        state_folder.exists(where) and where.broker_certificate.exists()
    ):
        return
    key, pinned = certificate.make(f"stoker broker {where.instance}")
    durable_file.replace(where.broker_key, key)
    durable_file.replace(where.broker_certificate, pinned)


def make_door(where: StateFolder) -> None:
    """Make what a node needs that other hosts may join: two keys and an empty record, each if it
    is missing and no node has joined yet. A record that was lost with its nodes is not made again.
    """
    if not where.key(GUEST).exists():
        if not where.joins.exists():
            joins.save(where.joins, Joins())
        identity.load_or_create(where.key(REGISTRAR))
        identity.load_or_create(where.key(GUEST))  # last: it proves that the others were made


def publish_certificate(where: StateFolder) -> None:
    """Put the certificate where every user of this machine can read it and nobody can write."""
    durable_file.replace(where.certificate, certificate.read(where.broker_certificate), 0o644)


def _check_seeds(where: StateFolder, cluster: ClusterFile) -> None:
    """Check every identity's key, and that the scheduler's belongs to this node; else Corrupt."""
    keys = {name: identity.load(where.key(name)) for name in state_folder.IDENTITIES}
    if keys["scheduler"].public != cluster.scheduler_public_key:
        path = where.key("scheduler")
        raise Corrupt(f"{path} is not the key that {where.cluster} names", hint="Restore them")


def node_name() -> str:
    """Return the short name of this host, which a new node gets by default."""
    return socket.gethostname().split(".")[0].lower()[:63] or "node"
