# SPDX-License-Identifier: Apache-2.0
"""What lets nodes go on: the right to renew their leases, and the heartbeats that renew them.

Without I/O. Owns two bounds: a beat goes out once a second and at once in a new term, and none goes
out when the replica itself has said nothing for SILENT_NS.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.mesh.identity.identity import Signs
from stoker.mesh.wire import command
from stoker.mesh.wire.command import Heartbeat, Position

BEAT_NS = 1_000_000_000
LEASE_MS = 5000
"""A scheduler that dies right before a beat must be restarted, read its log, take a term and answer
a node within this time, or running jobs freeze: 1 s without a beat and 1.5 s for the restart leave
half of it for a slow machine."""
SILENT_NS = 30_000_000_000
"""The supervisor restarts a scheduler whose loop has not turned for 30 s (SILENT_S of
`agent/supervise/processes.py`). Until then its nodes are safe to go on: nobody else can have been
given their work."""


class Authority(NamedTuple):
    """The nodes a replica may let go on, and the last command it sent to each. Never changed."""

    cluster: str
    term: int
    places: tuple[tuple[str, Position], ...]


class Heartbeats:
    """Heartbeats of one process. `grant` may be called from another thread than `due`."""

    def __init__(self, signer: Signs) -> None:
        self._signer = signer
        self._granted: tuple[Authority | None, int] = (None, 0)
        self._sent: tuple[int, int] = (0, 0)
        """Term and moment of the last round."""
        self._number = 0
        self.withheld = 0
        """Rounds that were due and not sent, because the replica had gone silent."""

    def grant(self, authority: Authority | None, now_ns: int) -> None:
        """What holds from now on: one store, so that a reader sees all of it or nothing."""
        self._granted = (authority, now_ns)

    def due(self, real_ns: int, now_ns: int) -> list[tuple[str, bytes]]:
        """(node, sealed heartbeat) of the round that is due now, or nothing."""
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
