# SPDX-License-Identifier: Apache-2.0
"""Stories of reads at followers: none shows less than what was acknowledged before it began."""

from __future__ import annotations

from typing import Any

from stoker.mesh.replica import events
from stoker.mesh.replica.events import ReadPosition
from stoker.mesh.sim.scheduler_process import SchedulerProcess, SchedulerRequest
from stoker.mesh.wire import peer_messages as wire
from stoker.native.errors import StokerError
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.scenario import Unplayable, scenario
from tests.agent.sim.stage import BOB, Gate, Stage

FOLLOWER_READS = "stoker.mesh.replica.peers.follower_reads"

UNPROVEN = Mutant(
    "unproven", "stoker.mesh.replica.peers.read_index", "ReadIndexes._is_proven",
    "return self._pledges.quorum.has(voters)", "return True",
    "a read is confirmed by a majority that follows no later leader",
)  # fmt: skip
EARLY = Mutant(
    "early", FOLLOWER_READS, "FollowerReads.applied",
    "if index > self._state.index:", "if False:",
    "a follower answers a read once it has applied the position",
)  # fmt: skip
JOINS = Mutant(
    "joins", FOLLOWER_READS, "FollowerReads.want",
    "self._new.append(", "(self._requested.reads if self._requested else self._new).append(",
    "a read index serves only the reads that came before it was requested",
)  # fmt: skip
ANY_ANSWER = Mutant(
    "any-answer", FOLLOWER_READS, "_Requested.is_answered",
    "return (sender, number) == (self.leader, self.number)", "return True",
    "a read index counts for the last request alone",
)  # fmt: skip


class Reader:
    """A user who reads at one scheduler."""

    def __init__(self, stage: Stage, at: SchedulerProcess) -> None:
        self._stage = stage
        self._at = at
        self._numbers = 0
        self.answers: dict[int, Any] = {}

    def read(self) -> int:
        """Send a read, which arrives before anything else happens; return its number."""
        self._numbers += 1
        number = self._numbers
        self._stage.world.around.watch.reads.begins((BOB, number))

        def take(answered: Any) -> None:
            self.answers[answered.number] = answered.value

        request = SchedulerRequest(
            BOB, number, lambda token: events.ReadRequested(token, BOB), take
        )
        self._at.take_read(request)
        return number

    def answer(self, number: int) -> Any:
        """Pass time until a read is answered; return the answer."""
        self._stage.until(lambda: number in self.answers, f"the answer to read {number}")
        return self.answers[number]

    def later(self) -> int:
        """Read again and again until there is a position; return the number of that read."""
        for _ in range(10):
            number = self.read()
            if isinstance(self.answer(number), ReadPosition):
                return number
            self._stage.pass_time(1)
        raise Unplayable("no read was answered any more")

    def shows(self, number: int, last: int) -> bool:
        """True if a read was refused, or answered with this entry or a later one."""
        answer = self.answer(number)
        return isinstance(answer, StokerError) or answer.at >= last


def replies(at: SchedulerProcess) -> Gate:
    """A gate for the read indexes that come to a scheduler."""

    def picks(event: events.Event) -> bool:
        if not isinstance(event, events.PeerMessage):
            return False
        return isinstance(wire.read_envelope(event.data).message, wire.ReadIndexReply)

    return Gate(at, "take_event", picks)


def lagging(stage: Stage) -> SchedulerProcess:
    """A follower that hears its leader, and reads nothing new in the log."""
    stage.ready()
    stage.pass_time(5)
    follower = stage.others(stage.leader())[0]
    stage.cut(follower.name, follower.server_name)
    return follower


def acknowledged(stage: Stage, key: str) -> int:
    """Submit a job; return the last entry that was in force when its user was told."""
    stage.submit(key)
    stage.taken(key)
    return stage.leader().replica.state.index


@scenario(
    34,
    "A leader tells the position of a read only under pledges that a majority gave after it came,"
    " however long the leader stood still.",
    UNPROVEN,
)
def test_a_follower_reads_at_a_leader_whose_clock_stood_still() -> None:
    stage = Stage(5)
    stage.ready()
    stage.pass_time(5)  # no vote is open any more, and all have heard who leads
    deposed = stage.leader()
    follower, *rest = stage.others(deposed)
    for each in (deposed, follower):
        each.pause(clock=False)
        stage.cut(each.name, stage.node.name, *(other.name for other in rest))
    stage.leader(but=deposed)
    stage.submit("job", to=rest)
    stage.taken("job")
    for each in (deposed, follower):
        each.go_on()
    if not deposed.leads or follower.replica.role != "following":
        raise Unplayable("the deposed leader knows of its end")
    reader = Reader(stage, follower)
    answer = reader.answer(reader.read())
    assert isinstance(answer, StokerError), "nobody can say what the read must show"
    stage.mend()
    assert isinstance(reader.answer(reader.later()), ReadPosition)
    assert stage.violations == [] and stage.halts == []


@scenario(
    34,
    "A follower answers a read once it has applied what its leader had applied when it was asked.",
    EARLY,
)
def test_a_follower_that_is_behind_lets_a_read_wait() -> None:
    stage = Stage()
    follower = lagging(stage)
    last = acknowledged(stage, "job")
    if follower.replica.state.index >= last:
        raise Unplayable("the follower is not behind")
    reader = Reader(stage, follower)
    number = reader.read()
    stage.pass_time(0.5)
    assert number not in reader.answers, "the follower lacks the job"
    stage.mend()
    assert reader.shows(number, last) and reader.shows(reader.later(), last)
    assert stage.violations == [] and stage.halts == []


@scenario(
    34,
    "A read index serves only the reads that came before it was requested; a later read waits for"
    " the next one.",
    JOINS,
)
def test_a_read_comes_while_an_index_is_on_its_way() -> None:
    stage = Stage()
    follower = lagging(stage)
    gate, reader = replies(follower), Reader(stage, follower)
    first = reader.read()
    stage.until(lambda: gate.seen, "the first read index")
    last = acknowledged(stage, "job")
    second = reader.read()
    gate.shut = False
    gate.deliver(gate.seen[0])
    assert reader.answer(first).at < last, "what the first one was promised"
    stage.pass_time(0.3)
    assert second not in reader.answers, "the follower lacks the job"
    stage.mend()
    assert reader.shows(second, last) and reader.shows(reader.later(), last)
    assert stage.violations == [] and stage.halts == []


@scenario(
    34,
    "A read index that comes after it was requested again counts for nothing.",
    ANY_ANSWER,
)
def test_a_read_index_comes_late() -> None:
    stage = Stage()
    follower = lagging(stage)
    gate, reader = replies(follower), Reader(stage, follower)
    reader.read()
    stage.until(lambda: gate.seen, "the first read index")
    last = acknowledged(stage, "job")
    second = reader.read()
    stage.until(lambda: len(gate.seen) > 1, "the second read index")
    gate.deliver(gate.seen[0])
    stage.pass_time(0.05)
    assert second not in reader.answers, "the late index is of an earlier request"
    gate.shut = False
    gate.deliver(gate.seen[-1])
    stage.mend()
    assert reader.shows(second, last) and reader.shows(reader.later(), last)
    assert stage.violations == [] and stage.halts == []
