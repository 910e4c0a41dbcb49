# SPDX-License-Identifier: Apache-2.0
"""The broker of this host: its version, its port, and nats-server.conf with everybody's keys.

For the start of a node and for all that changes who may connect. Owns that the file is written from
the folder's own records, and that no revoked key is in it.
"""

from __future__ import annotations

import subprocess

import msgspec

from stoker.agent.state import (
    joins,
)
from stoker.agent.state.joins import JoinedNode
from stoker.agent.state.state_folder import GUEST, REGISTRAR, ClusterFile, StateFolder
from stoker.agent.supervise import (
    broker_port,
    own_users,
    pids,
    server_setup,
)
from stoker.mesh.broker import broker_config, budgets, revoked_keys, spool_bounds
from stoker.mesh.broker.broker_program import BROKER, broker_program
from stoker.mesh.broker.revoked_keys import RevokedKeys
from stoker.mesh.broker.users import Users
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.identity import identity
from stoker.mesh.server import departures_file
from stoker.native import durable_file
from stoker.native.errors import NotSupported, Refused


def check_broker() -> str:
    """Return the version of nats-server; NotSupported if it is wrong or missing."""
    program = broker_program()
    try:
        done = subprocess.run(
            [program, "--version"], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotSupported(f"{program} does not run: {error}") from None
    try:
        return ".".join(map(str, broker_config.check_version(done.stdout + done.stderr)))
    except NotSupported as error:
        raise NotSupported(f"{program}: {error.message}", hint=error.hint) from None


def settle_port(
    where: StateFolder, cluster: ClusterFile, wanted: int | None, found: dict[str, pids.ProcessId]
) -> ClusterFile:
    """Return the node with the port that its broker will have. The supervisor writes `cluster.json`
    once the broker listens there, so that a start that fails leaves no port behind."""
    if cluster.address:
        return _settled_where_hosts_know_it(cluster, wanted, found)
    if wanted is not None and not (wanted == cluster.port and BROKER in found):
        broker_port.check(wanted)  # before any process is ended
    port = wanted or cluster.port
    if BROKER in found:
        if port == cluster.port:
            return cluster
        pids.end(found.pop(BROKER), 5.0)
    if not port or not broker_port.is_usable(port):
        port = broker_port.choose(where.instance)
    where.endpoint.unlink(missing_ok=True)  # it names the port of the ended broker
    return msgspec.structs.replace(cluster, port=port)


def _settled_where_hosts_know_it(
    cluster: ClusterFile, wanted: int | None, found: dict[str, pids.ProcessId]
) -> ClusterFile:
    """Return the node with its port; Refused if `up` shall change it or another program has it."""
    if wanted not in (None, cluster.port):
        raise Refused(
            f"other hosts reach the broker at {cluster.url}",
            hint=f"`stoker cluster init --address {cluster.address} --port {wanted}` changes that",
        )
    if BROKER not in found:
        broker_port.check(cluster.port, cluster.address)
    return cluster


def move_broker(where: StateFolder, cluster: ClusterFile) -> ClusterFile:
    """Give the broker another free port; the supervisor stores it once the broker listens there."""
    cluster = msgspec.structs.replace(cluster, port=broker_port.choose(where.instance))
    write_config(where, cluster, own_users.load(where))
    return cluster


def write_config(where: StateFolder, cluster: ClusterFile, table: Users) -> None:
    """Write nats-server.conf for these keys and users."""
    durable_file.replace(where.nats / "nats-server.conf", text(where, cluster, table))


def text(where: StateFolder, cluster: ClusterFile, table: Users) -> bytes:
    """Return nats-server.conf of this folder; raises an error that names what is wrong."""
    settings = broker_config.BrokerSettings(
        server_name=cluster.node,
        port=cluster.port,
        store_dir=str(where.nats / "jetstream"),
        key_file=str(where.broker_key),
        certificate_file=str(where.broker_certificate),
        host=cluster.address or LOOPBACK,
        tls_only=bool(cluster.address),
        budgets=budgets.read(where.root / "config.toml"),
        spool=spool_bounds.read(where.root / "config.toml"),
        routes=server_setup.routes(where, cluster),
    )
    own, revoked = identity.load(where.key("agent")).public, revoked_keys.load(where.revoked)
    nodes = joined_nodes(where)
    servers = {each.node: each.agent for each in cluster.servers}
    keys = broker_config.BrokerKeys(
        scheduler=cluster.scheduler_public_key,
        agents=_in_force({cluster.node: own, **servers, **_keys(nodes)}, revoked),
        former=_in_force({name: row.former for name, row in nodes.items() if row.former}, revoked),
        users=_in_force({name: user.public_key for name, user in table.items()}, revoked),
        admins=frozenset(name for name, user in table.items() if user.admin),
        schedulers=_numbered(cluster.schedulers),
        copiers=server_setup.copiers(cluster, nodes),
        **_door_keys(where, cluster),
    )
    return broker_config.render(settings, keys).encode()


def joined_nodes(where: StateFolder) -> dict[str, JoinedNode]:
    """Return the nodes that joined and are still in the cluster, by name; none where no host could
    ever join."""
    if not where.key(GUEST).exists() and not where.joins.exists():
        return {}
    known = joins.load(where.joins)
    gone = joins.removed(known, departures_file.read(where.departures))
    return {name: row for name, row in known.nodes.items() if name not in gone}


def _keys(nodes: dict[str, JoinedNode]) -> dict[str, str]:
    return {name: row.public_key for name, row in nodes.items()}


def _in_force(keys: dict[str, str], revoked: RevokedKeys) -> dict[str, str]:
    return {name: public for name, public in keys.items() if public not in revoked}


def _door_keys(where: StateFolder, cluster: ClusterFile) -> dict[str, str]:
    """Return the keys of the registrar and of its guests, where hosts may join; all brokers of a
    cluster have the same accounts."""
    if not cluster.is_first and cluster.several:
        return {REGISTRAR: cluster.servers[0].registrar, GUEST: cluster.guest}
    if not cluster.takes_hosts:
        return {}
    return {name: identity.load(where.key(name)).public for name in (REGISTRAR, GUEST)}


def _numbered(public_keys: tuple[str, ...]) -> dict[int, str]:
    """Return the keys of several schedulers by number; the modules are loaded only for these."""
    if len(public_keys) < 2:
        return {}
    from stoker.mesh.log.genesis import member_number

    return {member_number(public): public for public in public_keys}
