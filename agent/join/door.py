# SPDX-License-Identifier: Apache-2.0
"""The decision on a join request: which node its sender becomes, or why none. No clock, no file.

Owns that a join token admits one node. The same request again gets the same answer, because an
answer may be lost; any other request with a used token is refused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from stoker.agent.state import joins, node_name
from stoker.agent.state.joins import JoinedNode, Joins
from stoker.mesh.wire.join_messages import JoinRequest
from stoker.native.errors import Denied


class InUse(NamedTuple):
    """Names and keys of others, which no node that joins may have."""

    names: Collection[str]
    keys: Collection[str]
    """The public keys of the schedulers, users and other identities of the broker."""
    servers_left: int = 0
    """The number of servers that may still join."""
    doors: Collection[str] = ()
    """The addresses at which brokers of other servers listen."""


class Admission(NamedTuple):
    """A request that is granted: the node, and the record with it. `is_new` is false for a request
    that was granted before."""

    node: str
    joins: Joins
    is_new: bool


class TurnedAway(Denied):
    """A request that is not granted. `counter` counts requests of its kind."""

    def __init__(self, counter: str, message: str, *, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.counter = counter


_ANOTHER = "Ask for another one: `stoker cluster token`, where the cluster was made"


def judge(request: JoinRequest, known: Joins, taken: InUse, now_s: int) -> Admission:
    """Return what a request that both its keys signed comes to, or raise TurnedAway."""
    used = next((name for name, row in known.nodes.items() if row.token == request.token), None)
    if used is not None:
        if known.nodes[used].public_key == request.agent:
            return Admission(used, known, is_new=False)
        raise TurnedAway("used", f"node {used} has joined with this token", hint=_ANOTHER)
    _check_token(request, known, now_s)
    _check_key(request, known, taken)
    if len(known.nodes) >= joins.NODES_MAX:
        raise TurnedAway("full", f"{joins.NODES_MAX} nodes have joined, which is the most")
    name = free_name(request.name, {*taken.names, *known.nodes})
    if request.server is not None:
        _check_server(request, name, taken)
    row = JoinedNode(request.agent, request.token, now_s, server=request.server)
    return Admission(name, joins.with_node(known, name, row), is_new=True)


def judge_rotation(request: JoinRequest, node: str, known: Joins, taken: InUse) -> Admission:
    """Return what a node's request for another key comes to, or raise TurnedAway.

    Its present key has signed it, in the place of a token. Both keys are in force then, until the
    node requests the same with the new key alone.
    """
    row = known.nodes.get(node)
    if row is None or request.name != node or request.token not in (row.public_key, row.former):
        raise TurnedAway("rotation_unknown", f"the key of node {node} is another one")
    if request.token == request.agent:
        if request.token != row.public_key:
            raise TurnedAway("rotation_unknown", f"node {node} was to use another key")
        return Admission(node, joins.with_key(known, node, row.public_key, ""), bool(row.former))
    if request.agent == row.public_key:
        return Admission(node, known, is_new=False)
    _check_key(request, known, taken)
    return Admission(node, joins.with_key(known, node, request.agent, request.token), is_new=True)


def _check_token(request: JoinRequest, known: Joins, now_s: int) -> None:
    issued = known.tokens.get(request.token)
    if issued is None:
        raise TurnedAway(
            "unknown", "this cluster did not make this token, or expired it long ago", hint=_ANOTHER
        )
    if now_s >= issued.expires_s:
        over_s = now_s - issued.expires_s
        raise TurnedAway("expired", f"this token expired {over_s} s ago", hint=_ANOTHER)
    if issued.server != (request.server is not None):
        made, wanted = ("server", "node") if issued.server else ("node", "server")
        way = "stoker cluster token" + " --server" * (not issued.server)
        raise TurnedAway(
            "wrong_kind", f"this token makes a {made} of its host, not a {wanted}", hint=f"`{way}`"
        )


def _check_server(request: JoinRequest, name: str, taken: InUse) -> None:
    """Raise TurnedAway for a server that cannot stand beside the others. Its name is that of its
    broker, which it has in its configuration already, so it gets no other one."""
    server = request.server
    assert server is not None
    if not taken.servers_left:
        raise TurnedAway("servers_full", "this cluster has all the servers that it may have")
    if name != request.name:
        raise TurnedAway(
            "name_taken",
            f"a server or node is called {request.name} already",
            hint="`--name` gives this one another name; the token is still good",
        )
    if (server.node, server.agent) != (request.name, request.agent):
        raise TurnedAway("malformed_server", "the server's record is not that of its request")
    if not set(server.keys).isdisjoint(taken.keys):
        raise TurnedAway("key_taken", "a key of the new server belongs to somebody else already")
    if not set(server.doors).isdisjoint(taken.doors):
        raise TurnedAway("address_taken", f"another server listens at {server.address} already")


def _check_key(request: JoinRequest, known: Joins, taken: InUse) -> None:
    nodes = {key for row in known.nodes.values() for key in (row.public_key, row.former)}
    if request.agent in taken.keys or request.agent in nodes or request.agent in known.tokens:
        raise TurnedAway("key_taken", "the new node's key belongs to somebody else already")


def free_name(wanted: str, names: Collection[str]) -> str:
    """Return the name, or the first of `NAME-2`, `NAME-3` and so on that no node has."""
    if not node_name.is_name(wanted):
        raise TurnedAway("bad_name", node_name.refusal(wanted), hint=node_name.RULE)
    if wanted not in names:
        return wanted
    for number in range(2, len(names) + 3):
        end = f"-{number}"
        name = wanted[: node_name.NAME_CHARS_MAX - len(end)] + end
        if name not in names:
            return name
    raise AssertionError("more numbers than names")
