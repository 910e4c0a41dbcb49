# SPDX-License-Identifier: Apache-2.0
"""The changes that one entry made to jobs, as telemetry tells them: states, decisions, outcomes.

A job goes on to change with later entries, so each change has its own copy of what may differ then.
"""

from __future__ import annotations

import msgspec

from stoker.mesh.log.entry import SnapshotBlob
from stoker.scheduler.book import Job
from stoker.scheduler.nouns import Action, Decision, JobState, Outcome


class JobChange(msgspec.Struct, frozen=True):
    """A job's state after a change, and why."""

    job: Job
    state: JobState
    attempt: int
    reason: str


class Decided(msgspec.Struct, frozen=True):
    """A decision about one task of a job in this attempt."""

    job: Job
    attempt: int
    task: int
    decision: Decision


class ToldOutcome(msgspec.Struct, frozen=True):
    """An outcome that the entry records."""

    job: Job
    outcome: Outcome


class Changes:
    """The changes of one entry, each kind in its order."""

    __slots__ = ("decisions", "jobs", "outcomes")

    def __init__(self) -> None:
        self.jobs: list[JobChange] = []
        self.decisions: list[Decided] = []
        self.outcomes: list[ToldOutcome] = []

    def __bool__(self) -> bool:
        return bool(self.jobs or self.decisions or self.outcomes)

    def changed(self, job: Job) -> None:
        """Note the state that a job has now."""
        self.jobs.append(JobChange(job, job.state, job.attempt, job.reason))

    def decided(self, job: Job, task: int, decision: Decision) -> None:
        """Note where a task of a job goes."""
        self.decisions.append(Decided(job, job.attempt, task, decision))


class Applied(msgspec.Struct):
    """The changes of one entry, for those who wait for it."""

    submitted: dict[int, int] = {}
    """The job of each submit, by position of the command."""
    ignored: dict[int, int] = {}
    """The reason code of each ignored command, by its position."""
    changed: list[int] = []
    """The jobs whose state changed."""
    actions: dict[str, list[Action]] = {}
    """The actions of each node, by name."""
    snapshot: SnapshotBlob | None = None
    is_snapshot_point: bool = False
    trim_to: int = 0
    """The log may be trimmed up to this entry; 0 if the entry says nothing about that."""
    departed: list[str] = []
    """The nodes that left for good."""
    changes: Changes = msgspec.field(default_factory=Changes)
    """The changes as telemetry tells them."""
