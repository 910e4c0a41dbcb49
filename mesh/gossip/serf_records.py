# SPDX-License-Identifier: Apache-2.0
"""The records of Serf's RPC, version 1, as msgpack maps with Serf's own names.

Owns that what Serf sends is checked for its types alone; whether it is true is another question.
Source: Serf's documentation of its RPC protocol, and what Serf 0.9.4 sends.
"""

from __future__ import annotations

import ipaddress

import msgspec

VERSION = 1


class _SerfRecord(msgspec.Struct, frozen=True, rename="pascal"):
    """The base class of records that Serf sends."""


class SerfHeader(_SerfRecord, frozen=True, forbid_unknown_fields=True):
    """The first part of each answer and of each record of a stream."""

    seq: int
    error: str


class SerfMember(_SerfRecord, frozen=True):
    """One member as Serf holds it."""

    name: str
    addr: bytes | None
    """The address as 4 or 16 bytes."""
    port: int
    status: str
    """`alive`, `leaving`, `left` or `failed`."""
    tags: dict[str, str] | None = None

    @property
    def address(self) -> str:
        """The address as text; empty if Serf sent none."""
        try:
            return str(ipaddress.ip_address(self.addr or b""))
        except ValueError:
            return ""


class SerfMembers(_SerfRecord, frozen=True):
    members: list[SerfMember] | None


class SerfEvent(_SerfRecord, frozen=True):
    """A record of an event stream: members that changed, a user's event, or a query."""

    event: str
    members: list[SerfMember] = []
    name: str = ""
    payload: bytes | None = None
    id: int = msgspec.field(default=0, name="ID")


class SerfCoordinate(_SerfRecord, frozen=True):
    """A network coordinate (Vivaldi with height); all but `error` are in seconds."""

    vec: list[float] | None
    error: float
    adjustment: float
    height: float


class SerfCoordinateReply(_SerfRecord, frozen=True):
    coord: SerfCoordinate
    ok: bool


class SerfJoined(_SerfRecord, frozen=True):
    num: int


class SerfKeys(_SerfRecord, frozen=True):
    """The answer of members about keys; `messages` has the errors by member."""

    messages: dict[str, str] | None
    keys: dict[str, int] | None
    """Key -> the number of members that have it."""
    num_nodes: int
    num_err: int
    num_resp: int


class SerfQueryRecord(_SerfRecord, frozen=True):
    """A record of a query's answers: `ack`, `response` or `done`."""

    type: str
    sender: str = msgspec.field(name="From")
    payload: bytes | None = None


SerfStats = dict[str, dict[str, str]]
