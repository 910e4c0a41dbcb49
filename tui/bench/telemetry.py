# SPDX-License-Identifier: Apache-2.0
"""The benchmark of telemetry: CPU per published message, kept in a memory stream and only live, and
the latency of the log beside a flood of them.

One broker with the product's configuration and one publisher that waits for nothing. Blocks with
and without the stream take turns in ABBA order, so that both see the same machine. Times are CPU
times of the processes, not of the clock.
"""

from __future__ import annotations

import asyncio
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from stoker.mesh.connection import process_connection
from stoker.mesh.connection.broker_connection import ConnectionCallbacks
from stoker.mesh.connection.local_connection import LocalConnection
from stoker.mesh.connection.requests import Requests
from stoker.mesh.telemetry.stream_owner import API_TIMEOUT_S, StreamOwner
from stoker.mesh.wire import subjects
from stoker.mesh.wire.telemetry_streams import stream_of
from stoker.tui.bench import brokers, telemetry_flood
from stoker.tui.bench.brokers import USER, Broker
from stoker.tui.bench.telemetry_flood import FloodLoad

SIZES: Final = (400, 8_000)
"""Bytes of a message: one decision alone, and a batch of twenty."""
FLUSH_EVERY: Final = 64
"""Messages between two waits for the broker to have read them."""
ORDER: Final = (True, False, False, True)
STREAM: Final = stream_of("decisions")


class TelemetryRow(msgspec.Struct, frozen=True, kw_only=True):
    """CPU time in ns for one message of this size; `kept` with the stream, `live` without."""

    message_bytes: int
    messages: int
    """The messages of each kind."""
    broker_kept_ns: float
    broker_live_ns: float
    publisher_kept_ns: float
    publisher_live_ns: float


class _Spent:
    """CPU time of the broker and of this process."""

    def __init__(self) -> None:
        self.broker_ns = self.publisher_ns = self.messages = 0


def measure(
    rounds: int, messages: int, flood: FloodLoad, say: Callable[[str], None]
) -> dict[str, object]:
    """Measure all sizes, and the log beside a flood; `messages` are those of one block."""
    with (
        tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder,
        brokers.running(Path(folder), 1) as (broker,),
    ):
        rows = asyncio.run(_rows(broker, rounds, messages, say))
        row = asyncio.run(telemetry_flood.measure(broker, flood, say))
    return {
        "schema": "stoker/v1",
        "rows": [msgspec.to_builtins(row) for row in rows],
        "log": msgspec.to_builtins(row),
    }


def text(result: dict[str, object]) -> str:
    """Return the result as a table."""
    rows: list[dict[str, float]] = result["rows"]  # type: ignore[assignment]
    lines = [f"{'BYTES':>6} {'BROKER KEPT':>12} {'LIVE':>9} {'PUBLISHER KEPT':>15} {'LIVE':>9}"]
    for row in rows:
        broker = f"{row['broker_kept_ns']:>9.0f} ns {row['broker_live_ns']:>6.0f} ns"
        own = f"{row['publisher_kept_ns']:>12.0f} ns {row['publisher_live_ns']:>6.0f} ns"
        lines.append(f"{row['message_bytes']:>6} {broker} {own}")
    flood: dict[str, float] = result["log"]  # type: ignore[assignment]
    return "\n".join(lines) + "\n\n" + telemetry_flood.text(flood)


async def _rows(
    broker: Broker, rounds: int, messages: int, say: Callable[[str], None]
) -> list[TelemetryRow]:
    nc = LocalConnection()
    requests = Requests(nc)
    callbacks = ConnectionCallbacks(requests.on_error, requests.on_lost, _nothing)
    await process_connection.connect(nc, broker.state, "bench", callbacks)
    try:
        found = []
        for size in SIZES:
            spent = {True: _Spent(), False: _Spent()}
            for number in range(rounds):
                for kept in ORDER:
                    await _keep(requests, kept=kept)
                    await _block(broker, requests, size, messages // 8, _Spent())
                    await _block(broker, requests, size, messages, spent[kept])
                say(f"{size} bytes: round {number + 1} of {rounds}")
            found.append(_row(size, spent[True], spent[False]))
        return found
    finally:
        await nc.close()


def _row(size: int, with_it: _Spent, without: _Spent) -> TelemetryRow:
    return TelemetryRow(
        message_bytes=size,
        messages=with_it.messages,
        broker_kept_ns=with_it.broker_ns / with_it.messages,
        broker_live_ns=without.broker_ns / without.messages,
        publisher_kept_ns=with_it.publisher_ns / with_it.messages,
        publisher_live_ns=without.publisher_ns / without.messages,
    )


async def _keep(requests: Requests, *, kept: bool) -> None:
    """Have the stream, or have none."""
    if kept:
        await StreamOwner(requests).look()
    else:
        await requests.request(f"$JS.API.STREAM.DELETE.{STREAM.name}", b"", API_TIMEOUT_S)


async def _block(
    broker: Broker, requests: Requests, size: int, messages: int, spent: _Spent
) -> None:
    nc, subject, data = requests.connection, subjects.decisions(USER), b"x" * size
    broker_ns, own_ns = _cpu_ns(broker.process.pid), time.process_time_ns()
    for number in range(messages):
        await nc.publish(subject, data)
        if number % FLUSH_EVERY == 0:
            await nc.flush()
    await nc.flush()
    spent.broker_ns += _cpu_ns(broker.process.pid) - broker_ns
    spent.publisher_ns += time.process_time_ns() - own_ns
    spent.messages += messages


def _cpu_ns(pid: int) -> int:
    """Return the CPU time of a process (clock_getcpuclockid(3): CPUCLOCK_SCHED of the pid)."""
    return time.clock_gettime_ns(~pid << 3 | 2)


async def _nothing() -> None:
    """Do nothing after a reconnect: the next request fails by itself."""
