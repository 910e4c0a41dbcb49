# SPDX-License-Identifier: Apache-2.0
"""The leader's authority to renew leases.

Owns its bound: it ends when the replica has been silent for SILENT_NS.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from stoker.mesh.wire.command import Position
from stoker.mesh.wire.lease_messages import LEASE_MS_MAX

LEASE_MS = LEASE_MS_MAX
"""The length of the leases that are given."""
SILENT_NS = 30_000_000_000
"""No lease is renewed when the replica has been silent for this long; by then the supervisor
restarts the scheduler (SILENT_S of `agent/supervise/processes.py`). Until then no other replica can
have taken over the nodes' work."""


class NodePlace(msgspec.Struct, frozen=True, gc=False):
    """One node's committed instance, as in `NodeReport`, and the last command sent to it."""

    node: str
    at: Position
    instance: int = 0


class Authority(NamedTuple):
    """The nodes whose leases a replica may renew."""

    cluster: str
    term: int
    places: tuple[NodePlace, ...]
    confirmed: int = 0
    """The index up to which the log is confirmed."""
    until_ns: int | None = None
    """The end of a majority's pledges (CLOCK_BOOTTIME); None with one scheduler."""
    covers_ns: int | None = None
    """Requests that came before this moment are covered: since then a majority has pledged again.
    None with one scheduler, whose every request is covered."""
    extend_only: bool = False
    """True for a candidate that no log entry names as the leader yet."""
