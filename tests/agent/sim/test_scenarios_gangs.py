# SPDX-License-Identifier: Apache-2.0
"""Stories of gangs: all of their tasks run, or none does, whatever a node hears and says."""

from __future__ import annotations

from stoker.agent.jobs import steps
from stoker.agent.sim.node_process import NodeProcess
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Gate, Stage

CHANNEL = "stoker.mesh.replica.nodes.node_channel"

UNREADY = Mutant(
    "runs-unready", CHANNEL, "_may_run",
    "task.released and task.state", "task.state",
    "a task of a gang runs only after all were ready",
)  # fmt: skip
UNREPEATED = Mutant(
    "release-unrepeated", CHANNEL, "_may_run",
    "return task.released", "return False",
    "the desired state repeats the release of a gang",
)  # fmt: skip


def two_nodes() -> tuple[Stage, NodeProcess, NodeProcess]:
    """Return a cluster of two nodes that serve, and both of them."""
    stage = Stage(nodes=2)
    stage.ready()
    one, other = stage.nodes
    return stage, one, other


def submit_gang(stage: Stage) -> None:
    """Submit a gang with a task on each node."""
    stage.submit("gang", run_s=0.5, tasks=2, tasks_per_node=1)


def is_ready(node: NodeProcess) -> bool:
    """Return True if a task waits on a node for the others."""
    return any(isinstance(each.event, steps.Gathered) for each in node.spawner.attempts())


@scenario(
    35,
    "No task of a gang runs before the log has all of them as ready, although an agent may begin"
    " again meanwhile and read what it should have.",
    UNREADY,
)
def test_a_node_never_says_that_its_task_of_a_gang_is_ready() -> None:
    stage, one, silent = two_nodes()
    outcomes = Gate(
        silent, "_request", lambda make, then, late: isinstance(late, steps.NotCommitted)
    )
    submit_gang(stage)
    stage.until(lambda: is_ready(one) and is_ready(silent), "the tasks of the gang")
    stage.until(lambda: outcomes.seen, "the outcome of the silent node")
    stage.pass_time(0.5)
    one.crash()
    one.start_agent()
    stage.until(lambda: one.core.caught_up, "the state of the new agent")
    stage.pass_time(3)
    assert stage.programs == [], "nothing runs while one task is not known to be ready"
    outcomes.shut = False
    outcomes.deliver(outcomes.seen[0])
    assert stage.comes(lambda: stage.end("gang") == "succeeded"), "the gang runs when all are"
    assert sorted(stage.programs) == [(one.name, "gang"), (silent.name, "gang")], "each ran once"
    assert stage.violations == [] and stage.halts == []


@scenario(
    35,
    "What a node should have names the tasks of gangs that may run, so that no lost release leaves"
    " a gang in parts.",
    UNREPEATED,
)
def test_the_release_of_a_gang_is_lost_on_its_way_to_a_node() -> None:
    stage, one, deaf = two_nodes()
    submit_gang(stage)
    stage.until(lambda: is_ready(one) and is_ready(deaf), "the tasks of the gang")
    releases = Gate(deaf, "take", lambda message: message[0] == "command")
    stage.until(lambda: releases.seen, "the release")
    releases.shut = False
    assert stage.comes(lambda: stage.end("gang") == "succeeded"), "the other node runs it as well"
    assert sorted(stage.programs) == [(one.name, "gang"), (deaf.name, "gang")], "each ran once"
    assert stage.violations == [] and stage.halts == []
