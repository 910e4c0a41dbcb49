# SPDX-License-Identifier: Apache-2.0
"""Stories of moves: a job leaves a drained node once, whoever leads and whatever is lost."""

from __future__ import annotations

from typing import Any

from stoker.agent.sim.node_process import NodeProcess
from stoker.mesh.server import administration
from stoker.mesh.sim.scheduler_process import SchedulerRequest, post
from stoker.mesh.wire.schema import NodeDrainRequest
from stoker.scheduler.nouns import MILLI
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
    "hurries or (stop.state == \"lost\" and before.state != \"lost\")", "False",
    "an attempt that is lost ends on its node, whatever time it had to save its work",
)  # fmt: skip

UP_AT_ONCE = Mutant(
    "up-at-once", "stoker.mesh.server.administration", "node_drain",
    "is_drained=bool(report.drain))", "is_drained=bool(report.drain))[:0]",
    "the end of a drain lets no jobs onto a node that was given up and is not back",
)  # fmt: skip


def running() -> tuple[Stage, NodeProcess, NodeProcess]:
    """Return a cluster of two nodes, the one with a job that may run again, and the other one."""
    stage = Stage(nodes=2)
    stage.ready()
    stage.submit("job", run_s=30, retries=1, restart="on-node-loss")
    stage.until(lambda: stage.runs("job"), "the start of the job")
    left = stage.runner
    return stage, left, next(each for each in stage.nodes if each is not left)


def request(stage: Stage, wanted: NodeDrainRequest) -> None:
    """Have an administrator send a request to all schedulers, of which the leader takes it."""
    leader = stage.leader()

    def make(token: Any) -> Any:
        return administration.node_drain(token, wanted, leader.replica.state, 0, "root")

    post(SchedulerRequest("root", 1, make, lambda _: None), stage.schedulers)


def drain(stage: Stage, node: NodeProcess) -> None:
    """Pass time until the node is drained and its jobs are to move."""
    leader = stage.leader()
    request(stage, NodeDrainRequest(node=node.name, move=True))
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


@scenario(
    41,
    "The end of a drain brings no node back that was given up: it gets jobs when it has reported"
    " that nothing is left of what it lost.",
    UP_AT_ONCE,
)
def test_the_drain_of_a_dead_node_ends() -> None:
    stage = Stage(nodes=2)
    stage.ready()
    half = {"gpu_milli": MILLI // 2, "retries": 2, "restart": "on-node-loss"}
    keys = [f"half-{n}" for n in range(2 * sum(len(node._devices) for node in stage.nodes))]
    for key in keys:
        stage.submit(key, run_s=300, **half)
    stage.until(lambda: all(stage.runs(key) for key in keys), "the start of all jobs")
    node, leader = stage.nodes[0], stage.leader()
    request(stage, NodeDrainRequest(node=node.name))
    stage.until(lambda: node.name in leader.replica.state.book.drained, "the drain")
    node.pause()
    stage.until(lambda: node.name in leader.replica.state.book.evicted, "the eviction")
    request(stage, NodeDrainRequest(node=node.name, drain=False))
    stage.until(lambda: not leader.replica.state.book.drained, "the end of the drain")
    stage.pass_time(2)
    assert stage.violations == [], "nothing was placed there"
    node.go_on()
    again = [key for name, key in stage.programs if name == node.name]
    assert stage.comes(lambda: len(stage.programs) == len(keys) + len(again)), "it serves again"
    assert stage.violations == [] and stage.halts == []
