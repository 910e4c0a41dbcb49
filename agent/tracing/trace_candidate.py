# SPDX-License-Identifier: Apache-2.0
"""A running job that may be traced, until it makes its first segment or ends. The tracing thread
looks at it less and less often; what is followed at once is decided here alone.
"""

from __future__ import annotations

import msgspec

from stoker.agent.jobs.spawner_messages import Started
from stoker.agent.jobs.start_records import StartRecord


class TraceCandidate(msgspec.Struct):
    """A running job that may be traced. `offset_ns`: CLOCK_REALTIME minus CLOCK_MONOTONIC."""

    record: StartRecord
    started: Started
    offset_ns: int
    adopted: bool = False
    """True if an earlier agent may have traced it."""
    over: bool = False
    """True if it ended without a trace; the thread then need not begin one."""
    look_at: float = 0.0
    wait_s: float = 0.02

    @property
    def follow(self) -> bool:
        """True if its threads are followed before it calls a device."""
        if self.record.trace == "dormant":
            return False
        return bool(self.record.gpu_milli) or self.record.trace == "full"
