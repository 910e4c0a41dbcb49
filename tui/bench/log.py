# SPDX-License-Identifier: Apache-2.0
"""`stoker bench log`: the brokers that it starts, its measurements, and the result as a table."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from stoker.mesh.wire import schema
from stoker.native.errors import Unavailable
from stoker.tui.bench import brokers, decide, leader_submits, log_appends, scheduler_reads
from stoker.tui.bench.leader_submits import LeaderRow
from stoker.tui.bench.log_appends import AppendRow
from stoker.tui.bench.scheduler_reads import ReadRow

T = TypeVar("T")
REPLICAS: Final = (1, 3)


class LogLoad(msgspec.Struct, frozen=True):
    """The amount of work: rounds, appends of a block, submits and reads of one kind of a round."""

    rounds: int
    appends: int
    submits: int
    reads: int


class LogResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result: one row of appends for each of REPLICAS, one leader with a stream of one, and the
    reads of each kind at three schedulers."""

    schema: str = schema.VERSION
    bench: str = "log"
    commands_per_entry: int = log_appends.COMMANDS
    command_bytes: int = log_appends.COMMAND_BYTES
    rows: tuple[AppendRow, ...]
    leader: LeaderRow
    reads: tuple[ReadRow, ...]
    cpu: str


def measure(load: LogLoad, say: Callable[[str], None]) -> LogResult:
    """Measure in a temporary folder; no process is left running."""
    with tempfile.TemporaryDirectory(prefix="stoker-bench-") as folder:
        rows = tuple(_appends(Path(folder, f"r{count}"), count, load, say) for count in REPLICAS)
        leader = _leader(Path(folder, "leader"), load, say)
        reads = _reads(Path(folder, "reads"), load, say)
    return LogResult(rows=rows, leader=leader, reads=reads, cpu=decide.cpu())


def _appends(folder: Path, replicas: int, load: LogLoad, say: Callable[[str], None]) -> AppendRow:
    appends = 2 * load.rounds * load.appends
    say(f"{appends} packed and {appends} raw appends to a log of {replicas} replicas")
    with brokers.running(folder, replicas) as group:
        return _run(log_appends.measure(group, load.rounds, load.appends))


def _leader(folder: Path, load: LogLoad, say: Callable[[str], None]) -> LeaderRow:
    say(f"{load.rounds * load.submits} submits through one leader")
    with brokers.running(folder, 1) as (broker,), leader_submits.running(broker) as pid:
        return _run(leader_submits.measure(broker, pid, load.rounds, load.submits))


def _reads(folder: Path, load: LogLoad, say: Callable[[str], None]) -> tuple[ReadRow, ...]:
    say(f"{load.rounds * load.reads} reads of each kind at {scheduler_reads.SERVERS} schedulers")
    with (
        brokers.running(folder, scheduler_reads.SERVERS, servers=True) as group,
        scheduler_reads.running(group),
    ):
        return _run(scheduler_reads.measure(group, load.rounds, load.reads))


def _run(measured: Coroutine[Any, Any, T]) -> T:
    try:
        return asyncio.run(measured)
    except TimeoutError:
        raise Unavailable("the bench's broker or scheduler did not answer in time") from None


def text(result: LogResult) -> str:
    """The rows as a table, then the leader."""
    lines = [
        f"entries of {result.commands_per_entry} commands of {result.command_bytes} B,"
        " one append in flight; raw: bare publishes of the same size",
        " COPIES  APPENDS/S  COMMANDS/S       P50       P99   RAW/S   RAW P50   RAW P99  RATIO",
    ]
    for row in result.rows:
        lines.append(
            f"{row.replicas:7} {row.appends_per_s:10.0f} {row.commands_per_s:11.0f}"
            f" {row.p50_ms:6.2f} ms {row.p99_ms:6.2f} ms {row.raw_per_s:7.0f}"
            f" {row.raw_p50_ms:6.2f} ms {row.raw_p99_ms:6.2f} ms {row.ratio:6.2f}"
        )
    leader = result.leader
    lines += [
        f"one leader: {leader.submits_per_s:.0f} submits/s, {leader.in_flight} in flight",
        f"CPU of a submit: leader {leader.leader_cpu_us:.0f} us (at most"
        f" {leader.leader_limit_per_s:.0f}/s on one core), broker {leader.broker_cpu_us:.0f} us,"
        f" client {leader.client_cpu_us:.0f} us",
        "reads of one job, one at a time, each at the broker of its scheduler; the ratio is that of"
        " the best round",
        " READ AT                  READS       P50       P99  OF THE LEADER'S P50",
    ]
    for read in result.reads:
        lines.append(
            f" {read.kind:22} {read.reads:7} {read.p50_ms:6.2f} ms {read.p99_ms:6.2f} ms"
            f" {read.ratio:20.2f}"
        )
    lines.append(f"on {result.cpu}")
    return "\n".join(lines) + "\n"
