# SPDX-License-Identifier: Apache-2.0
"""The auditor of what runs: it sees attempts on nodes and answers to users, and nothing else.

It knows neither log nor core. An attempt is active while it runs and is not frozen. Owns the rules
that no job has two active attempts and that no device serves more than its whole.
"""

from __future__ import annotations

from typing import NamedTuple

from stoker.scheduler.nouns import MILLI, StartJob, TaskKey


class ActiveAttempt(NamedTuple):
    """One attempt that runs and is not frozen."""

    node: str
    devices: tuple[tuple[int, int], ...]
    """Devices as (index, milli)."""


class RunAudit:
    """The auditor of one cluster's nodes and users."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.active: dict[TaskKey, ActiveAttempt] = {}
        self.freezes = 0
        """The number of times that a node froze jobs."""
        self.begun: dict[tuple[int, int], int] = {}
        """The number of starts of each (job, task)."""
        self.acknowledged: dict[str, int] = {}
        """The job of each request, as its user was told."""
        self._used: dict[tuple[str, int], int] = {}

    def begins(self, node: str, start: StartJob) -> None:
        """An attempt begins to run."""
        task = (start.job, start.task)
        self.begun[task] = self.begun.get(task, 0) + 1
        if self.begun[task] > 1 and not start.spec.may_run_again:
            self.violations.append(f"job {start.job}, which may run once, begins again on {node}")
        self.resumes(node, start)

    def resumes(self, node: str, start: StartJob) -> None:
        """An attempt runs from now on, unfrozen."""
        for (job, attempt, task, _), other in self.active.items():
            one = job == start.job and start.spec.must_fence
            if one and (attempt != start.attempt or task == start.task):
                both = f"attempt {attempt} on {other.node} and {start.attempt} on {node}"
                self.violations.append(f"job {job} runs twice: {both}")
        devices = tuple((share.index, share.milli) for share in start.decision.devices)
        self.active[start.key] = ActiveAttempt(node, devices)
        for index, milli in devices:
            used = self._used.get((node, index), 0) + milli
            self._used[node, index] = used
            if used > MILLI:
                self.violations.append(f"device {index} of {node} serves {used} milli at once")

    def pauses(self, key: TaskKey) -> None:
        """An attempt does not run any more, or is frozen."""
        active = self.active.pop(key, None)
        if active is not None:
            for index, milli in active.devices:
                self._used[active.node, index] -= milli

    def told_job(self, key: str, job: int) -> None:
        """A user was told the job of its request."""
        if self.acknowledged.setdefault(key, job) != job:
            first = self.acknowledged[key]
            self.violations.append(f"request {key} was told to be job {first}, then job {job}")
