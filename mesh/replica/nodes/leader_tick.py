# SPDX-License-Identifier: Apache-2.0
"""The leader's periodic work: decide again, charge device time to running jobs, end gangs that do
not become ready, and move jobs off nodes whose drains say so.

Without I/O. Owns the bounds: waiting jobs are examined once a second, so are those of drained
nodes, and at most USAGES_MAX jobs are charged every ten. A gang has GATHER_NS from its place to the
readiness of all of its tasks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from stoker.mesh.replica import moves
from stoker.mesh.replica.nodes.node_channel import key_of
from stoker.mesh.replica.state import ReplicaState
from stoker.scheduler.names import name_id
from stoker.scheduler.nouns import MILLI, JobSample, Observation, TaskKey
from stoker.scheduler.policies import Order
from stoker.scheduler.records import DeviceUsage, GiveUp, Preempt

Observed = Mapping[str, tuple[Observation, int]]
"""The newest sample of each node by its name, and when it came."""
LOOK_NS = 1_000_000_000
"""Waiting jobs are looked at this often: reservations begin, shares decay and jobs become
preemptible without any request."""
GATHER_NS = 30_000_000_000
"""The time in which all tasks of a gang have to be ready: cgroup, devices and pipes are there."""
USAGE_NS = 10_000_000_000
USAGES_MAX = 256
"""The most jobs that are charged at once; the rest follow in the next round."""


class LeaderTick:
    """One leader's timers; `now_ns` is CLOCK_BOOTTIME, `real_ns` the time of the log."""

    def __init__(self) -> None:
        self._looked_ns = self._gathered_ns = self._moved_ns = self._moved_after = 0
        self._charged_ns: int | None = None
        self._after = 0

    def decide_again(self, state: ReplicaState, real_ns: int, now_ns: int) -> bool:
        """Return True if waiting jobs may be placed now without a new request."""
        due_ns = state.core.due_ns()
        if due_ns and due_ns <= real_ns:
            return True
        if now_ns - self._looked_ns < LOOK_NS:
            return False
        self._looked_ns = now_ns
        counters = state.core.counters()
        return counters["pending_device"] + counters["pending_host"] > 0

    def requests(
        self, state: ReplicaState, observed: Observed, real_ns: int, now_ns: int
    ) -> list[DeviceUsage | GiveUp | Preempt]:
        """Return what is due of usages to charge, gangs to give up and jobs to move."""
        at = (real_ns, now_ns)
        return [
            *self.charges(state, observed, *at),
            *self.late_gangs(state, *at),
            *self.moves(state, now_ns),
        ]

    def moves(self, state: ReplicaState, now_ns: int) -> list[Preempt]:
        """Return the moves off drained nodes that begin now; looked for once a second."""
        if not state.book.moves or now_ns - self._moved_ns < LOOK_NS:
            return []
        self._moved_ns = now_ns
        found, self._moved_after = moves.due(state, self._moved_after)
        return found

    def late_gangs(self, state: ReplicaState, real_ns: int, now_ns: int) -> list[GiveUp]:
        """Return the attempts of gangs that are to be given up; looked for once a second."""
        if not state.book.gathering or now_ns - self._gathered_ns < LOOK_NS:
            return []
        self._gathered_ns = now_ns
        found = (state.core.job(job) for job in sorted(state.book.gathering))
        return [
            GiveUp(info.job, info.attempt)
            for info in found
            if info is not None and info.ready < info.tasks and real_ns - info.place_ns >= GATHER_NS
        ]

    def charges(
        self, state: ReplicaState, observed: Observed, real_ns: int, now_ns: int
    ) -> list[DeviceUsage]:
        """Return the device time of running jobs that is not charged yet, if a round is due."""
        if self._charged_ns is None:
            self._charged_ns = now_ns
        if now_ns - self._charged_ns < USAGE_NS or not _matters(state, real_ns):
            return []
        self._charged_ns = now_ns
        found = sorted(_charges(state, observed, real_ns))
        chosen = [usage for usage in found if usage.job > self._after][:USAGES_MAX]
        self._after = chosen[-1].job if len(chosen) == USAGES_MAX else 0
        return chosen


def _matters(state: ReplicaState, real_ns: int) -> bool:
    """Return True if device time affects decisions: there are several queues, or their order uses
    it."""
    queues = state.core.queues()
    only = state.core.queue(0, real_ns)
    return len(queues) > 1 or (only is not None and only.order == Order.LEAST_ATTAINED)


def _charges(state: ReplicaState, observed: Observed, real_ns: int) -> Iterator[DeviceUsage]:
    """Yield the device time of each running job, all of its tasks together: as measured by their
    nodes, else their shares of devices times the time since the job was placed."""
    used_ns: Counter[tuple[int, int]] = Counter()
    for node in state.book.nodes:
        newest = observed.get(node)
        measured = _measured(newest[0].jobs if newest is not None else ())
        for task in state.core.node_tasks(name_id(node)):
            info = state.core.job(task.job)
            if not task.shares or task.state != "running" or info is None:
                continue
            held = sum(share.milli for share in task.shares)
            granted_ns = max(0, real_ns - info.place_ns) * held // MILLI
            key = key_of(task, state.book)
            used_ns[task.job, task.attempt] += measured.get(key, granted_ns)
    for (job, attempt), total_ns in used_ns.items():
        info = state.core.job(job)
        if info is not None and total_ns > info.charged_ns:
            yield DeviceUsage(job, attempt, total_ns)


def _measured(jobs: tuple[JobSample, ...]) -> dict[TaskKey, int]:
    return {each.key: each.device_ns for each in jobs}
