# SPDX-License-Identifier: Apache-2.0
"""Stories of schedulers that forgot what others count on: nothing acknowledged is voted away."""

from __future__ import annotations

from stoker.mesh.sim.scheduler_faults import told_to_begin_again
from stoker.mesh.sim.scheduler_process import SchedulerProcess
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.mutants.table import MUTANTS
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Stage


def mutant(name: str) -> Mutant:
    """Return a fault of the table by its name."""
    return next(each for each in MUTANTS if each.name == name)


def acknowledged_by_two(stage: Stage) -> tuple[SchedulerProcess, SchedulerProcess]:
    """Have a job acknowledged by the leader and one other scheduler, and lost by the log; the third
    one knows nothing of it. Return those two."""
    leader = stage.ready()
    voter, late = stage.others(leader)
    late.pause(clock=True)
    before = stage.world.stream.last
    stage.submit("kept")
    stage.taken("kept")
    stage.cut(leader.name, voter.name, late.name)
    stage.lose_entries(stage.world.stream.last - before)
    return leader, voter


def third_stands(stage: Stage, leader: SchedulerProcess) -> None:
    """Without the leader, let the third scheduler stand, and require that nothing is lost."""
    for scheduler in stage.others(leader):
        scheduler.go_on()
    assert not stage.comes(lambda: stage.leaders, 10), (
        "nobody leads who lacks what was acknowledged"
    )
    leader.start()
    stage.mend()
    assert stage.comes(lambda: stage.keeps("kept")), "the acknowledged job is there"
    assert stage.comes(lambda: stage.end("kept") == "succeeded"), "it runs"
    stage.submit("next")
    assert stage.comes(lambda: stage.end("next") == "succeeded"), "work goes on"
    assert stage.comes(lambda: len({each.replica.state.index for each in stage.schedulers}) == 1)
    assert stage.violations == [] and stage.halts == []


@scenario(
    36,
    "A scheduler that begins again first records how far its chain reached, and below that it"
    " pledges only to one whose chain reaches as far.",
    mutant("vote-forgets"),
    mutant("floor-lost"),
    mutant("floor-unsaid"),
)
def test_a_scheduler_that_differs_forgets_what_it_acknowledged() -> None:
    stage = Stage()
    leader, voter = acknowledged_by_two(stage)
    voter.take_event(told_to_begin_again(leader, voter))
    leader.crash()
    third_stands(stage, leader)


@scenario(
    36,
    "A scheduler that has forgotten entries does not lead before it has them again.",
    mutant("stands-forgetful"),
)
def test_a_scheduler_that_forgot_stands_itself() -> None:
    stage = Stage()
    leader, voter = acknowledged_by_two(stage)
    (late,) = (each for each in stage.others(leader) if each is not voter)
    voter.take_event(told_to_begin_again(leader, voter))
    leader.crash()
    stage.mute(late.name, [voter])
    third_stands(stage, leader)


@scenario(
    36,
    "A scheduler that lost its memory does nothing before so many others have told it what they"
    " know that any majority which counted on it has one of them.",
    mutant("recalls-early"),
    (mutant("forgets-all"), mutant("vote-forgets")),
)
def test_a_scheduler_returns_with_an_empty_disk() -> None:
    stage = Stage()
    leader, voter = acknowledged_by_two(stage)
    voter.crash()
    voter.disk.lose()
    leader.crash()
    voter.start()
    third_stands(stage, leader)
