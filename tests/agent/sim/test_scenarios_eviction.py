# SPDX-License-Identifier: Apache-2.0
"""Stories of nodes that are given up: when, what then runs elsewhere, and how they return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.agent.sim.node_process import NodeProcess
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.server import administration
from stoker.mesh.sim.model_stream import AppendCall
from stoker.mesh.sim.scheduler_process import SchedulerProcess, SchedulerRequest, post
from stoker.mesh.sim.timeline import SECOND
from stoker.mesh.wire.schema import NodeEvictRequest
from stoker.native.errors import Refused
from stoker.scheduler.nouns import MILLI
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.mutants.shared import BESIDE_LOST
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Gate, Stage

WATCH = "stoker.mesh.replica.watch.node_watch"
ANSWERS = "stoker.mesh.replica.nodes.lease_answers"
NODES = "stoker.mesh.replica.watch.node_requests"
MOVES = {"retries": 2, "restart": "on-node-loss"}


def node_of(stage: Stage, key: str) -> NodeProcess:
    """Return the node on which the program of a request first began."""
    name = next(node for node, found in stage.programs if found == key)
    return next(each for each in stage.nodes if each.name == name)


def begun(stage: Stage, key: str, **options: Any) -> NodeProcess:
    """Submit a long job and return the node on which it runs."""
    stage.submit(key, run_s=60, **options)
    stage.until(lambda: stage.runs(key), f"the start of {key}")
    return node_of(stage, key)


def starts(stage: Stage, key: str) -> int:
    return sum(found == key for _, found in stage.programs)


def is_evicted(stage: Stage, node: NodeProcess) -> bool:
    """True if a leader knows that the node was given up."""
    return any(node.name in each.replica.state.book.evicted for each in stage.leaders)


IS_OVER = Mutant(
    "returns-at-once", "stoker.scheduler.book", "Eviction.is_over",
    "return report.boot_id != self.boot_id or report.settled >= self.index", "return True",
    "a node that was given up gets nothing before its old attempts have ended",
)  # fmt: skip


@scenario(
    11,
    "A node that was given up gets nothing before it has reported that nothing is left of what it"
    " lost.",
    (IS_OVER, BESIDE_LOST),
)
def test_a_device_serves_nobody_before_its_old_attempt_has_ended() -> None:
    stage = Stage(nodes=3)
    stage.ready()
    half = {"gpu_milli": MILLI // 2, **MOVES}
    keys = [f"half-{n}" for n in range(2 * sum(len(node._devices) for node in stage.nodes))]
    nodes = [begun(stage, key, **half) for key in keys]
    node = nodes[0]
    moved = [key for key, own in zip(keys, nodes, strict=True) if own is node]
    node.pause()
    stage.until(lambda: is_evicted(stage, node), "the eviction")
    ends = Gate(node.spawner, "stop")
    node.crash()
    node.start_agent()
    stage.until(lambda: ends.seen, "the end of the old attempts on request")
    stage.pass_time(4)
    assert all(starts(stage, key) == 1 for key in moved), "nothing starts beside the old attempts"
    ends.shut = False
    for call in ends.seen:
        ends.deliver(call)
    assert stage.comes(lambda: all(starts(stage, key) == 2 for key in moved)), "it serves again"
    assert stage.violations == []


ANSWERS_WITHHELD = Mutant(
    "answers-withheld", ANSWERS, "LeaseAnswers._may_answer",
    "return known and request.node not in self._withheld", "return known",
    "a node whose fate is open is answered no lease request",
)  # fmt: skip
STATE_WITHHELD = Mutant(
    "state-withheld", NODES, "NodeRequests.state_requested",
    "if self._watch.is_withheld(event.node):", "if False:",
    "a node whose fate is open is answered no state request",
)  # fmt: skip


@scenario(
    20,
    "From the proposal of an eviction until its fate is settled the leader answers that node"
    " nothing.",
    (ANSWERS_WITHHELD, STATE_WITHHELD),
)
def test_a_node_comes_back_while_its_eviction_is_on_the_way() -> None:
    stage = Stage(nodes=4)
    stage.ready()
    node = begun(stage, "job", **MOVES)
    node.pause()

    def evicts(call: AppendCall) -> bool:
        return b"\xa5evict" in call.data

    late = Gate(stage.world.stream, "append", evicts)
    stage.until(lambda: late.seen, "the proposal of the eviction")
    node.go_on()
    stage.pass_time(1.5)
    late.shut = False
    late.deliver(late.seen[0])
    assert stage.comes(lambda: starts(stage, "job") == 2), "the job goes on elsewhere"
    stage.pass_time(3)
    assert stage.violations == []


NO_WAIT = Mutant(
    "no-wait", WATCH, "NodeWatch._verdict",
    "if found is None or now.boot_ns - silence.heard_ns < OVER_NS + wait_ns:", "if found is None:",
    "a silent node is not given up before its lease must be over",
)  # fmt: skip
HOLDS_NONE = Mutant(
    "holds-none", WATCH, "NodeWatch._may_hold_lease",
    "return now.boot_ns - last_ns < OVER_NS", "return False",
    "an eviction is proposed no sooner than a lease after the last request that was answered",
)  # fmt: skip


@scenario(
    21,
    "An eviction is proposed no sooner than a lease and half a second after the last request came"
    " that the leader answered, by its own clock.",
    (NO_WAIT, HOLDS_NONE),
)
def test_a_node_that_is_cut_off_runs_on_under_its_lease() -> None:
    stage = Stage(nodes=4)
    stage.ready()
    node = begun(stage, "job", **MOVES)
    names = [each.name for each in (*stage.schedulers, *stage.nodes) if each is not node]
    stage.cut(node.name, *names)
    assert stage.comes(lambda: starts(stage, "job") == 2), "the job goes on elsewhere"
    assert stage.violations == []


OLD_SILENCE = Mutant(
    "old-silence", WATCH, "NodeWatch.begin",
    "NodeSilence(max(since_ns, heard.get(name, since_ns)))", "NodeSilence(since_ns - 60 * 10**9)",
    "a new leader takes no node for silent before it could have heard it",
)  # fmt: skip
OTHERS_LONG_AGO = Mutant(
    "others-long-ago", "stoker.mesh.replica.peers.pledges", "Pledges.others_ns",
    "else self.won_ns - PLEDGE_NS", "else self.won_ns - 4 * PLEDGE_NS",
    "a leader counts leases of others up to the last pledge that they can have had",
)  # fmt: skip


@scenario(
    22,
    "A new leader gives up nobody before a lease has passed since the one before can last have had"
    " pledges, whatever a node may have been answered by it.",
    (HOLDS_NONE, OLD_SILENCE, NO_WAIT),
    OTHERS_LONG_AGO,
)
def test_a_node_that_only_the_dead_leader_had_answered() -> None:
    ends_behind_an_answer(SchedulerProcess.crash)


def ends_behind_an_answer(end: Callable[[SchedulerProcess], None]) -> None:
    """End a leader right after it alone has answered a node: the lease that it gave must be over
    before the next one gives the node up."""
    stage = Stage(nodes=4)
    first = stage.ready()
    node = begun(stage, "job", **MOVES)
    others = [each.name for each in (*stage.others(first), *stage.nodes) if each is not node]
    stage.cut(node.name, *others)
    stage.pass_time(3)
    before_ns = node.lease.expiry_ns
    stage.until(lambda: node.lease.expiry_ns > before_ns, "an answer to the node")
    end(first)
    stage.until(lambda: is_evicted(stage, node), "the eviction")
    assert node.lease.frozen, "by then its jobs are frozen"
    assert stage.comes(lambda: starts(stage, "job") == 2), "the job goes on elsewhere"
    assert stage.violations == []


SILENT_ANEW = Mutant(
    "silent-anew", WATCH, "NodeWatch.begin",
    "NodeSilence(max(since_ns, heard.get(name, since_ns)))", "NodeSilence(now.boot_ns)",
    "a follower hears the nodes, so that it knows who was silent before it led",
)  # fmt: skip
OTHERS_UNTIL_NOW = Mutant(
    "others-until-now", WATCH, "NodeWatch.begin",
    "max(self._began_ns, others_ns)", "max(self._began_ns, now.boot_ns)",
    "the pledges of a majority show since when nobody else had one",
)  # fmt: skip
ENOUGH_S = 6.7
"""The votes are free after 2 s, somebody stands within 0.5 s and a look of 0.1 s, and 3.5 s later
the lease must be over; the rest is for looks at the clock and messages. Counted from the beginning
of the next leader it takes 7 s at least."""


@scenario(
    33,
    "A node that dies with the leader is given up as soon as its lease must be over, although its"
    " silence began before the next one led.",
    SILENT_ANEW,
    OTHERS_UNTIL_NOW,
)
def test_a_node_that_dies_together_with_the_leader() -> None:
    stage = Stage(nodes=4)
    first = stage.ready()
    node = begun(stage, "job", **MOVES)
    stage.pass_time(2)
    first.crash()
    node.power_off()
    assert stage.comes(lambda: is_evicted(stage, node), ENOUGH_S), "it is given up in time"
    assert stage.comes(lambda: starts(stage, "job") == 2), "the job goes on elsewhere"
    assert stage.violations == []


ENTERS = Mutant(
    "enters", WATCH, "NodeWatch.greet",
    "if known is None or known.instance == report.instance:", "if True:",
    "another instance of a node waits until the first can hold no lease",
)  # fmt: skip


@scenario(
    29,
    "Leases name an instance of a node, and a second one of the same name enters only when the"
    " first can hold no lease.",
    ENTERS,
)
def test_two_nodes_have_one_name() -> None:
    stage = Stage(nodes=4)
    stage.ready()
    first = begun(stage, "job", **MOVES)
    second = NodeProcess(first.around, first.name, 2, audit=first._audit, trusted=first._trusted)
    second.schedulers, second.pings.hosts = first.schedulers, first.pings.hosts
    second.boot = 50
    take = first.take

    def both(message: tuple[str, Any]) -> None:
        take(message)
        second.take(message)

    first.take = both  # type: ignore[method-assign]
    second.boot_machine()
    stage.pass_time(12)
    assert stage.violations == [], "the job of the first runs nowhere else"
    assert starts(stage, "job") == 1 and stage.has_lease(first)
    first.power_off()
    assert stage.comes(lambda: second.core.caught_up), "the second enters when the first is gone"
    assert stage.comes(lambda: starts(stage, "job") == 2)
    assert stage.violations == []


MASS_FOR_EVER = Mutant(
    "mass-for-ever", WATCH, "NodeWatch._verdict",
    "MASS_WAIT_NS if self._is_mass else 0", "1 << 62 if self._is_mass else 0",
    "many silent nodes only delay the decision",
)  # fmt: skip


@scenario(
    33,
    "If many nodes are silent at once, each is given more time, and then pings decide all the"
    " same.",
    MASS_FOR_EVER,
)
def test_three_of_eight_nodes_die_at_once() -> None:
    stage = Stage(nodes=8)
    stage.ready()
    keys = [f"job-{number}" for number in range(8)]
    nodes = [begun(stage, key, **MOVES) for key in keys]
    dead = list({node.name: node for node in nodes}.values())[:3]
    for node in dead:
        node.power_off()
    lost = [key for key, node in zip(keys, nodes, strict=True) if node in dead]
    assert stage.comes(lambda: all(is_evicted(stage, node) for node in dead), 40)
    assert stage.comes(lambda: all(starts(stage, key) == 2 for key in lost), 40)
    assert stage.violations == []


NO_GOSSIP = Mutant(
    "no-gossip", "stoker.mesh.replica.watch.silence", "NodeSilence.evidence",
    "any(each.failed for each in found.values())", "False",
    "gossip stands for the second node that pings where only one other is heard",
)  # fmt: skip


@scenario(
    33,
    "Where a single other node is heard, its pings in vain and its gossip together give a silent"
    " node up.",
    NO_GOSSIP,
)
def test_one_of_two_nodes_dies() -> None:
    stage = Stage(nodes=2)
    stage.ready()
    node = begun(stage, "job", **MOVES)
    node.power_off()
    assert stage.comes(lambda: starts(stage, "job") == 2, 40), "the job goes on elsewhere"
    assert stage.violations == []


ANY_REQUEST = Mutant(
    "any-request", ANSWERS, "LeaseAnswers._note_heard",
    "if before is None or before.instance != request.instance or _is_newer(request, before):",
    "if True:",
    "only a new lease request is a sign of life",
)  # fmt: skip


@scenario(
    33,
    "Only a lease request with a later stamp than all before is a sign of life, so that nobody can"
    " keep a dead node in the cluster by repeating its requests.",
    ANY_REQUEST,
)
def test_somebody_repeats_the_requests_of_a_dead_node() -> None:
    stage = Stage(nodes=4)
    stage.ready()
    node = begun(stage, "job", **MOVES)
    gates = [
        Gate(each, "take_lease_request", lambda m: m[0] == node.name) for each in stage.schedulers
    ]
    for gate in gates:
        gate.shut = False
    stage.until(lambda: all(gate.seen for gate in gates), "a lease request")
    node.power_off()
    kept = [gate.seen[-1] for gate in gates]

    def repeat(_: None) -> None:
        for gate, call in zip(gates, kept, strict=True):
            gate.deliver(call)
        stage.timeline.after(SECOND // 2, repeat, None)

    repeat(None)
    assert stage.comes(lambda: is_evicted(stage, node)), "it is given up all the same"
    assert stage.violations == []


SPOKEN_AT_ONCE = Mutant(
    "spoken-at-once", WATCH, "NodeWatch._propose_spoken",
    "elif not self._may_hold_lease(node, now):", "else:",
    "what an operator says of a node waits until its lease must be over",
)  # fmt: skip


def evict(stage: Stage, node: NodeProcess) -> list[Any]:
    """Have an administrator say that a node is lost; return the answers, as they come."""
    request, answers = NodeEvictRequest(node=node.name), list[Any]()
    leader = stage.leader()

    def make(token: Any) -> Any:
        return administration.node_evict(token, request, leader.replica.state, 0, "root")

    told = SchedulerRequest("root", 1, make, lambda answered: answers.append(answered.value))
    post(told, [leader])
    return answers


def unheard(stage: Stage) -> NodeProcess:
    """Return the node of a job that no scheduler hears, and whose host replies to pings."""
    stage.ready()
    node = begun(stage, "job", **MOVES)
    stage.cut(node.name, *(each.name for each in stage.schedulers))
    stage.pass_time(2)
    return node


@scenario(
    21,
    "A node is given up on an operator's word, without any other signal, but no sooner than its"
    " lease must be over.",
    SPOKEN_AT_ONCE,
)
def test_an_operator_evicts_a_node_whose_host_lives() -> None:
    stage = Stage(nodes=2)
    node = unheard(stage)
    answers = evict(stage, node)
    assert stage.comes(lambda: starts(stage, "job") == 2), "the job goes on elsewhere"
    assert answers == [AdminApplied(True)]
    stage.mend()
    assert stage.comes(lambda: not is_evicted(stage, node), 40), "the node is back"
    assert starts(stage, "job") == 2 and stage.violations == []


DEAF = Mutant(
    "deaf", "stoker.mesh.replica.watch.operator_word", "contradicted",
    "if word.force:", "if True:",
    "a node that is heard before its lease is over is not given up by a word",
)  # fmt: skip


@scenario(
    21,
    "A node that is heard again while an operator's eviction waits for the end of its lease keeps"
    " its jobs.",
    DEAF,
)
def test_a_node_is_heard_again_after_an_operator_called_it_lost() -> None:
    stage = Stage(nodes=2)
    node = unheard(stage)
    answers = evict(stage, node)
    stage.pass_time(0.5)
    stage.mend()
    assert stage.comes(lambda: answers), "the operator is answered"
    assert isinstance(answers[0], Refused) and "is not lost" in answers[0].message
    assert stage.comes(lambda: stage.has_lease(node))
    stage.pass_time(6)
    assert starts(stage, "job") == 1 and not is_evicted(stage, node)
    assert stage.violations == []
