# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the log: entries of packed commands beside raw appends of the same size.

An entry goes the way of the shipped code: it is encoded, chained, signed and appended by
`JetStreamLog`. A raw append is a bare publish of nats-py with the expected last sequence, whose
answer is awaited: it is the floor. Both go to one stream through one broker, one append in flight,
in blocks in ABBA order. Owns that each append of a block has the tail that the one before left.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, NamedTuple

import msgspec
from nats.aio.client import Client as Connection
from nats.aio.msg import Msg

from stoker.mesh.broker.broker_config import LOG_MAX_BYTES
from stoker.mesh.client.bench_submit import percentile
from stoker.mesh.connection import process_connection
from stoker.mesh.connection.broker_connection import ConnectionCallbacks
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.connection.requests import Requests
from stoker.mesh.identity import identity
from stoker.mesh.identity.identity import Signs
from stoker.mesh.log import entry as entries
from stoker.mesh.log.jetstream_log import API_TIMEOUT_S, JetStreamLog, StreamConfig
from stoker.mesh.wire import subjects
from stoker.native.errors import StokerError, Unavailable
from stoker.tui.bench.brokers import CLUSTER, LISTEN_S, Broker

COMMANDS: Final = 64
COMMAND_BYTES: Final = 256
WARM_UP: Final = 20
BLOCK_S: Final = 120.0
"""The longest time for one block."""
LEADER: Final = 1


class AppendRow(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of a stream with `replicas` copies; `raw_*` are those of the floor.

    A latency is the time of one append with all that belongs to it, in ms. `ratio` is
    appends_per_s / raw_per_s.
    """

    replicas: int
    appends: int
    """The appends of each kind."""
    entry_bytes: int
    appends_per_s: float
    commands_per_s: float
    p50_ms: float
    p99_ms: float
    raw_per_s: float
    raw_p50_ms: float
    raw_p99_ms: float
    ratio: float


class _Place(msgspec.Struct):
    leader: str = ""


class _Refusal(msgspec.Struct):
    description: str = ""


class _Answer(msgspec.Struct):
    """The fields of JetStream's answers that are used here."""

    seq: int = 0
    error: _Refusal | None = None
    cluster: _Place | None = None


_answers = msgspec.json.Decoder(_Answer)
Append = Callable[[int], Awaitable[int]]
"""Appends behind this tail and returns the new tail."""


class LogConnection(NamedTuple):
    """One connection as the scheduler makes it, and the requests on it."""

    connection: Connection
    requests: Requests


async def connected(broker: Broker) -> LogConnection:
    """Connect to a broker as the scheduler's own connection for the log does."""
    connection = LocalConnection()
    requests = Requests(connection)
    callbacks = ConnectionCallbacks(requests.on_error, requests.on_lost, _nothing)
    await process_connection.connect(connection, broker.state, "bench", callbacks)
    return LogConnection(connection, requests)


async def make_stream(brokers: Sequence[Broker]) -> Broker:
    """Make the log's stream with a copy on each broker; return the broker that leads it."""
    link = await connected(brokers[0])
    config = StreamConfig(num_replicas=len(brokers), metadata={"cluster": CLUSTER, "format": "1"})
    try:
        answer = await _created(link.requests, msgspec.json.encode(config))
    finally:
        await link.connection.close()
    leader = answer.cluster.leader if answer.cluster is not None else ""
    return next((broker for broker in brokers if broker.name == leader), brokers[0])


async def _created(requests: Requests, body: bytes) -> _Answer:
    """Create the stream as soon as the brokers have found each other."""
    deadline = time.monotonic() + LISTEN_S
    subject = f"$JS.API.STREAM.CREATE.{subjects.LOG_STREAM}"
    while True:
        why = ""
        try:
            answer = _answers.decode(await requests.request(subject, body, API_TIMEOUT_S))
            if answer.error is None:
                return answer
            why = answer.error.description
        except Unavailable as error:
            why = error.message
        if time.monotonic() > deadline:
            raise Unavailable(f"the brokers make no stream: {why}")
        await asyncio.sleep(0.1)


async def measure(brokers: Sequence[Broker], rounds: int, appends: int) -> AppendRow:
    """Measure `rounds` times four blocks of `appends`: packed, raw, raw, packed."""
    leader = await make_stream(brokers)
    shipped, bare = await connected(leader), await connected(leader)
    try:
        log = JetStreamLog(shipped.requests, CLUSTER, LOG_MAX_BYTES)
        await log.open(may_make=False)
        signer = identity.load(process_connection.key_file(leader.state))
        packed = PackedAppends(log, signer)
        raw = RawAppends(bare.connection, packed.entry_bytes)
        await raw.begin()
        return await _alternate(packed, raw, rounds, appends, len(brokers))
    finally:
        await shipped.connection.close()
        await bare.connection.close()


async def _alternate(
    packed: PackedAppends, raw: RawAppends, rounds: int, appends: int, replicas: int
) -> AppendRow:
    tail = 0
    for append in (packed.append, raw.append):
        tail, _ = await block(append, tail, WARM_UP)
    packed_ns: list[int] = []
    raw_ns: list[int] = []
    for _ in range(rounds):
        for append, taken in (
            (packed.append, packed_ns), (raw.append, raw_ns),
            (raw.append, raw_ns), (packed.append, packed_ns),
        ):  # fmt: skip
            tail, latencies = await block(append, tail, appends)
            taken.extend(latencies)
            await packed.trim(tail)
    return row(packed_ns, raw_ns, packed.entry_bytes, replicas)


async def block(append: Append, tail: int, count: int) -> tuple[int, list[int]]:
    """Append `count` times behind `tail`; return the new tail and the ns of each append."""
    latencies = []
    async with asyncio.timeout(BLOCK_S):
        for _ in range(count):
            began_ns = time.monotonic_ns()
            tail = await append(tail)
            latencies.append(time.monotonic_ns() - began_ns)
    return tail, latencies


def row(packed_ns: list[int], raw_ns: list[int], entry_bytes: int, replicas: int) -> AppendRow:
    """Return the figures of as many packed as raw appends, by the ns that each took."""
    packed, raw = sorted(packed_ns), sorted(raw_ns)
    per_s, raw_per_s = len(packed) / sum(packed) * 1e9, len(raw) / sum(raw) * 1e9
    return AppendRow(
        replicas=replicas,
        appends=len(packed),
        entry_bytes=entry_bytes,
        appends_per_s=per_s,
        commands_per_s=per_s * COMMANDS,
        p50_ms=percentile(packed, 50) / 1e6,
        p99_ms=percentile(packed, 99) / 1e6,
        raw_per_s=raw_per_s,
        raw_p50_ms=percentile(raw, 50) / 1e6,
        raw_p99_ms=percentile(raw, 99) / 1e6,
        ratio=per_s / raw_per_s,
    )


class PackedAppends:
    """Entries of COMMANDS opaque commands, each of COMMAND_BYTES, sealed and appended."""

    def __init__(self, log: JetStreamLog, signer: Signs) -> None:
        self._log = log
        self._signer = signer
        self._commands = [os.urandom(COMMAND_BYTES) for _ in range(COMMANDS)]
        self._hash = entries.NO_HASH
        self.entry_bytes = len(self._sealed(1 << 20).data)
        """The bytes of an entry whose number takes as much room as most do."""

    def _sealed(self, tail: int) -> entries.Sealed:
        entry = entries.Entry(
            entries.FORMAT, CLUSTER, 1, LEADER, tail + 1, tail, self._hash, tail, time.time_ns(),
            b"".join(self._commands),
        )  # fmt: skip
        return entries.seal(entry, self._signer)

    async def append(self, tail: int) -> int:
        """Seal one entry and append it behind `tail`; return the new tail."""
        sealed = self._sealed(tail)
        seq = await self._log.append_at(tail, sealed.data, f"{LEADER:x}-{tail:x}")
        self._hash = sealed.hash
        return seq

    async def trim(self, tail: int) -> None:
        """Make room for the next block."""
        await self._log.trim(tail)


class RawAppends:
    """Publishes of nats-py with the expected last sequence, each answered before the next."""

    def __init__(self, connection: Connection, size: int) -> None:
        self._connection = connection
        self._data = os.urandom(size)
        self._inbox = connection.new_inbox()
        self._answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def begin(self) -> None:
        """Subscribe to the answers; call this before the first append."""
        await self._connection.subscribe(self._inbox, cb=self._answered)

    async def append(self, tail: int) -> int:
        """Publish once behind `tail`; return the new tail, or raise what JetStream refused."""
        self._answer = asyncio.get_running_loop().create_future()
        headers = {"Nats-Expected-Last-Sequence": str(tail)}
        await self._connection.publish(subjects.LOG, self._data, self._inbox, headers)
        answer = _answers.decode(await self._answer)
        if answer.error is not None:
            raise StokerError(f"a raw append was refused: {answer.error.description}")
        return answer.seq

    async def _answered(self, message: Msg) -> None:
        if not self._answer.done():
            self._answer.set_result(message.data)


async def _nothing() -> None:
    """Do nothing when a connection is back: an append that was lost ends the bench."""
