# SPDX-License-Identifier: Apache-2.0
"""The leader's authority to renew leases, and the heartbeats that renew them.

Without I/O. Owns two bounds: a heartbeat is sent once a second and at once in a new term, and none
is sent when the replica has granted nothing for SILENT_NS.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.mesh.identity.identity import Signs
from stoker.mesh.wire import command
from stoker.mesh.wire.command import Heartbeat, Position

BEAT_NS = 1_000_000_000
LEASE_MS = 5000
"""The length of a lease; running jobs freeze when it ends. A scheduler that dies must restart, read
its log, take a term and answer a node within it: 1 s without a heartbeat and 1.5 s for the restart
leave half of it for a slow machine."""
SILENT_NS = 30_000_000_000
"""Heartbeats stop when the replica has been silent for this long; by then the supervisor restarts
the scheduler (SILENT_S of `agent/supervise/processes.py`). Until then no other replica can have
taken over the nodes' work."""


class Authority(NamedTuple):
    """The nodes whose leases a replica may renew, and the last command it sent to each."""

    cluster: str
    term: int
    places: tuple[tuple[str, Position], ...]
    confirmed: int = 0
    """The index up to which the log is confirmed."""
    extend_only: bool = False
    """True for a candidate that no log entry names as the leader yet."""


class Heartbeats:
    """The heartbeats of one process. `grant` may be called from another thread than `due`."""

    def __init__(self, signer: Signs) -> None:
        self._signer = signer
        self._granted: tuple[Authority | None, int] = (None, 0)
        self._sent: tuple[int, int] = (0, 0)
        """The term and the moment of the last round."""
        self._number = 0
        self.withheld = 0
        """The number of rounds that were not sent because the replica was silent."""

    def grant(self, authority: Authority | None, now_ns: int) -> None:
        """Set the authority from now on, in one store, so that `due` sees all of it or nothing."""
        self._granted = (authority, now_ns)

    def due(self, real_ns: int, now_ns: int) -> list[tuple[str, bytes]]:
        """Return (node, sealed heartbeat) of the round that is due now, or an empty list."""
        authority, granted_ns = self._granted
        term, sent_ns = self._sent
        if authority is None or (authority.term == term and now_ns - sent_ns < BEAT_NS):
            return []
        self._sent = (authority.term, now_ns)
        if now_ns - granted_ns > SILENT_NS:
            self.withheld += 1
            return []
        self._number += 1
        return [(node, self._beat(authority, node, at, real_ns)) for node, at in authority.places]

    def _beat(self, authority: Authority, node: str, at: Position, real_ns: int) -> bytes:
        record = Heartbeat(
            command.FORMAT,
            authority.cluster,
            node,
            at.term,
            at.seq,
            at.hash,
            self._number,
            LEASE_MS,
            real_ns,
        )
        return command.seal(record, self._signer)
