# SPDX-License-Identifier: Apache-2.0
"""The benchmark of the submit path: latency from request to first statement, and jobs per second.

The job is a static program whose first statement reads CLOCK_MONOTONIC, which the benchmark reads
before the request. Every job is a process of its own. The floor is the same program started and
awaited by a C parent with posix_spawn, measured in the same run.
"""

from __future__ import annotations

import asyncio
import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from stoker.mesh.client.client import Client
from stoker.mesh.wire import schema
from stoker.native.errors import StokerError, Unavailable
from stoker.scheduler.nouns import JobState

IN_FLIGHT = 128
"""The most submits that wait for their answer at once."""
ROUNDS = 3
WARM_UP = 20
END_S = 120.0
OPEN_STATES: tuple[JobState, ...] = ("pending", "starting", "running", "stopping")


class SubmitPrograms(msgspec.Struct, frozen=True):
    """Absolute paths of the no-op, which jobs must be able to read, and of the floor's C parent."""

    noop: str
    floor: str


class SubmitRow(msgspec.Struct, frozen=True):
    """The figures of one kind of job.

    Rates are the median of ROUNDS; `ratio` is jobs_per_s / floor_per_s.
    """

    gpu_milli: int
    jobs: int
    start_p50_ms: float
    start_p99_ms: float
    start_max_ms: float
    jobs_per_s: float
    rounds_per_s: tuple[float, ...]
    floor_per_s: float
    ratio: float


class SubmitResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result; its top-level figures are those of jobs without a GPU."""

    schema: str = schema.VERSION
    bench: str = "submit"
    start_p50_ms: float
    start_p99_ms: float
    jobs_per_s: float
    floor_per_s: float
    ratio: float
    floor_parallel_per_s: float
    """The floor with one process per CPU at once."""
    rows: tuple[SubmitRow, ...]


Report = Callable[[str], None]


async def measure(
    client: Client, programs: SubmitPrograms, jobs: int, cpus: int, report: Report
) -> SubmitResult:
    """Measure jobs without a GPU, then jobs with 1/1000 of a GPU if there is one."""
    shares = [0] + ([1] if (await client.devices()).devices else [])
    rows = [await _row(client, programs, jobs, milli, report) for milli in shares]
    parallel = await _floor(programs, jobs, cpus)
    first = rows[0]
    return SubmitResult(
        start_p50_ms=first.start_p50_ms,
        start_p99_ms=first.start_p99_ms,
        jobs_per_s=first.jobs_per_s,
        floor_per_s=first.floor_per_s,
        ratio=first.ratio,
        floor_parallel_per_s=parallel,
        rows=tuple(rows),
    )


async def _row(
    client: Client, programs: SubmitPrograms, jobs: int, milli: int, report: Report
) -> SubmitRow:
    request = schema.JobRequest(
        argv=(programs.noop,), cwd="/", gpu_milli=milli, device_kind="any", name="noop"
    )
    for _ in range(WARM_UP):
        await _start_latency(client, request)
    report(f"{jobs} jobs at {milli} milli-shares, one after the other")
    latencies = sorted([await _start_latency(client, request) for _ in range(jobs)])
    rates, floors = [], []
    for number in range(1, ROUNDS + 1):
        report(f"{jobs} jobs at {milli} milli-shares at once, round {number} of {ROUNDS}")
        floors.append(await _floor(programs, jobs, 1))
        rates.append(await _rate(client, request, jobs))
    rate, floor = statistics.median(rates), statistics.median(floors)
    return SubmitRow(
        gpu_milli=milli,
        jobs=jobs,
        start_p50_ms=percentile(latencies, 50) / 1e6,
        start_p99_ms=percentile(latencies, 99) / 1e6,
        start_max_ms=latencies[-1] / 1e6,
        jobs_per_s=rate,
        rounds_per_s=tuple(rates),
        floor_per_s=floor,
        ratio=rate / floor,
    )


def percentile(ordered: Sequence[int], percent: int) -> int:
    """Return the smallest value that `percent` of the ordered values do not exceed (nearest
    rank)."""
    return ordered[max(0, -(-len(ordered) * percent // 100) - 1)]


async def _start_latency(client: Client, request: schema.JobRequest) -> int:
    """Return the ns from before the request to the job's first statement."""
    began_ns = time.monotonic_ns()
    job = (await client.submit(request)).job
    view = await client.wait(job)
    if view.state != "succeeded":
        raise StokerError(f"no-op job {job} {view.state}: {view.reason or 'no reason given'}")
    return _first_statement(await client.logs(schema.LogsRequest(job=job, wait_s=1.0))) - began_ns


def _first_statement(logs: schema.LogsView) -> int:
    if not logs.data.strip().isdigit():
        raise StokerError(f"no-op job {logs.job} printed {logs.data[:40]!r} and not its start")
    return int(logs.data)


async def _rate(client: Client, request: schema.JobRequest, jobs: int) -> float:
    """Return the jobs per second from the first submit until the last end is known here."""
    gate = asyncio.Semaphore(IN_FLIGHT)

    async def one() -> int:
        async with gate:
            return (await client.submit(request)).job

    began = time.monotonic()
    numbers = await asyncio.gather(*(one() for _ in range(jobs)))
    await _all_ended(client, max(numbers), began + END_S)
    took = time.monotonic() - began
    await _all_succeeded(client, numbers)
    return jobs / took


async def _all_ended(client: Client, newest: int, deadline: float) -> None:
    """Wait for all jobs, with one request at a time: for one open job, then for the next."""
    job = newest
    while True:
        await client.wait(job)
        left = await anext(client.list_all(schema.ListRequest(states=OPEN_STATES, limit=1)), None)
        if left is None:
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"job {left.job} is still {left.state}")
        job = left.job


async def _all_succeeded(client: Client, numbers: Sequence[int]) -> None:
    wanted = set(numbers)
    request = schema.ListRequest(states=("succeeded",), limit=schema.LIST_MAX)
    async for job in client.list_all(request):
        wanted.discard(job.job)
        if job.job < min(numbers):
            break
    if wanted:
        raise StokerError(f"{len(wanted)} no-op jobs did not succeed, job {min(wanted)} first")


async def _floor(programs: SubmitPrograms, jobs: int, window: int) -> float:
    """Return the programs per second of the C parent with `window` of them at once."""
    command = [programs.floor, str(jobs), str(window), programs.noop]
    done = await asyncio.to_thread(
        subprocess.run, command, capture_output=True, timeout=END_S, check=False
    )
    if done.returncode:
        raise StokerError(f"{Path(programs.floor).name}: {done.stderr.decode().strip()}")
    return float(done.stdout)
