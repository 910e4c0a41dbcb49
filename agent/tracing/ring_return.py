# SPDX-License-Identifier: Apache-2.0
"""Gives the ring of thread spans back: half of the memory of an agent that has traced a job.

Used by the tracing thread alone. Invariant: the ring is never given back while a job is followed,
since the host probes refuse that.
"""

from __future__ import annotations

from typing import Protocol

IDLE_S = 30.0
"""Seconds without a job to follow after which the ring is given back: a node whose jobs come one
after the other makes no ring for each of them."""


class Ring(Protocol):
    """The host probes, as far as this module needs them."""

    has_span_ring: bool

    def rest(self) -> None:
        """Free the ring if nobody needs it."""


class RingReturn:
    """Knows since when no job has been followed."""

    def __init__(self) -> None:
        self._idle_s: float | None = None

    def look(self, ring: Ring | None, *, used: bool, now_s: float) -> float | None:
        """Give the ring back if its time has come. Return the seconds until the next look is due;
        None if there is nothing to look for. `used`: a job is followed."""
        if used or ring is None or not ring.has_span_ring:
            self._idle_s = None
            return None
        if self._idle_s is None:
            self._idle_s = now_s
        due_s = self._idle_s + IDLE_S - now_s
        if due_s > 0:
            return due_s
        ring.rest()
        self._idle_s = now_s
        return IDLE_S if ring.has_span_ring else None
