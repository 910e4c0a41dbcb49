# SPDX-License-Identifier: Apache-2.0
"""A simulated JetStream stream on one, three or five servers, each with its own view of it.

A client talks to its own server only. Owns the line between what the servers agreed on (`entries`)
and what a single server says: its copy may be old, and a deposed leader has a tail of its own.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import msgspec

from stoker.mesh.sim.network import SimNetwork
from stoker.mesh.sim.story import Story
from stoker.mesh.sim.stream_faults import StreamFaults
from stoker.mesh.sim.timeline import SECOND, Timeline

ELECTION_NS = (4 * SECOND, 16 * SECOND)
LATE_NS = (SECOND // 20, 20 * SECOND)
DEPOSED_NS = 5 * SECOND
RETRY_NS = SECOND // 2
LOST_TAIL_MAX = 3
NO_LEADER = -1

UNAVAILABLE = b'{"error":{"code":503,"err_code":10008,"description":"system unavailable"}}'
FULL = b'{"error":{"code":400,"err_code":10077,"description":"maximum bytes exceeded"}}'


class AppendCall(msgspec.Struct, frozen=True):
    """One append as a server gets it; `answer` takes the bytes of JetStream's answer."""

    server: int
    tail: int
    data: bytes
    name: str
    answer: Callable[[bytes], None]


class ReadCall(msgspec.Struct, frozen=True):
    """One reading to the end; `answer` takes the entries and why the reading failed, or None."""

    server: int
    seq: int
    answer: Callable[[tuple[list[tuple[int, bytes]], str | None]], None]


class TrimCall(msgspec.Struct, frozen=True):
    """A trim; `answer` takes True if it was carried out."""

    server: int
    seq: int
    answer: Callable[[bool], None]


class StreamServer:
    """One server: whether it runs, and where its view differs from what was agreed."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.up = True
        self.stands_at: int | None = None
        """The entry at which its copy stands still, or None if it follows."""
        self.fork: list[bytes] | None = None
        """The entries that it alone acknowledged since it was deposed, behind `fork_base`."""
        self.fork_base = 0


class ModelStream:
    """The stream. Sequences start at 1; `entries[seq - 1]` is None for a hole."""

    def __init__(
        self,
        timeline: Timeline,
        chance: random.Random,
        network: SimNetwork,
        story: Story,
        *,
        servers: int,
        faults: StreamFaults,
        max_bytes: int,
    ) -> None:
        self.entries: list[bytes | None] = []
        self.first = 1
        self.size = 0
        self.max_bytes = max_bytes
        self.faults = faults
        self.leader = 0
        self.counts: Counter[str] = Counter()
        """The number of times each weakness showed."""
        self.servers = [StreamServer(f"log-{number + 1}") for number in range(servers)]
        self._names: dict[str, int] = {}
        self._timeline = timeline
        self._chance = chance
        self._network = network
        self._story = story

    # --- the agreed entries -----------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The last sequence that the servers agreed on."""
        return len(self.entries)

    @property
    def whole(self) -> bool:
        """True if the stream has a leader, and nobody who was deposed still answers."""
        return self.leader != NO_LEADER and all(each.fork is None for each in self.servers)

    def _store(self, data: bytes | None) -> int:
        self.entries.append(data)
        self.size += len(data) if data is not None else 0
        return len(self.entries)

    def _land(self, call: AppendCall, *, forced: bool = False) -> bytes:
        """Carry out an append at the leader; return JetStream's answer."""
        if (seq := self._names.get(call.name)) is not None:
            return _done(seq)
        if call.tail != self.last and not forced:
            return _wrong_last(self.last)
        if self.size + len(call.data) > self.max_bytes:
            return FULL
        seq = self._store(call.data)
        self._names[call.name] = seq
        return _done(seq)

    def _shows(self, weakness: str, probability: float) -> bool:
        if probability and self._chance.random() < probability:
            self.counts[weakness] += 1
            return True
        return False

    # --- what a client calls ----------------------------------------------------------------------

    def append(self, call: AppendCall) -> None:
        """Take an append at a server; it may never be answered."""
        server = self.servers[call.server]
        if not server.up:
            return
        if server.fork is not None:
            call.answer(self._append_to_fork(server, call))
        elif not self._reaches_leader(server) or self._shows("storm", self.faults.storm):
            if self._chance.random() < 0.5:
                call.answer(UNAVAILABLE)
        elif not self._append_fails(call):
            answer = self._land(call)
            if self._shows("twice", self.faults.twice):
                self._store(call.data)
            if not self._shows("ack_lost", self.faults.ack_lost):
                call.answer(answer)

    def _append_fails(self, call: AppendCall) -> bool:
        """Return True if the client is told nothing and the entry is not stored now."""
        faults = self.faults
        if self._shows("append_lost", faults.append_lost):
            return True
        if self._shows("late", faults.late):
            low, high = LATE_NS
            wait = int(low + (high - low) * self._chance.random() ** 3)
            self._timeline.after(wait, self._land_late, call)
            return True
        if call.tail == self.last and self._shows("hole", faults.hole):
            self._store(None)
            return True
        return False

    def _land_late(self, call: AppendCall) -> None:
        if self.leader == NO_LEADER:
            return
        forced = call.tail != self.last and self._shows("forced", self.faults.forced)
        before = self.last
        self._land(call, forced=forced)
        if self.last > before:
            self._story.tell("an append that got no answer lands in the log as {}", self.last)

    def _append_to_fork(self, server: StreamServer, call: AppendCall) -> bytes:
        """Append to the copy of a deposed leader, which acknowledges what nobody else has."""
        assert server.fork is not None
        last = server.fork_base + len(server.fork)
        if call.tail != last:
            return _wrong_last(last)
        server.fork.append(call.data)
        self.counts["deposed_ack"] += 1
        return _done(last + 1)

    def read(self, call: ReadCall) -> None:
        """Take a reading at a server; it answers from the copy that it has."""
        server = self.servers[call.server]
        if not server.up:
            return
        down = self.leader == NO_LEADER and server.fork is None and self._chance.random() < 0.5
        if down or self._shows("storm", self.faults.storm):
            call.answer(([], "no answer from the stream's leader"))
            return
        found = self._copy(server, call.seq)
        if self._shows("read_failed", self.faults.read_failed):
            call.answer((found[: len(found) // 2], "the reading ended early"))
        else:
            call.answer((found, None))

    def _copy(self, server: StreamServer, seq: int) -> list[tuple[int, bytes]]:
        last, fork = self.last, server.fork
        if fork is not None:
            last = min(last, server.fork_base)
        elif server.stands_at is not None:
            last = min(last, server.stands_at)
        entries = self.entries
        at = range(max(seq, self.first), last + 1)
        found = [(n, data) for n in at if (data := entries[n - 1]) is not None]
        if fork is not None:
            behind = enumerate(fork, server.fork_base + 1)
            found += [(n, data) for n, data in behind if n >= seq]
        return found

    def trim(self, call: TrimCall) -> None:
        """Take a trim at a server."""
        server = self.servers[call.server]
        if not server.up:
            return
        if server.fork is not None or not self._reaches_leader(server):
            call.answer(False)
            return
        for data in self.entries[self.first - 1 : call.seq]:
            self.size -= len(data) if data is not None else 0
        self.first = max(self.first, min(call.seq, self.last) + 1)
        call.answer(True)

    def _reaches_leader(self, server: StreamServer) -> bool:
        if self.leader == NO_LEADER or not self.servers[self.leader].up:
            return False
        name = self.servers[self.leader].name
        network = self._network
        return not (network.is_cut(server.name, name) or network.is_cut(name, server.name))

    # --- servers that die, and elections ----------------------------------------------------------

    def crash(self, number: int) -> None:
        """Stop a server; a single one may leave its last write half done."""
        server = self.servers[number]
        server.up, server.fork, server.stands_at = False, None, None
        if number == self.leader and len(self.servers) > 1:
            self.elect()

    def restart(self, number: int) -> None:
        """Start a server with what it has on disk."""
        self.servers[number].up = True

    def stand_still(self, number: int, for_ns: int) -> None:
        """Let the copy of one server stand still for a while."""
        server = self.servers[number]
        if server.stands_at is None and server.fork is None:
            self.counts["stale"] += 1
            server.stands_at = self.last
            self._timeline.after(for_ns, self._follow_again, server)

    @staticmethod
    def _follow_again(server: StreamServer) -> None:
        server.stands_at = None

    def elect(self) -> None:
        """Begin an election, as after the loss of the leader; it takes 4 to 16 s."""
        if self.leader == NO_LEADER:
            return
        self.counts["election"] += 1
        low, high = ELECTION_NS
        wait = low + int((high - low) * self._chance.random())
        old, self.leader = self.servers[self.leader], NO_LEADER
        self._story.tell("the log's servers elect a leader, which takes {:.1f} s", wait / SECOND)
        if old.up and self._shows("deposed", self.faults.deposed):
            old.fork, old.fork_base, old.stands_at = [], self.last, None
            rest = wait + int(DEPOSED_NS * self._chance.random())
            self._timeline.after(rest, self._rejoin, old)
        self._timeline.after(wait, self._elected, None)

    def _rejoin(self, server: StreamServer) -> None:
        if server.fork:
            self.counts["fork_dropped"] += 1
            self._story.tell(
                "{} learns that it was deposed and drops {} entries that it had acknowledged",
                server.name, len(server.fork),
            )  # fmt: skip
        server.fork = None

    def _elected(self, _: None) -> None:
        able = [n for n, each in enumerate(self.servers) if each.up and each.fork is None]
        if 2 * len(able) <= len(self.servers):
            self._timeline.after(RETRY_NS, self._elected, None)
            return
        self.leader = self._chance.choice(able)
        if self._shows("deleted", self.faults.deleted):
            self._cut_back(0)
        elif self._shows("lost_tail", self.faults.lost_tail):
            kept = max(self.first - 1, self.last - self._chance.randint(1, LOST_TAIL_MAX))
            self._cut_back(kept)
        self._story.tell("{} leads the log again", self.servers[self.leader].name)

    def lose_tail(self, count: int) -> None:
        """Lose the last entries at once, as after an election that took no time."""
        self.counts["lost_tail"] += 1
        self._cut_back(max(self.first - 1, self.last - count))

    def intrude(self, data: bytes) -> None:
        """Store bytes that no scheduler appended."""
        self._store(data)

    def _cut_back(self, kept: int) -> None:
        """Lose all entries behind `kept`, although they were acknowledged."""
        self._story.tell("the log loses its entries {} to {}", kept + 1, self.last)
        self.size -= sum(len(data) for data in self.entries[max(kept, self.first - 1) :] if data)
        del self.entries[kept:]
        self.first = min(self.first, kept + 1)
        self._names = {name: seq for name, seq in self._names.items() if seq <= kept}

    def heal(self) -> None:
        """End every weakness and start every server; an election that runs is not shortened."""
        self.faults = StreamFaults()
        for server in self.servers:
            server.up, server.stands_at = True, None


def _done(seq: int) -> bytes:
    return b'{"stream":"SCHED_LOG","seq":%d}' % seq


def _wrong_last(last: int) -> bytes:
    text = b'{"error":{"code":400,"err_code":10071,"description":"wrong last sequence: %d"}}'
    return text % last
