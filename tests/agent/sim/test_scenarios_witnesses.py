# SPDX-License-Identifier: Apache-2.0
"""Stories of a scheduler that returns behind a trimmed log to a leader that it never heard of."""

from __future__ import annotations

import msgspec

from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.works.work import AdminApplied
from stoker.mesh.sim.scheduler_process import PART_BYTES, SchedulerProcess
from stoker.mesh.wire import peer_messages as wire
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.mutants.table import COVERED
from tests.agent.sim.scenario import Unplayable, scenario
from tests.agent.sim.stage import Stage
from tests.agent.sim.test_scenarios_roster import Changes

WITNESSES = "stoker.mesh.replica.peers.witnesses"
FORGED = 1_000_000
"""The index of a state that a thief has made up."""

UNASKED = Mutant(
    "witness-unasked", WITNESSES, "Witnesses.gap",
    'self._outbox.count("witnesses_asked")', "return",
    "a scheduler that is stuck asks those who do not lead",
)  # fmt: skip
ALONE, UNTAKEN = (
    next(each for each in COVERED if each.name == name)
    for name in ("witness-alone", "witness-untaken")
)


class LeftBehind:
    """A stage on which one of five schedulers is away while a sixth one enters, of which it does
    not hear."""

    def __init__(self) -> None:
        self.stage = stage = Stage(5, spares=1)
        self.changes = Changes(stage)
        self.followed = stage.ready()
        """The leader that the one that is away had followed."""
        self.away, *self.kept = (each for each in stage.schedulers[:5] if each is not self.followed)
        self.new = stage.schedulers[5]
        stage.pass_time(3)  # all pledge now
        self.away.pause(clock=True)
        if self.changes.enter(self.new) != AdminApplied(True):
            raise Unplayable("the sixth scheduler did not enter")
        self.away.crash()

    def fill_log(self) -> None:
        """Have users work until the log is trimmed behind what the one that is away has."""
        stage, behind = self.stage, self.away.disk.held[-1][0] + 30
        for number in range(60):
            stage.submit(f"job-{number}", run_s=0.1)
            stage.pass_time(0.1)
        stage.until(lambda: stage.world.stream.first > behind, "a log without what one lacks")

    def forget_entries(self) -> None:
        """Start those who are there anew, so that none has the entries before its snapshot."""
        for each in (*self.kept, self.new):
            if each.alive:
                each.crash()
                each.start()
        self.stage.leader()

    def returns(self) -> None:
        """Kill the leader that the one that is away had followed, let the new one lead, and start
        the one that is away, which does not know it."""
        self.followed.crash()
        self._let_lead(self.new)
        self.away.start()
        counters = self.away.replica.counters
        self.stage.until(lambda: "peer_unknown" in counters, "the word of an unknown leader")

    def _let_lead(self, chosen: SchedulerProcess) -> None:
        """Stop whoever leads for longer than a pledge lasts, until this one leads."""
        for _ in range(20):
            leader = self.stage.leader()
            if leader is chosen:
                return
            leader.pause(clock=True)
            self.stage.pass_time(2.5)
            leader.go_on()
        raise Unplayable(f"{chosen.name} does not lead")

    def catches_up(self) -> bool:
        """True once the one that was away has what the new one has now."""
        index = self.new.replica.state.index
        return self.stage.comes(lambda: self.away.replica.state.index >= index)


@scenario(
    38,
    "A scheduler that the log left behind, and that knows nobody who leads, takes entries from any"
    " scheduler that it knows, and judges them as those that it reads in the log.",
    UNASKED,
)
def test_a_scheduler_returns_to_a_leader_that_it_never_heard_of() -> None:
    story = LeftBehind()
    stage = story.stage
    story.fill_log()
    story.returns()
    assert story.catches_up(), "it takes the entries of followers"
    assert story.new.leads, "while the one leads that it did not know"
    story.kept[0].crash()
    stage.submit("after")
    assert stage.comes(lambda: stage.end("after"), 10), "it is part of a majority"
    assert stage.violations == [] and stage.halts == []


@scenario(
    38,
    "A scheduler takes a snapshot file of a follower if a majority of those that it knows, without"
    " itself, has told it this state.",
    UNTAKEN,
)
def test_a_scheduler_returns_when_nobody_has_the_entries_that_it_lacks() -> None:
    story = LeftBehind()
    story.fill_log()
    story.forget_entries()
    story.returns()
    assert story.catches_up(), "it takes the snapshot that three followers have alike"
    assert story.stage.violations == [] and story.stage.halts == []


class Thief:
    """Somebody with the stolen key of a scheduler, who answers in its name and wants another one to
    take a state that he has made up."""

    def __init__(self, robbed: SchedulerProcess, victim: SchedulerProcess) -> None:
        snapshot, _ = robbed.disk.newest()
        assert snapshot is not None
        made_up = msgspec.structs.replace(snapshot, index=FORGED, term=snapshot.term + 8)
        self._file = snapshots.encode(made_up).data
        self._digest = snapshots.agreement(made_up)
        self._robbed = robbed
        self._victim = victim
        robbed.crash()
        robbed.take_event = self._take  # type: ignore[method-assign]

    def _take(self, event: events.Event) -> None:
        if not isinstance(event, events.PeerMessage):
            return
        asked = wire.read_envelope(event.data)
        if asked.sender == self._victim.number:
            self._answer(asked.message)

    def _answer(self, asked: wire.Message) -> None:
        match asked:
            case wire.WitnessRequest(number):
                self._send(wire.Witnessed(number, FORGED, FORGED, FORGED, self._digest))
            case wire.SnapshotRequest(_, offset):
                part = self._file[offset : offset + PART_BYTES]
                self._send(wire.SnapshotPart(FORGED, offset, len(self._file), part))
            case wire.FetchRequest(after):
                self._send(wire.Fetched(after, FORGED, (), False))
            case _:
                pass

    def _send(self, message: wire.Message) -> None:
        robbed, victim = self._robbed, self._victim
        around = wire.PeerEnvelope(wire.FORMAT, "sim", robbed.number, victim.number, message)
        sealed = events.PeerMessage(wire.seal(around, robbed.signer))
        robbed.around.network.post(robbed.name, victim.name, victim.take_event, sealed)


@scenario(
    38,
    "The key of one scheduler, which was stolen and has left the roster since, gives no state to"
    " one that was away.",
    ALONE,
)
def test_a_thief_has_the_key_of_a_scheduler_that_left() -> None:
    story = LeftBehind()
    robbed, away = story.kept[0], story.away
    assert story.changes.leave(robbed) == AdminApplied(True)
    story.fill_log()
    Thief(robbed, away)
    story.forget_entries()
    story.returns()
    story.stage.pass_time(8)
    assert away.replica.state.index != FORGED, "the word of one is not enough"
    assert away.replica.counters["snapshot_unvouched"] > 0
    story.followed.start()
    assert story.catches_up(), "with a third one that it knows"
    assert story.stage.violations == [] and story.stage.halts == []


def test_one_that_knows_too_few_catches_up_once_it_has_lost_its_memory() -> None:
    """It knows four others, two of which are lost, and three would have to tell it one state. An
    operator lets it begin with an empty disk."""
    story = LeftBehind()
    lost = story.kept[0]
    assert story.changes.leave(lost) == AdminApplied(True)
    lost.crash()
    story.fill_log()
    story.forget_entries()
    story.returns()
    story.stage.pass_time(8)
    assert story.away.replica.state.index < story.new.replica.state.index
    assert story.away.replica.counters["snapshot_unvouched"] > 0
    story.away.crash()
    story.away.disk.lose()
    story.away.start()
    assert story.catches_up(), "the others tell it who they are"
    assert story.stage.violations == [] and story.stage.halts == []
