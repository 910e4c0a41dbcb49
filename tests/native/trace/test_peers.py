# SPDX-License-Identifier: Apache-2.0
"""Calls of ranks matched into operations, against a dumb oracle that knows every operation."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoker.native import _peers
from stoker.probes.calls.call_targets import WAITS

ALLREDUCE, BCAST, SPLIT, RECV, INIT, START, BEGIN, DEVICE, IALLREDUCE = range(9)
KINDS = bytes(
    WAITS.index(kind)
    for kind in ("all", "some", "makes", "message", "joins", "start", "later", "device", "begins")
)
WORLD = 0xABC0
RECORD = struct.Struct("<QQQIIHHIII")
SPAN = struct.Struct("<QQIHH")

Wait = tuple[int, int, int]


@dataclass(frozen=True)
class Call:
    """One call of one rank, as it was."""

    rank: int
    enter: int
    leave: int
    call: int = ALLREDUCE
    handle: int = WORLD
    id: int = 0
    number: int = 0
    size: int = 0
    made: int = 0

    def records(self) -> Iterator[tuple[int, bytes]]:
        pid = pid_of(self.rank)
        about = self.call, _peers.ENTER, self.number, self.size, 0
        yield self.enter, RECORD.pack(self.enter, self.handle, self.id, pid, pid, *about)
        about = self.call, _peers.LEAVE, 0, 0, 0
        yield self.leave, RECORD.pack(self.leave, self.made, 0, pid, pid, *about)


def pid_of(rank: int) -> int:
    return 1000 + 7 * rank


@dataclass
class World:
    """Operations of ranks, in small integers: rank -> its call of each operation."""

    ranks: int
    operations: list[list[Call]] = field(default_factory=list)

    @property
    def waits(self) -> list[Wait]:
        """(from, to, pid) of every wait."""
        found = []
        for calls in self.operations:
            last = max(call.enter for call in calls)
            for call in calls:
                until = min(call.leave, last)
                if until > call.enter:
                    found.append((call.enter, until, pid_of(call.rank)))
        return sorted(found)

    @property
    def records(self) -> list[tuple[int, bytes]]:
        calls = [call for calls in self.operations for call in calls]
        return sorted((record for call in calls for record in call.records()), key=lambda r: r[0])


def random_world(chance: random.Random, count: int, *, some: bool) -> World:
    """Ranks compute longer than they take to come out of a call, so that every operation in which
    all wait shows which calls belong together. Entries are distinct, so the last one is clear."""
    world = World(chance.randrange(2, 6))
    clocks = [chance.randrange(1, 200) for _ in range(world.ranks)]
    for _ in range(count):
        kind = BCAST if some and chance.random() < 0.4 else ALLREDUCE
        enters: list[int] = []
        for rank in range(world.ranks):
            enter = clocks[rank] + chance.choice((30, 40, 90, 500)) + chance.randrange(20)
            while enter in enters:
                enter += 1
            enters.append(enter)
        calls = []
        for rank, enter in enumerate(enters):
            # A broadcast lets its root go at once, and the others when the root has come.
            least = enter if kind == BCAST and not rank else max(enters)
            least = max(enter, enters[0]) if kind == BCAST and rank else least
            leave = least + 1 + chance.randrange(8)
            calls.append(Call(rank, enter, leave, kind))
            clocks[rank] = leave
        world.operations.append(calls)
    return world


def joined(ranks: int) -> _peers.Peers:
    peers = _peers.Peers(KINDS)
    for rank in range(ranks):
        assert peers.join(pid_of(rank), rank, 5, ranks, WORLD) == 0
    return peers


def spans(data: dict[int, bytes]) -> list[Wait]:
    """Every process has one thread here, of its own number."""
    found = [
        (a, b, tid, pid, state)
        for pid, each in data.items()
        for a, b, tid, state, _ in SPAN.iter_unpack(each)
    ]
    assert all(tid == pid for _, _, tid, pid, _ in found)
    return [(a, b, tid) for a, b, tid, _, state in found if state == 8]


def merged(waits: list[Wait]) -> list[Wait]:
    """Joins parts of one wait; parts of a thread come in order and never overlap."""
    found: list[Wait] = []
    for start, stop, tid in sorted(waits, key=lambda wait: (wait[2], wait[0])):
        assert start < stop
        if found and found[-1][2] == tid and found[-1][1] >= start:
            assert found[-1][1] == start, "waits of one thread overlap"
            found[-1] = (found[-1][0], stop, tid)
        else:
            found.append((start, stop, tid))
    return sorted(found)


def feed(
    peers: _peers.Peers, records: list[tuple[int, bytes]], chance: random.Random
) -> list[Wait]:
    """Gives records in batches and lets the waits that go on be told in between."""
    told: list[Wait] = []
    at = 0
    while at < len(records):
        upto = min(len(records), at + chance.choice((1, 1, 2, 5, 40)))
        assert peers.add(b"".join(data for _, data in records[at:upto])) == upto - at
        at = upto
        if chance.random() < 0.7:
            before = records[at][0] if at < len(records) else records[-1][0]
            peers.show(chance.randint(records[at - 1][0], max(before, records[at - 1][0])))
        told += spans(peers.take())
    return told


@settings(max_examples=200)
@given(st.integers(0, 1 << 40))
def test_every_wait_is_told_once_and_for_the_last(seed: int) -> None:
    chance = random.Random(seed)
    world = random_world(chance, 20, some=False)
    peers = joined(world.ranks)
    assert merged(feed(peers, world.records, chance)) == world.waits
    last = [max(calls, key=lambda call: call.enter).rank for calls in world.operations]
    assert {row[0]: row[7] for row in peers.ranks()} == {
        rank: last.count(rank) for rank in range(world.ranks)
    }
    waited = {pid_of(r): 0 for r in range(world.ranks)}
    for start, stop, pid in world.waits:
        waited[pid] += stop - start
    assert {row[1]: row[5] for row in peers.ranks()} == waited
    assert sum(row[8] for row in peers.ranks()) == sum(waited.values())
    assert not any(peers.losses().values())


@settings(max_examples=200)
@given(st.integers(0, 1 << 40))
def test_who_may_leave_early_waits_until_then(seed: int) -> None:
    chance = random.Random(seed)
    world = random_world(chance, 20, some=True)
    peers = joined(world.ranks)
    for rank in range(world.ranks):  # their starts were seen, so calls are counted alike
        start = Call(rank, 0, 0, START, handle=0)
        peers.add(b"".join(data for _, data in start.records()))
    told = merged(feed(peers, world.records, chance))
    assert told == world.waits
    assert [row[4] for row in peers.groups()] == [20]


@settings(max_examples=300)
@given(st.integers(0, 1 << 40))
def test_probes_that_come_late_are_right_from_the_first_match_on(seed: int) -> None:
    chance = random.Random(seed)
    world = random_world(chance, 20, some=False)
    peers = joined(world.ranks)
    middle = world.operations[8][0].enter
    since = {pid_of(rank): chance.randrange(0, middle) for rank in range(world.ranks)}
    seen = [each for each in world.records if each[0] >= since[RECORD.unpack(each[1])[3]]]
    told = merged(feed(peers, seen, chance))
    whole = [
        calls
        for calls in world.operations
        if all(call.enter >= since[pid_of(call.rank)] for call in calls)
    ]
    assert told == World(world.ranks, whole).waits
    assert peers.groups()[0][4] == len(whole)


def test_a_rank_that_does_not_come_is_named_with_what_it_does() -> None:
    peers = joined(4)
    world = random_world(random.Random(3), 5, some=False)
    world.ranks = 4
    for rank in range(4):
        call = Call(rank, 100 + rank, 110)
        peers.add(b"".join(data for _, data in call.records()))
    for rank in (2, 0):
        peers.add(next(Call(rank, 200 + rank, 0).records())[1])
    assert peers.stuck(300, 150) == []
    peers.add(next(Call(1, 240, 0, RECV, handle=0).records())[1])
    ((group, call, number, since, waits, missing),) = peers.stuck(300, 50)
    assert (group, call, number, since, waits) == (0, ALLREDUCE, 2, 200, (0, 2))
    assert missing == ((1, RECV, 240), (3, None, 0))
    peers.leave(pid_of(3))
    assert peers.stuck(300, 50)[0][5] == ((1, RECV, 240), (3, None, 0))


def test_an_operation_out_of_which_nobody_comes_is_stuck() -> None:
    peers = joined(2)
    for rank in range(2):
        peers.add(b"".join(data for _, data in Call(rank, 100 + rank, 110).records()))
    for rank in range(2):
        peers.add(next(Call(rank, 200 + rank, 0).records())[1])
    assert peers.stuck(300, 50) == [(0, ALLREDUCE, 2, 201, (0, 1), ())]
    peers.add(list(Call(0, 200, 310).records())[1][1])
    assert peers.stuck(400, 50) == []


def test_communicators_are_told_apart() -> None:
    """Two pairs split off; within each one rank waits for the other."""
    peers = joined(4)
    handles = {0: 0x10, 1: 0x20, 2: 0x10, 3: 0x30}
    calls = [
        Call(rank, 10 + rank, 20, SPLIT, number=rank // 2, made=handles[rank]) for rank in range(4)
    ]
    calls += [Call(rank, 100 + 10 * rank, 150, handle=handles[rank]) for rank in range(4)]
    records = sorted((r for call in calls for r in call.records()), key=lambda r: r[0])
    peers.add(b"".join(data for _, data in records))
    waits = merged(spans(peers.take()))
    assert [each for each in waits if each[0] >= 100] == [
        (100, 110, pid_of(0)),
        (120, 130, pid_of(2)),
    ]
    sizes = [(row[1], row[2], row[4]) for row in peers.groups()]
    assert sizes == [(1, 4, 1), (2, 2, 1), (2, 2, 1)]


def test_ranks_that_join_by_a_unique_id_need_no_launcher() -> None:
    peers = _peers.Peers(KINDS)
    calls = []
    for rank in range(3):
        peers.join(pid_of(rank), rank, 0, 0, 0)
        calls.append(
            Call(rank, 10 * rank + 1, 40, INIT, 0, id=77, number=rank, size=3, made=0x500 + rank)
        )
        calls.append(Call(rank, 100 - 10 * rank, 120, handle=0x500 + rank))
    records = sorted((r for call in calls for r in call.records()), key=lambda r: r[0])
    peers.add(b"".join(data for _, data in records))
    assert merged(spans(peers.take())) == sorted(
        [
            (1, 21, pid_of(0)),
            (11, 21, pid_of(1)),
            (90, 100, pid_of(1)),
            (80, 100, pid_of(2)),
        ]
    )


def begun_together(ranks: int) -> _peers.Peers:
    """Ranks of a communicator that a unique id names, which nobody had to wait for."""
    peers = _peers.Peers(KINDS)
    calls = []
    for rank in range(ranks):
        peers.join(pid_of(rank), _peers.RANK_NONE, 0, 0, 0)
        about = {"id": 7, "number": rank, "size": ranks, "made": WORLD}
        calls.append(Call(rank, 0, 0, INIT, 0, **about))
    for what in (0, 1):
        peers.add(b"".join(list(call.records())[what][1] for call in calls))
    return peers


@pytest.mark.parametrize(("begin", "wait"), [(BEGIN, DEVICE), (IALLREDUCE, RECV)])
@settings(max_examples=200)
@given(seed=st.integers(0, 1 << 40))
def test_a_wait_for_what_was_begun_is_one_for_ranks_that_have_not(
    begin: int, wait: int, seed: int
) -> None:
    """Each rank begins some operations and then waits, for its device (NCCL) or in MPI_Wait, until
    all have begun them. What a call for messages takes beyond that is a wait for nobody known."""
    chance = random.Random(seed)
    ranks = chance.randrange(2, 6)
    clocks = [10 + chance.randrange(300) for _ in range(ranks)]
    calls: list[Call] = []
    waits: list[Wait] = []
    beyond = 0
    for _ in range(10):
        begun, puts = chance.randrange(1, 5), []
        for rank in range(ranks):
            at = [clocks[rank]]
            for _ in range(begun):
                at.append(at[-1] + 2 + chance.choice((0, 5, 200)))
            puts.append(at[1:])
            calls += [Call(rank, each, each + 1, begin) for each in at[1:]]
        last = max(at[-1] for at in puts)
        for rank in range(ranks):
            since = puts[rank][-1] + 2 + chance.choice((0, 3, 50))
            until = max(since, last) + 1 + chance.randrange(9)
            calls.append(Call(rank, since, until, wait, handle=0))
            beyond += until - max(since, last)
            clocks[rank] = until + chance.choice((1, 40, 400))
            end = until if wait == RECV else last
            if end > since:
                waits.append((since, end, pid_of(rank)))
    peers = begun_together(ranks)
    records = sorted((r for call in calls for r in call.records()), key=lambda r: r[0])
    assert merged(feed(peers, records, chance)) == sorted(waits)
    waited = sum(stop - start for start, stop, _ in waits)
    messages = beyond if wait == RECV else 0
    assert sum(row[5] for row in peers.ranks()) == waited
    assert sum(row[6] for row in peers.ranks()) == messages
    assert sum(row[8] for row in peers.ranks()) == waited - messages
    assert [row[0] for row in peers.ranks()] == list(range(ranks))
    assert not any(peers.losses().values())


def test_own_time_is_without_calls_peers_and_want_of_a_cpu() -> None:
    """Rank 0 computes from 20 to 60 us, of which it has no CPU for 10, and waits for rank 1 from 60
    to 100 and for its own device until 130."""
    peers = begun_together(2)

    def tell(rank: int, at_us: int, call: int, what: int, queued_us: int) -> None:
        about = call, what, 0, 0, queued_us
        peers.add(RECORD.pack(at_us * 1000, WORLD, 0, pid_of(rank), pid_of(rank), *about))

    for rank in range(2):
        tell(rank, 10, DEVICE, _peers.ENTER, 0xFFFFFFFA)
        tell(rank, 20, DEVICE, _peers.LEAVE, 0xFFFFFFFB)
    tell(0, 60, BEGIN, _peers.ENTER, 5)  # the kernel's count has begun anew
    tell(0, 60, BEGIN, _peers.LEAVE, 5)
    tell(0, 60, DEVICE, _peers.ENTER, 5)
    tell(1, 100, BEGIN, _peers.ENTER, 0xFFFFFFFB)
    tell(0, 130, DEVICE, _peers.LEAVE, 7)
    (first, second) = peers.ranks()
    assert (first[11], first[12] - 20_000) == (10_000, 30_000 + 30_000)
    assert (second[11], second[12] - 20_000) == (0, 80_000)


def test_a_begun_operation_that_a_rank_does_not_join_is_stuck() -> None:
    peers = begun_together(3)
    for rank in (0, 2):
        for record in Call(rank, 100 + rank, 103, BEGIN).records():
            peers.add(record[1])
    ((_, call, number, since, waits, missing),) = peers.stuck(300, 50)
    assert (call, number, since, waits) == (BEGIN, 2, 100, (0, 2))
    assert missing == ((1, None, 0),)


@pytest.mark.parametrize(
    "call", [Call(0, 100, 200, RECV, handle=0), Call(0, 100, 200, handle=0x999)]
)
def test_messages_and_strange_communicators_are_waits_for_nobody_known(call: Call) -> None:
    peers = joined(2)
    enter, leave = (data for _, data in call.records())
    peers.add(enter)
    peers.show(150)
    peers.add(leave)
    assert merged(spans(peers.take())) == [(100, 200, pid_of(0))]
    found = [(row[0], row[5], row[6], row[13]) for row in peers.ranks()]
    assert found == [(0, 100, 100, 1), (1, 0, 0, 0)]


@pytest.mark.parametrize(
    ("call", "loss"),
    [(Call(0, 10, 20, handle=0x999), "peers.handle")],
)
def test_what_cannot_be_matched_is_counted(call: Call, loss: str) -> None:
    peers = joined(2)
    peers.add(b"".join(data for _, data in call.records()))
    assert {name: n for name, n in peers.losses().items() if n} == {loss: 1}


def test_an_unseen_return_ends_with_the_next_entry_and_is_counted() -> None:
    peers = joined(2)
    for at in (10, 30):
        peers.add(next(Call(0, at, 0).records())[1])
    peers.add(list(Call(1, 0, 40).records())[1][1])
    assert {name: n for name, n in peers.losses().items() if n} == {
        "peers.return": 1,
        "peers.entry": 1,
    }


def test_a_process_that_is_not_seen_any_more_waits_for_nobody() -> None:
    peers = joined(2)
    for rank in range(2):
        peers.add(b"".join(data for _, data in Call(rank, 10 + rank, 20).records()))
    peers.add(next(Call(0, 100, 0).records())[1])
    peers.show(200)
    peers.blind(pid_of(1))
    peers.show(900)
    assert merged(spans(peers.take())) == [(10, 11, pid_of(0)), (100, 200, pid_of(0))]
    assert peers.stuck(900, 10) == []


def test_tables_have_ends() -> None:
    peers = _peers.Peers(KINDS)
    for pid in range(1, 257):
        assert peers.join(pid, pid - 1, 5, 256, WORLD) == 0
    assert peers.join(300, 0, 5, 256, WORLD) < 0
    assert peers.join(301, 256, 5, 256, WORLD) < 0
    for pid in range(1, 257):
        peers.leave(pid)
    for pid in range(1001, 1257):  # the rows of those that ended
        assert peers.join(pid, pid - 1001, 6, 256, WORLD) == 0


def test_a_job_may_start_ranks_again_and_again() -> None:
    """More starts than there are rows; the sums of the ranks go on."""
    peers = _peers.Peers(KINDS)
    for start in range(600):
        pids = [2 * start + 1, 2 * start + 2]
        for rank, pid in enumerate(pids):
            assert peers.join(pid, rank, start, 2, WORLD) == 0
        t = 1000 * start
        for rank, pid in enumerate(pids):
            peers.add(RECORD.pack(t + 10 * rank, WORLD, 0, pid, pid, ALLREDUCE, 1, 0, 0, 0))
        for pid in pids:
            peers.add(RECORD.pack(t + 20, 0, 0, pid, pid, ALLREDUCE, 2, 0, 0, 0))
            peers.leave(pid)
        peers.take()
    assert [(row[0], row[3], row[5], row[7]) for row in peers.ranks()] == [
        (0, 600, 6000, 0),
        (1, 600, 0, 600),
    ]
