# SPDX-License-Identifier: Apache-2.0
"""The members of the gossip mesh as this host sees them, for people: state, distance, since when.

Owns that a row says what the Serf agent of this host holds now; only the time since when it has is
what the agent wrote down.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator

import msgspec

from stoker.agent.state import gossip_files, state_folder
from stoker.agent.state.state_folder import StateFolder
from stoker.mesh.connection.context import LOOPBACK
from stoker.mesh.gossip.membership import FAILED, KnownMember
from stoker.mesh.gossip.network_coordinate import round_trip_s
from stoker.mesh.gossip.serf_client import SerfClient
from stoker.mesh.gossip.serf_config import KEYS_TAG
from stoker.mesh.gossip.serf_records import SerfMember
from stoker.native import durable_file
from stoker.native.errors import StokerError, Unavailable

SEEN = "seen.json"


class SeenMember(msgspec.Struct, frozen=True):
    """A member's state and the time since which this host has known it, as `seen.json` has it."""

    state: str
    since_s: float


class MeshMember(msgspec.Struct, frozen=True):
    """One member. Absent figures are None."""

    name: str
    address: str
    state: str
    rtt_s: float | None
    """The estimated round-trip time from this host; None until it is known well enough."""
    since_ns: int | None
    """The time since which this host has known it in this state, CLOCK_REALTIME."""
    keys: tuple[str, ...]
    """The digests of its gossip keys, the one that it seals with first."""


def write_seen(where: StateFolder, rows: dict[str, KnownMember]) -> None:
    """Write down since when each member is known in its state; a full disk loses that alone."""
    seen = {row.name: SeenMember(row.state, row.since_s) for row in rows.values()}
    with contextlib.suppress(OSError):
        durable_file.replace(gossip_files.folder(where) / SEEN, msgspec.json.encode(seen))


def read_seen(where: StateFolder) -> dict[str, SeenMember]:
    """Return what was written down; nothing if that was never, or cannot be read."""
    try:
        data = (gossip_files.folder(where) / SEEN).read_bytes()
        return msgspec.json.decode(data, type=dict[str, SeenMember])
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError):
        return {}


async def connect(where: StateFolder) -> SerfClient:
    """Return a connection to this host's Serf agent; Unavailable with the reason without one."""
    if why := gossip_files.absence(where, state_folder.load(where)):
        raise Unavailable(f"there is no gossip here: {why}")
    rpc = gossip_files.rpc(where)
    try:
        return await SerfClient.open(LOOPBACK, rpc.port, rpc.key)
    except StokerError as error:
        hint = f"Its log is {where.log / f'{gossip_files.SERF}.log'}"
        raise Unavailable(f"there is no gossip here: {error.message}", hint=hint) from None


async def listed(where: StateFolder) -> list[MeshMember]:
    """Return all members by name, failed ones first; Unavailable if the Serf agent does not run."""
    client, here = await connect(where), state_folder.load(where).node
    try:
        members = await client.members()
        own = await client.coordinate(here)
        found = {each.name: await client.coordinate(each.name) for each in members}
    finally:
        await client.close()
    seen = read_seen(where)
    rtt_s = {name: round_trip_s(own, coordinate) for name, coordinate in found.items()}
    rtt_s[here] = 0.0
    rows = [_row(each, rtt_s[each.name], seen.get(each.name)) for each in members]
    return sorted(rows, key=lambda row: (row.state != FAILED, row.name))


async def forget(where: StateFolder, name: str) -> None:
    """Have the mesh hold a failed member as one that left."""
    client = await connect(where)
    try:
        await client.force_leave(name)
    finally:
        await client.close()


def _row(member: SerfMember, rtt_s: float | None, seen: SeenMember | None) -> MeshMember:
    known = seen is not None and seen.state == member.status
    return MeshMember(
        member.name,
        member.address,
        member.status,
        rtt_s,
        int(seen.since_s * 1e9) if seen is not None and known else None,
        tuple(filter(None, (member.tags or {}).get(KEYS_TAG, "").split(","))),
    )


HEADS = ("NAME", "ADDRESS", "STATE", "RTT", "SINCE", "KEYS")


def lines(rows: list[MeshMember], *, wide: bool) -> Iterator[str]:
    """Yield the table for people; a dash stands for what is not known."""
    count = len(HEADS) - (not wide)
    cells = [HEADS[:count], *(_cells(row)[:count] for row in rows)]
    widths = [max(len(row[column]) for row in cells) for column in range(count)]
    for row in cells:
        text = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True))
        yield text.rstrip()


def _cells(row: MeshMember) -> tuple[str, ...]:
    rtt = "-" if row.rtt_s is None else f"{row.rtt_s * 1e3:.2f} ms"
    since = "-"
    if row.since_ns is not None:
        since = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(row.since_ns // 10**9))
    return row.name, row.address, row.state, rtt, since, ",".join(row.keys)
