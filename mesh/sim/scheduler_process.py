# SPDX-License-Identifier: Apache-2.0
"""One simulated scheduler process: the shipped replica, and what carries out its effects.

Owns the line between what survives a crash (snapshot files, the record of the log's tail) and what
does not. A paused process gets its messages when it goes on.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from stoker.mesh.log.feature_level import BUILD
from stoker.mesh.log.genesis import Genesis, RosterMember
from stoker.mesh.log.jetstream_log import LogFull, LogGap, WrongTail, appended
from stoker.mesh.replica import events, snapshots
from stoker.mesh.replica.nodes.lease_answers import BATCH_NS, LeaseAnswers
from stoker.mesh.replica.replica import Replica
from stoker.mesh.replica.replica_settings import ReplicaSettings
from stoker.mesh.sim.host_clock import HostClock
from stoker.mesh.sim.keyed_hash import KeyedHash
from stoker.mesh.sim.log_audit import LogAudit
from stoker.mesh.sim.model_stream import AppendCall, ModelStream, ReadCall, TrimCall
from stoker.mesh.sim.network import SimNetwork
from stoker.mesh.sim.opened_entries import OpenedEntries
from stoker.mesh.sim.scheduler_disk import SchedulerDisk
from stoker.mesh.sim.scheduler_watch import SchedulerWatch
from stoker.mesh.sim.sim_process import SimProcess
from stoker.mesh.sim.story import Story
from stoker.mesh.sim.timeline import MS, SECOND, Timeline
from stoker.mesh.sim.timeouts import Timeouts
from stoker.native.errors import StokerError

TICK_NS = 100 * MS
WAKE_NS = MS // 2
"""The time after which the thread for leases knows what the replica has decided."""
APPEND_NS = 2 * SECOND
READ_NS = 5 * SECOND
HAND_OVER_NS = SECOND
AGAIN_NS = 5 * SECOND
END_MS = 50
"""A process that has handed over ends within this time."""
DISK_NS = (2 * MS, 30 * MS)
SNAPSHOT_ENTRIES = 30
PART_BYTES = 8_192
SILENT = events.LogFailed("the log does not answer")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The parts of a simulated world that all its processes share."""

    timeline: Timeline
    chance: random.Random
    network: SimNetwork
    stream: ModelStream
    audit: LogAudit
    story: Story
    watch: SchedulerWatch
    opened: OpenedEntries


class SchedulerRequest(msgspec.Struct, frozen=True):
    """A request that reached a scheduler, and where its answer goes; `event` gets the token."""

    sender: str
    number: int
    make: Callable[[Any], events.Event]
    answer: Callable[[SchedulerAnswer], None]


class SchedulerAnswer(msgspec.Struct, frozen=True):
    """The answer of a scheduler to the request with this number."""

    number: int
    scheduler: str
    value: Any


class Seat(NamedTuple):
    """The place of one scheduler: its name, number in the roster, key, and server of the log."""

    name: str
    number: int
    signer: KeyedHash
    server: int


class SchedulerProcess(SimProcess):
    """One scheduler. `to_node` returns what takes (what, data) at the node of this name."""

    def __init__(
        self,
        around: Surroundings,
        seat: Seat,
        genesis: Genesis,
        to_node: Callable[[str], Callable[[tuple[str, Any]], None]],
    ) -> None:
        super().__init__()
        self.name = seat.name
        self.around = around
        self.clock = HostClock(around.timeline, around.chance)
        self.server = seat.server
        self.server_name = around.stream.servers[seat.server].name
        self.halts: list[str] = []
        """The reason of each halt of this scheduler."""
        self.replica: Replica
        self._genesis = genesis
        self.signer = seat.signer
        self.number = seat.number
        self.disk = SchedulerDisk()
        self.dies_in: int | None = None
        """The number of effects after which the process dies, if it is to die in a batch."""
        self._to_node = to_node
        self._known_tail = 0
        self._alone = genesis.alone
        self.supports = BUILD
        """The feature levels of the build with which it starts next."""
        self.roster: tuple[RosterMember, ...] = ()
        """The schedulers as the host of one knows them that enters later."""
        self.peers: dict[int, SchedulerProcess] = {}
        """All schedulers by their numbers."""
        self._calls = 0
        self._open_calls: dict[int, events.Event] = {}
        timeline, calls = around.timeline, self._open_calls
        self._append_timeouts = Timeouts(timeline, APPEND_NS, calls, self._timed_out)
        self._read_timeouts = Timeouts(timeline, READ_NS, calls, self._timed_out)
        self._listens = False
        """True while it takes the requests of users and nodes, as the daemon subscribes to them."""
        self._renews = False
        """True while it has the authority to answer lease requests."""
        self._effects = around.watch.watched(self, self._effect_handlers())

    def _effect_handlers(self) -> dict[type, Callable[[Any], None]]:
        """Return what carries out each kind of effect."""
        return {
            events.Append: self._append,
            events.Read: self._read,
            events.Reply: self._reply,
            events.Send: self._send,
            events.RenewLeases: self._renew,
            events.SaveSnapshot: self._save,
            events.Trim: self._trim,
            events.SendPeer: self._send_peer,
            events.Store: self._store,
            events.ReadSnapshotPart: self._read_part,
            events.Install: self._install,
            events.Withhold: self._withhold,
            events.Resume: lambda effect: self._leases.resume(effect.node),
            events.PingNode: lambda effect: self._to(
                effect.pinger, ("ping", (self, effect.target))
            ),
            events.Lead: self._lead,
            events.Left: self._leave,
            events.Halt: self._halt,
        }

    @property
    def leads(self) -> bool:
        """True while its replica leads."""
        return self.alive and self.replica.role == "leading"

    # --- the process ------------------------------------------------------------------------------

    def start(self) -> None:
        """Start a new process, which has only what is durable."""
        self.begin_process()
        self.clock.go_on()
        self._open_calls.clear()
        self.dies_in = None
        snapshot, digest = self.disk.newest()
        settings = ReplicaSettings(
            self._genesis,
            self.number,
            self.around.stream.max_bytes,
            self.starts * 64 + self.server,
            SNAPSHOT_ENTRIES,
            measure=False,
            roster=self.roster,
            supports=self.supports,
            known_tail=self._known_tail if self._alone else 0,
            promised=self.disk.promised,
            floor=self.disk.floor,
            began_ns=self.clock.boot(),
        )
        held = tuple(self.disk.held)
        self.replica = Replica(
            settings,
            self.signer,
            snapshot,
            digest,
            held,
            open_key=KeyedHash,
            unseal=self.around.opened.unseal,
            read_envelope=self.around.opened.read_envelope,
        )
        self._leases = LeaseAnswers(self.signer)
        self._heard: tuple[events.NodeHeard, ...] = ()
        self._renews = False
        self._listen()
        self._audit_applies()
        everybody = (RosterMember(n, each.signer.public) for n, each in sorted(self.peers.items()))
        self.feed(events.ServersKnown(tuple(everybody)))
        self.around.watch.began(self)
        self.around.timeline.after(0, self._tick, self.starts)

    def _audit_applies(self) -> None:
        """Let the auditor look after every entry that this replica applies."""
        state, audit = self.replica.state, self.around.audit
        apply = state.apply

        def audited(entry: Any, digest: bytes) -> Any:
            applied = apply(entry, digest)
            audit.applied(self.name, state, entry, applied)
            audit.levels(self.name, state, self.replica.settings.supports)
            return applied

        state.apply = audited  # type: ignore[method-assign]

    def crash(self) -> None:
        """Kill the process; what it sent is on its way, what it waited for is lost."""
        self.alive = False
        self.around.story.tell("{} is killed", self.name)

    def stop(self) -> None:
        """Have the process end in order, as SIGTERM does: it hands over before."""
        if self.alive and not self.paused:
            self.around.story.tell("{} is told to end", self.name)
            self.around.timeline.after(HAND_OVER_NS, self._end, self.starts)
            self.feed(events.Leave())

    def _leave(self, effect: events.Left) -> None:
        wait_ns = self.around.chance.randint(0, END_MS) * MS
        self.around.timeline.after(wait_ns, self._end, self.starts)

    def _end(self, start: int) -> None:
        if start == self.starts and self.alive and not self.paused:
            self.crash()
            self.around.timeline.after(AGAIN_NS, self._start_if_ended, self.starts)

    def _start_if_ended(self, start: int) -> None:
        """Start again as a supervisor does: a process that stood still when it was to end may end
        long after whoever stopped it has looked."""
        if start == self.starts and not self.alive:
            self.start()

    def pause(self, *, clock: bool) -> None:
        """Stop the process; `clock` is true if its clock goes on."""
        self.paused = True
        if not clock:
            self.clock.stop()
        how = "goes on" if clock else "stands still"
        self.around.story.tell("{} is stopped, and its clock {}", self.name, how)

    def go_on(self) -> None:
        """Let a stopped process go on; everything that came meanwhile comes now."""
        if not self.paused:
            return
        self.clock.go_on()
        self.around.story.tell("{} goes on", self.name)
        self.end_pause()

    def _tick(self, start: int) -> None:
        if start != self.starts or self.is_absent(self._tick, start):
            return
        if (heard := self._leases.heard()) != self._heard:  # else it says nothing new
            self._heard = heard
            self.feed(events.NodesHeard(heard))
        self.feed(events.TimePassed())
        self._listen()
        if self._renews:
            self.around.timeline.after(WAKE_NS, self._look_at_leases, start)
        self.around.timeline.after(TICK_NS, self._tick, start)

    def feed(self, event: events.Event) -> None:
        """Give the replica an event and carry out its effects.

        A scheduler alone in its roster counts an entry in the step whose first effect stores it. If
        it dies before that effect, it has told nobody, so it dies before the step: the auditor
        would take the entry for applied.
        """
        handlers, start = self._effects, self.starts
        if self.dies_in == 0 and self._counts_alone() and self._dies():
            return
        for effect in self.replica.step(event, self.clock.real(), self.clock.boot()):
            if self.dies_in is not None and self._dies():
                return
            if start == self.starts:  # else the process began again with a snapshot
                handlers[type(effect)](effect)

    def _counts_alone(self) -> bool:
        config = self.replica.state.config
        only = config is not None and len(config.schedulers) == 1
        return only and not self.replica.settings.genesis.alone

    def _dies(self) -> bool:
        assert self.dies_in is not None
        self.dies_in -= 1
        if self.dies_in < 0:
            self.dies_in = None
            self.crash()
        return not self.alive

    # --- requests and messages --------------------------------------------------------------------

    def _listen(self) -> None:
        """Begin or end to take requests, as the replica may answer or not."""
        self._listens = self.replica.right.may_answer(self.clock.boot())

    def take(self, request: SchedulerRequest) -> None:
        """Take a request of a user or a node, if this scheduler listens to them."""
        if self._listens and not self.is_absent(self.take, request):
            self.feed(request.make(request))

    def take_read(self, request: SchedulerRequest) -> None:
        """Take a read that a user sent to this scheduler, whether it leads or not."""
        if not self.is_absent(self.take_read, request):
            self.feed(request.make(request))

    def take_event(self, event: events.Event) -> None:
        """Take a message that needs no answer."""
        if not self.is_absent(self.take_event, event):
            self.feed(event)

    def take_lease_request(self, message: tuple[str, bytes]) -> None:
        """Take the lease request of a node, as the thread for leases does."""
        if not self.is_absent(self.take_lease_request, message):
            node, data = message
            self._leases.receive(data, node, self.clock.boot())
            if self._renews:  # without authority nothing is due
                self._answer_leases()
                self.around.timeline.after(BATCH_NS, self._look_at_leases, self.starts)

    def _look_at_leases(self, start: int) -> None:
        """Answer what waited for others, as the thread for leases does without the replica."""
        if start == self.starts and not self.is_absent(self._look_at_leases, start):
            self._answer_leases()

    def _answer_leases(self) -> None:
        for answer in self._leases.due(self.clock.boot()):
            self.around.watch.answered(self, answer.nodes)
            for node in answer.nodes:
                self._to(node, ("lease", answer.data))

    def _reply(self, effect: events.Reply) -> None:
        request: SchedulerRequest = effect.token
        answered = SchedulerAnswer(request.number, self.name, effect.value)
        self.around.network.post(self.name, request.sender, request.answer, answered)

    def _send(self, effect: events.Send) -> None:
        self._to(effect.node, ("command", effect.data))

    def _to(self, node: str, message: tuple[str, Any]) -> None:
        self.around.network.post(self.name, node, self._to_node(node), message)

    def _renew(self, effect: events.RenewLeases) -> None:
        self._leases.grant(effect.authority, self.clock.boot())
        self._renews = effect.authority is not None
        if not self._renews:
            self._listen()

    def _withhold(self, effect: events.Withhold) -> None:
        self._leases.withhold(effect.node)
        answered_ns = self._leases.answered_ns(effect.node)
        self.feed(events.Withheld(effect.node, answered_ns))

    def _lead(self, effect: events.Lead) -> None:
        self._listen()
        self.around.story.tell("{} leads in term {}", self.name, effect.term)

    def _halt(self, effect: events.Halt) -> None:
        self.halts.append(effect.reason)
        self.around.story.tell("{} halts: {}", self.name, effect.reason)

    def _send_peer(self, effect: events.SendPeer) -> None:
        peer = self.peers[effect.to]
        message = events.PeerMessage(effect.data)
        self.around.network.post(self.name, peer.name, peer.take_event, message)

    # --- the log ----------------------------------------------------------------------------------

    def _begin_call(self, timeouts: Timeouts, late: events.Event) -> int:
        """Begin a call of the log; without an answer in time, the replica gets the event `late`."""
        self._calls += 1
        self._open_calls[self._calls] = late
        timeouts.begin(self._calls)
        return self._calls

    def _timed_out(self, call: int) -> None:
        if call in self._open_calls and not self.is_absent(self._timed_out, call):
            self.feed(self._open_calls.pop(call))

    def _answered(self, call: int, take: Callable[[Any], None]) -> Callable[[Any], None]:
        """Return what a server calls with its answer, which travels back to this process."""

        def arrive(value: Any) -> None:
            if call in self._open_calls and not self.is_absent(arrive, value):
                del self._open_calls[call]
                take(value)

        def answer(value: Any) -> None:
            self.around.network.link(self.server_name, self.name, arrive, value)

        return answer

    def _append(self, effect: events.Append) -> None:
        def take(data: bytes) -> None:
            self.feed(self._append_event(effect, data))

        answer = self._answered(self._begin_call(self._append_timeouts, SILENT), take)
        call = AppendCall(self.server, effect.tail, effect.data, effect.name, answer)
        self.around.network.link(self.name, self.server_name, self.around.stream.append, call)

    def _append_event(self, effect: events.Append, data: bytes) -> events.Event:
        """Return what `mesh/server/log_writer.py` makes of an answer to an append."""
        try:
            seq = appended(effect.tail, data)
        except LogFull as error:
            return events.AppendFull(error.message)
        except LogGap as error:
            return events.LogBroken(error.message)
        except StokerError as error:
            last = error.last if isinstance(error, WrongTail) else 0
            return events.LogFailed(error.message, last)
        if self.replica.role == "leading":
            self._known_tail = max(self._known_tail, seq)
        return events.AppendDone(seq, effect.name)

    def _read(self, effect: events.Read) -> None:
        def take(found: tuple[list[tuple[int, bytes]], str | None]) -> None:
            entries, failed = found
            if entries:
                self.feed(events.LogEntries(entries))
            self.feed(events.LogEnd() if failed is None else events.LogFailed(failed))

        answer = self._answered(self._begin_call(self._read_timeouts, SILENT), take)
        call = ReadCall(self.server, effect.seq, answer)
        self.around.network.link(self.name, self.server_name, self.around.stream.read, call)

    def _trim(self, effect: events.Trim) -> None:
        def take(done: bool) -> None:
            self.feed(events.Trimmed(effect.seq) if done else events.TrimFailed("no leader"))

        late = events.TrimFailed("the log does not answer")
        answer = self._answered(self._begin_call(self._read_timeouts, late), take)
        call = TrimCall(self.server, effect.seq, answer)
        self.around.network.link(self.name, self.server_name, self.around.stream.trim, call)

    # --- the disk ---------------------------------------------------------------------------------

    def _save(self, effect: events.SaveSnapshot) -> None:
        low, high = DISK_NS
        wait = low + int((high - low) * self.around.chance.random())
        self.around.timeline.after(wait, self._saved, (self.starts, effect.snapshot))

    def _saved(self, written: tuple[int, snapshots.Snapshot]) -> None:
        start, snapshot = written
        if start != self.starts or self.is_absent(self._saved, written):
            return
        if self.disk.full:
            self.feed(events.SnapshotFailed("no space left on device"))
            return
        digests = self.around.audit.digests
        encoded, agreed = digests.encoded(snapshot), digests.agreement(snapshot)
        self.disk.save(snapshot, encoded.data)
        self.around.audit.saved(snapshot)
        self.feed(events.SnapshotSaved(snapshot.seq, encoded.digest, snapshot.index, agreed))

    def _store(self, effect: events.Store) -> None:
        self.disk.store(effect)

    def _read_part(self, effect: events.ReadSnapshotPart) -> None:
        newest = self.disk.files[-1] if self.disk.files else None
        if newest is None or newest.place is None:
            self.feed(events.SnapshotPartRead(effect.to, 0, 0, 0, b""))
            return
        part = newest.data[effect.offset : effect.offset + PART_BYTES]
        self.feed(
            events.SnapshotPartRead(
                effect.to, newest.place.index, effect.offset, len(newest.data), part
            )
        )

    def _install(self, effect: events.Install) -> None:
        self.around.story.tell("{} begins again from a snapshot: {}", self.name, effect.why)
        self.disk.install(effect.data)
        self.start()


def post(request: SchedulerRequest, schedulers: list[SchedulerProcess]) -> int:
    """Send a request to the schedulers that listen at this moment, as a broker does; return how
    many do, since the broker says at once if none does."""
    listening = [each for each in schedulers if each._listens and each.alive]
    for each in listening:
        each.around.network.post(request.sender, each.name, each.take, request)
    return len(listening)
