# SPDX-License-Identifier: Apache-2.0
"""The bottleneck of each running job of this node in the newest stretch of its time.

Pure: what traces have summed up so far goes in once a second, and the difference to two marks per
job comes out. Invariant: a verdict covers the past STRETCH_NS to twice that, or the job's whole
life while it is shorter, so that a change shows within half a minute.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.wire.bottleneck import Bottleneck, bottleneck
from stoker.probes.kernels.job_trace import DeviceRow, KernelSummary
from stoker.scheduler.nouns import MILLI, VERDICTS_MAX, JobVerdict, TaskKey

STRETCH_NS = 10_000_000_000
LEAST_NS = 1_000_000_000
"""A shorter stretch says nothing of a job."""


class Summed(NamedTuple):
    """The sums of a job's trace so far."""

    devices: Sequence[DeviceRow]
    kernels: Sequence[KernelSummary] = ()


class _Mark(NamedTuple):
    """The sums at one moment: the causes of each device, the launches and their time."""

    t_ns: int
    causes: Mapping[str, Mapping[str, int]]
    launches: int
    kernel_ns: int


_BEGINNING = _Mark(0, {}, 0, 0)


class JobVerdicts:
    """The running jobs of one node; a job that is not named any more is forgotten."""

    def __init__(self) -> None:
        self._marks: dict[TaskKey, tuple[_Mark, _Mark]] = {}
        """The mark from which a verdict counts, and the next one."""
        self.idle: Mapping[TaskKey, float] = {}
        """The share of the stretch of each judged job in which nobody used its devices."""

    def of(self, running: Mapping[TaskKey, Summed], now_ns: int) -> tuple[JobVerdict, ...]:
        """Return the verdicts of the oldest VERDICTS_MAX jobs. `now_ns`: CLOCK_MONOTONIC."""
        judged = sorted(running)[:VERDICTS_MAX]
        self._marks = {key: self._marks[key] for key in judged if key in self._marks}
        found = {key: self._judged(key, _mark(running[key], now_ns)) for key in judged}
        known = [(key, *each) for key, each in found.items() if each is not None]
        self.idle = {key: judged.idle_ns / judged.held_ns for key, judged, _ in known}
        return tuple(
            JobVerdict(*key, judged.name, round(judged.share * MILLI), window_ns)
            for key, judged, window_ns in known
        )

    def _judged(self, key: TaskKey, now: _Mark) -> tuple[Bottleneck, int] | None:
        """Return what bounds a job in its stretch, and the length of that; None if it is short."""
        base, following = self._marks.get(key, (_BEGINNING, now))
        if now.t_ns - following.t_ns >= STRETCH_NS:
            base, following = following, now
        self._marks[key] = base, following
        devices = list(_since(base, now))
        window_ns = max((device["window_ns"] for device in devices), default=0)
        found = bottleneck(devices, _kernels(base, now)) if window_ns >= LEAST_NS else None
        return None if found is None else (found, window_ns)


def _mark(summed: Summed, t_ns: int) -> _Mark:
    return _Mark(
        t_ns,
        {device.id: msgspec.structs.asdict(device.causes) for device in summed.devices},
        sum(row.count + row.unseen for row in summed.kernels),
        sum(row.total_ns for row in summed.kernels),
    )


def _since(base: _Mark, now: _Mark) -> Iterator[dict[str, Any]]:
    """Yield the devices with what each cause has grown by.

    A cause shrinks when what was taken for it turns out to be another one, which has grown as much:
    the stretch is what has grown.
    """
    for id, causes in now.causes.items():
        before = base.causes.get(id, {})
        grown = {cause: max(0, ns - before.get(cause, 0)) for cause, ns in causes.items()}
        yield {"id": id, "window_ns": sum(grown.values()), "causes": grown}


def _kernels(base: _Mark, now: _Mark) -> list[dict[str, Any]]:
    launches, total_ns = now.launches - base.launches, now.kernel_ns - base.kernel_ns
    return [{"count": max(0, launches), "total_ns": max(0, total_ns)}]
