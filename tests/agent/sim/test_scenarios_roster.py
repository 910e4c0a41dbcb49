# SPDX-License-Identifier: Apache-2.0
"""Stories of the roster: schedulers that enter and leave while the cluster works."""

from __future__ import annotations

from typing import Any

from stoker.mesh.log import roster_change
from stoker.mesh.log.entry import RosterBlob
from stoker.mesh.log.genesis import RosterMember
from stoker.mesh.log.held_entries import FORGOTTEN
from stoker.mesh.replica import events
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.sim.scheduler_process import SchedulerProcess, SchedulerRequest
from stoker.native.errors import Refused
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import scenario
from tests.agent.sim.stage import Stage

PROPOSALS = "stoker.mesh.replica.peers.roster_proposals"
CHANGE = "stoker.mesh.log.roster_change"

FROZEN = Mutant(
    "quorum-frozen", "stoker.mesh.replica.peers.quorum", "Quorum.numbers",
    "if members is not self._of:", "if self._of is None:",
    "those are a majority who are in the newest roster",
)  # fmt: skip
SWAP = Mutant(
    "swap", CHANGE, "_no_entry", "if here != VACANT:", "if False:",
    "an entry changes one scheduler",
)  # fmt: skip
LEAVES_ITSELF = Mutant(
    "leaves-itself", PROPOSALS, "RosterProposals._refusal",
    "if self._number not in quorum.numbers:", "if False:",
    "a leader does not let itself go",
)  # fmt: skip
UNHEARD = Mutant(
    "unheard", PROPOSALS, "RosterProposals._refusal",
    "if not self._pledges.lets(quorum, now.boot_ns):", "if False:",
    "a leader proposes no roster whose majority does not answer it",
)  # fmt: skip
UNREAD = Mutant(
    "unread", PROPOSALS, "RosterProposals._refusal",
    "self._applicants.lack(change.member.number, now)", '""',
    "a leader lets nobody enter who has not read the log",
)  # fmt: skip
UNHELPED = Mutant(
    "unhelped", "stoker.mesh.replica.peers.sender_check", "SenderCheck.opened",
    "key = member or self._applicants.key(sender)", "key = member",
    "who is not in the roster is told what it lacks",
)  # fmt: skip
HALF_READ = Mutant(
    "half-read", "stoker.mesh.replica.peers.pledges", "Pledges.right_ns",
    "until_ns and self.best(own) is None", "True",
    "pledges give no authority to a candidate whose voters know more entries than it does",
)  # fmt: skip
OF_LEFT = Mutant(
    "of-left", "stoker.mesh.replica.peers.pledges", "Pledges.best",
    "if voter not in self.quorum.numbers:", "if False:",
    "a candidate fetches what it lacks of those who count alone",
)  # fmt: skip
STRANGER = Mutant(
    "stranger", "stoker.mesh.wire.known_schedulers", "KnownSchedulers.introduced",
    "if not any(self._vouches(sealed, meant) for sealed in pledges):", "if True:",
    "a node gets to know a leader by the pledges of schedulers that it knows",
)  # fmt: skip


class Changes:
    """The requests of an administrator on a stage, and their answers."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.answers: list[Any] = []

    def roster(self, scheduler: SchedulerProcess) -> tuple[RosterMember, ...]:
        """Return the roster that a scheduler has applied."""
        config = scheduler.replica.state.config
        return config.schedulers if config is not None else ()

    def send(self, change: RosterBlob | None) -> None:
        """Ask whoever leads for a change."""
        assert change is not None
        leader, number = self.stage.leader(), len(self.answers)
        request = SchedulerRequest(
            "admin", number, lambda token: events.RosterChange(token, change),
            lambda answered: self.answers.append(answered.value),
        )  # fmt: skip
        self.stage.world.network.post("admin", leader.name, leader.take, request)

    def ask(self, change: RosterBlob | None) -> Any:
        """Ask whoever leads for a change, and return the answer."""
        asked = len(self.answers)
        self.send(change)
        self.stage.until(lambda: len(self.answers) > asked, "the answer about the roster")
        return self.answers[-1]

    def leave(self, gone: SchedulerProcess) -> Any:
        """Let a scheduler go."""
        roster = self.roster(self.stage.leader())
        return self.ask(roster_change.leaving(roster, gone.number))

    def enter(self, new: SchedulerProcess) -> Any:
        """Take a scheduler in."""
        member = RosterMember(new.number, new.signer.public)
        return self.ask(roster_change.entering(self.roster(self.stage.leader()), member))


def members(stage: Stage) -> list[SchedulerProcess]:
    """Return the three schedulers of the genesis, the leader first."""
    leader = stage.ready()
    return [leader, *(each for each in stage.schedulers[:3] if each is not leader)]


@scenario(
    37,
    "A majority is counted by the roster at the end of the chain: a scheduler that entered counts,"
    " and one that left does not.",
    FROZEN,
)
def test_a_lost_scheduler_makes_room_for_another() -> None:
    stage = Stage(spares=1)
    changes, new = Changes(stage), stage.schedulers[3]
    leader, lost, kept = members(stage)
    lost.crash()
    assert changes.leave(lost) == AdminApplied(True)
    assert changes.enter(new) == AdminApplied(True)
    caught_up = stage.comes(lambda: new.replica.state.index == leader.replica.state.index, 5)
    assert caught_up, "who entered has read what the others have"
    kept.crash()
    stage.submit("after")
    assert stage.comes(lambda: stage.end("after"), 10), "two of the three work on"
    lost.start()
    stage.pass_time(6)
    assert lost.replica.status() == "waiting: this scheduler is not in the roster"
    kept.start()
    stage.pass_time(3)
    leader.crash()
    assert stage.comes(lambda: stage.leaders, 12), "two of the three lead on"
    assert stage.leaders[0] in (kept, new)
    assert stage.violations == [] and stage.halts == []


@scenario(
    37,
    "An entry takes one scheduler in or lets one go: a change of two at once could have two"
    " majorities without a scheduler in common.",
    SWAP,
)
def test_two_halves_of_a_cluster_after_an_exchange() -> None:
    stage = Stage(spares=1)
    changes, new = Changes(stage), stage.schedulers[3]
    leader, one, other = members(stage)
    place = one.number - 1
    answer = changes.ask(RosterBlob(place, RosterMember(new.number, new.signer.public)))
    for here in (leader, new):
        for there in (one, other):
            stage.cut(here.name, there.name)
    stage.pass_time(1)
    assert not stage.comes(lambda: len(stage.leaders) > 1, 12), "one leads at a time"
    assert isinstance(answer, Refused) and "has to leave before" in answer.message
    assert stage.violations == []


@scenario(
    37,
    "A leader does not let itself go: who is in no roster has no right to confirm its own leaving.",
    LEAVES_ITSELF,
)
def test_a_leader_that_is_to_leave_refuses() -> None:
    stage = Stage()
    changes = Changes(stage)
    leader, *_ = members(stage)
    changes.send(roster_change.leaving(changes.roster(leader), leader.number))
    assert stage.comes(lambda: changes.answers, 5), "the administrator has an answer"
    assert (
        isinstance(changes.answers[0], Refused) and "lets itself go" in changes.answers[0].message
    )
    assert stage.violations == []


@scenario(
    37,
    "A leader proposes only a roster of which a majority answers it, so that no request makes a"
    " cluster stand still.",
    UNHEARD,
)
def test_a_scheduler_enters_while_another_is_away() -> None:
    stage = Stage(spares=1)
    changes, new = Changes(stage), stage.schedulers[3]
    _, away, _ = members(stage)
    away.crash()
    stage.pass_time(3)
    new.crash()  # it had read the log a moment ago
    changes.send(RosterBlob(3, RosterMember(new.number, new.signer.public)))
    stage.pass_time(1)
    stage.submit("after")
    assert stage.comes(lambda: stage.end("after"), 10), "two of three work on"
    assert [type(each) for each in changes.answers] == [Refused]


@scenario(
    37,
    "A leader lets a server enter that answers it and has read the log, so that who counts for a"
    " majority can be part of one.",
    UNREAD,
)
def test_a_server_that_has_read_nothing_waits() -> None:
    stage = Stage(spares=1)
    changes, new = Changes(stage), stage.schedulers[3]
    new.crash()
    members(stage)
    stage.pass_time(4)
    refused = changes.enter(new)
    assert isinstance(refused, Refused) and "does not answer the leader" in refused.message
    stage.cut(new.name, new.server_name)
    new.start()
    stage.submit("before")
    stage.pass_time(4)
    refused = changes.enter(new)
    assert isinstance(refused, Refused) and "has read entry" in refused.message
    stage.mend()
    stage.pass_time(5)
    assert changes.enter(new) == AdminApplied(True)
    assert stage.violations == []


@scenario(
    37,
    "A server that shall enter gets from those in the roster what the log has no more, before it"
    " counts for anything.",
    UNHELPED,
)
def test_a_server_enters_behind_a_log_that_was_trimmed() -> None:
    stage = Stage(spares=1)
    changes, new = Changes(stage), stage.schedulers[3]
    new.crash()
    leader, *_ = members(stage)
    for number in range(60):
        stage.submit(f"job-{number}", run_s=0.1)
        stage.pass_time(0.1)
    stage.until(lambda: stage.world.stream.first > 30, "a log without its beginning")
    new.start()
    behind = leader.replica.state.index
    assert stage.comes(lambda: new.replica.state.index >= behind, 12), "it has read the log"
    stage.pass_time(3)
    assert new.number not in {each.number for each in changes.roster(leader)}
    assert changes.enter(new) == AdminApplied(True)
    assert stage.violations == []


@scenario(
    37,
    "A scheduler that a node knows introduces a leader that it does not know, so that a node which"
    " was away obeys whoever leads.",
    STRANGER,
)
def test_a_node_returns_to_a_leader_that_it_never_heard_of() -> None:
    stage = Stage(spares=1)
    changes, new = Changes(stage), stage.schedulers[3]
    leader, lost, kept = members(stage)
    stage.node.crash()
    lost.crash()
    assert changes.leave(lost) == AdminApplied(True)
    assert changes.enter(new) == AdminApplied(True)
    stage.until(
        lambda: new.replica.state.index == leader.replica.state.index, "the log at the new one"
    )
    stage.pass_time(3)
    leader.crash()
    stage.let_lead(new, kept)
    assert stage.leader() is new
    stage.node.start_agent()
    stage.submit("after")
    assert stage.comes(lambda: stage.end("after"), 15), "the node obeys it"
    assert stage.violations == []


def test_a_scheduler_that_left_and_lost_its_memory_enters_again() -> None:
    """It asks what it may have said before it enters, and votes like others from then on."""
    stage = Stage()
    changes = Changes(stage)
    _, lost, kept = members(stage)
    lost.crash()
    lost.disk.lose()
    assert changes.leave(lost) == AdminApplied(True)
    lost.start()
    stage.until(lambda: lost.disk.floor == FORGOTTEN, "it begins without a memory")
    assert stage.comes(lambda: lost.disk.floor != FORGOTTEN, 5), "the others tell it"
    stage.pass_time(3)
    member = RosterMember(lost.number, lost.signer.public)
    assert changes.ask(RosterBlob(lost.number - 1, member)) == AdminApplied(True)
    kept.crash()
    stage.submit("after")
    assert stage.comes(lambda: stage.end("after"), 10), "it counts again"
    assert stage.violations == []


@scenario(
    37,
    "A candidate that reads on has no authority while a voter of it has more: the roster may have"
    " changed there, and that voter may have left it and be bound to nobody.",
    HALF_READ,
)
def test_the_votes_of_those_who_left_exclude_nobody() -> None:
    stage = Stage(spares=2)
    changes, stale = Changes(stage), stage.schedulers[2]
    members(stage)
    for new in stage.schedulers[3:]:
        assert changes.enter(new) == AdminApplied(True)
        stage.until(lambda new=new: len(changes.roster(new)) > new.number - 1, "its entry")
    stage.until(lambda: len(changes.roster(stale)) == 5, "the roster of five")
    while (leader := stage.leader()).number <= 3:
        leader.crash()
        stage.leader(but=leader)
        leader.start()
        stage.pass_time(3)
    stale.pause(clock=True)
    for gone in stage.schedulers[:2]:
        stage.pass_time(3)
        assert changes.leave(gone) == AdminApplied(True)
    gone = [each.name for each in stage.schedulers[:2]]
    stage.cut(stale.name, *(each.name for each in stage.schedulers if each.number > 3))
    stage.world.stream.servers[stale.server].up = False
    stale.go_on()
    stage.until(lambda: stale.replica._leadership.stands, f"the votes of {gone} for {stale.name}")
    assert not stage.comes(lambda: stage.takes_requests(stale), 3)
    assert leader.leads and stage.takes_requests(leader)
    stage.mend()
    stage.world.stream.servers[stale.server].up = True
    same = stage.comes(lambda: stale.replica.state.index == leader.replica.state.index, 10)
    assert same and leader.leads, "it has read of the roster, and follows"
    assert stage.violations == [] and stage.halts == []


@scenario(
    37,
    "A candidate fetches what it lacks of those who are in the roster alone: one that left may have"
    " as much, and none of its entries is heard.",
    OF_LEFT,
)
def test_a_voter_that_left_has_what_the_candidate_lacks() -> None:
    stage = Stage(spares=1)
    changes, new = Changes(stage), stage.schedulers[3]
    leader, stale, gone = members(stage)
    assert changes.enter(new) == AdminApplied(True)
    stage.until(lambda: len(changes.roster(stale)) == 4, "the roster of four")
    stale.pause(clock=True)
    stage.pass_time(3)
    assert changes.leave(gone) == AdminApplied(True)
    stage.submit("before")
    stage.until(lambda: stage.end("before"), "an entry behind the change")
    stage.pass_time(1)
    leader.crash()
    new.crash()
    stage.lose_entries(1)
    leader.start()
    leader.replica._peers._candidacy.is_over = True  # it votes, and does not stand itself
    stage.cut(leader.name, stale.name)
    stage.pass_time(3)
    stage.world.stream.servers[stale.server].up = False
    stale.go_on()
    votes = stale.replica._peers.pledges._ends
    stage.until(lambda: gone.number in votes, f"the vote of {gone.name}")
    stage.mend()
    stage.until(lambda: leader.number in votes, f"the vote of {leader.name}")
    assert next(iter(votes)) == gone.number
    stage.world.stream.servers[stale.server].up = True
    assert stage.comes(lambda: stale.leads, 10), "it fetches the entry of who counts"
    stage.submit("after")
    assert stage.comes(lambda: stage.end("after"), 10)
    assert stage.violations == [] and stage.halts == []
