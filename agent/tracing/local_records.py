# SPDX-License-Identifier: Apache-2.0
"""Records of one job for subscribers on this machine: all that is folded, while somebody listens.

It costs one look at a set while nobody does. Batches are those of a window (`record_batches.py`),
with window 0.
"""

from __future__ import annotations

from typing import Protocol

from stoker.agent.jobs.start_records import StartRecord
from stoker.agent.tracing.record_publisher import Allowance, Publication, RecordTarget
from stoker.probes.kernels.job_trace import JobTrace

LOCAL_RECORDS_PER_S_MAX = 2_000_000
"""The limit of all jobs of a node together, 128 MB/s; further records are counted as dropped."""


class Bus(Protocol):
    """A bus that takes records to local subscribers: `LocalBus` is one."""

    def join(self, uid: int) -> None: ...
    def leave(self, uid: int) -> None: ...
    def listens(self, uid: int) -> bool: ...
    def send(self, uid: int, topic: str, data: bytes) -> bool: ...


class LocalRecords:
    """The records of one job, from its first fold to `end`."""

    def __init__(self, node: str, record: StartRecord, bus: Bus, allowance: Allowance) -> None:
        self._node, self._record = node, record
        self._bus, self._allowance = bus, allowance
        self._publication: Publication | None = None
        bus.join(record.uid)

    def drained(self, trace: JobTrace, now_ns: int) -> None:
        """After a drain, send what is new. A subscriber gets what is folded after it came."""
        if not self._bus.listens(self._record.uid):
            self._publication = None
            return
        if self._publication is None:
            record = self._record
            target = RecordTarget(self._node, record.key, 0, record.user)
            self._publication = Publication(target, trace, self._send, self._allowance)
        self._publication.drained(now_ns)

    def end(self, now_ns: int) -> None:
        """Send the last records and that nothing follows."""
        publication, self._publication = self._publication, None
        if publication is not None:
            publication.end(now_ns)

    def close(self) -> None:
        """Give up the user's claim to a socket; call it once."""
        self._bus.leave(self._record.uid)

    def _send(self, topic: str, data: bytes) -> bool:
        return self._bus.send(self._record.uid, topic, data)
