# SPDX-License-Identifier: Apache-2.0
"""The auditor of leases: how long a node's lease lasts, and who gave it.

It knows when an answer for a node was last made, in simulated time. Owns the rule on which every
eviction relies: no lease lasts longer than LEASE_MS after that moment.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from stoker.mesh.replica.authority import LEASE_MS
from stoker.mesh.sim.host_clock import DRIFT_PPM_MAX, HostClock
from stoker.mesh.sim.log_audit import LogAudit
from stoker.mesh.sim.timeline import MS, Timeline

LONGEST_NS = LEASE_MS * MS + LEASE_MS * DRIFT_PPM_MAX + MS
"""The longest simulated time of a lease on the slowest clock."""


class HeldLease(NamedTuple):
    """A node's lease: its end on the node's clock, and the term of the leader that gave it."""

    expiry_ns: int
    term: int


class LeaseAudit:
    """The auditor of one cluster's leases; `log` has the terms that began."""

    def __init__(self, violated: Callable[[str], None], log: LogAudit, timeline: Timeline) -> None:
        self._violated = violated
        self._log = log
        self._timeline = timeline
        self._answered: dict[str, int] = {}

    def answered(self, nodes: Iterable[str]) -> None:
        """Note that an answer for these nodes was made now."""
        self._answered.update((node, self._timeline.now) for node in nodes)

    def extended(self, node: str, clock: HostClock, lease: HeldLease, *, lapsed: bool) -> None:
        """Note what a node takes from an answer; `lapsed` is true if it had no valid lease."""
        ends = self._timeline.now + lease.expiry_ns - clock.boot()
        made = self._answered.get(node)
        if made is None:
            self._violated(f"{node} has a lease, and no scheduler has answered it")
        elif ends - made > LONGEST_NS:
            late = (ends - made) / 1_000_000_000
            self._violated(f"the lease of {node} ends {late:.3f} s after its last answer was made")
        if lapsed and not self._log.has_term(lease.term):
            self._violated(
                f"{node} takes a new lease in term {lease.term}, which nobody has confirmed"
            )
