# SPDX-License-Identifier: Apache-2.0
"""The newest verdicts of nodes on their running jobs, as every replica hears them.

Without I/O. Owns the cost of a question: the verdicts of a node are put in order once per
observation, when one of its jobs is asked about, so that a list of 10,000 jobs reads no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from stoker.scheduler.book import Job
from stoker.scheduler.nouns import VERDICTS_MAX, Decision, JobVerdict, Observation, TaskKey


class VerdictsOfJob(NamedTuple):
    """The verdicts on the tasks of a job, and why there are none of the others."""

    verdicts: tuple[JobVerdict, ...]
    absent: str


class KnownVerdicts:
    """The verdicts at one replica; `hears` says whether a node's observation is new enough."""

    def __init__(
        self, observations: Mapping[str, tuple[Observation, int]], hears: Callable[[str], bool]
    ) -> None:
        self._observations, self._hears = observations, hears
        self._ordered: dict[str, tuple[Observation, dict[TaskKey, JobVerdict]]] = {}

    def of(self, job: Job) -> VerdictsOfJob:
        """Return what is known of a job that runs."""
        ranks: list[Decision | None] = [rank.decision for rank in job.ranks]
        decisions = ranks or [job.decision]
        found: list[JobVerdict] = []
        absent = ""
        for task, decision in enumerate(decisions):
            told = self._of_task(job, task, decision)
            if isinstance(told, str):
                absent = absent or told
            else:
                found.append(told)
        return VerdictsOfJob(tuple(found), absent)

    def _of_task(self, job: Job, task: int, decision: Decision | None) -> JobVerdict | str:
        if decision is None:
            return "it has no place"
        node = decision.node
        if not self._hears(node):
            return f"node {node} has sent nothing for some seconds"
        ordered = self._of_node(node)
        verdict = ordered.get(TaskKey(job.job, job.attempt, task, decision.placing))
        if verdict is None and len(ordered) >= VERDICTS_MAX:
            return f"node {node} judges {VERDICTS_MAX} tasks at most, the oldest ones"
        return verdict or f"node {node} has not judged it yet"

    def _of_node(self, node: str) -> dict[TaskKey, JobVerdict]:
        newest, _ = self._observations[node]
        known = self._ordered.get(node)
        if known is None or known[0] is not newest:
            known = newest, {each.key: each for each in newest.verdicts}
            self._ordered[node] = known
        return known[1]
