# SPDX-License-Identifier: Apache-2.0
"""Stories of moves: a job leaves a drained node once, whoever leads and whatever is lost."""

from __future__ import annotations

from typing import Any

from stoker.agent.sim.node_process import NodeProcess
from stoker.mesh.server import administration
from stoker.mesh.sim.scheduler_process import SchedulerRequest, post
from stoker.mesh.wire.schema import NodeDrainRequest
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Gate, Stage

UNREPEATED = Mutant(
    "stop-unrepeated", "stoker.mesh.replica.nodes.node_channel", "NodeChannel._stops",
    "sorted(stopping)", "()",
    "the desired state repeats the stop of a job that is moved",
)  # fmt: skip
SAVES_ON = Mutant(
    "saves-on", "stoker.agent.jobs.attempts", "_Attempt.gives_way_to",
    "stop.state == \"lost\" and", "False and",
    "an attempt that is lost ends on its node, whatever time it had to save its work",
)  # fmt: skip


def running() -> tuple[Stage, NodeProcess, NodeProcess]:
    """Return a cluster of two nodes, the one with a job that may run again, and the other one."""
    stage = Stage(nodes=2)
    stage.ready()
    stage.submit("job", run_s=30, retries=1, restart="on-node-loss")
    stage.until(lambda: stage.runs("job"), "the start of the job")
    left = stage.runner
    return stage, left, next(each for each in stage.nodes if each is not left)


def drain(stage: Stage, node: NodeProcess) -> None:
    """Pass time until the node is drained and its jobs are to move."""
    answers: list[Any] = []
    leader = stage.leader()

    def make(token: Any) -> Any:
        request = NodeDrainRequest(node=node.name, move=True)
        return administration.node_drain(token, request, leader.replica.state, 0, "root")

    post(SchedulerRequest("root", 1, make, answers.append), stage.schedulers)
    stage.until(lambda: node.name in leader.replica.state.book.drained, "the drain")


@scenario(
    41,
    "What a node should have names the stops of jobs that are moved, so that the next leader goes"
    " on with a move of which the node has not heard.",
    UNREPEATED,
)
def test_a_leader_dies_before_the_node_hears_of_a_move() -> None:
    stage, left, other = running()
    leader = stage.leader()
    commands = Gate(left, "take", lambda message: message[0] == "command")
    drain(stage, left)
    stage.until(lambda: leader.replica.state.book.get(1).state == "stopping", "the move")
    stage.until(lambda: commands.seen, "the command")
    leader.crash()
    commands.shut = False
    assert stage.comes(lambda: (other.name, "job") in stage.programs), "it runs elsewhere"
    assert stage.programs == [(left.name, "job"), (other.name, "job")], "each ran once"
    assert stage.violations == [] and stage.halts == []


@scenario(
    41,
    "What was lost to a node ends there before anything thaws, although the node was told to let it"
    " save its work.",
    SAVES_ON,
)
def test_a_node_is_given_up_while_its_job_saves_its_work() -> None:
    stage, left, other = running()
    saving = Gate(left.spawner, "stop")
    drain(stage, left)
    stage.until(lambda: saving.seen, "the stop of the job")
    saving.shut = False
    names = [each.name for each in (*stage.schedulers, other)]
    stage.cut(left.name, *names)
    stage.until(lambda: (other.name, "job") in stage.programs, "it runs elsewhere", 60)
    stage.mend()
    stage.until(lambda: not left.lease.frozen, "the return of the node", 60)
    stage.pass_time(2)
    assert left.spawner.running == 0, "it has ended here"
    assert stage.programs == [(left.name, "job"), (other.name, "job")], "each ran once"
    assert stage.violations == [] and stage.halts == []
