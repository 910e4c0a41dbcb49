# SPDX-License-Identifier: Apache-2.0
"""The keys of a cluster as its first node knows them: whose each is, since when, and if it counts.

Owns that no secret is shown: the rows have public halves alone, and digests of gossip keys.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping

import msgspec

from stoker.agent.state import gossip_files, joins, state_folder
from stoker.agent.state.state_folder import GUEST, REGISTRAR, StateFolder
from stoker.agent.supervise import own_users
from stoker.mesh.broker import revoked_keys
from stoker.mesh.identity import identity

NS = 1_000_000_000


class KeyRow(msgspec.Struct, frozen=True):
    """One key. Times are CLOCK_REALTIME ns, None where nobody wrote them down."""

    name: str
    kind: str
    """`node`, `user`, `scheduler`, `registrar`, `guest` or `gossip`."""
    state: str
    """`in force` or `revoked`."""
    since_ns: int | None
    """The time at which a node joined."""
    seen_ns: int | None
    """The time at which the scheduler last heard a node."""
    revoked_ns: int | None
    why: str
    key: str
    """The public half; of a gossip key, which has none, the digest."""


@state_folder.disk_errors()
def listed(where: StateFolder, seen: Mapping[str, int]) -> list[KeyRow]:
    """Return all keys, those in force first. `seen`: when each node was heard last."""
    rows = [*_in_force(where, seen)]
    revoked = revoked_keys.load(where.revoked)
    kept = sorted((row for row in rows if row.key not in revoked), key=_order)
    return [*kept, *_revoked(revoked)]


def _order(row: KeyRow) -> tuple[str, str]:
    return row.kind, row.name


def _in_force(where: StateFolder, seen: Mapping[str, int]) -> Iterator[KeyRow]:
    cluster = state_folder.load_made_here(where)
    own = identity.load(where.key(state_folder.AGENT)).public
    yield _row(cluster.node, "node", own, seen_ns=seen.get(cluster.node))
    if where.key(GUEST).exists():
        for name, node in joins.load(where.joins).nodes.items():
            since_ns = node.joined_s * NS
            yield _row(name, "node", node.public_key, since_ns, seen.get(name))
            if node.former:
                yield _row(name, "node", node.former, since_ns)
        for name in (REGISTRAR, GUEST):
            yield _row(name, name, identity.load(where.key(name)).public)
    if gossip_files.file(where).exists():
        for digest in gossip_files.load(where).digests.split(","):
            yield _row("mesh", "gossip", digest)
    for each in cluster.servers[1:]:
        yield _row(each.node, REGISTRAR, each.registrar)
    for public in cluster.scheduler_keys:
        yield _row("scheduler", "scheduler", public)
    for name, user in own_users.load(where).items():
        yield _row(name, "user", user.public_key)


def _row(
    name: str, kind: str, key: str, since_ns: int | None = None, seen_ns: int | None = None
) -> KeyRow:
    return KeyRow(name, kind, "in force", since_ns, seen_ns, None, "", key)


def _revoked(rows: revoked_keys.RevokedKeys) -> Iterator[KeyRow]:
    for key, row in reversed(list(rows.items())):
        yield KeyRow(row.name, row.kind, "revoked", None, None, row.revoked_s * NS, row.why, key)


HEADS = ("NAME", "KIND", "STATE", "SINCE", "LAST SEEN", "KEY")


def lines(rows: list[KeyRow]) -> Iterator[str]:
    """Yield the table for people; a dash stands for what nobody wrote down."""
    cells = [HEADS, *((r.name, r.kind, r.state, _since(r), _time(r.seen_ns), r.key) for r in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(HEADS))]
    for row in cells:
        text = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield text.rstrip()


def _since(row: KeyRow) -> str:
    return _time(row.revoked_ns if row.state == "revoked" else row.since_ns)


def _time(ns: int | None) -> str:
    return "-" if ns is None else time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ns // NS))
