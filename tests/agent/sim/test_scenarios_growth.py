# SPDX-License-Identifier: Apache-2.0
"""Stories of a cluster that begins with one scheduler, becomes several, and one again."""

from __future__ import annotations

from stoker.mesh.log import roster_change
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.log.held_entries import FORGOTTEN
from stoker.mesh.replica import events
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.sim.scheduler_process import SchedulerProcess
from stoker.native.errors import Refused
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Gate, Stage
from tests.agent.sim.test_scenarios_roster import Changes

PEERS = "stoker.mesh.replica.peers.replica_peers"

KEEPS_TWO = Mutant(
    "keeps-two", "stoker.mesh.log.roster_change", "kept_min",
    "1 if cluster is not None and cluster.replicated else KEPT_MIN", "KEPT_MIN",
    "a roster may have one scheduler where the genesis says so",
)  # fmt: skip
UNREQUESTED = Mutant(
    "unrequested", "stoker.mesh.replica.peers.applicants", "Applicants.pledging",
    "frozenset(ready) if one else frozenset()", "frozenset()",
    "a single leader requests the pledge of the one that is about to enter",
)  # fmt: skip
STILL_ALONE = Mutant(
    "still-alone", "stoker.mesh.replica.peers.quorum", "Quorum.numbers",
    "if members is not self._of:", "if self._of is None:",
    "a second scheduler counts from the entry on that takes it in",
)  # fmt: skip
UNSTORED = Mutant(
    "unstored", PEERS, "ReplicaPeers.appended",
    "self._word.store_new()", "pass",
    "a leader counts an entry of its own once its own disk has it",
)  # fmt: skip
ABSTAINS = Mutant(
    "abstains", PEERS, "ReplicaPeers._remember_vote",
    "self.voter.voted_for_itself()", "pass",
    "a scheduler without others knows its last vote by the promise on its disk",
)  # fmt: skip
VOTE_FORGOTTEN = Mutant(
    "vote-forgotten", PEERS, "ReplicaPeers._remember_vote",
    "if is_own and alone", "if alone",
    "a scheduler that has voted for another one abstains after a restart",
)  # fmt: skip
UNASKED = Mutant(
    "unasked", "stoker.mesh.replica.peers.recollection", "Recollection.tick",
    "self._others() or self._known() - {self._own}", "self._others()",
    "a founder without a memory asks the servers that entered since",
)  # fmt: skip


def one(nodes: int = 1) -> tuple[Stage, Changes, SchedulerProcess, SchedulerProcess]:
    """Return a cluster of one scheduler with two spare ones, the first and the second of them."""
    stage = Stage(1, nodes, spares=2, grows=True)
    first = stage.ready()
    assert first is stage.schedulers[0]
    stage.pass_time(3)  # the spare ones have read the log
    return stage, Changes(stage), first, stage.schedulers[1]


def grown() -> tuple[Stage, Changes, SchedulerProcess, SchedulerProcess]:
    """Return a cluster that has become one of three."""
    stage, changes, first, second = one()
    for new in stage.schedulers[1:]:
        assert changes.enter(new) == AdminApplied(True)
        stage.until(lambda new=new: len(changes.roster(new)) >= new.number, "its entry")
        stage.pass_time(3)
    return stage, changes, first, second


@scenario(
    37,
    "One scheduler is the majority of its roster where the genesis says that it is a replica, and"
    " others enter beside it: it requests the pledge of a second one before that one counts.",
    KEEPS_TWO,
    UNREQUESTED,
)
def test_one_scheduler_becomes_three_and_the_first_one_dies() -> None:
    stage, changes, first, _ = one()
    stage.submit("before", run_s=25)
    stage.until(lambda: stage.runs("before"), "a job runs")
    for new in stage.schedulers[1:]:
        assert changes.enter(new) == AdminApplied(True), "it enters beside the first one"
        assert first.leads, "the first one leads on"
        stage.pass_time(3)
    first.crash()
    stage.submit("after", gpu_milli=0)
    assert stage.comes(lambda: stage.end("after"), 10), "two of three work on"
    assert stage.comes(lambda: stage.end("before"), 40), "the job of before ends"
    assert [key for _, key in stage.programs].count("before") == 1, "it noticed nothing"
    assert stage.violations == [] and stage.halts == []


@scenario(
    37,
    "A second scheduler counts from the entry on that takes it in, so one of two decides nothing"
    " while the other is away.",
    STILL_ALONE,
)
def test_the_second_one_dies_right_after_it_counts() -> None:
    stage, changes, first, second = one()
    assert changes.enter(second) == AdminApplied(True)
    second.crash()
    stage.pass_time(3)
    stage.submit("waits")
    assert not stage.comes(lambda: stage.told("waits"), 6), "one of two acknowledges nothing"
    assert not first.leads
    second.start()
    assert stage.comes(lambda: stage.end("waits"), 12), "both of two work on"
    assert stage.violations == []


@scenario(
    37,
    "The first scheduler has the entry that takes the second one in on its own disk before it"
    " counts: after a restart it does not believe to be alone, whatever the log has lost.",
    UNSTORED,
)
def test_the_first_one_restarts_without_the_entry_in_the_log() -> None:
    stage, changes, first, second = one()
    assert changes.enter(second) == AdminApplied(True)
    stage.until(lambda: len(changes.roster(second)) == 2, "the entry at the second one")
    others = [each.name for each in stage.schedulers if each is not first]
    stage.cut(first.name, *others)
    first.crash()
    stage.lose_entries(1)
    first.start()
    assert not stage.comes(lambda: first.leads, 8), "it does not lead by itself"
    stage.mend()
    assert stage.comes(lambda: stage.leaders, 12), "both of two lead on"
    assert len(changes.roster(stage.leader())) == 2
    assert stage.violations == []


@scenario(
    37,
    "A scheduler that has begun again leads by the roster at the end of its own chain, and never"
    " alone since the genesis names it alone.",
    STILL_ALONE,
)
def test_a_founder_that_is_cut_off_does_not_lead_beside_two() -> None:
    stage, _, first, _ = grown()
    stage.cut(first.name, *(each.name for each in stage.schedulers[1:]))
    first.crash()
    first.start()
    assert not stage.comes(lambda: first.leads, 8), "it does not lead beside the other two"
    assert any(each.leads for each in stage.schedulers[1:]), "which lead on"
    stage.mend()
    stage.submit("after")
    assert stage.comes(lambda: stage.end("after"), 10)
    assert stage.violations == [] and stage.halts == []


@scenario(
    37,
    "A scheduler whose roster is itself abstains after a restart only if its disk says that it last"
    " voted for another one.",
    ABSTAINS,
)
def test_one_scheduler_restarts_and_leads_within_a_pledge() -> None:
    stage, _, first, _ = one()
    stage.submit("kept", run_s=20)
    stage.taken("kept")
    first.crash()
    first.start()
    assert stage.comes(lambda: first.leads, 1.5), "it leads before a pledge could have run out"
    assert stage.keeps("kept") and stage.violations == []


@scenario(
    37,
    "A scheduler that has voted for another one, and then finds itself alone in the roster, waits"
    " for the end of that pledge, also after a restart.",
    VOTE_FORGOTTEN,
)
def test_a_roster_of_one_is_found_behind_a_vote_for_another() -> None:
    stage, changes, first, second = one()
    assert changes.enter(second) == AdminApplied(True)
    stage.until(lambda: len(changes.roster(second)) == 2, "the roster of two")
    stage.pass_time(1)
    unread = Gate(first, "feed", _reads)
    stage.world.network.cut(second.server_name, second.name)
    before = stage.world.stream.last
    changes.send(roster_change.leaving(changes.roster(first), second.number))
    stage.until(lambda: stage.world.stream.last > before, "the change in the log")
    first.crash()
    stage.pass_time(0.1)
    first.start()
    stage.until(lambda: second.replica._leadership.stands, "the vote of the first one")
    stage.cut(first.name, second.name)
    unread.shut = False
    stage.until(lambda: first.replica._peers.quorum.numbers == {first.number}, "the change", 2)
    first.crash()
    first.start()
    stage.until(lambda: first.leads, "the first one alone")
    assert not stage.takes_requests(second)
    assert stage.violations == []


def _reads(event: events.Event) -> bool:
    """True for what tells a scheduler what is in the log."""
    return isinstance(event, events.LogEntries | events.AppendDone)


@scenario(
    37,
    "A founder that has lost its memory knows by its genesis of nobody else, so it asks the servers"
    " of its tables, and counts those whom they name.",
    UNASKED,
)
def test_a_founder_without_a_memory_learns_who_entered() -> None:
    stage, _, first, _ = grown()
    first.crash()
    first.disk.lose()
    first.start()
    stage.until(lambda: first.disk.floor == FORGOTTEN, "it begins without a memory")
    assert not stage.comes(lambda: first.leads, 4), "it leads nobody"
    assert stage.comes(lambda: first.disk.floor != FORGOTTEN, 6), "the others tell it"
    stage.until(lambda: stage.leaders, "a leader")
    end = stage.leader().replica.state.index
    assert stage.comes(lambda: first.replica.state.index >= end, 6)
    stage.schedulers[2].crash()
    stage.submit("after")
    assert stage.comes(lambda: stage.end("after"), 12), "it counts again"
    assert stage.violations == []


def test_three_become_one_again_and_that_one_restarts() -> None:
    stage, changes, _, _ = grown()
    leader = stage.leader()
    for gone in stage.others(leader):
        stage.pass_time(3)
        assert changes.leave(gone) == AdminApplied(True)
    for gone in stage.others(leader):
        gone.crash()
    stage.submit("alone")
    assert stage.comes(lambda: stage.end("alone"), 10), "one works on"
    refused = changes.leave(leader)
    assert isinstance(refused, Refused) and "keeps 1" in refused.message
    leader.crash()
    leader.start()
    assert stage.comes(lambda: leader.leads, 5)
    for gone in stage.others(leader):
        gone.start()
    stage.submit("last")
    assert stage.comes(lambda: stage.end("last"), 10)
    assert stage.leaders == [leader] and stage.violations == []


def test_a_restart_in_each_step_of_growth_loses_nothing() -> None:
    stage, changes, first, _ = one()
    for step, new in enumerate(stage.schedulers[1:]):
        stage.submit(f"kept-{step}", run_s=0.2)
        stage.taken(f"kept-{step}")
        member = RosterMember(new.number, new.signer.public)
        changes.send(roster_change.entering(changes.roster(stage.leader()), member))
        stage.pass_time(0.01 * (step + 1))
        for each in (first, new):
            each.crash()
            each.start()
        stage.until(lambda: stage.leaders, "a leader")
        stage.pass_time(4)
        stage.until(lambda new=new: _enters(stage, changes, new), "it is in")
    for step in range(2):
        assert stage.comes(lambda step=step: stage.end(f"kept-{step}"), 20)
    assert len(changes.roster(stage.leader())) == 3 and stage.violations == []


def _enters(stage: Stage, changes: Changes, new: SchedulerProcess) -> bool:
    """Ask once more unless it is in."""
    there = {each.number for each in changes.roster(stage.leader())}
    return new.number in there or changes.enter(new) == AdminApplied(True)
