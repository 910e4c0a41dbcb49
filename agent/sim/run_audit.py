# SPDX-License-Identifier: Apache-2.0
"""The auditor of what runs: it sees attempts on nodes and answers to users, and nothing else.

It knows neither log nor core. An attempt is active while it runs and is not frozen. Owns the rules
that no job has two active attempts, that no device serves more than its whole, and that no task of
a gang runs before all were ready.
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
        self.thaws = 0
        """The number of times that a node let frozen jobs go on."""
        self.launches_failed = 0
        """The number of attempts that their nodes could not launch."""
        self.gangs = 0
        """The number of attempts of gangs of which a task has begun."""
        self._gathered: dict[tuple[int, int, int], set[int]] = {}
        """The tasks that were ready, of each attempt of a gang as (job, attempt, placing)."""
        self._begun_gangs: set[tuple[int, int, int]] = set()
        self.acknowledged: dict[str, int] = {}
        """The job of each request, as its user was told."""
        self._used: dict[tuple[str, int], int] = {}

    def gathers(self, start: StartJob) -> None:
        """A task of a gang is ready to run."""
        self._gathered.setdefault(_gang(start), set()).add(start.task)

    def begins(self, node: str, start: StartJob) -> None:
        """An attempt begins to run."""
        if start.gang is not None:
            self._begins_gang(node, start, len(start.gang.places))
        task = (start.job, start.task)
        self.begun[task] = self.begun.get(task, 0) + 1
        if self.begun[task] > 1 and not start.spec.may_run_again:
            self.violations.append(f"job {start.job}, which may run once, begins again on {node}")
        self.resumes(node, start)

    def _begins_gang(self, node: str, start: StartJob, size: int) -> None:
        name = _gang(start)
        if name not in self._begun_gangs:
            self._begun_gangs.add(name)
            self.gangs += 1
        ready = self._gathered.get(name, set())
        if len(ready) < size:
            self.violations.append(
                f"task {start.task} of job {start.job} begins on {node}, and of its {size} tasks"
                f" {sorted(ready)} were ready"
            )

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


def _gang(start: StartJob) -> tuple[int, int, int]:
    return start.job, start.attempt, start.placing
