# SPDX-License-Identifier: Apache-2.0
"""Summaries of the kernels of this node's jobs as telemetry: once a second while they grow, and a
last one at the end of each job.

Pure. Owns the bounds of what one node publishes. A summary counts from the job's start, so a lost
one costs nothing but its moment.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from stoker.agent.export.node_metrics import top
from stoker.agent.jobs.start_records import StartRecord
from stoker.mesh.wire import subjects
from stoker.mesh.wire.schema import VERSION
from stoker.probes.kernels.job_trace import (
    CopyRow,
    DeviceRow,
    KernelSummary,
    Mode,
    RecordCounts,
    TimeWindow,
    TraceSummary,
)
from stoker.scheduler.nouns import TaskKey

KERNELS_MAX = 16
"""The most kernels of one summary, by device time; the others are counted in `other`."""
COPIES_MAX = 8
DEVICES_MAX = 16
ABSENT_MAX = 32
SUMMARIES_A_SECOND = 128
"""The most summaries of running jobs that a node publishes in a second, the oldest first."""


class OtherKernels(msgspec.Struct, frozen=True):
    """The kernels that a summary has no room for."""

    names: int
    count: int
    total_ns: int


class KernelMessage(msgspec.Struct, frozen=True, kw_only=True):
    """One summary since the start of the attempt; rows and reasons are those of the trace."""

    schema: str = VERSION
    kind: str = "kernels"
    user: str
    node: str
    job: int
    attempt: int
    task: int
    decision: int
    """The id of the decision that placed the attempt."""
    number: int
    """Grows by one with each summary of this attempt; a jump is summaries that were lost."""
    left_out: int
    """Summaries of this attempt that the node did not publish, for its bound."""
    t_ns: int
    final: bool
    mode: Mode
    window: TimeWindow
    kernels: tuple[KernelSummary, ...]
    other: OtherKernels
    copies: tuple[CopyRow, ...]
    devices: tuple[DeviceRow, ...]
    records: RecordCounts | None
    simulated: bool
    absent: dict[str, str]


class _Sent(NamedTuple):
    """The message of an attempt that was published last; `order` grows with each."""

    folded: int
    number: int
    left_out: int
    order: int


_encoder = msgspec.json.Encoder()


class KernelSummaries:
    """The summaries of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._sent: dict[TaskKey, _Sent] = {}
        self._order = 0
        self.counters: Counter[str] = Counter()

    def running(
        self, found: Mapping[TaskKey, tuple[StartRecord, TraceSummary]], t_ns: int
    ) -> list[tuple[str, bytes]]:
        """Return (subject, message) of those that have grown, the longest unsent first."""
        self._sent = {key: last for key, last in self._sent.items() if key in found}
        grown = [key for key, (_, summary) in found.items() if self._has_grown(key, summary)]
        grown.sort(key=lambda key: self._last(key).order)
        for key in grown[SUMMARIES_A_SECOND:]:
            last = self._last(key)
            self._sent[key] = last._replace(left_out=last.left_out + 1)
            self.counters["kernel_summaries_left_out"] += 1
        return [self._message(*found[key], t_ns, False) for key in grown[:SUMMARIES_A_SECOND]]

    def ended(self, record: StartRecord, summary: TraceSummary, t_ns: int) -> tuple[str, bytes]:
        """Return the last summary of an attempt, which is forgotten here."""
        message = self._message(record, summary, t_ns, True)
        self._sent.pop(record.key, None)
        return message

    def _last(self, key: TaskKey) -> _Sent:
        return self._sent.get(key, _Sent(0, 0, 0, 0))

    def _has_grown(self, key: TaskKey, summary: TraceSummary) -> bool:
        return summary.records is not None and summary.records.folded > self._last(key).folded

    def _message(
        self, record: StartRecord, summary: TraceSummary, t_ns: int, final: bool
    ) -> tuple[str, bytes]:
        last, self._order = self._last(record.key), self._order + 1
        folded = summary.records.folded if summary.records is not None else 0
        self._sent[record.key] = _Sent(folded, last.number + 1, last.left_out, self._order)
        message = _described(record, summary, self._node, last, (t_ns, final))
        return subjects.kernels(record.user, self._node, record.job), _encoder.encode(message)


def _described(
    record: StartRecord, summary: TraceSummary, node: str, last: _Sent, at: tuple[int, bool]
) -> KernelMessage:
    kernels = top(summary.kernels, KERNELS_MAX)
    others = top(summary.kernels, len(summary.kernels))[KERNELS_MAX:]
    return KernelMessage(
        user=record.user,
        node=node,
        job=record.job,
        attempt=record.attempt,
        task=record.task,
        decision=record.decision,
        number=last.number,
        left_out=last.left_out,
        t_ns=at[0],
        final=at[1],
        mode=summary.mode,
        window=summary.window,
        kernels=tuple(kernels),
        other=OtherKernels(
            len(others), sum(row.count for row in others), sum(row.total_ns for row in others)
        ),
        copies=summary.copies[:COPIES_MAX],
        devices=summary.devices[:DEVICES_MAX],
        records=summary.records,
        simulated=any(process.simulated for process in summary.processes),
        absent=dict(list(summary.absent.items())[:ABSENT_MAX]),
    )
