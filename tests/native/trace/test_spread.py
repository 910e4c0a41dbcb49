# SPDX-License-Identifier: Apache-2.0
"""Communicators with ranks on other hosts: what their members here have done."""

from __future__ import annotations

import pytest

from stoker.native import _peers
from tests.native.trace.test_peers import (
    ALLREDUCE,
    BEGIN,
    DEVICE,
    INIT,
    KINDS,
    RECORD,
    SPLIT,
    START,
    WORLD,
    pid_of,
)

SIZE = 4
"""The ranks of the communicator, of which two are here."""


@pytest.fixture
def peers() -> _peers.Peers:
    made = _peers.Peers(KINDS)
    for rank in range(2):
        assert made.join(pid_of(rank), rank, 5, SIZE, WORLD) == 0
    return made


def call(peers: _peers.Peers, rank: int, at: int, number: int, *, handle: int = WORLD) -> None:
    pid = pid_of(rank)
    peers.add(RECORD.pack(at, handle, 9, pid, pid, number, _peers.ENTER, rank, SIZE, 0))


def leave(peers: _peers.Peers, rank: int, at: int, number: int, *, handle: int = 0) -> None:
    pid = pid_of(rank)
    peers.add(RECORD.pack(at, handle, 0, pid, pid, number, _peers.LEAVE, 0, 0, 0))


def doings(peers: _peers.Peers) -> list[tuple[int, int, int | None, int, bool]]:
    """(rank, entered, call, since, from the start) of the members of the only one."""
    ((_, size, _, members),) = peers.spread()
    assert size == SIZE
    return sorted((rank, n, call, ns, start) for rank, _, n, call, ns, start in members)


def test_calls_are_counted_and_nothing_is_matched(peers: _peers.Peers) -> None:
    call(peers, 0, 5, START)
    leave(peers, 0, 6, START)
    for n in range(100):  # more than wait for others at a time
        for rank in range(2):
            call(peers, rank, 10 * n + 10, ALLREDUCE)
            leave(peers, rank, 10 * n + 12, ALLREDUCE)
    call(peers, 1, 2000, ALLREDUCE)
    assert doings(peers) == [(0, 100, ALLREDUCE, 0, True), (1, 101, ALLREDUCE, 2000, False)]
    ((_, _, _, aligned, operations, _, _),) = peers.groups()
    assert (aligned, operations) == (False, 0)
    assert {name for name, n in peers.losses().items() if n} == set()
    assert peers.stuck(10_000, 10) == [] and peers.take() == {}


def test_the_members_that_are_gone_are_not_told(peers: _peers.Peers) -> None:
    call(peers, 0, 10, ALLREDUCE)
    peers.leave(pid_of(0))
    assert [row[0] for row in doings(peers)] == [1]


def test_a_communicator_whose_ranks_are_all_here_is_none(peers: _peers.Peers) -> None:
    for rank in (2, 3):
        peers.join(pid_of(rank), rank, 5, SIZE, WORLD)
    assert peers.spread() == []


def test_what_a_device_waits_for_ranks_elsewhere_is_not_its_own(peers: _peers.Peers) -> None:
    """NCCL: ranks put operations, which return at once, and wait for their device."""
    handle = 77
    for rank in range(2):
        call(peers, rank, 100 + rank, INIT)
        leave(peers, rank, 200 + rank, INIT, handle=handle)
    nccl = [row for row in peers.spread() if row[0] != 5]
    ((_, _, _, members),) = nccl
    assert [row[2] for row in members] == [1, 1]
    call(peers, 0, 1000, BEGIN, handle=handle)
    leave(peers, 0, 1001, BEGIN)
    call(peers, 0, 1002, DEVICE)
    ((_, _, _, members),) = [row for row in peers.spread() if row[0] != 5]
    assert {row[0]: (row[2], row[4], row[5]) for row in members} == {
        0: (2, 1002, True),
        1: (1, 0, True),
    }
    leave(peers, 0, 9000, DEVICE)
    assert own(peers)[0] == 800 + 1  # before the operation, and before the wait
    call(peers, 0, 9010, DEVICE)  # nothing is under way any more
    leave(peers, 0, 9110, DEVICE)
    assert own(peers)[0] == 801 + 10 + 100


def own(peers: _peers.Peers) -> dict[int, int]:
    return {row[0]: row[12] for row in peers.ranks()}


def split(peers: _peers.Peers, rank: int, at: int, colour: int, handle: int) -> None:
    pid = pid_of(rank)
    peers.add(RECORD.pack(at, WORLD, 9, pid, pid, SPLIT, _peers.ENTER, colour, SIZE, 0))
    leave(peers, rank, at + 1, SPLIT, handle=handle)


def host(ranks: tuple[int, ...]) -> _peers.Peers:
    """Return what is known on a host of these ranks, whose calls are seen from their start."""
    made = _peers.Peers(KINDS)
    for rank in ranks:
        made.join(pid_of(rank), rank, 5, SIZE, WORLD)
        call(made, rank, 1, START)
        leave(made, rank, 2, START)
    return made


def test_a_communicator_that_is_split_over_hosts_has_one_key_on_all_of_them() -> None:
    parts: dict[int, dict[int, int]] = {}
    for ranks in ((0, 1), (2, 3)):
        peers = host(ranks)
        for rank in ranks:
            call(peers, rank, 10, ALLREDUCE)
            leave(peers, rank, 11, ALLREDUCE)
            split(peers, rank, 20, rank % 2, 100)
        for rank in ranks:
            for _ in range(rank + 1):
                call(peers, rank, 30, ALLREDUCE, handle=100)
                leave(peers, rank, 31, ALLREDUCE)
        made = [row for row in peers.spread() if row[0] != 5]
        for key, size, part, members in made:
            assert size == SIZE
            for rank, _, entered, _, since, from_start in members:
                assert (part, entered, since, from_start) == (rank % 2, rank + 1, 0, True)
                parts.setdefault(key, {})[rank] = part
        assert {n for n, lost in peers.losses().items() if lost} == set()
    assert list(parts.values()) == [{0: 0, 1: 1, 2: 0, 3: 1}]


def test_two_splits_are_two_and_one_that_is_not_counted_is_none() -> None:
    peers = host((0, 1))
    for at, handle in ((20, 100), (40, 200)):
        for rank in range(2):
            split(peers, rank, at, 0, handle)
    assert len({row[0] for row in peers.spread()}) == 3
    late = _peers.Peers(KINDS)
    for rank in range(2):
        late.join(pid_of(rank), rank, 5, SIZE, WORLD)
        split(late, rank, 20, 0, 100)
    assert [row[0] for row in late.spread()] == [5]
    assert late.losses()["peers.handle"] == 0
    call(late, 0, 30, ALLREDUCE, handle=100)
    assert late.losses()["peers.handle"] == 1


def test_a_process_is_counted_from_its_start_if_that_is_known_otherwise() -> None:
    peers = _peers.Peers(KINDS)
    for rank in range(2):
        peers.join(pid_of(rank), rank, 5, SIZE, WORLD)
        peers.start(pid_of(rank))
        split(peers, rank, 20, 0, 100)
    peers.start(99)  # nobody
    assert len(peers.spread()) == 2
