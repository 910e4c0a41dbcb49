# SPDX-License-Identifier: Apache-2.0
"""The auditor of what runs notices each thing that must never be."""

from __future__ import annotations

from stoker.agent.sim.run_audit import RunAudit
from stoker.scheduler.nouns import Decision, DeviceShare, Gang, JobSpec, Owner, StartJob, TaskKey


def start(job: int, attempt: int = 1, device: int = 0, milli: int = 600) -> StartJob:
    decision = Decision(1, "n", (DeviceShare(device, milli),), "", 0)
    return StartJob(
        job, attempt, 0, 0, decision, Owner("u", 1, 1), JobSpec(("job",), retries=attempt - 1)
    )


def test_attempts_one_after_the_other_are_right() -> None:
    audit = RunAudit()
    audit.begins("n1", start(1))
    audit.pauses(TaskKey(1, 1, 0))
    audit.begins("n2", start(1, attempt=2))
    audit.begins("n2", start(2, device=1))
    assert audit.violations == [] and len(audit.active) == 2


def test_two_attempts_at_once_are_noticed_unless_one_is_frozen() -> None:
    audit = RunAudit()
    audit.begins("n1", start(1))
    audit.pauses(TaskKey(1, 1, 0))
    audit.begins("n2", start(1, attempt=2))
    assert audit.violations == []
    audit.resumes("n1", start(1))
    assert len(audit.violations) == 1 and "job 1 runs twice" in audit.violations[0]


def test_a_device_that_serves_too_much_is_noticed() -> None:
    audit = RunAudit()
    audit.begins("n1", start(1))
    audit.begins("n2", start(2))
    assert audit.violations == []
    audit.begins("n1", start(3))
    assert "device 0 of n1 serves 1200 milli" in audit.violations[0]


def test_a_second_start_of_a_job_that_may_run_once_is_noticed() -> None:
    audit = RunAudit()
    audit.begins("n1", start(1))
    audit.pauses(TaskKey(1, 1, 0))
    audit.begins("n1", start(1))
    assert "may run once" in audit.violations[0]


def test_another_job_for_the_same_request_is_noticed() -> None:
    audit = RunAudit()
    audit.told_job("key", 1)
    audit.told_job("key", 1)
    assert audit.violations == []
    audit.told_job("key", 2)
    assert len(audit.violations) == 1


def rank(task: int, attempt: int = 1) -> StartJob:
    gang = Gang(("n1", "n2"), (0, 1), "n1", 61000)
    decision = Decision(1, gang.nodes[task], (DeviceShare(task, 600),), "", 0)
    spec = JobSpec(("job",), tasks=2, retries=attempt - 1)
    return StartJob(1, attempt, task, 0, decision, Owner("u", 1, 1), spec, gang)


def test_a_gang_runs_after_all_of_its_tasks_were_ready() -> None:
    audit = RunAudit()
    audit.gathers(rank(0))
    audit.gathers(rank(1))
    audit.begins("n1", rank(0))
    audit.begins("n2", rank(1))
    assert audit.violations == [] and audit.gangs == 1


def test_a_task_of_a_gang_that_runs_before_all_were_ready_is_noticed() -> None:
    audit = RunAudit()
    audit.gathers(rank(0))
    audit.gathers(rank(1, attempt=2))
    audit.begins("n1", rank(0))
    assert audit.violations == ["task 0 of job 1 begins on n1, and of its 2 tasks [0] were ready"]
