# SPDX-License-Identifier: Apache-2.0
"""An administrator's requests about the roster: a server leaves it, or comes back into it.

Pure: a request, the state and the servers that this host knows in, a change of the roster out. Owns
that a request may be repeated: a server that has left already, or is in, is no error.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from stoker.mesh.broker.broker_routes import COPIES_MAX
from stoker.mesh.log import roster_change
from stoker.mesh.log.genesis import VACANT, RosterMember, member_number
from stoker.mesh.replica.events import Admin, RosterChange
from stoker.mesh.replica.state import ReplicaState
from stoker.mesh.wire import schema
from stoker.mesh.wire.schema_cluster import LogView
from stoker.native.errors import NotFound, Refused

Servers = Mapping[str, str]
"""The public key of each server's scheduler, by the server's name."""


def remove(
    token: Any, request: schema.ClusterRemoveRequest, state: ReplicaState, servers: Servers
) -> Admin | RosterChange:
    """Let a server's scheduler go: from then on it counts for no majority."""
    number = member_number(_key(request.server, servers))
    schedulers = state.config.schedulers if state.config is not None else ()
    change = roster_change.leaving(schedulers, number)
    return RosterChange(token, change) if change is not None else Admin(token, (), ())


def admit(
    token: Any, request: schema.ClusterAdmitRequest, state: ReplicaState, servers: Servers
) -> Admin | RosterChange:
    """Take a server's scheduler in again, that had left."""
    public_key = _key(request.server, servers)
    member = RosterMember(member_number(public_key), public_key)
    schedulers = state.config.schedulers if state.config is not None else ()
    if member in schedulers:
        return Admin(token, (), ())
    return RosterChange(token, roster_change.entering(schedulers, member))


def check_copy(server: str, log: LogView | None) -> None:
    """Refuse a server that keeps no current copy of the log: from the entry on, decisions may rest
    on it."""
    if log is None or len(log.copies) == COPIES_MAX:
        return
    if not any(each.server == server and each.current for each in log.copies):
        raise Refused(
            f"the roster stays: server {server[:80]} has no current copy of the log",
            hint="It gets one by itself while it runs; ask again then",
        )


def refuse_server(node: str, number: int, roster: Sequence[RosterMember]) -> NoReturn:
    """Refuse to remove the node of a server, and name what takes the server out before."""
    numbers = [member.number for member in roster if member != VACANT]
    counts = number in numbers
    if numbers == [number]:
        hint = "`stoker down` there ends the cluster"
    elif counts:
        hint = f"`stoker cluster remove {node}` takes its scheduler out first"
    else:
        hint = (
            f"After `stoker down` on its host, `stoker cluster revoke {node}` on the first server"
            " takes its broker out; the other servers hear of that within seconds: ask again then"
        )
    raise Refused(f"node {node} has a scheduler and a broker of the cluster", hint=hint)


def _key(server: str, servers: Servers) -> str:
    if server not in servers:
        named = ", ".join(sorted(servers)) or "none: its only server is this one"
        raise NotFound(f"the cluster has no server {server[:80]!r}", hint=f"It has {named}")
    return servers[server]


Handler = Callable[[Any, Any, ReplicaState, Servers], Admin | RosterChange]
HANDLERS: dict[tuple[str, str], Handler] = {
    ("cluster", "remove"): remove,
    ("cluster", "admit"): admit,
}
"""The handler of each (noun, verb)."""
