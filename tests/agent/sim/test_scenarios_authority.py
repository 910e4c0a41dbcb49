# SPDX-License-Identifier: Apache-2.0
"""Stories of authority: who leads, who may answer, and whose word a scheduler or node takes."""

from __future__ import annotations

import msgspec

from stoker.mesh.log import entry as entries
from stoker.mesh.replica.works.decide import propose
from stoker.mesh.replica.works.work import CancelWork
from stoker.mesh.sim.keyed_hash import KeyedHash
from stoker.mesh.sim.scheduler_process import SchedulerProcess
from stoker.native.errors import NotLeader
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Gate, Stage

REPLICA = "stoker.mesh.replica.replica"
PEERS = "stoker.mesh.replica.peers.replica_peers"
VOTER = "stoker.mesh.replica.peers.voter"
TAIL = "stoker.mesh.replica.log.held_tail"

DEPOSED_ANSWERS = Mutant(
    "deposed-answers", PEERS, "ReplicaPeers.check",
    "if now.boot_ns >= pledges.until_ns and leadership.stands:", "if False:",
    "a leader without a majority's pledges steps down before it does anything else",
)  # fmt: skip
FOLLOWER_ANSWERS = Mutant(
    "follower-answers", "stoker.mesh.replica.peers.answer_right", "AnswerRight.may_answer",
    "return self._peers.has_right(now_ns)", "return True",
    "only a scheduler with a majority's pledges takes requests",
)  # fmt: skip


@scenario(
    9,
    "A leader whose pledges ran out steps down before it answers anything, although it hears"
    " nothing of its successor.",
    (DEPOSED_ANSWERS, FOLLOWER_ANSWERS),
)
def test_an_idle_leader_that_was_cut_off_takes_no_end_of_a_job() -> None:
    stage = Stage()
    deposed = stage.ready()
    others = stage.others(deposed)
    stage.cut(deposed.name, *(each.name for each in others))
    stage.leader(but=deposed)
    stage.submit("job", run_s=1, to=others)
    stage.until(lambda: stage.runs("job"), "the start of the job")
    stage.mute(stage.node.name, others)
    stage.until(lambda: not stage.node.spawner.running, "the end of the program")
    stage.pass_time(3)
    stage.mend()
    assert stage.comes(lambda: stage.end("job") == "succeeded"), "the end of the job is recorded"
    assert stage.violations == [] and stage.halts == []


CANDIDATE_QUEUES = Mutant(
    "candidate-queues", REPLICA, "Replica._sends_on",
    "if self._peers.alone or self._leadership.leads or self._leadership.halted:", "if True:",
    "a follower answers at once that another scheduler leads",
)  # fmt: skip


@scenario(
    15,
    "A scheduler that does not lead answers at once that another one does, and keeps nothing to do"
    " when it leads later.",
    CANDIDATE_QUEUES,
)
def test_a_request_that_a_candidate_refused_never_runs_later() -> None:
    stage = Stage()
    first = stage.ready()
    stream = stage.world.stream
    for server in stream.servers:
        server.up = False
    first.crash()
    others = stage.others(first)
    stage.until(lambda: any(each._listens for each in others), "a candidate")
    stage.submit("old", again=False)
    stage.pass_time(0.5)
    told = [type(each) for each in stage.refusals("old")]
    for server in stream.servers:
        server.up = True
    stage.leader(but=first)
    stage.pass_time(3)
    assert not stage.runs("old"), "nothing runs that its user was told to send elsewhere"
    assert told == [NotLeader], "its user was told at once"
    assert stage.violations == [] and stage.halts == []


@scenario(
    15,
    "Only a scheduler with the pledges of a majority takes requests, so that no refusal of a"
    " follower overtakes the leader's answer.",
    FOLLOWER_ANSWERS,
)
def test_at_most_one_scheduler_takes_requests_at_any_moment() -> None:
    stage = Stage()
    most = 0
    for _ in range(3):
        leader = stage.ready()
        stage.cut(leader.name, *(each.name for each in stage.others(leader)))
        for _ in range(500):
            stage.pass_time(0.02)
            most = max(most, sum(map(stage.takes_requests, stage.schedulers)))
        stage.mend()
        stage.pass_time(3)
    assert most == 1, "a request has one scheduler to answer it"
    assert stage.violations == [] and stage.halts == []


VOTES_FOR_ALL = Mutant(
    "votes-for-all", VOTER, "Voter.wait_ns",
    "return 0 if candidate == self._holder else max(0, self._free_ns - now_ns)", "return 0",
    "a voter pledges to another scheduler only after its last pledge ran out",
)  # fmt: skip


@scenario(
    16,
    "A scheduler follows as long as another leads, and each takeover leaves the deposed one able to"
    " follow and to lead again.",
    VOTES_FOR_ALL,
)
def test_schedulers_follow_while_one_leads_and_take_over_in_turn() -> None:
    stage = Stage()
    for _ in range(4):
        leader = stage.ready()
        term = leader.replica.state.term
        stage.pass_time(10)
        assert stage.leaders == [leader], "it leads as long as it lives"
        assert {each.replica.state.term for each in stage.schedulers} == {term}
        leader.crash()
        stage.leader(but=leader)
        leader.start()
        stage.pass_time(3)
    stage.submit("job")
    assert stage.comes(lambda: stage.end("job") == "succeeded")
    assert stage.violations == [] and stage.halts == []


ANY_SIGNATURE = Mutant(
    "any-signature", TAIL, "HeldTail._judge",
    "if not proven(opened, self._state):", "if False:",
    "an entry counts only with the signature of the owner of its term",
)  # fmt: skip


@scenario(
    19,
    "An entry counts only if the owner of its term signed it; one of another scheduler is passed"
    " over.",
    ANY_SIGNATURE,
)
def test_an_entry_in_the_leaders_name_that_another_scheduler_signed() -> None:
    stage = Stage()
    leader = stage.ready()
    stage.submit("job", run_s=5)
    stage.until(lambda: stage.runs("job"), "the start of the job")
    other = stage.others(leader)[0]
    stage.pass_time(1)  # the leader has nothing more to append of itself
    data = _cancel(leader, stage.taken("job"), other.signer)
    stage.world.stream._store(data)
    stage.submit("next")
    assert stage.comes(lambda: stage.end("next") == "succeeded"), "the leader goes on behind it"
    assert stage.comes(lambda: stage.end("job")), "the job ends"
    assert stage.end("job") == "succeeded", "nobody cancelled it"
    assert stage.violations == [] and stage.halts == []


NOT_CAUGHT_UP = Mutant(
    "not-caught-up", "stoker.agent.jobs.node_core", "NodeCore._command_received",
    "if not self._caught_up:", "if False:",
    "a new agent obeys no command before it read its desired state",
)  # fmt: skip
UNREAD_STARTS = Mutant(
    "unread-starts", "stoker.agent.jobs.lease_rule", "LeaseRule.may_start",
    "known = not self.must_read or self._is_fresh(requested_ns)", "known = True",
    "nothing starts before the desired state was read under the present lease",
)  # fmt: skip


@scenario(
    19,
    "A new agent obeys no command before a signed state that answers its own request, so that a"
    " stale position on its disk repeats no start.",
    (NOT_CAUGHT_UP, UNREAD_STARTS),
)
def test_a_machine_that_lost_its_newest_position_repeats_no_start() -> None:
    stage = Stage()
    stage.ready()
    node, stale = stage.node, stage.node._stored
    commands = Gate(node, "take", lambda message: message[0] == "command")
    commands.shut = False
    stage.submit("job", run_s=0.3)
    stage.until(lambda: stage.end("job"), "the end of the job")
    node.power_off()
    node._stored = stale
    states = Gate(node, "take_answer", lambda answered: isinstance(answered.value, bytes))
    node.boot_machine()
    stage.until(lambda: stage.has_lease(node), "a lease")
    stage.until(lambda: states.seen, "the answer to the state request")
    commands.deliver(commands.seen[0])
    stage.pass_time(0.2)
    assert node.spawner.attempts() == (), "nothing waits to run when the jobs are thawed"
    states.shut = False
    stage.submit("next")
    assert stage.comes(lambda: stage.end("next") == "succeeded"), "the node serves again"
    assert stage.programs == [(node.name, "job"), (node.name, "next")], "each ran once"
    assert stage.violations == [] and stage.halts == []


def _cancel(leader: SchedulerProcess, job: int, signer: KeyedHash) -> bytes:
    """Return the entry that cancels a job, as the leader would append it next."""
    replica = leader.replica
    batch = propose(
        replica.state, [CancelWork(None, [job], [job], "")], replica.real_ns, measure=False
    )
    number, term = replica.settings.leader, replica.state.term
    made = replica._tail.following(term, number, replica.real_ns, batch.commands, ())
    return entries.seal(msgspec.structs.replace(made), signer).data


OLD_PLEDGES = Mutant(
    "old-pledges", "stoker.mesh.replica.nodes.lease_answers", "LeaseAnswers._covered",
    "if covers_ns is None or each.at_ns < covers_ns", "if True",
    "a lease request is answered only under pledges given after it came",
)  # fmt: skip
COVERED = (
    "A lease request is answered only under pledges that a majority gave after it came, however"
    " long the leader stood still."
)


def leader_that_stands_still(stage: Stage) -> SchedulerProcess:
    """Stop a leader together with its clock, and cut it and a node off from all others, one of
    which leads from now on; return the stopped one, which still has its pledges by its clock."""
    stopped = stage.ready()
    stage.submit("job", run_s=60, retries=1, restart="always")
    stage.until(lambda: stage.runs("job"), "the start of the job")
    stage.pass_time(1)  # nothing is left to append
    node = stage.runner
    rest = [each.name for each in (*stage.others(stopped), *stage.nodes) if each is not node]
    stage.cut(node.name, *rest)
    stage.cut(stopped.name, *rest)
    stopped.pause(clock=False)
    stage.leader(but=stopped)
    return stopped


NEWER_TERM = Mutant(
    "newer-term", REPLICA, "Replica._claim",
    "if self._tail.end.term > term:", "if False:",
    "a leader that reads a newer term steps down, whatever its clock says",
)  # fmt: skip


@scenario(
    26,
    "A leader that reads a newer term in the log steps down, whatever its clock says about its"
    " pledges.",
    NEWER_TERM,
)
def test_a_leader_whose_clock_stood_still_learns_from_the_log() -> None:
    stage = Stage()
    stopped = leader_that_stands_still(stage)
    stage.pass_time(1)
    stopped.go_on()
    end = stage.world.stream.last
    stage.submit("job-2", to=[stopped])
    stage.pass_time(1)
    assert stage.world.stream.last == end, "it fills the log with nothing that counts"
    assert not stopped.leads and stage.told("job-2") is None
    assert [type(each) for each in stage.refusals("job-2")][:1] == [NotLeader]
    assert stage.violations == [] and stage.halts == []


@scenario(26, COVERED, OLD_PLEDGES)
def test_a_leader_whose_clock_stood_still_renews_no_lease() -> None:
    stage = Stage(nodes=6)
    stopped = leader_that_stands_still(stage)
    stage.pass_time(1.5)
    stopped.go_on()
    stage.until(lambda: len(stage.programs) > 1, "the start of the job at another node")
    assert stage.violations == [], "the job does not run twice"


@scenario(26, COVERED, OLD_PLEDGES)
def test_a_leader_whose_clock_stood_still_thaws_nothing() -> None:
    stage = Stage(nodes=6)
    stopped = leader_that_stands_still(stage)
    stage.until(lambda: stage.runner.lease.frozen, "the end of the lease")
    stopped.go_on()
    stage.until(lambda: len(stage.programs) > 1, "the start of the job at another node")
    stage.pass_time(1)
    assert stage.violations == [], "the job does not run twice"


PAST_ANSWERS = Mutant(
    "past-answers", "stoker.mesh.wire.command", "CommandChain.is_past",
    "return 0 < term < self.position.term", "return False",
    "a node takes no answer of a leader of an earlier term than it has obeyed",
)  # fmt: skip


@scenario(
    26,
    "A node that obeyed a later leader goes on reporting an end which one whose clock stood still"
    " took for that of an attempt nobody knows.",
    PAST_ANSWERS,
)
def test_a_leader_whose_clock_stood_still_drops_no_end_of_a_job() -> None:
    stage = Stage()
    stopped = stage.ready()
    others = stage.others(stopped)
    stage.pass_time(1)  # nothing is left to append
    stage.cut(stopped.name, *(each.name for each in others))
    stopped.pause(clock=False)
    stage.leader(but=stopped)
    stage.submit("job", run_s=1, to=others)
    stage.until(lambda: stage.runs("job"), "the start of the job")
    stage.mute(stage.node.name, others)
    stage.until(lambda: not stage.node.spawner.running, "the end of the program")
    stopped.go_on()
    stage.pass_time(1)
    stage.mend()
    assert stage.comes(lambda: stage.end("job") == "succeeded"), "the end of the job is recorded"
    assert stage.violations == [] and stage.halts == []
