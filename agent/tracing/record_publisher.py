# SPDX-License-Identifier: Apache-2.0
"""Publishes the records of a job while a window requests them: batches of packed records.

It costs nothing while nobody requests records. It limits the rate of all jobs of the node together:
records beyond it are counted, reported in the next envelope and never sent late.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from stoker.mesh.wire import subjects
from stoker.probes.kernels import record_batches
from stoker.probes.kernels.job_trace import JobTrace
from stoker.probes.kernels.record_batches import Envelope
from stoker.scheduler.nouns import TaskKey

RECORDS_PER_S_MAX = 200_000
"""The limit of all jobs of a node together, 12.8 MB/s, which core NATS carries beside the rest."""
ROWS_EVERY_NS = 1_000_000_000

Send = Callable[[str, bytes], object]
"""Sends a message; returns False if it could not be sent."""


class Allowance:
    """Records that may be sent: a bucket that fills with time and holds a fifth of a second."""

    def __init__(self, per_s: int = RECORDS_PER_S_MAX) -> None:
        self._per_s = per_s
        self._depth = per_s // 5
        self._left: float = self._depth
        self._at_ns = 0

    def take(self, wanted: int, now_ns: int) -> int:
        """Return how many of the wanted records may be sent now."""
        passed = max(now_ns - self._at_ns, 0) if self._at_ns else 0
        self._at_ns = now_ns
        self._left = min(self._left + passed * self._per_s / 1e9, self._depth)
        granted = min(wanted, int(self._left))
        self._left -= granted
        return granted


class RecordTarget(msgspec.Struct, frozen=True):
    """The origin of records. `user` opened the window: the broker delivers them to that account
    only."""

    node: str
    key: TaskKey
    window: int
    user: str


class Publication:
    """One window of one job."""

    def __init__(
        self, target: RecordTarget, trace: JobTrace, send: Send, allowance: Allowance
    ) -> None:
        self._target, self._trace = target, trace
        self._subject = subjects.records(target.user, target.node, target.key.job)
        self._send, self._allowance = send, allowance
        self._sequence = 0
        self._rows_ns = 0
        self._devices: tuple[str, ...] = ()
        self._next = trace.events(0, 0)[1]
        self.published = 0
        self.dropped = 0

    def drained(self, now_ns: int) -> None:
        """After a drain, send the new records and once a second the folded rows."""
        if now_ns - self._rows_ns >= ROWS_EVERY_NS:
            self._rows_ns = now_ns
            self._rows()
        first, total, _ = self._trace.events(self._next, 0)
        self.dropped += first - self._next  # overwritten before they were sent
        allowed = self._allowance.take(total - first, now_ns)
        ends = first + allowed
        names = tuple(self._trace.names()) if allowed else ()
        while first < ends:
            most = min(record_batches.BATCH_MAX, ends - first)
            _, _, data = self._trace.events(first, most)
            count = len(data) // record_batches.EVENT_BYTES
            if not count:
                break
            self._publish("events", first, count, data, names=names, fields=record_batches.EVENT)
            first += count
            self.published += count
        self.dropped += total - first
        self._next = total

    def end(self, now_ns: int) -> None:
        """Send the last records and the end of the window."""
        self._rows_ns = 0
        self.drained(now_ns)
        self._publish("end", self._next, 0, b"")

    def _rows(self) -> None:
        summary = self._trace.summary()
        data, names = record_batches.pack_rows(summary)
        self._devices = tuple(device.id for device in summary.devices)
        count = len(data) // record_batches.ROW_BYTES
        self._publish("rows", self._next, count, data, names=names, fields=record_batches.ROW)

    def _publish(
        self,
        what: record_batches.What,
        first: int,
        count: int,
        data: bytes,
        *,
        names: tuple[str, ...] = (),
        fields: record_batches.Fields = (),
    ) -> None:
        envelope = Envelope(
            what,
            self._target.node,
            self._target.key.job,
            self._target.key.attempt,
            self._target.window,
            self._sequence,
            first,
            count,
            self.dropped,
            data,
            names,
            self._devices,
            fields=fields,
            task=self._target.key.task,
        )
        self._sequence += 1
        if self._send(self._subject, record_batches.encode(envelope)) is False:
            self.dropped += count if what == "events" else 0
