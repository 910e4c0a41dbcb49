# SPDX-License-Identifier: Apache-2.0
"""Faults at the moments that decide who leads and what stays: votes, elections, lost tails, files.

Each begins a story that could cost an acknowledged entry or seat two leaders. Owns the end of each
story: whatever it kills it starts again, and whatever it cuts it mends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stoker.mesh.log import entry as entries
from stoker.mesh.log.entry import Blob, Entry, Opened, TermBlob
from stoker.mesh.replica import events
from stoker.mesh.sim.ambush import Spring
from stoker.mesh.sim.keyed_hash import KeyedHash
from stoker.mesh.sim.model_stream import LOST_TAIL_MAX, NO_LEADER
from stoker.mesh.sim.scheduler_process import SchedulerProcess, Surroundings
from stoker.mesh.sim.timeline import MS, SECOND
from stoker.mesh.wire.peer_messages import (
    FORMAT,
    Appended,
    Diverged,
    FetchRequest,
    PeerEnvelope,
    Promised,
    SnapshotPart,
    seal,
)
from stoker.mesh.wire.term_owner import next_term

Pair = tuple[str, str]
SHORT_MS = 500
EARLY_NS = 5 * SECOND
"""A scheduler that goes down before this moment stays down for longer."""
OF_THREE = ("memory_lost", "voter_forgets")
"""The kinds after which a roster of two cannot go on: what only its two schedulers had acknowledged
is forgotten by one. Nor can a majority of two find that one of them differs."""


class SchedulerFaults:
    """The faults of these schedulers, of which there are several."""

    def __init__(
        self,
        around: Surroundings,
        schedulers: list[SchedulerProcess],
        until_ns: int,
        *,
        few: bool = False,
    ) -> None:
        """`few`: the roster may have less than three, and is spared the kinds OF_THREE."""
        self._few = few
        self._around = around
        self._until_ns = until_ns
        self._schedulers = schedulers
        self._chance = around.chance

    def kinds(self) -> dict[str, Callable[[], None]]:
        """Return what makes each kind of fault."""
        every = self._every_kind()
        return {n: make for n, make in every.items() if not (self._few and n in OF_THREE)}

    def _every_kind(self) -> dict[str, Callable[[], None]]:
        return {
            "several_restart": self._restart_several,
            "leader_deposed": self._depose,
            "leader_stopped": self._stop_leader,
            "killed_after_vote": self._kill_after_vote,
            "stopped_with_leases": self._stop_with_leases,
            "minority_in_the_past": self._leave_in_the_past,
            "dies_in_batch": self._die_in_batch,
            "tail_lost": self._lose_tail,
            "voter_forgets": self._forget,
            "memory_lost": self._lose_memory,
            "append_orphaned": self._orphan_append,
            "term_delayed": self._delay_term,
            "fetch_lost": self._lose_fetch,
            "snapshot_parts_lost": self._lose_parts,
            "snapshot_damaged": self._damage_snapshot,
            "snapshots_fail": self._fill_disks,
            "left_behind": self._leave_behind,
            "forged_entry": self._forge,
        }

    # --- time and links ---------------------------------------------------------------------------

    def _later(self, low_ms: int, high_ms: int, do: Callable[[None], None]) -> None:
        self._around.timeline.after(self._chance.randint(low_ms, high_ms) * MS, do, None)

    def _kill(self, one: SchedulerProcess, low_ms: int, high_ms: int) -> None:
        """Kill a process, and start it again after a while between these two.

        A majority stays alive, unless the while is short: a cluster that stands still finds little.
        """
        alive = sum(each.alive and not each.paused for each in self._schedulers if each is not one)
        others = 2 * alive > len(self._schedulers) or high_ms <= SHORT_MS
        if one.alive and others and self._around.timeline.now < self._until_ns:
            one.crash()
            self._start_later(one, low_ms, high_ms)

    def _start_later(self, one: SchedulerProcess, low_ms: int, high_ms: int) -> None:
        self._later(low_ms, high_ms, lambda _: one.start() if not one.alive else None)

    def _cut(self, pairs: list[Pair], low_ms: int, high_ms: int) -> Callable[[None], None]:
        """Cut these links, and mend them after a while between these two; return what mends."""
        network = self._around.network

        def mend(_: None) -> None:
            for pair in pairs:
                network.mend(*pair)

        for pair in pairs:
            network.cut(*pair)
        self._later(low_ms, high_ms, mend)
        return mend

    def _round(self, one: SchedulerProcess) -> list[Pair]:
        """Return the links between one scheduler and the others, in both directions."""
        others = [each.name for each in self._schedulers if each is not one]
        return [(one.name, name) for name in others] + [(name, one.name) for name in others]

    def _leader(self) -> SchedulerProcess:
        """Return the scheduler that leads, or any if none does."""
        leads = [each for each in self._schedulers if each.leads]
        return leads[0] if leads else self._chance.choice(self._schedulers)

    def _other(self, than: SchedulerProcess) -> SchedulerProcess:
        return self._chance.choice([each for each in self._schedulers if each is not than])

    # --- elections --------------------------------------------------------------------------------

    def _restart_several(self) -> None:
        """Restart several at once, faster than a pledge runs out."""
        count = self._chance.randint(2, len(self._schedulers))
        for one in self._chance.sample(self._schedulers, count):
            self._kill(one, 20, 400)

    def _depose(self) -> None:
        """Keep the leader from the others for so long that one of them takes over."""
        leader = self._leader()
        self._around.story.tell("{} and the other schedulers do not hear each other", leader.name)
        self._cut(self._round(leader), 2000, 4000)

    def _stop_leader(self) -> None:
        """End the leader in order, and start it again; its word may come late, or not at all."""
        leader, around = self._leader(), self._around
        alive = sum(each.alive and not each.paused for each in self._schedulers)
        if 2 * (alive - 1) <= len(self._schedulers) or around.timeline.now >= self._until_ns:
            return
        if self._chance.random() < 0.3:
            deaf = self._other(leader)
            self._cut([(leader.name, deaf.name)], 500, 3000)
        leader.stop()
        if self._chance.random() < 0.5:
            self._later(60, 400, lambda _: self._start_again(leader))
        self._later(1100, 4000, lambda _: self._start_again(leader))

    @staticmethod
    def _start_again(one: SchedulerProcess) -> None:
        if not one.alive:
            one.start()

    def _kill_after_vote(self) -> None:
        """Kill the voter or the candidate right after the next vote, or that of an election."""
        elects = self._chance.random() < 0.5

        def spring(voter: int, candidate: int, _: Any) -> None:
            if elects and self._schedulers[candidate - 1].replica.role != "pledging":
                self._around.watch.ambush.lay(Promised, spring)
                return
            one = self._schedulers[self._chance.choice((voter, candidate)) - 1]
            self._later(0, 3, lambda _: self._kill(one, 20, 1500))

        self._around.watch.ambush.lay(Promised, spring)

    def _stop_with_leases(self) -> None:
        """Stop the leader between the renewal of its authority and the answers that this allows,
        until the authority is over: it must not give them when it goes on."""
        around = self._around

        def stop(one: SchedulerProcess) -> None:
            if one.leads and not one.paused and around.timeline.now < self._until_ns:
                one.pause(clock=True)
                self._later(2200, 4500, lambda _: one.go_on())

        def spring(number: int, _: int, effect: events.RenewLeases) -> None:
            one = self._schedulers[number - 1]
            if one.leads and effect.authority is not None:
                around.timeline.after(0, stop, one)
            else:
                around.watch.ambush.lay(events.RenewLeases, spring)

        around.watch.ambush.lay(events.RenewLeases, spring)

    def _leave_in_the_past(self) -> None:
        """Stop the leader and as many followers as make no majority, with their clocks, until
        others lead; when they go on they hear each other alone and believe in the old leader."""
        leader = self._leader()
        others = [each for each in self._schedulers if each is not leader]
        past = [leader, *self._chance.sample(others, len(self._schedulers) // 2 - 1)]
        if any(not each.alive or each.paused for each in past):
            return
        present = [each for each in self._schedulers if each not in past]
        links = [(one.name, other.name) for one in past for other in present]
        self._cut([*links, *((other, one) for one, other in links)], 4500, 7000)
        for one in past:
            one.pause(clock=False)

        def go_on(_: None) -> None:
            for one in past:
                one.go_on()

        self._later(3500, 4400, go_on)

    def _die_in_batch(self) -> None:
        """Let a process die between two effects of one step."""
        one = self._chance.choice((self._leader(), self._chance.choice(self._schedulers)))
        if one.alive:
            one.dies_in = self._chance.randint(1, 6)
            self._start_later(one, 300, 3000)

    # --- what must stay ---------------------------------------------------------------------------

    def _lose_tail(self) -> None:
        """Lose acknowledged entries that one scheduler never saw, and the leader with them."""
        leader = self._leader()
        late = self._other(leader)
        self._cut([(leader.name, late.name), (late.server_name, late.name)], 700, 1200)

        self._later(200, 700, lambda _: self._strike(leader))

    def _strike(self, leader: SchedulerProcess) -> None:
        """Lose the newest entries of the log, and the leader with them."""
        stream, now = self._around.stream, self._around.timeline.now
        if stream.leader != NO_LEADER and now < self._until_ns:
            stream.lose_tail(self._chance.randint(1, LOST_TAIL_MAX))
        self._kill(leader, 2500, 5000)

    def _forget(self) -> None:
        """Let one of two schedulers that have acknowledged entries begin again, because its state
        is said to differ, lose the entries from the log, and the other scheduler with them.
        """
        leader = self._leader()
        late = self._other(leader)
        if not self._all_remember():
            return
        rest = [each for each in self._schedulers if each not in (leader, late)]
        voter = self._chance.choice(rest)
        self._cut([(leader.name, late.name), (late.server_name, late.name)], 1200, 2500)

        def begin_again(_: None) -> None:
            if leader.leads and voter.alive and self._around.timeline.now < self._until_ns:
                self._cut([(voter.server_name, voter.name)], 1000, 3000)
                voter.take_event(told_to_begin_again(leader, voter))
                self._strike(leader)

        self._later(200, 700, begin_again)

    def _lose_memory(self) -> None:
        """Let the log lose its end, and one scheduler that may have held it everything that it has,
        with another one away, which may be the leader.
        """
        if not self._all_remember():
            return
        one = self._chance.choice(self._schedulers)
        one.crash()
        one.disk.lose()
        self._around.story.tell("{} has lost its memory", one.name)
        self._start_later(one, 20, 2000)
        self._strike(self._other(one))

    def _all_remember(self) -> bool:
        """True if nobody has forgotten anything.

        A cluster whose majority has lost what it held waits for a person, and shows nothing more.
        """
        remembers = self._around.watch.durability.remembers
        return all(each.alive and remembers(each.disk) for each in self._schedulers)

    def _lose_fetch(self) -> None:
        """Lose the answer to the next request for entries, and let one become needed."""

        def spring(candidate: int, holder: int, _: Any) -> None:
            names = self._schedulers[holder - 1].name, self._schedulers[candidate - 1].name
            self._cut([names], 100, 1500)

        self._around.watch.ambush.lay(FetchRequest, spring)
        self._lose_tail()

    def _orphan_append(self) -> None:
        """Let the log lose an entry that the leader alone has read back, and part the leader from
        the others until one of them was elected."""
        around = self._around

        def appended(number: int, _: int, message: Appended) -> None:
            leader, stream = self._schedulers[number - 1], around.stream
            if not leader.leads or not stream.entries or stream.leader == NO_LEADER:
                return
            around.story.tell("the log loses an entry that {} alone has read", leader.name)
            stream.lose_tail(1)
            mend = self._cut(self._round(leader), 5000, 8000)

            def voted(voter: int, candidate: int, _: Any) -> None:
                if self._schedulers[candidate - 1].replica.role == "pledging":
                    self._later(1, 6, mend)
                else:
                    around.watch.ambush.lay(Promised, voted)

            around.watch.ambush.lay(Promised, voted)

        around.watch.ambush.lay(Appended, appended)

    def _delay_term(self) -> None:
        """Let the first entry of a term reach the log only behind that of the next leader."""
        around = self._around

        def later(data: bytes) -> Spring:
            def spring(number: int, _: int, effect: events.Append) -> None:
                if self._schedulers[number - 1].replica.role == "electing":
                    self._later(1, 8, lambda _: around.stream.intrude(data))
                else:
                    around.watch.ambush.lay(events.Append, spring)

            return spring

        def first(number: int, _: int, effect: events.Append) -> None:
            one = self._schedulers[number - 1]
            if one.replica.role != "electing":
                around.watch.ambush.lay(events.Append, first)
                return
            self._cut([(one.name, one.server_name)], 50, 500)
            self._later(0, 1, lambda _: self._kill(one, 3000, 6000))
            around.watch.ambush.lay(events.Append, later(effect.data))

        around.watch.ambush.lay(events.Append, first)

    def _lose_parts(self) -> None:
        """Lose what follows the next part of a snapshot file, or the process that sends it, and let
        one scheduler need it."""

        def spring(source: int, behind: int, _: Any) -> None:
            names = self._schedulers[source - 1].name, self._schedulers[behind - 1].name
            if self._chance.random() < 0.5:
                self._cut([names], 50, 2500)
            else:
                self._later(0, 5, lambda _: self._kill(self._schedulers[source - 1], 200, 2000))

        self._around.watch.ambush.lay(SnapshotPart, spring)
        self._leave_behind()

    def _damage_snapshot(self) -> None:
        """Damage the newest of two snapshot files of a process that is killed."""
        one = self._chance.choice(self._schedulers)
        if one.alive and len(one.disk.files) > 1 and all(file.place for file in one.disk.files):
            one.disk.damage(self._chance.randrange(1 << 20))
            self._kill(one, 200, 2000)

    def _fill_disks(self) -> None:
        """Let the disks of all but the leader take no snapshot for a while."""
        leader = self._leader()
        for one in self._schedulers:
            one.disk.full = one is not leader

        def empty(_: None) -> None:
            for one in self._schedulers:
                one.disk.full = False

        self._later(3000, 8000, empty)

    def _leave_behind(self) -> None:
        """Keep a scheduler down for so long that the log is trimmed behind its end, and let the
        others forget what they no longer need."""
        early = self._around.timeline.now < EARLY_NS
        one = self._other(self._leader())
        down_ms = self._chance.randint(4000, 8000) + (5000 if early else 0)
        self._kill(one, down_ms, down_ms)

        def restart(_: None) -> None:
            for each in self._schedulers:
                if each is not one:
                    self._kill(each, 20, 300)

        if self._chance.random() < 0.8:
            self._later(down_ms - 200, down_ms, restart)

    def _forge(self) -> None:
        """Append an entry that no scheduler may append, behind the leader's newest one."""
        leader, stream = self._leader(), self._around.stream
        if not leader.disk.held or not stream.entries or stream.leader == NO_LEADER:
            return
        data = leader.disk.held[-1][1]
        if stream.entries[-1] != data:  # else nobody could know which entry it follows
            return
        last = entries.unseal(0, data)
        one = self._other(self._schedulers[last.entry.leader - 1])
        make = self._chance.choice(
            (self._by_unknown_key, self._in_term_of_another, self._unpledged)
        )
        stream.intrude(make(last, one))
        self._around.story.tell("a forged entry is in the log")

    @staticmethod
    def _by_unknown_key(last: Opened, one: SchedulerProcess) -> bytes:
        """Return an entry of the present leader that another key signed."""
        forged = _following(last, last.entry.term, last.entry.leader)
        return entries.seal(forged, KeyedHash("an unknown key")).data

    @staticmethod
    def _in_term_of_another(last: Opened, one: SchedulerProcess) -> bytes:
        """Return an entry with which a scheduler takes part in the term of another."""
        return entries.seal(_following(last, last.entry.term, one.number), one.signer).data

    def _unpledged(self, last: Opened, one: SchedulerProcess) -> bytes:
        """Return an entry with which a scheduler begins a term by the pledges of an older one.

        It is one of those that led before, if any did; `one` has no pledges at all.
        """
        led = self._stale_pledges(last.entry.leader)
        forger = self._schedulers[self._chance.choice(sorted(led)) - 1] if led else one
        term = next_term(last.entry.term, forger.number - 1)
        blob = led.get(forger.number, TermBlob(()))
        return entries.seal(_following(last, term, forger.number, (blob,)), forger.signer).data

    def _stale_pledges(self, leader: int) -> dict[int, TermBlob]:
        """Return the pledges of each scheduler but the leader with which it began its last term.

        A forger remembers them, though the log was trimmed.
        """
        found: dict[int, TermBlob] = {}
        for known in self._around.audit.known.values():
            for blob in known.entry.blobs:
                if isinstance(blob, TermBlob) and known.entry.leader != leader:
                    found[known.entry.leader] = blob
        return found


def told_to_begin_again(leader: SchedulerProcess, other: SchedulerProcess) -> events.PeerMessage:
    """Return the leader's word that the state of another scheduler differs from a majority's."""
    index, name = other.replica.state.index, other.replica.settings.cluster
    envelope = PeerEnvelope(FORMAT, name, leader.number, other.number, Diverged(index))
    return events.PeerMessage(seal(envelope, leader.signer))


def _following(last: Opened, term: int, leader: int, blobs: tuple[Blob, ...] = ()) -> Entry:
    """Return an entry without commands that follows this one."""
    before = last.entry
    batch = before.batch + 1 if term == before.term else 1
    return Entry(
        *(entries.FORMAT, before.cluster, term, leader, batch, before.prev_index + 1, last.hash),
        *(before.confirmed, before.now_ns, b"", blobs),
    )
