# SPDX-License-Identifier: Apache-2.0
"""Stories of agents that are stopped in order: what was placed meanwhile runs elsewhere, once."""

from __future__ import annotations

from typing import Any

from stoker.agent.sim.node_process import NodeProcess
from stoker.mesh.replica import events
from stoker.mesh.sim.scheduler_process import SchedulerRequest
from stoker.mesh.wire.schema import NodeDrainRequest
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Gate, Stage
from tests.agent.sim.test_scenarios_moves import request

END = "stoker.agent.jobs.ordered_end"
UNREAD = Mutant(
    "leaves-unread", END, "OrderedEnd.greeted",
    "self._said = self._said", "self._said = self._known = self._said",
    "an agent that ends reads its state after the log has that it refuses jobs",
)  # fmt: skip
UNSAID = Mutant(
    "leaves-unsaid", END, "OrderedEnd.report",
    "if not self.begun:", "if True:",
    "an agent that ends tells the log that it refuses jobs",
)  # fmt: skip
KEEPS = Mutant(
    "keeps-starts", "stoker.agent.jobs.node_core", "NodeCore._carry_out",
    "self._attempts.give_back(begins, now_ns, effects)", "pass",
    "an agent that ends gives back what it has not begun",
)  # fmt: skip
FORGETS = Mutant(
    "forgets-returned", "stoker.agent.jobs.node_core", "NodeCore._returned",
    "self._attempts.returned(event.keys, event.t_ns)", "pass",
    "the next agent begins nothing that the one before gave back",
)  # fmt: skip


def placed_while_it_ends(stage: Stage) -> NodeProcess:
    """Have the agent of a node end in order while the log places a job there; return the node. The
    other node is drained meanwhile, and has room afterwards."""
    leader = stage.ready()
    node, other = stage.nodes
    request(stage, NodeDrainRequest(node=other.name))
    book = leader.replica.state.book
    stage.until(lambda: other.name in book.drained, "the drain")
    commands = Gate(node, "take", lambda message: message[0] == "command")
    stage.submit("job", run_s=4, again=False)
    stage.until(lambda: commands.seen, "the command that starts the job")
    node.leave()
    commands.shut = False
    return node


def let_in(stage: Stage, node: NodeProcess) -> None:
    """End the drain of a node."""
    request(stage, NodeDrainRequest(node=node.name, drain=False))


@scenario(
    42,
    "An agent that is stopped in order has the log refuse jobs for it, then reads what was placed"
    " there until then, and gives that back before it ends.",
    UNREAD,
    UNSAID,
    KEEPS,
)
def test_a_job_is_placed_while_an_agent_is_stopped_in_order() -> None:
    stage = Stage(nodes=2)
    node = placed_while_it_ends(stage)
    assert stage.comes(lambda: not node.alive, 2), "the agent ends"
    stage.submit("later", run_s=1, again=False)
    stage.taken("later")
    let_in(stage, stage.nodes[1])
    assert stage.comes(lambda: stage.end("job") and stage.end("later"), 10), "nobody waits for it"
    assert {name for name, _ in stage.programs} == {stage.nodes[1].name}
    assert stage.violations == []
    node.start_agent()
    stage.submit("last", run_s=1, gpu_milli=0, again=False)
    assert stage.comes(lambda: stage.end("last"))
    book = stage.leader().replica.state.book
    assert stage.comes(lambda: book.nodes[node.name].drain == ""), "it takes jobs again"
    assert len(stage.programs) == 3 and stage.violations == []


def is_outcome(message: Any) -> bool:
    return isinstance(message, SchedulerRequest) and isinstance(message.make(None), events.Outcomes)


@scenario(
    42,
    "What an agent gives back is on its disk before anybody is told of it, and the next agent"
    " begins none of it: the word of the one before may still be on its way.",
    FORGETS,
)
def test_an_agent_begins_again_before_the_log_hears_what_was_given_back() -> None:
    stage = Stage(nodes=2)
    late = [Gate(each, "take", is_outcome) for each in stage.schedulers]
    node = placed_while_it_ends(stage)
    stage.until(lambda: any(gate.seen for gate in late), "what it gives back")
    assert stage.comes(lambda: not node.alive, 2), "it waits for no answer"
    node.start_agent()
    stage.pass_time(2)
    for gate in late:
        gate.shut = False
    let_in(stage, stage.nodes[1])
    stage.pass_time(0.5)
    for gate in late:
        for call in gate.seen[:1]:
            gate.deliver(call)
    assert stage.comes(lambda: stage.end("job"), 20)
    stage.pass_time(2)
    assert [key for _, key in stage.programs] == ["job"], "it runs once"
    assert stage.violations == []
