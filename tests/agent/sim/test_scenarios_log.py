# SPDX-License-Identifier: Apache-2.0
"""Stories of the log: what it loses, and what its servers claim, costs no acknowledged job."""

from __future__ import annotations

from stoker.mesh.replica.events import PeerMessage
from stoker.mesh.sim.scheduler_faults import told_to_begin_again
from stoker.mesh.sim.timeline import SECOND
from stoker.mesh.wire.peer_messages import SnapshotPart, read_envelope
from tests.agent.sim.mutants.planting import Mutant
from tests.agent.sim.mutants.shared import BESIDE_LOST
from tests.agent.sim.mutants.table import COVERED
from tests.agent.sim.scenario import Unplayable, scenario
from tests.agent.sim.stage import BOB, Gate, Stage

REPLICA = "stoker.mesh.replica.replica"
TAIL = "stoker.mesh.replica.log.held_tail"
DELAY = "stoker.mesh.replica.peers.confirmation_delay"
PEERS = "stoker.mesh.replica.peers.replica_peers"
CONFIRMATIONS = "stoker.mesh.replica.peers.confirmations"

CONFIRM_ALONE = Mutant(
    "confirm-alone", CONFIRMATIONS, "Confirmations.index",
    "self._quorum.reached(self._held)", "max(self._held.values(), default=0)",
    "an entry is confirmed by a majority",
)  # fmt: skip
CANDIDATE_ALONE = Mutant(
    "candidate-alone", "stoker.mesh.replica.peers.pledges", "Pledges.best",
    "end.rank > rank", "False",
    "a candidate fetches what a voter holds beyond it",
)  # fmt: skip
NO_REPAIR = Mutant(
    "no-repair", TAIL, "HeldTail.missing",
    "return found", "return None",
    "what the log lost is appended again",
)  # fmt: skip


@scenario(
    8,
    "A candidate fetches what a majority held and appends again what the log lost, before its TERM"
    " entry.",
    CANDIDATE_ALONE,
    NO_REPAIR,
)
def test_the_log_loses_an_acknowledged_job_together_with_the_leader() -> None:
    stage = Stage()
    first = stage.ready()
    voter, late = stage.others(first)
    late.crash()
    stage.submit("kept", run_s=60)
    stage.taken("kept")
    stage.lose_entries(1)
    first.crash()
    late.start()
    stage.let_lead(late, voter)
    stage.submit("next", user=BOB)
    assert stage.comes(lambda: stage.end("next") == "succeeded"), "work goes on"
    if voter in stage.leaders:
        raise Unplayable("the scheduler leads that holds all")
    first.start()
    stage.pass_time(3)
    assert stage.keeps("kept"), "the acknowledged job is there"
    assert stage.violations == [] and stage.halts == []
    for scheduler in stage.schedulers:
        scheduler.crash()
        stage.lose_disk(scheduler)
    stage.pass_time(1)
    for scheduler in stage.schedulers:
        scheduler.start()
    assert stage.comes(lambda: stage.keeps("kept")), "the log alone brings the job back"


OLD_TERMS = Mutant(
    "old-terms", TAIL, "HeldTail._older",
    'return "entry_term" if entry.term < self.end.term else ""', 'return ""',
    "an entry of an older term than the newest is passed over",
)  # fmt: skip
NO_PLEDGES = Mutant(
    "no-pledges", "stoker.mesh.replica.log.roster", "Roster.may_begin",
    "if not needed:", "if True:",
    "a new term counts only with the pledges of a majority",
)  # fmt: skip


@scenario(
    8,
    "An entry of an older term than the newest is passed over, wherever it lands: it neither ends a"
    " chain nor begins one.",
    (OLD_TERMS, NO_PLEDGES),
)
def test_an_append_of_a_dead_leader_lands_behind_the_term_of_its_successor() -> None:
    stage = Stage()
    first = stage.ready()
    stage.pass_time(1)
    appends = Gate(stage.world.stream, "append")
    stage.submit("late", to=[first], again=False)
    stage.until(lambda: appends.seen, "the append")
    first.crash()
    stage.until(lambda: len(appends.seen) > 1, "the TERM entry of its successor")
    ((late,), (term,)) = appends.seen
    voter = next(each for each in stage.others(first) if each.server != term.server)
    voter.pause(clock=True)
    appends.deliver((term,))
    stage.world.stream._land(late, forced=True)
    appends.shut = False
    voter.go_on()
    stage.submit("next", user=BOB)
    assert stage.comes(lambda: stage.end("next") == "succeeded"), "work goes on"
    first.start()
    stage.pass_time(4)
    assert not stage.runs("late"), "what was never acknowledged does not come back"
    indexes = {each.replica.state.index for each in stage.schedulers}
    assert len(indexes) == 1, "all read on"
    assert stage.violations == [] and stage.halts == []


CONTRADICTED = Mutant(
    "halt-on-answer", REPLICA, "Replica._log_broken",
    "before is None and not self._peers.alone", "False",
    "a log that contradicts itself is an unknown outcome",
)  # fmt: skip


@scenario(
    13,
    "A server that says that the log is shorter than what it acknowledged halts nobody: the outcome"
    " is unknown, and the log is read again.",
    CONTRADICTED,
)
def test_a_stale_leader_of_the_log_denies_acknowledged_entries() -> None:
    stage = Stage()
    leader = stage.ready()
    stage.submit("before")
    stage.until(lambda: stage.end("before"), "the end of the first job")
    stage.depose_log_server(leader, behind=2)
    stage.submit("meanwhile")
    stage.pass_time(4)
    stage.restore_log_server(leader)
    assert stage.comes(lambda: stage.end("meanwhile") == "succeeded"), "work goes on"
    assert stage.halts == [] and stage.violations == []
    roles = {each.replica.role for each in stage.schedulers}
    assert roles == {"leading", "following"}, "nobody is lost to the cluster"


BEHIND_FOR_EVER = Mutant(
    "behind-for-ever", "stoker.mesh.replica.peers.chain_fetches", "ChainFetches.came",
    "if message.first > self._tail.end.index + 1:", "if False:",
    "a replica that the log left behind gets a snapshot",
)  # fmt: skip
UNTAKEN = next(each for each in COVERED if each.name == "witness-untaken")
HALT_ON_GAP = Mutant(
    "halt-on-gap", REPLICA, "Replica._log_contradicts",
    "if self._peers.alone or not isinstance(error, LogGap | BrokenChain):", "if True:",
    "a gap in the log sends a replica to the others",
)  # fmt: skip
NOT_IN_THE_LOG = Mutant(
    "not-in-the-log", "stoker.mesh.replica.peers.witnesses", "Witnesses.is_missing",
    "return index > end == before", "return False",
    "a follower requests of its leader what it does not find in the log",
)  # fmt: skip
LEADER_SNAPSHOTS = Mutant(
    "leader-snapshots", REPLICA, "Replica._applied",
    "if applied.is_snapshot_point and not self._peers.alone:",
    "if applied.is_snapshot_point and self._leadership.leads:",
    "all replicas take a snapshot at one point",
)  # fmt: skip


@scenario(
    8,
    "A follower that is told again of a confirmed entry, and has not found it in the log meanwhile,"
    " requests it of its leader.",
    NOT_IN_THE_LOG,
)
def test_the_log_loses_what_two_have_confirmed_and_nobody_appends_more() -> None:
    stage = Stage()
    leader = stage.ready()
    late = stage.others(leader)[0]
    late.pause(clock=True)
    before = stage.world.stream.last
    stage.submit("kept", run_s=60)
    stage.until(lambda: stage.runs("kept"), "the start of its program")
    stage.pass_time(3)
    late.crash()  # and with it what was sent to it meanwhile
    stage.lose_entries(stage.world.stream.last - before)
    late.start()
    index, last = leader.replica.state.index, stage.world.stream.last
    assert stage.comes(lambda: late.replica.state.index >= index, 4), "the follower has it"
    assert leader.leads and stage.world.stream.last == last, "and nobody appended anything"
    assert stage.violations == [] and stage.halts == []


@scenario(
    18,
    "All replicas take a snapshot at one point; the log is trimmed behind one that a majority has,"
    " and whoever is behind it gets the file.",
    (BEHIND_FOR_EVER, UNTAKEN),
    LEADER_SNAPSHOTS,
    HALT_ON_GAP,
)
def test_a_scheduler_returns_after_the_log_was_trimmed() -> None:
    stage = Stage()
    leader = stage.ready()
    late = stage.others(leader)[0]
    late.crash()
    behind = stage.world.stream.last
    for number in range(100):
        stage.submit(f"job-{number}", run_s=0.1)
        stage.pass_time(0.1)
    trimmed = stage.comes(lambda: stage.world.stream.first > behind + 1)
    assert trimmed, "the log does not grow for ever"
    for scheduler in stage.others(late):  # which forget the entries before their snapshots
        scheduler.crash()
        scheduler.start()
    leader = stage.leader()
    late.start()
    index = leader.replica.state.index
    assert stage.comes(lambda: late.replica.state.index >= index), "it catches up"
    leader.crash()
    stage.submit("last")
    assert stage.comes(lambda: stage.end("last") == "succeeded"), "it is part of a majority"
    assert stage.violations == [] and stage.halts == []


FETCH_FOR_EVER = Mutant(
    "fetch-for-ever", PEERS, "ReplicaPeers._part",
    'if not good and self._leadership.role == "fetching":', "if False:",
    "a candidate that cannot get what it lacks lets another one stand",
)  # fmt: skip


@scenario(
    18,
    "A candidate whose voters hold more than the log, and have no good snapshot file of it, makes"
    " room for another candidate.",
    FETCH_FOR_EVER,
)
def test_a_candidate_that_was_left_behind_asks_one_whose_snapshot_is_damaged() -> None:
    stage = Stage()
    good = stage.ready()
    late, voter = stage.others(good)
    late.crash()
    for number in range(100):
        stage.submit(f"job-{number}", run_s=0.1)
        stage.pass_time(0.1)
        if stage.world.stream.first > 20:
            break
    stage.until(lambda: stage.world.stream.first > 20, "a log without what the late lacks")
    voter.crash()
    voter.start()  # which forgets the entries before its snapshot
    stage.pass_time(3)
    good.crash()
    voter.disk.damage(100)
    late.start()
    parts = Gate(late, "take_event", has_a_part)
    for _ in range(3):
        stage.let_lead(late, voter)
        if stage.comes(lambda: parts.seen and late.replica.role == "fetching", 3):
            break
    else:
        raise Unplayable("the candidate that was left behind asks for no snapshot")
    parts.shut = False
    parts.deliver(parts.seen[-1])
    good.start()
    stage.submit("next")
    assert stage.comes(lambda: stage.end("next") == "succeeded", 40), "work goes on"
    assert stage.violations == [] and stage.halts == []


def has_a_part(event: object) -> bool:
    """True for a message with a part of a snapshot file, or the word that there is none."""
    message = read_envelope(event.data).message if isinstance(event, PeerMessage) else None
    return isinstance(message, SnapshotPart)


INSTALL_ANYWAY = Mutant(
    "install-anyway", "stoker.mesh.replica.peers.snapshot_exchange", "SnapshotExchange._completed",
    "if self._covers(snapshot):", "if False:",
    "a snapshot replaces nothing that reaches as far",
)  # fmt: skip


@scenario(
    18,
    "A scheduler that caught up while a snapshot file was on its way keeps what it has, because"
    " others count on what it acknowledged.",
    INSTALL_ANYWAY,
)
def test_a_snapshot_comes_after_its_receiver_has_caught_up() -> None:
    stage = Stage()
    leader = stage.ready()
    late, third = stage.others(leader)
    late.crash()
    behind = stage.world.stream.last
    for number in range(100):
        stage.submit(f"job-{number}", run_s=0.1)
        stage.pass_time(0.1)
    stage.until(lambda: stage.world.stream.first > behind + 1, "a log without what the late lacks")
    leader.crash()  # and forgets the entries before its snapshot
    third.pause(clock=True)
    last_part = Gate(late, "take_event", completes_a_snapshot)
    leader.start()
    late.start()
    stage.until(lambda: last_part.seen, "the last part of a snapshot")
    leader.crash()
    third.go_on()
    stage.until(lambda: stage.takes_requests(third), "a leader that has all entries")
    before = stage.world.stream.last
    stage.submit("last")
    stage.taken("last")  # by the votes of the leader and of the late one
    third.crash()
    stage.lose_entries(stage.world.stream.last - before)
    last_part.deliver(last_part.seen[0])
    leader.start()
    assert stage.comes(lambda: stage.keeps("last")), "the late one still has what it acknowledged"
    assert stage.violations == [] and stage.halts == []


def completes_a_snapshot(event: object) -> bool:
    """True for a message with the last part of a snapshot file."""
    message = read_envelope(event.data).message if isinstance(event, PeerMessage) else None
    return isinstance(message, SnapshotPart) and (
        message.offset + len(message.data) == message.size > 0
    )


KNOWN_PLACES = Mutant(
    "known-places", PEERS, "ReplicaPeers._appended",
    "self._state.pass_over(max(0, message.seq - beyond))", "pass",
    "a follower reads where its leader appended, although it had read further",
)  # fmt: skip


@scenario(
    18,
    "A follower reads at the place that its leader names, although its snapshot is of a longer"
    " log.",
    KNOWN_PLACES,
)
def test_the_log_loses_entries_that_every_snapshot_has() -> None:
    stage = Stage()
    stage.ready()
    for number in range(200):
        stage.submit(f"job-{number}", run_s=0.1)
        stage.pass_time(0.2)
        if all(each.disk.files for each in stage.schedulers):
            break
    stage.pass_time(2)
    stage.lose_entries(20)
    for scheduler in stage.schedulers:  # which forget the entries before their snapshots
        scheduler.crash()
        scheduler.start()
    stage.submit("next")
    assert stage.comes(lambda: stage.end("next") == "succeeded"), "work goes on"
    assert stage.violations == [] and stage.halts == []


NO_BEGINNING = Mutant(
    "no-beginning", REPLICA, "Replica._log_end",
    "if gap or self._tail.misses_beginning:", "if gap:",
    "a follower that has nothing asks for what the log has lost of its beginning",
)  # fmt: skip


@scenario(
    18,
    "A scheduler that has nothing, and reads a log that has lost its beginning, gets the state of"
    " its leader.",
    NO_BEGINNING,
)
def test_the_log_loses_its_beginning_that_a_scheduler_lacks() -> None:
    stage = Stage()
    leader = stage.ready()
    for number in range(200):
        stage.submit(f"job-{number}", run_s=0.1)
        stage.pass_time(0.2)
        if all(each.disk.files for each in stage.schedulers):
            break
    stage.pass_time(2)
    empty, away = stage.others(leader)
    away.crash()
    empty.take_event(told_to_begin_again(leader, empty))
    stage.lose_entries(stage.world.stream.last)
    leader.crash()
    leader.start()
    stage.submit("next")
    assert stage.comes(lambda: stage.end("next") == "succeeded"), "it is part of a majority"
    assert stage.violations == [] and stage.halts == []


@scenario(
    23,
    "Nothing is sent to a node before a majority holds its entry, so that no attempt at a node has"
    " a number that is given again.",
    CONFIRM_ALONE,
)
def test_a_job_number_is_given_again_after_its_first_job_vanished() -> None:
    stage = Stage()
    first = stage.ready()
    stage.depose_log_server(first)
    stage.submit("vanished", run_s=3, to=[first], again=False)
    stage.pass_time(0.5)
    first.crash()
    stage.restore_log_server(first)
    stage.leader(but=first)
    stage.submit("second", user=BOB)
    if stage.taken("second") != 1:
        raise Unplayable("the second job has another number")
    assert stage.comes(lambda: stage.runs("second"), 10), "the program that was acknowledged runs"
    assert not stage.runs("vanished"), "what nobody acknowledged never runs"
    assert stage.comes(lambda: stage.end("second") == "succeeded")
    first.start()
    stage.pass_time(3)
    assert stage.violations == [] and stage.halts == []


ONE_PLACING = Mutant(
    "one-placing", "stoker.mesh.replica.entry_step", "EntryStep.__init__",
    "placing_of(digest)", "1",
    "an attempt is named by the entry that placed it",
)  # fmt: skip
ANY_OUTCOME = Mutant(
    "any-outcome", "stoker.mesh.replica.works.outcome_work", "OutcomeWork.refresh",
    "if o.placing == placing(o.job, o.attempt)", "",
    "an outcome counts only for what the same entry placed",
)  # fmt: skip


@scenario(
    23,
    "An attempt is named by the hash of the entry that placed it, too: a node ends one that the log"
    " does not know before it starts another of its number, and its outcome counts for none.",
    ONE_PLACING,
    ANY_OUTCOME,
    BESIDE_LOST,
)
def test_a_cluster_is_restored_from_an_older_log() -> None:
    stage = Stage(schedulers=1)
    stage.ready()
    kept = stage.world.stream.last
    stage.submit("old", run_s=30)
    if stage.taken("old") != 1:
        raise Unplayable("the job has another number")
    stage.until(lambda: stage.runs("old"), "the start of the job")
    stage.restore_log(kept)
    ends = Gate(stage.node.spawner, "stop")
    stage.submit("new", user=BOB, gpu_milli=0)
    assert stage.taken("new") == 1, "the number is given again"
    stage.submit("next", user=BOB)
    assert stage.comes(lambda: ends.seen, 10), "the node ends what the log does not know"
    stage.pass_time(2)
    assert stage.violations == [], "its device serves nobody else meanwhile"
    ends.shut = False
    ends.deliver(ends.seen[0])
    for key in ("new", "next"):
        assert stage.comes(lambda key=key: stage.runs(key), 10), "the jobs of the log start"
        assert stage.comes(lambda key=key: stage.end(key) == "succeeded"), "their ends are theirs"
    assert len(stage.world.runs.active) == 0, "the old program was stopped"
    assert stage.violations == [] and stage.halts == []


@scenario(
    24,
    "An entry counts when a majority of schedulers hold it, each through its own server; what one"
    " server acknowledges and shows is no proof.",
    CONFIRM_ALONE,
)
def test_a_deposed_leader_of_the_log_acknowledges_and_shows_what_nobody_has() -> None:
    stage = Stage()
    first = stage.ready()
    stage.depose_log_server(first)
    stage.submit("mine", to=[first])
    stage.pass_time(1.5)
    first.crash()
    stage.restore_log_server(first)
    stage.leader(but=first)
    stage.submit("theirs", user=BOB)
    stage.until(lambda: stage.end("theirs"), "the end of the other job")
    first.start()
    stage.submit("mine")
    assert stage.comes(lambda: stage.keeps("mine") and stage.end("mine"), 10), "it is not lost"
    assert stage.violations == [] and stage.halts == []


UNCONFIRMED_WAITS = Mutant(
    "unconfirmed-waits", DELAY, "ConfirmationDelay.is_too_long",
    ">= UNCONFIRMED_NS", ">= 10**30",
    "a leader whose entries nobody confirms reads the log again",
)  # fmt: skip


@scenario(
    24,
    "A leader whose entries no majority confirms reads the log again, and appends there what only a"
    " deposed server had taken.",
    UNCONFIRMED_WAITS,
)
def test_a_leader_lives_on_after_its_server_was_deposed() -> None:
    stage = Stage()
    leader = stage.ready()
    stage.depose_log_server(leader)
    stage.submit("job")
    stage.pass_time(1)
    stage.restore_log_server(leader)
    assert stage.comes(lambda: stage.end("job") == "succeeded", 10), "the job is taken and runs"
    assert stage.leaders == [leader], "nobody had to take over"
    assert stage.violations == [] and stage.halts == []


ONE_NAME = Mutant(
    "one-name", TAIL, "HeldEntry.repair_name",
    "-{tail:x}", "",
    "an entry is appended again under another name at each place",
)  # fmt: skip


@scenario(
    8,
    "An entry that was appended again once is appended again at another place under another name,"
    " since the log's servers answer a name that they know with its first place.",
    ONE_NAME,
)
def test_the_log_loses_an_entry_that_was_appended_again_before() -> None:
    stage = Stage()
    stream, first = stage.world.stream, stage.ready()
    stage.submit("kept")
    stage.taken("kept")
    stage.lose_entries(1)
    first.crash()
    second = stage.leader(but=first)
    stage.until(lambda: second.replica.counters.get("entries_repaired"), "the first repair")
    repaired = stream.last
    first.start()
    for number in range(60):
        stage.submit(f"job-{number}", run_s=0.1)
        stage.taken(f"job-{number}")
        if stream.first > repaired:
            break
    if stream.first <= repaired:
        raise Unplayable("the log was not trimmed behind what was appended again")
    stage.lose_entries(stream.last - stream.first + 1)
    stage.submit("next", user=BOB)
    assert stage.comes(lambda: stage.end("next") == "succeeded", 40), "work goes on"
    assert stage.keeps("kept"), "the acknowledged job is there"
    assert stage.violations == [] and stage.halts == []


NO_SECOND_LOOK = Mutant(
    "no-second-look", "stoker.mesh.replica.peers.replica_peers", "ReplicaPeers._appended",
    "elif end.term < message.term:", "elif False:",
    "a follower reads the log again where the leader has appended another entry than it holds",
)  # fmt: skip


@scenario(
    8,
    "A follower that holds an entry of an earlier leader, where the present one says that it has"
    " appended its own, reads the log again.",
    NO_SECOND_LOOK,
)
def test_the_log_has_another_entry_in_the_place_of_one_that_was_read_and_lost() -> None:
    stage = Stage()
    stream, first = stage.world.stream, stage.ready()
    stage.pass_time(1)
    second, third = stage.others(first)
    stage.depose_log_server(second)
    stream.stand_still(third.server, 8 * SECOND)
    before = stream.last
    stage.submit("unread", to=[first], again=False)
    stage.until(lambda: stream.last > before, "an entry that nobody has read")
    first.crash()
    stage.let_lead(second, third)
    stage.until(
        lambda: (
            third.replica._tail.end.index == second.replica._tail.end.index > before
            and third.replica._tail.end != second.replica._tail.end
        ),
        "two entries of one index",
    )
    stage.lose_entries(stream.last - before)
    stage.restore_log_server(second)
    stage.submit("next", user=BOB)
    assert stage.comes(lambda: stage.end("next") == "succeeded", 30), "work goes on"
    assert stage.violations == [] and stage.halts == []
