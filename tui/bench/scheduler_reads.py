# SPDX-License-Identifier: Apache-2.0
"""The benchmark of reads at three schedulers: at the leader, at a follower, and stale ones there.

Brokers and schedulers are the product's processes on loopback, one of each for a server; they have
no node, so no job starts. A read is `job.get` of one job, sent through the broker of the scheduler
that answers, and awaited before the next one. Owns the order: the kinds take turns in blocks, so
that all of them meet the same machine.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from stoker.mesh.client.bench_submit import percentile
from stoker.mesh.client.client import Client
from stoker.mesh.client.read_choice import AT_THE_LEADER, ReadChoice
from stoker.mesh.connection import client_connection
from stoker.mesh.connection.client_connection import ClientConnection
from stoker.mesh.connection.process_connection import key_file
from stoker.mesh.identity import identity
from stoker.mesh.log.genesis import member_number
from stoker.mesh.replica.new_cluster import founding_several
from stoker.mesh.wire import schema, subjects
from stoker.native.errors import StokerError, Unavailable
from stoker.scheduler.core import Limits
from stoker.tui.bench import leader_submits
from stoker.tui.bench.brokers import CLUSTER, LISTEN_S, Broker

SERVERS: Final = 3
KINDS: Final = ("leader", "follower", "follower, stale")
BLOCKS: Final = 4
"""The blocks of each kind in a round; their order turns from one to the next."""
WARM_UP: Final = 50
ANSWER_S: Final = 5.0
ROUND_S: Final = 300.0
"""The longest time for one round."""


class ReadRow(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one kind of reads, in ms of all rounds.

    `ratio` is the p50 of a round over that of the leader's reads in the same round, in the round in
    which it was best; `added_p50_ms` is the difference there.
    """

    kind: str
    reads: int
    p50_ms: float
    p99_ms: float
    ratio: float
    added_p50_ms: float


class _Door(NamedTuple):
    """One kind of read: the connection, the subject and the request."""

    client: ClientConnection
    subject: str
    data: bytes

    async def read(self) -> None:
        """Read once; raise what the scheduler refused."""
        reply = await self.client.request(self.subject, self.data, ANSWER_S)
        schema.decode_reply("job", "get", reply)


@contextlib.contextmanager
def running(brokers: Sequence[Broker]) -> Iterator[None]:
    """Run a scheduler at each of these brokers."""
    keys = [identity.load(key_file(broker.state)).public for broker in brokers]
    accounts = [leader_submits.accounts(broker) for broker in brokers]
    founds = founding_several(CLUSTER, keys, Limits(), accounts[0])
    with contextlib.ExitStack() as stack:
        for broker in brokers:
            leader_submits.write_state(broker, founds)
            stack.enter_context(leader_submits.started(broker))
        yield


async def measure(brokers: Sequence[Broker], rounds: int, reads: int) -> tuple[ReadRow, ...]:
    """Measure `rounds` rounds of `reads` of each kind."""
    doors = await _doors(brokers)
    try:
        for door in doors:
            await _block(door, WARM_UP)
        taken = [await _round(doors, reads) for _ in range(rounds)]
    finally:
        for door in doors:
            await door.client.close()
    return rows(taken)


async def _doors(brokers: Sequence[Broker]) -> list[_Door]:
    """Submit the job that is read, and return the door of each kind."""
    async with Client.open(brokers[0].user, patience_s=LISTEN_S) as client:
        job = (await client.submit(schema.JobRequest(argv=("true",), cwd="/", name="noop"))).job
        found = await client.cluster()
    leader = next(each.number for each in found.schedulers if each.leads)
    by_number = {
        member_number(identity.load(key_file(broker.state)).public): broker for broker in brokers
    }
    follower = next(number for number in by_number if number != leader)
    at = ReadChoice(subjects.at(follower))
    choices = (AT_THE_LEADER, at, at._replace(stale=True))
    doors = []
    for choice, number in zip(choices, (leader, follower, follower), strict=True):
        door_client = await client_connection.connect(by_number[number].user)
        subject, request = choice.applied("job", "get", schema.GetRequest(job=job))
        doors.append(_Door(door_client, subject, schema.encode(request)))
    for door in doors:
        await _answers(door)
    return doors


async def _answers(door: _Door) -> None:
    """Return as soon as a read is answered; a follower may not have heard who leads yet."""
    deadline = time.monotonic() + LISTEN_S
    while True:
        try:
            await door.read()
            return
        except StokerError as error:
            if time.monotonic() > deadline:
                raise Unavailable(f"no read is answered: {error.message}") from None
        await asyncio.sleep(0.1)


async def _round(doors: Sequence[_Door], reads: int) -> list[list[int]]:
    """Return the ns of each read of one round, by kind."""
    taken: list[list[int]] = [[] for _ in doors]
    each = -(-reads // BLOCKS)
    async with asyncio.timeout(ROUND_S):
        for block in range(BLOCKS):
            order = range(len(doors))
            for kind in order if block % 2 == 0 else reversed(order):
                taken[kind] += await _block(doors[kind], min(each, reads - len(taken[kind])))
    return taken


async def _block(door: _Door, count: int) -> list[int]:
    latencies = []
    for _ in range(count):
        began_ns = time.monotonic_ns()
        await door.read()
        latencies.append(time.monotonic_ns() - began_ns)
    return latencies


def rows(rounds: Sequence[Sequence[Sequence[int]]]) -> tuple[ReadRow, ...]:
    """Return the figures by the ns of each read, by round and kind; the first is the leader's."""
    made = []
    for kind, name in enumerate(KINDS):
        pooled = sorted(ns for taken in rounds for ns in taken[kind])
        halves = [
            (percentile(sorted(taken[kind]), 50), percentile(sorted(taken[0]), 50))
            for taken in rounds
        ]
        own, leaders = min(halves, key=lambda half: half[0] / half[1])
        made.append(
            ReadRow(
                kind=name,
                reads=len(pooled),
                p50_ms=percentile(pooled, 50) / 1e6,
                p99_ms=percentile(pooled, 99) / 1e6,
                ratio=own / leaders,
                added_p50_ms=(own - leaders) / 1e6,
            )
        )
    return tuple(made)
