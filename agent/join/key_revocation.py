# SPDX-License-Identifier: Apache-2.0
"""The revocation of keys: the broker takes a key no more and cuts its connections; nobody else
notices.

Owns the order: a key is in the table of revoked keys before the broker is told, and from then on it
counts nowhere, however often the broker starts. An interrupted revocation can be repeated.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.agent.state import joins, state_folder
from stoker.agent.state.state_folder import ClusterFile, StateFolder
from stoker.agent.supervise import pids, startup
from stoker.mesh.broker import broker_reload, revoked_keys, users
from stoker.mesh.broker.broker_program import BROKER
from stoker.mesh.broker.revoked_keys import KeyKind, RevokedKey
from stoker.mesh.server import departures_file
from stoker.mesh.wire.cluster_server import admin_of
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
        return _tell(where, cluster)


def holder(where: StateFolder, name: str, kind: KeyKind | None = None) -> Holder:
    """Return the node or user of this name; NotFound if there is none, Refused if there are two."""
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
    if only.name in _of_servers(cluster):
        raise BadRequest(
            f"{only.name} belongs to a server of the cluster, which keeps its keys",
            hint="Servers of a cluster are not taken out yet",
        )
    own = only.name in PROTECTED or where.key(f"user-{only.name}").exists()
    if only.kind == "user" and own:
        raise BadRequest(f"{only.name} owns this node and keeps its key")
    return only


def _of_servers(cluster: ClusterFile) -> set[str]:
    """Return the nodes and users of the servers beside this one."""
    others = [each.node for each in cluster.servers[1:]]
    return {*others, *map(admin_of, others)}


LIST = "`stoker cluster keys` lists them"


def _holders(where: StateFolder) -> list[Holder]:
    rows = [Holder("user", name, row.public_key) for name, row in _users(where).items()]
    if where.key(state_folder.GUEST).exists():
        nodes = joins.load(where.joins).nodes
        rows += [Holder("node", name, row.public_key) for name, row in nodes.items()]
    return rows


def _users(where: StateFolder) -> users.Users:
    return startup.load_users(where)


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
    return sorted(gone)


def _take_back(where: StateFolder, holder: Holder, why: RevokedKey) -> None:
    """Write a key down as revoked, then drop its row; both may have been done before."""
    rows = revoked_keys.with_key(revoked_keys.load(where.revoked), holder.key, why)
    if holder.kind == "node" and (former := joins.load(where.joins).nodes[holder.name].former):
        rows = revoked_keys.with_key(rows, former, why)
    revoked_keys.save(where.revoked, rows)
    if holder.kind == "user":
        table = _users(where)
        users.save(where.users, {k: v for k, v in table.items() if k != holder.name})
    else:
        known = joins.load(where.joins)
        joins.save(where.joins, joins.without_node(known, holder.name))


def _tell(where: StateFolder, cluster: ClusterFile) -> bool:
    """Have the broker take the keys that are left; False if none runs."""
    startup.write_broker_config(where, cluster, _users(where))
    running = pids.find(where).get(BROKER)
    if running is None:
        return False
    broker_reload.reload(running.pid, where.log / f"{BROKER}.log")
    return True
