# SPDX-License-Identifier: Apache-2.0
"""The auditor of the log notices each thing that no entry may do."""

from __future__ import annotations

from typing import Any

import pytest

from stoker.agent.sim.world import World, shape_of
from stoker.mesh.replica.changes import Applied, JobChange
from stoker.mesh.sim.log_audit import LogAudit
from stoker.scheduler.core import Core
from stoker.scheduler.nouns import Decision, DeviceShare, JobSpec, Owner, StartJob


class BrokenCore(Core):
    """A core whose invariants do not hold."""

    def check(self) -> str:
        """Return the name of one."""
        return "a sum"


@pytest.fixture
def world() -> World:
    """A world whose log has entries and whose auditor has found nothing."""
    made = World(9, shape_of(9)._replace(wishes=10), faults=False)
    figures = made.run()
    assert figures.violations == () and figures.entries > 20
    return made


def again(world: World, seq: int, applied: Applied | None = None, **changed: Any) -> LogAudit:
    """Offer the last state once more as entry `seq`, with other fields of its entry."""
    audit, state = world.audit, world.schedulers[0].replica.state
    entry = audit.known[audit.last].entry
    fields = {name: getattr(entry, name) for name in entry.__struct_fields__}
    fields |= {"prev_index": seq - 1, **changed}
    audit.applied("other", state, type(entry)(**fields), applied or Applied())
    return audit


def test_an_equal_state_after_an_equal_entry_is_right(world: World) -> None:
    assert again(world, world.audit.last).violations == []


def test_another_state_or_entry_is_noticed(world: World) -> None:
    last = world.audit.last
    known = world.audit.known[last]
    world.audit.known[last] = known._replace(trail=b"")
    assert "another state" in again(world, last).violations[0]
    world.audit.known[last] = known._replace(hash=bytes(32))
    assert "another entry" in again(world, last).violations[1]


def test_another_state_or_a_broken_core_at_the_end_is_noticed(world: World) -> None:
    audit, state = world.audit, world.schedulers[0].replica.state
    audit.over("other", state)
    assert audit.violations == []
    audit._ends[state.index] = b""
    audit.over("other", state)
    assert "other ends after entry" in audit.violations[0]
    state.core = BrokenCore.restore(state.core.snapshot())
    audit.over("other", state)
    assert "the core of other breaks a sum" in audit.violations[1]


def test_an_entry_behind_the_last_one_is_noticed(world: World) -> None:
    last = world.audit.last
    del world.audit.known[last - 1]
    assert f"first, the last one was {last}" in again(world, last - 1).violations[0]


def test_a_second_leader_and_an_older_term_are_noticed(world: World) -> None:
    audit = again(world, world.audit.last + 1, leader=99)
    assert "two leaders" in audit.violations[0]
    audit = again(world, world.audit.last + 1, term=0)
    assert "has term 0 after term" in audit.violations[1]


def test_a_device_that_is_given_out_twice_is_noticed(world: World) -> None:
    decision = Decision(1, "node-1", (DeviceShare(0, 700),), "", 0)
    starts = [
        StartJob(job, 1, 0, 5, decision, Owner("u", 1, 1), JobSpec(("job", "k")))
        for job in (901, 902)
    ]
    applied = Applied(actions={"node-1": list(starts)})
    audit = again(world, world.audit.last + 1, applied)
    assert any("gives device 0 of node-1 out twice" in each for each in audit.violations)
    assert any("the core counts 0" in each for each in audit.violations)


def test_a_request_that_became_two_jobs_is_noticed(world: World) -> None:
    audit = world.audit
    job, key = next(iter(audit.jobs.items()))
    del audit.jobs[job]
    audit._keys[key] = job + 1
    applied, record = Applied(), world.schedulers[0].replica.state.book.get(job)
    applied.changes.jobs.append(JobChange(record, "pending", 0, ""))
    assert "became job" in again(world, audit.last + 1, applied).violations[0]


def test_acknowledgements_that_the_log_does_not_have_are_noticed(world: World) -> None:
    audit = world.audit
    job, key = next(iter(audit.jobs.items()))
    audit.acknowledged_job(key, job)
    assert audit.violations == []
    audit.acknowledged_job(key, job + 1)
    assert "which the log has not" in audit.violations[0]


def test_a_snapshot_that_is_not_the_replay_is_noticed(world: World) -> None:
    state, audit = world.schedulers[0].replica.state, world.audit
    audit.saved(state.snapshot())
    audit.replayed()
    assert audit.violations == []
    audit._snapshot = state.snapshot()
    last = audit.known[audit.last]
    audit.known[audit.last] = last._replace(hash=bytes(32))
    audit.replayed()
    assert "not the full replay" in audit.violations[0]
