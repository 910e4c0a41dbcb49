# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the log beside a flood of telemetry: how long one append takes with and without.

One broker with the product's configuration has the log on disk and the streams of telemetry in
memory. Entries are sealed and appended as shipped, one in flight; the flood is a process of its own
of a given rate. Blocks with and without it take turns in ABBA order.
Owns that the flood has begun before a block with it begins, and has ended before one without.
"""

from __future__ import annotations

import asyncio
import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from stoker.mesh.broker.broker_config import LOG_MAX_BYTES
from stoker.mesh.client.bench_submit import percentile
from stoker.mesh.connection import process_connection
from stoker.mesh.connection.broker_connection import ConnectionCallbacks
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.connection.requests import Requests
from stoker.mesh.identity import identity
from stoker.mesh.log.jetstream_log import JetStreamLog
from stoker.mesh.telemetry.stream_owner import StreamOwner
from stoker.mesh.wire import subjects
from stoker.native.errors import Unavailable
from stoker.tui.bench import log_appends
from stoker.tui.bench.brokers import CLUSTER, USER, Broker

MESSAGE_BYTES: Final = 8_000
"""Bytes of a message of the flood: a batch of twenty decisions."""
FLUSH_EVERY: Final = 64
"""Messages between two waits for the broker to have read them."""
BATCHES_A_SECOND: Final = 50
"""A flood of a given rate comes in as many batches, if these are no larger than FLUSH_EVERY."""
ORDER: Final = (False, True, True, False)
BEGIN_S: Final = 30.0
"""The longest time until the flood flows."""
FLOWS: Final = b"flows\n"


class FloodLoad(NamedTuple):
    """Rounds of four blocks, appends of a block, and messages of the flood in a second; with 0 it
    publishes as many as the broker reads."""

    rounds: int
    appends: int
    rate: int


class FloodRow(msgspec.Struct, frozen=True, kw_only=True):
    """The latency of one append in ms; `quiet` without the flood."""

    appends: int
    """The appends of each kind."""
    entry_bytes: int
    quiet_p50_ms: float
    quiet_p99_ms: float
    flood_p50_ms: float
    flood_p99_ms: float
    flood_message_bytes: int
    flood_messages_per_s: float


class _Flood:
    """The messages of the flood, and for how long it flowed."""

    def __init__(self) -> None:
        self.messages = 0
        self.ns = 0


async def measure(broker: Broker, load: FloodLoad, say: Callable[[str], None]) -> FloodRow:
    """Measure each round in four blocks of appends: quiet, flood, flood, quiet."""
    await log_appends.make_stream([broker])
    link = await log_appends.connected(broker)
    try:
        await StreamOwner(link.requests).look()
        log = JetStreamLog(link.requests, CLUSTER, LOG_MAX_BYTES)
        await log.open(may_make=False)
        signer = identity.load(process_connection.key_file(broker.state))
        packed = log_appends.PackedAppends(log, signer)
        tail, _ = await log_appends.block(packed.append, 0, log_appends.WARM_UP)
        taken: dict[bool, list[int]] = {True: [], False: []}
        flood = _Flood()
        for number in range(load.rounds):
            for flooded in ORDER:
                around = _flowing(broker, load.rate, flood) if flooded else contextlib.nullcontext()
                async with around:
                    tail, latencies = await log_appends.block(packed.append, tail, load.appends)
                taken[flooded].extend(latencies)
                await packed.trim(tail)
            say(f"appends beside a flood: round {number + 1} of {load.rounds}")
    finally:
        await link.connection.close()
    return _row(taken[False], taken[True], packed.entry_bytes, flood)


def _row(quiet_ns: list[int], flood_ns: list[int], entry_bytes: int, flood: _Flood) -> FloodRow:
    quiet, flooded = sorted(quiet_ns), sorted(flood_ns)
    return FloodRow(
        appends=len(quiet),
        entry_bytes=entry_bytes,
        quiet_p50_ms=percentile(quiet, 50) / 1e6,
        quiet_p99_ms=percentile(quiet, 99) / 1e6,
        flood_p50_ms=percentile(flooded, 50) / 1e6,
        flood_p99_ms=percentile(flooded, 99) / 1e6,
        flood_message_bytes=MESSAGE_BYTES,
        flood_messages_per_s=flood.messages / max(flood.ns, 1) * 1e9,
    )


def text(row: dict[str, float]) -> str:
    """Return the figures as a table."""
    rate = row["flood_messages_per_s"]
    bytes_ = row["flood_message_bytes"]
    return "\n".join(
        [
            f"{'APPEND OF ' + str(row['entry_bytes']) + ' BYTES':<46} {'P50':>10} {'P99':>10}",
            f"{'quiet':<46} {row['quiet_p50_ms']:>7.2f} ms {row['quiet_p99_ms']:>7.2f} ms",
            f"{f'beside {rate:,.0f} messages/s of {bytes_} bytes':<46}"
            f" {row['flood_p50_ms']:>7.2f} ms {row['flood_p99_ms']:>7.2f} ms",
            "",
        ]
    )


def _pouring(broker: Broker, rate: int) -> subprocess.Popen[bytes]:
    argv = (sys.executable, "-m", __name__, str(broker.state), str(rate))
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)


@contextlib.asynccontextmanager
async def _flowing(broker: Broker, rate: int, flood: _Flood) -> AsyncIterator[None]:
    """Have the flood flow inside the block, and count what it published there."""
    with _pouring(broker, rate) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            async with asyncio.timeout(BEGIN_S):
                if await asyncio.to_thread(process.stdout.readline) != FLOWS:
                    raise Unavailable("the flood of telemetry did not begin")
            began_ns = time.monotonic_ns()
            yield
            process.stdin.close()
            flood.messages += int(await asyncio.to_thread(process.stdout.read))
            flood.ns += time.monotonic_ns() - began_ns
        finally:
            process.kill()


async def _pour(state: Path, rate: int, over: threading.Event) -> int:
    """Publish `rate` messages a second until `over`, with 0 as many as the broker reads; return
    how many were published."""
    nc = LocalConnection()
    requests = Requests(nc)
    callbacks = ConnectionCallbacks(requests.on_error, requests.on_lost, _nothing)
    await process_connection.connect(nc, state, "bench flood", callbacks)
    subject, data = subjects.decisions(USER), b"x" * MESSAGE_BYTES
    batch = min(FLUSH_EVERY, max(1, rate // BATCHES_A_SECOND)) if rate else FLUSH_EVERY
    count, began_s = 0, time.monotonic()
    while not over.is_set():
        for _ in range(batch):
            await nc.publish(subject, data)
        await nc.flush()
        count += batch
        if count == batch:
            sys.stdout.buffer.write(FLOWS)
            sys.stdout.flush()
        due_s = began_s + count / rate if rate else 0.0
        await asyncio.sleep(max(0.0, due_s - time.monotonic()))
    await nc.close()
    return count


async def _nothing() -> None:
    """Do nothing after a reconnect: the next message fails by itself."""


def _until_closed(over: threading.Event) -> None:
    sys.stdin.buffer.read()
    over.set()


def main() -> None:
    """Pour telemetry into the broker of this state folder until the input ends."""
    over = threading.Event()
    threading.Thread(target=_until_closed, args=(over,), daemon=True).start()
    print(asyncio.run(_pour(Path(sys.argv[1]), int(sys.argv[2]), over)))


if __name__ == "__main__":
    main()
