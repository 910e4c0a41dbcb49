# SPDX-License-Identifier: Apache-2.0
"""`joins.json`: the join tokens that were made here and the nodes that joined with them.

Owns that a token admits one node: its use and the node are one record, which is on disk before the
node learns of it. Change the file only under `state_folder.edit_lock`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import msgspec

from stoker.agent.state.state_folder import read_json
from stoker.mesh.identity import identity, sealed_json
from stoker.mesh.server.departures_file import DepartedNode
from stoker.mesh.wire.cluster_server import ClusterServer
from stoker.native import durable_file
from stoker.native.errors import Corrupt, Refused, StokerError

TOKENS_MAX = 256
"""The most join tokens that are kept, used and ended ones included."""
NODES_MAX = 1024
NS = 1_000_000_000


class IssuedToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A join token, by the public half of its key."""

    expires_s: int
    """The end of its life, in seconds of CLOCK_REALTIME."""
    server: bool = False
    """True if it makes a server of its host."""


class JoinedNode(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node that joined, by its name."""

    public_key: str
    """The key of its agent."""
    token: str
    """The public half of the key of the token that it used."""
    joined_s: int
    former: str = ""
    """The key that the present one replaces, in force until its node uses that one."""
    server: ClusterServer | None = None
    """The server that its host is besides, in a cluster of several."""


class Joins(msgspec.Struct, frozen=True):
    """All of `joins.json`."""

    tokens: dict[str, IssuedToken] = {}
    nodes: dict[str, JoinedNode] = {}


def load(path: Path) -> Joins:
    """Return the record; Corrupt if it is missing or damaged."""
    found = read_json(path, Joins)
    try:
        keys = (key for row in found.nodes.values() for key in (row.public_key, row.former) if key)
        for public in (*found.tokens, *keys):
            identity.Verifier(public)
    except StokerError as error:
        raise Corrupt(f"{path}: {error.message}", hint="Restore it from a backup") from None
    return found


def save(path: Path, joins: Joins) -> None:
    """Replace the record durably; only its owner can read it."""
    durable_file.replace(path, sealed_json.encode(joins))


def with_token(
    joins: Joins, public: str, expires_s: int, now_s: int, *, server: bool = False
) -> Joins:
    """Return the record with one more token. Refused if TOKENS_MAX of them are in force."""
    used = {node.token for node in joins.nodes.values()}
    over = sorted(
        (row.expires_s, key)
        for key, row in joins.tokens.items()
        if key in used or row.expires_s <= now_s
    )
    room = len(joins.tokens) + 1 - TOKENS_MAX
    if room > len(over):
        raise Refused(
            f"{TOKENS_MAX} join tokens are in force, which is the most",
            hint="Use some of them, or wait until one expires",
        )
    dropped = {key for _, key in over[: max(room, 0)]}
    kept = {key: row for key, row in joins.tokens.items() if key not in dropped}
    return msgspec.structs.replace(joins, tokens={**kept, public: IssuedToken(expires_s, server)})


def servers(joins: Joins) -> tuple[ClusterServer, ...]:
    """Return the servers that joined, in the order in which they did."""
    rows = sorted(joins.nodes.values(), key=lambda row: row.joined_s)
    return tuple(row.server for row in rows if row.server is not None)


def removed(joins: Joins, left: Iterable[DepartedNode]) -> dict[str, DepartedNode]:
    """Return the nodes that are no part of the cluster any more, and not later ones of their names.

    A node may have told another key than its own, so the time decides, too.
    """
    found: dict[str, DepartedNode] = {}
    for gone in left:
        row = joins.nodes.get(gone.node)
        if row is not None and (
            row.public_key == gone.key or gone.at_ns >= (row.joined_s + 1) * NS
        ):
            found[gone.node] = gone
    return found


def without_node(joins: Joins, name: str) -> Joins:
    """Return the record without a node, whose name is free again, and without the token that it
    used, which would admit it once more."""
    gone = joins.nodes[name]
    nodes = {each: row for each, row in joins.nodes.items() if each != name}
    tokens = {key: row for key, row in joins.tokens.items() if key != gone.token}
    return msgspec.structs.replace(joins, tokens=tokens, nodes=nodes)


def with_key(joins: Joins, name: str, public: str, former: str) -> Joins:
    """Return the record with another key of a node; `former`, if given, stays in force, too."""
    row = msgspec.structs.replace(joins.nodes[name], public_key=public, former=former)
    return msgspec.structs.replace(joins, nodes={**joins.nodes, name: row})


def with_node(joins: Joins, name: str, node: JoinedNode) -> Joins:
    """Return the record with one more node."""
    assert name not in joins.nodes, "a name is one node's"
    return msgspec.structs.replace(joins, nodes={**joins.nodes, name: node})
