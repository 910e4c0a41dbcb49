# SPDX-License-Identifier: Apache-2.0
"""The auditor of devices frees what a task's own end frees, and notices everything else."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from stoker.mesh.log.entry import NO_HASH, Entry, OutcomeBlob
from stoker.mesh.replica.changes import Applied
from stoker.mesh.replica.raw_start import StartRaw
from stoker.mesh.sim.device_audit import DeviceAudit
from stoker.mesh.sim.timeline import SECOND
from stoker.scheduler.nouns import Decision, DeviceShare, JobSpec, Outcome, Owner, StartJob
from tests.agent.sim.quiet_world import quiet_world

OWNER = Owner("u", 1, 1)


class Bench:
    """An auditor, and a core and a book that say what a test wants."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self.audit = DeviceAudit(self.found.append)
        self.used = [0, 0]
        self.states: dict[int, str] = {}
        self._index = 0

    def entry(
        self,
        *starts: StartJob,
        ended: tuple[Outcome, ...] = (),
        lost: tuple[str, ...] = (),
        changed: tuple[int, ...] = (),
    ) -> None:
        blobs = tuple(OutcomeBlob(number, each) for number, each in enumerate(ended))
        entry = Entry(1, "c", 1, 1, 1, self._index, NO_HASH, 0, 0, b"", blobs)
        self._index += 1
        applied = Applied(actions={"n": list(starts)}, changed=list(changed))
        self.audit.applied(cast(Any, self), entry, applied, lost)

    @property
    def core(self) -> Any:
        rows = [SimpleNamespace(used_milli=used) for used in self.used]
        return SimpleNamespace(devices=lambda _: rows)

    @property
    def book(self) -> Any:
        def live(job: int) -> Any:
            state = self.states.get(job)
            return None if state is None else SimpleNamespace(state=state)

        return SimpleNamespace(live=live)


def start(task: int, device: int, milli: int = 1000, job: int = 1) -> StartJob:
    decision = Decision(1, "n", (DeviceShare(device, milli),), "", 0, placing=5)
    return StartJob(job, 1, task, 5, decision, OWNER, JobSpec(("job",), tasks=2))


def end(task: int, state: Any = "succeeded") -> Outcome:
    return Outcome(1, 1, task, 5, 1, state, 0)


@pytest.fixture
def bench() -> Bench:
    """A bench on which both tasks of a gang hold a device each."""
    made = Bench()
    made.used = [1000, 1000]
    made.entry(start(0, 0), start(1, 1))
    assert made.found == []
    return made


def test_each_task_frees_its_own_devices(bench: Bench) -> None:
    bench.entry(ended=(end(1),))
    bench.entry(start(0, 1, job=2))
    assert bench.found == []
    bench.entry(ended=(end(0, "running"),))
    bench.used = [2000, 1000]
    bench.entry(start(0, 0, job=3))
    assert any("gives device 0 of n out twice" in each for each in bench.found)


def test_a_core_that_counts_other_devices_is_noticed(bench: Bench) -> None:
    bench.entry(ended=(end(1),))
    bench.used = [0, 500]
    bench.entry(start(0, 1, 500, job=2))
    assert bench.found == ["entry 3: n/0 holds 1000 milli, the core counts 0"]


def test_a_job_that_is_over_or_waits_holds_nothing(bench: Bench) -> None:
    bench.entry(ended=(end(0),), changed=(1,))
    assert "job 1 is over in entry 2" in bench.found.pop()
    bench.states[1] = "pending"
    bench.entry(changed=(1,))
    assert "job 1 is waiting again in entry 3" in bench.found.pop()
    bench.states[1] = "stopping"
    bench.entry(changed=(1,))
    bench.entry(ended=(end(1, "pending"),), changed=(1,))
    del bench.states[1]
    bench.entry(changed=(1,))
    assert bench.found == []


def test_a_node_that_is_lost_holds_nothing(bench: Bench) -> None:
    bench.entry(lost=("other",))
    bench.audit.acknowledged(end(0))
    assert "was acknowledged and is not in the log" in bench.found.pop()
    bench.entry(lost=("n",), changed=(1,))
    bench.audit.acknowledged(end(0))
    assert bench.found == []


def test_the_auditor_sees_what_a_replica_starts() -> None:
    world = quiet_world()
    devices = world.audit.devices
    taken = []
    take = devices._take

    def watched(node: str, start: StartJob | StartRaw) -> None:
        taken.append(start)
        take(node, start)

    devices._take = watched  # type: ignore[method-assign]
    world.timeline.run(world.timeline.now + 8 * SECOND)
    assert taken and world.audit.violations == []
    for start in taken:
        assert devices._devices[start.decision.node].keys() >= {
            share.index for share in start.decision.devices
        }
