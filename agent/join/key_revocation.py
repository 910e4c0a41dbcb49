# SPDX-License-Identifier: Apache-2.0
"""The revocation of keys: the broker takes a key no more and cuts its connections; nobody else
notices.

Owns the order: a key is in the table of revoked keys before the broker is told, and from then on it
counts nowhere, however often the broker starts. An interrupted revocation can be repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

from stoker.agent.join import growth, mesh_keys
from stoker.agent.state import joins, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import broker_setup, own_users, pids
from stoker.mesh.broker import broker_reload, revoked_keys, users
from stoker.mesh.broker.broker_program import BROKER
from stoker.mesh.broker.revoked_keys import KeyKind, RevokedKey
from stoker.mesh.server import departures_file
from stoker.mesh.wire.cluster_server import ClusterServer, admin_of
from stoker.native.errors import BadRequest, NotFound, Refused

PROTECTED = ("admin",)
"""Users whom the node itself needs."""
NS = 1_000_000_000


class Holder(NamedTuple):
    """The node or user that has a key."""

    kind: KeyKind
    name: str
    key: str


@state_folder.disk_errors()
def revoke(where: StateFolder, holder: Holder, why: str, now_s: int) -> bool:
    """Revoke a key; return True if a running broker has cut its connections."""
    cluster = state_folder.load_made_here(where)
    with state_folder.edit_lock(where):
        _take_back(where, holder, RevokedKey(holder.kind, holder.name, now_s, why))
        server = _server(cluster, holder.name) if holder.kind == "node" else None
        if server is not None:
            owner = Holder("user", admin_of(server.node), server.admin)
            _take_back(where, owner, RevokedKey(owner.kind, owner.name, now_s, why))
            cluster = growth.without(where, cluster, server.node)
        if holder.kind == "node":
            mesh_keys.begin(where, f"{holder.name} was revoked")
        return _tell(where, cluster)


def _nobody_says() -> None:
    """Return that nobody knows which schedulers count."""


def holder(
    where: StateFolder,
    name: str,
    kind: KeyKind | None = None,
    counting: Callable[[], Collection[str] | None] = _nobody_says,
) -> Holder:
    """Return the node or user of this name; NotFound if there is none, Refused if there are two.

    `counting` returns the keys of the schedulers in the roster, None if none of them answers: a
    server that is among them keeps its keys.
    """
    cluster = state_folder.load_made_here(where)
    found = [each for each in _holders(where) if each.name == name and kind in (None, each.kind)]
    if not found:
        if name == cluster.node and kind != "user":
            raise BadRequest(
                f"node {name} is this host's own, whose key never leaves it",
                hint="`stoker down` ends it",
            )
        raise NotFound(f"no node that joined and no user is called {name[:80]!r}", hint=LIST)
    if len(found) > 1:
        raise Refused(
            f"a node and a user are called {name}", hint="Say which: --kind node or --kind user"
        )
    only = found[0]
    _check_server(cluster, only, counting)
    own = only.name in PROTECTED or where.key(f"user-{only.name}").exists()
    if only.kind == "user" and own:
        raise BadRequest(f"{only.name} owns this node and keeps its key")
    return only


def _server(cluster: ClusterFile, node: str) -> ClusterServer | None:
    """Return the server of this name beside this host; None if there is none."""
    return next((each for each in cluster.servers[1:] if each.node == node), None)


def _check_server(
    cluster: ClusterFile, holder: Holder, counting: Callable[[], Collection[str] | None]
) -> None:
    """Refuse to take back the key of a server that counts, or that of its owner."""
    owners = {admin_of(each.node): each.node for each in cluster.servers[1:]}
    if holder.kind == "user" and holder.name in owners:
        raise BadRequest(
            f"{holder.name} belongs to server {owners[holder.name]} of the cluster",
            hint=f"`stoker cluster revoke {owners[holder.name]}` takes both back",
        )
    server = _server(cluster, holder.name) if holder.kind == "node" else None
    if server is None:
        return
    if len(cluster.servers) == 2:
        raise Refused(
            f"the broker of {server.node} is the only one beside that of {cluster.node}, which does"
            " not go on alone",
            hint=f"It may stay without a scheduler that counts: `stoker cluster remove"
            f" {server.node}`; or let another server enter before it goes",
        )
    roster = counting()
    if roster is None:
        raise Refused(
            f"no scheduler leads, so nobody says whether server {server.node} counts",
            hint="Try again once one does: `stoker cluster status`",
        )
    if server.scheduler in roster:
        raise Refused(
            f"{server.node} is a server of the cluster that counts, and keeps its keys",
            hint=f"`stoker cluster remove {server.node}` first, if it shall go for good",
        )


LIST = "`stoker cluster keys` lists them"


def _holders(where: StateFolder) -> list[Holder]:
    rows = [Holder("user", name, row.public_key) for name, row in _users(where).items()]
    if where.key(state_folder.GUEST).exists():
        nodes = joins.load(where.joins).nodes
        servers = state_folder.load(where).servers[1:]  # of an interrupted revocation, these alone
        rows += [Holder("node", x.node, x.agent) for x in servers if x.node not in nodes]
        rows += [Holder("node", name, row.public_key) for name, row in nodes.items()]
    return rows


def _users(where: StateFolder) -> users.Users:
    return own_users.load(where)


@state_folder.disk_errors()
def settle_departures(where: StateFolder) -> list[str]:
    """Revoke the keys of nodes that the log says were removed, in the files alone; return the
    nodes' names. Their names and tokens' places are free again."""
    if not where.key(state_folder.GUEST).exists():
        return []
    left = departures_file.read(where.departures)
    with state_folder.edit_lock(where):
        known = joins.load(where.joins)
        gone = joins.removed(known, left)
        for name, row in gone.items():
            why = RevokedKey("node", name, row.at_ns // NS, f"removed: {row.why}")
            _take_back(where, Holder("node", name, known.nodes[name].public_key), why)
        if gone:
            mesh_keys.begin(where, f"{', '.join(sorted(gone))} were removed")
    return sorted(gone)


def _take_back(where: StateFolder, holder: Holder, why: RevokedKey) -> None:
    """Write a key down as revoked, then drop its row; both may have been done before."""
    rows = revoked_keys.with_key(revoked_keys.load(where.revoked), holder.key, why)
    if holder.kind == "user":
        revoked_keys.save(where.revoked, rows)
        table = _users(where)
        users.save(where.users, {k: v for k, v in table.items() if k != holder.name})
        return
    known = joins.load(where.joins)
    row = known.nodes.get(holder.name)
    if row is not None and row.former:
        rows = revoked_keys.with_key(rows, row.former, why)
    revoked_keys.save(where.revoked, rows)
    if row is not None:
        joins.save(where.joins, joins.without_node(known, holder.name))


def _tell(where: StateFolder, cluster: ClusterFile) -> bool:
    """Have the broker take the keys that are left; False if none runs."""
    broker_setup.write_config(where, cluster, _users(where))
    running = pids.find(where).get(BROKER)
    if running is None:
        return False
    broker_reload.reload(running.pid, where.log / f"{BROKER}.log")
    return True
